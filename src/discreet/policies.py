"""Policies: what is deployed, as plain public data. Public names of :mod:`discreet.base.policies`."""

from discreet.base.policies import (
    MIXED,
    AnyPolicy,
    Mixture,
    Policy,
    StochasticPolicy,
    labelled,
    load_policy,
    policy_content,
    policy_of,
    policy_tables,
    uniform_policy,
)

__all__ = [
    "MIXED",
    "AnyPolicy",
    "Mixture",
    "Policy",
    "StochasticPolicy",
    "labelled",
    "load_policy",
    "policy_content",
    "policy_of",
    "policy_tables",
    "uniform_policy",
]

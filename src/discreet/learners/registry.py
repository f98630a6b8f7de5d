"""The learners that have a name on the command line, with their options.

An option of a learner is a field of its class; its default and its type are read off the class, so there is nothing to
keep in step. No option of a learner touches privacy.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from types import NoneType
from typing import Any, get_args, get_type_hints

from discreet.errors import InvalidInput, unknown_name
from discreet.learners.adversarial import UCOREPS, UOBLBPS, UOBREPS
from discreet.learners.base import Learner
from discreet.learners.elimination import PolicyElimination
from discreet.learners.heavy_tailed import HeavyUCBPO, HeavyUCBVI
from discreet.learners.linear import PEVI, VAPVI
from discreet.learners.local_optimistic import OBI
from discreet.learners.optimistic import UCBVI
from discreet.learners.pessimistic import APVI
from discreet.learners.policy_optimisation import UCBPO
from discreet.learners.posterior import PSRL

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WORDS = {bool: "true or false", int: "a whole number", float: "a number"}
_NOT_KNOBS = ("name", "needs")


@dataclass(frozen=True)
class NamedLearner:
    """How to make a learner, what it is in one line, and where it comes from."""

    make: type[Any]
    summary: str
    source: str

    @property
    def options(self) -> dict[str, Any]:
        """Option names and their defaults."""
        return {
            knob.name: knob.default if knob.default_factory is MISSING else knob.default_factory()
            for knob in fields(self.make)
            if knob.name not in _NOT_KNOBS
        }


LEARNERS: dict[str, NamedLearner] = {
    "ucbvi": NamedLearner(
        UCBVI,
        "optimistic value iteration: plan in the estimated world with a bonus for what is uncertain",
        "Azar, Osband, Munos (2017), on private counts",
    ),
    "ucbpo": NamedLearner(
        UCBPO,
        "optimistic policy optimisation: improve a stochastic policy along optimistic values of itself",
        "Shani, Efroni, Rosenberg, Mannor (2020); Chowdhury, Zhou (2022)",
    ),
    "heavy-ucbvi": NamedLearner(
        HeavyUCBVI,
        "optimistic value iteration for rewards of which only a moment is bounded",
        "Private-Heavy-UCBVI, repaired; Zhuang, Sui (2021) without privacy",
    ),
    "heavy-ucbpo": NamedLearner(
        HeavyUCBPO,
        "optimistic policy optimisation for rewards of which only a moment is bounded",
        "Private-Heavy-UCBPO, its sign corrected",
    ),
    "obi": NamedLearner(
        OBI,
        "optimism with bounds on the noise of every count, as printed or tight; made for the local model",
        "LDP-OBI of Garcelon, Perchet, Pike-Burke, Pirotta (2021)",
    ),
    "psrl": NamedLearner(
        PSRL,
        "posterior sampling: play the best policy of a world drawn from what is known",
        "Osband, Russo, Van Roy (2013); LDP-PSRL of Garcelon et al. (2021)",
    ),
    "apvi": NamedLearner(
        APVI,
        "offline: pessimistic value iteration, plans with a penalty for what the data do not show",
        "Yin and Wang (2021); DP-APVI, Qiao and Wang (2023)",
    ),
    "policy-elimination": NamedLearner(
        PolicyElimination,
        "explore with all policies that may still be the best, drop those that cannot be; few policy changes",
        "Qiao, Yin, Min, Wang (2022); SDP-PE of Bai, Talebi, Zhao, Cheng, Chen",
    ),
    "uc-o-reps": NamedLearner(
        UCOREPS,
        "layered worlds, adversarial losses, full information: follow the regularised leader over occupancy measures",
        "Rosenberg, Mansour (2019); Private-UC-O-REPS of Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen",
    ),
    "uob-lbps": NamedLearner(
        UOBLBPS,
        "layered worlds, adversarial losses, bandit feedback: mirror descent with a log barrier",
        "Private-UOB-LBPS of Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen, its loss estimate corrected",
    ),
    "uob-reps": NamedLearner(
        UOBREPS,
        "layered worlds, adversarial losses, bandit feedback without privacy: mirror descent with relative entropy",
        "Jin, Jin, Luo, Sra, Yu (2020)",
    ),
}

# Learners that ask linear questions of one data set: they have features, and no online form.
LINEAR_LEARNERS: dict[str, NamedLearner] = {
    "vapvi": NamedLearner(
        VAPVI,
        "offline, linear features: pessimistic value iteration on weighted regressions, by linear questions",
        "Yin, Duan, Wang, Wang (2022); DP-VAPVI, Qiao and Wang (2023)",
    ),
    "pevi": NamedLearner(
        PEVI,
        "offline, linear features: pessimistic value iteration on plain regressions, by linear questions",
        "Jin, Yang, Wang (2021)",
    ),
}


def find_learner(name: str) -> NamedLearner:
    """The entry of that name, or an error with the nearest names."""
    if name not in LEARNERS:
        raise unknown_name("learner", name, LEARNERS)
    return LEARNERS[name]


def make_learner(name: str, /, **options: Any) -> Learner:
    """Make a learner by name; option values may be text, as a command line gives them.

    >>> make_learner("ucbvi", bonus_scale="0.1")
    UCBVI(bonus='hoeffding', bonus_scale=0.1, noise_scale=0.2, threshold=1.5, failure_probability=0.1)
    """
    entry = find_learner(name)
    types = get_type_hints(entry.make)
    arguments = {}
    for given, value in options.items():
        option = given.replace("-", "_")
        if option not in entry.options:
            raise unknown_name(f"option of learner {name}:", given, entry.options)
        arguments[option] = parse_value(option, value, types[option]) if isinstance(value, str) else value
    learner: Learner = entry.make(**arguments)
    return learner


def parse_value(option: str, text: str, annotation: Any) -> Any:
    """Text as a value of the annotated type: bool, int, float, or any of them or None. Other types stay text."""
    kinds = get_args(annotation) or (annotation,)
    if NoneType in kinds and text.lower() == "none":
        return None
    kind = next(kind for kind in kinds if kind is not NoneType)
    if kind not in _WORDS:
        return text
    try:
        return _TRUTH[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise InvalidInput(f"option {option} must be {_WORDS[kind]}, got {text!r}") from None

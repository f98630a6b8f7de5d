"""``discreet evaluate``: the exact value of a policy where the world is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli import options as o
from discreet.cli.output import check_outputs, print_facts, write_json
from discreet.errors import InvalidInput


def evaluate(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy that discreet saved (.json, .npz).")],
    world: o.WorldName = "river-swim",
    states: o.States = None,
    actions: o.Actions = None,
    horizon: o.Horizon = None,
    world_option: o.WorldOptions = None,
    instance: o.Instance = None,
    homogeneous: o.Homogeneous = None,
    json: o.JsonFile = None,
) -> None:
    """Compute what a policy is worth in a known world, next to the best policy and to uniform play."""
    check_outputs(json_file=json)
    shorthands = {"states": states, "actions": actions, "horizon": horizon, "instance": instance}
    chosen = o.choose_world(world, shorthands, world_option, homogeneous)
    from discreet.policies import load_policy, uniform_policy
    from discreet.worlds.tabular import TabularWorld

    if not isinstance(chosen, TabularWorld):
        raise InvalidInput(f"world {world} is drawn at random: fix one with --instance SEED")
    value = chosen.value(load_policy(policy))
    facts = {
        "world": chosen.name,
        "value": value,
        "optimal_value": chosen.optimal_value,
        "gap": max(0.0, chosen.optimal_value - value),
        "uniform_value": chosen.value(uniform_policy(chosen.shape)),
    }
    write_json(json, facts)
    words = {"optimal_value": "best policy", "uniform_value": "uniform play"}
    print_facts(
        (words.get(name, name), f"{fact:.6g}" if isinstance(fact, float) else str(fact)) for name, fact in facts.items()
    )

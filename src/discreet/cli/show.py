"""``discreet show``: a policy as a table to read, one line for each state and run of steps with one action."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.base.errors import InvalidInput, unknown_name
from discreet.cli.output import print_facts, print_table

if TYPE_CHECKING:
    from discreet.base.policies import AnyPolicy


def show(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy that discreet saved (.json, .npz).")],
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only this state, by label or number; may be repeated.")
    ] = None,
    first_step: Annotated[
        int | None, typer.Option("--first-step", help="The number of the first step, where the file does not say it.")
    ] = None,
) -> None:
    """Print a policy: for every state the action to take, with steps of the same action in one line."""
    from discreet.base.policies import load_policy

    loaded = load_policy(policy)
    chosen = None if state is None else [state_number(loaded, text) for text in state]
    if first_step is not None and first_step < 0:
        raise InvalidInput(f"--first-step must not be negative, got {first_step}")
    print_policy(loaded, states=chosen, first=first_step)


def print_policy(
    policy: AnyPolicy,
    *,
    states: list[int] | None = None,
    most: int | None = None,
    file: Path | None = None,
    first: int | None = None,
) -> None:
    """The table of a policy, or its first ``most`` rows and how to see the others; steps as in its table."""
    from discreet.tables.policy_table import policy_rows

    first = (policy.columns or {}).get("first_step", 0) if first is None else first
    rows = list(islice(policy_rows(policy, states, first), None if most is None else most + 1))
    cut = most is not None and len(rows) > most
    print_table(["state", "steps", "action"], rows[:most])
    if cut:
        typer.echo(f"... more rows: discreet show {file}")
    if states is None:
        steps = f"{_many(policy.horizon, 'step')}, counted from 0"
        if (policy.columns or {}).get("step_names"):
            steps = (
                f"{_many(policy.horizon, 'step')}, named as in the table; policy.act(step, state) counts them from 0"
            )
        elif first:
            steps = f"steps {first} to {first + policy.horizon - 1}; policy.act(step, state) counts them from 0"
            steps += "" if policy.columns is None else ", and act of a raw row as here"
        print_facts([("", f"{_many(policy.states, 'state')}; {steps}")])


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def state_number(policy: AnyPolicy, text: str) -> int:
    """The number of a state that is given by its label, or by its number where there are no labels."""
    if policy.state_labels is not None:
        if text not in policy.state_labels:
            raise unknown_name("state", text, policy.state_labels)
        return policy.state_labels.index(text)
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) < policy.states):
        raise InvalidInput(f"--state must be a number in 0..{policy.states - 1}, got {text[:40]!r}")
    return int(text)

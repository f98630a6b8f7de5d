"""``discreet check``: the owner's loud validator of a table. What it prints is not private."""

from __future__ import annotations

import typer

from discreet.cli import train as t
from discreet.cli.output import print_table


def check(
    data: t.Source,
    user: t.User,
    step: t.Step,
    state: t.State,
    action: t.Action,
    reward: t.Reward = None,
    episode: t.Episode = None,
    next_state: t.NextState = None,
    states: t.States = None,
    actions: t.Actions = None,
    horizon: t.Horizon = None,
    rewards: t.Rewards = (0.0, 1.0),
    per_user: t.PerUser = 1,
    homogeneous: t.Homogeneous = False,
    first_step: t.FirstStep = 0,
    table: t.TableName = None,
) -> None:
    """Count, for the owner of the data, every row that a release would repair silently. NOT private."""
    from discreet.data.check import NOT_PRIVATE
    from discreet.data.check import check as run

    opened = t.open_table(
        data, user=user, step=step, state=state, action=action, reward=reward, episode=episode, next_state=next_state,
        states=states, actions=actions, horizon=horizon, rewards=rewards, per_user=per_user, homogeneous=homogeneous,
        first_step=first_step, table=table,
    )  # fmt: skip
    report = run(opened)
    print_table(["count", "finding"], [[f"{count:,}", what] for what, count in report.findings])
    verdict = "nothing to repair" if report.clean else "a release repairs the rows above, silently"
    typer.echo(f"{report.rows:,} rows, {report.users:,} users; {verdict}.")
    typer.echo(NOT_PRIVATE)

"""Tables with random damage, judged by the public ``evaluate``: how often what users did is called better than itself.

    python -m experiments.damaged_tables                    # 2,000 releases, resumable, with real noise
    python -m experiments.damaged_tables --decided 300      # and where the policy is four deviations better

Every release has a fresh random world (2 to 4 states, 2 or 3 actions, 1 to 4 steps), 1,500 to 4,000 users who all act
by one random behaviour, epsilon 1 to 8, a rule for missing rows, a kind of damage that hits 2% to 40% of what it can,
at random or by the state, and a behaviour that is declared, or not. The policy that is judged *is* the behaviour:
*better* and *worse* are wrong. ``--decided`` judges the policies of ``power`` in :mod:`experiments.missing_rows`:
20,000 people, epsilon 2, 2%, 10% or 30% missing at random. Words are counted in ``experiments/damaged_tables.json``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import discreet
from discreet.base.types import Floats, Integers, Mask
from experiments import missing_rows

STORED = Path(__file__).with_suffix(".json")
KINDS = (
    "states", "actions", "rewards", "users", "last rows", "first rows", "gaps", "ties", "out of domain", "early ends"
)  # fmt: skip


def people(kind: str, rng: np.random.Generator) -> tuple[pd.DataFrame, Floats, dict[str, Any]]:
    """A damaged table, the behaviour (S, A) of everybody in it, and how it is declared."""
    S, A, H, users = (int(rng.integers(*each)) for each in ((2, 5), (2, 4), (1, 5), (1500, 4001)))
    behaviour, means = 0.7 * rng.dirichlet(np.ones(A), S) + 0.3 / A, rng.random((S, A))
    moves, edges = rng.dirichlet(np.ones(S), (S, A)).cumsum(axis=2), behaviour.cumsum(axis=1)
    rate, by_state = rng.uniform(0.02, 0.4), rng.random() < 0.5
    hurt = np.clip(rate * (rng.uniform(0, 2, S) if by_state else np.ones(S)), 0, 0.8)
    state, columns = rng.integers(S, size=users), []
    for step in range(H):
        action = drawn(edges[state], rng)
        reward = (rng.random(users) < means[state, action]).astype(float)
        hit: Mask = rng.random(users) < hurt[state]
        columns.append(np.stack([np.arange(users), np.full(users, step), state, action, reward, hit], axis=1))
        state = drawn(moves[state, action], rng)
    rows = pd.DataFrame(np.concatenate(columns), columns=["u", "t", "s", "a", "r", "hit"])
    hit = rows.pop("hit").to_numpy() > 0
    return damage(rows, kind, hit, H, rng), behaviour, {
        "states": S, "actions": A, "horizon": H, "missing": str(rng.choice(["end", "drop"])),
        "early_end": kind == "early ends" or bool(rng.random() < 0.5),
    }  # fmt: skip


def damage(rows: pd.DataFrame, kind: str, hit: Mask, horizon: int, rng: np.random.Generator) -> pd.DataFrame:
    """The rows, with those that are hit damaged."""
    step, who = rows["t"].to_numpy(), rows["u"].to_numpy().astype(int)
    first_hit = np.zeros(who.max() + 1, np.bool_)
    first_hit[who[hit & (step == 0)]] = True
    match kind:
        case "states" | "actions" | "rewards":
            rows.loc[hit, kind[0]] = np.nan
        case "out of domain":
            rows.loc[hit, "s"] = 99
        case "users":
            return rows[~first_hit[who]]
        case "last rows" | "first rows" | "gaps":
            where = {"last rows": horizon - 1, "first rows": 0, "gaps": horizon // 2}[kind]
            return rows[~(hit & (step == where))]
        case "ties":  # the same step once more, as another visit was entered
            again = rows[hit].sample(frac=1.0, random_state=int(rng.integers(2**31)))
            again = again.assign(u=rows.loc[hit, "u"].to_numpy(), t=rows.loc[hit, "t"].to_numpy())
            return pd.concat([rows, again])
        case "early ends":
            over = rows.assign(hit=hit).groupby("u")["hit"].cumsum() - hit > 0
            return rows[~over]
    return rows


def drawn(edges: Floats, rng: np.random.Generator) -> Integers:
    """One of a row's entries for everybody."""
    found: Integers = np.minimum((rng.random(len(edges))[:, None] > edges).sum(axis=1), edges.shape[1] - 1)
    return found


def release(number: int) -> tuple[str, str]:
    """The kind of damage, with whether the behaviour was declared, and the word of the verdict."""
    rng = np.random.default_rng([36, number])
    kind, declared = KINDS[number % len(KINDS)], number // len(KINDS) % 2 == 0
    rows, behaviour, names = people(kind, rng)
    table = discreet.data.read(rows, user="u", step="t", state="s", action="a", reward="r", **names)
    policy = discreet.StochasticPolicy(np.broadcast_to(behaviour, (names["horizon"], *behaviour.shape)))
    told: Any = {"behaviour": policy} if declared else {}
    found = discreet.offline.evaluate(table, policy, epsilon=float(rng.choice([1, 2, 4, 8])), delta=1e-6, **told)
    return f"{kind}, {'declared' if declared else 'not declared'}", found.verdict.word


def decided(number: int) -> tuple[str, str]:
    """The share that is missing, and the word of the verdict on a policy that is four deviations better."""
    rate = ("0.02", "0.1", "0.3")[number % 3]
    name = f"random {rate} power 20000 2 declared"
    world, users = missing_rows.fixed("random", float(rate)), 20_000
    paths = missing_rows.drawn(world, "random", float(rate), users, np.random.default_rng([37, number]))
    absent = np.setdiff1d(np.arange(users), paths.user)  # known, without a valid row
    rows = pd.concat(
        [
            pd.DataFrame({"u": paths.user, "t": paths.step, "s": paths.state, "a": paths.action, "r": paths.reward}),
            pd.DataFrame({"u": absent, "t": 0, "s": 99, "a": 0, "r": 0.0}),
        ]
    )
    shape = missing_rows.SHAPE
    table = discreet.data.read(
        rows, user="u", step="t", state="s", action="a", reward="r", states=shape.states, actions=shape.actions,
        horizon=shape.horizon, early_end=True,
    )  # fmt: skip
    policy, usual = (
        discreet.StochasticPolicy(np.broadcast_to(each, (shape.horizon, *each.shape)))
        for each in (missing_rows.four_deviations(name), world.behaviour)
    )
    found = discreet.offline.evaluate(table, policy, epsilon=2.0, delta=1e-6, behaviour=usual)
    return f"{rate} missing", found.verdict.word


def main() -> None:
    """Go on with what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=2000)
    parser.add_argument("--decided", type=int, default=0)
    given = parser.parse_args()
    stored: dict[str, dict[str, dict[str, int]]] = {"itself": {}, "decided": {}}
    if STORED.exists():
        stored = json.loads(STORED.read_text())
    for what, asked, draw in (("decided", given.decided, decided), ("itself", given.releases, release)):
        for number in range(sum(sum(each.values()) for each in stored[what].values()), asked):
            kind, word = draw(number)
            own = stored[what].setdefault(kind, {})
            own[word] = own.get(word, 0) + 1
            STORED.write_text(json.dumps(stored, indent=1) + "\n")
    print(json.dumps(stored, indent=1))


if __name__ == "__main__":
    main()

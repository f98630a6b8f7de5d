"""A made-up hospital: patients whose condition and lactate are noted every day, four treatments, and how it ended.

A patient is discharged (outcome +1), dies (-1), or is still there after 14 days (no outcome). As in real tables some
entries are missing and some treatments are not on the list. Because the world is made up, the value of any policy in it
is known exactly:

    python examples/hospital/patients.py make patients.csv          # 50,000 patients; labels and clinicians.json beside
    python examples/hospital/patients.py value policy.json          # what a learned policy is worth, and others
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from discreet import Policy, StochasticPolicy, load_policy

CONDITIONS = ("stable", "guarded", "serious", "critical")
LACTATES = ("normal", "raised", "high")
STATES = tuple(f"{condition}, {lactate}" for condition in CONDITIONS for lactate in LACTATES)
TREATMENTS = ("wait", "fluids", "vasopressor", "both")
LISTS = {"conditions.txt": CONDITIONS, "lactates.txt": LACTATES, "treatments.txt": TREATMENTS}
DAYS = 14
_MISSING, _OTHER = 0.01, 0.01  # shares of days without a condition, and with a treatment that is not on the list

# What helps most in each state: more treatment the worse it is.
NEAR = (0.6, 0.3, 0.1)  # how likely lactate stays, moves by one, moves by two; out of what is possible
BEST = np.array([0, 0, 1, 0, 1, 1, 1, 2, 2, 2, 3, 3])
S, A = len(STATES), len(TREATMENTS)


def dynamics() -> tuple[np.ndarray, np.ndarray]:
    """Where a day leads (S, A, S), and how often it ends the stay, in discharge or death (S, A, 2)."""
    following, ends = np.zeros((S, A, S)), np.zeros((S, A, 2))
    for state in range(S):
        condition, lactate = divmod(state, len(LACTATES))
        for action in range(A):
            help_ = max(0.0, 1.0 - 0.6 * abs(action - BEST[state]))
            better, worse = 0.10 + 0.40 * help_, 0.40 - 0.30 * help_
            for change, chance in ((-1, better), (0, 1 - better - worse), (1, worse)):
                now = condition + change
                if now < 0:
                    ends[state, action, 0] += chance
                elif now == len(CONDITIONS):
                    ends[state, action, 1] += chance
                else:
                    for other in range(len(LACTATES)):
                        near = (0.6, 0.3, 0.1)[abs(other - lactate)] / sum(
                            (0.6, 0.3, 0.1)[abs(x - lactate)] for x in range(3)
                        )
                        following[state, action, 3 * now + other] += chance * near
    return following, ends


def clinicians() -> np.ndarray:
    """What is done without a policy, (S, A): the best treatment in four cases of ten, else any other."""
    table = np.full((S, A), 0.2)
    table[np.arange(S), BEST] = 0.4
    return table


def make(path: Path, patients: int, seed: int) -> None:
    """Write a table of stays, one line per patient and day."""
    rng = np.random.default_rng(seed)
    following, ends = dynamics()
    usual = clinicians().cumsum(axis=1)
    state = rng.integers(3, 9, patients)  # guarded or serious on arrival
    who = np.arange(patients)
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["patient", "day", "condition", "lactate", "treatment", "outcome"])
        for day in range(DAYS):
            action = (rng.random(len(who))[:, None] > usual[state]).sum(axis=1)
            chance = np.concatenate([following[state, action], ends[state, action]], axis=1).cumsum(axis=1)
            after = np.minimum((rng.random(len(who))[:, None] > chance).sum(axis=1), S + 1)
            lost, other = rng.random(len(who)) < _MISSING, rng.random(len(who)) < _OTHER
            for i, patient in enumerate(who.tolist()):
                condition, lactate = divmod(int(state[i]), len(LACTATES))
                words = ["", ""] if lost[i] else [CONDITIONS[condition], LACTATES[lactate]]
                treatment = "transfusion" if other[i] else TREATMENTS[action[i]]
                lines.writerow([f"p{patient:06d}", day, *words, treatment, {S: 1, S + 1: -1}.get(int(after[i]), "")])
            going = after < S
            who, state = who[going], after[going]


def value(probabilities: np.ndarray) -> float:
    """The average outcome of patients treated by a policy (H, S, A): +1 discharged, -1 died, 0 still there."""
    following, ends = dynamics()
    reward = ends[:, :, 0] - ends[:, :, 1]
    values = np.zeros(S)
    for day in range(DAYS - 1, -1, -1):
        values = (probabilities[day] * (reward + following @ values)).sum(axis=1)
    return float(values[3:9].mean())


def best() -> np.ndarray:
    """The best policy of all, by backward induction, (H, S, A)."""
    following, ends = dynamics()
    reward, values, table = ends[:, :, 0] - ends[:, :, 1], np.zeros(S), np.zeros((DAYS, S, A))
    for day in range(DAYS - 1, -1, -1):
        worth = reward + following @ values
        table[day, np.arange(S), worth.argmax(axis=1)] = 1.0
        values = worth.max(axis=1)
    return table


def compare(path: Path) -> dict[str, float]:
    """What a saved policy is worth, beside the clinicians, a treatment at random, and the best there is."""
    policy = load_policy(path)
    if isinstance(policy, Policy):
        policy = policy.stochastic(A)
    if not isinstance(policy, StochasticPolicy) or policy.state_labels != STATES:
        raise SystemExit("this is not a policy for the patients of this example")
    return {
        "learned": value(policy.probabilities),
        "clinicians": value(np.broadcast_to(clinicians(), (DAYS, S, A))),
        "at random": value(np.full((DAYS, S, A), 1 / A)),
        "best": value(best()),
    }


def main() -> None:
    """Make the table, or compare a policy with others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write the table, and beside it lists of labels and what clinicians do")
    making.add_argument("path", type=Path)
    making.add_argument("--patients", type=int, default=50_000)
    making.add_argument("--seed", type=int, default=0)
    commands.add_parser("value", help="the value of a policy").add_argument("path", type=Path)
    given = parser.parse_args()
    if given.command == "value":
        for name, worth in compare(given.path).items():
            print(f"{name:12} {worth:+.3f}")
        return
    make(given.path, given.patients, given.seed)
    usual = np.broadcast_to(clinicians(), (DAYS, S, A))
    StochasticPolicy(usual, STATES, TREATMENTS).save(given.path.parent / "clinicians.json")
    for name, labels in LISTS.items():
        (given.path.parent / name).write_text("\n".join(labels) + "\n")


if __name__ == "__main__":
    main()

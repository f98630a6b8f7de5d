"""Adversarial losses: Private-UC-O-REPS and Private-UOB-LBPS in layered worlds, in figures, statements and checks.

Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen have no experiments. The **figures**, one for full information and one for
bandit feedback, are those that their theorems describe, in three kinds of worlds: random layers, where it is enough to
play the cheapest action of every state; ``kinds`` and an unrolled RiverSwim, where it matters where one goes and
nothing else does; and, for bandit feedback, arms whose best one changes. The **statements** are about growth with the
episodes and about the worlds. Checks that look inside of a run are in :mod:`experiments.papers.adversarial_checks`.

=====  =============================================================================================================
S2     regret without privacy <= central <= local, at equal epsilon (in the figures, world by world)
S3     regret falls as epsilon grows (the same)
S4     full information <= bandit feedback, without privacy
S5     full-information regret grows like the square root of the number of episodes
S7     bandit regret grows more slowly than the episodes, against an adversary that changes its mind
S9     regret rises with the effective support C_M of the transitions where all else is equal
=====  =============================================================================================================

As published is the paper to the letter: its counters, widths, rates and, for bandit feedback, its estimate of losses.
Certified is its learner with the estimate and the width corrected, on noise that keeps the promise. Ours is that
learner on the auto recipe and, as lines of its own, the perturbed leader, which is this library's and not the paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from experiments.papers.figure import AT, UNIFORM, VERSIONS, Claim, Figure, Job, Scale, Verdict, View, all_of, below

PAPER = "Differentially private no-regret exploration in adversarial Markov decision processes"
EPSILONS = (1.0, 10.0)


class Feedback(NamedTuple):
    """What is seen of losses: the paper's learner for it, and what makes it the printed one."""

    word: str
    learner: str
    name: str
    statistic: str
    printed: dict[str, Any]
    best: tuple[str, str]  # the best line without privacy, and its learner


_BOX = {"width": "published", "nested": False}
FEEDBACK = {
    "full": Feedback(
        "full information", "uc-o-reps", "UC-O-REPS", "loss-tables", {**_BOX, "rate": "published"},
        ("O-REPS, knows the transitions", "o-reps"),
    ),
    "bandit": Feedback(
        "bandit feedback", "uob-lbps", "UOB-LBPS", "observed-losses", {**_BOX, "estimator": "published"},
        ("perturbed leader (ours), no privacy", "perturbed-leader"),
    ),
}  # fmt: skip
_MODELS = {"jdp": ("central", "JDP"), "ldp": ("local", "LDP")}
_LAYERED = "random layers"
PLACES: dict[str, dict[str, Any]] = {
    _LAYERED: {"world": "layered"},
    "kinds": {"world": "kinds"},
    "river": {"world": "river-layers", "world_options": {"states": 4, "horizon": 6}},
    "changing arms": {"world": "changing-arms"},
}
_WORLDS = {"full": (_LAYERED, "kinds", "river"), "bandit": tuple(PLACES)}


def _own(feedback: str) -> dict[str, Any]:
    """The options of this library's learner."""
    return {"feedback": feedback}


def _learner_options(version: str, feedback: str) -> dict[str, Any]:
    return FEEDBACK[feedback].printed if version == "published" else {}


def _clear(version: str, feedback: str, place: str) -> Job:
    """The paper's learner without privacy, as a drawing has it."""
    kind = FEEDBACK[feedback]
    return Job(
        version, f"none{AT}{place}", f"{kind.name}, no privacy", learner=kind.learner, row=place,
        learner_options=_learner_options(version, feedback), **PLACES[place],
    )  # fmt: skip


def _private(version: str, feedback: str, trust: str, epsilon: float, place: str) -> Job:
    kind, (model, letters) = FEEDBACK[feedback], _MODELS[trust]
    recipes = {"published": f"{model}/{kind.statistic}-published", "certified": f"{model}/{kind.statistic}"}
    tree = {"accumulator": "tree"} if version == "certified" and model == "central" and feedback == "full" else {}
    return Job(
        version, f"{trust} {epsilon:g}{AT}{place}", f"{kind.name}, {letters}, ε={epsilon:g}", learner=kind.learner,
        model=model, epsilon=epsilon, recipe=recipes.get(version, "auto"), recipe_options=tree, row=place,
        learner_options=_learner_options(version, feedback), **PLACES[place],
    )  # fmt: skip


def _leader(feedback: str, trust: str, epsilon: float, place: str) -> Job:
    model, letters = _MODELS[trust]
    return Job(
        "ours", f"own {trust} {epsilon:g}{AT}{place}", f"perturbed leader (ours), {letters}, ε={epsilon:g}",
        learner="perturbed-leader", learner_options=_own(feedback), model=model, epsilon=epsilon, row=place,
        **PLACES[place],
    )  # fmt: skip


def _jobs(feedback: str, place: str) -> tuple[Job, ...]:
    line, best = FEEDBACK[feedback].best
    pairs = [(trust, e) for trust in _MODELS for e in EPSILONS]
    options = _own(feedback) if best == "perturbed-leader" else {}
    return (
        Job("reference", f"best{AT}{place}", line, learner=best, learner_options=options, row=place, **PLACES[place]),
        Job("reference", f"{UNIFORM}{AT}{place}", UNIFORM, learner=UNIFORM, row=place, **PLACES[place]),
        *(_clear(version, feedback, place) for version in VERSIONS),
        *(_private(version, feedback, trust, e, place) for version in VERSIONS for trust, e in pairs),
        *(_leader(feedback, trust, e, place) for trust, e in pairs),
    )


def _learns(place: str) -> Claim:
    def check(view: View) -> Verdict:
        idle = view[f"{UNIFORM}{AT}{place}"].total
        return all_of(below(view[f"jdp {e:g}{AT}{place}"].total, idle, f"ε={e:g}") for e in EPSILONS)

    says = f"{place}: the paper's learner under JDP has less regret than uniform play, at both epsilons"
    return Claim(f"learns, {place}", says, check, _VACUOUS)


def _order(place: str) -> Claim:
    def check(view: View) -> Verdict:
        found = []
        for e in EPSILONS:
            clear, joint, local = (view[f"{name}{AT}{place}"].total for name in ("none", f"jdp {e:g}", f"ldp {e:g}"))
            found.append(below(clear, joint, f"none and JDP, ε={e:g}"))
            found.append(below(joint, local, f"JDP and LDP, ε={e:g}"))
        return all_of(found)

    return Claim(f"S2, {place}", f"{place}: no privacy has less regret than JDP, and JDP than LDP", check, _VACUOUS)


def _falls(place: str) -> Claim:
    def check(view: View) -> Verdict:
        low, high = EPSILONS
        return all_of(
            below(view[f"{trust} {high:g}{AT}{place}"].total, view[f"{trust} {low:g}{AT}{place}"].total, trust)
            for trust in _MODELS
        )

    return Claim(f"S3, {place}", f"{place}: regret falls with epsilon", check, _VACUOUS)


_VACUOUS = (
    "confidence boxes of a private run say nothing at this number of users, whatever epsilon is: where transitions "
    "matter the learner plays as if it knew none"
)
_DIFFERENCES = (
    "The paper has no experiments: worlds, adversaries and sizes are this library's. The number of episodes is small "
    "because the paper's learners solve a convex program after every one of them; the claims need runs.",
    "As published, counters are Algorithm 4's with nodes numbered from one; as printed those at the left edge never "
    "close. Losses are clipped to [-E', 1 + E'] before (4.2), which happens with probability delta at most.",
    "UC-O-REPS and UOB-REPS of earlier papers, which update in epochs, are not drawn: without privacy the paper's own "
    "learners with exact counts are.",
    "The panels of auto draw one epsilon of each line; the table has all.",
)


def _hidden(feedback: str) -> tuple[str, ...]:
    name = FEEDBACK[feedback].name
    return tuple(f"{line}, {rest}" for line in (name, "perturbed leader (ours)") for rest in ("JDP, ε=10", "LDP, ε=1"))


def _experiment(feedback: str, slug: str, quick: int) -> Figure:
    places = _WORLDS[feedback]
    return Figure(
        f"adversarial/{slug}",
        f"Private learning against adversarial losses, {FEEDBACK[feedback].word}",
        PAPER,
        tuple(job for place in places for job in _jobs(feedback, place)),
        {"quick": Scale(500, quick), "paper": Scale(500, 20)},
        (
            *(_learns(place) for place in places), *(_order(place) for place in places),
            *(_falls(place) for place in places),
        ),
        differences=_DIFFERENCES,
        hidden={"ours": _hidden(feedback)},
    )  # fmt: skip


FULL = _experiment("full", "full-information", 8)
BANDIT = _experiment("bandit", "bandit", 6)

_GROWING = (500, 2_000)
_FIXED: dict[str, Any] = {"world": "layered", "world_options": {"adversary": "fixed"}}
_KINDS = {"narrow": False, "wide": True}


def _grown(version: str, K: int) -> tuple[Job, ...]:
    """Full information without privacy against a fixed adversary, and bandit feedback under JDP with changing arms."""
    ours, full, bandit = version == "ours", FEEDBACK["full"], FEEDBACK["bandit"]
    steady: dict[str, Any] = {"learner": "perturbed-leader", "learner_options": _own("full")}
    moving: dict[str, Any] = {"learner": "perturbed-leader", "learner_options": _own("bandit")}
    if not ours:
        steady = {"learner": full.learner, "learner_options": _learner_options(version, "full")}
        moving = {"learner": bandit.learner, "learner_options": _learner_options(version, "bandit")}
    recipe = {"published": "central/observed-losses-published", "certified": "central/observed-losses"}
    lines = ("perturbed leader (ours)",) * 2 if ours else (full.name, bandit.name)
    rows = {"S5": "fixed losses", "S7": "changing arms"}
    return (
        Job(version, f"steady{AT}fixed {K}", f"{lines[0]}, no privacy", episodes=K, row=rows["S5"], **steady, **_FIXED),
        Job(version, f"moving{AT}arms {K}", f"{lines[1]}, JDP, ε=10", model="central", epsilon=10.0, episodes=K,
            row=rows["S7"], recipe=recipe.get(version, "auto"), **moving, **PLACES["changing arms"]),
    )  # fmt: skip


def _idle(K: int) -> tuple[Job, ...]:
    rows: dict[str, tuple[str, dict[str, Any]]] = {
        "fixed": ("fixed losses", _FIXED),
        "arms": ("changing arms", PLACES["changing arms"]),
    }
    return tuple(
        Job("reference", f"{UNIFORM}{AT}{place} {K}", UNIFORM, learner=UNIFORM, episodes=K, row=row, **world)
        for place, (row, world) in rows.items()
    )


def _spread(version: str, kind: str) -> tuple[Job, ...]:
    """Both learners of a version without privacy, where an action leads to few states or to many."""
    world: dict[str, Any] = {"world": "kinds", "world_options": {"wide": _KINDS[kind]}, "episodes": _GROWING[0]}
    jobs = []
    for feedback, about in FEEDBACK.items():
        learner: dict[str, Any] = {"learner": about.learner, "learner_options": _learner_options(version, feedback)}
        if version == "ours":
            learner = {"learner": "perturbed-leader", "learner_options": _own(feedback)}
        jobs.append(
            Job(version, f"{feedback}{AT}{kind}", f"{feedback}, {kind}, no privacy", row="kinds", **learner, **world)
        )
    return tuple(jobs)


def _of_kinds(kind: str) -> tuple[Job, ...]:
    world: dict[str, Any] = {"world": "kinds", "world_options": {"wide": _KINDS[kind]}, "episodes": _GROWING[0]}
    return (
        Job("reference", f"known{AT}{kind}", f"O-REPS, {kind}", learner="o-reps", row="kinds", **world),
        Job("reference", f"{UNIFORM}{AT}{kind}", f"{UNIFORM}, {kind}", learner=UNIFORM, row="kinds", **world),
    )


def _feedback_costs(view: View) -> Verdict:
    pairs = [(view[f"full{AT}{kind}"].total, view[f"bandit{AT}{kind}"].total, kind) for kind in _KINDS]
    return all_of(below(full, bandit, kind) for full, bandit, kind in pairs)


def _growth(what: str, power: float) -> Callable[[View], Verdict]:
    """Whether regret grows by less than this power of the episodes, from the smaller number to the larger one."""
    small, large = _GROWING
    most = (large / small) ** power

    def check(view: View) -> Verdict:
        first, last = (view[f"{what} {K}"].total for K in (small, large))
        return below(last, most * first, f"regret at K = {large:,}, and {most:.3g} times that at {small:,}")

    return check


def _rises_with_support(view: View) -> Verdict:
    found = []
    for feedback in FEEDBACK:
        narrow, wide = (view[f"{feedback}{AT}{kind}"].total for kind in _KINDS)
        found.append(below(narrow, wide, f"{feedback}: narrow and wide"))
        found.append(below(wide, view[f"{UNIFORM}{AT}wide"].total, f"{feedback}: wide and uniform play"))
    known = [view[f"known{AT}{kind}"].total for kind in _KINDS]
    found.append(below(known[1], known[0], "who knows the transitions: wide and narrow"))
    return all_of(found)


_IN_THE_TABLE = tuple(
    line
    for kind in _KINDS
    for line in (*(f"{feedback}, {kind}, no privacy" for feedback in FEEDBACK), f"O-REPS, {kind}", f"{UNIFORM}, {kind}")
)
STATEMENTS = Figure(
    "adversarial/statements",
    "What is said about learning against adversaries: growth with the episodes, and with what there is to know",
    PAPER,
    (
        *(job for K in _GROWING for job in _idle(K)),
        *(job for version in VERSIONS for K in _GROWING for job in _grown(version, K)),
        *(job for kind in _KINDS for job in _of_kinds(kind)),
        *(job for version in VERSIONS for kind in _KINDS for job in _spread(version, kind)),
    ),
    {"quick": Scale(_GROWING[-1], 8), "paper": Scale(_GROWING[-1], 20)},
    (
        Claim("S4", "without privacy full information has less regret than bandit feedback (kinds)", _feedback_costs),
        Claim(
            "S5", "full-information regret grows like the root of K: by less than K^0.75, without privacy",
            _growth(f"steady{AT}fixed", 0.75),
        ),
        Claim(
            "S7", "bandit regret grows more slowly than K (K^0.9) against an adversary that changes its mind, JDP ε=10",
            _growth(f"moving{AT}arms", 0.9),
            "as printed every loss gets an offset E', and dividing by the chance to see it makes rare pairs look "
            "expensive: the policy locks in, and does not find the arm that became good",
        ),
        Claim(
            "S9", "regret rises with the effective support C_M, of learners that learn in both worlds, and not for who "
            "knows the transitions", _rises_with_support,
            "a learner that does no better than uniform play in the wider world shows that it learned nothing there, "
            "not how regret depends on C_M",
        ),
    ),
    drawings=("by episodes",),
    differences=(*_DIFFERENCES[:2], "The worlds of S4 and S9, with one number of episodes, are in the table alone."),
    hidden=dict.fromkeys(VERSIONS, _IN_THE_TABLE),
)  # fmt: skip

FIGURES = (FULL, BANDIT, STATEMENTS)

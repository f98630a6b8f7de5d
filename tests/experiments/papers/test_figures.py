"""Figures are well formed, run to their end at a tiny scale, and their pages say what was measured."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from experiments.papers.drawing import lines_of, rows_of
from experiments.papers.figure import (
    DRAWINGS,
    MEASURED,
    NO_PAPER,
    REFERENCE,
    SCALES,
    UNIFORM,
    VERSIONS,
    Claim,
    Job,
    Measured,
    below,
)

from discreet.cli import main
from discreet.learners import OBI, PEVI, PSRL, UCBVI, UCOREPS, UOBLBPS, VAPVI, HeavyUCBPO, HeavyUCBVI
from discreet.learners.registry import LEARNERS, make_learner
from discreet.papers import PUBLISHED
from discreet.problems.elimination.learners import PolicyElimination
from discreet.recipes.registry import recipes
from discreet.worlds.registry import WORLDS, make_world
from experiments.papers import FIGURES, Figure, Scale, find_figure, heavy_tailed, offline, reproduce

ALL = pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES.keys())
TINY = {"quick": Scale(40, 2), "paper": Scale(40, 2)}


def run_command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *arguments])
    return int(stop.value.code or 0)


def test_every_figure_of_the_papers_is_there():
    wanted = {
        *(f"heavy-tailed/figure-4{letter}" for letter in "ab"),
        *(f"local/figure-{n}" for n in (1, 2, 4, 5, 6, 7, 8, 9)),
        *(f"offline/figure-1{letter}" for letter in "ab"),
        *(f"shuffle/figure-6{letter}" for letter in "abc"),
        "shuffle/figure-7",
        "shuffle/figure-8",
        "heavy-tailed/lower-bounds",
        *(f"adversarial/{what}" for what in ("full-information", "bandit", "statements", "checks")),
    }
    assert wanted <= set(FIGURES)
    assert all(figure.name == name for name, figure in FIGURES.items())


@ALL
def test_a_figure_is_well_formed(figure):
    keys = [job.key for job in figure.jobs]
    assert len(keys) == len(set(keys))
    assert set(figure.scales) == set(SCALES)
    assert set(figure.drawings) <= set(DRAWINGS)
    once = ("ours",) if figure.paper == NO_PAPER else VERSIONS
    assert figure.versions == (once if figure.jobs else (MEASURED,)), "drawn three times over, or measured once"
    assert figure.claims
    assert len({claim.name for claim in figure.claims}) == len(figure.claims)
    assert figure.scales["quick"].runs <= figure.scales["paper"].runs
    for job in figure.jobs:
        assert job.version in (*VERSIONS, REFERENCE)
        assert job.version != REFERENCE or job.model == "none"
        assert job.model != "none" or "no privacy" in job.line or job.version == REFERENCE


@ALL
def test_a_figure_names_what_exists(figure):
    names = {recipe.name for recipe in recipes()}
    for job in figure.jobs:
        assert job.world in {*WORLDS, "arrays", "icu-sepsis"}
        assert job.users is not None or job.learner in {*LEARNERS, UNIFORM}
        assert job.recipe == "auto" or job.recipe in names
        assert job.printed is None or job.printed in PUBLISHED


def small(figure: Figure, lines: int = 1) -> Figure:
    """A few lines of each version, at the smallest epsilon."""
    kept: list[Job] = []
    for version in (REFERENCE, *VERSIONS):
        kept += [job for job in figure.jobs if job.version == version][:lines]
    return replace(figure, jobs=tuple(kept), scales=TINY)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["local/figure-1", "local/figure-9", "offline/figure-1a"])
def test_a_figure_runs_to_its_end(name, tmp_path):
    figure = small(find_figure(name), lines=2)
    done = reproduce(figure, out=tmp_path, executor="threads:1")
    assert not [measured.refused for measured in done.results.values() if measured.refused]
    page = done.page.read_text()
    for picture, paper in (("figure.png", "light"), ("figure-dark.png", "dark")):
        assert (done.page.parent / picture).read_bytes().startswith(b"\x89PNG")
        assert f"({picture}#only-{paper})" in page
    assert f"discreet reproduce {name} --scale quick" in page
    for claim in figure.claims:
        assert claim.says in page
    assert json.loads((done.page.parent / "verdicts.json").read_text()).keys() == done.verdicts.keys()


def test_verdicts_follow_the_numbers(tmp_path):
    """The same claim and its contrary, on the same results, get contrary verdicts."""
    figure = find_figure("local/figure-9")

    def told(view):
        return below(view["earned 0"].samples, view["earned 2"].samples)

    def contrary(view):
        return below(view["earned 2"].samples, view["earned 0"].samples)

    both = replace(
        figure,
        jobs=tuple(job for job in figure.jobs if job.version == "published"),
        claims=(Claim("a", "a", told), Claim("b", "b", contrary, "because of a")),
        scales={"quick": Scale(1, 60), "paper": Scale(1, 60)},
    )
    done = reproduce(both, out=tmp_path, executor="threads:1")
    assert done.verdicts["a"]["published"].holds is True
    assert done.verdicts["b"]["published"].holds is False
    assert done.verdicts["a"]["published"].runs == 60
    page = done.page.read_text()
    assert "✓ holds" in page
    assert "✗ fails" in page
    assert "because of a" in page


def test_list_shows_every_figure_with_its_sizes(capsys, tmp_path):
    assert run_command("--list", "--out", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in FIGURES)
    assert "100,000,000 × 20" in shown
    assert "not run" in shown


@pytest.mark.parametrize(
    "arguments",
    [[], ["local/figure-3"], ["local/figure-9", "--scale", "huge"], ["local/figure-9", "--executor", "somewhere"]],
)
def test_bad_input_is_one_line(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_command(*arguments) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not list(tmp_path.rglob("*.md"))


def test_a_command_writes_the_page(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(FIGURES, "local/figure-9", small(find_figure("local/figure-9"), 2))
    assert run_command("local/figure-9", "--out", str(tmp_path), "--executor", "threads:1") == 0
    assert "indistinguishable" in capsys.readouterr().out
    assert (tmp_path / "local-figure-9" / "quick" / "page.md").exists()
    front = (tmp_path / "index.md").read_text()
    assert "(local-figure-9/quick/page.md)" in front
    assert "fails" in front
    assert "local-figure-1/" not in front, "what was not run is not listed"
    table = (tmp_path / "claims.md").read_text()
    assert "| [local/figure-9](local-figure-9/quick/page.md), quick: 40 × 2 |" in table
    assert f"| {find_figure('local/figure-9').paper} | local/figure-9 | 1 fail" in table
    capsys.readouterr()
    assert run_command("--list", "--out", str(tmp_path)) == 0
    assert "1 statement; quick: " in capsys.readouterr().out


OWN = [figure for figure in FIGURES.values() if figure.jobs and figure.paper != NO_PAPER]


@pytest.mark.parametrize("figure", OWN, ids=[figure.name for figure in OWN])
def test_published_jobs_run_what_the_paper_prints(figure):
    """Learner, prior, constants and noise: nothing under that name is ours. One that is must be found."""
    for job in figure.jobs:
        if job.version != "published":
            continue
        assert not deviations_from_print(job), job.name
    assert deviations_from_print(Job("published", "x", "x", "random-mdp", "psrl", "local", 1.0))
    assert deviations_from_print(Job("published", "x", "x", "river-swim", "ucbvi", "central", 1.0)) == [
        "bonus", "noise",
    ]  # fmt: skip
    assert deviations_from_print(Job("published", "x", "x", "random-mdp", "obi", "local", 1.0,
                                     recipe="local/published-laplace"))  # fmt: skip
    assert deviations_from_print(Job("published", "x", "x", "river-swim", "policy-elimination", "shuffle", 1.0,
                                     recipe="shuffle/three-tables-binomial", per_step=True))  # fmt: skip
    assert all(deviations_from_print(job) for job in NOT_PRINTED)


# What stood under "as published" once, and the defaults of every learner that has a printed form.
NOT_PRINTED = [
    Job("published", "x", "x", "layered", learner, "none")
    for learner in ("heavy-ucbvi", "heavy-ucbpo", "uc-o-reps", "uob-lbps", "vapvi", "pevi", "psrl")
] + [
    Job("published", "x", "x", "layered", "uob-lbps", "central", 1.0, recipe="central/observed-losses-published"),
    Job("published", "x", "x", "river-swim", "heavy-ucbvi", "local", 1.0, recipe="local/heavy-tailed",
        learner_options=heavy_tailed.PRINTED),
    Job("published", "x", "x", "linear-benchmark", "vapvi", "central", rho=1.0, users=5,
        learner_options=offline.PRINTED),
]  # fmt: skip


AS_PRINTED = ("printed", "sum", None)  # bonuses, clip and threshold of the heavy-tailed learners


def deviations_from_print(job: Job) -> list[str]:
    """In what a job is not the published algorithm."""
    learner = make_learner(job.learner, **job.learner_options)
    found = []
    if isinstance(learner, PSRL) and learner != PSRL(prior="published"):
        found.append("prior")
    if isinstance(learner, OBI) and learner.constants == "tight":
        found.append("constants")
    if isinstance(learner, UCBVI) and job.statistic is None:  # of a count only the noise is looked at
        found.append("bonus")
    if isinstance(learner, PolicyElimination) and replace(learner, one_layer=True) != PolicyElimination.published():
        found.append("constants")
    if (
        isinstance(learner, HeavyUCBVI | HeavyUCBPO)
        and (learner.bonuses, learner.clip, learner.threshold) != AS_PRINTED
    ):
        found.append("bonuses")
    if isinstance(learner, UCOREPS | UOBLBPS) and (learner.width != "published" or learner.nested):
        found.append("boxes")
    if isinstance(learner, UCOREPS) and learner.rate != "published":
        found.append("rate")
    if isinstance(learner, UOBLBPS) and learner.estimator != "published":
        found.append("estimator")
    if isinstance(learner, VAPVI) and not (learner.form == "printed" and learner.variance and learner.split):
        found.append("targets")
    if isinstance(learner, PEVI) and not (learner.form == "printed" and learner.beta == 1.0):
        found.append("beta")
    printed = {entry.recipe for entry in PUBLISHED.values()} | {"offline/linear-as-printed"}
    if job.model != "none" and job.recipe not in printed and job.printed is None:
        found.append("noise")
    return found


@pytest.mark.parametrize("figure", OWN, ids=[figure.name for figure in OWN])
def test_a_panel_has_few_lines_and_uniform_play(figure):
    """Six in the figures of experiments that the papers have, eight where a panel shows ours beside the paper's."""
    ran = Measured({"refused": None})
    for version in figure.versions:
        for row in rows_of(figure):
            lines = lines_of(figure, {job.key: ran for job in figure.jobs}, version, row)
            assert len(lines) <= (6 if figure.name.startswith(("local/", "shuffle/", "offline/")) else 8)
            assert any(line.startswith(UNIFORM) for line in lines) or "histogram" in figure.drawings


@pytest.mark.parametrize("name", ["heavy-tailed/figure-4a", "heavy-tailed/figure-4b", "adversarial/full-information",
                                  "adversarial/bandit", "offline/figure-1a"])  # fmt: skip
def test_every_drawing_has_its_own_line_without_privacy(name):
    """The same learner with the same options, steps pooled or not, as every private line of the paper's learner."""
    jobs = FIGURES[name].jobs
    for version in VERSIONS:
        own = [job for job in jobs if job.version == version and "ours" not in job.line]
        what = {
            clear: {
                (j.learner, str(j.learner_options), j.per_step, j.world) for j in own if (j.model == "none") is clear
            }
            for clear in (True, False)
        }
        private, clear = what[False], what[True]
        assert private
        assert private <= clear


def test_a_reference_and_its_line_differ_in_privacy_alone():
    """In the shuffle figures: the same learner, with the same options but who is asked, in the same kind of world."""
    for name in ("shuffle/figure-6c", "shuffle/figure-7"):
        jobs = {job.key: job for job in FIGURES[name].jobs}
        for version in VERSIONS:
            for clear, private in (("pe", "sdp-pe 1"), ("ucbvi", "jdp 1"), ("ucbvi", "ldp 1")):
                one = jobs.get(f"{version}/{clear}") or jobs[f"{REFERENCE}/{clear}"]
                other = jobs[f"{version}/{private}"]
                assert {**one.learner_options, "one_layer": 0} == {**other.learner_options, "one_layer": 0}
                assert (one.learner, one.per_step) == (other.learner, other.per_step)


def test_the_bonus_of_dp_ucbvi_is_above_every_value_at_the_sizes_of_the_shuffle_figures():
    """20 H X E iota / N > H for all N <= K, already with one deviation of one node of the tree in place of E."""
    for name in ("shuffle/figure-6a", "shuffle/figure-6b", "shuffle/figure-6c"):
        for job in FIGURES[name].jobs:
            if job.version == "published" and job.name.startswith(("jdp", "ldp")):
                shape = make_world(job.world, **job.world_options).with_time(homogeneous=False).shape
                S, A, H, K = shape.states, shape.actions, shape.horizon, FIGURES[name].scales["paper"].episodes
                noise = math.sqrt(2) * 3 * H / job.epsilon * math.log2(K)
                if job.name.startswith("ldp"):
                    noise = math.sqrt(2 * K) * 3 * H / job.epsilon
                iota = math.log(30 * H * S * A * K / 0.1)
                assert 20 * S * noise * iota > K

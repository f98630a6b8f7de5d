"""Sweeps: any executor, nothing twice, whole files or none."""

from __future__ import annotations

import json
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from experiments.papers.figure import BEHAVIOUR, UNIFORM, Job, Task
from experiments.papers.records import load_record, load_task
from experiments.papers.run import run_tasks

from discreet.base.errors import InvalidInput
from discreet.base.policies import uniform_policy
from discreet.simulation.experiments import open_executor
from discreet.simulation.simulate import world_of_run
from discreet.worlds.registry import make_world

PLACE = {"world": "river-swim", "world_options": {"states": 3, "horizon": 3}}
JOBS = [
    Job("reference", "clear", "no privacy", learner="ucbvi", **PLACE),
    Job("ours", "central", "central", learner="ucbvi", model="central", epsilon=1.0, delta=1e-5, **PLACE),
]
TASKS = [Task(job, 30, 2, 1) for job in JOBS]


class Counting(Executor):
    """Runs at once, and counts; fails from the n-th task on."""

    def __init__(self, fails_at=None):
        self.submitted, self.fails_at = 0, fails_at

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.submitted += 1
        if self.submitted == self.fails_at:
            future.set_exception(KeyboardInterrupt())
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_what_is_finished_is_not_run_again(tmp_path):
    first, again = Counting(), Counting()
    results = run_tasks(TASKS, tmp_path, first)
    assert (first.submitted, list(results)) == (4, ["reference/clear", "ours/central"]), "a piece for every run"
    resumed = run_tasks(TASKS, tmp_path, again)
    assert again.submitted == 0
    assert resumed["ours/central"].regret.tolist() == results["ours/central"].regret.tolist()
    other = Counting()
    run_tasks([Task(JOBS[0], 30, 2, 2), Task(JOBS[0], 31, 2, 1)], tmp_path, other)
    assert other.submitted == 4


def test_finished_runs_are_kept_and_more_are_added(tmp_path):
    """A job that is cut off goes on with the run that it was at, and is what it would have been at one go."""
    whole = run_tasks([Task(JOBS[1], 30, 4, 1)], tmp_path / "whole", Counting())["ours/central"]
    with pytest.raises(KeyboardInterrupt):
        run_tasks([Task(JOBS[1], 30, 4, 1)], tmp_path, Counting(fails_at=3))
    assert list(load_record(TASKS[1], tmp_path)["runs"]) == ["0", "1", "3"]
    after = Counting()
    resumed = run_tasks([Task(JOBS[1], 30, 4, 1)], tmp_path, after)["ours/central"]
    assert after.submitted == 1
    assert resumed.regret.tolist() == whole.regret.tolist()
    assert resumed.switches.tolist() == whole.switches.tolist()
    more = Counting()
    extended = run_tasks([Task(JOBS[1], 30, 6, 1)], tmp_path, more)["ours/central"]
    assert more.submitted == 2
    assert extended.regret[:4].tolist() == whole.regret.tolist()
    assert len({tuple(run) for run in extended.regret.tolist()}) == 6, "no run twice"


def test_lines_of_other_figures_share_their_runs(tmp_path):
    run_tasks(TASKS[:1], tmp_path, Counting())
    renamed, again = replace(JOBS[0], name="other", line="another name"), Counting()
    assert run_tasks([Task(renamed, 30, 2, 1)], tmp_path, again)["reference/other"].regret.shape[0] == 2
    assert again.submitted == 0


def test_uniform_play_is_computed_and_not_simulated(tmp_path):
    idle = Job("reference", UNIFORM, UNIFORM, learner=UNIFORM, **PLACE)
    found = run_tasks([Task(idle, 30, 2, 1)], tmp_path, Counting())[f"reference/{UNIFORM}"]
    world = make_world("river-swim", states=3, horizon=3)
    assert found.total == pytest.approx(30 * world.gap(uniform_policy(world.shape)), rel=1e-6)
    assert not found.switches.any()


def test_an_interrupted_sweep_keeps_what_it_finished(tmp_path):
    kept = run_tasks(TASKS[:1], tmp_path, Counting())
    with pytest.raises(KeyboardInterrupt):
        run_tasks(TASKS, tmp_path, Counting(fails_at=1))
    after = Counting()
    assert run_tasks(TASKS, tmp_path, after)["reference/clear"].data == load_task(TASKS[0], tmp_path).data
    assert after.submitted == 1
    assert kept["reference/clear"].regret.shape[0] == 2


def test_a_damaged_or_foreign_result_is_run_again(tmp_path):
    run_tasks(TASKS[:1], tmp_path, Counting())
    (file,) = tmp_path.rglob("*.json")
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "version": "0.0.0"}))
    assert load_task(TASKS[0], tmp_path) is None
    file.write_text("{")
    assert load_task(TASKS[0], tmp_path) is None


def test_runs_of_other_defaults_are_stale_and_old_ones_are_taken_as_they_are(tmp_path):
    """A record says which knobs ran: changed defaults are noticed; records from before do not say, and are kept."""
    run_tasks(TASKS[:1], tmp_path, Counting())
    (file,) = tmp_path.rglob("*.json")
    data = json.loads(file.read_text())
    assert data["ran"] == JOBS[0].resolved
    assert "UCBVI(reward_scale=" in data["ran"]
    file.write_text(json.dumps({**data, "ran": data["ran"].replace("reward_scale=", "reward_scale=1")}))
    assert load_task(TASKS[0], tmp_path) is None
    again = Counting()
    run_tasks(TASKS[:1], tmp_path, again)
    assert again.submitted == 2
    assert json.loads(file.read_text())["ran"] == data["ran"]
    file.write_text(json.dumps({name: value for name, value in data.items() if name != "ran"}))
    assert load_task(TASKS[0], tmp_path) is not None


def test_uniform_play_where_losses_change_and_where_nobody_acts(tmp_path):
    """What it loses above the best fixed policy of all losses so far; of a data set it is a gap and no regret."""
    layered = Job("reference", UNIFORM, UNIFORM, "layered", UNIFORM)
    evenly = run_tasks([Task(layered, 40, 2, 3)], tmp_path, Counting())[f"reference/{UNIFORM}"]
    for run in range(2):
        world = world_of_run(make_world("layered"), 3, run)
        tables = world.losses(40)
        lost = (tables * world.occupancy(uniform_policy(world.shape))).sum() - world.best_fixed(tables.sum(axis=0))[0]
        assert evenly.total[run] == pytest.approx(lost, rel=1e-6)
    assert np.ptp(evenly.total) > 0, "each run has its own world"
    offline = Job("reference", UNIFORM, UNIFORM, "linear-benchmark", UNIFORM, users=1, behaviour="mostly-first")
    job = replace(offline, name="b", learner=BEHAVIOUR)
    found = run_tasks([Task(each, 1, 2, 0) for each in (offline, job)], tmp_path, Counting())
    assert all(measured.offline for measured in found.values())
    assert found[f"reference/{UNIFORM}"].gap.mean() < found["reference/b"].gap.mean()


def test_refusals_are_reported_and_not_kept(tmp_path):
    refusing = Job("ours", "x", "x", learner="no-such-learner", **PLACE)
    result = run_tasks([Task(refusing, 30, 1, 0)], tmp_path, Counting())["ours/x"]
    assert "no-such-learner" in result.refused
    assert not list(tmp_path.rglob("*.json"))


def test_published_noise_is_run_at_its_true_epsilon(tmp_path):
    printed = Job(
        "published", "p", "p", learner="ucbvi", model="local", epsilon=1.0, recipe="local/three-tables-laplace",
        printed="published/heavy-tailed-local", per_step=True, **PLACE,
    )  # fmt: skip
    data = run_tasks([Task(printed, 30, 1, 0)], tmp_path, Counting())["published/p"].data
    assert data["guarantee"]["epsilon"] == pytest.approx(5 / 3)
    assert data["claimed"]["epsilon"] == 1.0


def test_noise_that_keeps_no_promise_refuses(tmp_path):
    hopeless = Job(
        "published", "p", "p", learner="ucbvi", model="central", epsilon=1.0,
        recipe="central/three-tables-laplace-tree", printed="published/heavy-tailed-central-raw-counts", **PLACE,
    )  # fmt: skip
    result = run_tasks([Task(hopeless, 30, 1, 0)], tmp_path, Counting())["published/p"]
    assert "no promise" in result.refused


@pytest.mark.parametrize("where", ["processes", "dask:", "threads:many", ""])
def test_executors_that_do_not_exist(where):
    with pytest.raises(InvalidInput), open_executor(where):
        pass


def test_threads_give_what_one_thread_gives(tmp_path):
    with open_executor("threads:2") as pool:
        assert isinstance(pool, ThreadPoolExecutor)
        two = run_tasks(TASKS, tmp_path / "two", pool)
    one = run_tasks(TASKS, tmp_path / "one", Counting())
    assert all(two[key].regret.tolist() == one[key].regret.tolist() for key in one)


@pytest.mark.service
def test_a_dask_cluster_gives_what_threads_give(tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster, open_executor(f"dask:{cluster.scheduler_address}") as pool:  # fmt: skip
        far = run_tasks(TASKS[:1], tmp_path / "far", pool)
    near = run_tasks(TASKS[:1], tmp_path / "near", Counting())
    assert far["reference/clear"].regret.tolist() == near["reference/clear"].regret.tolist()


@pytest.mark.service
def test_no_scheduler_is_one_sentence():
    pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with pytest.raises(InvalidInput, match="no dask scheduler"), open_executor("dask:nonsense://nowhere:1"):
        pass

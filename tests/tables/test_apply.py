"""Raw rows become actions by the rules of the file, the same in every reader."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, StochasticPolicy, labelled, load_policy
from discreet.base.shape import Shape
from discreet.data import Bins, Dates
from discreet.offline import policy_hash
from discreet.tables.apply import rules_of, written
from discreet.tables.policy_arrays import policy_table
from discreet.tables.read.columns import Columns, Declaration, labels_of

STAGES, ARMS, AGES = ("mild", "2", "severe"), ("no", "1"), Bins([0, 40, 60.5, float("inf")])


def declared(states=(STAGES, AGES), actions=(ARMS, 2), **others):
    """Weeks 3 to 5, a state of two columns, an action of two."""
    S, A = len(STAGES) * AGES.size, 4
    return Declaration(
        Columns("who", "week", ("stage", "age"), ("arm", "dose")), Shape(S, A, 3), first_step=3,
        state_parts=states, action_parts=actions, state_labels=labels_of(states), action_labels=labels_of(actions),
        **others,
    )  # fmt: skip


def policy_for(declaration, tables=None):
    """A policy that takes other actions everywhere."""
    S = declaration.shape.states
    actions = (np.arange(3)[:, None] + np.arange(S)) % 4
    given = Policy(actions) if tables is None else tables
    return labelled(given, declaration.state_labels, declaration.action_labels, written(declaration))


def by_hand(stage, age, week):
    """The action of a row, written anew: None where a cell is nothing that was declared."""
    if stage not in STAGES or week not in (3, 4, 5) or age is None or not age >= 0:
        return None
    state = STAGES.index(stage) * 3 + (age >= 40) + (age >= 60.5)
    action = (week - 3 + state) % 4
    return {"arm": ARMS[action // 2], "dose": action % 2}


ROWS = [
    (stage, age, week)
    for stage in (*STAGES, "Mild", None)
    for age in (0.0, 39.99, 40.0, 60.5, 1e9, -1.0, None)
    for week in (2, 3, 5, 6)
]


def frames(folder):
    """The same rows in every reader."""
    import duckdb
    import pandas
    import polars

    frame = polars.DataFrame(
        ROWS, schema={"stage": polars.String, "age": polars.Float64, "week": polars.Int64}, orient="row"
    )
    yield "polars", frame
    yield "arrow", frame.to_arrow()
    yield "pandas", frame.to_pandas()
    yield "objects", pandas.DataFrame(ROWS, columns=["stage", "age", "week"], dtype=object)
    frame.write_csv(folder / "rows.csv")
    frame.write_parquet(folder / "rows.parquet")
    connection = duckdb.connect(str(folder / "rows.duckdb"))
    connection.execute(f"CREATE TABLE t AS FROM '{folder / 'rows.parquet'}'")
    connection.close()
    for name in ("rows.csv", "rows.parquet", "rows.duckdb"):
        yield name, folder / name


def test_every_reader_gives_each_row_the_action_that_the_rules_say(tmp_path, discreet_command):
    policy, wanted = policy_for(declared()), [by_hand(*row) for row in ROWS]
    assert sum(one is not None for one in wanted) == 3 * 5 * 2
    policy.save(tmp_path / "p.json")
    for name, frame in frames(tmp_path):
        if not name.startswith("rows"):
            assert policy.predict(frame) == wanted, name
            continue
        more = ("--table", "t") if name.endswith("duckdb") else ()
        code, out, err = discreet_command("apply", str(tmp_path / "p.json"), str(frame), "--keep", "week", *more)
        lines = [f"{week},{'' if one is None else one['arm']},{'' if one is None else one['dose']}"
                 for (_, _, week), one in zip(ROWS, wanted, strict=True)]  # fmt: skip
        assert (code, out.splitlines()) == (1, ["week,arm,dose", *lines]), name
        assert "140 rows, 30 with an action" in err
        assert "70 rows have no step that the policy knows: look at 'week'." in err


@pytest.fixture
def discreet_command(capsys):
    from discreet.cli import main

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run


def test_one_raw_row_gets_the_same_action_or_names_its_column():
    policy = policy_for(declared())
    for stage, age, week in ROWS:
        row, wanted = {"stage": stage, "age": age, "week": week}, by_hand(stage, age, week)
        if wanted is not None:
            assert policy.act(row) == wanted
            continue
        with pytest.raises(InvalidInput, match="'week'" if week not in (3, 4, 5) else "'stage' and 'age'") as refused:
            policy.act(row)
        assert "Mild" not in str(refused.value)
    assert policy.act({"stage": 2, "age": np.float64(41), "week": "3"}) == policy.act(
        {"stage": "2", "age": 41, "week": 3}
    )
    with pytest.raises(InvalidInput, match="must have the column 'age'"):
        policy.act({"stage": "mild", "week": 3})
    assert policy.act(0, "mild, 40 to 60.5") == "no, 1"  # steps by number count from zero, as before


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_the_file_holds_the_rules_and_the_hash_knows_them(tmp_path, suffix):
    S = declared().shape.states
    drawn = StochasticPolicy(np.full((3, S, 4), 0.25))
    for tables in (None, drawn, Mixture((Policy(np.zeros((3, S), int)),) * 2, [0.5, 0.5])):
        policy = policy_for(declared(), tables)
        policy.save(tmp_path / f"p{suffix}")
        again = load_policy(tmp_path / f"p{suffix}")
        assert (again, again.columns) == (policy, policy.columns)
        assert rules_of(again).state_parts == (STAGES, AGES)
        bare = labelled(policy, policy.state_labels, policy.action_labels)
        moved = labelled(policy, policy.state_labels, policy.action_labels, {**policy.columns, "first_step": 4})
        assert len({policy_hash(one) for one in (policy, bare, moved)}) == 3
        assert bare != policy != moved
    if suffix == ".json":
        assert json.loads((tmp_path / "p.json").read_text())["version"] == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"first_step": "1"}, "plain data"),
        ({"first_step": -1}, "damaged"),
        ({"states": [["mild", "2", "severe"], {"edges": [0, 40, 50, None]}]}, "contradict"),
        ({"states": [9]}, "damaged"),
        ({"states": [["mild", "2"], {"edges": [0, 40, 60.5, None]}]}, "damaged"),
        ({"states": [["mild", "2", "severe"], {"edges": "x"}]}, "damaged"),
        ({"states": None}, "damaged"),
        ({"state": ["stage", 3]}, "damaged"),
        ({"dates": {"days": 0, "origin": None}}, "damaged"),
        ({"dates": [7]}, "damaged"),
        ({"more": 1}, "damaged"),
        ({"actions": [["no", "1"], 1]}, "contradict"),
    ],
)
def test_damaged_rules_are_refused_in_one_sentence(tmp_path, change, said):
    policy_for(declared()).save(tmp_path / "p.json")
    content = json.loads((tmp_path / "p.json").read_text())
    content["columns"] |= change
    (tmp_path / "p.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=said):
        load_policy(tmp_path / "p.json").act({"stage": "mild", "age": 41, "week": 3})


def test_actions_are_drawn_by_their_shares():
    table = np.zeros((3, 9, 4))
    table[:] = [0.5, 0.0, 0.3, 0.2]
    policy, many = policy_for(declared(), StochasticPolicy(table)), 20_000
    import polars

    frame = polars.DataFrame({"stage": ["mild"] * many, "age": [1.0] * many, "week": [3] * many})
    with pytest.raises(InvalidInput, match="pass rng="):
        policy.predict(frame)
    found = policy.predict(frame, np.random.default_rng(1))
    shares = [np.mean([one == {"arm": arm, "dose": dose} for one in found]) for arm in ARMS for dose in (0, 1)]
    # Five deviations of the largest share: .018; with the law .25 each it is .25 away.
    assert np.abs(np.array(shares) - [0.5, 0.0, 0.3, 0.2]).max() < 0.018
    assert shares[1] == 0
    with pytest.raises(Unsupported, match="draw"):
        policy_for(declared(), Mixture((Policy(np.zeros((3, 9), int)),) * 2, [0.5, 0.5])).predict(frame)


def test_what_a_row_cannot_tell_is_refused():
    declaration = declared(dates=Dates(7))
    with pytest.raises(Unsupported, match="first date"):
        policy_for(declaration).act({"stage": "mild", "age": 41, "week": "2026-01-05"})
    dated = policy_for(replace(declared(), first_step=0, dates=Dates(7, "2026-01-05")))
    assert dated.act({"stage": "mild", "age": 41, "week": "2026-01-13"}) == by_hand("mild", 41, 4)
    with pytest.raises(InvalidInput, match="does not say how rows become states"):
        Policy(np.zeros((1, 1), int)).act({"stage": "mild"})
    with pytest.raises(InvalidInput, match="pandas, polars or Arrow, got list"):
        policy_for(declared()).predict([1, 2])
    import polars

    with pytest.raises(InvalidInput, match="has no column 'stage'"):
        policy_for(declared()).predict(polars.DataFrame({"age": [1.0], "week": [3]}))


def test_a_policy_of_other_edges_is_not_judged():
    near = declared(states=(STAGES, Bins([0, 40, 60.50000001, float("inf")])))  # its labels read alike
    assert near.state_labels == declared().state_labels
    assert policy_table("the policy", policy_for(declared()), declared()).shape == (3, 9, 4)
    weeks = replace(declared(), first_step=0, steps=("8", "16", "24"))
    back = replace(weeks, steps=("24", "16", "8"))
    assert policy_table("the policy", policy_for(weeks), weeks).shape == (3, 9, 4)
    for policy, table in ((policy_for(declared()), near), (policy_for(weeks), back)):
        with pytest.raises(InvalidInput, match="by other rules"):
            policy_table("the policy", policy, table)


def test_training_writes_the_rules_of_its_table(tmp_path):
    import polars

    rows = polars.DataFrame({"who": range(400), "arm": [0, 1] * 200, "ok": [0, 1] * 200, "age": [30.5, 50.0] * 200})
    table = discreet.data.read(
        rows, user="who", state="age", action="arm", reward="ok", states=Bins([0, 40, 90]), actions=2, horizon=1
    )
    fit = discreet.offline.train(table, epsilon=8.0)
    fit.policy.save(tmp_path / "p.json")
    again = load_policy(tmp_path / "p.json")
    rng = np.random.default_rng(0)
    assert again.act({"age": 30.5}, rng=rng) in (0, 1)
    assert fit.facts["policy"]["sha256"] == policy_hash(again)

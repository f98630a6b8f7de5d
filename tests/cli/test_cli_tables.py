"""Declaring how a table is read on the command line; what a run leaves does not depend on one user's cells."""

from __future__ import annotations

import inspect
import json
import re
import shlex

import pytest

from discreet.cli import tables, train
from discreet.cli.train import check_line

COLUMNS = ("--user", "who", "--step", "when", "--state", "s", "--action", "a", "--reward", "r")
DOMAIN = ("--states", "2", "--actions", "2", "--horizon", "3")


def test_the_form_of_a_file_and_dates_are_declared(discreet, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('who;when;s;a;r\nu1;2024-01-01;0;0;1\nu1;2024-01-09;1;1;0\nu2;2024-05-01;1;0;"0.5"\n')
    form = ("--csv", "delimiter=;", "--days", "7")
    outcome = discreet("check", str(path), *COLUMNS, *DOMAIN, *form)
    assert outcome.code == 0, outcome.err
    assert "3 rows, 2 users; nothing to repair." in outcome.out
    late = discreet("check", str(path), *COLUMNS, *DOMAIN, *form, "--origin", "2024-01-01")
    assert "2 users; a release repairs" in late.out  # the second user's week is outside the horizon
    assert (late.code, "a larger --horizon" in late.out) == (1, True)


CLEAN = [(user, step, 0, step % 2, 1) for user in range(20) for step in range(3)]


@pytest.mark.parametrize(
    ("rows", "options", "code", "said"),
    [
        (CLEAN, (), 0, []),
        (
            [*CLEAN, (90, 0, 7, 0, 1), (91, 0, 0, 0, 1)],
            (),
            0,
            ["Dropped: 1 row, and all rows of 1 user.", "States: whole"],
        ),
        ([(u, t + 1, s, a, r) for u, t, s, a, r in CLEAN], (), 1, ["give --first-step 1", "Dropped: 60 rows"]),
        ([(u, t + 1, s, a, r) for u, t, s, a, r in CLEAN], ("--first-step", "1"), 0, ["nothing to repair"]),
        (
            [(u, t, s, a + 1, r) for u, t, s, a, r in CLEAN],
            (),
            1,
            ["Actions: whole numbers from 0 to 1 (others are labels, and listed: 1,2)"],
        ),
        ([(u, t, "SECRET", a, r) for u, t, s, a, r in CLEAN], ("--states", "0:1:2"), 1, ["numbers from 0 to 2 count"]),
        ([(u, 2 * t, s, a, r) for u, t, s, a, r in CLEAN], (), 1, ["a larger --horizon", "--missing row keeps"]),
        ([(u, t, s, a, 5) for u, t, s, a, r in CLEAN], (), 0, ["clipped to 0 .. 1 (--rewards)"]),
        ([(None, t, s, a, r) for u, t, s, a, r in CLEAN] + CLEAN, (), 1, ["(--user, --episode)"]),
        (CLEAN, ("--homogeneous",), 0, ["nothing to repair"]),  # though the last rows are no cells of their own
    ],
)
def test_check_fails_where_much_is_dropped_and_names_what_to_change(discreet, tmp_path, rows, options, code, said):
    path = tmp_path / "rows.csv"
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
    path.write_text("\n".join(["who,when,s,a,r", *lines]) + "\n")
    outcome = discreet("check", str(path), *COLUMNS, "--actions", "2", "--horizon", "3", *(
        options if "--states" in options else ("--states", "2", *options)
    ))  # fmt: skip
    assert outcome.code == code, outcome.out
    assert all(words in " ".join(outcome.out.split()) for words in said), outcome.out
    assert ("NOT private" in outcome.out, "SECRET" in outcome.out, outcome.err) == (True, False, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--csv", "separator=;"), "--csv takes delimiter"),
        (("--origin", "2024-01-01"), "give --days or --every, too"),
        (("--days", "7", "--origin", "soon"), "origin must be a date"),
        (("--partition", "site"), "is not in a folder site="),
    ],
)
def test_declarations_that_are_none(discreet, tmp_path, options, message):
    path = tmp_path / "rows.csv"
    path.write_text("who,when,s,a,r\nu1,0,0,0,1\n")
    outcome = discreet("check", str(path), *COLUMNS, *DOMAIN, *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


@pytest.mark.slow
def test_exit_code_outputs_and_users_are_the_same_for_neighbours(discreet, tmp_path):
    path, policy, receipt = tmp_path / "rows.csv", tmp_path / "policy.json", tmp_path / "receipt.json"
    seen = set()
    for cell in ("0", "nan", '"\n9,9,9,9,9\n"', "a" * 3_000_000, '"a"b', "#", "\r"):
        others = "".join(f"u{user},{step},{user % 2},{step % 2},1,ok\n" for user in range(30) for step in range(3))
        path.write_text(f"who,when,s,a,r,note\n{others}x,0,0,0,1,ok\nx,1,{cell},0,1,{cell}\n", newline="")
        command = ("train", str(path), *COLUMNS, *DOMAIN, "--epsilon", "1", "--delta", "1e-6")
        outcome = discreet(*command, "--out", str(policy), "--receipt", str(receipt))
        users = json.loads(receipt.read_text())["declared"]["users"]
        seen.add((outcome.code, outcome.err, users, policy.exists()))
        policy.unlink()
        receipt.unlink()
    assert len(seen) == 1, seen
    assert next(iter(seen))[0] == 0
    assert next(iter(seen))[2] == 31


def test_train_says_what_it_assumed_and_how_to_check_it(discreet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my rows.csv").write_text(
        "who,when,s,a,r\n" + "".join(f"u{user},{step + 1},0,{step % 2},1\n" for user in range(200) for step in range(3))
    )
    options = (
        "my rows.csv", *COLUMNS, *DOMAIN, "--first-step", "1", "--no-early-end", "--rewards", "-1", "2.5",
        "--missing-reward", "1.0", "--missing", "drop", "--homogeneous", "--csv", "line_breaks=no",
    )  # fmt: skip
    spent = ("--epsilon", "5", "--out", "p.json", "--receipt", "r.json")
    outcome = discreet("train", *options, *spent)
    assert outcome.code == 0, outcome.err
    said = " ".join(outcome.out.split())
    assert "the first step is 1; every record has all its steps; a missing reward counts as 1; a record with a" in said
    assert "the first, are in the released table" in said
    line = next(line for line in outcome.out.splitlines() if "for the owner alone: discreet check" in line)
    told = shlex.split(line.partition(": discreet ")[2])
    assert sorted(told) == sorted(["check", *(f"{float(o)}" if o in ("-1", "2.5") else o for o in options)])
    checked = discreet(*told)
    assert (checked.code, "600 rows, 200 users; nothing to repair." in checked.out) == (0, True)
    declared = json.loads((tmp_path / "r.json").read_text())["declared"]
    assert (declared["first_step"], declared["early_end"], declared["missing_reward"]) == (1, False, 1.0)
    defaults = discreet("train", "my rows.csv", *COLUMNS, *DOMAIN, "--first-step", "1", *spent)
    assert "records may end before the horizon, and what follows is worth 0; a missing" in " ".join(
        defaults.out.split()
    )


def test_the_line_of_check_shows_no_address():
    assert check_line("postgres://me:word@host/db", {"user": "u", "table": "t"}).split()[2] == "ADDRESS"


def test_one_decision_needs_no_step_on_the_command_line(discreet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(
        "who,s,a,r\n" + "".join(f"u{user},0,{user % 2},{user % 2}\n" for user in range(400))
    )
    told = (
        "t.csv",
        "--user",
        "who",
        "--state",
        "s",
        "--action",
        "a",
        "--reward",
        "r",
        "--states",
        "1",
        "--actions",
        "2",
    )
    assert "400 users; nothing to repair" in discreet("check", *told, "--horizon", "1").out
    trained = discreet("train", *told, "--horizon", "1", "--epsilon", "5", "--out", "p.json", "--receipt", "r.json")
    assert trained.code == 0, trained.err
    rules = json.loads((tmp_path / "r.json").read_text())["repairs"]
    assert any("several rows for one user with" in rule for rule in rules)
    judged = discreet(
        "evaluate", "p.json", "--data", *told, "--horizon", "1", "--behaviour", "uniform", "--epsilon", "5"
    )
    assert judged.code == 0, judged.err
    refused = discreet("check", *told, "--horizon", "2")
    assert (refused.code, "--step is missing" in refused.err) == (2, True)


def test_steps_are_numbered_as_in_the_table(discreet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"u{user},{step + 1},0,{user % 2},{(user + step) % 2}\n" for user in range(4000) for step in range(3)]
    (tmp_path / "t.csv").write_text("who,when,s,a,r\n" + "".join(lines))
    told = ("t.csv", *COLUMNS, *DOMAIN, "--first-step", "1", "--epsilon", "20", "--out", "p.json")
    trained = discreet("train", *told)
    assert trained.code == 0, trained.err
    assert "steps 1 to 3; policy.act(step, state) counts them from 0" in " ".join(trained.out.split())
    assert re.search(r"^ *0 +1 +1 *$\n *2 +0 *$\n *3 +1 *$", trained.out, re.MULTILINE), trained.out
    assert "steps 1 to 3" in " ".join(discreet("show", "p.json", "--first-step", "1").out.split())
    assert "steps 1 to 3" in discreet("show", "p.json").out  # the file says it
    assert discreet("show", "p.json", "--first-step", "-1").code == 2


ARMS = "who,s,arm,r\n" + "".join(f"u{i},0,{i % 4 + 1},{int(i % 4 == 3)}\n" for i in range(4000))


def test_arms_that_are_counted_from_one_are_listed_and_none_is_lost(discreet, tmp_path):
    """With --actions 4 the arms 1 to 3 are left, and the best one is dropped: it is said, with the remedy."""
    (tmp_path / "arms.csv").write_text(ARMS)
    names = ("--user", "who", "--state", "s", "--states", "1", "--action", "arm", "--reward", "r", "--horizon", "1")
    asked = ("train", str(tmp_path / "arms.csv"), *names, "--epsilon", "4", "--out", str(tmp_path / "p.json"))
    outcome = discreet(*asked, "--actions", "4")
    said = " ".join(outcome.out.split())
    assert outcome.code == 0, outcome.err
    assert "actions are whole numbers from 0 to 3, and rows with others are dropped" in said
    assert "too few for 4,000 users" in said  # 3,000 are there, and noise is about 3
    assert "labels such as 1,2,3,4 are listed" in said
    checked = discreet("check", str(tmp_path / "arms.csv"), *names, "--actions", "4")
    assert (checked.code, "others are labels, and listed: 1,2,3,4" in " ".join(checked.out.split())) == (1, True)
    outcome = discreet(*asked, "--actions", "1, 2,3,4")
    said = " ".join(outcome.out.split())
    assert outcome.code == 0, outcome.err
    assert "actions are whole numbers" not in said
    assert 3900 < int(re.search(r"about ([0-9,]+) ±", said)[1].replace(",", "")) < 4100  # ± 3 deviations of noise of 9
    assert json.loads((tmp_path / "p.json").read_text())["action_labels"] == ["1", "2", "3", "4"]
    assert discreet("check", str(tmp_path / "arms.csv"), *names, "--actions", "1,2,3,4").code == 0


@pytest.mark.parametrize(
    ("labels", "said"), [("1,,2", "an empty label"), ("1,2,1", "different labels"), ("x", "labels such as 1,2,3")]
)
def test_labels_that_cannot_be_are_refused(discreet, tmp_path, labels, said):
    (tmp_path / "arms.csv").write_text(ARMS)
    names = ("--user", "who", "--state", "s", "--states", "1", "--action", "arm", "--reward", "r", "--horizon", "1")
    outcome = discreet("check", str(tmp_path / "arms.csv"), *names, "--actions", labels)
    assert outcome.code == 2
    assert said in outcome.err


def test_options_of_a_table_are_declared_once_and_a_command_may_have_its_own():
    def judge(policy: str, *, state: int = 7, declared: tables.Declared, rest: bool = False) -> None:
        seen.append((policy, state, declared["user"], "state" in declared, rest))

    seen: list[object] = []
    command = tables.with_table(judge)
    found = inspect.signature(command).parameters
    assert [*found][:3] == ["policy", "state", "user"]
    assert [*found][-1] == "rest"
    assert found["state"].default == 7
    assert found.keys() - {"policy", "rest"} == inspect.signature(train.check).parameters.keys() - {"data"}
    command("p", **{name: option.default for name, option in found.items() if name != "policy"})
    assert seen == [("p", 7, None, False, False)]

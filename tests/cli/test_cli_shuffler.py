"""``discreet shuffler`` and what the other commands do with shuffled studies: what they print and what they refuse."""

from __future__ import annotations

import re
import socket
import stat

import pytest
from tests.study.service.small_studies import said
from tests.study.shuffler.two_parties import declared, rows

from discreet.base.errors import Unsupported
from discreet.cli import main
from discreet.study.service.declaration import parse_study, read_study
from discreet.study.service.study_files import places_of, shuffler_folder, shuffler_places_of

ONE = {'recipe = "shuffle/first-visit-tables-randomised-response"': 'recipe = "shuffle/sampled-item"'}

UNSAID = {"local_epsilon = 60": 'local_epsilon = ""'}


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return int(stop.value.code or 0)


def test_new_keeps_the_keys_of_the_parties_apart(tmp_path, capsys):
    file = tmp_path / "walks.toml"
    assert run("study", "new", file, "--model", "shuffle") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "only the coordinator may have it" in said
    assert "only the shuffler may have it" in said
    assert "who must be somebody else than the coordinator" in said
    apart = shuffler_folder(file)
    assert {each.name for each in apart.iterdir()} == {"walks.shuffler.pem", "walks.operator"}
    assert not (apart / "walks.sealing.key").exists()
    assert not (tmp_path / "walks.shuffler.pem").exists()
    secrets = [places_of(file).sealing, shuffler_places_of(apart / file.name).signing]
    assert {stat.S_IMODE(each.stat().st_mode) for each in secrets} == {0o600}
    assert stat.S_IMODE(apart.stat().st_mode) == 0o700
    assert (apart / "walks.operator").read_text() != places_of(file).operator.read_text()
    study = read_study(file)
    assert study.shuffled
    assert study.declaration["shuffle"] == {
        "dropouts": 0.0,
        "colluding": 0.0,
        "local_epsilon": "",
        "address": "",
    }
    file.unlink()
    assert run("study", "new", file, "--model", "shuffle") == 2
    assert "not overwritten" in capsys.readouterr().err


def test_new_knows_all_models_and_refuses_others(tmp_path, capsys):
    assert run("study", "new", tmp_path / "a.toml", "--model", "central") == 0
    assert read_study(tmp_path / "a.toml").model == "central"
    assert run("study", "new", tmp_path / "b.toml", "--model", "shuffled") == 2
    assert "did you mean shuffle" in capsys.readouterr().err
    assert not list(tmp_path.glob("b.*"))


def test_check_says_what_is_left_if_both_collude_and_what_a_device_pays(tmp_path, capsys):
    file = declared(tmp_path, ONE)
    assert run("study", "check", file, "--runs", "0") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "shuffle differential privacy, epsilon 1, delta 1e-05" in said
    assert "if both collude local epsilon" in said
    assert "none of them may side with the coordinator or fail to randomise, and nobody checks" in said
    shares = {"colluding = 0.0": "colluding = 0.25", "tokens = false": "tokens = true"}
    (tmp_path / "other").mkdir()
    other = declared(tmp_path / "other", ONE, shares)
    assert run("study", "check", other, "--runs", "0") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "a share of 0.25 of them, and no more, may side" in said
    assert "nobody checks" not in said
    assert "one sealed message," in said


def test_a_shuffler_says_that_it_cannot_listen(tmp_path, capsys):
    file = declared(tmp_path, ONE)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        second = shuffler_folder(file) / file.name
        assert run("shuffler", second, "--port", taken.getsockname()[1]) == 2
    assert "cannot listen on 127.0.0.1 port" in capsys.readouterr().err
    assert not shuffler_places_of(second).database.exists()


def test_tokens_of_a_shuffled_study_are_made_by_the_shuffler(tmp_path, capsys):
    file = declared(tmp_path, ONE, {"tokens = false": "tokens = true"})
    assert run("study", "tokens", file, "--number", 3, "--out", tmp_path / "out") == 2
    assert "are made by its shuffler" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    second = shuffler_folder(file) / file.name
    assert run("study", "tokens", second, "--number", 3, "--out", tmp_path / "out") == 0
    assert len((tmp_path / "out").read_text().split()) == 3
    assert rows(shuffler_places_of(second).database, "SELECT count(*) FROM tokens") == [(3,)]
    assert not places_of(file).database.exists()


def test_a_shuffler_refuses_what_it_cannot_be(tmp_path, capsys):
    file = declared(tmp_path, ONE)
    assert run("shuffler", file) == 2  # in the coordinator's folder there is no key of the shuffler
    assert "shuffler.pem" in capsys.readouterr().err
    second = shuffler_folder(file) / file.name
    assert run("shuffler", second, "--coordinator", "http://walks.example.org") == 2
    assert "take the https address" in capsys.readouterr().err
    assert run("shuffler", second, "--coordinator", "walks") == 2
    assert "looks like https://" in capsys.readouterr().err
    assert not shuffler_places_of(second).database.exists()
    local = tmp_path / "local.toml"
    assert run("study", "new", local) == 0
    said(local)
    shuffler_places_of(local).signing.write_bytes(places_of(local).signing.read_bytes())
    assert run("shuffler", local) == 2
    assert "this study has no shuffler" in capsys.readouterr().err


def test_a_crowd_needs_the_address_of_the_shuffler(tmp_path, capsys):
    file = declared(tmp_path, ONE)
    world = ("--world", "river-swim", "--states", 2, "--horizon", 2)
    assert run("crowd", file, *world, "--url", "http://127.0.0.1:9") == 2
    assert "--shuffler" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("dropouts = 0.0", "dropouts = 1.0", "leave nobody"),
        ("dropouts = 0.0", "dropouts = -0.1", "at least 0"),
        ('address = ""', 'address = "shuffler"', "looks like https://"),
        ("local_epsilon = 60", 'local_epsilon = "nothing"', 'is a number, or "none"'),
        ("local_epsilon = 60", "local_epsilon = 0", "above 0"),
        ("delta = 1e-5", "delta = 0.0", "delta must be above 0"),
        ("options = { blocks = 3 }", "options = { colluding = 0.1 }", "stands in [shuffle]"),
        ("reports_per_user = 1", "reports_per_user = 2", "a shuffle study with reports_per_user above 1"),
        ("[shuffle]", "[shuffled]", "did you mean"),
        ('model = "shuffle"', 'model = "central"', "shuffle"),
    ],
)
def test_what_is_wrong_in_a_shuffled_study_is_refused(tmp_path, old, new, why):
    text = declared(tmp_path).read_text()
    assert old in text
    with pytest.raises(Exception, match=why.replace("[", r"\[")):
        parse_study(text.replace(old, new))


def test_shares_go_into_the_noise_and_into_the_hash(tmp_path):
    from discreet.study.service.study_mechanism import prepare

    text = declared(tmp_path, ONE).read_text()
    one, two = parse_study(text), parse_study(text.replace("colluding = 0.0", "colluding = 0.5"))
    assert one.hash != two.hash
    assert prepare(two).least_alone < prepare(one).least_alone  # fewer hide her, so she says the truth less often


def test_what_is_left_if_both_act_together_is_declared_and_large_enough(tmp_path, capsys):
    """Without it nothing starts; ``study check`` says what to write, and the hash that this gives."""
    file = declared(tmp_path, ONE, UNSAID)
    second = shuffler_folder(file) / file.name
    for command, where in (("serve", file), ("shuffler", second)):
        assert run(command, where) == 2
        assert "does not say what is left if coordinator and shuffler act together: write" in capsys.readouterr().err
    assert run("study", "check", file, "--runs", "0") == 0
    said = " ".join(capsys.readouterr().out.split())
    (least,) = re.findall(r"write local_epsilon = ([\d.]+) in \[shuffle\]", said)
    assert f"if both collude local epsilon {least} is left for all she sends" in said
    text = file.read_text()
    file.write_text(text.replace('local_epsilon = ""', f"local_epsilon = {least}"))
    assert run("study", "check", file, "--runs", "0") == 0
    assert capsys.readouterr().out.split()[0] == said.split()[0]  # the hash
    file.write_text(text.replace('local_epsilon = ""', f"local_epsilon = {float(least) - 0.1}"))
    assert run("study", "check", file, "--runs", "0") == 2
    assert f"so devices would refuse: write {least}" in capsys.readouterr().err
    file.write_text(text.replace('local_epsilon = ""', 'local_epsilon = "none"'))
    assert run("study", "check", file, "--runs", "0") == 0
    assert 'nothing is left: local_epsilon is "none"' in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("change", [ONE, {}])
def test_honest_rounds_of_every_size_keep_what_participants_are_promised(tmp_path, change):
    """Devices take the laws of every size of batch, and of policies with many items, at the least bound."""
    import numpy as np

    from discreet.base.policies import Policy, StochasticPolicy
    from discreet.client.reports import read_round
    from discreet.client.study import read_study as read_for_device
    from discreet.study.service.study_mechanism import completed, policy_message, prepare

    made = prepare(completed(parse_study(declared(tmp_path, change, UNSAID).read_text())))
    promised, study = made.promise()["alone"], made.study
    assert promised["epsilon"] == study.local_epsilon == made.least_alone
    assert f"(local epsilon {study.local_epsilon:g})" in promised["words"]
    device = read_for_device({"study": dict(study.declaration), "report": made.report_kind()}, study.hash)
    for policy in (Policy(np.zeros((2, 2), int)), StochasticPolicy(np.full((2, 2, 2), 0.5))):
        for users in range(1, made.largest_batch + 1):
            told = {"study": study.hash, "round": 1, "policy": policy_message(policy), "wanted": users}
            read_round(told | {"laws": made.laws(policy, users)}, device)


def test_a_rehearsal_fills_in_what_is_left(tmp_path, capsys):
    from discreet.cli.crowd_service import _copied

    file = declared(tmp_path, ONE, UNSAID)
    (tmp_path / "copy").mkdir()
    copy = read_study(_copied(file, tmp_path / "copy"))
    assert copy.local_epsilon > 1
    assert f"local_epsilon = {copy.local_epsilon} is taken for this rehearsal" in capsys.readouterr().err


def test_several_reports_behind_a_shuffler_are_refused(tmp_path):
    from discreet.study.service.study_mechanism import prepare

    changes = {"reports_per_user = 1": "reports_per_user = 2", "tokens = false": "tokens = true"}
    with pytest.raises(Unsupported, match="has not been worked out"):
        prepare(parse_study(declared(tmp_path, ONE, changes).read_text()))

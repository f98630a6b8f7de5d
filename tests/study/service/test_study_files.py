"""What a study file may say, what its hash depends on, and how it is refused."""

from __future__ import annotations

import hashlib
import json
import stat

import pytest
from tests.study.service.small_studies import CENTRAL, TOKENS, coordinator, declared, said

from discreet.base.errors import DiscreetError, InvalidInput, Unsupported
from discreet.study.service.declaration import parse_study, read_study
from discreet.study.service.study_files import new_study, places_of


def test_a_new_study_is_a_study_with_its_secrets_beside_it(tmp_path):
    file = tmp_path / "which-reminder.toml"
    places = new_study(file)
    study = read_study(file)
    assert study.name == "which-reminder"
    assert study.shape.states == 4
    assert study.window == 3600
    assert study.unsaid == ("title", "about", "epsilon")
    assert study.target().epsilon == 1.0  # of rehearsals
    with pytest.raises(InvalidInput, match="'which-reminder' does not say its title, about and epsilon yet"):
        study.check_said()
    with pytest.raises(InvalidInput, match="title, about and epsilon"):
        coordinator(file)
    assert not places.database.exists()
    said(file, 2.0)
    read_study(file).check_said()
    for secret in (places.signing, places.operator):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    with pytest.raises(InvalidInput, match="not overwritten"):
        new_study(file)


def test_the_hash_is_that_of_the_canonical_declaration_and_of_nothing_else(tmp_path):
    file = declared(tmp_path)
    study, text = read_study(file), file.read_text()
    canonical = json.dumps(dict(study.declaration), sort_keys=True, separators=(",", ":"))
    assert study.hash == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    assert parse_study("# a comment\n" + text.replace("epsilon = 4.0", "epsilon = 4")).hash == study.hash
    assert parse_study(text.replace("reports_per_user = 1", "")).hash == study.hash  # the default, said or not
    assert parse_study(text.replace("epsilon = 4.0", "epsilon = 4.5")).hash != study.hash


def test_labels_and_a_labelled_start(tmp_path):
    text = declared(tmp_path).read_text().replace("states = 2 ", 'states = ["calm", "busy"] ')
    study = parse_study(text.replace("start = 0 ", 'start = "busy" '))
    assert study.shape.states == 2
    assert study.shape.start == 1
    with pytest.raises(InvalidInput, match="did you mean busy"):
        parse_study(text.replace("start = 0 ", 'start = "buzy" '))


def test_a_report_gets_a_part_of_epsilon_that_never_adds_up_to_more(tmp_path):
    text = declared(tmp_path).read_text().replace("reports_per_user = 1", "reports_per_user = 3")
    study = parse_study(text.replace("epsilon = 4.0", "epsilon = 0.7"))
    from fractions import Fraction

    assert 3 * Fraction(study.target().epsilon) <= Fraction(0.7)
    assert 3 * study.target().epsilon > 0.7 * (1 - 1e-12)
    assert study.total == 36


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("epsilon = 4.0", "epsilon = 4.0\nepsilom = 3.0", "epsilom.*did you mean epsilon"),
        ("epsilon = 4.0", "epsilon = -1.0", "epsilon"),
        ("epsilon = 4.0", "", "no epsilon"),
        ("format = 2", "format = 1", "format of a study is 2, got 1: it was written for another release"),
        ('model = "local"', 'model = "shuffle"', "no sealing"),
        ('model = "local"', 'model = "lokal"', "did you mean local"),
        ("delta = 0.0", "delta = 1e-5", "pure privacy"),
        ('name = "small"', 'name = "small study"', "letters, digits and dashes"),
        ('window = "1h"', 'window = "soon"', "1h"),
        ("number = 12", "number = 0", "number"),
        ("number = 12", "number = true", "number"),
        ("rewards = [0.0, 1.0]", "rewards = [1.0, 0.0]", "rewards"),
        ("[users]", "[users", "not TOML"),
        ("[keys]", "[kays]", "kays.*did you mean keys"),
        ("options = {}\n\n[users]", "options = { growth = nan }\n\n[users]", "options"),
    ],
)
def test_what_is_wrong_is_refused_in_one_sentence(tmp_path, old, new, says):
    text = declared(tmp_path).read_text()
    assert old in text
    with pytest.raises(DiscreetError, match=says) as refusal:
        parse_study(text.replace(old, new, 1))
    assert "\n" not in str(refusal.value)


def test_several_reports_in_the_central_model_need_tokens(tmp_path):
    text = declared(tmp_path, CENTRAL, {"reports_per_user = 1": "reports_per_user = 2"}).read_text()
    with pytest.raises(DiscreetError, match="tokens"):
        parse_study(text)
    assert parse_study(text.replace(*next(iter(TOKENS.items())))).most_reports == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"nothing\.toml"):
        read_study(tmp_path / "nothing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_study(tmp_path / "bytes.toml")


def test_places_lie_beside_the_study(tmp_path):
    assert {path.parent for path in places_of(tmp_path / "a.toml")} == {tmp_path}
    assert places_of(tmp_path / "a.b.toml").head.name == "a.b.head"


def test_learners_that_cannot_be_served_are_refused_with_what_would_serve(tmp_path):
    from discreet.study.service.study_mechanism import prepare

    text = declared(tmp_path).read_text()
    assert prepare(parse_study(text.replace('name = "ucbvi"', 'name = "ucbpo"'))).channel.own_actions
    assert not prepare(parse_study(text)).channel.own_actions
    with pytest.raises(Unsupported, match="draws = 1"):
        prepare(parse_study(text.replace('name = "ucbvi"', 'name = "psrl"')))
    one = text.replace('name = "ucbvi"\noptions = {}', 'name = "psrl"\noptions = { draws = 1 }')
    assert prepare(parse_study(one)).learner.name == "psrl"
    with pytest.raises(Unsupported, match="cannot be saved"):
        prepare(parse_study(text.replace('name = "ucbvi"', 'name = "policy-elimination"')))

"""Shuffled studies of JavaScript devices: the coordinator opens what they seal; and types are those of the sources."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import urlsafe_b64decode

import pytest
from node_program import PACKAGE, install, node, run_program

pytestmark = pytest.mark.service


@pytest.fixture(scope="module", autouse=True)
def packages():
    """What only these tests need."""
    pytest.importorskip("cryptography", reason="needs the extra 'serve'")
    install()


def test_what_javascript_seals_python_opens_for_its_study_and_round_alone():
    from discreet.base.errors import InvalidInput
    from discreet.study.service.sealing import RoundKey, bound_to

    key = RoundKey(bytes(range(32)))
    study, numbers = "sha256:" + 64 * "a", [0, 1, 255, 256, 97, 2**31, 2**32 - 1, 97]
    sent = json.loads(run_program("seal.js", key.public.hex(), study, "7", json.dumps(numbers)))
    assert len(set(sent)) == len(numbers)  # also of equal ones
    sealed = [urlsafe_b64decode(text + "==") for text in sent]
    assert {len(each) for each in sealed} == {52}
    opened = [key.open(each, bound_to(study, 7, "message")) for each in sealed]
    assert [int.from_bytes(each, "little") for each in opened] == numbers
    for wrong in (bound_to(study, 8, "message"), bound_to("sha256:other", 7, "message"), bound_to(study, 7, "record")):
        with pytest.raises(InvalidInput):
            key.open(sealed[0], wrong)


def test_a_key_that_is_none_seals_nothing():
    done = subprocess.run(
        [node(), str(PACKAGE / "test" / "helpers" / "seal.js"), "00ff", "study", "1", "[1]"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "the sealing key of the study is none" in done.stderr


@pytest.mark.parametrize("recipe", ["shuffle/first-visit-tables-randomised-response", "shuffle/sampled-item"])
def test_a_shuffled_study_of_javascript_devices_runs_to_its_end(tmp_path, recipe):
    """Coordinator and shuffler are processes of their own; the devices speak to both."""
    from discreet.cli.crowd_service import served
    from discreet.study.service.study_files import new_study, shuffler_folder

    file = tmp_path / "reminders.toml"
    new_study(file, "shuffle")
    changes = {"states": '["anybody"]', "actions": '["a", "b", "c"]', "horizon": "1", "number": "120"}
    changes |= {"epsilon": "4.0", "recipe": f'"{recipe}"'}
    text = file.read_text()
    for key, value in changes.items():
        text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
    text = text.replace("options = {}", "options = { blocks = 4 }", 1)
    file.write_text(text)
    shutil.copy(file, shuffler_folder(file))
    with served(file) as there:
        assert there.shuffler is not None
        printed = run_program("crowd.js", there.url, there.study_hash, "120", "[[0.1, 0.2, 0.9]]", there.shuffler)
    assert len(json.loads(printed)) == 120


def test_types_are_those_of_the_sources():
    npx = shutil.which("npx")
    assert npx is not None
    done = subprocess.run([npx, "tsc", "--project", "tsconfig.json"], cwd=PACKAGE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_client_is_smaller_than_ten_kilobytes_without_hpke():
    """Minified and compressed, as a browser loads it in a central study, or in a local one that asks about steps."""
    done = subprocess.run([node(), "scripts/size.mjs"], cwd=PACKAGE, capture_output=True, text=True, check=True)
    sizes = json.loads(done.stdout)
    assert 5_000 < sizes["minified"] < 10_000
    assert sizes["minified"] < sizes["withAsked"] < sizes["minified"] + 1_000  # what asks one question
    assert sizes["minified"] < sizes["withShuffled"] < sizes["withNode"] < sizes["withAsked"] + 3_000

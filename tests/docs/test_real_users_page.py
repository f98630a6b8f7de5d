"""The devices of the guide to real users are run, as they stand there, against studies that are served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "real-users.md"


def programs() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.service
def test_the_device_of_the_guide_takes_part(tmp_path, monkeypatch, capsys):
    from discreet.cli.crowd_service import served
    from discreet.client.errors import Refused
    from discreet.study.service.study_files import new_study

    new_study(tmp_path / "reminders.toml")
    text = (tmp_path / "reminders.toml").read_text()
    changed = {"states": '["anybody"]', "actions": '["gentle", "funny", "with a picture"]', "horizon": "1"}
    for key, value in changed.items():
        text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
    (tmp_path / "reminders.toml").write_text(text)
    block, _swimmer = programs()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda _question: "yes")
    with served(tmp_path / "reminders.toml") as there:
        program = re.sub(r"sha256:[0-9a-f]{64}", there.study_hash, block).replace("http://127.0.0.1:8000", there.url)
        exec(compile(program, "device.py", "exec"), {})
        said = capsys.readouterr().out.splitlines()
        assert said[0].removeprefix("reminder: ") in ("gentle", "funny", "with a picture")
        assert said[1] == "reports that wait for their time: 1"
        with pytest.raises(Refused, match="it takes no further part"):
            exec(compile(program, "device.py", "exec"), {})


@pytest.mark.service
@pytest.mark.parametrize("learner", ["ucbvi", "ucbpo"])
def test_the_swimmer_of_the_guide_takes_part(tmp_path, monkeypatch, capsys, learner):
    from discreet.cli.crowd_service import served
    from discreet.study.service.study_files import new_study

    new_study(tmp_path / "river.toml")
    text = (tmp_path / "river.toml").read_text().replace('name = "ucbvi"', f'name = "{learner}"')
    (tmp_path / "river.toml").write_text(text)
    _block, swimmer = programs()
    monkeypatch.chdir(tmp_path)
    with served(tmp_path / "river.toml") as there:
        program = re.sub(r"sha256:[0-9a-f]{64}", there.study_hash, swimmer).replace("http://127.0.0.1:8000", there.url)
        exec(compile(program, "swimmer.py", "exec"), {})
    assert capsys.readouterr().out == "reports that wait for their time: 0\n"

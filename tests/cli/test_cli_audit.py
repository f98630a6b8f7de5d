"""The audit command: verdict, picture, files, and an exit code for each outcome."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from discreet.cli.output import plain_errors
from discreet.cli.promises import audit

app = typer.Typer(pretty_exceptions_enable=False)
app.command("audit")(plain_errors(audit))
SMALL = ["--states", "3", "--actions", "2", "--horizon", "2", "--trials", "8000"]


def run(*arguments):
    return CliRunner().invoke(app, [*arguments])


def test_a_claim_that_holds_exits_with_0(tmp_path):
    file = tmp_path / "audit.json"
    result = run("--epsilon", "1", *SMALL, "--json", str(file), "--plot", str(tmp_path / "audit.png"))
    assert result.exit_code == 0
    assert "holds up" in result.output
    assert "'o' second" in result.output
    assert (tmp_path / "audit.png").stat().st_size > 1000
    data = json.loads(file.read_text())
    assert data["holds"] is True
    assert data["lower_bound"] <= data["claimed"] == 1.0


def test_a_convicted_claim_exits_with_1(tmp_path):
    file = tmp_path / "audit.json"
    result = run("--epsilon", "1", "--recipe", "broken/noise-reused", *SMALL, "--json", str(file))
    assert result.exit_code == 1
    assert "FALSE" in result.output
    assert json.loads(file.read_text())["holds"] is False


def test_a_published_recipe_by_name():
    result = run("--epsilon", "1", "--recipe", "published/adversarial-bandit", *SMALL[:-1], "40000")
    assert result.exit_code == 1
    assert "exact" in result.output


def test_a_claim_that_computation_refutes_exits_with_1_whatever_the_runs_show(tmp_path):
    file = tmp_path / "audit.json"
    typed = ["--epsilon", "1", "--delta", "1e-5", "--recipe", "published/ldp-obi-gaussian", "--json", str(file)]
    result = run(*typed, "--states", "2", "--actions", "2", "--horizon", "2", "--homogeneous", "--trials", "2000")
    data = json.loads(file.read_text())
    assert data["holds"] is True
    assert "NOT TRUE" in data["verdict"]
    assert result.output.startswith(data["verdict"])
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", "-1"], "epsilon must be"),
        (["--epsilon", "1", "--delta", "2"], "delta must lie in"),
        (["--epsilon", "1", "--trials", "3"], "trials must be"),
        (["--epsilon", "1", "--horizon", "0"], "horizon must be"),
        (["--epsilon", "1", "--confidence", "1.5"], "confidence must lie"),
        ([], "give either epsilon or rho"),
        (["--privacy", "none"], "nothing to audit"),
        (["--privacy", "centrl", "--epsilon", "1"], "did you mean central"),
        (["--privacy", "shuffle", "--epsilon", "1"], "delta must be above 0"),
        (["--epsilon", "1", "--recipe", "published/ldp-prsl"], "did you mean published/ldp-psrl"),
        (["--epsilon", "1", "--recipe", "broken/noise-halvd"], "did you mean broken/noise-halved"),
        (["--epsilon", "1", "--privacy", "central", "--recipe", "published/ldp-psrl"], "leave --privacy out"),
        (["--epsilon", "1", "--recipe", "published/offline-apvi"], "give rho"),
        (["--epsilon", "1", "--json", "/no/such/folder/a.json"], "does not exist"),
        (["--epsilon", "1", "--plot", "a.txt"], "must end in"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1

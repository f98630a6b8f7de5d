"""The figure of the lower bounds: exponents and verdicts by hand, and a tiny run to its picture."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.reproduce import lower_bounds
from discreet.reproduce.lower_bounds import PLACES, SIZES, Panel, check, draw, exponent, measure
from discreet.reproduce.statements import STATEMENTS, Statements, check_statements

EPISODES = (100, 1_000, 10_000)


def panel(place, order, power, privacy_costs=2.0, spread=0.01):
    """A panel whose regret is a power of K, with runs that spread around it."""
    K, runs = np.array(EPISODES, float)[:, None], 1 + spread * np.linspace(-1, 1, 6)
    clear, private = place.lines
    regret = {clear: K**power * runs, private: privacy_costs * K**power * runs[::-1]}
    return Panel(place, order, EPISODES, regret, privacy_costs * K[:, 0] ** power, K[:, 0] ** power)


def verdicts_on(monkeypatch, make):
    monkeypatch.setattr(lower_bounds, "measure", lambda place, order, *_: make(place, order))
    return {verdict.name: verdict for verdict in check("quick", 0)}


def test_the_exponent_of_a_power_is_its_power():
    K = np.array(EPISODES, float)
    slope, error = exponent(K, np.outer(3 * K**0.62, np.ones(4)))
    assert slope == pytest.approx(0.62)
    assert error == pytest.approx(0, abs=1e-12)
    # Three points a decade apart: the slope is half the difference of the outer logarithms, per decade.
    _, error = exponent(K, np.outer(K, [0.9, 1.1]))
    assert error == pytest.approx(np.sqrt(2) * 0.1 / (2 * np.log(10)))


def test_verdicts_hold_where_the_theorems_do(monkeypatch):
    found = verdicts_on(monkeypatch, lambda place, order: panel(place, order, 1 / (1 + order), 1.05))
    assert [name for name, verdict in found.items() if not verdict.holds] == []
    assert len(found) == 8
    assert "K^0.667" in found["B1"].statement


def test_verdicts_fail_where_they_do_not(monkeypatch):
    wrong = verdicts_on(monkeypatch, lambda place, order: panel(place, order, 0.85))
    assert not any(wrong[name].holds for name in ("B1", "B2", "B3", "B4", "B5", "B8"))
    free = verdicts_on(monkeypatch, lambda place, order: panel(place, order, 1 / (1 + order), 1.0))
    assert not free["B6"].holds
    assert not free["B7"].holds


def test_a_small_run_has_worlds_of_its_own_for_every_number_of_episodes():
    for place in PLACES:
        found = measure(place, 1.0, (200, 400), 2, seed=1)
        assert [regret.shape for regret in found.regret.values()] == [(2, 2), (2, 2)]
        assert all((regret > 0).all() for regret in found.regret.values())
        # Uniform play has the exponent of the bound, because the gap of the world follows K.
        assert found.uniform[1] / found.uniform[0] == pytest.approx(2**0.5)
        assert found.bound[1] / found.bound[0] == pytest.approx(2**0.5)


@pytest.mark.slow
def test_the_page_has_statements_and_a_picture(monkeypatch, tmp_path):
    monkeypatch.setattr(lower_bounds, "measure", lambda place, order, *_: panel(place, order, 1 / (1 + order)))
    _, page = check_statements(STATEMENTS["heavy-tailed/lower-bounds"], out=tmp_path)
    assert "(figure.png)" in page.read_text()
    assert (page.parent / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert draw(check("quick", 0)).startswith(b"\x89PNG")
    plain = Statements("a/b", "a", "b", lambda scale, seed: ())
    assert "figure.png" not in check_statements(plain, out=tmp_path)[1].read_text()


def test_scales_are_named():
    assert set(SIZES) == {"quick", "paper"}
    with pytest.raises(InvalidInput, match="scale"):
        check("huge", 0)

"""The figure of the lower bounds: exponents and verdicts by hand, and a tiny run to its picture."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.reproduce import Scale, heavy_tailed, reproduce
from discreet.reproduce.heavy_tailed import HARD_WORLDS, LOWER_BOUNDS, Panel, exponent, measure_panel

EPISODES = (100, 1_000, 10_000)


def panel(hard, order, power, privacy_costs=2.0, spread=0.01):
    """A panel whose regret is a power of K, with runs that spread around it."""
    K, runs = np.array(EPISODES, float)[:, None], 1 + spread * np.linspace(-1, 1, 6)
    clear, private = hard.lines
    regret = {clear: K**power * runs, private: privacy_costs * K**power * runs[::-1]}
    return Panel(hard, order, EPISODES, regret, privacy_costs * K[:, 0] ** power, K[:, 0] ** power)


def verdicts_on(monkeypatch, make):
    monkeypatch.setattr(heavy_tailed, "measure_panel", lambda hard, order, _scale: make(hard, order))
    verdicts = LOWER_BOUNDS.verdicts(LOWER_BOUNDS.measure(LOWER_BOUNDS.scales["quick"]))
    return {name: found["measured"] for name, found in verdicts.items()}


def test_the_exponent_of_a_power_is_its_power():
    K = np.array(EPISODES, float)
    slope, error = exponent(K, np.outer(3 * K**0.62, np.ones(4)))
    assert slope == pytest.approx(0.62)
    assert error == pytest.approx(0, abs=1e-12)
    # Three points a decade apart: the slope is half the difference of the outer logarithms, per decade.
    _, error = exponent(K, np.outer(K, [0.9, 1.1]))
    assert error == pytest.approx(np.sqrt(2) * 0.1 / (2 * np.log(10)))


def test_verdicts_hold_where_the_theorems_do(monkeypatch):
    found = verdicts_on(monkeypatch, lambda hard, order: panel(hard, order, 1 / (1 + order), 1.05))
    assert [name for name, verdict in found.items() if not verdict.holds] == []
    assert len(found) == 8
    assert "K^0.667" in LOWER_BOUNDS.claims[0].says


def test_verdicts_fail_where_they_do_not(monkeypatch):
    wrong = verdicts_on(monkeypatch, lambda hard, order: panel(hard, order, 0.85))
    assert not any(wrong[name].holds for name in ("B1", "B2", "B3", "B4", "B5", "B8"))
    free = verdicts_on(monkeypatch, lambda hard, order: panel(hard, order, 1 / (1 + order), 1.0))
    assert not free["B6"].holds
    assert not free["B7"].holds


def test_a_small_run_has_worlds_of_its_own_for_every_number_of_episodes():
    for hard in HARD_WORLDS:
        found = measure_panel(hard, 1.0, Scale(400, 2, (200, 400), seed=1))
        assert [regret.shape for regret in found.regret.values()] == [(2, 2), (2, 2)]
        assert all((regret > 0).all() for regret in found.regret.values())
        # Uniform play has the exponent of the bound, because the gap of the world follows K.
        assert found.uniform[1] / found.uniform[0] == pytest.approx(2**0.5)
        assert found.bound[1] / found.bound[0] == pytest.approx(2**0.5)


@pytest.mark.slow
def test_the_page_has_statements_and_a_picture(monkeypatch, tmp_path):
    def as_the_theorems_say(hard, order, _scale):
        return panel(hard, order, 1 / (1 + order))

    monkeypatch.setattr(heavy_tailed, "measure_panel", as_the_theorems_say)
    page = reproduce(LOWER_BOUNDS, out=tmp_path).page
    text = page.read_text()
    assert "(figure.png)" in text
    assert all(claim.says in text for claim in LOWER_BOUNDS.claims)
    assert (page.parent / "figure.png").read_bytes().startswith(b"\x89PNG")

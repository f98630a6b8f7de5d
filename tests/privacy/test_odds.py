"""What epsilon and delta mean: P(loss > epsilon) against exact laws, and one set of sentences in all places."""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from discreet.noise import BinomialNoise, DiscreteGaussian, DiscreteLaplace
from discreet.privacy import GaussianProfile, Sensitivity
from discreet.privacy import odds as words
from discreet.privacy.odds import above, as_printed, bound_words, delta_words, exceeded, factor, likely, odds_words
from discreet.study.dashboard.page_words import SEEN, promise_words
from discreet.tables.receipt_words import in_one_sentence, promised

ROOT = Path(__file__).parents[2]
SYMBOLS = {"seen": "what is released", "factor": "e^epsilon", "twice": "e^(2 epsilon)", "whose": "her", "whom": "her"}
FALSE = (  # what was said of epsilon and delta before, and is not so
    r"whatever somebody (suspects|believed)",
    r"probability, at most, that more is learned",
    r"delta\*?\*? is the probability",
    r"from the noise that was added",
    r"(may|bound) fails? with probability delta",
    r"failure probability of privacy",
)


def gaussian(epsilon: float, delta: float) -> GaussianProfile:
    return GaussianProfile(brentq(lambda mu: GaussianProfile(mu).delta(epsilon) - delta, 1e-3, 20.0, xtol=1e-15))


def pair(masses: np.ndarray, up: int, down: int) -> tuple[np.ndarray, np.ndarray]:
    """The joint laws of several cells with this noise, of which some rise by one and some fall."""
    padded, moved = np.append(masses, 0.0), np.insert(masses, 0, 0.0)
    p = q = np.ones(1)
    for rising in [True] * up + [False] * down:
        p = np.multiply.outer(p, moved if rising else padded).ravel()
        q = np.multiply.outer(q, padded if rising else moved).ravel()
    return p, q


def beyond(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """P(loss > epsilon), exactly."""
    return float(p[p > math.exp(epsilon) * q * (1 + 1e-12)].sum())


def likeliest(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The largest P(S) with P(S) >= e^epsilon Q(S), with a coin at the border: outcomes in the order of their loss."""
    order = np.argsort(-p / np.maximum(q, 1e-300), kind="stable")
    p, q = p[order], q[order]
    spare = np.cumsum(p - math.exp(epsilon) * q)
    if spare[-1] >= 0:
        return 1.0
    last = int(np.flatnonzero(spare >= 0)[-1]) if (spare >= 0).any() else -1
    before = spare[last] if last >= 0 else 0.0
    share = before / (math.exp(epsilon) * q[last + 1] - p[last + 1])
    return float(p[: last + 1].sum() + share * p[last + 1])


def laplace(scale: float) -> np.ndarray:
    x = np.arange(-60, 61)
    return np.exp(-np.abs(x) / scale) / np.exp(-np.abs(x) / scale).sum()


def discrete_gaussian(sigma: float) -> np.ndarray:
    x = np.arange(-60, 61)
    return np.exp(-(x**2) / (2 * sigma**2)) / np.exp(-(x**2) / (2 * sigma**2)).sum()


CUT = 1e-12  # mass of the laws that is cut off here
EXACT = [
    (DiscreteLaplace(2.0), laplace(2.0)),
    (DiscreteGaussian(3.0), discrete_gaussian(3.0)),
    (BinomialNoise(30, 0.5), stats.binom.pmf(np.arange(31), 30, 0.5)),
]


@pytest.mark.parametrize(("law", "masses"), EXACT, ids=lambda each: type(each).__name__)
def test_p_of_a_loss_above_epsilon_is_bounded_and_attained_by_a_function_of_the_release(law, masses):
    """Enumerated: no pair of records exceeds epsilon more often, and in the tail a set of outcomes nearly does."""
    for cells in ((1, 0), (1, 1)):
        profile, (p, q) = law.profile(Sensitivity.worst_shift((1, *cells))), pair(masses, *cells)
        for epsilon in (0.2, 0.45, 0.77, 1.2, 1.6):
            stated, epsilon = exceeded(profile, epsilon), as_printed(epsilon)
            assert max(beyond(p, q, epsilon), beyond(q, p, epsilon)) <= stated * (1 + 1e-9) + CUT
            attained = max(likeliest(p, q, epsilon), likeliest(q, p, epsilon))
            assert attained <= stated * (1 + 1e-9) + CUT
            assert epsilon < 0.7 or stated <= attained * 1.05


def test_delta_less_its_slope_is_what_the_noisy_numbers_of_one_pair_exceed():
    """16 times delta at (1, 1e-5) and so on; functions of the same release exceed epsilon more often."""
    for epsilon, delta, times in ((1, 1e-5, 16.12), (1, 1e-6, 20.1), (8, 1e-6, 4.14), (0.1, 1e-6, 149.19)):
        profile, step = gaussian(epsilon, delta), 1e-5
        slope = (profile.delta(epsilon + step) - profile.delta(epsilon - step)) / (2 * step)
        exact = stats.norm.cdf(profile.mu / 2 - epsilon / profile.mu)
        assert profile.delta(epsilon) - slope == pytest.approx(exact, rel=1e-5)
        assert exact / delta == pytest.approx(times, rel=1e-3)
        tail = brentq(  # one bit, whether the number is above t, has the loss epsilon there
            lambda t, mu=profile.mu, e=epsilon: stats.norm.logsf(t - mu) - stats.norm.logsf(t) - e, -50, 50
        )
        assert stats.norm.sf(tail - profile.mu) == pytest.approx(above(profile, epsilon), rel=0.01)
        assert above(profile, epsilon) > 2 * exact


def test_the_worst_pair_for_delta_is_not_the_worst_for_losses_above_epsilon():
    """Two cells rise and fall, and one of them alone exceeds .9 of a cell's loss more often: slopes are no bound."""
    one, two = pair(laplace(2.0), 1, 0), pair(laplace(2.0), 1, 1)
    assert beyond(*one, 0.45) > 1.2 * beyond(*two, 0.45)
    whole = DiscreteLaplace(2.0).profile(Sensitivity.worst_shift((1, 1, 1)))
    assert above(whole, 0.45) >= beyond(*one, 0.45)


def test_a_bound_without_delta_is_never_exceeded_and_zero_epsilon_bounds_nothing():
    pure = DiscreteLaplace(2.0).profile(Sensitivity.worst_shift((1, 1, 0)))
    assert above(pure, 0.5) == 0.0
    assert above(GaussianProfile(0.5), 0.0) == 1.0


def test_beliefs_that_tie_people_together_move_odds_by_twice_epsilon_and_no_more():
    """Two people who are surely alike, and a randomised answer about both: e^epsilon would be false, e^(2 epsilon) not.

    All functions of her record (0, 1, or 2 in its place) and of the other's are tried; the event is that both are 1.
    """
    epsilon = 0.7
    truth = 1 / (1 + math.exp(-epsilon))
    worst = 0.0
    for values in product((0, 1), repeat=6):
        answer = {
            pair: truth if bit else 1 - truth for pair, bit in zip(product((0, 1, 2), (0, 1)), values, strict=True)
        }
        with_hers, with_another = answer[1, 1] / answer[0, 0], answer[2, 1] / answer[2, 0]
        worst = max(worst, abs(math.log(with_hers / with_another)))
    assert worst == pytest.approx(2 * epsilon)


def test_sentences_are_about_the_factor_that_is_printed():
    """A loss of 0.5 at most, stated as 0.49999996 with delta: no outcome exceeds the 0.5 that is read."""
    nearly = DiscreteLaplace(2.0).profile(Sensitivity.worst_shift((1, 1, 0)))
    assert exceeded(nearly, 0.49999996) == 0.0
    assert exceeded(nearly, 0.49) > 0.6
    assert 0.5 < as_printed(0.5) < 0.501
    assert "no outcome is an exception" in delta_words(0.49999996, 1e-6, 0.0)
    assert f"more than {factor(1.23449)} times" in bound_words(1.23449, 0.0, "it")


def facts(epsilon: float, delta: float, beyond: float) -> dict:
    guarantee = {"epsilon": epsilon, "delta": delta, "exceeded": beyond, "epsilon_at": []}
    return {"guarantee": guarantee, "declared": {"users": 10, "event_level": False, "cap": None}}


@pytest.mark.parametrize(("epsilon", "delta", "beyond"), [(1.0, 0.0, 0.0), (2.0, 1e-6, 1.1e-5)])
def test_a_receipt_and_a_page_say_the_same_sentences(epsilon, delta, beyond):
    receipt = " ".join([in_one_sentence(facts(epsilon, delta, beyond)), *promised(facts(epsilon, delta, beyond))])
    seen = "what was released"
    told = [bound_words(epsilon, beyond, seen), *odds_words(epsilon, beyond, seen)]
    assert all(line in receipt for line in [*told, delta_words(epsilon, delta, beyond)])
    for model, seen in SEEN.items():
        page = promise_words(model, {"epsilon": epsilon, "delta": delta, "exceeded": beyond})
        hers = " ".join([*odds_words(epsilon, beyond, seen), delta_words(epsilon, delta, beyond)]).strip()
        assert (
            re.sub(
                r"\byour\b", "her", re.sub(r"\blike you|to you\b", lambda found: found[0][:-3] + "her", " ".join(page))
            )
            == hers
        )
    assert ("one in" in receipt) == (delta > 0)
    assert ("1.1e-05 (one in 90,909), 11 times delta" in receipt) == (delta > 0)


def text_of(name: str) -> str:
    return " ".join((ROOT / name).read_text().replace("*", "").split())


def test_guides_and_glossary_say_the_same_sentences():
    said = {name: getattr(words, name).format(value="", beyond="", **SYMBOLS).strip() for name in
            ("BOUND", "ODDS", "TIED", "WORLD", "DELTA", "BEYOND")}  # fmt: skip
    guide = text_of("docs/guides/choose-epsilon.md")
    assert [name for name, line in said.items() if line not in guide] == []
    for page in ("docs/privacy.md", "docs/glossary.md"):
        assert [name for name in ("BOUND", "DELTA") if said[name] not in text_of(page)] == []


def test_the_tables_of_the_guide_are_computed():
    guide = (ROOT / "docs/guides/choose-epsilon.md").read_text()
    for epsilon in (0.1, 0.5, 1, 2, 4):
        assert f"| {epsilon:g} | {factor(epsilon)} | {likely(epsilon)} |" in guide
    rows = re.findall(r"^\| ([\d.]+), (1e-\d) \| ([\d.]+)(?: times delta)? \| ([\d.]+)", guide, re.MULTILINE)
    assert len(rows) == 4
    for epsilon, delta, noisy, computed in ((float(cell) for cell in row) for row in rows):
        profile = gaussian(epsilon, delta)
        exact = stats.norm.cdf(profile.mu / 2 - epsilon / profile.mu)
        assert noisy == pytest.approx(exact / delta, rel=0.012)
        assert above(profile, epsilon) / delta <= computed <= 1.02 * above(profile, epsilon) / delta


def test_nothing_says_of_epsilon_and_delta_what_is_not_so():
    found = []
    for folder, endings in (("src", (".py", ".js", ".html")), ("docs", (".md",)), ("clients", (".js", ".md"))):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in endings and not {"node_modules", "decisions", "reproduction"} & set(file.parts):
                text = " ".join(file.read_text().replace('" "', "").split()).lower()
                found += [f"{file.relative_to(ROOT)}: {false}" for false in FALSE if re.search(false, text)]
    assert found == []

"""Keyword validators, so that every error about a public input reads alike.

Numbers are Python's or NumPy's; truth values, text and arrays are not numbers. Whatever is given, the answer is a
number of the stated domain or one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.types import ArrayLike, Floats

_LARGEST_COUNT = 2**63 - 1  # what 64 bits hold
_LONGEST_SHOWN = 60
# Targets outside are slips or overflow something: at 1e-9 the noise is a billion users wide, at 1e6 there is none.
_EPSILONS, _RHOS = (1e-9, 1e6), (1e-18, 1e12)
# Noise narrower or wider than this is neither: squares under- or overflow, and whole numbers are exact up to 2^53.
_SCALES = (1e-100, 2.0**53)


def check_count(name: str, value: Any, *, at_least: int = 1) -> int:
    """A whole number that is at least ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise InvalidInput(f"{name} must be a whole number of at least {at_least}, got {shown(value)}")
    if value > _LARGEST_COUNT:
        raise InvalidInput(f"{name} must be a whole number below 2^63, got {shown(value)}")
    return int(value)


def check_number(name: str, value: Any) -> float:
    """A number, infinite or not, but never NaN."""
    number = _number(name, value)
    if math.isnan(number):
        raise InvalidInput(f"{name} must be a number, got {shown(value)}")
    return number


def check_positive(name: str, value: Any, *, finite: bool = True) -> float:
    """A number above zero (and finite unless told otherwise)."""
    number = _number(name, value)
    if not number > 0 or (finite and math.isinf(number)):
        raise InvalidInput(f"{name} must be a{' finite' if finite else ''} number above 0, got {shown(value)}")
    return number


def check_not_negative(name: str, value: Any) -> float:
    """A finite number of at least zero."""
    number = _number(name, value)
    if not 0 <= number < math.inf:
        raise InvalidInput(f"{name} must be a finite number of at least 0, got {shown(value)}")
    return number


def check_epsilon(name: str, value: Any) -> float:
    """A target epsilon: between 1e-9 and 1e6."""
    return _between(name, check_positive(name, value), _EPSILONS, "a target for privacy")


def check_rho(name: str, value: Any) -> float:
    """A zero-concentrated target: between 1e-18 and 1e12."""
    return _between(name, check_positive(name, value), _RHOS, "a target for privacy")


def check_scale(name: str, value: Any) -> float:
    """The width of a law of noise: between 1e-100 and 2^53."""
    return _between(name, check_positive(name, value), _SCALES, "a width of noise")


def _between(name: str, number: float, ends: tuple[float, float], what: str) -> float:
    if not ends[0] <= number <= ends[1]:
        raise InvalidInput(f"{name} must lie between {ends[0]:.4g} and {ends[1]:.4g} to be {what}, got {number!r}")
    return number


def check_delta(name: str, value: Any) -> float:
    """The delta of (epsilon, delta) differential privacy: in [0, 1)."""
    number = _number(name, value)
    if not 0 <= number < 1:
        raise InvalidInput(f"{name} must lie in [0, 1), got {shown(value)}; typical values are 0 and 1e-5")
    return number


def check_open_unit(name: str, value: Any) -> float:
    """A probability strictly between 0 and 1, and not so small that its inverse overflows."""
    number = _number(name, value)
    if not 0 < number < 1:
        raise InvalidInput(f"{name} must lie strictly between 0 and 1, got {shown(value)}")
    if number < 1e-300:
        raise InvalidInput(f"{name} must be at least 1e-300, got {shown(value)}")
    return number


def check_probabilities(name: str, value: ArrayLike, shape: tuple[int, ...] | None = None) -> Floats:
    """An array whose last axis holds probabilities that sum to one."""
    array = check_array(name, value, shape)
    if array.size == 0 or array.min() < 0:
        raise InvalidInput(f"{name} must not be empty or negative, got a minimum of {array.min(initial=0.0):g}")
    sums = array.sum(axis=-1)
    worst = float(np.abs(sums - 1).max())
    if worst > 1e-8:
        if array.ndim == 1:
            raise InvalidInput(f"{name} must sum to one, got a sum of {sums:.6g}")
        where = np.unravel_index(int(np.abs(sums - 1).argmax()), sums.shape)
        raise InvalidInput(
            f"{name} must sum to one over the last axis; row {tuple(map(int, where))} sums to {sums[where]:.6g}"
        )
    return np.asarray(array / sums[..., None])


def check_array(name: str, value: ArrayLike, shape: tuple[int, ...] | None = None) -> Floats:
    """A finite array of floats, of the given shape where one is given."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be an array of numbers") from None
    if shape is not None and array.shape != shape:
        raise InvalidInput(f"{name} must have shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} must hold finite numbers; it has NaN or infinite entries")
    return array


def check_range(name: str, value: Any) -> tuple[float, float]:
    """A pair (low, high) of finite numbers with low < high."""
    try:
        low, high = (float(v) for v in value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be a pair (low, high), got {shown(value)}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(f"{name} must be a pair of finite numbers with low < high, got {shown(value)}")
    return low, high


def check_flag(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def check_options(name: str, value: Any) -> dict[str, Any]:
    """Options by name; None means none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInput(f"{name} must map names to values, got {shown(value)}")
    return dict(value)


def shown(value: Any) -> str:
    """A value in a message: as Python writes it, in one line that is not long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # whatever a stranger's object does: numbers of thousands of digits do not print either
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInput(f"{name} must be a number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise InvalidInput(f"{name} must be a number below 1e308, got {shown(value)}") from None

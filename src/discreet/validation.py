"""Keyword validators, so that every error about a public input reads alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.types import ArrayLike, Floats


def check_count(name: str, value: Any, *, at_least: int = 1) -> int:
    """A whole number that is at least ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise InvalidInput(f"{name} must be a whole number of at least {at_least}, got {value!r}")
    return int(value)


def check_positive(name: str, value: Any, *, finite: bool = True) -> float:
    """A number above zero (and finite unless told otherwise)."""
    number = _number(name, value)
    if not number > 0 or (finite and math.isinf(number)):
        raise InvalidInput(f"{name} must be a{' finite' if finite else ''} number above 0, got {value!r}")
    return number


def check_not_negative(name: str, value: Any) -> float:
    """A finite number of at least zero."""
    number = _number(name, value)
    if not 0 <= number < math.inf:
        raise InvalidInput(f"{name} must be a finite number of at least 0, got {value!r}")
    return number


def check_delta(name: str, value: Any) -> float:
    """A privacy failure probability: in [0, 1)."""
    number = _number(name, value)
    if not 0 <= number < 1:
        raise InvalidInput(f"{name} must lie in [0, 1), got {value!r}; typical values are 0 and 1e-5")
    return number


def check_open_unit(name: str, value: Any) -> float:
    """A probability strictly between 0 and 1."""
    number = _number(name, value)
    if not 0 < number < 1:
        raise InvalidInput(f"{name} must lie strictly between 0 and 1, got {value!r}")
    return number


def check_probabilities(name: str, value: ArrayLike, shape: tuple[int, ...] | None = None) -> Floats:
    """An array whose last axis holds probabilities that sum to one."""
    array = check_array(name, value, shape)
    if array.size == 0 or array.min() < 0:
        raise InvalidInput(f"{name} must not be empty or negative, got a minimum of {array.min(initial=0.0):g}")
    sums = array.sum(axis=-1)
    worst = float(np.abs(sums - 1).max())
    if worst > 1e-8:
        where = np.unravel_index(int(np.abs(sums - 1).argmax()), sums.shape)
        raise InvalidInput(
            f"{name} must sum to one over the last axis; row {tuple(map(int, where))} sums to {sums[where]:.6g}"
        )
    return np.asarray(array / sums[..., None])


def check_array(name: str, value: ArrayLike, shape: tuple[int, ...] | None = None) -> Floats:
    """A finite array of floats, of the given shape where one is given."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
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
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a pair (low, high), got {value!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(f"{name} must be a pair of finite numbers with low < high, got {value!r}")
    return low, high


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInput(f"{name} must be a number, got {value!r}")
    return float(value)

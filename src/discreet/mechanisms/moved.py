"""What one user moves under each law of noise: as the channels have it that draw it, and as a guarantee was derived.

A guarantee is about pairs of a law and what a user moves under it: with the same noise somebody who moves less is
promised more. So before real noise is drawn the first reading must not exceed the second, law by law, in any of three
norms: L1, the square of L2, and L-infinity. Statistics with noise of one law add up in the first two, and of
alternatives the worst counts. Continuous laws, which are for simulation only, are looked for by name alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from discreet.base.errors import of_kind
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.bandit import ArmRewardsChannel
from discreet.mechanisms.continual import ContinualChannel
from discreet.mechanisms.focused import FocusedChannel
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.sparse import SparseChannel
from discreet.privacy.certificate import facts_of, moves_of
from discreet.privacy.derivation import Fact, Facts, Reason
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.words import StatedLaw


class Moved(NamedTuple):
    """Norms of what one user moves; L2 squared."""

    l1: float = 0.0
    l2_squared: float = 0.0
    linf: float = 0.0

    def within(self, other: Moved | None) -> bool:
        """Whether no norm is larger, but for the last digits of floating point numbers."""
        return other is not None and all(mine <= its * (1 + 1e-9) for mine, its in zip(self, other, strict=True))


ByLaw = dict[Facts, Moved]


def moved_in(channels: Iterable[AnyChannel]) -> ByLaw:
    """What the channels say; laws of devices and of linear questions are not looked at."""
    return _merged((_merged(_hidden(channel), _either) for channel in channels), _both)


def moved_by(reason: Reason) -> ByLaw:
    """What the lines of a derivation say."""
    kind, said = (None, {}) if reason.facts is None else (reason.facts.kind, dict(reason.facts.entries))
    law, moves = said.get("law"), said.get("moves")
    if isinstance(law, Facts) and isinstance(moves, Facts):
        return {law: _norms(moves)}
    found = _merged(map(moved_by, reason.premises), _either if kind in ("one-of", "shuffled") else _both)
    if kind != "group":
        return found
    several, once = of_kind(int, said["trajectories"]), said.get("once")
    return {law: _of_several(moved, several, once) for law, moved in found.items()}


def _hidden(channel: AnyChannel) -> Iterator[ByLaw]:
    """The laws that a curator draws for a channel, and what one user moves under each in all releases together."""
    inner = channel.rewards if isinstance(channel, ArmRewardsChannel) else channel
    pairs: Iterable[tuple[StatedLaw, Sensitivity]] = ()
    if isinstance(inner, FocusedChannel):
        pairs = zip(inner.laws, map(inner.encoder.sensitivity, inner.rows), strict=True)
    elif isinstance(inner, Channel | ContinualChannel):
        pairs = ((inner.law, inner.accumulator.sensitivity(inner.encoder.sensitivity())),)
    elif isinstance(inner, SparseChannel):
        pairs = ((inner.law, inner.encoder.sensitivity()),)
    for law, moves in pairs:
        if law.variance > 0:
            yield {facts_of(law): _norms(moves_of(moves)) if law.discrete else Moved()}


def _norms(moves: Facts) -> Moved:
    l1, l2, linf = (float(of_kind(str, value)) for _name, value in moves.entries[:3])
    return Moved(l1, l2 * l2, linf)


def _of_several(moved: Moved, m: int, once: Fact) -> Moved:
    """What a user with m trajectories moves; by first visits at most ``once`` cells up by one, and as many down."""
    if not isinstance(once, int):
        return Moved(m * moved.l1, m * m * moved.l2_squared, m * moved.linf)
    cells = min(m * moved.l1, 2.0 * once)
    return Moved(cells, cells, min(cells, 1.0))


def _merged(parts: Iterable[ByLaw], add: Callable[[Moved, Moved], Moved]) -> ByLaw:
    found: ByLaw = {}
    for law, moved in chain.from_iterable(part.items() for part in parts):
        found[law] = add(found[law], moved) if law in found else moved
    return found


def _both(one: Moved, other: Moved) -> Moved:
    return Moved(one.l1 + other.l1, one.l2_squared + other.l2_squared, max(one.linf, other.linf))


def _either(one: Moved, other: Moved) -> Moved:
    return Moved(*map(max, one, other))

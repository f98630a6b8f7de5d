"""What participants are told, in sentences: what leaves a device, what epsilon means, what holds if parties collude.

The promise itself comes with the study, computed. These are the words around it, one for each model of trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.privacy.odds import delta_words, odds_words

LEAVES = {
    "local": "One report, randomised on your device before it leaves. Nobody ever sees what you did.",
    "central": "What you did, encrypted as soon as it arrives. Only noisy sums over many participants are published.",
    "shuffle": "Small messages, randomised on your device and sealed. The shuffler sees who sends and cannot read "
    "them; the coordinator reads them, mixed with those of many others, and cannot see who sent which.",
}
HIDDEN = {
    "local": "What you did is hidden by chance, as far as is promised below.",
    "central": "What you did is hidden from everybody but whoever runs the coordinator, as far as is promised below.",
    "shuffle": "What you did is hidden by chance and by the crowd, as far as is promised below.",
}
SEEN = {
    "local": "everything that you send",
    "central": "everything that is released",
    "shuffle": "everything that leaves the shuffler",
}
COLLUDE = {
    "local": "Nothing changes. The report is random before it leaves your device, so the promise holds even if the "
    "coordinator, the network and all other participants work together against you.",
    "central": "The promise holds against everybody who sees what is released, also if all other participants work "
    "together. It does not bind the coordinator: whoever runs it could look at records while a round closes, and "
    "there you rely on trust.",
    "shuffle": "The promise holds as long as the shuffler and the coordinator do not work together.",
}
REFUSALS = {
    "malformed": "not a report of this study or round",
    "token": "no invitation, an unknown one, or one that is used up",
    "operator": "asked for the operator's pages without the operator's token",
    "unknown": "another study, no such round, or no such address",
    "conflict": "the id belongs to another report",
    "ended": "the study has ended",
    "closed": "the round has closed",
    "large": "larger than an honest message can be",
    "rate": "too many at once; sent again later",
    "busy": "the service could not store or read then; sent again later",
}


def promise_words(model: str, promise: Mapping[str, Any]) -> list[str]:
    """What the promise of a study means for a person, after its first sentence.

    >>> promise_words("local", {"epsilon": 1.0, "delta": 0.0, "exceeded": 0.0})[1].split(":")[1]
    ' all odds differ by a factor of at most 7.39 from those after a release with another record in its place.'
    """
    epsilon, delta, beyond = promise["epsilon"], promise["delta"], promise.get("exceeded", 0.0)
    found = [*odds_words(epsilon, beyond, SEEN[model], you=True), delta_words(epsilon, delta, beyond, you=True)]
    return [line for line in found if line]


def collude_words(model: str, promise: Mapping[str, Any]) -> str:
    """What holds if parties work together: what the study has computed, or what its model means."""
    computed = promise.get("alone") or {}
    return str(computed.get("words") or COLLUDE[model])

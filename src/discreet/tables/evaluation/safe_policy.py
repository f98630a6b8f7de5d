"""A policy that keeps to the behaviour where little is known: it leaves out what cannot be judged.

In the spirit of safe policy improvement with baseline bootstrapping (Laroche, Trichelair and Tachet des Combes, 2019),
on a learned policy and a release: an action whose row is not shown keeps the behaviour's probability, and what is left
goes to the learned action. Where that action is itself not shown, the behaviour stays as it is. This is
post-processing, and it is decided before anybody judges.
"""

from __future__ import annotations

import numpy as np

from discreet.base.types import Floats
from discreet.tables.evaluation.released_model import Model


def safe_policy(model: Model, learned: Floats, behaviour: Floats) -> Floats:
    """The safe form (H, S, A) of a learned policy (H, S, A), for a declared behaviour (H, S, A)."""
    out = np.empty(behaviour.shape)
    for h in range(len(out)):
        shown = model.shown[h]
        kept = np.where(shown, 0.0, behaviour[h])
        wanted = np.where(shown, learned[h], 0.0)
        mass = wanted.sum(axis=1, keepdims=True)
        moved = kept + wanted / np.where(mass > 0, mass, 1.0) * (1.0 - kept.sum(axis=1, keepdims=True))
        out[h] = np.where(mass > 0, moved, behaviour[h])
    out /= out.sum(axis=2, keepdims=True)
    return out

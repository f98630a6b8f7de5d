"""Where things stood in version 0.1. Old names still work, with a warning that says where they are now.

Modules that were documented and have moved are found again by a finder that Python asks last, so that nothing is slower
for whoever uses the new names. Such a module is empty: each of its names comes from the module that has it now.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

GONE_IN = "0.4"

# Where each module's names are now, in the order in which they are looked for.
MODULES: Mapping[str, tuple[str, ...]] = {
    "discreet.accumulators": ("discreet.mechanisms.sums",),
    "discreet.accumulators.schedule": ("discreet.mechanisms.schedule",),
    "discreet.calibration": ("discreet.recipes.calibrate",),
    "discreet.encoders": ("discreet.mechanisms.counts",),
    "discreet.encoders.joint_histogram": (
        "discreet.mechanisms.counts.encoder", "discreet.mechanisms.counts.layouts",
        "discreet.mechanisms.counts.joint_histogram",
    ),
    "discreet.offline.result": ("discreet.simulation.result",),
    "discreet.privacy.calibration": ("discreet.noise.calibration",),
    "discreet.privatizers": ("discreet.mechanisms.session",),
    "discreet.privatizers.audit": ("discreet.audit.audit",),
    "discreet.privatizers.channel": ("discreet.mechanisms.additive", "discreet.mechanisms.session"),
    "discreet.privatizers.local_shuffle": ("discreet.mechanisms.messages.answered_bits",),
    "discreet.privatizers.prefix_shuffle": ("discreet.papers.ldp_obi",),
    "discreet.privatizers.published": ("discreet.papers",),
    "discreet.privatizers.recipe": ("discreet.recipes.recipe",),
    "discreet.privatizers.recipes": ("discreet.recipes.registry",),
    "discreet.privatizers.trust": ("discreet.recipes.targets",),
    "discreet.privatizers.user_side": ("discreet.mechanisms.messages.device_reports",),
    "discreet.worlds.gym_bridge": ("discreet.worlds.imported",),
    "discreet.worlds.linear": ("discreet.problems.linear.world",),
}  # fmt: skip

_MATRIX = "discreet.noise.symmetric_gaussian"
# Names of packages that are elsewhere now.
NAMES: Mapping[tuple[str, str], str] = {
    ("discreet.noise", "DiscreteSymmetricGaussianMatrix"): f"{_MATRIX}:DiscreteSymmetricGaussianMatrix",
    ("discreet.noise", "SymmetricGaussianMatrix"): f"{_MATRIX}:SymmetricGaussianMatrix",
    ("discreet.privacy", "ShuffledBits"): "discreet.noise.calibration:ShuffledBits",
    ("discreet.privacy", "calibrate_binomial"): "discreet.noise.calibration:calibrate_binomial",
    ("discreet.privacy", "calibrate_noise"): "discreet.noise.calibration:calibrate_noise",
    ("discreet.privacy", "group"): "discreet.privacy.profiles:replacing_users",
}  # fmt: skip


class Finder:
    """Finds the modules of 0.1 that are elsewhere now."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /) -> ModuleSpec | None:
        """How to make the module of that name, if it is one of them."""
        if fullname not in MODULES:
            return None
        from importlib.abc import Loader  # slow to load, and hardly ever needed

        class Empty(Loader):
            create_module = staticmethod(empty)

            def exec_module(self, module: ModuleType) -> None:
                """Nothing is left to do."""

        return ModuleSpec(fullname, Empty(), is_package=any(name.startswith(f"{fullname}.") for name in MODULES))


def empty(spec: ModuleSpec) -> ModuleType:
    """A module without names of its own, which looks for them where they are now."""
    old, module = spec.name, ModuleType(spec.name)

    def find(name: str) -> Any:
        if not name.startswith("__"):
            for home in MODULES[old]:
                if hasattr(importlib.import_module(home), name):
                    return _warned(f"{old}.{name}", home, name)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    module.__dict__["__getattr__"] = find
    return module


def former(package: str, name: str, known: Iterable[str] = ()) -> Any:
    """A name that a package had in 0.1, or an AttributeError with the nearest of the known ones."""
    if (package, name) not in NAMES:
        from discreet.base.errors import nearest

        near = [] if name.startswith("_") else nearest(name, known, cutoff=0.7)
        hint = f": did you mean {' or '.join(near)}?" if near else ""
        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
    home, _, now = NAMES[package, name].partition(":")
    return _warned(f"{package}.{name}", home, now, depth=4)


def install() -> None:
    """Ask this finder last, and once."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())


def _warned(old: str, home: str, name: str, depth: int = 3) -> Any:
    warnings.warn(
        f"{old} has moved: write  from {home} import {name}  (the old name goes in discreet {GONE_IN})",
        DeprecationWarning,
        stacklevel=depth,
    )
    return getattr(importlib.import_module(home), name)

"""The parts of SciPy that the package uses, each loaded at its first use: they take longer than all of discreet."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import integrate, optimize, sparse, special, stats
else:

    class _Later:
        """A module that is imported at its first use."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self._name), attribute)

    integrate, optimize, sparse, special, stats = (
        _Later(f"scipy.{name}") for name in ("integrate", "optimize", "sparse", "special", "stats")
    )

__all__ = ["integrate", "optimize", "sparse", "special", "stats"]

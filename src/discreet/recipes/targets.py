"""Whom the users trust, and how much they are promised: what a caller asks for.

``Central``: a curator sees the data and releases noisy statistics. ``Local``: every user adds noise herself.
``Shuffle``: users add a little noise and a shuffler hides who sent what. ``NoPrivacy``: nothing is promised.
The numbers here are targets; what is really achieved is computed and stands in the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from discreet.base.errors import InvalidInput
from discreet.base.validation import check_delta, check_epsilon, check_rho, shown
from discreet.privacy.profiles import PureProfile


@dataclass(frozen=True)
class Privacy:
    """A target: at most ``epsilon`` and ``delta`` (or at most ``rho``, zero-concentrated), for replacing one user.

    ``recipe`` names the mechanism (see ``discreet.recipes()``), of this trust model or of one that trusts less; "auto"
    takes the one that is expected to cost the least regret among those that are valid for the world. ``options`` are
    the recipe's own (such as ``blocks``); they never weaken the guarantee. Targets lie between 1e-9 and 1e6 (rho: 1e-18
    and 1e12); one that needs noise wider than floating point holds in whole numbers is refused with the smallest that
    does not.
    """

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    recipe: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    model: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.epsilon is not None and self.rho is not None:
            raise InvalidInput("give either epsilon or rho, not both: each of them fixes the noise")
        if self.epsilon is None and self.rho is None:
            raise InvalidInput("give either epsilon or rho, so that the noise can be calibrated")
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))
        if self.rho is not None:
            object.__setattr__(self, "rho", check_rho("rho", self.rho))
        self._check_rest()

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of pure mechanisms that keep the target: its own, or sqrt(2 rho), as epsilon^2 / 2 bounds rho."""
        if self.epsilon is not None:
            return self.epsilon
        rho = self.rho or 0.0
        epsilon = min(math.sqrt(2 * rho), 1e6)
        while PureProfile(epsilon).rho > rho:  # the root was rounded up
            epsilon = math.nextafter(epsilon, 0.0)
        return epsilon

    def _check_rest(self) -> None:
        object.__setattr__(self, "delta", check_delta("delta", self.delta))
        if not isinstance(self.recipe, str):
            raise InvalidInput(
                f"recipe must be a name, got {shown(self.recipe)}; see discreet.recipes(), register one of your own "
                "by discreet.recipes.register, or give a privatizer, or a function that makes one, as the trust model"
            )
        if not isinstance(self.options, Mapping) or not all(isinstance(name, str) for name in self.options):
            raise InvalidInput(f"options must map names to values, got {shown(self.options)}")


@dataclass(frozen=True)
class Central(Privacy):
    """A trusted curator; what she publishes protects every user (joint differential privacy for online learning).

    Args:
        epsilon: The bound on the privacy loss; the smaller, the stronger the promise. Give it or ``rho``.
        delta: By how much a probability may exceed the bound; 0 is pure differential privacy.
        rho: Zero-concentrated differential privacy in place of epsilon.
        recipe: The mechanism by name (``discreet recipes``); "auto" chooses from public things only.
        options: Options of the recipe, by name.

    Examples:
        >>> import discreet
        >>> discreet.Central(epsilon=1.0, delta=1e-5)
        Central(epsilon=1.0, delta=1e-05, rho=None, recipe='auto', options={})
    """

    model: ClassVar[str] = "central"


@dataclass(frozen=True)
class Local(Privacy):
    """Nobody is trusted: every user's message is private by itself.

    Args:
        epsilon: The bound on the privacy loss of everything that one user sends. Give it or ``rho``.
        delta: By how much a probability may exceed the bound; 0 is pure differential privacy.
        rho: Zero-concentrated differential privacy in place of epsilon.
        recipe: The mechanism by name; "auto" chooses from public things only.
        options: Options of the recipe, by name.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> discreet.calibrate(discreet.Local(2.0), world.shape, episodes=100).recipe
        'local/asked-first-visit'
    """

    model: ClassVar[str] = "local"


@dataclass(frozen=True)
class Shuffle(Privacy):
    """A shuffler is trusted to hide who sent which message, and to do nothing else.

    Args:
        epsilon: The bound on the privacy loss of the mixed messages.
        delta: By how much a probability may exceed the bound; it must be above 0 here.
        rho: Refused by the recipes of this model.
        recipe: The mechanism by name; "auto" chooses from public things only.
        options: Options of the recipe, by name.

    Examples:
        >>> import discreet
        >>> discreet.Shuffle(2.0, delta=1e-5, recipe="shuffle/first-visit-binomial").recipe
        'shuffle/first-visit-binomial'
    """

    model: ClassVar[str] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta == 0:
            raise InvalidInput("delta must be above 0 in the shuffle model ; try delta=1e-5")


@dataclass(frozen=True)
class NoPrivacy(Privacy):
    """Nothing is promised: the learner sees the counts as they are.

    Args:
        epsilon: Leave it out: nothing is promised.
        delta: Leave it out.
        rho: Leave it out.
        recipe: How counts are handed on; "auto" hands them on after every user.
        options: Options of the recipe, by name.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> discreet.simulate(world, "ucbvi", discreet.NoPrivacy(), episodes=50).guarantee.model
        'none'
    """

    model: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        if self.epsilon is not None or self.rho is not None:
            raise InvalidInput("NoPrivacy promises nothing, so it takes no epsilon")
        self._check_rest()


# Models that trust less: whatever keeps a promise there keeps it for users who trust more.
TRUSTS_LESS: Mapping[str, tuple[str, ...]] = {"central": ("shuffle", "local"), "shuffle": ("local",)}
_MODELS: Mapping[str, type[Privacy]] = {kind.model: kind for kind in (Central, Local, Shuffle, NoPrivacy)}


def in_model(privacy: Privacy, model: str) -> Privacy:
    """The same numbers and options as a target of another trust model."""
    return _MODELS[model](privacy.epsilon, privacy.delta, privacy.rho, privacy.recipe, privacy.options)

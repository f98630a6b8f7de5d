"""Policies: what is deployed, as plain public data.

A ``Policy`` takes one action per step and state, a ``StochasticPolicy`` draws one, and a ``Mixture`` draws one
deterministic component per episode, with public coins, and follows it to the end. Steps and states count from zero.
Policies compare by value and save to JSON or NPZ files, which appear whole or not at all and read back exactly.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np

from discreet.errors import InvalidInput, Unsupported
from discreet.shape import Shape
from discreet.types import ArrayLike, Floats, Integers, NDArray
from discreet.validation import check_count, check_probabilities

_FORMAT = "discreet-policy"
_VERSION = 1


@dataclass(frozen=True, eq=False)
class Policy:
    """A deterministic policy: ``actions[step, state]``, of shape (H, S)."""

    actions: Integers

    def __post_init__(self) -> None:
        _freeze(self, "actions", _whole_numbers("actions", self.actions, dimensions=2))

    @property
    def horizon(self) -> int:
        """The number of steps H that it has actions for."""
        return int(self.actions.shape[0])

    @property
    def states(self) -> int:
        """The number of states S that it has actions for."""
        return int(self.actions.shape[1])

    def draw(self, rng: np.random.Generator | None = None) -> Policy:
        """The policy to follow for one episode: itself."""
        return self

    def act(self, step: int, state: int, rng: np.random.Generator | None = None) -> int:
        """The action at this step and state."""
        return int(self.actions[_position(self.horizon, self.states, step, state)])

    def stochastic(self, actions: int) -> StochasticPolicy:
        """The same policy as a table of probabilities over ``actions`` actions."""
        check_count("actions", actions, at_least=int(self.actions.max()) + 1)
        return StochasticPolicy(np.eye(actions)[self.actions])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .json or .npz file, whole or not at all."""
        _save(path, "deterministic", {"actions": self.actions})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and np.array_equal(self.actions, other.actions)

    def __hash__(self) -> int:
        return hash((self.actions.shape, self.actions.tobytes()))


@dataclass(frozen=True, eq=False)
class StochasticPolicy:
    """A policy that draws its actions: ``probabilities[step, state, action]``, of shape (H, S, A)."""

    probabilities: Floats

    def __post_init__(self) -> None:
        _freeze(self, "probabilities", _distribution("probabilities", self.probabilities, dimensions=3))

    @property
    def horizon(self) -> int:
        """The number of steps H that it has actions for."""
        return int(self.probabilities.shape[0])

    @property
    def states(self) -> int:
        """The number of states S that it has actions for."""
        return int(self.probabilities.shape[1])

    def draw(self, rng: np.random.Generator | None = None) -> StochasticPolicy:
        """The policy to follow for one episode: itself."""
        return self

    def act(self, step: int, state: int, rng: np.random.Generator | None = None) -> int:
        """Draw an action at this step and state."""
        row = self.probabilities[_position(self.horizon, self.states, step, state)]
        return int(_generator(rng).choice(row.size, p=row))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .json or .npz file, whole or not at all."""
        _save(path, "stochastic", {"probabilities": self.probabilities})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StochasticPolicy) and np.array_equal(self.probabilities, other.probabilities)

    def __hash__(self) -> int:
        return hash((self.probabilities.shape, self.probabilities.tobytes()))


@dataclass(frozen=True, eq=False)
class Mixture:
    """Deterministic policies, one of which is drawn per episode: component i with probability ``weights[i]``."""

    components: tuple[Policy, ...]
    weights: Floats

    def __post_init__(self) -> None:
        components = tuple(self.components)
        if not components or not all(isinstance(policy, Policy) for policy in components):
            raise InvalidInput("components must be one or more deterministic policies (discreet.policies.Policy)")
        shapes = {policy.actions.shape for policy in components}
        if len(shapes) > 1:
            raise InvalidInput(f"components must agree in horizon and states, got shapes {sorted(shapes)}")
        weights = _distribution("weights", self.weights, dimensions=1)
        if weights.size != len(components):
            raise InvalidInput(f"weights must have one entry per component ({len(components)}), got {weights.size}")
        object.__setattr__(self, "components", components)
        _freeze(self, "weights", weights)

    @property
    def horizon(self) -> int:
        """The number of steps H, which all components share."""
        return self.components[0].horizon

    @property
    def states(self) -> int:
        """The number of states S, which all components share."""
        return self.components[0].states

    def draw(self, rng: np.random.Generator | None = None) -> Policy:
        """The component to follow for one episode."""
        return self.components[int(_generator(rng).choice(self.weights.size, p=self.weights))]

    def act(self, step: int, state: int, rng: np.random.Generator | None = None) -> int:
        """Refused for more than one component: an action alone cannot say which component the episode follows."""
        if len(self.components) > 1:
            raise Unsupported("a mixture draws one component per episode: call draw(rng) first and act with its result")
        return self.components[0].act(step, state, rng)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .json or .npz file, whole or not at all."""
        actions = np.stack([policy.actions for policy in self.components])
        _save(path, "mixture", {"actions": actions, "weights": self.weights})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mixture):
            return False
        return self.components == other.components and np.array_equal(self.weights, other.weights)

    def __hash__(self) -> int:
        return hash((self.components, self.weights.tobytes()))


AnyPolicy: TypeAlias = Policy | StochasticPolicy | Mixture


def uniform_policy(shape: Shape) -> StochasticPolicy:
    """Every action with the same probability, everywhere."""
    return StochasticPolicy(np.full((shape.horizon, shape.states, shape.actions), 1.0 / shape.actions))


def load_policy(path: str | os.PathLike[str]) -> AnyPolicy:
    """Read a policy that ``save`` wrote; files are data only and never run code."""
    file = Path(path)
    reader = _READERS.get(file.suffix)
    if reader is None:
        raise InvalidInput(_suffix_message(file))
    try:
        content = reader(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"policy file {str(file)!r} cannot be read: {error.strerror}") from None
    except (ValueError, EOFError, BadZipFile):
        raise InvalidInput(
            f"policy file {str(file)!r} is damaged: it is not {file.suffix[1:]}; save it again"
        ) from None
    return _decode(file, content)


def _decode(file: Path, content: Any) -> AnyPolicy:
    if not isinstance(content, Mapping) or content.get("format") != _FORMAT:
        raise InvalidInput(f"policy file {str(file)!r} does not hold a policy saved by discreet")
    if content.get("version") != _VERSION:
        raise InvalidInput(
            f"policy file {str(file)!r} has version {content.get('version')!r}, this release reads version {_VERSION}; "
            "update discreet or save the policy again"
        )
    try:
        match content.get("kind"):
            case "deterministic":
                return Policy(content["actions"])
            case "stochastic":
                return StochasticPolicy(content["probabilities"])
            case "mixture":
                return Mixture(tuple(Policy(actions) for actions in content["actions"]), content["weights"])
            case kind:
                raise InvalidInput(f"policy file {str(file)!r} holds an unknown kind of policy {kind!r}")
    except (KeyError, TypeError):
        raise InvalidInput(f"policy file {str(file)!r} is damaged: a table is missing; save it again") from None


def _read_json(data: bytes) -> Any:
    return json.loads(data)


def _read_npz(data: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(data), allow_pickle=False) as tables:
        return {name: table.item() if table.ndim == 0 else table for name, table in tables.items()}


_READERS = {".json": _read_json, ".npz": _read_npz}


def _save(path: str | os.PathLike[str], kind: str, tables: Mapping[str, NDArray[Any]]) -> None:
    file = Path(path)
    header: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "kind": kind}
    match file.suffix:
        case ".json":
            # Python writes the shortest text that reads back to the same float, so this is exact.
            content = header | {name: table.tolist() for name, table in tables.items()}
            data = (json.dumps(content) + "\n").encode()
        case ".npz":
            buffer = io.BytesIO()
            np.savez_compressed(buffer, allow_pickle=False, **header, **tables)
            data = buffer.getvalue()
        case _:
            raise InvalidInput(_suffix_message(file))
    _write_whole(file, data)


def _write_whole(file: Path, data: bytes) -> None:
    """Write beside the target and rename, so that no reader ever sees half a file."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, file)
    except OSError as error:
        raise InvalidInput(f"cannot write {str(file)!r}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _suffix_message(file: Path) -> str:
    return f"policy files end in .json or .npz, got {file.name!r}"


def _freeze(policy: object, name: str, table: NDArray[Any]) -> None:
    table.flags.writeable = False
    object.__setattr__(policy, name, table)


def _whole_numbers(name: str, value: ArrayLike, *, dimensions: int) -> Integers:
    try:
        table = np.asarray(value)
    except ValueError:
        raise InvalidInput(f"{name} must be a rectangular table") from None
    if table.ndim != dimensions or table.size == 0 or table.dtype.kind not in "iu":
        raise InvalidInput(
            f"{name} must be a non-empty table of whole numbers with {dimensions} axes (step, state), "
            f"got shape {table.shape} of {table.dtype}"
        )
    if table.min() < 0:
        raise InvalidInput(f"{name} must not be negative, got {int(table.min())}; actions count from 0")
    return np.array(table, dtype=np.int64, order="C")


def _distribution(name: str, value: ArrayLike, *, dimensions: int) -> Floats:
    normalised = check_probabilities(name, value)
    if normalised.ndim != dimensions:
        raise InvalidInput(f"{name} must have {dimensions} axes, got shape {normalised.shape}")
    # Dividing again by a sum that is one up to rounding would change the last digit, and a policy read back from a
    # file would differ from the one saved.
    given = np.array(value, dtype=np.float64, order="C")
    return given if np.abs(given.sum(axis=-1) - 1).max() < 1e-12 else np.ascontiguousarray(normalised)


def _position(horizon: int, states: int, step: int, state: int) -> tuple[int, int]:
    _within("step", step, horizon)
    _within("state", state, states)
    return step, state


def _within(name: str, value: int, bound: int) -> None:
    if not 0 <= value < bound:
        raise InvalidInput(f"{name} must lie in 0..{bound - 1}, got {value!r}")


def _generator(rng: np.random.Generator | None) -> np.random.Generator:
    if rng is None:
        raise InvalidInput("this policy draws at random: pass rng=numpy.random.default_rng(seed)")
    return rng

"""Policies: what is deployed, as plain public data.

A ``Policy`` takes one action per step and state, a ``StochasticPolicy`` draws one, and a ``Mixture`` draws one
deterministic component per episode, with public coins, and follows it to the end. Steps and states count from zero.
Policies compare by value and save to JSON or NPZ files, which appear whole or not at all and read back exactly
(:mod:`discreet.base.policy_files`).

Where states or actions were declared as words, a policy carries them: ``act(step, "high")`` takes the label of a state
and returns that of an action, so that nobody has to keep a list of labels beside the file, in the right order.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, overload

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported, unknown_name
from discreet.base.files import check_writable, shortened, write_atomically
from discreet.base.notebook import counted, one_line, table_html
from discreet.base.policy_files import LARGEST, checked_name, policy_bytes, read_policy
from discreet.base.shape import Shape, check_size
from discreet.base.types import ArrayLike, Floats, Integers, NDArray
from discreet.base.validation import check_count, check_probabilities

# What a learner lists in its ``needs`` beside statistics if it deploys stochastic policies or mixtures: recipes that
# serve one action for everybody are then refused, and "auto" does without those that learn slowly from such policies.
MIXED = "mixed policies"
Row = Mapping[str, Any]
_APPLY = "discreet.tables.apply"  # what reads tables stands in a later room


@dataclass(frozen=True, eq=False)
class Policy:
    """A deterministic policy: ``actions[step, state]``, of shape (H, S).

    Args:
        actions: Whole numbers of shape (H, S): the action at every step in every state.
        state_labels: Names of the states, if they have any.
        action_labels: Names of the actions.
        columns: How raw rows become steps and states, where the policy was learned from a table.

    Examples:
        >>> import discreet
        >>> import numpy as np
        >>> policy = discreet.Policy(np.array([[1, 0]]), ("ill", "well"), ("wait", "treat"))
        >>> policy.act(0, "ill", np.random.default_rng(0))
        'treat'
    """

    actions: Integers
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    columns: Mapping[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _freeze(self, "actions", _whole_numbers("actions", self.actions, dimensions=2))
        _check_labels(self, states=self.states, actions_from=int(self.actions.max()) + 1)

    def __repr__(self) -> str:
        return one_line("Policy", _sizes(self), _labels(self))

    def _repr_html_(self) -> str:
        return _html(self, self.actions)

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

    @overload
    def act(self, step: Row, state: None = None, rng: np.random.Generator | None = None) -> Any: ...

    @overload
    def act(self, step: int, state: int, rng: np.random.Generator | None = None) -> int: ...

    @overload
    def act(self, step: int, state: str, rng: np.random.Generator | None = None) -> int | str: ...

    def act(self, step: int | Row, state: int | str | None = None, rng: np.random.Generator | None = None) -> Any:
        """The action at this step and state, or for a raw row. A label gives a label, a number a number."""
        if isinstance(step, Mapping):
            return importlib.import_module(_APPLY).act(self, step, rng)
        return _named(self, state, int(self.actions[_position(self, step, state)]))

    def stochastic(self, actions: int) -> StochasticPolicy:
        """The same policy as a table of probabilities over ``actions`` actions."""
        check_count("actions", actions, at_least=int(self.actions.max()) + 1)
        if self.actions.size * actions * 8 > LARGEST:
            raise InvalidInput(f"a table of probabilities over {actions} actions is too large for this policy")
        words = self.action_labels if self.action_labels is not None and len(self.action_labels) == actions else None
        table = np.zeros((*self.actions.shape, actions))
        np.put_along_axis(table, self.actions[..., None], 1.0, axis=2)
        return StochasticPolicy(table, self.state_labels, words, self.columns)

    def predict(self, frame: Any, rng: np.random.Generator | None = None) -> list[Any]:
        """The action for each raw row of a frame, None where its step or state is outside of the declared columns."""
        found: list[Any] = importlib.import_module(_APPLY).predict(self, frame, rng)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .json or .npz file, whole or not at all."""
        _save(self, path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and np.array_equal(self.actions, other.actions) and _same_labels(self, other)

    def __hash__(self) -> int:
        return hash((self.actions.shape, self.actions.tobytes(), self.state_labels, self.action_labels))


@dataclass(frozen=True, eq=False)
class StochasticPolicy:
    """A policy that draws its actions: ``probabilities[step, state, action]``, of shape (H, S, A).

    Args:
        probabilities: Of shape (H, S, A); those of one step and state sum to one.
        state_labels: Names of the states, if they have any.
        action_labels: Names of the actions.
        columns: How raw rows become steps and states, where the policy was learned from a table.

    Examples:
        >>> import discreet
        >>> import numpy as np
        >>> even = discreet.StochasticPolicy(np.full((1, 2, 2), 0.5))
        >>> even.horizon, even.states
        (1, 2)
    """

    probabilities: Floats
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    columns: Mapping[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _freeze(self, "probabilities", _distribution("probabilities", self.probabilities, dimensions=3))
        _check_labels(self, states=self.states, actions=self.probabilities.shape[2])

    def __repr__(self) -> str:
        return one_line("StochasticPolicy", _sizes(self), f"{self.probabilities.shape[2]} actions", _labels(self))

    def _repr_html_(self) -> str:
        return _html(self, self.probabilities.argmax(axis=2), "the likeliest action of each step")

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

    @overload
    def act(self, step: Row, state: None = None, rng: np.random.Generator | None = None) -> Any: ...

    @overload
    def act(self, step: int, state: int, rng: np.random.Generator | None = None) -> int: ...

    @overload
    def act(self, step: int, state: str, rng: np.random.Generator | None = None) -> int | str: ...

    def act(self, step: int | Row, state: int | str | None = None, rng: np.random.Generator | None = None) -> Any:
        """Draw an action at this step and state, or for a raw row. A label gives a label, a number a number."""
        if isinstance(step, Mapping):
            return importlib.import_module(_APPLY).act(self, step, rng)
        row = self.probabilities[_position(self, step, state)]
        return _named(self, state, int(_generator(rng).choice(row.size, p=row)))

    def predict(self, frame: Any, rng: np.random.Generator | None = None) -> list[Any]:
        """The action for each raw row of a frame, None where its step or state is outside of the declared columns."""
        found: list[Any] = importlib.import_module(_APPLY).predict(self, frame, rng)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .json or .npz file, whole or not at all."""
        _save(self, path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StochasticPolicy):
            return False
        return np.array_equal(self.probabilities, other.probabilities) and _same_labels(self, other)

    def __hash__(self) -> int:
        return hash((self.probabilities.shape, self.probabilities.tobytes(), self.state_labels, self.action_labels))


@dataclass(frozen=True, eq=False)
class Mixture:
    """Deterministic policies, one of which is drawn per episode: component i with probability ``weights[i]``.

    Args:
        components: Deterministic policies of the same shape.
        weights: The probability of each.

    Examples:
        >>> import discreet
        >>> import numpy as np
        >>> left, right = discreet.Policy(np.array([[0]])), discreet.Policy(np.array([[1]]))
        >>> len(discreet.Mixture((left, right), np.array([0.25, 0.75])).components)
        2
    """

    components: tuple[Policy, ...]
    weights: Floats

    def __post_init__(self) -> None:
        components = tuple(self.components) if isinstance(self.components, Sequence) else ()
        if not components or not all(isinstance(policy, Policy) for policy in components):
            raise InvalidInput("components must be one or more deterministic policies (discreet.base.policies.Policy)")
        shapes = {policy.actions.shape for policy in components}
        if len(shapes) > 1:
            raise InvalidInput(f"components must agree in horizon and states, got shapes {sorted(shapes)}")
        if not all(_same_labels(policy, components[0]) for policy in components):
            raise InvalidInput("components must agree in the labels of states and actions, and in their columns")
        weights = _distribution("weights", self.weights, dimensions=1)
        if weights.size != len(components):
            raise InvalidInput(f"weights must have one entry per component ({len(components)}), got {weights.size}")
        object.__setattr__(self, "components", components)
        _freeze(self, "weights", weights)

    def __repr__(self) -> str:
        return one_line("Mixture", counted(len(self.components), "component"), _sizes(self))

    def _repr_html_(self) -> str:
        rows = [[str(index), f"{weight:.4g}"] for index, weight in enumerate(self.weights[:_ROWS])]
        left = len(self.components) - len(rows)
        return table_html(repr(self)[1:-1], ["component", "weight"], rows, f"and {left:,} more" if left > 0 else "")

    @property
    def horizon(self) -> int:
        """The number of steps H, which all components share."""
        return self.components[0].horizon

    @property
    def states(self) -> int:
        """The number of states S, which all components share."""
        return self.components[0].states

    @property
    def state_labels(self) -> tuple[str, ...] | None:
        """The labels of the states, which all components share, if there are any."""
        return self.components[0].state_labels

    @property
    def action_labels(self) -> tuple[str, ...] | None:
        """The labels of the actions, which all components share, if there are any."""
        return self.components[0].action_labels

    @property
    def columns(self) -> Mapping[str, Any] | None:
        """How raw rows become steps and states, which all components share."""
        return self.components[0].columns

    def draw(self, rng: np.random.Generator | None = None) -> Policy:
        """The component to follow for one episode."""
        return self.components[int(_generator(rng).choice(self.weights.size, p=self.weights))]

    @overload
    def act(self, step: Row, state: None = None, rng: np.random.Generator | None = None) -> Any: ...

    @overload
    def act(self, step: int, state: int, rng: np.random.Generator | None = None) -> int: ...

    @overload
    def act(self, step: int, state: str, rng: np.random.Generator | None = None) -> int | str: ...

    def act(self, step: int | Row, state: int | str | None = None, rng: np.random.Generator | None = None) -> Any:
        """Refused for more than one component: an action alone cannot say which component the episode follows."""
        if len(self.components) > 1:
            raise Unsupported("a mixture draws one component per episode: call draw(rng) first and act with its result")
        return self.components[0].act(step, state, rng)  # type: ignore[arg-type]

    def predict(self, frame: Any, rng: np.random.Generator | None = None) -> list[Any]:
        """The action for each raw row of a frame, None where its step or state is outside of the declared columns."""
        found: list[Any] = importlib.import_module(_APPLY).predict(self, frame, rng)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .json or .npz file, whole or not at all."""
        _save(self, path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mixture):
            return False
        return self.components == other.components and np.array_equal(self.weights, other.weights)

    def __hash__(self) -> int:
        return hash((self.components, self.weights.tobytes()))


AnyPolicy: TypeAlias = Policy | StochasticPolicy | Mixture


def check_policy(name: str, policy: object) -> None:
    """Refuse what is no policy, such as an array."""
    if not isinstance(policy, Policy | StochasticPolicy | Mixture):
        raise InvalidInput(
            f"{name} must be a discreet.Policy, StochasticPolicy or Mixture, got a {type(policy).__name__}: an array "
            "(H, S) of actions becomes one by discreet.Policy(array)"
        )


_LARGEST_ACTION = 2**31 - 1  # nobody declares more; whole numbers beyond 2^63 would wrap to negative ones


def uniform_policy(shape: Shape) -> StochasticPolicy:
    """Every action with the same probability, everywhere."""
    check_size(shape)
    return StochasticPolicy(np.full((shape.horizon, shape.states, shape.actions), 1.0 / shape.actions))


def load_policy(path: str | os.PathLike[str]) -> AnyPolicy:
    """Read a policy that ``save`` wrote, with its labels; files are data only and never run code.

    Args:
        path: The JSON file that ``policy.save(path)`` or ``discreet train --out`` wrote.

    Examples:
        >>> import discreet, pathlib, tempfile
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "policy.json"
        ...     discreet.Policy(np.array([[1, 0]])).save(file)
        ...     discreet.load_policy(file).actions
        array([[1, 0]])
    """
    content, file = read_policy(path), shortened(path)
    words = {name: content.get(name) for name in ("state_labels", "action_labels", "columns")}
    try:
        match content.get("kind"):
            case "deterministic":
                return Policy(content["actions"], **words)
            case "stochastic":
                return StochasticPolicy(content["probabilities"], **words)
            case "mixture":
                components = tuple(Policy(actions, **words) for actions in content["actions"])
                return Mixture(components, content["weights"])
            case kind:
                raise InvalidInput(f"policy file {file} holds an unknown kind of policy {str(kind)[:40]!r}")
    except (KeyError, TypeError):
        raise InvalidInput(f"policy file {file} is damaged: a table is missing; save it again") from None
    except (RecursionError, MemoryError, OverflowError):
        raise InvalidInput(f"policy file {file} is damaged: a table is no table of numbers; save it again") from None


def policy_tables(policy: AnyPolicy) -> dict[str, NDArray[Any]]:
    """The tables that make a policy, by name; ``policy_of`` puts them together again. Labels are not among them."""
    if (policy.state_labels, policy.action_labels, policy.columns) != (None, None, None):
        raise Unsupported("the tables of a policy hold neither labels nor columns: take them off, or save it to a file")
    return _tables(policy)


def policy_of(tables: Mapping[str, NDArray[Any]]) -> AnyPolicy:
    """The policy that these tables make; their names say which kind it is."""
    if tables.keys() == {"actions"}:
        return Policy(tables["actions"])
    if tables.keys() == {"probabilities"}:
        return StochasticPolicy(tables["probabilities"])
    if tables.keys() == {"actions", "weights"}:
        return Mixture(tuple(Policy(actions) for actions in tables["actions"]), tables["weights"])
    raise InvalidInput(f"no policy is made of {', '.join(sorted(tables)) or 'no tables'}")


def policy_content(policy: AnyPolicy, suffix: str) -> bytes:
    """What ``save`` writes into a file whose name ends in ``suffix``, .json or .npz."""
    kind = {Policy: "deterministic", StochasticPolicy: "stochastic", Mixture: "mixture"}[type(policy)]
    labels = {"state_labels": policy.state_labels, "action_labels": policy.action_labels}
    return policy_bytes(suffix, kind, _tables(policy), labels, policy.columns)


def _tables(policy: AnyPolicy) -> dict[str, NDArray[Any]]:
    match policy:
        case Policy(actions):
            return {"actions": actions}
        case StochasticPolicy(probabilities):
            return {"probabilities": probabilities}
        case Mixture(components, weights):
            return {"actions": np.stack([component.actions for component in components]), "weights": weights}


def _save(policy: AnyPolicy, path: str | os.PathLike[str]) -> None:
    file = check_writable(checked_name(path))
    write_atomically(file, policy_content(policy, file.suffix))


_ROWS, _STEPS = 12, 12  # of a table in a notebook


def _sizes(policy: AnyPolicy) -> str:
    return f"{counted(policy.horizon, 'step')}, {counted(policy.states, 'state')}"


def _labels(policy: Policy | StochasticPolicy) -> str:
    return "" if policy.state_labels is None and policy.action_labels is None else "labelled"


def _html(policy: Policy | StochasticPolicy, actions: Integers, note: str = "") -> str:
    """The first states and steps as a table."""
    states, words = policy.state_labels, policy.action_labels
    steps = min(policy.horizon, _STEPS)
    rows = [
        [
            str(state) if states is None else states[state],
            *(str(actions[step, state]) if words is None else words[actions[step, state]] for step in range(steps)),
        ]
        for state in range(min(policy.states, _ROWS))
    ]
    cut = f"the first of {_sizes(policy)}" if policy.states > _ROWS or policy.horizon > _STEPS else ""
    title = f"{type(policy).__name__}: {_sizes(policy)}"
    first = (policy.columns or {}).get("first_step", 0)
    columns = ["state", *(f"step {step + first}" for step in range(steps))]
    return table_html(title, columns, rows, "; ".join(filter(None, (note, cut))))


def _freeze(policy: object, name: str, table: NDArray[Any]) -> None:
    table.flags.writeable = False
    object.__setattr__(policy, name, table)


def _whole_numbers(name: str, value: ArrayLike, *, dimensions: int) -> Integers:
    try:
        table = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be a rectangular table") from None
    if table.ndim != dimensions or table.size == 0 or table.dtype.kind not in "iu":
        raise InvalidInput(
            f"{name} must be a non-empty table of whole numbers with {dimensions} axes (step, state), "
            f"got shape {table.shape} of {table.dtype}"
        )
    if table.min() < 0:
        raise InvalidInput(f"{name} must not be negative, got {int(table.min())}; actions count from 0")
    if table.max() > _LARGEST_ACTION:
        raise InvalidInput(f"{name} must be numbers of actions, got {int(table.max())}; actions count from 0")
    return np.array(table, dtype=np.int64, order="C")


def _distribution(name: str, value: ArrayLike, *, dimensions: int) -> Floats:
    normalised = check_probabilities(name, value)
    if normalised.ndim != dimensions:
        raise InvalidInput(f"{name} must have {dimensions} axes, got shape {normalised.shape}")
    # Dividing again by a sum that is one up to rounding would change the last digit, and a policy read back from a
    # file would differ from the one saved.
    given = np.array(value, dtype=np.float64, order="C")
    return given if np.abs(given.sum(axis=-1) - 1).max() < 1e-12 else np.ascontiguousarray(normalised)


def labelled(
    policy: AnyPolicy,
    state_labels: Sequence[str] | None,
    action_labels: Sequence[str] | None,
    columns: Mapping[str, Any] | None = None,
) -> AnyPolicy:
    """The same policy with these labels; None leaves states or actions as numbers."""
    words: Any = {"state_labels": state_labels, "action_labels": action_labels, "columns": columns}
    if isinstance(policy, Mixture):
        return replace(policy, components=tuple(replace(each, **words) for each in policy.components))
    return replace(policy, **words)


def _check_labels(
    policy: Policy | StochasticPolicy, *, states: int, actions: int | None = None, actions_from: int = 0
) -> None:
    """Freeze labels and columns: different words, one for each state and for each action that there may be."""
    if policy.columns is not None:
        try:
            plain = json.loads(json.dumps(policy.columns, allow_nan=False))  # as a file holds them
        except (TypeError, ValueError, RecursionError):
            plain = None
        if not isinstance(plain, dict) or type(plain.get("first_step", 0)) is not int:
            raise InvalidInput("columns of a policy must be plain data, as a table writes them: save the policy again")
        object.__setattr__(policy, "columns", plain)
    for name, given in (("state_labels", policy.state_labels), ("action_labels", policy.action_labels)):
        if given is None:
            continue
        if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(w, str) for w in given):
            raise InvalidInput(f"{name} must be a list of words")
        if len(set(given)) < len(given):
            raise InvalidInput(f"{name} must be different words, one of them is there twice")
        wanted = states if name == "state_labels" else actions
        if len(given) != wanted if wanted is not None else len(given) < actions_from:
            number = wanted if wanted is not None else f"at least {actions_from}"
            raise InvalidInput(f"{name} must have {number} words for this policy, got {len(given)}")
        object.__setattr__(policy, name, tuple(given))


def _same_labels(one: Policy | StochasticPolicy, other: Policy | StochasticPolicy) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in ("state_labels", "action_labels", "columns"))


def _position(policy: Policy | StochasticPolicy, step: int, state: int | str | None) -> tuple[int, int]:
    where = _within("step", step, policy.horizon)
    if not isinstance(state, str):
        return where, _within("state", state, policy.states)
    if policy.state_labels is None:
        raise InvalidInput(f"this policy has no labels of states: give a number in 0..{policy.states - 1}")
    if state not in policy.state_labels:
        raise unknown_name("state", state, policy.state_labels)
    return where, policy.state_labels.index(state)


def _named(policy: Policy | StochasticPolicy, state: int | str | None, action: int) -> int | str:
    """The action as the state was given: by its label, where it has one, or by its number."""
    return action if policy.action_labels is None or not isinstance(state, str) else policy.action_labels[action]


def _within(name: str, value: Any, bound: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < bound:
        shown = repr(value) if isinstance(value, int | float | str) else f"a {type(value).__name__}"
        raise InvalidInput(f"{name} must lie in 0..{bound - 1} and be a whole number, got {shown[:60]}")
    return int(value)


def _generator(rng: np.random.Generator | None) -> np.random.Generator:
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput("this policy draws at random: pass rng=numpy.random.default_rng(seed)")
    return rng

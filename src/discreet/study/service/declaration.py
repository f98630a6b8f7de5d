"""A study as its participants may read it: one TOML file, checked key by key, with a hash that is its name.

The *declaration* is what the file says with all defaults filled in, as plain data. Its hash is the SHA-256 of its
canonical JSON text, so two files that say the same are the same study, and what a device agrees to is that hash.
Nothing in it is secret. Unknown keys are refused: a misspelt one would silently mean its default.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from discreet.base.errors import InvalidInput, Unsupported, unknown_name
from discreet.base.files import as_path, shortened
from discreet.base.shape import Shape
from discreet.base.validation import (
    check_count,
    check_delta,
    check_epsilon,
    check_flag,
    check_not_negative,
    check_range,
    shown,
)
from discreet.ledger.chain import canonical, digest
from discreet.recipes.targets import Central, Local, Privacy, Shuffle

FORMAT = 2  # 1 was that of discreet 0.2, whose shuffled studies bound no law
MODELS = {"local": Local, "central": Central, "shuffle": Shuffle}
_LARGEST = 1 << 20  # bytes of a study file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_WINDOW = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MISSING = object()
_REHEARSED = 1.0  # the epsilon of rehearsals of a study that does not say one yet

Check = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Study:
    """A checked declaration. ``declaration`` is plain data; everything else is read from it."""

    declaration: Mapping[str, Any]
    unsaid: tuple[str, ...] = ()  # what is left empty; rehearsals take an epsilon of 1 where none is said

    def check_said(self, *names: str) -> None:
        """Refuse to start a study that does not say what it asks, why, and at which epsilon; or these of them."""
        if set(self.unsaid).intersection(names or self.unsaid):
            raise InvalidInput(
                f"study {self.name!r} does not say its {_listed(self.unsaid)} yet, and nobody else can: write that "
                "into its file, then start it"
            )

    def rehearsal_words(self) -> str:
        """What is still to be said, where something is rehearsed without it."""
        weak = f", and this goes on at epsilon {_REHEARSED:g}" if "epsilon" in self.unsaid else ""
        return f"not said yet: {_listed(self.unsaid)}; a study starts when its file says them{weak}"

    @cached_property
    def hash(self) -> str:
        """The name of the study: what a device agrees to."""
        return f"sha256:{digest(dict(self.declaration))}"

    @property
    def text(self) -> str:
        """The declaration as the one text that is hashed."""
        return canonical(dict(self.declaration))

    @property
    def name(self) -> str:
        """Its short name, for people."""
        return str(self.declaration["name"])

    @property
    def model(self) -> str:
        """Whom participants trust: "local", "shuffle" or "central"."""
        return str(self.declaration["privacy"]["model"])

    @property
    def sealed(self) -> bool:
        """Whether reports are records that are sealed as soon as they arrive."""
        return self.model == "central"

    @property
    def shuffled(self) -> bool:
        """Whether reports are messages that a shuffler mixes before the coordinator sees them."""
        return self.model == "shuffle"

    @property
    def early_end(self) -> bool:
        """Whether records may end before the last step."""
        return bool(self.declaration["problem"]["early_end"])

    @property
    def most_reports(self) -> int:
        """How many reports a participant sends at most."""
        return int(self.declaration["users"]["reports_per_user"])

    @property
    def total(self) -> int:
        """How many reports the study takes in all."""
        return int(self.declaration["users"]["number"]) * self.most_reports

    @property
    def invited(self) -> bool:
        """Whether only holders of invitation tokens take part."""
        return bool(self.declaration["users"]["tokens"])

    @property
    def window(self) -> int:
        """Seconds after taking a policy in which a device reports."""
        number, unit = _window_parts(self.declaration["reporting"]["window"])
        return number * _SECONDS[unit]

    @property
    def signing_key(self) -> str:
        """The public key that signs heads, in hexadecimal digits."""
        return str(self.declaration["keys"]["signing"])

    @property
    def sealing_key(self) -> bytes:
        """Shuffled studies: the public key of the coordinator, to which devices seal their messages."""
        return bytes.fromhex(self.declaration["keys"]["sealing"])

    @property
    def shuffler_key(self) -> str:
        """Shuffled studies: the public key of the shuffler, which signs batches, in hexadecimal digits."""
        return str(self.declaration["keys"]["shuffler"])

    @property
    def local_epsilon(self) -> float | str:
        """Shuffled studies: the local epsilon that is left if both parties act together, "none", or "": not said."""
        stated: float | str = self.declaration["shuffle"]["local_epsilon"]
        return stated

    @cached_property
    def shape(self) -> Shape:
        """States, actions, steps and rewards, as mechanisms and learners take them."""
        problem = self.declaration["problem"]
        return Shape(
            _number_of(problem["states"]), _number_of(problem["actions"]), problem["horizon"],
            homogeneous=problem["homogeneous"], rewards=tuple(problem["rewards"]), start=problem["start"],
        )  # fmt: skip

    def target(self, recipe: str | None = None) -> Privacy:
        """What one report may cost: the r-th part of the promise, where a participant sends r of them."""
        asked, r = self.declaration["privacy"], self.most_reports
        options = dict(asked["options"])
        if self.shuffled:
            options |= {name: self.declaration["shuffle"][name] for name in _SHARES}
        return MODELS[self.model](
            _part(asked["epsilon"], r), _part(asked["delta"], r), recipe=recipe or asked["recipe"], options=options
        )


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study that a TOML file declares."""
    file = as_path(path)
    try:
        if file.stat().st_size > _LARGEST:
            raise InvalidInput(f"{shortened(file)} is too large for a study: {_LARGEST >> 20} MiB are possible")
        text = file.read_bytes().decode()
    except FileNotFoundError:
        raise InvalidInput(f"there is no study {shortened(file)}: write one with  discreet study new") from None
    except OSError as error:
        raise InvalidInput(
            f"study {shortened(file)} cannot be read: {error.strerror or 'the system refused'}"
        ) from None
    except UnicodeDecodeError:
        raise InvalidInput(f"study {shortened(file)} is not UTF-8 text: save it as such") from None
    return parse_study(text, f"study {shortened(file)}")


def parse_study(text: str, named: str = "the study") -> Study:
    """The study that a TOML text declares; ``named`` says in refusals where it comes from."""
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InvalidInput(f"{named} is not TOML: {' '.join(str(error).split())[:120]}") from None
    return declare(given)


def declare(given: Mapping[str, Any]) -> Study:
    """The study of plain data: checked, with all defaults filled in."""
    privacy = given.get("privacy")
    shuffled = isinstance(privacy, Mapping) and privacy.get("model") == "shuffle"
    sections = {**_SECTIONS, **_SHUFFLED_SECTIONS} if shuffled else _SECTIONS
    top = {name: value for name, value in given.items() if name not in sections}
    found: dict[str, Any] = _section("a study", top, _TOP, also=sections)
    for section, fields in sections.items():
        content = given.get(section, {})
        if not isinstance(content, Mapping):
            raise InvalidInput(f"[{section}] of a study is a table of keys, got {shown(content)}")
        found[section] = _section(f"[{section}]", content, fields)
    _check_together(found)
    empty = {"title": found["title"], "about": found["about"], "epsilon": given["privacy"]["epsilon"]}
    study = Study(found, tuple(name for name, value in empty.items() if isinstance(value, str) and not value.strip()))
    study.shape, study.target()  # refused here and not later
    return study


def _section(
    where: str, given: Mapping[str, Any], fields: Mapping[str, tuple[Check, Any]], also: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    for name in given:
        if name not in fields:
            raise unknown_name(f"key of {where}", name, [*fields, *(also or {})])
    found = {}
    for name, (check, usual) in fields.items():
        value = given.get(name, usual)
        if value is _MISSING:
            raise InvalidInput(f"{where} has no {name}: every study says it; see  discreet study new")
        found[name] = check(name, value)
    return found


def _check_together(found: dict[str, Any]) -> None:
    problem = found["problem"]
    start, states = problem["start"], problem["states"]
    if isinstance(start, str):
        if not isinstance(states, list) or start not in states:
            raise unknown_name("start state", start, states if isinstance(states, list) else ())
        problem["start"] = states.index(start)
    if found["privacy"]["model"] == "local" and found["privacy"]["delta"] != 0:
        raise Unsupported("local studies promise pure privacy: set delta = 0 in [privacy]")
    model = found["privacy"]["model"]
    if model == "shuffle":
        _check_shares(found)
    if found["users"]["reports_per_user"] > 1 and model != "local" and not found["users"]["tokens"]:
        raise Unsupported(
            f"a {model} study with reports_per_user above 1 needs tokens = true: that nobody reports twice in one "
            "round is what its promise rests on, and only a token shows it"
        )


def _check_shares(found: dict[str, Any]) -> None:
    for name in _SHARES:
        if name in found["privacy"]["options"]:
            raise InvalidInput(f"{name} stands in [shuffle] of a study, and not among the options of its recipe")
    if sum(found["shuffle"][name] for name in _SHARES) >= 1:
        raise InvalidInput("dropouts and colluding of [shuffle] leave nobody: together they stay below 1")


def _epsilon(name: str, value: Any) -> float:
    """An epsilon; where it is still empty, as a new study leaves it, that of rehearsals."""
    return check_epsilon(name, _REHEARSED if value == "" else value)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _text(longest: int) -> Check:
    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or len(value) > longest or not value.replace("\n", " ").isprintable():
            raise InvalidInput(f"{name} must be printable text of at most {longest} characters, got {shown(value)}")
        return value

    return check


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidInput(f"{name} must be letters, digits and dashes, at most 64, got {shown(value)}")
    return value


def _format(name: str, value: Any) -> int:
    if value != FORMAT or isinstance(value, bool):
        raise InvalidInput(
            f"{name} of a study is {FORMAT}, got {shown(value)}: it was written for another release, such as 0.2; end "
            "it with that one, or write a new one with  discreet study new"
        )
    return FORMAT


def _domain(name: str, value: Any) -> int | list[str]:
    """A number, or labels."""
    if not isinstance(value, list):
        return check_count(name, value)
    words = [_text(100)(f"a label of {name}", word) for word in value]
    if not words or len(set(words)) < len(words) or not all(words):
        raise InvalidInput(f"{name} must be a number or a list of different labels, got {shown(value)}")
    return words


def _start(name: str, value: Any) -> int | str | None:
    return value if value is None or isinstance(value, str) else check_count(name, value, at_least=0)


def _rewards(name: str, value: Any) -> list[float]:
    return list(check_range(name, tuple(value) if isinstance(value, list) else value))


def _model(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in MODELS:
        raise unknown_name("trust model of a study", value, MODELS)
    return str(value)


def _options(name: str, value: Any) -> dict[str, Any]:
    plain = isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(each, str | int | float | bool) for key, each in value.items()
    )
    if not plain:
        raise InvalidInput(f"{name} must be a table of names with plain values, got {shown(value)}")
    try:
        canonical(dict(value))
    except ValueError:
        raise InvalidInput(f"{name} must be finite numbers, words or truth values") from None
    return dict(value)


def _address(name: str, value: Any) -> str:
    text: str = _text(200)(name, value)
    if text and not text.startswith(("https://", "http://")):
        raise InvalidInput(f"{name} of the shuffler looks like https://shuffler.example.org, got {shown(value)}")
    return text


def _local_epsilon(name: str, value: Any) -> float | str:
    if isinstance(value, str) and value not in ("", "none"):
        raise InvalidInput(f'{name} of [shuffle] is a number, or "none" if nothing is left, got {shown(value)}')
    return value if isinstance(value, str) else check_epsilon(name, value)


def _at_least_zero(name: str, value: Any) -> int:
    return check_count(name, value, at_least=0)


def _window(name: str, value: Any) -> str:
    _window_parts(value)
    return str(value)


def _window_parts(value: Any) -> tuple[int, str]:
    match = _WINDOW.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput(f"window must be a time such as 90s, 30m, 1h or 2d, got {shown(value)}")
    return int(match[1]), match[2]


def _public_key(name: str, value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise InvalidInput(
            f"{name} must be 64 hexadecimal digits, as  discreet study new  writes it; got {shown(value)}"
        )
    return value


def _part(whole: float, parts: int) -> float:
    """The largest number of which so many are not more than the whole, exactly."""
    part = whole / parts
    return part if Fraction(part) * parts <= Fraction(whole) else math.nextafter(part, 0.0)


def _number_of(domain: int | list[str]) -> int:
    return len(domain) if isinstance(domain, list) else domain


_TOP: dict[str, tuple[Check, Any]] = {
    "format": (_format, _MISSING),
    "name": (_name, _MISSING),
    "title": (_text(200), ""),
    "about": (_text(4000), ""),
}
_SECTIONS: dict[str, dict[str, tuple[Check, Any]]] = {
    "problem": {
        "states": (_domain, _MISSING),
        "actions": (_domain, _MISSING),
        "horizon": (check_count, _MISSING),
        "start": (_start, None),
        "homogeneous": (check_flag, False),
        "rewards": (_rewards, [0.0, 1.0]),
        "early_end": (check_flag, False),
    },
    "privacy": {
        "model": (_model, _MISSING),
        "epsilon": (_epsilon, _MISSING),
        "delta": (check_delta, 0.0),
        "recipe": (_text(100), "auto"),
        "options": (_options, {}),
    },
    "users": {
        "number": (check_count, _MISSING),
        "reports_per_user": (check_count, 1),
        "tokens": (check_flag, False),
    },
    "learner": {"name": (_text(100), "ucbvi"), "options": (_options, {}), "seed": (_at_least_zero, 1)},
    "reporting": {"window": (_window, "1h")},
    "keys": {"signing": (_public_key, _MISSING)},
}
_SHARES = ("dropouts", "colluding")
_SHUFFLED_SECTIONS: dict[str, dict[str, tuple[Check, Any]]] = {
    "shuffle": {
        **dict.fromkeys(_SHARES, (check_not_negative, 0.0)),
        "local_epsilon": (_local_epsilon, ""),
        "address": (_address, ""),
    },
    "keys": {**_SECTIONS["keys"], "sealing": (_public_key, _MISSING), "shuffler": (_public_key, _MISSING)},
}


def file_name(path: str | os.PathLike[str]) -> Path:
    """The path of a study file, whose name ends in .toml."""
    file = as_path(path)
    if file.suffix != ".toml":
        raise InvalidInput(f"study files end in .toml, got {shortened(file.name)}")
    return file

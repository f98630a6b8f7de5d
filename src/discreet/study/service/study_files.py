"""The files of a study, all beside its declaration, and a new study with all of them.

``NAME.toml``           the declaration; public
``NAME.signing.pem``    the key that signs heads; only its owner may read it
``NAME.operator``       the operator's token, for metrics and status
``NAME.keys/``          private keys of rounds (central studies); never part of a backup
``NAME.head``           the head of the chain, outside the database
``NAME.marks/``         what was acknowledged last in the open round, outside the database; a file for each process
``NAME.db``             the database, unless another one is named
``NAME.sealing.key``    shuffled studies: the key that opens messages; only the coordinator has it

A shuffled study has a second party, whose files lie beside its own copy of the declaration, at first in the folder
``NAME.shuffler``: ``NAME.shuffler.pem`` (the key that signs batches; only the shuffler has it), ``NAME.operator`` (the
token of whoever runs the shuffler) and ``NAME.shuffler.db``.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from discreet.base.errors import InvalidInput, unknown_name
from discreet.base.files import check_writable, there_already, write_atomically
from discreet.base.validation import check_count
from discreet.ledger.keys import make_key
from discreet.study.service.declaration import MODELS, file_name
from discreet.study.service.sealing import make_sealing_key, read_secret, write_secret


class Places(NamedTuple):
    """Where the files of one study lie."""

    signing: Path
    operator: Path
    keys: Path
    head: Path
    database: Path
    marks: Path
    sealing: Path


class ShufflerPlaces(NamedTuple):
    """Where the files of the shuffler of one study lie."""

    signing: Path
    operator: Path
    database: Path


_ENDINGS = (".signing.pem", ".operator", ".keys", ".head", ".db", ".marks", ".sealing.key")


def places_of(study_file: Path) -> Places:
    """The usual places: beside the study file, under its name."""
    stem = study_file.with_suffix("")
    return Places(*(stem.with_name(stem.name + ending) for ending in _ENDINGS))


def shuffler_places_of(study_file: Path) -> ShufflerPlaces:
    """The usual places of a shuffler: beside its own copy of the study file."""
    stem = study_file.with_suffix("")
    endings = (".shuffler.pem", ".operator", ".shuffler.db")
    return ShufflerPlaces(*(stem.with_name(stem.name + ending) for ending in endings))


def shuffler_folder(study_file: Path) -> Path:
    """Where a new study puts what belongs to its shuffler, to be handed to whoever runs it."""
    return study_file.with_name(study_file.stem + ".shuffler")


def make_operator_token(file: Path) -> None:
    """A new operator's token in a file of its own; one that is there stays."""
    if not file.exists():
        write_secret(file, secrets.token_urlsafe(32).encode() + b"\n")


def operator_token(file: Path) -> str:
    """The operator's token."""
    return read_secret(file, "make one with  discreet study new").decode().strip()


def new_study(path: str | os.PathLike[str], model: str = "local") -> Places:
    """Write a commented study file with a new signing key and an operator's token beside it; overwrites nothing.

    A shuffled one also gets a key that opens messages, and a folder with the key and the token of the shuffler.
    """
    if model not in MODELS:
        raise unknown_name("trust model of a study", model, MODELS)
    file = check_writable(file_name(path))
    places, apart = places_of(file), shuffler_folder(file)
    for taken in (file, places.signing, *([places.sealing, apart] if model == "shuffle" else [])):
        if taken.exists():
            raise there_already(taken)
    name = re.sub("[^A-Za-z0-9-]+", "-", file.stem).strip("-")[:64] or "study"
    made = [file, places.signing, *([] if places.operator.exists() else [places.operator])]
    made += [places.sealing] if model == "shuffle" else []
    try:
        keys = {"signing": make_key(places.signing)}
        make_operator_token(places.operator)
        if model == "shuffle":
            keys |= {"sealing": make_sealing_key(places.sealing), "shuffler": _new_shuffler(apart / file.name)}
        write_atomically(file, template(name, keys, model), new=True)
    except BaseException:  # all of it or nothing: a key without its study would be in the way of the next attempt
        for each in made:
            each.unlink(missing_ok=True)
        if model == "shuffle":
            shutil.rmtree(apart, ignore_errors=True)
        raise
    return places


def _new_shuffler(study_file: Path) -> str:
    study_file.parent.mkdir(mode=0o700)
    places = shuffler_places_of(study_file)
    make_operator_token(places.operator)
    return make_key(places.signing)


def new_tokens(number: int) -> list[str]:
    """Invitation tokens: 192 random bits each."""
    return [secrets.token_urlsafe(24) for _ in range(check_count("number", number))]


def template(name: str, keys: Mapping[str, str], model: str = "local") -> str:
    """A commented study file for people to change."""
    text = _TEMPLATE.format(name=name, signing=keys["signing"])
    for old, new in _OF_MODEL.get(model, ()):
        if old not in text:
            raise InvalidInput(f"the template has no line for the trust model {model}")
        text = text.replace(old, new)
    return text + "".join(f'{key} = "{digits}"\n' for key, digits in keys.items() if key != "signing")


_TEMPLATE = """\
# A study of discreet. All of this is public: participants see it, and its hash is what their devices agree to.
# Check it with  discreet study check FILE;  nothing may be changed once somebody takes part.
format = 2
name = "{name}"
title = ""                     # what participants see first; serve starts when title, about and epsilon are said
about = ""                     # what is asked and why, in a sentence or two

[problem]
states = 4                     # how many, or a list of labels
actions = 2                    # how many, or a list of labels
horizon = 6                    # steps of an episode
start = 0                      # the first state, if it is the same for everybody; leave it out if not
homogeneous = true             # whether every step follows the same laws
rewards = [0.0, 1.0]           # the range; devices refuse what lies outside
early_end = false              # whether episodes may end before the last step

[privacy]
model = "local"                # "local": nobody sees a record; "central": a trusted coordinator does
epsilon = ""                   # a number: of everything that a participant sends in the whole study
delta = 0.0                    # central studies usually take 1e-5
recipe = "auto"
options = {{}}

[users]
number = 20000                 # participants
reports_per_user = 1           # how many episodes each may report
tokens = false                 # true: only who has a token; make them with  discreet study tokens FILE --number N

[learner]
name = "ucbvi"
options = {{}}
seed = 1                       # of public coins; it protects nobody and is no secret

[reporting]
window = "1h"                  # how long after taking a policy a device may report

[keys]
signing = "{signing}"
"""

_PRIVATE = 'model = "local"                # "local": nobody sees a record; "central": a trusted coordinator does\n'
_OF_MODEL: dict[str, tuple[tuple[str, str], ...]] = {
    "central": (
        (_PRIVATE, _PRIVATE.replace('"local"  ', '"central"', 1)),
        ("delta = 0.0                    # central studies usually take 1e-5", "delta = 1e-5"),
    ),
    "shuffle": (
        (
            _PRIVATE,
            'model = "shuffle"              # two parties: the shuffler sees no content, the coordinator no sender\n',
        ),
        ("delta = 0.0                    # central studies usually take 1e-5", "delta = 1e-5"),
        (
            'recipe = "auto"\n',
            'recipe = "auto"                # "shuffle/sampled-item": one message, and more is left if both collude\n',
        ),
        (
            "[users]\n",
            """\
[shuffle]
dropouts = 0.0                 # the share of a batch that may fail to send; the noise makes up for it
colluding = 0.0                # the share of a batch that may tell the coordinator what it sent
local_epsilon = ""             # what is left if both act together: as  discreet study check  says, or "none"
address = ""                   # where devices find the shuffler, such as "https://shuffler.example.org"

[users]
""",
        ),
    ),
}

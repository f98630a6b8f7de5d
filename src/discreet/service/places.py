"""The files of a study, all beside its declaration, and a new study with all of them.

``NAME.toml``           the declaration; public
``NAME.signing.pem``    the key that signs heads; only its owner may read it
``NAME.operator``       the operator's token, for metrics and status
``NAME.keys/``          private keys of rounds (central studies); never part of a backup
``NAME.head``           the head of the chain, outside the database
``NAME.marks/``         what was acknowledged last in the open round, outside the database; a file for each process
``NAME.db``             the database, unless another one is named
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import NamedTuple

from discreet.errors import InvalidInput
from discreet.files import check_writable, shortened, write_atomically
from discreet.ledger.heads import make_key
from discreet.service.sealing import read_secret, write_secret
from discreet.service.study import file_name
from discreet.validation import check_count


class Places(NamedTuple):
    """Where the files of one study lie."""

    signing: Path
    operator: Path
    keys: Path
    head: Path
    database: Path
    marks: Path


def places_of(study_file: Path) -> Places:
    """The usual places: beside the study file, under its name."""
    stem = study_file.with_suffix("")
    endings = (".signing.pem", ".operator", ".keys", ".head", ".db", ".marks")
    return Places(*(stem.with_name(stem.name + ending) for ending in endings))


def make_operator_token(file: Path) -> None:
    """A new operator's token in a file of its own; one that is there stays."""
    if not file.exists():
        write_secret(file, secrets.token_urlsafe(32).encode() + b"\n")


def operator_token(file: Path) -> str:
    """The operator's token."""
    return read_secret(file, "make one with  discreet study new").decode().strip()


def new_study(path: str | os.PathLike[str]) -> Places:
    """Write a commented study file with a new signing key and an operator's token beside it; overwrites nothing."""
    file = check_writable(file_name(path))
    places = places_of(file)
    for taken in (file, places.signing):
        if taken.exists():
            raise InvalidInput(f"{shortened(taken)} is there already, and is not overwritten: choose another name")
    name = re.sub("[^A-Za-z0-9-]+", "-", file.stem).strip("-")[:64] or "study"
    public = make_key(places.signing)
    make_operator_token(places.operator)
    write_atomically(file, template(name, public))
    return places


def new_tokens(number: int) -> list[str]:
    """Invitation tokens: 192 random bits each."""
    return [secrets.token_urlsafe(24) for _ in range(check_count("number", number))]


def template(name: str, signing: str) -> str:
    """A commented study file for people to change."""
    return _TEMPLATE.format(name=name, signing=signing)


_TEMPLATE = """\
# A study of discreet. All of this is public: participants see it, and its hash is what their devices agree to.
# Check it with  discreet study check FILE;  nothing may be changed once somebody takes part.
format = 1
name = "{name}"
title = "Which reminder helps?"
about = "What is asked and why, in a sentence or two."

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
epsilon = 4.0                  # of everything that a participant sends in the whole study
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

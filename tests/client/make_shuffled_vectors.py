"""Writes the vectors of shuffled studies that clients in all languages share: random bytes in, whole numbers out.

    python tests/client/make_shuffled_vectors.py        # writes tests/client/shuffled_vectors.json

``settings`` are studies with a policy and laws, as a service states them; where ``local_epsilon`` is a number, the law
is the least noisy one that keeps it, and must be ``refused`` if its threshold is one less. A vector has the number of
its ``setting``, a ``record``, the ``tape`` that is read, in hexadecimal, and the ``result``: the numbers that are sent,
in order, before each of them is sealed. ``terms`` is the hash that a device of each setting sends beside them.
``sealed`` are messages that were sealed to a key whose private part is given: enc || ciphertext in base64url, to be
opened by other programs. The steps are stated in ``discreet.client.questions`` and ``discreet.client.sealing``.
"""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import toy_study as toy

from discreet.client.exact import WHOLE, Given, Tape
from discreet.client.policy import read_policy
from discreet.client.questions import questions_of
from discreet.client.reports import read_round, shuffled_messages

FILE = Path(__file__).with_name("shuffled_vectors.json")
SEED = 20261116
VECTORS = 336
# Sealed once: sealing is never the same twice. The key is for tests alone.
PRIVATE = bytes(range(1, 33)).hex()
STUDY = "sha256:" + 64 * "a"
SEALED = (
    (0, 1, "Ix9FFAJeapnxqnDL-yxKT26JRhPBDnvtVjmGWhTCjlMwJNuqFrZRwsrFrt0ENuuAqnKEDA"),
    (97, 1, "pUeVdzgfzvkITNXCMlmo_bidTt3BWQjYZtgXebudF2hX0v5IJ7rPg_nKRPBGV2OL0TTS4w"),
    (2**32 - 1, 4711, "P9TxBgXAuZfH9KozshyQ9jkyrSPMqaBZAtdVBev-HlXniKX2c5L3Hr6Ql1EHHyHl0wiWgA"),
)


def settings(source: random.Random) -> list[tuple[Any, Any]]:
    """Studies of both kinds: layouts, groups, first visits, masks, early ends, policies that draw actions."""
    forms: list[dict[str, Any]] = [
        {"kind": "answered-bits", "layout": layout, "first_visits": first}
        for layout in ("joint", "tables", "two-tables") for first in (False, True)
    ] + [{"kind": "one-item"}]  # fmt: skip
    found = []
    for shape in ((2, 2, 3), (3, 2, 2), (2, 3, 1)):
        for form in forms:
            for separate in (False, True):
                early_end, start = source.random() < 0.4, source.choice((None, 0, shape[0] - 1))
                rewards = source.choice(((0, 1), (-1.0, 1.0)))
                declared = toy.declaration(*shape, model="shuffle", start=start, early_end=early_end, rewards=rewards)
                declared["keys"]["sealing"] = declared["keys"]["signing"]
                declared["shuffle"] = {"address": "", "colluding": 0.0, "dropouts": 0.0, "local_epsilon": "none"}
                if source.random() < 0.7:
                    declared["shuffle"]["local_epsilon"] = round(8 * source.random() + 0.01, 3)
                report = form | {
                    "groups": shape[2] if separate else 1, "masked": source.random() < 0.7, "early_end": early_end,
                }  # fmt: skip
                answer = toy.study_answer(declared) | {"report": report}
                found.append((answer, _policy(answer, source)))
    return found


def _policy(answer: Any, source: random.Random) -> Any:
    study = toy.read(answer)
    policy = toy.random_policy(study, source, stochastic=source.random() < 0.4)
    known = read_policy(policy, study)
    (question,) = questions_of(study, known)
    size = question.size
    response = "unary" if study.kind.name == "answered-bits" else "kary"
    lie = source.randrange(1, WHOLE // (2 if response == "unary" else size))
    if study.per_step is not None:
        lie = toy.least_threshold(size, response, study.per_step)
    return toy.policy_answer(study, policy, 1) | {
        "wanted": source.randrange(1, 500), "laws": [{"items": size, "lie": str(lie)}],
    }  # fmt: skip


def vector(index: int, answer: Any, policy: Any, source: random.Random) -> dict[str, Any]:
    """The messages of a record: whole, cut short or empty."""
    study = toy.read(answer)
    round_ = read_round(policy, study)
    length = source.choice((study.horizon, study.horizon, 0, source.randrange(study.horizon + 1)))
    record = toy.random_record(study, policy["policy"], source, length)
    given = Given(source.randbytes(4096))
    result = shuffled_messages(study, round_, record, Tape(given))
    return {"setting": index, "record": record, "tape": given._content[: given.read].hex(), "result": result}


def make() -> dict[str, Any]:
    """All of it, the same at every call."""
    source = random.Random(SEED)
    places = settings(source)
    order = [number % len(places) for number in range(VECTORS)]
    terms = [read_round(policy, toy.read(answer)).terms for answer, policy in places]
    return {
        "settings": [
            {"study": answer, "policy": policy, "terms": hash}
            for (answer, policy), hash in zip(places, terms, strict=True)
        ],
        "refused": [
            {"setting": index, "laws": [law | {"lie": str(int(law["lie"]) - 1)} for law in policy["laws"]]}
            for index, (answer, policy) in enumerate(places)
            if toy.read(answer).per_step is not None
        ],
        "vectors": [vector(index, *places[index], source) for index in order],
        "sealed": [
            {"private": PRIVATE, "study": STUDY, "round": number, "message": message, "sealed": sealed}
            for message, number, sealed in SEALED
        ],
    }


def text() -> str:
    """The file: one setting or vector per line."""
    made = make()
    parts = ['"format": "discreet shuffled client vectors 1"']
    parts += [f'"{name}": [\n' + ",\n".join(json.dumps(each) for each in made[name]) + "\n]" for name in made]
    return "{" + ",\n".join(parts) + "}\n"


def public_key() -> str:
    """The public part of the key of the sealed examples."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(bytes.fromhex(PRIVATE)).public_key().public_bytes_raw().hex()


def opened(sealed: str, study: str, number: int) -> int:
    """What a sealed example says."""
    from cryptography.hazmat.primitives import hpke
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)
    key = X25519PrivateKey.from_private_bytes(bytes.fromhex(PRIVATE))
    content = base64.urlsafe_b64decode(sealed + "==")
    return int.from_bytes(suite.decrypt(content, key, info=f"discreet message 1\n{study}\n{number}".encode()), "little")


if __name__ == "__main__":
    FILE.write_text(text())
    print(f"wrote {FILE.name}: {len(make()['vectors'])} vectors")

"""What runs on a person's device: take the policy of a study, live an episode, send one report of it.

Standard library only (``cryptography`` is loaded to check signatures and to seal the messages of shuffled studies, and
for nothing else), no NumPy, nothing of the rest of discreet, so that it starts at once and can be read in one sitting.

>>> from discreet.client import Device
>>> Device("http://localhost:8000", store=":memory:", study_hash="sha256:" + 64 * "0").reports
0

* ``words``: the JSON of the service, canonical texts and their hashes, strictly read.
* ``study``: the declaration that a person agreed to, known by its hash.
* ``policy``: the policy of a round: which action to take. ``questions``: what can be said, and what a record says.
* ``exact``: from random bytes to reports in whole numbers. ``laws``: that these keep the epsilon that was promised.
* ``reports``: a record in, the report of it out. ``sealing``: sealed to the coordinator of a shuffled study.
* ``heads``: signed heads of the chain of policies; two for one round are evidence.
* ``store``: what must outlast a crash of the device. ``transport``: requests.
* ``device``: all of it put together. ``errors``: what can go wrong.
"""

from __future__ import annotations

from discreet.client.device import Device
from discreet.client.errors import ClientError, Refused, Rejected, Unreachable

__all__ = ["ClientError", "Device", "Refused", "Rejected", "Unreachable"]

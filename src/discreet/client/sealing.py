"""Messages sealed one by one to the coordinator of a shuffled study, so that the shuffler cannot read them.

HPKE (RFC 9180) in base mode, one shot: X25519, HKDF-SHA-256, ChaCha20-Poly1305, of the package ``cryptography``, which
is loaded here. The key stands in the declaration, and so in its hash: nobody is given a key of her own. ``info`` binds
a message to study and round. A message is a whole number below 2^32 in four bytes, the lowest first; what is sent is
the one-time key, the ciphertext and its tag, 52 bytes, in base64url without padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.client.errors import Refused

_PLAIN = 4


def sealed(messages: Sequence[int], key: str, study: str, number: int) -> list[str]:
    """Messages as they leave the device, each readable by the coordinator alone."""
    try:
        from base64 import urlsafe_b64encode

        from cryptography.hazmat.primitives import hpke
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    except ImportError:
        raise Refused(
            "messages of a shuffled study are sealed with the package 'cryptography' (47 or later): install it with  "
            "pip install cryptography"
        ) from None
    try:
        public = X25519PublicKey.from_public_bytes(bytes.fromhex(key))
    except ValueError:
        raise Refused("the sealing key of the study is none: nothing is sent") from None
    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)
    info = f"discreet message 1\n{study}\n{number}".encode()
    return [
        urlsafe_b64encode(suite.encrypt(message.to_bytes(_PLAIN, "little"), public, info=info)).decode().rstrip("=")
        for message in messages
    ]

"""A DSSE envelope opened by hand, with cryptography. Imports no room of the project."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def open_envelope(line: bytes, public_key: bytes) -> Any:
    """The statement inside; raises when no signature in the envelope is by the key."""
    envelope = json.loads(line)
    payload = base64.b64decode(envelope["payload"], validate=True)
    kind = envelope["payloadType"].encode()
    message = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])
    for signature in envelope["signatures"]:
        Ed25519PublicKey.from_public_bytes(public_key).verify(
            base64.b64decode(signature["sig"], validate=True), message
        )
    assert envelope["signatures"]
    return json.loads(payload)

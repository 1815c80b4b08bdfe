"""Entries as in-toto statements (in-toto attestation framework, Statement v1) in DSSE envelopes.

The signature of an entry is over the entry's own bytes, in the form that this format gives it. Verifiers of the wider
ecosystem read another: an envelope (Dead Simple Signing Envelope, v1) whose signature is over the type and the bytes
of a payload together. So an envelope needs a signature of its own, by whoever exports: it says that this key vouches
for the statement. What the ledger says is in the statement all the same: the whole line with its signature, the signed
head, and the inclusion proof between them, for who wants to check that instead.

Statement, as JSON::

    {"_type":"https://in-toto.io/Statement/v1","predicate":{"checkpoint":"<signed note>","entry":{…},"identity":"<hex>",
     "inclusion":["<hex>",…],"index":3,"line":"<line>","superseded_by":null},"predicateType":"urn:k3-ledger:predicate:entry:1",
     "subject":[{"digest":{"sha256":"<hex>"},"name":"entry-3"},…]}

An entry that the ledger superseded has the index of the entry that did so as ``superseded_by``: it was said, and it
does not stand. The first subject is the entry itself, by its identity; then the bundle, and every artifact that the
entry names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.ledger.core import strict_base64
from k3_ledger.ledger.core.chain import entry_identity
from k3_ledger.ledger.core.framing import parse_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:k3-ledger:predicate:entry:1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"


def format_statement(
    index: int, line: bytes, inclusion: Sequence[bytes], checkpoint: bytes, superseded_by: int | None = None
) -> bytes:
    """The statement about one entry of a verified ledger.

    Args:
        index: its index.
        line: the raw line without its LF.
        inclusion: hashes of its inclusion proof in the checkpoint's tree, from the leaf up.
        checkpoint: the signed note.
        superseded_by: index of the entry by which this one no longer stands.
    """
    data = parse_line(line).entry
    entry: dict[str, Any] = json.loads(data)
    identity = entry_identity(data).hex()
    subjects = [(f"entry-{index}", identity)]
    body = entry["body"]
    if isinstance(body.get("bundle"), str):
        subjects.append(("bundle.json", body["bundle"]))
    subjects += [(artifact["name"], artifact["sha256"]) for artifact in body.get("artifacts", ())]
    return _json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "index": index,
                "identity": identity,
                "entry": entry,
                "line": line.decode(),
                "inclusion": [digest.hex() for digest in inclusion],
                "checkpoint": checkpoint.decode(),
                "superseded_by": superseded_by,
            },
        }
    )


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """DSSE v1 pre-authentication encoding: what a signature in an envelope is over."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def format_envelope(payload: bytes, key_id: str, sign: Callable[[bytes], bytes]) -> bytes:
    """An envelope around a statement, on one line, its LF not included.

    Args:
        payload: the statement.
        key_id: names the key; a hint to readers, who must not believe it.
        sign: signs a message.
    """
    sig = strict_base64.encode(sign(pre_authentication(PAYLOAD_TYPE, payload))).decode()
    return _json(
        {
            "payload": strict_base64.encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": key_id, "sig": sig}],
        }
    )


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

"""What an attestation of a receipt binds: the bytes, and where its evidence stands among the artifacts.

A quote cannot cover a bundle that names the quote. So it covers the **bare bundle**: the very bundle, with the
artifacts of :data:`EVIDENCE` left out and ``body.tee.report_data_sha256`` null, in canonical form. Everything else that
the receipt says stands in it, the digests of all other artifacts among them. Whoever makes a quote
(:mod:`k3_ledger.engine.tsm`) and whoever checks one (:mod:`k3_ledger.verify.tee`) take the bytes from here.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

QUOTE: Final = "tdx-quote.bin"
"""Artifact that holds a quote of a trust domain, as the machine gave it."""
COLLATERAL: Final = "tdx-collateral.json"
"""Artifact that holds what a quote is checked with: TCB info, QE identity, revocation lists."""
TOKEN: Final = "nvidia-token.json"  # noqa: S105 - a file's name
"""Artifact that holds NVIDIA attestation tokens, as the attestation service gave them."""
EVIDENCE: Final = frozenset({QUOTE, COLLATERAL, TOKEN})
"""Artifacts that no attestation of their own receipt can cover."""
DOMAIN: Final = b"k3-ledger/report-data/1\n"
"""Separates these quotes from quotes made for any other purpose."""


def bare_bundle(kind: str, body: Mapping[str, Any]) -> bytes:
    """Canonical bytes of a bundle without its evidence.

    Args:
        kind: kind of the bundle, ``run`` or ``failed``.
        body: plain values of a bundle's body, or of the sealed body (``bundle`` is left out).
    """
    from k3_ledger.schemas import canonical  # noqa: PLC0415 - whoever verifies without quotes needs only the names

    bare = {name: value for name, value in body.items() if name != "bundle"}
    bare["artifacts"] = [artifact for artifact in body["artifacts"] if artifact["name"] not in EVIDENCE]
    if "tee" in bare:
        bare["tee"] = {**bare["tee"], "report_data_sha256": None}
    return canonical.format({"body": bare, "kind": kind, "schema": "k3-ledger/bundle/1"})


def bare_digest(kind: str, body: Mapping[str, Any]) -> bytes:
    """SHA-256 of the bare bundle: what a quote and a token must carry."""
    return sha256(bare_bundle(kind, body)).digest()


def report_data(digest: bytes) -> bytes:
    """The 64 bytes of report data for a bare bundle's digest: the digest, then SHA-256 of :data:`DOMAIN`."""
    if len(digest) != 32:
        raise ValueError(f"a digest has 32 bytes, got {len(digest)}")
    return digest + sha256(DOMAIN).digest()

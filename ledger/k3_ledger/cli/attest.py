"""``k3-ledger bundle attest``: what an attestation service has to sign about a bundle, and its answer put into it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.files import replace_file
from k3_ledger.cli.options import JsonOption, print_json

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.seal import Bundle

ATTEST_HELP = """Bind a bundle to the GPU that it was measured on, before it is sealed.

Without --token, prints the nonce to ask NVIDIA's attestation service for: the digest of all that the bundle says. With
it, puts the service's answer into the bundle; an answer about anything else is refused. No signature is looked at
here: `k3-ledger verify` does that, with keys that the auditor holds.
"""


def attest(
    bundle: Annotated[Path, typer.Argument(help="Bundle directory.", show_default=False)],
    token: Annotated[Path | None, typer.Option(help="The service's answer, a JSON file.", show_default=False)] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the nonce, or attach the answer to it."""
    from k3_ledger.cli.given import BUNDLE, given
    from k3_ledger.ledger.writer.seal import read_bundle
    from k3_ledger.schemas.attested import bare_digest

    with given(bundle, BUNDLE):
        read = read_bundle(bundle)
    nonce = bare_digest(read.kind, read.body).hex()
    if token is None:
        said = {"nonce": nonce}
        text = nonce
    else:
        identity = _attach(bundle, read, token, nonce)
        said = {"nonce": nonce, "bundle": identity}
        text = f"{bundle}: answered; bundle {identity}"
    if as_json:
        print_json(said)
    else:
        typer.echo(text)


def _attach(path: Path, bundle: Bundle, token: Path, nonce: str) -> str:
    """Put the answer into the bundle: the artifact first, so that what is cut off leaves a file too many and no gap.

    Returns:
        The bundle's new identity.

    Raises:
        BundleError: it is answered already, or a tar.
        AttestationError: the answer is none, or is about something else.
    """
    from k3_ledger.cli.given import TOKEN, given
    from k3_ledger.ledger.regular import read_small
    from k3_ledger.schemas import canonical
    from k3_ledger.schemas.attested import TOKEN as TOKEN_NAME
    from k3_ledger.schemas.errors import AttestationError, BundleError, handed_in
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.tee.tokens import MAX_BYTES, stated_nonces

    if not path.is_dir():
        raise BundleError(
            Code.BUNDLE_MISMATCH,
            "an answer is put into a bundle that is a directory",
            position=Position(source=str(path)),
            hint="unpack the tar, and give its folder",
        )
    artifacts = bundle.body["artifacts"]
    assert isinstance(artifacts, list)
    if any(artifact["name"] == TOKEN_NAME for artifact in artifacts):
        raise BundleError(
            Code.ATTESTATION_REPEATED,
            f"the bundle holds {TOKEN_NAME} already",
            position=Position(source=str(path / "bundle.json")),
            hint="an answer to another nonce is of no use, and one to the same nonce is there",
        )
    with given(token, TOKEN), handed_in(str(token)):
        data = read_small(token, MAX_BYTES)
        nonces = stated_nonces(data)
    for name, stated in nonces.items():
        if stated != nonce:
            raise AttestationError(
                Code.TOKEN_BINDING,
                f"the nonce of token {name} is not the bundle's",
                position=Position(source=str(token)),
                expected=nonce,
                found=stated,
                hint="ask the service with the nonce that `k3-ledger bundle attest` prints for this very bundle",
            )
    digest = hashlib.sha256(data).hexdigest()
    entry = {"media_type": "application/json", "name": TOKEN_NAME, "sha256": digest, "size": len(data)}
    body = {name: value for name, value in bundle.body.items() if name != "bundle"}
    described = canonical.format(
        {"body": {**body, "artifacts": [*artifacts, entry]}, "kind": bundle.kind, "schema": "k3-ledger/bundle/1"}
    )
    replace_file(path / "blobs" / digest, data)
    replace_file(path / "bundle.json", described)
    return hashlib.sha256(described).hexdigest()

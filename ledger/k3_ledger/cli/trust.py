"""Reads what an auditor trusts: a policy file and flags."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from k3_ledger.cli.given import POLICY, PUBLIC_KEY, given
from k3_ledger.cli.places import check_apart, subject_of
from k3_ledger.ledger.regular import read_small
from k3_ledger.schemas.errors import PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from k3_ledger.verify.policy import TrustPolicy

_KEY_DIGITS = 64
_HEX = frozenset("0123456789abcdef")
_HEX_LIKE = _HEX | frozenset("ABCDEF")


def load_policy(
    trust: Path | None, root_key: str | None, require: list[str], now: int | None = None, *, subject: str | Path
) -> TrustPolicy | None:
    """Put a trust policy together from a file and from flags; None when none was given.

    Args:
        trust: the file.
        root_key: the root key, or a file that holds it.
        require: steps that are required besides.
        now: the reader's clock, for a policy that judges quotes now.
        subject: what the policy is to judge, as its user named it: none of this may come out of it.

    Raises:
        typer.BadParameter: something that is to be trusted is a part of the subject, or no step has such a name.
        PolicyError: the file or a flag is malformed, or both name a root key and they differ.
        StoreError: a file cannot be read.
    """
    from k3_ledger.verify.policy import TrustPolicy

    if trust is None and root_key is None and not require:
        return None
    judged = subject_of(subject)
    check_apart(trust, judged, option="--trust")
    check_key_apart(root_key, judged)
    policy = TrustPolicy() if trust is None else read_policy(trust)
    if root_key is not None:
        key = parse_root_key(root_key)
        if policy.root_public_key not in (None, key):
            raise PolicyError(
                Code.POLICY_MALFORMED,
                "--root-key and the trust policy name different root keys",
                position=Position(source=str(trust), field="root_public_key"),
                expected=(policy.root_public_key or b"").hex(),
                found=key.hex(),
            )
        policy = replace(policy, root_public_key=key)
    if policy.attestation is not None and trust is not None:
        from k3_ledger.cli.trust_dir import complete

        if policy.attestation.trust_dir is not None:
            check_apart(trust.parent / policy.attestation.trust_dir, judged, option="--trust")
        policy = replace(policy, attestation=complete(policy.attestation, trust.parent, now))
    try:
        return replace(policy, require=policy.require | frozenset(require))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--require") from None


def check_key_apart(root_key: str | None, judged: Path | None) -> None:
    """Refuse a root key in a file that is a part of what is judged.

    Raises:
        typer.BadParameter: exit code 2.
    """
    if root_key is not None and not (len(root_key) == _KEY_DIGITS and set(root_key) <= _HEX):
        check_apart(Path(root_key), judged, option="--root-key")


def read_policy(path: Path) -> TrustPolicy:
    """A trust policy from its file.

    Raises:
        PolicyError, StoreError: it cannot be read, is none, or asks for nothing.
    """
    with given(path, POLICY):
        return policy_in(read_small(path), path)


def policy_in(data: bytes, path: Path) -> TrustPolicy:
    """The trust policy that a file holds.

    Raises:
        PolicyError: it is none, or asks for nothing: a file that was lost or cut short must not pass for a policy.
    """
    from k3_ledger.verify.policy import TrustPolicy, parse_policy

    policy = parse_policy(data, path.name)
    if policy == TrustPolicy():
        raise PolicyError(
            Code.POLICY_MALFORMED,
            "the trust policy asks for nothing, so nobody would be authenticated",
            position=Position(source=path.name),
            hint="`k3-ledger trust init` writes one; leave --trust out to check integrity alone",
        )
    return policy


def parse_root_key(text: str, option: str = "--root-key") -> bytes:
    """A raw public key from 64 hexadecimal digits or from a PEM file; ``option`` is what gave it."""
    if len(text) == _KEY_DIGITS and set(text) <= _HEX:
        return check_usable(bytes.fromhex(text), text, option)
    bare = _bare(text)
    if bare and not set(bare) - _HEX_LIKE and ((bare == text and len(text) > 20) or not Path(text).is_file()):
        raise typer.BadParameter(
            f"{text[:80]!r} is not 64 lower-case hexadecimal digits, nor a PEM file", param_hint=option
        )
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

    with given(text, PUBLIC_KEY):
        data = read_small(Path(text))
        try:
            key = load_pem_public_key(data)
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise PolicyError(
                Code.POLICY_MALFORMED,
                "the root key file holds no Ed25519 public key",
                position=Position(source=text),
                expected="a PEM file that begins with BEGIN PUBLIC KEY",
            )
    return check_usable(key.public_bytes(Encoding.Raw, PublicFormat.Raw), text, option)


def _bare(text: str) -> str:
    """Digits as they might have been meant: without blanks, colons, 0x in front, or full-width forms."""
    import unicodedata

    folded = unicodedata.normalize("NFKC", text)
    return "".join(folded.replace(":", " ").split()).removeprefix("0x").removeprefix("0X")


def check_usable(raw: bytes, text: str, option: str) -> bytes:
    """A raw public key that the reader gave: one of low order is his mistake, and nothing against what he verifies.

    Raises:
        BadParameter: exit code 2.
    """
    from k3_ledger.ledger.core.ed25519 import check_public_key
    from k3_ledger.schemas.errors import LedgerError

    try:
        check_public_key(raw)
    except LedgerError as error:
        said = f"{text[:80]!r}: {error.finding.message}, and no signature is accepted from such a key [{error.code.id}]"
        raise typer.BadParameter(said, param_hint=option) from None
    return raw

"""Reads the auditor's trust directory, and what the command line says about attestations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import typer

from k3_ledger.ledger.regular import read_small, unreadable
from k3_ledger.schemas.errors import PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.verify.attestation import AttestationPolicy
    from k3_ledger.verify.policy import TrustPolicy

SUFFIXES: Final = (".pem", ".json")
"""Files of a trust directory that are read: certificates, and key sets of token services."""
MAX_FILES: Final = 64


def read_trust_dir(folder: Path) -> tuple[tuple[str, bytes], ...]:
    """Name and contents of every certificate and key set of a folder, in order of name.

    Raises:
        PolicyError: none is there, or far too many are, or one cannot be used; whether or not a receipt needs it.
        StoreError: one cannot be read.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    except OSError as error:
        raise unreadable(folder, error) from None
    if not 0 < len(paths) <= MAX_FILES:
        raise PolicyError(
            Code.POLICY_MALFORMED,
            "the trust directory is not a folder of certificates",
            position=Position(source=str(folder)),
            expected=f"1 to {MAX_FILES} files that end in {' or '.join(SUFFIXES)}",
            found=str(len(paths)),
        )
    files = tuple((path.name, read_small(path)) for path in paths)
    _check_usable(files)
    return files


def _check_usable(files: tuple[tuple[str, bytes], ...]) -> None:
    from k3_ledger.verify.tee.certificates import load_anchors
    from k3_ledger.verify.tee.tokens import KEY_SET, load_keys

    load_anchors((name, data) for name, data in files if name.lower().endswith(".pem"))
    for name, data in files:
        if name.lower() == KEY_SET:
            load_keys(data)


def complete(policy: AttestationPolicy, base: Path, now: int | None = None) -> AttestationPolicy:
    """A policy with the contents of its trust directory and, where it asks for that, the reader's time.

    Args:
        policy: what a trust policy says.
        base: folder that a relative trust directory is relative to.
        now: the reader's time in seconds since 1970; None asks the clock.
    """
    from dataclasses import replace

    anchors = policy.anchors if policy.trust_dir is None else read_trust_dir(base / policy.trust_dir)
    return replace(policy, anchors=anchors).at_time(int(time.time()) if now is None else now)


def judged_at(policy: TrustPolicy | None, at: str, now: int) -> TrustPolicy:
    """The policy with another time for attestations.

    Raises:
        typer.BadParameter: it has no ``[attestation]`` table, or ``at`` is no time.
    """
    from dataclasses import replace

    from k3_ledger.verify.attestation import read_at

    if policy is None or policy.attestation is None:
        raise typer.BadParameter("the trust policy has no [attestation] table", param_hint="--at")
    try:
        demands = replace(policy.attestation, at=read_at(at), present=None).at_time(now)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from None
    return replace(policy, attestation=demands)


def quote_policy(
    trust_dir: Path | None, at: str, allow: list[str], tcb_status: list[str], pins: list[str]
) -> AttestationPolicy | None:
    """The policy that flags describe; None without a trust directory.

    Raises:
        typer.BadParameter: a flag is malformed, or needs a trust directory.
        PolicyError, StoreError: see :func:`read_trust_dir`.
    """
    from k3_ledger.verify.attestation import AttestationPolicy, read_at

    if trust_dir is None:
        if at != "receipt" or allow or tcb_status or pins:
            raise typer.BadParameter("without certificates no quote is checked: give --trust-dir", param_hint="--at")
        return None
    measurements: dict[str, set[str]] = {}
    for pin in pins:
        register, _, value = pin.partition("=")
        measurements.setdefault(register, set()).add(value)
    try:
        policy = AttestationPolicy(
            at=read_at(at),
            allow=frozenset(allow),
            tcb_status=frozenset({"UpToDate", *tcb_status}),
            measurements=tuple((register, frozenset(values)) for register, values in sorted(measurements.items())),
            anchors=read_trust_dir(trust_dir),
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return policy.at_time(int(time.time()))

"""Options by which a reader says whom to believe, one group for every command that verifies, and what they come to.

Judging commands take them as ``verify`` does. What they leave out is no fault: a command then says what it could not
know (:func:`list_unshown`), and judges what integrity alone shows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.cli.memory import Memory
    from k3_ledger.verify.log import Options
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Report
    from k3_ledger.verify.timestamps import TokenReader

TrustOption = Annotated[
    Path | None, typer.Option(help="Trust policy, a TOML file (see docs/verify.md).", show_default=False)
]
RootKeyOption = Annotated[
    str | None,
    typer.Option(help="Root public key that must have opened the log: 64 hex digits, or a PEM file."),
]
RequireOption = Annotated[
    list[str] | None, typer.Option(help="Step for which 'not checked' is not accepted; may be repeated.")
]
ExpectHeadOption = Annotated[
    list[Path] | None, typer.Option(help="A checkpoint kept from an earlier visit that the log must extend.")
]

NOBODY = "signer not authenticated"
NO_HEAD = "no signed head: the log may have been cut"


@dataclass(frozen=True, slots=True)
class Trusted:
    """Whom a reader believes.

    Attributes:
        policy: None where he named nobody.
        heads: (name, head) of each that he kept from an earlier visit.
    """

    policy: TrustPolicy | None = None
    heads: tuple[tuple[str, Memory], ...] = ()

    @property
    def is_given(self) -> bool:
        """Whether anything was asked of the log beyond its integrity."""
        return self.policy is not None or bool(self.heads)

    def under(self, options: Options) -> Options:
        """How to verify a log under it, on this machine's clock."""
        from dataclasses import replace

        from k3_ledger.verify.freshness import Clock

        return replace(
            options,
            expected_heads=tuple((name, one.note) for name, one in self.heads),
            enrolments={name: one.enrolments for name, one in self.heads if one.enrolments},
            clock=Clock(int(time.time())),
            read_token=token_reader(self.policy),
        )


def believe(
    trust: Path | None,
    root_key: str | None,
    require: list[str] | None,
    expect_head: list[Path] | None,
    *,
    subject: Path,
) -> Trusted:
    """What the options of a judging command come to.

    Raises:
        LedgerError, BadParameter: as :func:`k3_ledger.cli.trust.load_policy` and :func:`read_heads`.
    """
    from k3_ledger.cli.trust import load_policy

    policy = load_policy(trust, root_key, require or [], int(time.time()), subject=subject)
    return Trusted(policy, tuple(read_heads(expect_head or (), subject=subject)))


def read_heads(files: Sequence[Path], *, subject: str | Path) -> list[tuple[str, Memory]]:
    """Heads that the reader kept, or memories of them. Damage is for the verifier to say; something else is refused.

    Raises:
        BadParameter: one lies in what it is to judge.
        LedgerError: one cannot be read, or is something else.
    """
    from k3_ledger.cli.given import HEAD, given, refuse
    from k3_ledger.cli.memory import parse_memory
    from k3_ledger.cli.places import check_apart, subject_of
    from k3_ledger.ledger.regular import read_small
    from k3_ledger.schemas.findings import Code

    heads = []
    for path in files:
        check_apart(path, subject_of(subject), option="--expect-head")
        with given(path, HEAD):
            data = read_small(path)
        refuse(str(path), data, HEAD, Code.MEMORY_UNREADABLE)
        heads.append((str(path), parse_memory(data)))
    return heads


def token_reader(policy: TrustPolicy | None) -> TokenReader | None:
    """What verifies timestamps, where a policy believes an authority; an extra that is missing is said now."""
    if policy is None or not policy.timestamp_roots:
        return None
    import rfc3161_client  # noqa: F401

    from k3_ledger.cli.tokens import read_token

    return read_token


def list_unshown(report: Report) -> list[str]:
    """What a log that verified does not show of who wrote it and whether it is all, in words; empty where it does."""
    from k3_ledger.schemas.findings import Code

    said = [] if report.authenticated else [NOBODY]
    beyond = next((one.position.index for one in report.findings if one.code is Code.UNCHECKPOINTED), None)
    if beyond and report.head is not None:
        said.append(f"no signed head covers the entries from {beyond} on: more may have been cut")
    elif not next(step.checked for step in report.steps if step.name == "checkpoint"):
        said.append(NO_HEAD)
    return said

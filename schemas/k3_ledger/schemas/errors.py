"""One error tree. Bad data and a hostile disk raise a :class:`LedgerError`; a caller's misuse raises
``ValueError`` or ``TypeError``; a broken promise of our own is an assertion and is never caught as "rejected".
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from k3_ledger.schemas.findings import Finding
from k3_ledger.schemas.outcomes import NOWHERE, ExitCode, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from k3_ledger.schemas.findings import Code


class LedgerError(Exception):
    """Base of everything this package raises about its input or its storage.

    Every error carries one :class:`~k3_ledger.schemas.findings.Finding`, so whatever stops a command has a
    stable code, a position, what was expected and found, and a hint.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        position: Position = NOWHERE,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.finding = Finding(code, message, position, expected, found, hint)
        super().__init__(self.finding.message)
        self.handed_in = False

    @property
    def code(self) -> Code:
        """Registry row of the finding."""
        return self.finding.code

    @property
    def exit_code(self) -> ExitCode:
        """How a command ends that this stops: a document that was handed in is unreadable, not a ledger found false."""
        return ExitCode.UNREADABLE if self.handed_in else self.finding.code.info.exit

    def __reduce__(self) -> tuple[Callable[..., LedgerError], tuple[type[LedgerError], Finding]]:
        # Exceptions pickle as their positional arguments, which loses keywords: workers send errors to their parent.
        return _raised_elsewhere, (type(self), self.finding)

    def __str__(self) -> str:
        place = "" if self.finding.position == NOWHERE else f"{self.finding.position}: "
        return f"{place}{self.finding.message}"


@contextlib.contextmanager
def handed_in(source: str) -> Iterator[None]:
    """Around the reading of a document that a user hands in: errors name it, and end a command with exit code 3.

    Args:
        source: what to call the document; an error that already names its source keeps it.
    """
    try:
        yield
    except LedgerError as error:
        error.handed_in = True
        place = error.finding.position
        if place.source is None:
            error.finding = replace(error.finding, position=replace(place, source=source))
        raise


def _raised_elsewhere(kind: type[LedgerError], finding: Finding) -> LedgerError:
    return kind(
        finding.code,
        finding.message,
        position=finding.position,
        expected=finding.expected,
        found=finding.found,
        hint=finding.hint,
    )


class MalformedError(LedgerError):
    """Bytes that are not what they claim to be: framing, encoding, canonical JSON, notes, proofs."""


class SchemaError(LedgerError):
    """Well-formed JSON that does not fit the model of its kind."""


class SignatureError(LedgerError):
    """A signature or a public key that the one verifying rule refuses."""


class ProofError(LedgerError):
    """A Merkle proof that does not show what it claims to show."""


class StoreError(LedgerError):
    """The storage refused or lied: no space, read-only, lock held, fsync failed, torn tail in the way."""


class WitnessError(LedgerError):
    """A witness that will not cosign, or cannot be asked."""


class KeyFileError(LedgerError):
    """A key file that is missing, exposed, encrypted without a passphrase, or of the wrong type."""


class PolicyError(LedgerError):
    """A trust policy that cannot be read or that the request contradicts."""


class BundleError(LedgerError):
    """A measurement bundle that cannot be sealed as it stands."""


class ModelError(LedgerError):
    """A model file that cannot be used: hostile or damaged container, missing keys or tensors, unknown quantisation."""


class ParityError(LedgerError):
    """Logits that must not be compared: different prompts, truncated or processed rows, numbers that are not finite."""


class RescoreError(LedgerError):
    """A rule, a number, a pin, a merge or a claim that cannot be used as it stands."""


class RunError(LedgerError):
    """A measurement that cannot be taken or believed: engine ended, protocol broken, clock and claim at odds."""


class AttestationError(LedgerError):
    """A quote, a token or its collateral that cannot be verified as it stands, or that an enclave could not give."""

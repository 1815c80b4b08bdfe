"""What a worker keeps of an attested receipt, so that its evidence can be looked at when the log has been read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.schemas.attested import EVIDENCE, QUOTE, TOKEN, bare_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_EVIDENCE: Final = 1 << 20
"""Longest evidence that is read, in bytes; a quote has about 8,000."""


@dataclass(frozen=True, slots=True)
class Attested:
    """A run receipt that says it is attested, or carries evidence.

    Attributes:
        position: line number counted from 0.
        digest: SHA-256 of its bare bundle, which the evidence must carry.
        tee: kind of trusted environment that it states.
        report_data_sha256: digest of report data that it states.
        started: when the run began, as it states.
        evidence: (SHA-256, size) of its evidence, by artifact name.
        repeated: names that it gives to more than one piece of evidence.
    """

    position: int
    digest: bytes
    tee: str
    report_data_sha256: str | None
    started: str
    evidence: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()

    @property
    def kinds(self) -> frozenset[str]:
        """In which ways it is attested."""
        tdx = {"tdx"} if self.tee == "tdx" or QUOTE in self.evidence else set()
        return frozenset(tdx | ({"nvidia"} if TOKEN in self.evidence else set()))

    @property
    def is_any(self) -> bool:
        """Whether it says that it is attested, or carries evidence: what :func:`is_attested` asks of a body."""
        return self.tee != "none" or bool(self.evidence)


def is_attested(body: Any) -> bool:
    """Whether a run body (struct) says that it is attested or carries evidence."""
    if body.tee.kind != "none":
        return True
    for artifact in body.artifacts:  # noqa: SIM110 - asked of every receipt, and a generator costs more than the rest
        if artifact.name in EVIDENCE:
            return True
    return False


def read_attested(position: int, entry: bytes) -> Attested:
    """What to keep of a run entry that :func:`is_attested`. ``entry`` was decoded before."""
    from k3_ledger.schemas import canonical  # noqa: PLC0415 - only where a receipt is attested

    value: Any = canonical.parse(entry)
    return attested_of(position, value["body"])


def attested_of(position: int, body: Mapping[str, Any]) -> Attested:
    """The same of a run body as plain values, sealed or not."""
    evidence = [artifact for artifact in body["artifacts"] if artifact["name"] in EVIDENCE]
    names = [artifact["name"] for artifact in evidence]
    return Attested(
        position=position,
        digest=bare_digest("run", body),
        tee=body["tee"]["kind"],
        report_data_sha256=body["tee"]["report_data_sha256"],
        started=body["machine"]["started"],
        evidence={artifact["name"]: (artifact["sha256"], artifact["size"]) for artifact in evidence},
        repeated=tuple(sorted(name for name in EVIDENCE if names.count(name) > 1)),
    )

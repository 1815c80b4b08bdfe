"""What Intel says about a platform, its quoting enclave and its TDX module, and which status follows.

The order of the rules is that of Intel's "PCS API v4, TCB info V3" and of the appraisal in its quote verification
library: levels are tried from the newest down and the first that the platform reaches counts; the enclave's and the
module's own levels can only make a status worse. Everything read here is signed; what is not of the form that Intel
documents is refused, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from k3_ledger.schemas.errors import AttestationError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.attestation import TCB_STATUSES
from k3_ledger.verify.tee.collateral import wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from k3_ledger.verify.tee.pck import Platform
    from k3_ledger.verify.tee.quote import Quote

UP_TO_DATE: Final = "UpToDate"
STATUSES: Final = (*TCB_STATUSES, "Revoked")
"""Every status of a TCB level."""
_CONFIGURATION: Final = frozenset(
    {"ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded", "OutOfDateConfigurationNeeded"}
)
_COMPONENTS: Final = 16
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Level:
    """A TCB level that was reached.

    Attributes:
        status: one of :data:`STATUSES`.
        advisories: Intel's advisories about it, in Intel's order.
    """

    status: str
    advisories: tuple[str, ...] = ()

    def worsened_by(self, other: Level) -> Level:
        """The status of a platform of this level whose enclave or module has ``other``."""
        known = set(self.advisories)
        advisories = self.advisories + tuple(name for name in other.advisories if name not in known)
        if "Revoked" in (self.status, other.status):
            return Level("Revoked", advisories)
        if other.status == "OutOfDate":
            worse = "OutOfDateConfigurationNeeded" if self.status in _CONFIGURATION else "OutOfDate"
            return Level(worse, advisories)
        return Level(self.status, advisories)


def shaped(what: str, read: Callable[[], _T]) -> _T:
    """The result of ``read``; what is not of the form it expects is malformed collateral.

    Raises:
        AttestationError: with ``K3L-QUOTE-COLLATERAL``, or whatever ``read`` raises of that kind.
    """
    try:
        return read()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise wrong(f"{what} is not of the form that Intel documents: {type(error).__name__} {error}"[:200]) from None


def check_kind(info: Mapping[str, Any], kind: str, version: int) -> None:
    """The text is about trust domains, in the version that is understood.

    Raises:
        AttestationError: with ``K3L-QUOTE-COLLATERAL``.
    """
    if info.get("id") != kind or info.get("version") != version:
        raise wrong(
            "not about trust domains",
            f"{kind}, version {version}",
            f"{info.get('id')}, version {info.get('version')}"[:80],
        )


def period(info: Mapping[str, Any]) -> tuple[datetime, datetime]:
    """First and last moment for which a text was issued."""
    return _moment(info["issueDate"]), _moment(info["nextUpdate"])


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} names no time zone")
    return moment


def platform_level(info: Mapping[str, Any], platform: Platform, quote: Quote) -> Level:
    """The newest level that the platform reaches.

    Raises:
        AttestationError: with ``K3L-QUOTE-COLLATERAL``: the TCB info is about another platform; with
            ``K3L-QUOTE-TCB``: it reaches none.
    """
    expected, found = (platform.fmspc.hex(), platform.pce_id.hex()), (info["fmspc"].lower(), info["pceId"].lower())
    if found != expected:
        raise wrong("the TCB info is about another platform", ", ".join(expected), ", ".join(found)[:80])
    module = quote.field("body.tee_tcb_svn")
    first = 2 if module[1] else 0  # a module with a version has levels of its own for the first two
    for level in info["tcbLevels"]:
        tcb = level["tcb"]
        sgx = [part["svn"] for part in tcb["sgxtcbcomponents"]]
        tdx = [part["svn"] for part in tcb["tdxtcbcomponents"]]
        if len(sgx) != _COMPONENTS or len(tdx) != _COMPONENTS:
            raise ValueError("a level has 16 components of each kind")
        if (
            all(have >= want for have, want in zip(platform.components, sgx, strict=True))
            and platform.pce_svn >= tcb["pcesvn"]
            and all(have >= want for have, want in zip(module[first:], tdx[first:], strict=True))
        ):
            return _level(level)
    raise AttestationError(Code.QUOTE_TCB, "the platform reaches no TCB level that Intel knows")


def module_level(info: Mapping[str, Any], quote: Quote) -> Level:
    """The TDX module is Intel's, and its level.

    Raises:
        AttestationError: with ``K3L-QUOTE-ENCLAVE``: it is not Intel's; with ``K3L-QUOTE-TCB``: it reaches no level.
    """
    svn = quote.field("body.tee_tcb_svn")
    identity, levels = info["tdxModule"], None
    if svn[1]:
        name = f"TDX_{svn[1]:02X}"
        known = {entry["id"]: entry for entry in info.get("tdxModuleIdentities", ())}
        if name not in known:
            raise AttestationError(Code.QUOTE_ENCLAVE, f"TDX module {name} is not one that Intel knows", found=name)
        identity, levels = known[name], known[name]["tcbLevels"]
    _compare("mrsignerseam", quote.field("body.mrsignerseam"), bytes.fromhex(identity["mrsigner"]))
    _compare_masked(
        "seam_attributes", quote.field("body.seam_attributes"), identity["attributes"], identity["attributesMask"]
    )
    return Level(UP_TO_DATE) if levels is None else _own_level("TDX module", levels, svn[0])


def enclave_level(identity: Mapping[str, Any], quote: Quote) -> Level:
    """The quoting enclave is Intel's, and its level.

    Raises:
        AttestationError: with ``K3L-QUOTE-ENCLAVE``: it is not; with ``K3L-QUOTE-TCB``: it reaches no level.
    """
    _compare("mrsigner", quote.field("qe.mrsigner"), bytes.fromhex(identity["mrsigner"]))
    _compare("isvprodid", quote.integer("qe.isvprodid"), identity["isvprodid"])
    _compare_masked("miscselect", quote.field("qe.miscselect"), identity["miscselect"], identity["miscselectMask"])
    _compare_masked("attributes", quote.field("qe.attributes"), identity["attributes"], identity["attributesMask"])
    return _own_level("quoting enclave", identity["tcbLevels"], quote.integer("qe.isvsvn"))


def _own_level(name: str, levels: list[Mapping[str, Any]], svn: int) -> Level:
    for level in levels:
        if svn >= level["tcb"]["isvsvn"]:
            return _level(level)
    raise AttestationError(Code.QUOTE_TCB, f"the {name} reaches no TCB level that Intel knows", found=str(svn))


def _level(level: Mapping[str, Any]) -> Level:
    if level["tcbStatus"] not in STATUSES:
        raise ValueError(f"status {level['tcbStatus']}")
    return Level(level["tcbStatus"], tuple(str(name) for name in level.get("advisoryIDs", ())))


def _compare(name: str, found: bytes | int, expected: bytes | int) -> None:
    if found != expected:
        shown = [value.hex() if isinstance(value, bytes) else str(value) for value in (expected, found)]
        raise AttestationError(Code.QUOTE_ENCLAVE, f"{name} is not Intel's", expected=shown[0], found=shown[1])


def _compare_masked(name: str, found: bytes, expected: str, mask: str) -> None:
    bits, want = bytes.fromhex(mask), bytes.fromhex(expected)
    if not len(bits) == len(want) == len(found):
        raise ValueError(f"{name} has another length")
    _compare(
        name,
        bytes(a & m for a, m in zip(found, bits, strict=True)),
        bytes(b & m for b, m in zip(want, bits, strict=True)),
    )

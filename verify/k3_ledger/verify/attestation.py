"""What an auditor demands of attestations: the ``[attestation]`` table of a trust policy.

Data only, so that a policy costs nothing where no receipt is attested; :mod:`k3_ledger.verify.tee` does the work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from k3_ledger.schemas.moments import LAST_SECOND, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS: Final = ("none", "tdx", "nvidia")
"""Ways in which a receipt can be attested; ``none`` is a way not to be."""
FLAGS: Final = ("dynamic-platform", "cached-keys", "smt")
"""Properties of a platform that a policy must allow by name."""
REGISTERS: Final = ("mrtd", "mrseam", "mrconfigid", "mrowner", "mrownerconfig", "rtmr0", "rtmr1", "rtmr2", "rtmr3")
"""Measurements that can be pinned."""
TCB_STATUSES: Final = (
    "UpToDate",
    "SWHardeningNeeded",
    "ConfigurationNeeded",
    "ConfigurationAndSWHardeningNeeded",
    "OutOfDate",
    "OutOfDateConfigurationNeeded",
)
"""Statuses that a policy can accept; ``Revoked`` is not among them."""
_HEX: Final = frozenset("0123456789abcdef")
_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)
_ADVISORY: Final = re.compile(r"INTEL-[A-Z]+-[0-9]{5}")
"""How collateral spells an advisory: any other spelling would refuse nothing."""


@dataclass(frozen=True, slots=True)
class AttestationPolicy:
    """What is demanded of attestations, and whose word counts.

    Attributes:
        kinds: kinds that a run receipt may have; None accepts any, ``none`` among them.
        at: time at which certificates and collateral must be valid: the receipt's own, the reader's, or seconds since
            1970.
        allow: properties of :data:`FLAGS` that a platform may have.
        tcb_status: statuses that are accepted.
        refuse_advisories: advisories whose presence is refused.
        measurements: by register, the values that are accepted; a register that is not named is not looked at.
        trust_dir: folder with the auditor's certificates and token keys, as the policy names it.
        anchors: (name, contents) of the files in it; the caller fills them in.
        present: the reader's time in seconds since 1970, which the caller fills in (:meth:`at_time`): this room reads
            no clock.
    """

    kinds: frozenset[str] | None = None
    at: int | Literal["receipt", "now"] = "receipt"
    allow: frozenset[str] = frozenset()
    tcb_status: frozenset[str] = frozenset({"UpToDate"})
    refuse_advisories: frozenset[str] = frozenset()
    measurements: tuple[tuple[str, frozenset[str]], ...] = ()
    trust_dir: str | None = None
    anchors: tuple[tuple[str, bytes], ...] = ()
    present: int | None = None

    def __post_init__(self) -> None:
        for name, given, known in (
            ("kinds", self.kinds or (), KINDS),
            ("allow", self.allow, FLAGS),
            ("tcb_status", self.tcb_status, TCB_STATUSES),
            ("measurements", [register for register, _ in self.measurements], REGISTERS),
        ):
            unknown = sorted(set(given) - set(known))
            if unknown:
                raise ValueError(f"{name}: {unknown[0]!r} is none of {', '.join(known)}")
        wanted = (("kinds", self.kinds), ("tcb_status", self.tcb_status), *self.measurements)
        for name, accepted in wanted:
            if accepted is not None and not accepted:
                place = f"measurements: {name}" if name in REGISTERS else name
                raise ValueError(f"{place}: an empty list accepts nothing; name what you accept, or leave the key out")
        for advisory in sorted(self.refuse_advisories):
            if not _ADVISORY.fullmatch(advisory):
                raise ValueError(f"refuse_advisories: {advisory!r} is not spelled like INTEL-SA-00837"[:200])
        for register, values in self.measurements:
            for value in values:
                if len(value) != 96 or not set(value) <= _HEX:
                    raise ValueError(
                        f"measurements: {register} takes 96 lower-case hexadecimal digits, got {value!r}"[:200]
                    )

    def at_time(self, now: int) -> AttestationPolicy:
        """The same policy with the reader's time, in seconds since 1970, where it asks for that."""
        return replace(self, present=now) if self.at == "now" else self

    def judged_at(self, stated: str) -> int:
        """The time at which a receipt is judged, in seconds since 1970.

        Args:
            stated: the receipt's own time, as text.

        Raises:
            ValueError: the receipt's own time is asked for, and it states none.
        """
        if self.at == "now":
            if self.present is None:
                raise TypeError("the reader's time is missing: at_time() fills it in")
            return self.present
        return read_time(stated) if self.at == "receipt" else self.at

    @property
    def sentence(self) -> str:
        """What a report says about it."""
        time = self.at if isinstance(self.at, int) else self.present
        when = f"{self.at} time" if time is None else format_time(time)
        parts = [f"attestations at {when}"]
        if self.kinds is not None:
            parts.append("kinds " + ", ".join(kind for kind in KINDS if kind in self.kinds))
        if self.allow:
            parts.append("allowing " + ", ".join(flag for flag in FLAGS if flag in self.allow))
        if self.tcb_status != {"UpToDate"}:
            parts.append("TCB status " + ", ".join(name for name in TCB_STATUSES if name in self.tcb_status))
        if self.refuse_advisories:
            parts.append("refusing " + ", ".join(sorted(self.refuse_advisories)))
        if self.measurements:
            parts.append("pinned " + ", ".join(register for register, _ in self.measurements))
        if self.anchors:
            parts.append(f"trust directory {self.digest[:16]}…")
        return " ".join((parts[0], *(f"({part})" for part in parts[1:])))

    def as_dict(self) -> dict[str, object]:
        """Everything that the policy says, as the values of canonical JSON, the trust directory by its name."""
        return {
            "allow": sorted(self.allow),
            "at": str(self.at),
            "kinds": None if self.kinds is None else sorted(self.kinds),
            "measurements": {register: sorted(values) for register, values in self.measurements},
            "refuse_advisories": sorted(self.refuse_advisories),
            "tcb_status": sorted(self.tcb_status),
            "trust_dir": self.trust_dir,
        }

    @property
    def digest(self) -> str:
        """SHA-256 over name and SHA-256 of every file of the trust directory, hexadecimal."""
        lines = (f"{name}\t{sha256(data).hexdigest()}\n" for name, data in sorted(self.anchors))
        return sha256("".join(lines).encode()).hexdigest()


def read_time(text: str) -> int:
    """Seconds since 1970 of ``2026-08-02T03:55:27+00:00``; a time zone is required.

    Raises:
        ValueError: the text is no such time.
    """
    try:  # what else is taken depends on the version of Python
        moment = datetime.fromisoformat(text if _MOMENT.fullmatch(text) else "")
    except ValueError:
        raise ValueError(f"{text[:80]} is no time such as 2026-08-02T00:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError(f"{text} names no time zone")
    seconds = int(moment.timestamp())
    if not 0 <= seconds <= LAST_SECOND:
        raise ValueError(f"{text} is not between 1970 and 9999")
    return seconds


def read_at(text: str) -> int | Literal["receipt", "now"]:
    """``receipt``, ``now`` or a time.

    Raises:
        ValueError: the text is none of them.
    """
    if text == "receipt":
        return "receipt"
    return "now" if text == "now" else read_time(text)


def read_table(table: Mapping[str, object]) -> AttestationPolicy:
    """The policy of an ``[attestation]`` table.

    Raises:
        ValueError: an unknown key or a value of the wrong form; the message begins with the key.
    """
    known = {"kinds", "trust_dir", "at", "allow", "tcb_status", "refuse_advisories", "measurements"}
    for key in table:
        if key not in known:
            raise ValueError(f"{key}: expected one of {', '.join(sorted(known))}")
    pins = table.get("measurements", {})
    if not isinstance(pins, dict):
        raise ValueError("measurements: expected a table of lists")  # noqa: TRY004 - about the data
    trust_dir, at = table.get("trust_dir"), table.get("at", "receipt")
    if not isinstance(trust_dir, str | None) or not isinstance(at, str):
        raise ValueError("trust_dir, at: expected texts")  # noqa: TRY004 - about the data
    if trust_dir == "":
        raise ValueError("trust_dir: an empty text names no folder; leave the key out, or name the folder")
    try:
        moment = read_at(at)
    except ValueError as error:
        raise ValueError(f"at: expected receipt, now or a time such as 2026-08-02T00:00:00Z: {error}") from None
    return AttestationPolicy(
        kinds=_names(table, "kinds") if "kinds" in table else None,
        at=moment,
        allow=_names(table, "allow"),
        tcb_status=_names(table, "tcb_status") if "tcb_status" in table else frozenset({"UpToDate"}),
        refuse_advisories=_names(table, "refuse_advisories"),
        measurements=tuple((register, _names(pins, register, "measurements.")) for register in sorted(pins)),
        trust_dir=trust_dir,
    )


def _names(table: Mapping[str, object], key: str, place: str = "") -> frozenset[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{place}{key}: expected a list of texts")
    return frozenset(value)

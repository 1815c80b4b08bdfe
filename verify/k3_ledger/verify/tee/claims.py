"""What the claims of an NVIDIA token say of the device and of the service's own checks.

``measres`` alone says that measurements are the published ones. A device in debug mode can have them, and so can one
whose certificate was revoked; the service states that beside it and leaves it to the reader to look. So nothing that
the token itself calls wrong passes here, whatever its summary says:

- ``secboot`` is true and ``dbgstat`` one of RFC 9711's words for a device that is not debugged (section 4.2.9);
- each check of the service whose outcome the token states came out true: the names end as in :data:`_CHECKS`;
- each certificate that it states a status of is valid, and not revoked where that was asked;
- no measurement is listed as one that differs.

A check that a version of the service does not state, or states as null, is one that it did not make: ``measres`` and
the overall result stand for those. Secure boot and debugging they do not stand for: a device's token that is silent
about one of the two leaves that open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MEASURED: Final = frozenset({"success", "comparison-successful"})
"""Words of the service for measurements that held, by version of its claims."""
_NOT_DEBUGGED: Final = frozenset(
    {"disabled", "disabled-since-boot", "disabled-permanently", "disabled-fully-and-permanently"}
)
_STATED: Final = ("secboot", "dbgstat")
_PREFIX: Final = "x-nvidia-"
_CHECKS: Final = (
    "-check",
    "-fetched",
    "-match",
    "-measurements-available",
    "-no-conflict",
    "-parsed",
    "-validated",
    "-verified",
)
_STATUSES: Final = {"x-nvidia-cert-status": "valid", "x-nvidia-cert-ocsp-status": "good"}
_DIFFERENT: Final = "x-nvidia-mismatch-measurement-records"


def refusals(claims: Mapping[str, Any], *, overall: bool) -> Iterator[str]:
    """Everything in the claims of one token that says that the evidence did not hold, as ``name value``.

    Args:
        claims: claims of a token whose signature verifies.
        overall: whether it is the token about all devices together.
    """
    result = "x-nvidia-overall-att-result" if overall else "measres"
    held = claims.get(result)
    if not (held is True if overall else isinstance(held, str) and held in _MEASURED):
        yield _said(result, held)
    boot, debug = (claims.get(name) for name in _STATED)
    if boot is not None and boot is not True:
        yield _said("secboot", boot)
    if debug is not None and not (isinstance(debug, str) and debug in _NOT_DEBUGGED):
        yield _said("dbgstat", debug)
    for name, value in sorted(claims.items()):
        if name.startswith(_PREFIX) and value is not None:
            yield from _service(name, value)


def _service(name: str, value: object) -> Iterator[str]:
    """What one of the service's own claims calls wrong."""
    if name in _STATUSES:
        held = value == _STATUSES[name]
    elif name == _DIFFERENT:
        held = value == []
    else:
        held = value is True or not name.endswith(_CHECKS)
    if not held:
        yield _said(name, value)
    if isinstance(value, dict):
        for inner, wanted in _STATUSES.items():
            if value.get(inner, wanted) not in (None, wanted):
                yield _said(f"{name} {inner}", value[inner])


def unstated(claims: Mapping[str, Any]) -> list[str]:
    """What a device's token is silent about and nothing else stands for."""
    return [name for name in _STATED if claims.get(name) is None]


def _said(name: str, value: object) -> str:
    return f"{name} {value}"[:160]

"""The auditor's trust policy. The document never picks its own check: what is trusted is said here, outside it."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from k3_ledger.ledger.core.cosignature import Witness
from k3_ledger.ledger.core.ed25519 import check_public_key
from k3_ledger.ledger.core.note import KeyType, format_verifier_key, parse_verifier_key
from k3_ledger.schemas import canonical
from k3_ledger.schemas.canonical import MAX_INTEGER
from k3_ledger.schemas.errors import LedgerError, PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.schemas.toml import TomlError, read_toml
from k3_ledger.verify.report import STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from k3_ledger.verify.attestation import AttestationPolicy

_STEP_NAMES = tuple(name for name, _ in STEPS)
_KEYS = frozenset({
    "root_public_key", "origin", "minimum_size", "maximum_head_age_seconds", "require", "quorum", "witness",
    "timestamp_roots", "attestation",
})  # fmt: skip
_HEX = frozenset("0123456789abcdef")
_CERTIFICATE = re.compile(
    r"\s*-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]{4,20000})-----END CERTIFICATE-----\s*", re.ASCII
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """What an auditor trusts and demands.

    Attributes:
        root_public_key: raw 32-byte Ed25519 key that must open the log (genesis), or None: then integrity is
            checked, but nobody is authenticated.
        origin: name the log must give itself, or None for any.
        minimum_size: smallest tree size that a signed head must commit to; 0 demands none.
        maximum_head_age_seconds: for how long the newest head may not have moved, or have been cosigned again, see
            :mod:`k3_ledger.verify.freshness`; None demands nothing.
        require: names of steps (:data:`k3_ledger.verify.report.STEPS`) for which ``not-checked`` is not accepted.
        witnesses: whose cosignatures count. No two have one public key: what a witness signs does not name it. No two
            have one name and key hash, which is how a line names its key. No two
            operators have names that only look different (:mod:`k3_ledger.verify.operators`).
        quorum: how many of their operators must have cosigned the newest head; 0 only without witnesses.
        timestamp_roots: root certificates (DER) of the timestamp authorities that are believed.
        attestation: what is demanded of attestations; None leaves evidence unchecked.
    """

    root_public_key: bytes | None = None
    origin: str | None = None
    minimum_size: int = 0
    require: frozenset[str] = frozenset()
    witnesses: tuple[Witness, ...] = ()
    quorum: int = 0
    maximum_head_age_seconds: int | None = None
    timestamp_roots: tuple[bytes, ...] = ()
    attestation: AttestationPolicy | None = None

    def __post_init__(self) -> None:
        if self.root_public_key is not None and len(self.root_public_key) != 32:
            raise ValueError(f"a raw Ed25519 public key has 32 bytes, got {len(self.root_public_key)}")
        if self.minimum_size < 0:
            raise ValueError(f"minimum_size must not be negative, got {self.minimum_size}")
        if self.maximum_head_age_seconds is not None and self.maximum_head_age_seconds < 1:
            raise ValueError(f"maximum_head_age_seconds must be positive, got {self.maximum_head_age_seconds}")
        unknown = self.require - set(_STEP_NAMES)
        if unknown:
            raise ValueError(f"unknown step {min(unknown)!r}, expected one of {', '.join(_STEP_NAMES)}")
        self._check_witnesses()

    def _check_witnesses(self) -> None:
        if any(witness.verifier.key_type is not KeyType.COSIGNATURE for witness in self.witnesses):
            raise ValueError("a witness has a key of the cosignature type")
        if len({witness.verifier.public_key for witness in self.witnesses}) < len(self.witnesses):
            raise ValueError("two witnesses have the same public key, so their cosignatures cannot be told apart")
        if len({(witness.name, witness.verifier.key_hash) for witness in self.witnesses}) < len(self.witnesses):
            raise ValueError(
                "two witnesses have one name and one key hash, which is all that a signature line says of its key: it "
                "takes a search to make such a pair, so ask their operators for other names"
            )
        if self.witnesses:
            from k3_ledger.verify.operators import check_operators  # noqa: PLC0415 - brings tables that few policies need

            check_operators(witness.operator for witness in self.witnesses)
        operators = len({witness.operator for witness in self.witnesses})
        if operators and self.quorum < 1:
            raise ValueError(f"witnesses need a quorum: of how many operators, from 1 to {operators}")
        if self.quorum > operators:
            most = f"at most {operators}" if operators else "none"
            asked = f"a quorum of {self.quorum} cannot be asked of witnesses by {operators} operators"
            raise ValueError(f"{asked}: {most}, or add the other witnesses first")
        if self.quorum < 0:
            raise ValueError(f"a quorum must not be negative, got {self.quorum}")

    @property
    def sentence(self) -> str:
        """One sentence for the report: under which policy the verdict holds."""
        if self.root_public_key is None:
            who = "integrity checked; signer not authenticated (no root key in the trust policy)"
        else:
            who = f"root key {self.root_public_key.hex()}"
        demands = [f"origin {self.origin}"] if self.origin is not None else []
        if self.minimum_size:
            demands.append(f"a signed head of at least {self.minimum_size} entries")
        if self.maximum_head_age_seconds is not None:
            demands.append(f"a newest head that moved or was cosigned within {self.maximum_head_age_seconds} seconds")
        if self.quorum:
            demands.append(f"cosignatures by {self.quorum} of {len(self.witnesses)} witnesses")
        if self.timestamp_roots:
            demands.append(f"{len(self.timestamp_roots)} timestamp authorities believed")
        if self.require:
            demands.append("required steps: " + ", ".join(n for n in _STEP_NAMES if n in self.require))
        if self.attestation is not None:
            demands.append(self.attestation.sentence)
        return "; ".join([who, *demands])

    def as_dict(self) -> dict[str, object]:
        """Everything the policy says, as the values of canonical JSON; what it leaves open is null or empty."""
        return {
            "maximum_head_age_seconds": self.maximum_head_age_seconds,
            "attestation": None if self.attestation is None else self.attestation.as_dict(),
            "minimum_size": self.minimum_size,
            "origin": self.origin,
            "quorum": self.quorum,
            "require": sorted(self.require),
            "timestamp_roots": sorted(sha256(root).hexdigest() for root in self.timestamp_roots),
            "root_public_key": None if self.root_public_key is None else self.root_public_key.hex(),
            "witnesses": sorted(
                ({"key": format_verifier_key(w.verifier), "operator": w.operator} for w in self.witnesses),
                key=itemgetter("key"),
            ),
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of :meth:`as_dict`, hexadecimal: which policy a verdict was given under.

        It is about what the policy says: comments, order and whether a file or a flag said it do not count. Nor does,
        once a trust directory was read, what it is called: the certificates in it do.
        """
        said = self.as_dict()
        if self.attestation is not None and self.attestation.anchors:
            said["attestation"] = {**self.attestation.as_dict(), "trust_dir": self.attestation.digest}
        return sha256(canonical.format(said)).hexdigest()


NO_POLICY_SENTENCE = "integrity checked; signer not authenticated (no trust policy)"


def parse_policy(data: bytes, name: str = "trust.toml") -> TrustPolicy:
    """Read a trust policy from TOML bytes.

    Keys, all optional: ``root_public_key`` (64 hexadecimal digits), ``origin`` (text), ``minimum_size`` and
    ``maximum_head_age_seconds`` (integers), ``require`` (list of step names), ``quorum`` (integer), ``witness`` (tables
    with ``key``, a verifier key, and optionally ``operator``, the key's name when left out),
    ``timestamp_roots`` (list of certificates, as PEM text), ``attestation`` (a table, see
    :func:`k3_ledger.verify.attestation.read_table`).

    Raises:
        PolicyError: not TOML (which ends a command with exit code 3), an unknown key, or a value of the wrong form; the
            position names the key.
    """
    try:
        table = read_toml(data.decode())
    except ValueError as error:
        why, line = (str(error), error.line) if isinstance(error, TomlError) else ("it is no UTF-8 text", None)
        wrong = PolicyError(
            Code.POLICY_MALFORMED,
            f"the trust policy is not TOML: {why}"[:300],
            position=Position(source=name, line=line),
        )
        wrong.handed_in = True  # as any other file that cannot be read; a policy that asks wrongly is wrong use
        raise wrong from None
    for key in table:
        if key not in _KEYS:
            raise _wrong(name, key, "one of " + ", ".join(sorted(_KEYS)), f"the key {_shown(key)}")
    try:
        return TrustPolicy(
            root_public_key=_root_key(table, name),
            origin=_origin(table, name),
            minimum_size=_typed(table, "minimum_size", int, name) or 0,
            maximum_head_age_seconds=_typed(table, "maximum_head_age_seconds", int, name),
            require=_require(table, name),
            witnesses=_witnesses(table, name),
            quorum=_typed(table, "quorum", int, name) or 0,
            timestamp_roots=_timestamp_roots(table, name),
            attestation=_attestation(table, name),
        )
    except ValueError as error:
        raise PolicyError(Code.POLICY_MALFORMED, str(error), position=Position(source=name)) from None


def _wrong(name: str, key: str, expected: str, found: str) -> PolicyError:
    return PolicyError(
        Code.POLICY_MALFORMED,
        f"the trust policy's {key} is not as it should be",
        position=Position(source=name, field=key),
        expected=expected,
        found=found,
    )


def _typed(table: Mapping[str, object], key: str, kind: type[_T], name: str) -> _T | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _wrong(name, key, "a text" if kind is str else "an integer", _shown(value))
    if isinstance(value, int) and value > MAX_INTEGER:
        raise _wrong(name, key, f"at most {MAX_INTEGER}", _shown(value))
    return value


def _shown(value: object) -> str:
    """A value of TOML in one short line, as TOML has it."""
    if isinstance(value, dict):
        return f"a table of {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str | bool | int | float):
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)
        return text if len(text) <= 80 else f"{text[:80]}…"
    return f"the date or time {value}"


def _origin(table: Mapping[str, object], name: str) -> str | None:
    text = _typed(table, "origin", str, name)
    if text is not None and (not text or not text.isprintable()):
        raise _wrong(name, "origin", "the name of a log, in one line", _shown(text))
    return text


def _root_key(table: Mapping[str, object], name: str) -> bytes | None:
    text = _typed(table, "root_public_key", str, name)
    if text is None:
        return None
    if len(text) != 64 or not set(text) <= _HEX:
        raise _wrong(name, "root_public_key", "64 lower-case hexadecimal digits", _shown(text))
    raw = bytes.fromhex(text)
    try:
        check_public_key(raw)
    except LedgerError as error:
        raise _wrong(
            name, "root_public_key", "a key that can sign: a point of the prime-order subgroup", str(error)
        ) from None
    return raw


def _require(table: Mapping[str, object], name: str) -> frozenset[str]:
    value = table.get("require", [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(name, "require", "a list of step names", _shown(value))
    return frozenset(value)


def parse_certificate(text: str) -> bytes | None:
    """The bytes of one certificate in PEM text; None when it is something else. What they say is not looked at."""
    match = _CERTIFICATE.fullmatch(text)
    try:
        return None if match is None else b64decode(re.sub(r"\s", "", match[1]), validate=True)
    except ValueError:
        return None


def _timestamp_roots(table: Mapping[str, object], name: str) -> tuple[bytes, ...]:
    listed = table.get("timestamp_roots", [])
    if not isinstance(listed, list):
        raise _wrong(name, "timestamp_roots", "a list of certificates", _shown(listed))
    roots = []
    for number, text in enumerate(listed):
        der = parse_certificate(text) if isinstance(text, str) else None
        if der is None:
            expected = "one certificate as PEM text, from BEGIN to END CERTIFICATE"
            raise _wrong(name, f"timestamp_roots[{number}]", expected, _shown(text))
        roots.append(der)
    return tuple(roots)


def _witnesses(table: Mapping[str, object], name: str) -> tuple[Witness, ...]:
    listed = table.get("witness", [])
    if not isinstance(listed, list):
        raise _wrong(name, "witness", "tables [[witness]]", _shown(listed))
    witnesses = []
    for number, item in enumerate(listed):
        field = f"witness[{number}]"
        if not isinstance(item, dict) or not {"key"} <= item.keys() <= {"key", "operator"}:
            raise _wrong(name, field, "a key and, where it has another name, an operator", _shown(item))
        key, operator = item["key"], item.get("operator")
        if not isinstance(key, str) or (operator is not None and not (isinstance(operator, str) and operator)):
            raise _wrong(name, field, "texts that are not empty", _shown(item))
        try:
            verifier = parse_verifier_key(key)
        except LedgerError as error:
            raise _wrong(name, f"{field}.key", "the line that `k3-ledger witness init` prints", str(error)) from None
        witnesses.append(Witness(verifier, operator or verifier.name))
    return tuple(witnesses)


def _attestation(table: Mapping[str, object], name: str) -> AttestationPolicy | None:
    value = table.get("attestation")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _wrong(name, "attestation", "a table", _shown(value))
    from k3_ledger.verify.attestation import read_table  # noqa: PLC0415 - most policies have no such table

    try:
        return read_table(value)
    except ValueError as error:
        raise PolicyError(
            Code.POLICY_MALFORMED, f"attestation.{error}"[:300], position=Position(source=name, field="attestation")
        ) from None

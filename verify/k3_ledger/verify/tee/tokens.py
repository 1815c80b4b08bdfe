"""Verifies NVIDIA attestation tokens, offline, with keys that the auditor holds.

The attestation service answers with ``[["JWT", overall], {"GPU-0": device, …}]``: JSON web tokens (RFC 7519) signed
with ES384. NVIDIA's own package fetches the keys while it verifies and has no other way, so the check is made here:
the keys come from ``nvidia-jwks.json`` (RFC 7517) in the trust directory.

1. each token has three parts, ES384 in its header, and a signature that verifies under the key of its name;
2. the overall token names the digest of every device's token, and no device is left over;
3. the chosen time lies in each token's period; where it is the receipt's own, the period ends after the run began;
4. nothing in a token says that the evidence did not hold (:mod:`k3_ledger.verify.tee.claims`), overall and for each
   device; and each device's says that it booted securely and is not debugged;
5. every nonce is the digest of the receipt's bare bundle, in lower-case hexadecimal as it was asked for.

Each token is judged by itself: one that nobody here can check hides nothing that another one says, and what is false is
false beside what is not checked.

The digest is known when the run has ended, and not before: it covers the figures. So a token is younger than the bundle
that it is bound to, and no old one can be used again; and a token begins after the time that its receipt states.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA384

from k3_ledger.schemas.errors import AttestationError, PolicyError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.moments import LAST_SECOND, format_time
from k3_ledger.schemas.outcomes import NOWHERE, Outcome, Position
from k3_ledger.verify.tee.claims import refusals, unstated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KEY_SET: Final = "nvidia-jwks.json"
"""File of the trust directory that holds the service's keys."""
MAX_BYTES: Final = 1 << 20
_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_OPEN: Final = frozenset({Code.TOKEN_NO_KEY, Code.TOKEN_UNSTATED})
"""Findings that leave an answer open; by any other it is false."""
_COORDINATE: Final = 48


Keys: TypeAlias = "Mapping[str, ec.EllipticCurvePublicKey]"
"""Keys of an attestation service, by name."""


_UNUSABLE: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
)
"""What reading a key set can raise: members of another kind, and certificates that nobody can use."""


def load_keys(data: bytes) -> Keys:
    """Keys on P-384 of a key set, by name; others are left out.

    Raises:
        PolicyError: it is no key set, or one of those keys cannot be used.
    """
    try:
        found = {}
        for key in json.loads(data)["keys"]:
            if key.get("kty") == "EC" and key.get("crv", "P-384") == "P-384":
                found[str(key["kid"])] = _key(key)
    except _UNUSABLE as error:
        raise PolicyError(
            Code.POLICY_MALFORMED,
            f"no set of keys that can be used: {type(error).__name__} {error}"[:200],
            position=Position(source=KEY_SET),
        ) from None
    return found


def _key(key: Mapping[str, Any]) -> ec.EllipticCurvePublicKey:
    if "x" in key:
        return ec.EllipticCurvePublicKey.from_encoded_point(
            ec.SECP384R1(),
            b"\x04" + _decode(key["x"]).rjust(_COORDINATE, b"\0") + _decode(key["y"]).rjust(_COORDINATE, b"\0"),
        )
    public = x509.load_der_x509_certificate(base64.b64decode(key["x5c"][0], validate=True)).public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP384R1):
        raise ValueError("a certificate's key is not on P-384")  # noqa: TRY004 - about the data
    return public


def _decode(text: str) -> bytes:
    """The one base64url spelling without padding (RFC 7515, section 2)."""
    if _PART.fullmatch(text) is None:
        raise ValueError("not base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise ValueError("not the one spelling of base64url")
    return data


def check_tokens(
    data: bytes, keys: Keys, at: int, digest: bytes, position: Position = NOWHERE, *, begun: bool = False
) -> tuple[Outcome, list[Finding]]:
    """Verify the service's answer.

    Args:
        data: the answer, JSON.
        keys: the auditor's keys, by name.
        at: seconds since 1970 at which the tokens must be valid.
        digest: what the nonces must be.
        position: where the answer stands, for findings.
        begun: whether ``at`` is when the run began, behind which its tokens were asked for.
    """
    findings: list[Finding] = []
    try:
        overall, devices = _split(data)
        findings += _check(overall, devices, keys, at, digest, begun=begun)
    except AttestationError as error:
        findings.append(error.finding)
    placed = [Finding(f.code, f.message, position, f.expected, f.found) for f in findings]
    if all(finding.code in _OPEN for finding in placed):
        return (Outcome.NOT_CHECKED if placed else Outcome.PASS), placed
    return Outcome.FAIL, placed


def stated_nonces(data: bytes) -> dict[str, str]:
    """The nonce that each token states, by the token's name. No signature is looked at: a token can state anything.

    Raises:
        AttestationError: it is not the service's answer.
    """
    overall, devices = _split(data)
    named = {"overall": overall, **devices}
    return {name: _nonce(_parse(token)[1]) for name, token in named.items()}


def faults_within(data: bytes, digest: bytes, position: Position) -> Iterator[Finding]:
    """What is wrong with the service's answer whoever's keys count: its form, and nonces that are others.

    Args:
        data: the answer, JSON.
        digest: what the nonces must be.
        position: where the answer stands, for findings.
    """
    try:
        nonces = stated_nonces(data)
    except AttestationError as error:
        yield replace(error.finding, position=position)
        return
    for name, found in nonces.items():
        if found != digest.hex():
            yield replace(_unbound(name, digest, found), position=position)


def _unbound(name: str, digest: bytes, found: str) -> Finding:
    message = f"the nonce of token {name} is not the receipt's digest"
    return Finding(Code.TOKEN_BINDING, message, expected=digest.hex(), found=found)


def _split(data: bytes) -> tuple[str, dict[str, str]]:
    try:
        value = _load(data) if len(data) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        value = None
    match value:
        case [["JWT", str(overall)], dict(devices)] if devices and all(isinstance(t, str) for t in devices.values()):
            return overall, devices
        case _:
            raise AttestationError(Code.TOKEN_MALFORMED, "not an overall token and a token for each device")


def _check(
    overall: str, devices: Mapping[str, str], keys: Keys, at: int, digest: bytes, *, begun: bool
) -> Iterator[Finding]:
    named = [(name, token, False) for name, token in devices.items()]
    wanted = {name: ["DIGEST", ["SHA-256", sha256(token.encode()).hexdigest()]] for name, token in devices.items()}
    said_before = set()
    for name, token, is_overall in [("overall", overall, True), *named]:
        try:
            claims = _open(token, keys)
        except AttestationError as error:
            if error.finding not in said_before:
                yield error.finding
            said_before.add(error.finding)
            continue
        if is_overall and claims.get("submods") != wanted:
            yield Finding(Code.TOKEN_SIGNATURE, "the devices' tokens are not those that the overall token names")
        first, last = claims.get("nbf", claims.get("iat")), claims.get("exp")
        if not (_is_second(first) and _is_second(last) and first <= (last if begun else at) and at <= last):
            message, period = f"token {name} is not valid then", f"{first} to {last}"[:80]
            yield Finding(Code.TOKEN_EXPIRED, message, expected=period, found=format_time(at))
        for said in refusals(claims, overall=is_overall):
            yield Finding(Code.TOKEN_REFUSED, f"token {name} says that the evidence did not hold", found=said)
        silent = [] if is_overall else unstated(claims)
        if silent:
            yield Finding(Code.TOKEN_UNSTATED, f"token {name} does not state {' and '.join(silent)}")
        found = _nonce(claims)
        if found != digest.hex():
            yield _unbound(name, digest, found)


def _is_second(value: object) -> TypeGuard[int]:
    """Whether a claim is a whole second from 1970 to the year 9999."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LAST_SECOND


def _load(data: bytes) -> Any:
    """JSON in which no object has a name twice: readers differ about which of two counts.

    Raises:
        ValueError: it is none.
    """
    return json.loads(data, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _nonce(claims: Mapping[str, Any]) -> str:
    return str(claims.get("eat_nonce"))[:80]


def _open(token: str, keys: Keys) -> dict[str, Any]:
    """The claims of one token whose signature verifies.

    Raises:
        AttestationError: it is malformed, its key is not there, or its signature does not verify.
    """
    signed, claims, raw, name = _parse(token)
    if name not in keys:
        raise AttestationError(Code.TOKEN_NO_KEY, f"no key named {name[:80]} in {KEY_SET}")
    numbers = int.from_bytes(raw[:_COORDINATE], "big"), int.from_bytes(raw[_COORDINATE:], "big")
    try:
        keys[name].verify(encode_dss_signature(*numbers), signed, ec.ECDSA(SHA384()))
    except InvalidSignature:
        raise AttestationError(Code.TOKEN_SIGNATURE, "a token's signature does not verify") from None
    return claims


def _parse(token: str) -> tuple[bytes, dict[str, Any], bytes, str]:
    """What a token's signature covers, its claims, the signature and the name of its key; nothing is verified.

    Raises:
        AttestationError: it is malformed.
    """
    try:
        head, body, signature = token.split(".")
        header, claims, raw = _load(_decode(head)), _load(_decode(body)), _decode(signature)
        algorithm, name = header["alg"], str(header["kid"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AttestationError(Code.TOKEN_MALFORMED, f"no token: {type(error).__name__} {error}"[:200]) from None
    if algorithm != "ES384" or len(raw) != 2 * _COORDINATE or not isinstance(claims, dict):
        found = f"{algorithm}, {len(raw)} bytes"[:80]
        raise AttestationError(Code.TOKEN_MALFORMED, "no ES384 token", expected="ES384, 96 bytes", found=found)
    if "crit" in header:  # RFC 7515, section 4.1.11: what it names has to be understood, and no extension is
        raise AttestationError(Code.TOKEN_MALFORMED, "a token with critical extensions", found=str(header["crit"])[:80])
    return f"{head}.{body}".encode(), claims, raw, name

"""C2SP signed notes (c2sp.org/signed-note) and cosignatures (c2sp.org/tlog-cosignature).

A note is a text that ends in LF, a blank line, and signature lines::

    — <key name> <base64 of 4-byte key hash and signature>

The text is everything up to the last blank line. Rules enforced here:

1. the whole note is UTF-8 without control characters other than LF, at most ``MAX_NOTE`` bytes;
2. there are 1 to ``MAX_SIGNATURES`` signature lines and nothing behind them;
3. key names are not empty and hold neither Unicode white space nor ``+``;
4. base64 is strict: one spelling for each value.

A key is known by name and key hash together. :func:`open_note` ignores signatures by unknown keys, however many, and
refuses the note when one by a known key is bad or when no known key signed it. Two signatures by one key count once.

Unverified and verified are different types: :class:`UnverifiedNote` is what a note says of itself, :class:`Note` is
what was checked. Whether the keys that signed are the right ones is for the caller to say, by the verifiers it passes.
Nothing here signs: :class:`Signer` is what the writer brings along.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from k3_ledger.ledger.core import strict_base64
from k3_ledger.ledger.core.ed25519 import PUBLIC_KEY_LEN, check_public_key, check_signature
from k3_ledger.schemas.errors import LedgerError, MalformedError, SignatureError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_NOTE: Final = 1_000_000
"""Most bytes in a note."""
MAX_SIGNATURES: Final = 100
"""Most signature lines in a note; the specification asks for at least 16."""
MAX_TIMESTAMP: Final = 2**63 - 1
"""Latest time of a cosignature, in seconds since the Epoch."""

_HASH_LEN: Final = 4
_TIMESTAMP_LEN: Final = 8
_DASH: Final = "— "
_SAVED_AS: Final = {
    b"\xef\xbb\xbf": "UTF-8 with a byte order mark",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
"""What editors and shells make of a note, by its first bytes."""
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_VERIFIER_KEY: Final = re.compile(r"([^+]+)\+([0-9a-f]{8})\+(.+)")


class KeyType(enum.IntEnum):
    """Signature type identifiers that this package verifies. The type is part of the key hash."""

    ED25519 = 0x01
    """A signature over the text: how a log signs its checkpoint."""
    COSIGNATURE = 0x04
    """A timestamped signature over the text: how a witness cosigns a checkpoint."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """A named public key that signatures on notes are checked with.

    Attributes:
        name: key name; the origin, for a log's own key.
        public_key: raw Ed25519 public key, 32 bytes. It is not checked here: :func:`parse_verifier_key` does that.
        key_type: what the key's signatures are over.
        key_hash: first four bytes of SHA-256 of name, LF, type and key, as a big-endian number.
    """

    name: str
    public_key: bytes
    key_type: KeyType = KeyType.ED25519
    key_hash: int = field(init=False)

    def __post_init__(self) -> None:
        if not _is_key_name(self.name):
            raise ValueError(f"{self.name!r} is no key name")
        object.__setattr__(self, "key_hash", key_hash(self.name, self.public_key, self.key_type))


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line, unverified.

    Attributes:
        name: key name that the line gives.
        key_hash: key hash that it gives.
        signature: what stands behind the key hash, of any length.
    """

    name: str
    key_hash: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class VerifiedSignature:
    """One signature that was checked.

    Attributes:
        verifier: the key it was checked with.
        signature: the signature line.
        timestamp: seconds since the Epoch that a cosigner claims; None for a plain signature.
    """

    verifier: Verifier
    signature: NoteSignature
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class UnverifiedNote:
    """A note of which nothing but the form was checked.

    Attributes:
        text: the text, its last LF included.
        sigs: every signature line, in order.
    """

    text: str
    sigs: tuple[NoteSignature, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A note that at least one known key signed, and no known key signed badly.

    Attributes:
        text: the text, its last LF included.
        sigs: one checked signature for each known key that signed.
        unverified_sigs: signature lines by unknown keys. They prove nothing.
    """

    text: str
    sigs: tuple[VerifiedSignature, ...]
    unverified_sigs: tuple[NoteSignature, ...]


class Signer(Protocol):
    """What signs a note. The writer has one for each secret key; this module only calls it."""

    @property
    def name(self) -> str:
        """Key name."""
        ...

    @property
    def key_hash(self) -> int:
        """Key hash, as :func:`key_hash` gives it."""
        ...

    def sign(self, text: bytes, /) -> bytes:
        """Signature of a note's text, without the key hash."""
        ...


def key_hash(name: str, public_key: bytes, key_type: KeyType = KeyType.ED25519) -> int:
    """The 32-bit key hash. It identifies a key among trusted ones and is no commitment to it."""
    digest = hashlib.sha256(name.encode() + b"\n" + bytes((key_type,)) + public_key).digest()
    return int.from_bytes(digest[:_HASH_LEN], "big")


def format_verifier_key(verifier: Verifier) -> str:
    """A verifier key as one line of text: ``name+hash+base64``, without an LF."""
    material = _encode(bytes((verifier.key_type,)) + verifier.public_key)
    return f"{verifier.name}+{verifier.key_hash:08x}+{material}"


def parse_verifier_key(text: str, *, position: Position = NOWHERE) -> Verifier:
    """The inverse of :func:`format_verifier_key`; also checks the public key.

    Raises:
        MalformedError: with ``VERIFIER_KEY``.
        SignatureError: the key is not a point of the prime-order subgroup.
    """
    match = _VERIFIER_KEY.fullmatch(text)
    material = _decode(match[3]) if match else b""
    if match is None or not _is_key_name(match[1]) or len(material) != 1 + PUBLIC_KEY_LEN:
        raise MalformedError(Code.VERIFIER_KEY, "not a verifier key", position=position, found=text[:200])
    if material[0] not in list(KeyType):
        message = f"signature type {material[0]:#04x} is not known"
        raise MalformedError(Code.VERIFIER_KEY, message, position=position, found=text[:200])
    check_public_key(material[1:], position=position)
    verifier = Verifier(match[1], material[1:], KeyType(material[0]))
    if f"{verifier.key_hash:08x}" != match[2]:
        raise MalformedError(
            Code.VERIFIER_KEY,
            "the key hash belongs to another name or key",
            position=position,
            expected=f"{verifier.key_hash:08x}",
            found=match[2],
        )
    return verifier


def parse_note(data: bytes, *, position: Position = NOWHERE) -> UnverifiedNote:
    """Take a note apart without checking any signature.

    Raises:
        MalformedError: with ``NOTE_MALFORMED``.
    """
    text, mark, lines = _readable(data, position).rpartition("\n\n")
    if not mark:
        raise _malformed("there is no blank line in front of the signatures", position)
    if not lines and "\n\n" in text:
        raise _resaved("a blank line stands behind the signatures", position)
    if not lines.endswith("\n"):
        raise _malformed("the last signature line does not end in a line feed", position)
    sigs = lines.removesuffix("\n").split("\n")
    if len(sigs) > MAX_SIGNATURES:
        raise _malformed(f"{len(sigs)} signatures are more than {MAX_SIGNATURES}", position)
    return UnverifiedNote(text + "\n", tuple(_parse_signature(line, position) for line in sigs))


def format_note(text: str, sigs: Iterable[NoteSignature]) -> bytes:
    """Put a note together. The inverse of :func:`parse_note`.

    Raises:
        ValueError: the result would not parse.
    """
    lines = "".join(
        f"{_DASH}{sig.name} {_encode(sig.key_hash.to_bytes(_HASH_LEN, 'big') + sig.signature)}\n" for sig in sigs
    )
    data = f"{text}\n{lines}".encode()
    try:
        parsed = parse_note(data)
    except LedgerError as error:
        raise ValueError(f"not a note: {error.finding.message}") from None
    if parsed.text != text:
        raise ValueError("not a note: the text does not end in a line feed")
    return data


def open_note(data: bytes, verifiers: Iterable[Verifier], *, position: Position = NOWHERE) -> Note:
    """Check every signature by a known key.

    Args:
        data: the note.
        verifiers: the known keys; the caller trusts them for this kind of text.
        position: where the note stands; used in errors only.

    Raises:
        MalformedError: with ``NOTE_MALFORMED``.
        SignatureError: with ``NOTE_SIGNATURE`` (a known key's signature is bad) or ``NOTE_UNSIGNED`` (there is none).
    """
    known: dict[tuple[str, int], list[Verifier]] = {}
    for verifier in verifiers:
        known.setdefault((verifier.name, verifier.key_hash), []).append(verifier)
    note = parse_note(data, position=position)
    verified: dict[Verifier, VerifiedSignature] = {}
    unverified: list[NoteSignature] = []
    for sig in note.sigs:
        signers = known.get((sig.name, sig.key_hash))
        if signers is None:
            unverified.append(sig)
        else:
            checked = check_by_one_of(note.text, sig, signers, position)
            verified.setdefault(checked.verifier, checked)
    if not verified:
        raise SignatureError(
            Code.NOTE_UNSIGNED,
            "no known key signed the note",
            position=position,
            expected=_names(known),
            found=_names((sig.name, sig.key_hash) for sig in unverified),
        )
    return Note(note.text, tuple(verified.values()), tuple(unverified))


def sign_note(text: str, signers: Sequence[Signer], *, others: Iterable[NoteSignature] = ()) -> bytes:
    """Sign a text with each signer, behind the signature lines it already has.

    Args:
        text: the text, its last LF included.
        signers: who signs; an older signature by the same key is replaced.
        others: signature lines to keep.

    Raises:
        ValueError: the text cannot be a note's.
    """
    signing = {(signer.name, signer.key_hash) for signer in signers}
    kept = [sig for sig in others if (sig.name, sig.key_hash) not in signing]
    new = [NoteSignature(signer.name, signer.key_hash, signer.sign(text.encode())) for signer in signers]
    return format_note(text, kept + new)


def cosigned_message(timestamp: int, text: str) -> bytes:
    """What a cosigner signs: the time it vouches for, in seconds since the Epoch, and the note's text.

    Raises:
        ValueError: the time is negative or later than ``MAX_TIMESTAMP``.
    """
    if not 0 <= timestamp <= MAX_TIMESTAMP:
        raise ValueError(f"{timestamp} is no time that can be cosigned")
    return f"cosignature/v1\ntime {timestamp}\n{text}".encode()


def check_by_one_of(
    text: str, sig: NoteSignature, verifiers: Sequence[Verifier], position: Position = NOWHERE
) -> VerifiedSignature:
    """Check one signature line with the keys whose name and key hash it gives.

    A key hash has 32 bits, and whoever wants two keys with the same one has them in seconds. The line is by the key
    that verifies it, and bad where none does.

    Raises:
        SignatureError: with ``NOTE_SIGNATURE``.
    """
    *others, last = verifiers
    for verifier in others:
        with contextlib.suppress(SignatureError):
            return check_signature_line(text, sig, verifier, position)
    return check_signature_line(text, sig, last, position)


def check_signature_line(
    text: str, sig: NoteSignature, verifier: Verifier, position: Position = NOWHERE
) -> VerifiedSignature:
    """Check one signature line with the key that it names; the caller has compared name and key hash.

    Raises:
        SignatureError: with ``NOTE_SIGNATURE``.
    """
    timestamp, message, signature = None, text.encode(), sig.signature
    try:
        if verifier.key_type is KeyType.COSIGNATURE:
            timestamp = int.from_bytes(signature[:_TIMESTAMP_LEN], "big")
            message, signature = cosigned_message(timestamp, text), signature[_TIMESTAMP_LEN:]
        check_signature(verifier.public_key, message, signature)
    except (SignatureError, ValueError) as error:
        reason = error.finding.message if isinstance(error, SignatureError) else str(error)
        raise SignatureError(
            Code.NOTE_SIGNATURE,
            f"the signature by {sig.name} is bad: {reason}",
            position=position,
            found=sig.signature.hex(),
        ) from None
    return VerifiedSignature(verifier, sig, timestamp)


def _readable(data: bytes, position: Position) -> str:
    if len(data) > MAX_NOTE:
        raise _malformed(f"{len(data)} bytes are more than {MAX_NOTE}", position)
    for start, cause in _SAVED_AS.items():
        if data.startswith(start):
            raise _resaved(f"the note is {cause}", position)
    if b"\r\n" in data:
        raise _resaved("the note's line endings were rewritten to CR LF", position)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is not UTF-8", position) from None
    control = _CONTROL.search(text)
    if control:
        raise _malformed(f"control character {ord(control[0]):#04x}", position)
    return text


def _parse_signature(line: str, position: Position) -> NoteSignature:
    name, _, spelling = line.removeprefix(_DASH).partition(" ")
    blob = _decode(spelling)
    if not line.startswith(_DASH) or not _is_key_name(name) or len(blob) <= _HASH_LEN:
        raise _malformed("a signature line is not a dash, a key name and a strict base64 signature", position, line)
    return NoteSignature(name, int.from_bytes(blob[:_HASH_LEN], "big"), blob[_HASH_LEN:])


def _resaved(message: str, position: Position) -> MalformedError:
    hint = "an editor, git or a transfer in text mode changed it: get the note again as it was written"
    return MalformedError(Code.NOTE_MALFORMED, message, position=position, hint=hint)


def _malformed(message: str, position: Position, found: str | None = None) -> MalformedError:
    shown = None if found is None else found[:200]
    return MalformedError(Code.NOTE_MALFORMED, message, position=position, found=shown)


def _is_key_name(name: str) -> bool:
    """Whether a text may be a key name: not empty, no Unicode white space, no plus sign."""
    return bool(name) and "+" not in name and not any(character.isspace() for character in name)


def _names(keys: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name}+{found:08x}" for name, found in keys) or "none"


def _encode(data: bytes) -> str:
    return strict_base64.encode(data).decode()


def _decode(spelling: str) -> bytes:
    """The bytes that a text is the strict base64 of; none when it is not that of anything."""
    try:
        return strict_base64.decode(spelling.encode())
    except ValueError:
        return b""

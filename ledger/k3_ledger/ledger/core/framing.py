"""Framing of one line of ``ledger.jsonl``: line to entry bytes and signature, and what went wrong when it is none.

A line is ``HEAD + E + TAIL``. ``E`` is the canonical JSON of the entry; ``TAIL`` is ``,"sig":"``, 88 base64 characters
and ``"}``. Both ends have constant length, so the signed bytes are a slice of the line and nothing is re-serialised in
order to verify. This module promises the frame only: that ``E`` is canonical JSON, that it fits its model and that the
signature is good is for others to check. How a file is cut into lines is in :mod:`k3_ledger.ledger.core.lines`.

Rules enforced here:

1. a line is at most ``MAX_LINE`` bytes long, its LF not counted;
2. it begins with ``HEAD`` and ends with a tail of ``TAIL_LEN`` bytes;
3. the 88 characters are the one strict spelling of 64 bytes: of the 16 spellings that lenient decoders take for the
   same signature, the one whose unused bits are zero.

Whatever breaks a rule raises :class:`MalformedError` with the code of its likely cause (an editor's byte order mark,
git's CRLF, a torn write that was appended to …) and the offset of the byte it is about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from k3_ledger.ledger.core import strict_base64
from k3_ledger.schemas import envelope
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

HEAD: Final = b'{"entry":'
"""First nine bytes of every line."""
TAIL_LEN: Final = 98
"""Bytes of ``,"sig":"`` + 88 base64 characters + ``"}``."""
SIGNATURE_LEN: Final = 64
"""Bytes of a raw Ed25519 signature."""
MAX_LINE: Final = envelope.MAX_LINE
"""Most bytes in a line, its LF not counted: tile entry bundles write lengths in 16 bits."""

BOM: Final = b"\xef\xbb\xbf"
"""UTF-8 byte order mark."""
UTF16_STARTS: Final = (b"\xff\xfe", b"\xfe\xff", b'{\0"\0', b'\0{\0"')
"""How a ledger begins after something rewrote it as UTF-16, with a byte order mark or without."""

_HEAD_LEN: Final = len(HEAD)
_SIG_MEMBER: Final = b',"sig":"'
_CLOSE: Final = b'"}'
_SPELLING: Final = slice(-(88 + len(_CLOSE)), -len(_CLOSE))
_NEXT_ENTRY: Final = HEAD + b"{"
"""Where a second line begins inside a glued one. No model has a member ``entry`` that holds an object."""
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TAIL_BYTES: Final = (
    *(bytes((byte,)) for byte in _SIG_MEMBER),
    *(_BASE64,) * 85,
    b"AQgw",  # the 86th character carries two bits of signature and four unused ones, which are zero
    b"=",
    b"=",
    *(bytes((byte,)) for byte in _CLOSE),
)
"""Which bytes may stand at each of the 98 places of a tail."""


@dataclass(frozen=True, slots=True)
class Line:
    """One framed line.

    Attributes:
        entry: the entry's bytes, still unparsed: what is signed (behind a prefix), and what identity is the hash of.
        sig: the raw signature, 64 bytes.
        raw: the whole line without its LF: what the Merkle tree commits to.
    """

    entry: bytes
    sig: bytes
    raw: bytes


def split_line(raw: bytes) -> tuple[bytes, bytes] | None:
    """Entry bytes and raw signature of one line (without its LF); ``None`` where :func:`parse_line` has an error.

    Cost: one copy and one base64 round trip.
    """
    # HEAD holds no comma: it cannot reach into the tail.
    if raw.startswith(HEAD) and raw.endswith(_CLOSE) and raw.startswith(_SIG_MEMBER, -TAIL_LEN):
        try:
            sig = strict_base64.decode(raw[_SPELLING])
        except ValueError:
            return None
        if len(sig) == SIGNATURE_LEN and len(raw) <= MAX_LINE:
            return raw[_HEAD_LEN:-TAIL_LEN], sig
    return None


def parse_line(raw: bytes, position: Position = NOWHERE) -> Line:
    """Take one line (without its LF) apart.

    Args:
        raw: the line without its LF.
        position: where the line begins; used in errors only.

    Raises:
        MalformedError: the line breaks a rule of this module; code and byte offset name the cause.
    """
    parts = split_line(raw)
    if parts is None:
        raise explain_line(raw, position)
    return Line(*parts, raw)


def format_line(entry: bytes, sig: bytes) -> bytes:
    """Put one line together, without its LF. The inverse of :func:`parse_line`.

    Raises:
        ValueError: ``sig`` is not 64 bytes.
        MalformedError: the line would be longer than ``MAX_LINE``.
    """
    if len(sig) != SIGNATURE_LEN:
        raise ValueError(f"a signature is {SIGNATURE_LEN} bytes, not {len(sig)}")
    raw = b"".join((HEAD, entry, _SIG_MEMBER, strict_base64.encode(sig), _CLOSE))
    if len(raw) > MAX_LINE:
        raise explain_line(raw)
    return raw


def check_not_glued(raw: bytes, position: Position = NOWHERE) -> None:
    """Refuse a line that holds the remains of a write that never finished.

    A torn write followed by an append leaves a line whose head and tail are both right, so :func:`parse_line` takes
    it; its entry bytes are then never valid JSON. Whoever finds that asks here for the cause before reporting it.

    Raises:
        MalformedError: ``GLUED_LINES``, at the byte where a second entry begins, or ``NUL_BYTES``, at the first one.
    """
    remains = _remains(raw)
    if remains is not None:
        code, at, message = remains
        raise MalformedError(code, message, position=_at(position, at))


def tail_prefix(data: bytes) -> int:
    """How many leading bytes of ``data`` could be the beginning of a tail (0 to ``TAIL_LEN``)."""
    at = 0
    for byte, allowed in zip(data, _TAIL_BYTES, strict=False):
        if byte not in allowed:
            break
        at += 1
    return at


def show(data: bytes, *, limit: int = 40) -> str:
    r"""Bytes as readable text, shortened: ``{"a":1}``, ``\x00\xff``, or the first ``limit`` bytes and a count."""
    text = repr(data[:limit])[2:-1]
    return text if len(data) <= limit else f"{text}… ({len(data)} bytes)"


def explain_line(raw: bytes, position: Position = NOWHERE) -> MalformedError:
    """The error that names the likeliest cause why :func:`parse_line` refuses ``raw``, most specific first."""
    expected = found = None
    trimmed = len(raw.rstrip(b" \t"))
    if not raw:
        code, at, message = Code.BLANK_LINE, 0, "blank line"
    elif len(raw) > MAX_LINE:
        code, at, message = Code.LINE_TOO_LONG, MAX_LINE, f"the line is longer than {MAX_LINE} bytes"
    elif raw.startswith(UTF16_STARTS):
        code, at, message = Code.UTF16, 0, "the line is UTF-16 text"
    elif raw.startswith(BOM):
        code, at, message = Code.BOM, 0, "a UTF-8 byte order mark stands in front of the line"
    elif (remains := _remains(raw)) is not None:
        code, at, message = remains
    elif raw.endswith(b"\r"):
        code, at, message = Code.CRLF, len(raw) - 1, "line endings were rewritten (by git's autocrlf or an editor)"
        expected, found = "LF", "CR LF"
    elif trimmed < len(raw):
        code, at, message = Code.TRAILING_SPACE, trimmed, f"{len(raw) - trimmed} spaces or tabs follow the entry"
    elif not raw.startswith(HEAD):
        code, at, message = Code.LINE_HEAD, _first_difference(raw, HEAD), "the line does not begin like an entry"
        expected, found = show(HEAD), show(raw[:_HEAD_LEN])
    else:
        return _explain_tail(raw, position)
    return MalformedError(code, message, position=_at(position, at), expected=expected, found=found)


def _remains(raw: bytes) -> tuple[Code, int, str] | None:
    """Code, offset and message for what an unfinished write left inside a line."""
    glued = raw.find(_NEXT_ENTRY, 1)
    if glued != -1 and raw.startswith(HEAD[:glued]):
        return Code.GLUED_LINES, glued, f"a second entry begins {glued} bytes after the start of this line"
    nul = raw.find(0)
    if nul != -1:
        return Code.NUL_BYTES, nul, f"the line holds {raw.count(0)} NUL bytes"
    return None


def _explain_tail(raw: bytes, position: Position) -> MalformedError:
    start = max(len(raw) - TAIL_LEN, _HEAD_LEN)
    tail = raw[start:]
    if len(tail) < TAIL_LEN or not tail.startswith(_SIG_MEMBER) or not tail.endswith(_CLOSE):
        return MalformedError(
            Code.LINE_TAIL,
            f"the last {TAIL_LEN} bytes of the line are not a signature member",
            position=_at(position, start),
            expected=f"{show(_SIG_MEMBER)}…{show(_CLOSE)}",
            found=show(tail, limit=TAIL_LEN),
        )
    return MalformedError(
        Code.SIGNATURE_BASE64,
        "the signature is not the strict base64 of 64 bytes",
        position=_at(position, start + tail_prefix(tail)),
        expected="85 base64 characters, then one of A Q g w, then ==",
        found=show(tail[len(_SIG_MEMBER) : -len(_CLOSE)], limit=TAIL_LEN),
    )


def _at(position: Position, offset: int) -> Position:
    """The place ``offset`` bytes behind ``position``, where that is known."""
    if position.byte_offset is None:
        return position
    return replace(position, byte_offset=position.byte_offset + offset)


def _first_difference(data: bytes, expected: bytes) -> int:
    """Index of the first byte that differs, or the length of the shorter."""
    pairs = enumerate(zip(data, expected, strict=False))
    return next((at for at, (got, want) in pairs if got != want), min(len(data), len(expected)))

"""Says what kind of file some bytes look like, so that an error can name what a user gave in the place of another.

Nothing is decided by it but words: what a file is taken for is said by the command, and whether it is one by the parser
of that kind. It looks at the beginning of a file alone and never repeats any of it: a private key may stand there.
"""

from __future__ import annotations

import enum
import re
from typing import Final

ENOUGH: Final = 1 << 16
"""Bytes of a file's beginning that are looked at: a whole bundle.json, which says at its end what it is."""


class Kind(enum.StrEnum):
    """Kinds of files that people mix up, in the words of an error: "this is …"."""

    PRIVATE_KEY = "a private key (PEM)"
    ENCRYPTED_KEY = "an encrypted private key (PEM)"
    OTHER_PRIVATE_KEY = "a private key that is not in PKCS#8 form"
    PUBLIC_KEY = "a public key (PEM)"
    CERTIFICATE = "a certificate (PEM)"
    OTHER_PEM = "a PEM file with neither a key nor a certificate"
    PROOF = "a proof file"
    LOG = "the log of a ledger (ledger.jsonl)"
    BUNDLE_JSON = "the bundle.json of a measurement bundle"
    BUNDLE_TAR = "a tar of a measurement bundle"
    OFFLINE_BUNDLE = "an offline bundle (tar)"
    TAR = "a tar archive"
    CHECKPOINT = "a signed tree head (a checkpoint)"
    NOTE = "a signed note"
    WITNESS_REQUEST = "a request to a witness"
    MEMORY = "a memory of a verified head"
    PROPOSAL = "a proposal for root keys to endorse"
    TIMESTAMP = "a timestamp token"
    DER = "DER (a binary certificate, key or timestamp)"
    GGUF = "a GGUF model"
    SQLITE = "an SQLite database"
    GZIP = "a gzip file"
    XZ = "an xz file"
    ZSTD = "a zstd file"
    BZIP2 = "a bzip2 file"
    ZIP = "a zip file"
    TOML = "TOML"
    JSON = "JSON"
    HTML = "HTML or XML"
    UTF16 = "text in UTF-16"
    EMPTY = "an empty file"
    BLANK = "a file of blanks or NUL bytes"
    TEXT = "text of no known kind"
    BINARY = "binary data of no known kind"


UNPACKED_WITH: Final = {
    Kind.GZIP: "gunzip",
    Kind.XZ: "unxz",
    Kind.ZSTD: "unzstd",
    Kind.BZIP2: "bunzip2",
    Kind.ZIP: "unzip",
}
"""What unpacks a compressed file. Nothing is unpacked here: it could be without end."""
KEYS: Final = frozenset({Kind.PRIVATE_KEY, Kind.ENCRYPTED_KEY, Kind.OTHER_PRIVATE_KEY})
"""Files whose owner would not have them shown about."""
_MAGIC: Final = (
    (b"\x1f\x8b", Kind.GZIP),
    (b"\xfd7zXZ\x00", Kind.XZ),
    (b"\x28\xb5\x2f\xfd", Kind.ZSTD),
    (b"BZh", Kind.BZIP2),
    (b"PK\x03\x04", Kind.ZIP),
    (b"GGUF", Kind.GGUF),
    (b"SQLite format 3\x00", Kind.SQLITE),
    (b"\xff\xfe", Kind.UTF16),
    (b"\xfe\xff", Kind.UTF16),
    (b'{"entry":', Kind.LOG),
    (b'{"checkpoint":', Kind.PROOF),
    (b'{"consistency":', Kind.PROOF),
)
_TAR_MAGIC_AT: Final = 257
_PEM: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----")
_PREAMBLE: Final = 2048
"""Bytes within which a PEM block begins; some tools write a few lines about it in front."""
_LABELS: Final = {
    b"PRIVATE KEY": Kind.PRIVATE_KEY,
    b"ENCRYPTED PRIVATE KEY": Kind.ENCRYPTED_KEY,
    b"PUBLIC KEY": Kind.PUBLIC_KEY,
    b"CERTIFICATE": Kind.CERTIFICATE,
}
_FORMS: Final = (
    (re.compile(rb"\Aold [0-9]"), Kind.WITNESS_REQUEST),
    (re.compile(rb"\A[^\n]+\n[0-9]{1,20}\n[A-Za-z0-9+/]{43}=\n"), Kind.CHECKPOINT),
    (re.compile("\n\n— ".encode()), Kind.NOTE),
)
_TOML: Final = re.compile(rb"""\[\[?[A-Za-z0-9_."' -]+\]\]?\s*(?:#.*)?|[A-Za-z0-9_."'-]+\s*=.*""")
_TOKEN_INFO: Final = bytes.fromhex("060b2a864886f70d0109100104")
"""The object identifier of what a timestamp token holds (RFC 3161, 2.4.2), in DER."""
_ENTRY_END: Final = re.compile(rb'\},"sig":"[A-Za-z0-9+/]{86}=="\}')
"""How an entry's line ends: a log whose beginning is damaged is one still."""
_HEADER: Final = re.compile(rb"\[\[?[ \t]*(?!(?:true|false|null)\b)[A-Za-z_]|\[\[\s*(?:#|\Z)")
"""How a TOML table begins, and nothing in JSON: whatever is wrong with the rest of the line is TOML's to say. Two
brackets alone begin every list of tables that is written here, and hardly a document of JSON."""
_SAYS: Final = (
    (b'"k3-ledger/bundle/1"', Kind.BUNDLE_JSON),
    (b'"k3-ledger/memory/', Kind.MEMORY),
    (b'"k3-ledger/proposal/', Kind.PROPOSAL),
)

_OF_A_MEMORY: Final = (b'"k3-ledger/memory/', b'"unmoved_since":', b'"enrolments":', b'"note":')
"""What a memory says; any two are enough, so that damage in one place hides none."""


def looks_like(start: bytes) -> Kind:
    """What a file that begins so looks like; never an exception, whatever the bytes.

    Args:
        start: its first :data:`ENOUGH` bytes, or all of a shorter file.
    """
    if not start:
        return Kind.EMPTY
    if start[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return _tar(start.partition(b"\0")[0])
    begun = next((kind for magic, kind in _MAGIC if start.startswith(magic)), None)
    if begun is None and sum(words in start for words in _OF_A_MEMORY) > 1 and not _ENTRY_END.search(start):
        begun = Kind.MEMORY
    if begun is not None:
        return begun
    text = start.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").lstrip()
    if not text.strip(b"\0 \t\r\n"):
        return Kind.BLANK
    if _is_binary(text):
        return _binary(start)
    kind = _text(text)
    pem = _PEM.search(text, 0, _PREAMBLE)
    return _pem(pem[1]) if pem is not None and (kind is Kind.TEXT or not pem.start()) else kind


def _pem(label: bytes) -> Kind:
    other = Kind.OTHER_PRIVATE_KEY if label.endswith(b"PRIVATE KEY") else Kind.OTHER_PEM
    return _LABELS.get(label, other)


def _tar(first: bytes) -> Kind:
    """Which tar it is, by the name of its first file."""
    name = first.rpartition(b"/")[2]
    return {b"bundle.json": Kind.BUNDLE_TAR, b"pack.json": Kind.OFFLINE_BUNDLE}.get(name, Kind.TAR)


def _is_binary(text: bytes) -> bool:
    """Whether it is no UTF-8 text; a letter that the end cuts in two is none of its faults."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start < len(text) - 3
    return b"\0" in text


def _binary(start: bytes) -> Kind:
    if start[1:2] == b"\0" or start[:1] == b"\0":
        halves = start[::2].count(0), start[1::2].count(0)
        if max(halves) > len(start) // 3 and not min(halves):
            return Kind.UTF16
    if start.startswith((b"\x30\x81", b"\x30\x82", b"\x30\x83")):
        return Kind.TIMESTAMP if _TOKEN_INFO in start else Kind.DER
    return Kind.BINARY


def _text(text: bytes) -> Kind:
    if _ENTRY_END.search(text):
        return Kind.LOG
    if text.startswith(b"{"):
        return next((kind for words, kind in _SAYS if words in text), Kind.JSON)
    for form, kind in _FORMS:
        if form.search(text):
            return kind
    lines = (line.strip() for line in text.split(b"\n"))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    if _TOML.fullmatch(first):
        return Kind.TOML
    if text.startswith(b"["):
        return Kind.TOML if _HEADER.match(text) else Kind.JSON
    return Kind.HTML if text.startswith(b"<") else Kind.TEXT

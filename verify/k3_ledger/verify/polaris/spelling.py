"""The bytes that upstream hashed: Python's own JSON spelling of a parsed value.

Upstream reads a result into Python objects, writes it with ``json.dumps(value, sort_keys=True)`` and hashes that
text, so a literal such as ``1.50`` or ``1E5`` was hashed as Python's shortest ``repr`` of the double it denotes
(``1.5``, ``100000.0``). To reproduce those bytes exactly, this module takes the same road: it is the one place of the
audit where a number becomes a binary float, and what comes out is only ever hashed, never compared as a figure.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.verify.polaris.foreign_json import Number

if TYPE_CHECKING:
    from k3_ledger.verify.polaris.foreign_json import JsonTree

MAX_INTEGER_DIGITS: Final = 4000
"""Longest integer whose spelling is reproduced; Python itself refuses more than 4,300 digits."""

_HEX = re.compile(r"(?:sha256:)?[0-9A-Fa-f]{7,}")
_INTEGER = re.compile(r"-?[0-9]+")


def python_json(tree: JsonTree) -> bytes | None:
    """``json.dumps(value, sort_keys=True)`` of a value as Python's reader would hold it.

    Returns None for a value that holds an integer which Python would refuse.
    """
    try:
        return json.dumps(_python(tree, None), sort_keys=True).encode()
    except _UnspellableError:
        return None


def rounded_json(tree: JsonTree, places: int = 6) -> bytes | None:
    """The signed form: sorted keys, no spaces, UTF-8, every float rounded to ``places`` before it is written.

    Returns None for a value that holds an integer which Python would refuse.
    """
    try:
        value = _python(tree, places)
    except _UnspellableError:
        return None
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def rounded_text(number: Number, places: int = 6) -> str:
    """How ``number`` is spelled in the signed form."""
    return number.text if _INTEGER.fullmatch(number.text) else json.dumps(round(float(number.text), places))


class _UnspellableError(Exception):
    """An integer too long for Python."""


def _python(tree: JsonTree, places: int | None) -> Any:
    if isinstance(tree, dict):
        return {key: _python(value, places) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_python(value, places) for value in tree]
    if not isinstance(tree, Number):
        return tree
    if _INTEGER.fullmatch(tree.text):
        if len(tree.text) > MAX_INTEGER_DIGITS:
            raise _UnspellableError
        return int(tree.text)
    value = float(tree.text)
    return value if places is None else round(value, places)


def sha256_hex(data: bytes | str) -> str:
    """Lower-case hexadecimal SHA-256 of bytes, or of a text's UTF-8."""
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode(errors="surrogatepass")).hexdigest()


def plain(text: str) -> str:
    """A digest or a commit in its usual spelling, which is lower case; any other text as it is."""
    return text.lower() if _HEX.fullmatch(text) else text


def decode_base64(text: str) -> bytes | None:
    """Bytes of standard base64 in its one spelling; None for anything else."""
    try:
        raw = binascii.a2b_base64(text.encode(errors="surrogatepass"), strict_mode=True)
    except binascii.Error:
        return None
    return raw if binascii.b2a_base64(raw, newline=False).decode() == text else None

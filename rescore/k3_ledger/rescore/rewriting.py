"""Raises pins inside a file that people keep: the bytes of what is raised change, and no others.

A TOML library that keeps layout finds where each field of a pin stands: every one is set to a mark, and the file with
the marks taken out again must be the file, byte for byte. The new text is then put where the marks were. What comes out
is read once more, and has to say what was meant; a file that resists any of this is refused and left as it is.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.pins import PinRecord, read_pins
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.moments import format_time
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

WRITTEN: Final = ("value", "source", "commit", "time")
"""Fields that a raised pin has anew: its value, and where that was measured. One that is not known goes."""

_HEAD_OF_LINE: Final = re.compile(r"[ \t]*")
_INLINE_KEY: Final = re.compile(r"([ \t]*,)?[^,{]*\Z")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A pins file as it should become.

    Attributes:
        data: its bytes; the same ones when nothing is raised.
        raised: the pins that are higher in it than they were, as it has them, in its order.
    """

    data: bytes
    raised: tuple[PinRecord, ...]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a pin that is raised.

    Attributes:
        old: the text of its value, as it stands in the file.
        new: the text it becomes; None when it goes.
        more: fields to add behind it, as ``key = value``.
        inline: True inside of ``{ … }``.
    """

    old: str
    new: str | None
    more: tuple[str, ...]
    inline: bool


def rewrite_pins(data: bytes, updates: Mapping[str, PinRecord], *, source: str = "pins") -> Rewritten:
    """Raise pins of a file, and leave all else in it as it was: comments, blanks, line ends, spelling.

    Args:
        data: a file that :func:`~k3_ledger.rescore.pins.read_pins` accepts.
        updates: what pins become, by slot; ``value``, ``source``, ``commit`` and ``time`` count. What is not above the
            value in the file changes nothing: no pin is lowered.
        source: name of the file, for messages.

    Raises:
        RescoreError: as ``read_pins``; ``K3L-PIN-UNWRITTEN`` when the file cannot be changed in place.
    """
    pins = read_pins(data, source=source)
    meant = [
        replace(pin, **{name: getattr(updates[pin.slot], name) for name in WRITTEN})
        if pin.slot in updates and updates[pin.slot].value > pin.value
        else pin
        for pin in pins
    ]
    if meant == pins:
        return Rewritten(data, ())
    try:
        changed = _replaced(data.decode("utf-8-sig"), pins, meant).encode()
        found = read_pins(changed, source=source)
    except (TOMLKitError, RescoreError) as error:
        raise _unwritten(source, str(error)) from None
    if data.startswith(BOM_UTF8):
        changed = BOM_UTF8 + changed
    if _plain(found) != _plain(meant):
        raise _unwritten(source, "it would say something else than what was meant")
    return Rewritten(changed, tuple(pin for pin, old in zip(found, pins, strict=True) if pin.value > old.value))


def _replaced(text: str, pins: list[PinRecord], meant: list[PinRecord]) -> str:
    """The text with the values of pins replaced where they stand."""
    document: Any = tomlkit.parse(text)
    mark = "?"
    while mark in text:
        mark += "?"
    fields: list[_Field] = []
    for table, pin, wanted in zip(document["pin"], pins, meant, strict=True):
        if wanted == pin:
            continue
        texts = {key: table[key].as_string() for key in table}
        for key, field in zip(texts, _fields(texts, pin, wanted, isinstance(table, InlineTable)), strict=True):
            table[key] = tomlkit.value(f'"{mark}{len(fields)}{mark}"')
            fields.append(field)
    marked = re.split(rf'"{re.escape(mark)}([0-9]+){re.escape(mark)}"', document.as_string())
    found = [fields[int(number)] for number in marked[1::2]]
    between = marked[2::2]
    whole = marked[0] + "".join(field.old + after for field, after in zip(found, between, strict=True))
    if whole != text:
        raise TOMLKitError("its layout is not kept")
    out = marked[0]
    for field, after in zip(found, between, strict=True):
        out = _put(out, field, after)
    return out


def _fields(texts: dict[str, str], pin: PinRecord, wanted: PinRecord, inline: bool) -> list[_Field]:
    """What becomes of each field of a pin, in the order that they stand in."""
    new: dict[str, str | None] = {key: _text(wanted, key, texts.get(key)) for key in _changed(pin, wanted)}
    kept = [key for key in texts if new.get(key, texts[key]) is not None]
    more = tuple(f"{key} = {text}" for key, text in new.items() if key not in texts and text is not None)
    return [_Field(text, new.get(key, text), more if key == kept[-1] else (), inline) for key, text in texts.items()]


def _changed(pin: PinRecord, wanted: PinRecord) -> list[str]:
    return [name for name in WRITTEN if getattr(pin, name) != getattr(wanted, name)]


def _text(pin: PinRecord, key: str, old: str | None) -> str | None:
    """A field as TOML; a value in quotes where it stood in quotes, None for what is not known."""
    value = getattr(pin, key)
    if value is None:
        return None
    if key == "time":
        return format_time(int(value.timestamp()))
    if key == "value":
        quoted = old is not None and old[0] in "\"'"
        return f'"{format_exact(value)}"' if quoted else format_exact(value)
    return f'"{value}"'


def _put(out: str, field: _Field, after: str) -> str:
    """``out``, which ends where a field's value stood, with what becomes of it, and what followed it."""
    if field.new is not None and field.inline:
        return out + ", ".join((field.new, *field.more)) + after
    if field.new is not None:
        indent = _HEAD_OF_LINE.match(out, out.rfind("\n") + 1)
        rest, end, following = after.partition("\n")
        ending = "\r\n" if (rest.endswith("\r") or (not end and "\r\n" in out)) else "\n"
        lines = "".join(f"{indent and indent[0]}{line}{ending}" for line in field.more)
        if field.more and not end:  # the last line of a file that does not end in a line's end: nor does it now
            return out + field.new + rest + ending + lines.removesuffix(ending)
        return out + field.new + rest + end + lines + following
    if not field.inline:  # its line goes with it, and the comment on that
        return out[: out.rfind("\n") + 1] + after.partition("\n")[2]
    key = _INLINE_KEY.search(out)
    assert key is not None
    return out[: key.start()] + (after if key[1] else after.lstrip(" \t").removeprefix(","))


def _plain(pins: list[PinRecord]) -> list[PinRecord]:
    """Pins without where they stand, and their times in whole seconds, as they are written."""
    return [
        replace(pin, position=NOWHERE, time=None if pin.time is None else pin.time.replace(microsecond=0))
        for pin in pins
    ]


def _unwritten(source: str, why: str) -> RescoreError:
    message = f"the pins file cannot be changed in place: {why}"[:300]
    return RescoreError(Code.PIN_UNWRITTEN, message, position=Position(source=source))

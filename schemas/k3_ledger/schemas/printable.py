"""Text from elsewhere, made safe to print: whatever could move a cursor or turn the reading order is escaped."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with every character that is not printable written as an escape, such as that of a terminal."""
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()

"""What stood when: values for every position that a judgement may have been sealed at, kept once for all of them.

What a run is held against depends on what was superseded by the position that its verdict stands at. Two positions
differ in little, mostly in nothing, so a value is kept with the span of positions it holds for, and whoever asks for
one position learns for which others the answer is the same.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from k3_ledger.rescore.inputs import Figure

HEAD: Final = 1 << 62
"""A position behind every entry: what stands there stands for good."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class ForgottenError(Exception):
    """Something is asked of what was measured so long ago that it is no longer kept."""


class Asked:
    """The position that is asked about, and the span ``(after, until]`` of those with all the same answers so far."""

    __slots__ = ("after", "at", "until")

    def __init__(self) -> None:
        self.at = self.until = HEAD
        self.after = -1

    def about(self, at: int) -> None:
        """Begin to ask about a position."""
        self.at, self.after, self.until = at, -1, HEAD

    def up_to(self, until: int) -> None:
        """What is set now holds for every position up to this one."""
        self.at, self.after, self.until = until, -1, until

    def narrow(self, after: int, until: int) -> None:
        """An answer holds for these positions, of which the one that is asked about is one."""
        self.after, self.until = max(self.after, after), min(self.until, until)


class Gone:
    """Identities that count for nothing at the position that is asked about."""

    def __init__(self, asked: Asked, gaps: Mapping[str, tuple[tuple[int, int], ...]]) -> None:
        self._asked, self._gaps = asked, gaps

    def __contains__(self, identity: object) -> bool:
        gaps = self._gaps.get(identity)  # type: ignore[call-overload]
        if gaps is None:
            return False
        at, behind, until = self._asked.at, -1, HEAD
        for start, end in gaps:
            if start < at <= end:
                self._asked.narrow(start, end)
                return True
            if end < at:
                behind = end
            else:
                until = min(until, start)
        self._asked.narrow(behind, until)
        return False


class Spans(Generic[Key, Value]):
    """A mapping whose values hold for spans of positions: it answers for the one that is asked about.

    Args:
        asked: what is asked about, and what is narrowed by answers.
        kept: how many keys are kept, the newest; None keeps all.
    """

    def __init__(self, asked: Asked, kept: int | None = None) -> None:
        self._asked = asked
        self._kept = kept
        self._spans: dict[Key, tuple[list[int], list[Value | None]]] = {}
        self._over: set[int] = set()

    def __len__(self) -> int:
        return len(self._spans)

    def get(self, key: Key, default: Any = None) -> Any:
        """The value at the position that is asked about.

        Raises:
            ForgottenError: the key is no longer kept.
        """
        found = self._spans.get(key)
        if found is None:
            if self._over and hash(key) in self._over:
                raise ForgottenError
            return default
        ends, values = found
        number = bisect_left(ends, self._asked.at)
        self._asked.narrow(ends[number - 1] if number else -1, ends[number])
        value = values[number]
        return default if value is None else value

    def __setitem__(self, key: Key, value: Value) -> None:
        """Let a value hold for the span that the answers so far hold for."""
        found = self._spans.get(key)
        if found is None:
            if self._over and hash(key) in self._over:
                raise ForgottenError
            none: list[Value | None] = [None]
            found = self._spans[key] = [HEAD], none
            if self._kept is not None and len(self._spans) > self._kept:
                oldest = next(iter(self._spans))
                del self._spans[oldest]
                self._over.add(hash(oldest))
        ends, values = found
        after, until = self._asked.after, self._asked.until
        first, last = bisect_left(ends, after + 1), bisect_left(ends, until)
        new_ends: list[int] = [until]
        new_values: list[Value | None] = [value]
        if after >= 0 and (ends[first - 1] if first else -1) < after:
            if values[first] != value:
                new_ends, new_values = [after, until], [values[first], value]
        elif first and values[first - 1] == value:
            first -= 1  # one span with the one in front
        if ends[last] == until:
            last += 1
        if last < len(ends) and values[last] == value:
            del new_ends[-1], new_values[-1]  # and with the one behind
        ends[first:last], values[first:last] = new_ends, new_values


class Pins(Spans[str, "Figure"]):
    """Pins by slot, as a :class:`~k3_ledger.rescore.replay.Gathering` keeps them."""

    def __or__(self, more: Mapping[str, Figure]) -> Pins:
        for slot, figure in more.items():
            self[slot] = figure
        return self

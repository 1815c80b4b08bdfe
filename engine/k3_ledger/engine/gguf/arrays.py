"""Arrays of a header as they lie in the file: no object for each element, so that a header takes what it is long.

Both kinds are sequences, compare like tuples, and are shown by their first few elements.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, SupportsIndex, TypeVar, overload

if TYPE_CHECKING:
    from array import array

    import numpy as np
    import numpy.typing as npt

_BLOCK: Final = 4096
"""Elements that are made into objects at once while numbers are walked."""
_SHOWN: Final = 16
_PREFIX: Final = 8
"""Bytes of the length in front of a text."""
T_co = TypeVar("T_co", bound=int | float | str, covariant=True)


class Array(Sequence[T_co]):
    """What both kinds have in common."""

    __hash__ = None  # type: ignore[assignment] # no key is made of one

    @abstractmethod
    def at(self, index: int) -> T_co:
        """One element; ``index`` is not negative."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> T_co | tuple[T_co, ...]:
        places = range(len(self))[index]
        return tuple(map(self.at, places)) if isinstance(places, range) else self.at(places)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Array | tuple):
            return NotImplemented
        return len(self) == len(other) and all(type(a) is type(b) and a == b for a, b in zip(self, other, strict=True))

    def __repr__(self) -> str:
        shown = repr(tuple(itertools.islice(self, _SHOWN)))
        return shown if len(self) <= _SHOWN else f"{shown[:-1]}, … {len(self)} in all)"


class Numbers(Array[int | float]):
    """Integers, floats or booleans of one type."""

    def __init__(self, values: npt.NDArray[np.generic]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def at(self, index: int) -> int | float:
        """One element as Python has it."""
        value: int | float = self._values[index].item()
        return value

    def __iter__(self) -> Iterator[int | float]:
        for start in range(0, len(self), _BLOCK):
            yield from self._values[start : start + _BLOCK].tolist()


class Texts(Array[str]):
    """Texts, each behind its length, which were found to be UTF-8.

    Args:
        raw: the elements as they lie in the file.
        starts: where each begins, its length included.
    """

    def __init__(self, raw: bytes, starts: array[int]) -> None:
        self._raw = raw
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    def at(self, index: int) -> str:
        """One element."""
        start = self._starts[index] + _PREFIX
        end = self._starts[index + 1] if index + 1 < len(self._starts) else len(self._raw)
        return self._raw[start:end].decode()

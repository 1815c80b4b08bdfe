"""Rows of logits with what must be known about them before they may be compared."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[np.float64]
Way = Literal["prefill", "decode"]


def ids_text(prompts: Sequence[Sequence[int]]) -> bytes:
    """Token ids as text: decimal, comma-separated, LF after each prompt."""
    return "".join(",".join(map(str, ids)) + "\n" for ids in prompts).encode()


def ids_digest(prompts: Sequence[Sequence[int]]) -> str:
    """Lower-case hex SHA-256 of :func:`ids_text`, as a receipt's ``parity.prompt_sha256``."""
    return hashlib.sha256(ids_text(prompts)).hexdigest()


@dataclass(frozen=True)
class Rows:
    """Next-token values of one engine after each of the last ``len(values)`` tokens of one prompt.

    Attributes:
        prompt_sha256: digest of the ids that the engine says it took (:func:`ids_digest` of the one prompt).
        processing: ``raw``, or ``processed`` when a temperature, a penalty or a filter was applied.
        values: logits or log-probabilities, ``[rows, vocabulary]``; a missing id is NaN, never a made-up number.
    """

    prompt_sha256: str
    processing: Literal["raw", "processed"]
    values: Array


class LogitSource(Protocol):
    """An engine that can be graded or graded against."""

    @property
    def name(self) -> str:
        """The engine."""
        ...

    @property
    def version(self) -> str:
        """Its version, as it reports it."""
        ...

    @property
    def independent(self) -> bool:
        """False when it is this project's own code."""
        ...

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        """Values after each of the last ``count`` tokens of ``ids``.

        ``prefill`` takes all ids as one prompt; ``decode`` takes all but the last ``count`` as a prompt and then each
        of those as a step of its own.
        """
        ...

"""Names of what is pinned: a track is what can be compared with itself, a slot is a track and a role on it.

A slot is written ``role:metric@context/model/quant/node``, with ``-`` for what does not apply:
``frontier:decode@131072/Kimi-K3/UD-IQ1_S/h200x8``. Conditions that are not the usual ones come last:
``frontier:decode@131072/Kimi-K3/UD-IQ1_S/h200x8/batch:64/processes:8``. One spelling each: parsing formats again and
compares.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

Role: TypeAlias = Literal["frontier", "reference", "guard"]
"""``frontier``: best verified value of this project's own; ``reference``: the other engine's; ``guard``: the value a
guarded metric must not fall below."""

ABSENT: Final = "-"
TOKEN: Final = "token"  # noqa: S105 - a unit
UNITS: Final[Mapping[str, str]] = {
    "append": "entry", "decode-entry": "entry", "group": "entry", "load": "start", "ping": "request",
    "rescore": "receipt", "start-up": "start", "verify": "receipt",
}  # fmt: skip
"""What the metrics of this program itself are counted in; every other metric is in tokens unless its track says so."""
BESIDE: Final = frozenset({"load", "ping"})
"""Metrics that are noted beside a run: neither scored nor raced for."""
_NAME: Final = r"[^/:@\s]+"
_SLOT: Final = re.compile(
    rf"([a-z]+):([A-Za-z0-9._+-]+)@(-|0|[1-9][0-9]{{0,15}})/({_NAME})/({_NAME})/({_NAME})((?:/[a-z]+:{_NAME})*)"
)
_CONDITIONS: Final[Mapping[str, re.Pattern[str]]] = {
    "batch": re.compile("[1-9][0-9]{0,15}"),
    "cache": re.compile("cold|warm"),
    "inputs": re.compile("fresh|repeated"),
    "processes": re.compile("[1-9][0-9]{0,15}"),
    "unit": re.compile("[A-Za-z0-9][A-Za-z0-9._+-]*"),
}
"""What a figure was measured under, in the order it is written."""


_ESCAPES: Final[Mapping[str, str]] = {"/": "+2F", ":": "+3A", "@": "+40", "+": "+2B"}
"""How a name spells what would part a slot; a plus sign alone where it could be taken for one of these."""
_PARTING: Final = re.compile(r"[/:@]|\+(?=2B|2F|3A|40)")
_ESCAPED: Final = re.compile(r"\+(?:2B|2F|3A|40)")
MOST_SPELLED: Final = 160
"""Characters of a track that a rule scores: an entry has 200 for a slot, its role and the guarded metric among them."""


def _spell(name: str) -> str:
    """A name as it stands in a slot, so that no two tracks are spelled alike."""
    return _PARTING.sub(lambda match: _ESCAPES[match[0]], name)


def _unspell(text: str) -> str:
    """The name that is spelled so."""
    return _ESCAPED.sub(lambda match: chr(int(match[0][1:], 16)), text)


def conditions(
    metric: str, *, unit: str, batch: int, processes: int, cache: str, inputs: str
) -> tuple[tuple[str, str], ...]:
    """Conditions as a track holds them: those that are not the usual ones of the metric."""
    given = {"batch": str(batch), "cache": cache, "inputs": inputs, "processes": str(processes), "unit": unit}
    usual = _usual(metric, unit)
    return tuple((name, value) for name, value in given.items() if value != usual[name])


def _usual(metric: str, unit: str) -> dict[str, str]:
    # What is no token is done on the same input by nature: a ledger is verified again and again.
    inputs = "fresh" if unit == TOKEN else "repeated"
    return {"batch": "1", "cache": "none", "inputs": inputs, "processes": "1", "unit": UNITS.get(metric, TOKEN)}


@dataclass(frozen=True, slots=True)
class Track:
    """What a value may be compared with: the same metric, context, model, quantisation and node, measured alike.

    Attributes:
        metric: ``decode``, ``prefill`` …
        context: tokens in front of the timed region, or those that prefill does; None where the metric has none.
        model: name of the weights; ``-`` where no model takes part.
        quant: quantisation of the weights, or ``-``.
        node: name of the machine.
        conditions: (name, value) of what is not usual, as :func:`conditions` gives them. Usual is one sequence, by one
            process, with no cache, on fresh inputs, in tokens; for what is not counted in tokens, on repeated inputs.
    """

    metric: str
    context: int | None
    model: str
    quant: str
    node: str
    conditions: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        context = ABSENT if self.context is None else self.context
        place = f"{_spell(self.metric)}@{context}/{_spell(self.model)}/{_spell(self.quant)}/{_spell(self.node)}"
        return "/".join([place, *(f"{name}:{_spell(value)}" for name, value in self.conditions)])

    @property
    def short(self) -> str:
        """Metric and context, and what is not usual, for people: ``decode@131072``."""
        short = self.metric if self.context is None else f"{self.metric}@{self.context}"
        return " ".join([short, *(f"{name}:{value}" for name, value in self.conditions)])

    @property
    def unit(self) -> str:
        """What is counted."""
        return dict(self.conditions).get("unit", UNITS.get(self.metric, TOKEN))

    @property
    def scorable(self) -> bool:
        """Whether a rule for this metric and context may score it: rules score tokens of one sequence.

        What has names that are too long for a slot is scored by none: no entry could say what it was held against.
        """
        return self.unit == TOKEN and not any(name == "batch" for name, _ in self.conditions) and self.spellable

    @property
    def spellable(self) -> bool:
        """Whether its slots are short enough for an entry."""
        return len(str(self)) <= MOST_SPELLED

    def at(self, metric: str, context: int | None) -> Track:
        """The track of another metric on the same model and node, measured alike, in its usual unit."""
        kept = tuple((name, value) for name, value in self.conditions if name not in {"inputs", "unit"})
        return replace(self, metric=metric, context=context, conditions=kept)

    def slot(self, role: Role) -> str:
        """Spelling of the slot with this role on this track."""
        return f"{role}:{self}"


def parse_slot(text: str, *, position: Position = NOWHERE) -> tuple[Role, Track]:
    """Read a slot's name.

    Raises:
        RescoreError: ``K3L-TOML-FIELD`` when it is no slot or its role is unknown.
    """
    match = _SLOT.fullmatch(text)
    if match:
        for role in get_args(Role):
            if match[1] == role:
                context = None if match[3] == ABSENT else int(match[3])
                metric, *place = (_unspell(match[part]) for part in (2, 4, 5, 6))
                track = Track(metric, context, place[0], place[1], place[2], _parse(match[7]))
                if track.slot(role) == text and _is_least(track):
                    return role, track
    raise RescoreError(
        Code.TOML_FIELD,
        f"{text[:80]!r} is not the name of a slot",
        position=position,
        expected="frontier|reference|guard:metric@context/model/quant/node[/condition:value...]",
        found=text[:80],
    )


def _parse(text: str) -> tuple[tuple[str, str], ...]:
    """The conditions at the end of a slot, without what is none: that does not format again."""
    pairs = [part.partition(":") for part in text.split("/")]
    known = [(name, value) for name, _, value in pairs if name in _CONDITIONS and _CONDITIONS[name].fullmatch(value)]
    return tuple(sorted((name, _unspell(value)) for name, value in dict(known).items()))


def _is_least(track: Track) -> bool:
    """Whether no condition of a track is the usual one."""
    usual = _usual(track.metric, track.unit)
    return all(value != usual[name] for name, value in track.conditions)

"""Semantics of a run receipt that need nothing but the receipt: clocks, counts, parity arithmetic.

Each rule yields a :class:`Fault`; the caller knows which entry it stands in. Works on the fast structs and on the
pydantic models alike, since both carry the same attribute names.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.repetitions import scored_at

if TYPE_CHECKING:
    from collections.abc import Iterator


class MostPerNanosecond(NamedTuple):
    """The most that any machine there is could do, in counts a nanosecond, by the unit of a series.

    These are bounds of what can be, far above what is: a receipt above one of them was not measured, one below it may
    still be wrong. Within a nanosecond light travels 30 cm, so what needs one step behind another on one machine (a
    token that is produced, an entry or a receipt that is verified, a request that is answered, a program that is
    started) is not done twice in it. A byte that is moved and a floating-point operation are done in parallel without
    such a limit: their bounds stand about a thousandfold above the largest installations, 10^15 bytes and 10^19
    operations a second. Any other unit is somebody's own and gets the widest bound.
    """

    token: int = 1
    entry: int = 1
    receipt: int = 1
    request: int = 1
    start: int = 1
    byte: int = 10**9
    flop: int = 10**13
    other: int = 10**13


MOST_PER_NANOSECOND = MostPerNanosecond()
_SHOWN = 80
_MOST = MOST_PER_NANOSECOND._asdict()


class Fault(NamedTuple):
    """One broken rule inside one entry body."""

    code: Code
    field: str
    message: str
    expected: str | None
    found: str | None


_BUNDLE_MEMBER = b'"bundle":"'
_BUNDLE_LENGTH = len(_BUNDLE_MEMBER) + 64 + len(b'",')


def check_bundle(entry: bytes, kind: str, stated: str) -> Iterator[Fault]:
    """A receipt is its bundle and the bundle's digest: what is left without the digest must hash to it.

    Args:
        entry: canonical entry bytes of kind ``run`` or ``failed``.
        kind: which of the two.
        stated: the digest that the body gives.
    """
    body = entry[len(b'{"body":') : entry.rfind(b',"index":')]
    at = body.find(_BUNDLE_MEMBER)  # only artifacts stand in front of it, and they have no such member
    rest = body[:at] + body[at + _BUNDLE_LENGTH :]
    found = sha256(b'{"body":%b,"kind":"%b","schema":"k3-ledger/bundle/1"}' % (rest, kind.encode())).hexdigest()
    if found != stated:
        yield Fault(Code.RECEIPT_BUNDLE, "body.bundle", "the body is not that of the bundle it names", found, stated)


def check_artifact_names(body: Any) -> Iterator[Fault]:
    """No two artifacts of a ``run`` or ``failed`` body have one name: readers find them by it."""
    names: set[str] = set()
    for number, artifact in enumerate(body.artifacts):
        if artifact.name in names:
            message = f"another artifact is called {artifact.name} too"
            yield Fault(Code.ARTIFACT_NAME_TAKEN, f"body.artifacts[{number}].name", message, None, artifact.name)
        names.add(artifact.name)


def check_import(body: Any) -> Iterator[Fault]:
    """The original of an ``import`` body is one of its artifacts."""
    if all(artifact.sha256 != body.original_sha256 for artifact in body.artifacts):
        message = "the original that the import names is none of its artifacts"
        yield Fault(
            Code.IMPORT_ORIGINAL, "body.original_sha256", message, "the digest of an artifact", body.original_sha256
        )


def check_body(kind: str, entry: bytes, body: Any) -> Iterator[Fault]:
    """Whatever is wrong with a body by itself.

    Args:
        kind: kind of the entry.
        entry: canonical entry bytes.
        body: its body (struct).
    """
    if kind in ("run", "failed"):
        yield from check_bundle(entry, kind, body.bundle)
        yield from check_artifact_names(body)
    if kind == "run":
        yield from check_run(body)
    if kind == "import":
        yield from check_import(body)


def check_run(body: Any) -> Iterator[Fault]:
    """Faults of a ``run`` body (struct or model), in the order of its fields."""
    for number, series in enumerate(body.timing):
        yield from _check_series(series, f"body.timing[{number}]")
    yield from _check_said_once(body.timing)
    if body.parity is not None:
        yield from _check_parity(body.parity)
    yield from _check_outputs(body)
    load = body.expert_load
    if load is not None and not (
        load.distinct <= load.experts and load.max_load <= load.tokens <= load.distinct * load.max_load
    ):
        yield Fault(
            Code.RECEIPT_COUNTS,
            "body.expert_load",
            "more experts, or more or less load, than there can be",
            f"distinct at most {load.experts}, max_load at most {load.tokens}, every token somewhere",
            f"distinct {load.distinct}, max_load {load.max_load}",
        )


_OUTPUTS = re.compile(r"([0-9]{1,9}) looked at, ([0-9]{1,9}) missed, ([0-9]{1,9}) may")
_ROUNDS = re.compile(r"([0-9]{1,9}) of ([0-9]{1,9}), ([0-9]{1,9}) may")


def _check_outputs(body: Any) -> Iterator[Fault]:
    """A receipt that claims a speed says nothing of the outputs that were looked at for which none may be claimed."""
    if not any(series.observer == "subject" for series in body.timing):
        return
    for number, flag in enumerate(body.flags):
        looked, missed, may = 0, 0, 0
        if flag.name.startswith("run.outputs-"):
            said = _OUTPUTS.fullmatch(flag.value)
            looked, missed, may = map(int, said.groups()) if said else (0, 1, 0)
        elif flag.name == "run.rounds-off":
            said = _ROUNDS.fullmatch(flag.value)
            missed, looked, may = map(int, said.groups()) if said else (1, 0, 0)
            may = min(may, max(0, looked - 1) // 2)
        if missed > min(looked, may):
            yield Fault(
                Code.RECEIPT_COUNTS,
                f"body.flags[{number}]",
                "more outputs missed than may where a speed is claimed",
                "no more than may, which of rounds are fewer than half",
                flag.value[:_SHOWN],
            )


def _check_series(series: Any, field: str) -> Iterator[Fault]:
    end = -1
    most = _MOST.get(series.unit, MOST_PER_NANOSECOND.other)
    for number, sample in enumerate(series.samples):
        if sample.start_ns < end:
            yield Fault(
                Code.RECEIPT_CLOCK,
                f"{field}.samples[{number}]",
                "a repetition starts before the one in front of it ended: not one monotonic clock",
                f"start_ns of at least {end}",
                str(sample.start_ns),
            )
        end = sample.start_ns + sample.duration_ns
        if sample.count > sample.duration_ns * most:
            yield Fault(
                Code.RECEIPT_IMPOSSIBLE,
                f"{field}.samples[{number}]",
                f"more than {most} of the unit {series.unit!r} a nanosecond: no machine does that",
                f"duration_ns of at least {-(-sample.count // most)}",
                str(sample.duration_ns),
            )
    if series.context is not None or series.context_filled is not None:
        yield from _check_context(series, field)


def _check_said_once(timing: Any) -> Iterator[Fault]:
    """One clock's repetitions of one thing are one series, whose order in time is looked at.

    Whoever reads times pools what was done alike: the same few in several series would be that many more of them, and
    no two of a kind would differ. How much of a context was filled makes no other thing of it.
    """
    if len({(one.actor, one.observer, one.metric.partition("-")[0]) for one in timing}) == len(timing):
        return  # a prefill is scored by another name, with the same beginning
    seen: dict[object, int] = {}
    for number, one in enumerate(timing):
        alike = (one.unit, one.batch, one.processes, one.cache, one.inputs)
        first = seen.setdefault((one.actor, one.observer, scored_at(one), alike), number)
        if first != number:
            yield Fault(
                Code.RECEIPT_CLOCK,
                f"body.timing[{number}]",
                f"the same clock, actor, metric and conditions as timing[{first}]: its repetitions could count twice",
                "one series",
                f"{one.actor} {one.metric} by {one.observer}"[:_SHOWN],
            )


def _check_context(series: Any, field: str) -> Iterator[Fault]:
    context, filled = series.context, series.context_filled
    if context is None or filled is None or filled > context:
        yield Fault(
            Code.RECEIPT_COUNTS,
            f"{field}.context_filled",
            "a context says how many of its tokens were real, and that is at most all of them",
            f"0 to {context}" if context is not None else "null, since context is null",
            str(filled),
        )


def _check_parity(parity: Any) -> Iterator[Fault]:
    previous = 0
    for number, depth in enumerate(parity.depths):
        field = f"body.parity.depths[{number}]"
        if depth.depth <= previous:
            yield Fault(
                Code.RECEIPT_PARITY,
                f"{field}.depth",
                "depths must rise strictly: each is graded once",
                f"more than {previous}",
                str(depth.depth),
            )
        previous = depth.depth
        if depth.top1_agree > depth.rows or depth.ties + depth.near_ties > depth.rows:
            yield Fault(
                Code.RECEIPT_COUNTS,
                field,
                "more agreements or ties than rows",
                f"at most {depth.rows}",
                f"top1_agree {depth.top1_agree}, ties {depth.ties}, near_ties {depth.near_ties}",
            )
        if depth.kl_mean.startswith("-") or depth.kl_max.startswith("-"):
            yield Fault(
                Code.RECEIPT_PARITY,
                f"{field}.kl_max",
                "a KL divergence is never negative",
                "0 or more",
                f"max {depth.kl_max}, mean {depth.kl_mean}",
            )
        elif _decimal(depth.kl_mean) > _decimal(depth.kl_max):
            yield Fault(
                Code.RECEIPT_PARITY,
                f"{field}.kl_mean",
                "a mean above the maximum",
                f"at most {depth.kl_max}",
                depth.kl_mean,
            )


def _decimal(text: str) -> tuple[int, str]:
    """Order-preserving key of a non-negative canonical decimal, exact and without a context."""
    whole, _, fraction = text.partition(".")
    return int(whole), fraction.rstrip("0")

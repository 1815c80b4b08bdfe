"""What must hold between the controller's clock and the engine's own figures. Pure.

Each check yields findings; a run with one is never a receipt of kind ``run``. The bounds only tell a measurement from
a broken or dishonest one, and follow what an engine shows of itself, so that a busy machine makes no liar of anybody.
What counts of the engine's own times is narrower and follows nothing of its (``Timed.taken_ns``); whether a speed earns
anything is for the rules.

Bounds are on medians and on totals: a repetition that the scheduler held up must not refuse an honest engine. What an
engine says falsely in fewer than half of the repetitions moves the median that is read by no more than their spread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.engine.runner.observations import BELIEVED, METRICS, SIGNAL, median, standard_error
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from k3_ledger.engine.runner.observations import Metric, Observations, Timed, Where
    from k3_ledger.schemas.measurement import ExpertLoad

SPREAD_SHARE: Final = 0.9
"""How far of the way from its fair share of the tokens to all of them the busiest expert of any layer may be."""
SPREAD_LEAST: Final = 64
"""Tokens of which that is asked: few can all go to one expert by chance."""
SELF_SHARE: Final = 0.05
"""Share of a duration by which the engine's own figure may lie under the controller's."""
NOISE_MULTIPLE: Final = 2
"""How many times what pipe and scheduler were seen to cost it may lie lower on top of that."""
NOISE_SHARE: Final = 0.25
"""Share of a duration which that may come to at most: slow answers to empty requests gain an engine no more."""
TOTAL_SHARE: Final = 0.6
"""Share of all repetitions' time by the controller's clock that the engine's own times must come to."""
SLACK_SHARE: Final = 0.1
"""Share of prefill's time that decode's own share and the pipe may add to what decode may begin with: neither a long
decode nor slow answers to empty requests make room for putting more of prefill off."""
ID_NS: Final = 2_000
"""What writing or reading one id of a request may cost."""
_BEHIND: Final[dict[Where, str]] = {
    "one": "decode behind prefill", "several": "decode behind several prompts", "between": "a reset between prompts",
}  # fmt: skip


def check_observations(found: Observations, asked: int = 0) -> Iterator[Finding]:
    """Everything that can be checked without a second engine.

    Args:
        found: what was timed.
        asked: how many times the jitter a rule asks the extra tokens to be worth; less is a warning.
    """
    for metric in METRICS:
        for extended in (False, True):
            yield from _check_self_report(metric, found.of(metric, extended=extended), found.noise_ns)
        yield from _check_margin(metric, found)
        yield from _check_marginal(metric, found)
        yield from _check_worth(metric, found, asked)
        yield from _check_believed(metric, found)
    yield from _check_put_off(found)
    yield from _check_inputs(found)


def check_kernels(kernels: Sequence[Mapping[str, object]]) -> Iterator[Finding]:
    """Interpreted kernels are for tests: they agree where compiled ones do not, and their speed says nothing."""
    interpreted = [str(one.get("op")) for one in kernels if one.get("executor") == "interpreter"]
    if interpreted:
        yield Finding(
            Code.RUN_INTERPRETED,
            f"{len(interpreted)} operations ran in an interpreter",
            Position(field="kernels"),
            "compiled, or torch",
            f"interpreter: {', '.join(interpreted[:8])}",
        )


def check_spread(load: ExpertLoad | None, top_k: int | None) -> Iterator[Finding]:
    """A router that sends nearly all tokens to one expert sends them past the others: that is not a mixture's speed.

    Args:
        load: by the engine's own count; None where it has none.
        top_k: experts that a token takes; where these are all there are, no other could be taken.
    """
    if load is None or load.tokens < SPREAD_LEAST or top_k is None or top_k >= load.experts:
        return
    fair = top_k / load.experts
    most = fair + SPREAD_SHARE * (1 - fair)
    if load.max_load > most * load.tokens:
        yield Finding(
            Code.RUN_ONE_EXPERT,
            f"one expert of {load.experts} took {load.max_load} of {load.tokens} tokens, of which each takes {top_k}",
            Position(field="expert_load"),
            f"at most {most:.1%} of the tokens, where a router that spreads evenly gives {fair:.1%}",
            f"{load.max_load / load.tokens:.1%}; by the layer that used fewest, {load.distinct} experts were used",
        )


def allowance(outer_ns: int, ids: int, noise_ns: int, requests: int = 1) -> int:
    """How far the engine's own time may lie under the controller's: a small share, the pipe, and the ids in it."""
    noise = min(NOISE_MULTIPLE * noise_ns * requests + ID_NS * ids, int(NOISE_SHARE * outer_ns))
    return int(SELF_SHARE * outer_ns) + noise


def _check_self_report(metric: Metric, timed: list[Timed], noise_ns: int) -> Iterator[Finding]:
    """The engine's own time never passes the controller's, lies just inside it as a rule, and far inside it never."""
    outer, gap = median([one.outer_ns for one in timed]), median([one.outer_ns - one.self_ns for one in timed])
    total, claimed = sum(one.outer_ns for one in timed), sum(one.self_ns for one in timed)
    bound = allowance(outer, timed[0].count, noise_ns, timed[0].requests)
    above = [one for one in timed if one.self_ns > one.outer_ns]
    if above:
        expected, seen = f"at most {above[0].outer_ns} ns", f"{above[0].self_ns} ns"
    elif gap > bound:
        expected, seen = f"{outer - bound} to {outer} ns as a rule", f"{outer - gap} ns"
    elif claimed < TOTAL_SHARE * total:
        expected, seen = f"{int(TOTAL_SHARE * total)} to {total} ns in all", f"{claimed} ns"
    else:
        return
    yield Finding(
        Code.RUN_SELF_REPORT,
        f"{metric}: the engine's own time is not what the controller's clock saw in {len(timed)} runs "
        f"of {timed[0].count} tokens",
        Position(field=metric),
        expected,
        seen,
    )


def _check_margin(metric: Metric, found: Observations) -> Iterator[Finding]:
    """The extra tokens take many times what chance could make of their difference."""
    if not found.stands_out(metric):
        costs = found.costs(metric, "outer_ns")
        yield Finding(
            Code.RUN_MARGIN,
            f"{metric}: {found.extra[metric]} extra tokens took too little time to stand out from the jitter "
            f"of {len(costs)} rounds",
            Position(field=metric),
            f"at least {SIGNAL} times {standard_error(costs)} ns",
            f"{median(costs)} ns",
            hint="use a quieter machine, more repetitions, a longer context or a larger model; or the engine ignores "
            "how much it is asked to do",
        )


def _check_worth(metric: Metric, found: Observations, asked: int) -> Iterator[Finding]:
    """What the extra tokens are worth to a rule."""
    margin = found.margin(metric)
    if margin < asked:
        yield Finding(
            Code.RUN_SHORT_MARGIN,
            f"{metric}: not scorable: margin: {found.extra[metric]} extra tokens are worth {margin:.1f} times "
            f"the jitter of {len(found.rounds)} rounds",
            Position(field=metric),
            f"at least {asked} times",
            f"{margin:.1f} times",
        )


def _check_believed(metric: Metric, found: Observations) -> Iterator[Finding]:
    """Whether the engine's own times are what rules will read."""
    claimed = found.claimed(metric)
    outer, own = (median([getattr(one, clock) for one in claimed]) for clock in ("outer_ns", "self_ns"))
    raised = sum(one.taken_ns > one.self_ns for one in claimed)
    if 2 * raised > len(claimed):
        yield Finding(
            Code.RUN_OWN_TIME_RAISED,
            f"{metric}: {raised} of {len(claimed)} times of the engine's own lie further under the clock than counts, "
            "and are taken as the clock's less 1 %",
            Position(field=metric),
            f"at least {outer - outer // BELIEVED} ns",
            f"{own} ns",
        )


def _check_marginal(metric: Metric, found: Observations) -> Iterator[Finding]:
    """By the controller's clock the extra tokens cost what the engine says they cost, no less and no more."""
    costs = found.costs(metric, "outer_ns")
    gaps = [outer - own for outer, own in zip(costs, found.costs(metric, "self_ns"), strict=True)]
    cost, gap = median(costs), median(gaps)
    requests = max(1, found.prompts - 1) if metric == "prefill" else 1
    bound = allowance(abs(cost), found.extra[metric], found.noise_ns, requests) + SIGNAL * standard_error(gaps)
    if cost <= 0 or abs(gap) > bound:
        yield Finding(
            Code.RUN_MARGINAL,
            f"{metric}: {found.extra[metric]} extra tokens did not cost what the engine says they cost",
            Position(field=metric),
            f"{max(1, cost - bound)} to {max(1, cost + bound)} ns",
            f"{cost - gap} ns",
        )


def _check_put_off(found: Observations) -> Iterator[Finding]:
    """Neither decode nor a reset begins by finishing what prefill had answered for.

    Behind one prompt, what decode costs for no token at all; behind several, what it costs more than behind one; and
    between prompts, what a reset costs more than in front of them. None may be a good part of one prompt's own time.
    """
    decode = median([one["short"].decode.outer_ns for one in found.rounds])
    prefill = median([one["short"].prefill.outer_ns for one in found.rounds])
    slack = min(int(SELF_SHARE * decode) + NOISE_MULTIPLE * found.noise_ns, int(SLACK_SHARE * prefill))
    for where, what in _BEHIND.items():
        hidden = found.hidden(where)
        bound = found.hidden_bound + slack + SIGNAL * standard_error(hidden)
        if median(hidden) > bound:
            yield Finding(
                Code.RUN_LEFT_OVER,
                f"{what} begins with work that is not its own: prefill answered too early",
                Position(field="reset" if where == "between" else "decode"),
                f"at most {bound} ns",
                f"{median(hidden)} ns",
            )


def _check_inputs(found: Observations) -> Iterator[Finding]:
    """No two counted walks had the same prompt."""
    prompts = [walk.prompt for walk in found.walks]
    if len(set(prompts)) != len(prompts):
        yield Finding(Code.RUN_INPUTS_REPEATED, "a prompt was timed twice", Position(field="prefill"))

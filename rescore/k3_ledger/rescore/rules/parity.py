"""Gates on agreement with the reference engine: correctness, completeness of the suite, and the ratchet.

The attacks these answer: a mean hides one broken depth (the worst decides); a short suite grades an empty cache
(every depth of the rule must be there); a fast path that is never graded (the graded path must be the scored one);
divergence that creeps up merge by merge beneath a fixed bar (the ratchet compares with the same round's frontier).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from k3_ledger.rescore.exact import format_exact, format_rounded
from k3_ledger.rescore.inputs import Depth
from k3_ledger.rescore.rules.verdict import Gate, Step
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.rescore.inputs import Parity
    from k3_ledger.rescore.rules.parameters import Correctness, Ratchet


def check_correctness(rule: Correctness, parity: Parity | None) -> Gate:
    """Worst agreement against the bars; equality passes, and a missing half leaves the gate undecided."""
    kl = parity.worst_kl() if parity else None
    top1 = parity.worst_top1() if parity else None
    if kl is None or top1 is None:
        missing = " and ".join(name for name, value in (("kl", kl), ("top1", top1)) if value is None)
        return Gate("correctness", Outcome.NOT_CHECKED, "no-evidence", f"the run does not record {missing}")
    steps = (Step("kl", kl), Step("kl_bar", rule.kl), Step("top1", top1), Step("top1_bar", rule.top1))
    failed = [
        text
        for wrong, text in (
            (top1 < rule.top1, f"top1 {format_exact(top1)} is below {format_exact(rule.top1)}"),
            (kl > rule.kl, f"kl {_nats(kl, rule.kl)} is above {format_exact(rule.kl)}"),
        )
        if wrong
    ]
    if failed:
        return Gate("correctness", Outcome.FAIL, "diverged", " and ".join(failed), steps)
    if kl > rule.kl_soft:
        detail = f"kl {_nats(kl, rule.kl_soft)} is above the soft bar {format_exact(rule.kl_soft)}"
        return Gate("correctness", Outcome.PASS, "soft-bar", detail, steps, warning=True)
    return Gate("correctness", Outcome.PASS, steps=steps)


def check_suite(rule: Correctness, parity: Parity | None, *, path: str | None = None) -> Gate:
    """Whether every depth of the suite was graded with enough rows, and on the path that was scored.

    Args:
        rule: names the depths.
        parity: what was graded.
        path: the scored path, when the rule insists that it is the graded one.
    """
    if parity is None or not parity.depths:
        return Gate("suite", Outcome.NOT_CHECKED, "no-evidence", "the run records no depths")
    graded = {depth.tokens for depth in parity.depths}
    missing = [tokens for tokens in rule.depths if tokens not in graded]
    steps = (Step("depths", _listed(sorted(graded))), Step("suite", _listed(rule.depths)))
    if missing:
        return Gate("suite", Outcome.FAIL, "incomplete", f"not graded at depth {_listed(missing)}", steps)
    few = [depth.tokens for depth in parity.depths if depth.rows is not None and depth.rows < rule.rows]
    if few:
        detail = f"fewer than {rule.rows} rows graded at depth {_listed(few)}"
        return Gate("suite", Outcome.FAIL, "few-rows", detail, steps)
    if path is not None and parity.path is None:
        return Gate("suite", Outcome.NOT_CHECKED, "no-path", "no record says which path was graded", steps)
    if path is not None and parity.path not in {path, "both"}:
        return Gate("suite", Outcome.FAIL, "other-path", f"graded on {parity.path}, scored on {path}", steps)
    return Gate("suite", Outcome.PASS, steps=steps)


def check_ratchet(rule: Ratchet, parity: Parity | None, frontier: Parity | None) -> Gate:
    """Divergence of each material depth against the frontier's; the worst ratio decides.

    Where neither records depths, what each records as a whole is compared: one prompt was all that was graded.
    """
    mine_at, main_at = _graded(parity), _graded(frontier)
    if not mine_at or not main_at:
        return Gate("ratchet", Outcome.NOT_CHECKED, "no-evidence", _why_nothing(mine_at, frontier))
    assert parity is not None
    assert frontier is not None
    if parity.ground and frontier.ground and parity.ground != frontier.ground:
        detail = f"graded against {parity.ground}, the frontier of its round against {frontier.ground}"
        return Gate("ratchet", Outcome.NOT_CHECKED, "other-ground", detail)
    if not mine_at.keys() <= main_at.keys():
        return Gate("ratchet", Outcome.NOT_CHECKED, "other-depths", "the frontier was graded at other depths")
    pairs = [(depth, main_at[tokens]) for tokens, depth in mine_at.items()]
    source = frontier.source
    material = [(mine, main) for mine, main in pairs if mine.kl >= rule.floor]
    said_by = (Step("frontier_kl_source", source),) if source else ()
    blocked = [pair for pair in material if pair[0].kl > rule.block * pair[1].kl and pair[0].kl >= rule.block_from]
    drifted = [pair for pair in material if pair[0].kl > rule.warn * pair[1].kl]
    if not blocked and not drifted:
        return Gate("ratchet", Outcome.PASS, steps=(Step("material_depths", str(len(material))), *said_by))
    bar = rule.block if blocked else rule.warn
    mine, main = max(blocked or drifted, key=_times)
    where = f" at depth {mine.tokens}" if mine.tokens else ""
    times = f"{format_rounded(mine.kl / main.kl, 2)}x" if main.kl else "infinitely many times"
    detail = f"kl{where} is {times} the frontier's, more than {format_exact(bar)}x"
    depth = (Step("depth", str(mine.tokens)),) if mine.tokens else ()
    steps = (*depth, Step("kl", mine.kl), Step("frontier_kl", main.kl), *said_by)
    if blocked:
        return Gate("ratchet", Outcome.FAIL, "blocked", detail, steps)
    return Gate("ratchet", Outcome.PASS, "drifted", detail, steps, warning=True)


def _why_nothing(mine_at: object, frontier: Parity | None) -> str:
    if not mine_at:
        return "the run records no depths"
    if frontier is None:
        return "no frontier run of this metric and build in its round was graded"
    return "the frontier of its round records no depths"


def _times(pair: tuple[Depth, Depth]) -> tuple[bool, Fraction]:
    """How many times as far a depth diverges, in an order where from nothing to something is the most."""
    mine, main = pair
    return (not main.kl, mine.kl / main.kl if main.kl else mine.kl)


def _graded(parity: Parity | None) -> dict[int, Depth]:
    """What was graded by depth; under 0 where one number stands for all."""
    if parity is None:
        return {}
    if not parity.depths and parity.kl is not None:
        return {0: Depth(0, parity.kl, parity.top1 or Fraction(0))}
    return {depth.tokens: depth for depth in parity.depths}


def _nats(value: Fraction, bar: Fraction) -> str:
    """A divergence above a bar: rounded, unless it would then not be above it."""
    rounded = format_rounded(value, 9)
    return rounded if Fraction(rounded) > bar else format_exact(value)


def _listed(tokens: Iterable[int]) -> str:
    return ", ".join(str(token) for token in tokens)

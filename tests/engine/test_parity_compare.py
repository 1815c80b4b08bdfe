"""What must not be compared is refused before any number is computed."""

from __future__ import annotations

import hashlib
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k3_ledger.engine.parity import Rows, Suite, compare, grade, ids_digest
from k3_ledger.engine.parity.compare import log_softmax
from k3_ledger.engine.parity.llamacpp import LlamaCpp
from k3_ledger.engine.parity.suite import decimal_text
from k3_ledger.schemas.errors import ParityError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.models import ParityDepth

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Literal

RNG = np.random.default_rng(20261129)


def _rows(values: object, *, ids: tuple[int, ...] = (1, 2), processing: Literal["raw", "processed"] = "raw") -> Rows:
    return Rows(ids_digest([ids]), processing, np.atleast_2d(np.asarray(values, dtype=np.float64)))


def _refused(candidate: Rows, reference: Rows) -> ParityError:
    with pytest.raises(ParityError) as caught:
        compare(candidate, reference)
    return caught.value


@pytest.mark.parametrize(("name", "place"), [("one_nan", 5), ("all_nan", 0), ("plus_inf", 2)])
def test_logits_that_are_not_finite_fail_with_their_place(
    name: str, place: int, test_data: Callable[..., Path]
) -> None:
    folder = test_data("bug-cases", "cases", "39-nan-logits")
    bad, good = (_rows(np.load(folder / f"{file}.npy")) for file in (name, "reference"))
    for error in (_refused(bad, good), _refused(good, bad), _refused(bad, bad)):
        assert error.code is Code.PARITY_NOT_FINITE
        assert error.finding.position.field == f"rows[0][{place}]"
    assert compare(good, good).agree == 1


def test_underflowed_log_probability_is_not_a_number() -> None:
    row = [-0.5, -1.0, float(np.finfo(np.float32).min)]
    assert _refused(_rows([0.0, 0.0, 0.0]), _rows(row)).code is Code.PARITY_NOT_FINITE


def test_ties_go_to_the_lowest_id_and_are_counted(test_data: Callable[..., Path]) -> None:
    folder = test_data("bug-cases", "cases", "41-argmax-ties")
    candidate, reference = (_rows(np.load(folder / f"{side}.npy")) for side in ("candidate", "reference"))
    result = compare(candidate, reference)
    assert (result.agree, result.ties, result.near_ties) == (0, 1, 0)
    same = compare(reference, reference)
    assert (same.agree, same.ties, same.near_ties) == (1, 1, 0)
    other = compare(candidate, candidate)
    assert (other.agree, other.ties, other.near_ties) == (1, 0, 1)


def test_near_ties_end_at_the_stated_bound() -> None:
    values = _rows([0.0, 1.0, 1.5])
    assert compare(values, values, near_tie=0.5).near_ties == 1
    assert compare(values, values, near_tie=0.49).near_ties == 0


def test_truncated_rows_are_refused_and_never_filled(test_data: Callable[..., Path]) -> None:
    case = json.loads((test_data("bug-cases", "cases", "42-truncated-logprobs") / "top3.json").read_text())
    rows = []
    for side in ("reference_top3", "candidate_top3"):
        row = np.full(case["vocab"], np.nan)
        for token, value in case[side].items():
            row[int(token)] = value
        rows.append(_rows(row))
    assert _refused(rows[1], rows[0]).code is Code.PARITY_NOT_FINITE
    assert _refused(_rows([0.0, 1.0]), _rows([0.0, 1.0, 2.0])).code is Code.PARITY_TRUNCATED
    assert _refused(_rows([[0.0, 1.0]] * 2), _rows([0.0, 1.0])).code is Code.PARITY_TRUNCATED


def _filled(rows: np.ndarray, kept: int, filler: Callable[[np.ndarray], float]) -> np.ndarray:
    rows = rows.copy()
    for row in rows:
        tail = np.argsort(row)[:-kept]
        row[tail] = filler(row[tail])
    return rows


def _bfloat16(values: np.ndarray) -> np.ndarray:
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


FILLERS: dict[str, Callable[[np.ndarray], float]] = {
    "mean": lambda tail: float(np.log(np.exp(tail).mean())),
    "best": lambda tail: float(tail.max()),
    "least": lambda tail: float(tail.min()),
    "below": lambda tail: float(tail.min()) - 5,
    "-30": lambda _: -30.0,
    "-700": lambda _: -700.0,
    "-1e4": lambda _: -1e4,
    "half": lambda _: -65504.0,
    "-1e9": lambda _: -1e9,
    "-1e29": lambda _: -1e29,
}


@pytest.mark.parametrize("vocabulary", [256, 1024])
@pytest.mark.parametrize("part", [0.04, 0.5, 0.8])
@pytest.mark.parametrize("filler", FILLERS)
def test_a_tail_that_was_filled_up_is_refused_on_either_side(filler: str, part: float, vocabulary: int) -> None:
    row = RNG.standard_normal((3, vocabulary)) * 3
    filled = row.copy()
    filled[1:2] = _filled(row[1:2], int(vocabulary * part), FILLERS[filler])
    for pair in ((_rows(filled), _rows(row)), (_rows(row), _rows(filled)), (_rows(_bfloat16(filled)), _rows(row))):
        error = _refused(*pair)
        assert error.code is Code.PARITY_TRUNCATED
        assert error.finding.position.field.startswith("rows[1]")


@pytest.mark.parametrize("vocabulary", [40, 512, 16384])
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("middle", [-20.0, -6.0, 0.0, 10.0, 60.0])
def test_honest_values_that_were_rounded_are_no_filler(middle: float, spread: float, vocabulary: int) -> None:
    row = middle + RNG.standard_normal((2, vocabulary)) * spread
    off = row + RNG.standard_normal(row.shape) * 0.02
    for values in (_bfloat16(off), _bfloat16(log_softmax(off)), off.astype(np.float16).astype(np.float64)):
        assert compare(_rows(values), _rows(row)).difference.max() < 0.5


def test_tokens_that_neither_side_tells_apart_are_no_filler() -> None:
    row = RNG.standard_normal((2, 512)) * 3
    row[:, 300:] = -2.0
    assert compare(_rows(row + 1e-4 * RNG.standard_normal(row.shape)), _rows(row)).kl.max() < 1e-3
    assert compare(_rows(row), _rows(row + 1e-4 * RNG.standard_normal(row.shape))).kl.max() < 1e-3


def test_the_least_log_probability_is_that_of_the_least_float64() -> None:
    good = _rows([0.0, -744.3, -3.0])
    assert compare(good, good).identical
    for bad in (_rows([0.0, -744.5, -3.0]), _rows([700.0, -44.5, 697.0])):
        for pair in ((bad, good), (good, bad)):
            error = _refused(*pair)
            assert error.code is Code.PARITY_TRUNCATED
            assert error.finding.position.field == "rows[0][1]"


def test_temperature_is_a_setup_mismatch_declared_or_not(test_data: Callable[..., Path]) -> None:
    case = json.loads((test_data("bug-cases", "cases", "42-truncated-logprobs") / "temperature.json").read_text())
    reference = _rows(case["reference_logits"])
    assert _refused(_rows(case["candidate_logprobs"], processing="processed"), reference).code is Code.PARITY_PROCESSED
    assert _refused(_rows(case["candidate_logprobs"]), reference).code is Code.PARITY_PROCESSED
    assert compare(_rows(np.asarray(case["reference_logits"]) + 7), reference).kl.max() < 1e-15


def test_an_engine_that_is_merely_wrong_is_not_called_processed() -> None:
    reference = RNG.standard_normal((4, 64)) * 3
    wrong = reference + RNG.standard_normal((4, 64)) * 0.5
    assert compare(_rows(wrong), _rows(reference)).kl.max() > 0.01


def test_different_prompts_are_told_before_anything_else(test_data: Callable[..., Path]) -> None:
    case = json.loads((test_data("bug-cases", "cases", "43-bos-mismatch") / "ids.json").read_text())
    reference = _rows([0.0, 1.0], ids=tuple(case["reference_ids"]))
    for name in ("double_bos", "no_bos"):
        other = _rows([np.nan, 1.0, 2.0], ids=tuple(case[name]), processing="processed")
        assert _refused(other, reference).code is Code.PARITY_PROMPTS_DIFFER
    assert compare(_rows([0.0, 1.0], ids=tuple(case["reference_ids"])), reference).identical


def test_what_makes_numbers_meaningless_is_told_of_either_side_and_in_order() -> None:
    plain, other = _rows([0.0, 3.0, 1.0]), _rows([np.nan, 1.0], ids=(1, 3), processing="processed")
    for pair in ((plain, other), (other, plain)):
        assert _refused(*pair).code is Code.PARITY_PROMPTS_DIFFER
    processed = _rows([np.nan, 3.0], processing="processed")
    for pair in ((plain, processed), (processed, plain)):
        assert _refused(*pair).code is Code.PARITY_PROCESSED
    for pair in ((plain, _rows([np.nan, 1.0])), (_rows([np.nan, 1.0]), plain)):
        assert _refused(*pair).code is Code.PARITY_TRUNCATED


@pytest.mark.parametrize("temperature", [0.5, 0.7, 0.98, 1.02, 2.0])
def test_a_temperature_that_nobody_declared_is_recognised(temperature: float) -> None:
    row = RNG.standard_normal((3, 50)) * 3
    assert _refused(_rows(row / temperature), _rows(row)).code is Code.PARITY_PROCESSED


@pytest.mark.parametrize("vocabulary", [64, 1024])
@pytest.mark.parametrize("temperature", [0.7, 0.98, 1.02, 1.1])
@pytest.mark.parametrize("rows", [[0], [3], [0, 1, 3]])
def test_a_temperature_in_some_rows_is_recognised_whatever_else_was_moved(
    rows: list[int], temperature: float, vocabulary: int
) -> None:
    row = RNG.standard_normal((4, vocabulary)) * 3
    scaled = row.copy()
    scaled[rows] /= temperature
    moved, noisy = scaled.copy(), scaled + RNG.standard_normal(scaled.shape) * 0.004
    moved[:, :: vocabulary // 5] += np.array([0.5, -3.0, 2.0, 8.0])[:, None]
    for values in (scaled, moved, noisy):
        error = _refused(_rows(values), _rows(row))
        assert error.code is Code.PARITY_PROCESSED
        assert error.finding.position.field == f"rows[{rows[0]}]"


@pytest.mark.parametrize("vocabulary", [64, 1024])
@pytest.mark.parametrize("off", [1e-5, 0.02, 0.5, 3.0])
def test_what_models_differ_by_is_no_temperature(off: float, vocabulary: int) -> None:
    row = RNG.standard_normal((50, vocabulary)) * 3
    agreeing = np.sqrt(1 - min(off, 2.9) ** 2 / 9)  # of two models that are as spread, the part that agrees
    for part in (1.0, agreeing):
        other = part * row + RNG.standard_normal(row.shape) * off
        assert compare(_rows(other), _rows(row)).kl.max() > 0


def test_a_row_that_is_flat_on_both_sides_has_no_temperature() -> None:
    row = RNG.standard_normal((2, 64))
    row[0] = 0.0
    assert compare(_rows(row), _rows(row)).identical


def test_a_tie_on_either_side_alone_is_a_tie() -> None:
    tied, plain = _rows([1.0, 1.0, 0.0]), _rows([2.0, 0.0, 1.0])
    for pair in ((tied, plain), (plain, tied)):
        result = compare(*pair)
        assert (result.agree, result.ties, result.near_ties) == (1, 1, 0)


def test_the_difference_at_the_top_is_taken_at_both_tops() -> None:
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.35, 0.6, 0.05])
    for one, two in ((p, q), (q, p)):
        result = compare(_rows(np.log(one)), _rows(np.log(two)))
        assert result.top_difference == pytest.approx([np.log(2)])


def test_kl_is_of_the_reference_from_the_candidate() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.3])
    result = compare(_rows(np.log(q)), _rows(np.log(p)))
    assert result.kl[0] == pytest.approx((p * np.log(p / q)).sum(), abs=1e-15)
    assert result.kl[0] != pytest.approx((q * np.log(q / p)).sum(), abs=1e-3)
    assert result.difference[0] == pytest.approx(np.abs(np.log(p / q)).max())


@example([0.0, 2.220446049250313e-16], 2.0)  # flat up to rounding: no temperature
@given(st.lists(st.floats(-50, 50), min_size=2, max_size=40), st.floats(-100, 100))
def test_kl_ignores_a_shift_and_is_never_negative(values: list[float], shift: float) -> None:
    row = np.asarray(values)
    result = compare(_rows(row + shift), _rows(row))
    assert 0 <= result.kl[0] < 1e-9
    assert np.exp(log_softmax(row[None])).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (1e-30, "0"),
        (3.446287e-11, "0.00000000003446287"),
        (12.0, "12"),
        (100.0, "100"),
    ],
)
def test_decimals_are_plain(value: float, text: str) -> None:
    assert decimal_text(value) == text
    ParityDepth(
        depth=1,
        rows=1,
        kl_max=text,
        kl_mean=text,
        top1_agree=1,
        ties=0,
        near_ties=0,
        max_abs_logprob_difference=text,
    )


def test_digest_tells_prompts_apart() -> None:
    assert ids_digest([[1, 22], [3]]) == hashlib.sha256(b"1,22\n3\n").hexdigest()
    assert len({ids_digest(p) for p in ([[1, 2]], [[12]], [[1], [2]], [[2, 1]], [[1, 2], []])}) == 5


class Stub:
    """An engine that answers with fixed logits, moved at some lengths."""

    name, version, independent = "stub", "1", True

    def __init__(self, moved: frozenset[int] = frozenset()) -> None:
        self.moved = moved

    def rows(self, ids: list[int], count: int, path: str) -> Rows:
        values = np.tile(np.arange(5.0), (count, 1))
        if len(ids) in self.moved:
            values[:, 0] += 0.25
        return Rows(ids_digest([ids]), "raw", values)


def test_perfect_agreement_is_suspicious_only_when_it_is_everywhere() -> None:
    suite = Suite(depths=(2, 4), rows=1)
    everywhere = grade(Stub(), Stub(), suite, range(9))
    assert [finding.code for finding in everywhere.findings] == [Code.PARITY_PERFECT_ZERO]
    for moved in ({2}, {4}):
        assert grade(Stub(frozenset(moved)), Stub(), suite, range(9)).findings == ()


def test_worst_depth_decides() -> None:
    graded = grade(Stub(frozenset({4})), Stub(), Suite(depths=(2, 4, 8), rows=2), range(9))
    assert graded.worst.depth == 4
    with pytest.raises(ParityError, match="at depth 4"):
        graded.require(0.1)
    graded.require(0.3)
    assert [depth.rows for depth in graded.record.depths] == [4, 4, 4]


def test_the_worst_row_of_a_depth_is_recorded_beside_the_mean() -> None:
    class OneRowOff(Stub):
        def rows(self, ids: list[int], count: int, path: str) -> Rows:
            values = super().rows(ids, count, path).values.copy()
            values[0, 0] += 2.0
            return Rows(ids_digest([ids]), "raw", values)

    graded = grade(OneRowOff(), Stub(), Suite(depths=(4,), rows=4), range(9))
    (depth,) = graded.record.depths
    assert float(depth.kl_max) == pytest.approx(4 * float(depth.kl_mean))
    assert (depth.rows, depth.top1_agree) == (8, 8)


def test_our_own_code_as_reference_is_never_independent() -> None:
    own = Stub()
    own.independent = False
    graded = grade(Stub(frozenset({2})), own, Suite(depths=(2,), rows=1), range(9))
    assert [finding.code for finding in graded.findings] == [Code.PARITY_SELF_GRADED]
    assert not graded.record.reference.independent


def _answer(**changes: Any) -> dict[str, Any]:
    top = [{"id": i, "logprob": float(np.log(0.25))} for i in range(4)]
    return {
        "choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}],
        "usage": {"prompt_tokens": 3},
    } | changes


def _llama(answer: dict[str, Any]) -> LlamaCpp:
    engine = LlamaCpp.__new__(LlamaCpp)
    engine.vocabulary, engine.cache, engine._forced = 4, True, 1
    engine._server = SimpleNamespace(handle_completions=lambda _request: answer)
    return engine


def test_llama_cpp_can_be_asked_to_compute_from_nothing() -> None:
    asked: list[bool] = []
    engine = _llama(_answer())
    engine._server = SimpleNamespace(
        handle_completions=lambda request: asked.append(request["cache_prompt"]) or _answer()
    )
    for one in (engine, engine.afresh(), engine):
        one.row([1, 2, 3])
    assert asked == [True, False, True]


def test_answers_of_llama_cpp_are_checked_before_they_are_rows() -> None:
    assert _llama(_answer()).row([1, 2, 3]).tolist() == [np.log(0.25)] * 4
    three = [{"id": i, "logprob": -1.0} for i in range(3)]
    scaled = [{"id": i, "logprob": -1.0} for i in range(4)]
    for answer, code in (
        (_answer(usage={"prompt_tokens": 4}), Code.PARITY_PROMPTS_DIFFER),
        (_answer(choices=[{"logprobs": None}]), Code.PARITY_TRUNCATED),
        ({"error": "no slot"}, Code.PARITY_REFERENCE_FAILED),
        (_answer(choices=[{"logprobs": {"content": [{"top_logprobs": three}]}}]), Code.PARITY_TRUNCATED),
        (_answer(choices=[{"logprobs": {"content": [{"top_logprobs": scaled}]}}]), Code.PARITY_PROCESSED),
    ):
        with pytest.raises(ParityError) as caught:
            _llama(answer).row([1, 2, 3])
        assert caught.value.code is code


def test_prompts_are_nested_and_repeatable() -> None:
    suite = Suite(depths=(4, 16), prompts=2, seed=3)
    assert suite.ids(range(10, 99)) == suite.ids(range(10, 99))
    assert len(suite.ids([5, 6])[1]) == 16
    assert suite.ids(range(10, 99)) != Suite(depths=(4, 16), prompts=2, seed=4).ids(range(10, 99))


@pytest.mark.parametrize(
    "fields", [{"depths": ()}, {"depths": (4, 4)}, {"depths": (8, 4)}, {"depths": (0, 4)}, {"rows": 0}, {"prompts": 0}]
)
def test_unusable_suite_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"depths|at least"):
        Suite(**fields)  # type: ignore[arg-type]

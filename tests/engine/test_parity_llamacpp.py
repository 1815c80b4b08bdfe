"""Acceptance: the forward pass against llama.cpp on the same file and ids, and every wrong variant refused.

26 layers and 3 residual banks, prompts of 1 to 97 tokens. The tolerance is 2e-3 nats on any log-probability; a wrong
variant has to miss it 20-fold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from k3_ledger.engine import grading
from k3_ledger.engine.config import Epsilons
from k3_ledger.engine.grading import grade_file
from k3_ledger.engine.linear import Numerics
from k3_ledger.engine.model import Model, Options, load_model
from k3_ledger.engine.parity import Suite, compare, grade, ids_digest
from k3_ledger.engine.parity.compare import log_softmax
from k3_ledger.engine.parity.rows import Rows
from k3_ledger.engine.parity.sources import ModelSource, ReferenceSource
from k3_ledger.engine.reference import Reference
from k3_ledger.engine.runner.telling import LONGEST
from k3_ledger.schemas.errors import ModelError, ParityError
from k3_ledger.schemas.findings import Code
from tests.engine import wrong

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from k3_ledger.engine.weights import Weights

TOLERANCE = 2e-3
FACTOR = 20
LENGTHS = (1, 2, 5, 17, 40)
USABLE = range(256, 500)
SMALL = {"projection_scale": 1e-3}


@pytest.fixture(scope="module")
def ids() -> list[int]:
    return np.random.default_rng(1).integers(256, 500, 97).tolist()


@pytest.fixture(scope="module")
def right(llama: Callable[..., Any], ids: list[int]) -> dict[int, np.ndarray]:
    """llama.cpp's log-probabilities after each prefix."""
    engine = llama("parity26")
    return {length: engine.row(ids[:length]) for length in (*LENGTHS, 70, 96, 97)}


@pytest.fixture(scope="module")
def base(weights: Callable[..., Weights]) -> Reference:
    return Reference(weights("parity26"))


def _misses(logits: np.ndarray, right: dict[int, np.ndarray]) -> dict[int, float]:
    z = log_softmax(logits)
    return {length: float(np.abs(row - z[length - 1]).max()) for length, row in right.items() if length <= len(z)}


def test_specification_equals_llama_cpp_at_every_length(
    base: Reference, ids: list[int], right: dict[int, np.ndarray]
) -> None:
    misses = _misses(base.logits(ids), right)
    assert max(misses.values()) < TOLERANCE, misses
    spread = np.ptp(right[97])
    assert spread > 10, "a flat distribution would agree with anything"


@pytest.mark.parametrize("variant", wrong.VARIANTS, ids=lambda variant: variant.__name__)
def test_wrong_variant_misses_twentyfold(
    variant: type[Reference], base: Reference, ids: list[int], right: dict[int, np.ndarray]
) -> None:
    faulty = variant.__new__(variant)
    faulty.__dict__.update(base.__dict__)
    misses = _misses(faulty.logits(ids[:40]), right)
    assert max(misses.values()) > FACTOR * TOLERANCE, misses
    if variant in wrong.INVISIBLE_AT_ONE_TOKEN:
        assert misses[1] < TOLERANCE, "one token was thought to hide it"
        assert min(misses[5], misses[17], misses[40]) > FACTOR * TOLERANCE, misses


@pytest.mark.parametrize(("chunk", "depths"), [(1, (1, 17)), (16, (2, 40)), (97, (5, 97))])
def test_torch_path_equals_llama_cpp_in_prefill_and_decode(
    chunk: int, depths: tuple[int, ...], synthetic: Callable[..., Path], llama: Callable[..., Any]
) -> None:
    model = load_model(synthetic("parity26"))
    suite = Suite(depths=depths, rows=3, seed=7)
    graded = grade(ModelSource(model, chunk), llama("parity26"), suite, USABLE, path="both", chunk=chunk)
    graded.require(TOLERANCE)
    assert graded.record.reference.independent
    assert graded.findings == ()
    assert all(depth.top1_agree == depth.rows - depth.near_ties - depth.ties for depth in graded.record.depths)
    assert graded.record.depths[-1].rows == 6


def test_fast_path_equals_llama_cpp(synthetic: Callable[..., Path], llama: Callable[..., Any]) -> None:
    model = load_model(synthetic("parity26"), Options(numerics=Numerics(deterministic=False)))
    graded = grade(ModelSource(model, 48), llama("parity26"), Suite(depths=(5, 97), rows=4), USABLE, chunk=48)
    graded.require(TOLERANCE)


def test_llama_cpps_own_widths_and_cache_do_not_matter(
    synthetic: Callable[..., Path], weights: Callable[..., Weights], ids: list[int], right: dict[int, np.ndarray]
) -> None:
    from k3_ledger.engine.parity.apart import LlamaCppApart

    opened = weights("parity26")
    other = LlamaCppApart(
        synthetic("parity26"),
        opened.tokenizer(),
        opened.config.vocabulary,
        context=128,
        ubatch=7,
        threads=1,
        cache=False,
    )
    assert np.abs(other.row(ids) - right[97]).max() < TOLERANCE


def test_its_top_is_the_top_of_its_row_and_costs_the_tokens_that_are_new(
    synthetic: Callable[..., Path], weights: Callable[..., Weights]
) -> None:
    from k3_ledger.engine.parity.llamacpp import LlamaCpp

    opened = weights("tiny")
    engine = LlamaCpp(synthetic("tiny"), opened.tokenizer().encode("A")[0], 512, context=128, threads=1)
    taken: list[int] = []
    ask = engine._server.handle_completions

    class Counts:
        def handle_completions(self, request: dict[str, Any]) -> Any:
            answer = ask(request)
            taken.append(answer["timings"]["prompt_n"])
            return answer

    engine._server = Counts()
    many = USABLE[:100]
    tops = {length: engine.top(many[:length], 16) for length in (64, 65, 80, 99)}
    assert taken == [64, 1, 15, 19]
    for length, top in tops.items():
        row = engine.row(many[:length])
        assert len(top) == 16
        assert set(top) == set(np.argsort(row)[-16:].tolist())
        assert all(abs(row[token] - logprob) < 1e-4 for token, logprob in top.items())
    assert engine.top(many[:9], 1000).keys() == set(range(512))


class Paced:
    """llama.cpp whose step takes so many seconds with so many threads, by a clock of its own."""

    def __init__(self, seconds: dict[int, float]) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.asked: list[dict[str, Any]] = []
        self.open = 0

    def __call__(self, *_: object, **how: Any) -> Any:
        self.asked.append(how)
        self.open += 1
        assert self.open == 1, "one model is loaded at a time"
        return self

    def top(self, ids: list[int], _: int) -> None:
        first = 100 * self.seconds[1] if len(ids) == 1 else 0  # what is done once says nothing
        self.now += self.seconds[self.asked[-1]["threads"]] + first

    def close(self) -> None:
        self.open -= 1


@pytest.mark.parametrize(
    ("size", "cores", "context", "seconds", "tried", "threads"),
    [
        (1 << 40, 8, 64, {1: 1.0}, [], 1),
        (0, 1, 64, {1: 1.0}, [], 1),
        (0, 2, 64, {1: 0.75, 2: 2.0}, [2, 1], 1),
        (0, 2, 64, {1: 0.75, 2: 0.4}, [2, 1], 2),
        (0, 2, 64, {1: 1.0, 2: 1.0}, [2, 1], 2),
        (0, 16, 64, {1: 9.0, 4: 3.0, 8: 1.0, 16: 2.0}, [16, 8, 4], 8),
        (0, 16, LONGEST, {1: 9.0, 4: 3.0, 8: 1.0, 16: 2.0}, [], 16),
    ],
    ids=["small", "one core", "busy cores", "free cores", "no difference", "many cores", "telling"],
)
def test_llama_cpp_gets_as_many_threads_as_are_fastest_now(
    *,
    synthetic: Callable[..., Path],
    weights: Callable[..., Weights],
    monkeypatch: Any,
    size: int,
    cores: int,
    context: int,
    seconds: dict[int, float],
    tried: list[int],
    threads: int,
) -> None:
    """A small model gets one: sharing its steps out takes longer than they do."""
    made = Paced(seconds)
    monkeypatch.setattr(grading, "LlamaCppApart", made)
    monkeypatch.setattr(grading, "SMALL_BYTES", size)
    monkeypatch.setattr(grading.os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(grading.time, "monotonic", lambda: made.now)
    grading.reference_for(weights("tiny"), synthetic("tiny"), context, own=False)
    assert [how["threads"] for how in made.asked] == [*tried, threads]
    assert made.open == 1
    assert all(how["context"] == context for how in made.asked)


def test_what_is_tried_is_llama_cpp_itself(
    synthetic: Callable[..., Path], weights: Callable[..., Weights], monkeypatch: Any
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(grading, "SMALL_BYTES", 0)
    monkeypatch.setattr(grading.os, "sched_getaffinity", lambda _: {0, 1})
    reference = grading.reference_for(weights("tiny"), synthetic("tiny"), grading.LEAST_TRIED, own=False)
    assert reference.rows([5, 6, 7, 8], 1, "prefill").values.shape == (1, 512)


def test_the_specification_goes_on_from_what_it_computed(weights: Callable[..., Weights], monkeypatch: Any) -> None:
    opened = weights("tiny")
    steps: list[int] = []
    step = Reference.step

    def counts(self: Reference, token: int, state: Any) -> Any:
        steps.append(token)
        return step(self, token, state)

    monkeypatch.setattr(Reference, "step", counts)
    source, many = ReferenceSource(Reference(opened)), list(USABLE[:30])
    other = [*many[:10], *many[11:20]]
    asked = ((many[:10], 1, 10), (many[:11], 1, 1), (many[:20], 9, 9), (many[:20], 1, 20), (many[:22], 3, 22))
    for ids, count, taken in (*asked, (other, 1, 19), (many[:5], 1, 5)):
        steps.clear()
        rows = source.rows(ids, count, "prefill").values
        assert len(steps) == taken
        assert np.array_equal(rows, ReferenceSource(Reference(opened)).rows(ids, count, "prefill").values)


# ------------------------------------------------------------------------------------------- small activations


def _with(base: Reference, **changes: float) -> Reference:
    other = Reference.__new__(Reference)
    other.__dict__.update(base.__dict__)
    other.epsilons = replace(base.epsilons, **changes)
    return other


class L2ByTheLargerOf(Reference):
    """x / max(norm, ε) in place of ε on the sum."""

    def l2(self, x: Any) -> Any:
        return x / np.maximum(np.sqrt((x * x).sum(axis=-1, keepdims=True)), self.epsilons.l2)


@pytest.fixture(scope="module")
def small(
    weights: Callable[..., Weights], llama: Callable[..., Any], ids: list[int]
) -> tuple[Reference, dict[int, np.ndarray]]:
    """Projections of 1e-3, where the choice of epsilon shows."""
    engine = llama("parity26", **SMALL)
    return Reference(weights("parity26", **SMALL)), {n: engine.row(ids[:n]) for n in LENGTHS}


def test_small_activations_equal_llama_cpp(
    small: tuple[Reference, dict[int, np.ndarray]], synthetic: Callable[..., Path], ids: list[int]
) -> None:
    reference, right = small
    assert max(_misses(reference.logits(ids[:40]), right).values()) < TOLERANCE
    model = load_model(synthetic("parity26", **SMALL))
    rows = model.prefill_rows(ids[:40], model.new_state(40), 16).double().numpy()
    assert max(_misses(rows, right).values()) < TOLERANCE


@pytest.mark.parametrize("changes", [{"lora": 1e-6}, {"l2": 1e-6}, {"lora": 1e-6, "l2": 1e-6}], ids=str)
def test_other_epsilons_miss_at_small_activations_and_hide_at_large_ones(
    changes: dict[str, float],
    small: tuple[Reference, dict[int, np.ndarray]],
    base: Reference,
    ids: list[int],
    right: dict[int, np.ndarray],
) -> None:
    reference, small_right = small
    misses = _misses(_with(reference, **changes).logits(ids[:40]), small_right)
    assert max(misses.values()) > FACTOR * TOLERANCE, misses
    hidden = _misses(_with(base, lora=1e-6).logits(ids[:5]), right)
    assert max(hidden.values()) < FACTOR * TOLERANCE, hidden


def test_l2_by_the_larger_of_misses_at_small_activations(
    small: tuple[Reference, dict[int, np.ndarray]], ids: list[int]
) -> None:
    reference, right = small
    other = L2ByTheLargerOf.__new__(L2ByTheLargerOf)
    other.__dict__.update(reference.__dict__)
    assert max(_misses(other.logits(ids[:40]), right).values()) > FACTOR * TOLERANCE


def test_hf_preset_misses_at_small_activations(
    small: tuple[Reference, dict[int, np.ndarray]], synthetic: Callable[..., Path], ids: list[int]
) -> None:
    model = load_model(synthetic("parity26", **SMALL), Options(epsilons="hf"))
    assert model.epsilons == Epsilons(pytest.approx(1e-5, rel=1e-6), 1e-6, 1e-6)
    rows = model.prefill_rows(ids[:17], model.new_state(17), 17).double().numpy()
    assert max(_misses(rows, small[1]).values()) > FACTOR * TOLERANCE


# ----------------------------------------------------------------------------------------- faults of a batched pass


class StridesSwapped(Model):
    """Reads the bank as ``[T, N, D]``: right for one bank or one row, and faster, which is how it got merged."""

    def _mix(self, bank: Tensor, count: int, x: Tensor, name: str) -> Tensor:
        swapped = bank.nan_to_num().reshape(bank.shape[1], bank.shape[0], -1).transpose(0, 1)
        return super()._mix(swapped, count, x, name)


class OnePositionForAChunk(Model):
    """Every token of a chunk sees the prefix of its first."""

    def _absorbed(self, prefix: str, q: Tensor, cache: Tensor, lengths: Tensor) -> Tensor:
        import torch

        first = lengths[:, :1]
        return torch.cat([super(OnePositionForAChunk, self)._absorbed(prefix, row[None], cache, first) for row in q])


class WindowLostBetweenChunks(Model):
    def _stack(self, ids: Any, state: Any) -> Tensor:
        for window in state.windows.values():
            window.zero_()
        return super()._stack(ids, state)


BATCHED = [StridesSwapped, OnePositionForAChunk, WindowLostBetweenChunks]


@pytest.mark.parametrize("fault", BATCHED, ids=lambda fault: fault.__name__)
def test_fault_of_a_batched_pass_misses_twentyfold(
    fault: type[Model], weights: Callable[..., Weights], ids: list[int], right: dict[int, np.ndarray]
) -> None:
    model = fault(weights("parity26"), Options())
    rows = model.prefill_rows(ids[:17], model.new_state(17), 4).double().numpy()
    misses = _misses(rows, {length: row for length, row in right.items() if length in {5, 17}})
    assert max(misses.values()) > FACTOR * TOLERANCE, misses


def test_swapped_strides_hide_below_two_banks_or_two_rows(
    weights: Callable[..., Weights], llama: Callable[..., Any], ids: list[int], right: dict[int, np.ndarray]
) -> None:
    """Why acceptance asks for 14 layers and 2 rows at least."""
    shallow = StridesSwapped(weights("parity26", layers=12), Options())
    rows = shallow.prefill_rows(ids[:17], shallow.new_state(17), 17).double().numpy()
    assert np.abs(log_softmax(rows)[-1] - llama("parity26", layers=12).row(ids[:17])).max() < TOLERANCE
    deep = StridesSwapped(weights("parity26"), Options())
    rows = deep.prefill_rows(ids[:17], deep.new_state(17), 1).double().numpy()
    assert max(_misses(rows, right).values()) < TOLERANCE


# ----------------------------------------------------------------------------------------------------- quantised


@pytest.mark.parametrize("name", ["tiny-q8", "tiny-mxfp4", "tiny-iq1"])
def test_quantised_file_equals_llama_cpp_when_its_rounding_is_emulated(
    name: str, weights: Callable[..., Weights], llama: Callable[..., Any]
) -> None:
    """A rounding boundary within 1e-5 still flips a code now and then, and a flip can change an expert."""
    engine = llama(name)
    emulated = Reference(weights(name), emulate=True)
    plain = Reference(weights(name))
    tokens = range(100, 148)
    with_emulation, without = [], []
    for token in tokens:
        row = {1: engine.row([token])}
        with_emulation.append(_misses(emulated.logits([token]), row)[1])
        without.append(_misses(plain.logits([token]), row)[1])
    close = sum(miss < 1e-4 for miss in with_emulation)
    assert close >= 0.85 * len(tokens), sorted(with_emulation)
    assert float(np.median(without)) > FACTOR * TOLERANCE


def test_torch_path_emulates_as_the_specification_does(weights: Callable[..., Weights]) -> None:
    opened = weights("tiny-mxfp4")
    model = Model(opened, Options(numerics=Numerics(emulate=True)))
    reference = Reference(opened, emulate=True)
    misses = []
    for token in range(300, 316):
        mine = model.prefill([token], model.new_state(1)).double().numpy()[None]
        misses.append(float(np.abs(log_softmax(mine) - log_softmax(reference.logits([token]))).max()))
    assert sum(miss < 1e-3 for miss in misses) >= 13, misses


# ------------------------------------------------------------------------------------------------------- records


def test_self_graded_record_is_marked(weights: Callable[..., Weights], synthetic: Callable[..., Path]) -> None:
    source = ReferenceSource(Reference(weights("tiny")))
    model = ModelSource(load_model(synthetic("tiny")), 4)
    graded = grade(model, source, Suite(depths=(4, 8), rows=2), USABLE, chunk=4)
    assert not graded.record.reference.independent
    assert [finding.code for finding in graded.findings] == [Code.PARITY_SELF_GRADED]


def test_engine_graded_against_itself_is_suspiciously_perfect(weights: Callable[..., Weights]) -> None:
    source = ReferenceSource(Reference(weights("tiny")))
    graded = grade(source, source, Suite(depths=(4,), rows=2), USABLE, path="prefill")
    assert [finding.code for finding in graded.findings] == [Code.PARITY_PERFECT_ZERO, Code.PARITY_SELF_GRADED]


def test_over_the_bound_names_the_depth(weights: Callable[..., Weights], llama: Callable[..., Any]) -> None:
    faulty = wrong.NoFinalMix(weights("tiny"))
    graded = grade(ReferenceSource(faulty), llama("tiny"), Suite(depths=(4, 8), rows=2), USABLE, path="prefill")
    with pytest.raises(ParityError, match="at depth") as caught:
        graded.require(TOLERANCE)
    assert caught.value.code is Code.PARITY_OVER_BOUND
    assert graded.worst.depth in {4, 8}


def test_context_overrun_is_no_row(llama: Callable[..., Any]) -> None:
    with pytest.raises(ParityError):
        llama("tiny").row([300] * 4000)


def test_special_token_in_front_is_a_different_prompt(llama: Callable[..., Any], ids: list[int]) -> None:
    row = llama("parity26").row(ids[:4])[None]
    double = Rows(ids_digest([[508, *ids[:4]]]), "raw", row)
    with pytest.raises(ParityError) as caught:
        compare(double, Rows(ids_digest([ids[:4]]), "raw", row))
    assert caught.value.code is Code.PARITY_PROMPTS_DIFFER


def test_the_longest_context_that_a_file_announces_is_graded_but_for_the_token_that_answers(
    synthetic: Callable[..., Path],
) -> None:
    """At all of it llama.cpp has no room to answer in: said before anything runs, and nobody's truncated row."""
    pytest.importorskip("xllamacpp")
    path = synthetic("tiny", context=24)
    assert grade_file(path, depths=(23,), rows=1, chunk=8).record.depths[0].rows == 2
    with pytest.raises(ModelError) as caught:
        grade_file(path, depths=(24,), rows=1, chunk=8)
    assert caught.value.code is Code.MODEL_DOES_NOT_FIT
    assert grade_file(path, depths=(24,), rows=1, chunk=8, own=True).record.depths[0].depth == 24
    with pytest.raises(ModelError):
        grade_file(path, depths=(25,), rows=1, chunk=8, own=True)


def test_what_llama_cpp_refuses_for_reasons_of_its_own_is_no_truncated_row(llama: Callable[..., Any]) -> None:
    with pytest.raises(ParityError) as caught:
        llama("tiny", context=24).row([1] * 30)
    assert caught.value.code is Code.PARITY_REFERENCE_FAILED

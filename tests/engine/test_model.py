"""The torch path: chunk widths, state, types, sampling, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from k3_ledger.engine.fit import state_bytes
from k3_ledger.engine.linear import Matrix, Numerics
from k3_ledger.engine.model import ExpertUse, Model, Options, load_model
from k3_ledger.engine.parity.compare import log_softmax
from k3_ledger.engine.reference import Reference
from k3_ledger.engine.sampling import Greedy, Seeded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.engine.weights import Weights

IDS = np.random.default_rng(3).integers(256, 500, 33).tolist()
WIDTHS = (1, 2, 3, 7, 16, 32, 33)


@pytest.fixture(scope="module")
def model(synthetic: Callable[..., Path]) -> Model:
    return load_model(synthetic("tiny"))


def _run(model: Model, chunk: int) -> tuple[torch.Tensor, Any]:
    state = model.new_state(len(IDS))
    return model.prefill_rows(IDS, state, chunk), state


@pytest.mark.parametrize("name", ["tiny", "tiny-mxfp4"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_chunk_width_gives_the_same_bits(name: str, dtype: torch.dtype, synthetic: Callable[..., Path]) -> None:
    model = load_model(synthetic(name), Options(numerics=Numerics(dtype)))
    walk, state = _run(model, 1)
    for width in WIDTHS[1:]:
        rows, other = _run(model, width)
        assert torch.equal(rows, walk), width
        for part in ("rows", "windows", "memory"):
            for layer, tensor in getattr(state, part).items():
                assert torch.equal(getattr(other, part)[layer], tensor), (width, part, layer)


def test_uneven_splits_give_the_same_bits(model: Model) -> None:
    walk, _ = _run(model, 1)
    for cut in (1, 16, 17, 32):
        state = model.new_state(len(IDS))
        model.prefill(IDS[:cut], state, cut)
        assert torch.equal(model.prefill(IDS[cut:], state, 64), walk[-1]), cut


def test_fast_path_changes_bits_and_stays_within_its_contract(model: Model, synthetic: Callable[..., Path]) -> None:
    """The tolerance contract of docs/engine.md: relative L2 1e-5, KL 1e-8, the same top-1 off near ties."""
    fast = load_model(synthetic("tiny"), Options(numerics=Numerics(deterministic=False)))
    exact = _run(model, 33)[0].double().numpy()
    for width in (16, 33):
        rows = _run(fast, width)[0].double().numpy()
        assert not np.array_equal(rows, exact), "the fast path would then be the deterministic one"
        assert np.linalg.norm(rows - exact) / np.linalg.norm(exact) < 1e-5
        p, q = log_softmax(exact), log_softmax(rows)
        assert (np.exp(p) * (p - q)).sum(axis=1).max() < 1e-8
        gap = np.diff(np.partition(exact, -2, axis=1)[:, -2:], axis=1)[:, 0]
        assert ((rows.argmax(1) == exact.argmax(1)) | (gap < 1e-3)).all()


class ChunkDependent(Model):
    """A negative control: the deterministic path with one product a chunk somewhere."""

    def _head(self, hidden: torch.Tensor) -> torch.Tensor:
        return super()._head(hidden) + 1e-6 * hidden.shape[0]


def test_a_sum_that_depends_on_the_chunk_is_seen(weights: Callable[..., Weights]) -> None:
    faulty = ChunkDependent(weights("tiny"), Options())
    assert not torch.equal(_run(faulty, 1)[0], _run(faulty, 33)[0])


class OneBankTooMany(Model):
    def _mix(self, bank: torch.Tensor, count: int, x: torch.Tensor, name: str) -> torch.Tensor:
        return super()._mix(bank, min(count + 1, bank.shape[0]), x, name)


def test_reading_a_bank_that_is_not_sealed_shows_at_once(weights: Callable[..., Weights]) -> None:
    faulty = OneBankTooMany(weights("tiny"), Options())
    assert not torch.isfinite(_run(faulty, 33)[0]).any()


def test_reading_a_cache_row_that_is_not_written_shows_at_once(model: Model) -> None:
    state = model.new_state(8)
    state.position = 1  # as if a token had been taken
    assert not torch.isfinite(model.decode_one(300, state)).any()


def test_torch_path_equals_the_specification(model: Model, weights: Callable[..., Weights]) -> None:
    rows = _run(model, 8)[0].double().numpy()
    assert np.abs(rows - Reference(weights("tiny")).logits(IDS)).max() < 5e-4


def test_packed_experts_give_the_bits_of_dense_ones(synthetic: Callable[..., Path]) -> None:
    for name in ("tiny-mxfp4", "tiny-iq1", "tiny-q8", "tiny"):
        dense, packed = (load_model(synthetic(name), Options(packed=flag)) for flag in (False, True))
        assert torch.equal(_run(dense, 16)[0], _run(packed, 16)[0]), name


def test_bf16_stays_near_the_specification_on_one_token(weights: Callable[..., Weights]) -> None:
    opened = weights("tiny")
    model = Model(opened, Options(numerics=Numerics(torch.bfloat16)))
    reference = Reference(opened)
    close = []
    for token in range(300, 332):
        mine = log_softmax(model.prefill([token], model.new_state(1)).double().numpy()[None])
        close.append(np.abs(mine - log_softmax(reference.logits([token]))).max())
    assert np.median(close) < 1.0
    assert np.median(close) > 1e-4, "bf16 that rounds nothing is not bf16"


def test_decode_continues_a_prefill(model: Model) -> None:
    walk, _ = _run(model, 1)
    state = model.new_state(len(IDS))
    model.prefill(IDS[:20], state, 7)
    steps = [model.decode_one(token, state) for token in IDS[20:]]
    assert torch.equal(torch.stack(steps), walk[20:])
    assert state.position == len(IDS)


def test_requests_do_not_touch_one_another(model: Model) -> None:
    first = model.prefill(IDS, model.new_state(40), 16)
    model.prefill(IDS[::-1], model.new_state(40), 16)
    assert torch.equal(model.prefill(IDS, model.new_state(40), 16), first)


def test_cloned_state_is_independent(model: Model) -> None:
    state = model.new_state(40)
    model.prefill(IDS[:10], state)
    kept = state.clone()
    one = model.decode_one(IDS[10], state)
    model.decode_one(IDS[11], state)
    assert torch.equal(model.decode_one(IDS[10], kept), one)


def test_decode_n_and_generate_choose_the_same_ids(model: Model) -> None:
    ids = list(model.generate(IDS[:5], 8))
    state = model.new_state(20)
    first = Greedy()(model.prefill(IDS[:5], state))
    assert [first, *model.decode_n(first, 7, state)] == ids
    stopped = list(model.generate(IDS[:5], 8, stop=frozenset({ids[3]})))
    assert stopped == ids[: ids.index(ids[3])]


def test_seeded_sampling_repeats_for_its_seed(model: Model) -> None:
    runs = [list(model.generate(IDS[:5], 12, sampler=Seeded(seed, 1.5))) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    with pytest.raises(ValueError, match="temperature"):
        Seeded(1, 0.0)


def test_sampling_follows_the_distribution() -> None:
    logits = torch.log(torch.tensor([0.7, 0.2, 0.1]))
    sampler = Seeded(5, 1.0)
    counts = np.bincount([sampler(logits) for _ in range(4000)], minlength=3) / 4000
    assert np.abs(counts - [0.7, 0.2, 0.1]).max() < 0.03


@pytest.mark.parametrize("sampler", [Greedy(), Seeded(0, 1.0)])
def test_logits_that_are_not_finite_never_become_token_0(sampler: Any) -> None:
    with pytest.raises(ValueError, match="token 2 is nan"):
        sampler(torch.tensor([0.0, 1.0, float("nan")]))


def test_ties_choose_the_lowest_id() -> None:
    assert Greedy()(torch.tensor([0.0, 3.0, 1.0, 3.0])) == 1


@pytest.mark.parametrize(
    ("ids", "chunk", "capacity"),
    [([], 1, 4), ([1], 0, 4), ([512], 1, 4), ([-1], 1, 4), ([1, 2, 3], 1, 2)],
)
def test_misuse_is_refused(ids: list[int], chunk: int, capacity: int, model: Model) -> None:
    with pytest.raises(ValueError, match=r"needed|token ids|no room"):
        model.prefill(ids, model.new_state(capacity), chunk)


def test_no_room_is_told_before_the_state_is_touched(model: Model) -> None:
    state = model.new_state(4)
    with pytest.raises(ValueError, match="no room"):
        model.prefill([1, 2, 3, 4, 5], state, 2)
    assert state.position == 0
    with pytest.raises(ValueError, match="capacity"):
        model.new_state(0)


def test_router_spreads_load_and_says_so(synthetic: Callable[..., Path]) -> None:
    model = load_model(synthetic("tiny"), Options(numerics=Numerics(deterministic=False)))
    model.expert_use = ExpertUse()
    ids = np.random.default_rng(0).integers(256, 500, 256).tolist()
    model.prefill(ids, model.new_state(256), 64)
    use = model.expert_use
    assert use.tokens == 256
    assert use.distinct == 16
    even = 256 * 4 / 16
    assert even < use.max_load < 3 * even
    assert {sum(load.values()) for load in use.loads.values()} == {256 * 4}


def test_biased_router_is_seen_to_crowd(synthetic: Callable[..., Path]) -> None:
    crowded = load_model(synthetic("tiny", bias_scale=0.5), Options(numerics=Numerics(deterministic=False)))
    crowded.expert_use = ExpertUse()
    ids = np.random.default_rng(0).integers(256, 500, 128).tolist()
    crowded.prefill(ids, crowded.new_state(128), 64)
    assert crowded.expert_use.distinct < 16 or crowded.expert_use.max_load > 100


def test_state_bytes_are_those_of_the_state(model: Model) -> None:
    state = model.new_state(50)
    held = sum(
        t.numel() * t.element_size() for part in (state.rows, state.windows, state.memory) for t in part.values()
    )
    assert state_bytes(model.config, 50, element=4).total == held


def test_k3_cache_is_27_648_bytes_a_token() -> None:
    from dataclasses import replace

    from k3_ledger.engine.synth import preset

    config = replace(preset("real-period", layers=93).config())
    assert state_bytes(config, 1, element=2).cache == 27_648
    assert state_bytes(config, 131_072, element=2).cache == int(3.375 * 2**30)
    assert state_bytes(config, 1, element=2).memory == 69 * 96 * 128 * 128 * 4


def test_what_ran_is_counted(synthetic: Callable[..., Path]) -> None:
    model = load_model(synthetic("tiny"))
    model.prefill(IDS[:2], model.new_state(2), 2)
    records = model.runs.records()
    assert {record["backend"] for record in records} == {"naive"}
    assert {"rms_norm", "kda_step", "mla_decode", "experts", "router", "residual_mix"} <= {r["op"] for r in records}


def test_missing_output_gate_changes_the_result_only_when_allowed(
    model: Model, weights: Callable[..., Weights]
) -> None:
    from dataclasses import replace

    opened = weights("tiny")
    without = replace(opened, tensors={n: i for n, i in opened.tensors.items() if "attn_gate" not in n})
    other = Model(without, Options())
    assert not torch.equal(other.prefill(IDS, other.new_state(33)), model.prefill(IDS, model.new_state(33)))


def test_matrix_emulation_rounds_the_activation(weights: Callable[..., Weights]) -> None:
    opened = weights("tiny-q8")
    name = "blk.1.attn_q.weight"
    tensor = torch.from_numpy(opened.load(name))
    x = torch.randn(2, tensor.shape[1], generator=torch.Generator().manual_seed(1))
    storage = opened.tensors[name].storage
    plain, rounded = (Matrix(tensor, storage, Numerics(emulate=flag))(x) for flag in (False, True))
    assert 1e-4 < (plain - rounded).abs().max() < 0.1

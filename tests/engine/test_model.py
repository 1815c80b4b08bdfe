"""The torch path: chunk widths, state, types, sampling, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from k3_ledger.engine.contracts import BIT_IDENTICAL, CONTRACTS, Contract, contract_text
from k3_ledger.engine.fit import state_bytes
from k3_ledger.engine.linear import Matrix, Numerics, dtype_named
from k3_ledger.engine.model import ExpertUse, Model, Options, load_model
from k3_ledger.engine.parity.compare import log_softmax
from k3_ledger.engine.reference import Reference
from k3_ledger.engine.sampling import Greedy, Seeded
from k3_ledger.schemas.errors import ModelError

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


@pytest.mark.parametrize("name", ["tiny", "tiny-q8", "tiny-mxfp4"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fast_path_changes_bits_and_stays_within_its_contract(
    dtype: str, name: str, synthetic: Callable[..., Path]
) -> None:
    """The tolerance contract of docs/engine.md, by type: relative L2, KL, top-1 off near ties."""
    exact, fast = (
        load_model(synthetic(name), Options(numerics=Numerics(dtype_named(dtype), deterministic)))
        for deterministic in (True, False)
    )
    right = _run(exact, 33)[0].double().numpy()
    some = [_run(fast, width)[0].double().numpy() for width in (16, 33)]
    assert not all(np.array_equal(rows, right) for rows in some), "the fast path would then be the deterministic one"
    assert [CONTRACTS[dtype].broken_by(rows, right) for rows in some] == [None, None]
    kept = [CONTRACTS["float32"].broken_by(rows, right) is None for rows in some]
    assert all(kept) == (dtype == "float32"), "each type needs its own"


class OneExpertFewer(Model):
    """A negative control: of each token's experts the last is dropped."""

    def _moe(self, layer: int, z: torch.Tensor) -> torch.Tensor:
        experts = self.experts[layer]
        self.experts[layer] = lambda u, ids, shares: experts(u, ids, shares * (torch.arange(ids.shape[1]) < 3))  # type: ignore[assignment]
        try:
            return super()._moe(layer, z)
        finally:
            self.experts[layer] = experts


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_fast_path_that_drops_an_expert_breaks_either_contract(dtype: str, weights: Callable[..., Weights]) -> None:
    opened, kind = weights("tiny"), dtype_named(dtype)
    right = _run(Model(opened, Options(numerics=Numerics(kind))), 33)[0].double().numpy()
    rows = _run(OneExpertFewer(opened, Options(numerics=Numerics(kind, False))), 33)[0].double().numpy()
    assert str(CONTRACTS[dtype].broken_by(rows, right)).startswith("relative L2")


def test_a_contract_says_what_was_not_kept() -> None:
    held = Contract(relative_l2=1e-2, kl=1e-3, gap=0.1, tenths=9)
    exact = np.random.default_rng(1).normal(0, 1, (20, 64))
    exact[:, 0], exact[:, 1] = 5.0, 4.95

    def after(column: int, by: float, rows: int = 20) -> str | None:
        changed = exact.copy()
        changed[:rows, column] += by
        return held.broken_by(changed, exact)

    assert after(1, 0.04) is None
    assert after(1, 0.06) is None, "another top-1, of two that are nearer than the gap"
    assert str(after(1, 1.0)).startswith("relative L2")
    assert str(replace(held, relative_l2=1.0).broken_by(exact + np.eye(1, 64, 1), exact)).startswith("KL")
    wide = replace(held, relative_l2=1.0, kl=1.0, gap=0.01)
    assert wide.broken_by(exact + 0.06 * np.eye(1, 64, 1), exact) == "another top-1 where 0.05 lie between"
    assert after(1, np.nan, rows=2) is None, "one row of ten"
    assert str(after(1, np.nan, rows=3)).startswith("relative L2")
    assert replace(held, tenths=10).broken_by(exact, exact) is None


def test_a_receipt_names_the_contract() -> None:
    assert contract_text("bfloat16", deterministic=True) == BIT_IDENTICAL
    assert contract_text("float32", deterministic=False).endswith(
        "relative L2 1e-05, KL 1e-08, same top-1 beyond 0.001; every row"
    )
    assert contract_text("bfloat16", deterministic=False).endswith("beyond 0.5; 9 rows of 10")


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
    with pytest.raises(ModelError, match="token 2 is nan"):
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

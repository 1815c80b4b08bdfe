"""A decode step that is recorded once: the bits of one that is not, whichever sequence comes, in whatever place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from k3_ledger.engine import steps
from k3_ledger.engine.linear import Numerics
from k3_ledger.engine.model import ExpertUse, Model, Options
from k3_ledger.engine.sampling import numbers
from k3_ledger.engine.state import SLICE_ROWS
from k3_ledger.engine.walk import Noted, graded_rows, timed_decode, timed_prefill

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from k3_ledger.engine.weights import Weights

IDS = np.random.default_rng(5).integers(256, 500, 21).tolist()
NEXT = np.random.default_rng(6).integers(256, 500, 12).tolist()
GPU = torch.cuda.is_available()
PATHS = pytest.mark.parametrize(
    "numerics",
    [Numerics(kind, exact) for kind in (torch.float32, torch.bfloat16) for exact in (True, False)],
    ids=["float32", "float32-fast", "bfloat16", "bfloat16-fast"],
)
DEVICES = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not GPU, reason="records on a GPU"))]
)


def again(step: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
    """Where nothing can be recorded, a replay takes the step anew, on the same tensors: all but the recording."""
    step()
    out = step()
    return lambda: out.copy_(step()), out


@pytest.fixture
def made(weights: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Model]:
    """A model whose steps are recorded, on a GPU for real."""

    def make(device: str, numerics: Numerics, *, graph: bool = True, **changes: Any) -> Model:
        options = Options(device, numerics)
        if device == "cpu":
            monkeypatch.setattr(steps, "record", again)
        object.__setattr__(options, "graph", graph)
        return Model(weights("tiny", **changes), options)

    return make


def walked(model: Model, state: Any, ids: list[int] = NEXT) -> Tensor:
    """Logits of one step after another."""
    return torch.stack([model.decode_one(token, state) for token in ids])


def parts(state: Any) -> list[Tensor]:
    """Everything that a state keeps, and nothing that was not written."""
    rows = [tensor[:, : state.position] for tensor in state.rows.values()]
    return [*rows, *state.windows.values(), *state.memory.values()]


@DEVICES
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_every_chunk_width_and_a_step_give_the_same_bits(
    device: str, kind: torch.dtype, made: Callable[..., Model]
) -> None:
    model = made(device, Numerics(kind), graph=False)
    with torch.inference_mode():
        walk = model.new_state(40)
        expected = walked(model, walk, IDS)
        for chunk in (1, 2, 7, 9, 17, 64):
            state = model.new_state(40)
            assert torch.equal(model.prefill_rows(IDS, state, chunk), expected)
            assert all(torch.equal(kept, other) for kept, other in zip(parts(state), parts(walk), strict=True))


@DEVICES
@PATHS
def test_recorded_steps_have_the_bits_of_steps_that_are_not(
    device: str, numerics: Numerics, made: Callable[..., Model]
) -> None:
    plain, recorded = (made(device, numerics, graph=graph) for graph in (False, True))
    with torch.inference_mode():
        one, other = (model.new_state(40) for model in (plain, recorded))
        assert torch.equal(plain.prefill(IDS, one, 16), recorded.prefill(IDS, other, 16))
        assert torch.equal(walked(plain, one), walked(recorded, other))
        assert (one.position, one.capacity) == (other.position, other.capacity)
        for kept, expected in zip(parts(other), parts(one), strict=True):
            assert torch.equal(kept, expected)
        # Behind decode, prefill goes on in the tensors that the steps wrote.
        assert torch.equal(plain.prefill(IDS[:5], one, 16), recorded.prefill(IDS[:5], other, 16))
        assert torch.equal(walked(plain, one, NEXT[:2]), walked(recorded, other, NEXT[:2]))


@DEVICES
def test_sequences_take_turns_and_none_sees_another(device: str, made: Callable[..., Model]) -> None:
    plain, recorded = (made(device, Numerics(), graph=graph) for graph in (False, True))
    with torch.inference_mode():
        states = {model: [model.new_state(room) for room in (40, 39, 600)] for model in (plain, recorded)}
        for model, several in states.items():
            for number, state in enumerate(several):
                model.prefill(IDS[number:], state, 16)
        for turn in (0, 1, 0, 2, 1, 2, 0):  # 600 does not fit what 40 was recorded for: recorded anew in between
            expected, found = (walked(model, several[turn], NEXT[:3]) for model, several in states.items())
            assert torch.equal(found, expected), turn
        copies = [several[1].clone() for several in states.values()]
        assert torch.equal(*(walked(model, state) for model, state in zip(states, copies, strict=True)))
        assert torch.equal(*(walked(model, several[1]) for model, several in states.items()))


@DEVICES
def test_a_graded_row_of_decode_has_the_bits_of_the_timed_one(device: str, made: Callable[..., Model]) -> None:
    model = made(device, Numerics(deterministic=False))
    with torch.inference_mode():
        state = model.new_state(40)
        timed_prefill(model, IDS, state, 16)
        ids, logprobs = timed_decode(model, 300, 6, state)
        rows = graded_rows(model, [*IDS, 300, *ids[:-1]], 6, "decode", chunk=16, capacity=40)
        assert rows.argmax(1).tolist() == ids
        assert [float(row.max() - row.logsumexp(0)) for row in rows] == logprobs


@DEVICES
def test_a_timed_decode_feeds_back_what_the_device_chose(
    device: str, made: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, fed = made(device, Numerics()), []
    step = Model.decode_one
    monkeypatch.setattr(Model, "decode_one", lambda self, token, state: fed.append(token) or step(self, token, state))
    with torch.inference_mode():
        state = model.new_state(40)
        first, _ = timed_prefill(model, IDS, state, 16)
        ids, _ = timed_decode(model, first, 6, state)
    assert [type(one) for one in fed] == [int, *[torch.Tensor] * 5]
    assert [int(one) for one in fed] == [first, *ids[:-1]]


@pytest.mark.skipif(not GPU, reason="nothing is waited for without a GPU")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
def test_no_recorded_step_waits_for_the_device(made: Callable[..., Model]) -> None:
    model, noted = made("cuda", Numerics()), Noted()
    with torch.inference_mode():
        state = model.new_state(40)
        model.prefill(IDS, state, 16)
        token = noted(model.decode_one(300, state))  # recorded
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(6):
                token = noted(model.decode_one(token, state))
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert len(noted.logprobs()) == 7


@DEVICES
def test_of_equal_logits_the_lowest_id_is_noted(device: str) -> None:
    noted = Noted()
    logits = torch.zeros(2048, device=device)
    logits[[700, 91, 1999]] = 3.0
    assert int(noted(logits)) == 91
    assert noted.logprobs() == [float(logits[91] - logits.logsumexp(0))]


def test_ids_of_the_host_and_of_the_device_become_numbers() -> None:
    assert numbers([3, torch.tensor(7), 5, torch.tensor(9)]) == [3, 7, 5, 9]
    assert numbers([]) == []


@DEVICES
@pytest.mark.parametrize(("exact", "calls"), [(True, {"kda_step": 2}), (False, {"kda_chunk": 2})])
def test_a_chunk_is_one_call_of_the_recurrence_in_each_layer(
    device: str, exact: bool, calls: dict[str, int], made: Callable[..., Model]
) -> None:
    model = made(device, Numerics(deterministic=exact), graph=False)
    layers = len(model.new_state(1).memory)
    with torch.inference_mode():
        model.prefill(IDS, model.new_state(40), 16)
    ran = {one["op"]: one["calls"] for one in model.runs.records() if str(one["op"]).startswith("kda_")}
    assert ran == {op: many * layers for op, many in calls.items()}


@DEVICES
def test_room_for_more_slices_than_are_filled_changes_no_bit(device: str, made: Callable[..., Model]) -> None:
    plain, recorded = (made(device, Numerics(), graph=graph) for graph in (False, True))
    with torch.inference_mode():
        expected = walked(plain, plain.new_state(len(NEXT)))
        assert torch.equal(walked(recorded, recorded.new_state(3 * SLICE_ROWS + 1)), expected)


def test_a_replay_counts_as_one_step_and_recording_as_none(made: Callable[..., Model]) -> None:
    plain, recorded = (made("cpu", Numerics(), graph=graph) for graph in (False, True))
    walked(plain, plain.new_state(12))
    state = recorded.new_state(12)
    recorded.decode_one(NEXT[0], state)
    assert recorded._steps is not None
    recorded.runs.counts.clear()
    recorded._steps._replay = lambda: None  # what is replayed counts nothing by itself
    walked(recorded, recorded.new_state(12))
    assert recorded.runs.records() == plain.runs.records()


def test_the_spread_over_experts_is_counted_step_by_step(made: Callable[..., Model]) -> None:
    model = made("cpu", Numerics())
    model.expert_use = ExpertUse()
    walked(model, model.new_state(12))
    assert model._steps is None
    assert model.expert_use.tokens == len(NEXT)


def test_a_step_beyond_the_room_or_the_vocabulary_is_refused(made: Callable[..., Model]) -> None:
    model = made("cpu", Numerics())
    state = model.new_state(1)
    with pytest.raises(ValueError, match="token ids are"):
        model.decode_one(512, state)
    model.decode_one(3, state)
    with pytest.raises(ValueError, match="no room"):
        model.decode_one(3, state)


@pytest.mark.parametrize(
    "options",
    [{}, {"device": "cuda", "packed": True}, {"device": "cuda", "numerics": Numerics(emulate=True)}],
    ids=["cpu", "packed", "emulated"],
)
def test_what_asks_the_host_cannot_be_recorded(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="graph needs a CUDA device"):
        Options(**options, graph=True)

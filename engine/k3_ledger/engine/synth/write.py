"""Draws the weights of a synthetic model, straight in their storage type, and streams them to a file.

The same spec gives the same bytes on every machine: raw Philox words (whose stream numpy guarantees), keyed by seed
and tensor name, turned into values by integer sums and single float32 products. Quantised tensors are drawn as
random codes with a fixed scale, so a 1.6-bit K3 needs no quantiser.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from k3_ledger.engine.gguf.quants import E2M1, iq1_s_grid
from k3_ledger.engine.gguf.types import BF16, F16, F32, IQ1_S, MXFP4, Q8_0, Storage
from k3_ledger.engine.gguf.writer import NewTensor, write_gguf
from k3_ledger.engine.tensors import Role, expected_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from k3_ledger.engine.synth.spec import SynthSpec

_CHUNK: Final = 1 << 20
"""Values drawn at once."""
_BLOCK: Final = 4
"""Words that Philox makes at once; a chunk of any storage type takes a multiple of them."""
_THREADS: Final = 8
"""Most threads that draw. Each chunk is 4 to 8 MiB while it is drawn, and at most twice as many are held."""
_SUM_MEAN: Final = 4 * 65_535 // 2
_SUM_DEVIATION: Final = math.sqrt(4 * (65_536**2 - 1) / 12)
_OUTPUT_GAIN: Final = 3.0

Words = npt.NDArray[np.uint64]


class _Stream:
    """Random words of one tensor."""

    def __init__(self, seed: int, name: str, *, skip: int = 0) -> None:
        key = hashlib.sha256(f"k3-ledger synth 1\n{seed}\n{name}\n".encode()).digest()
        self.generator = np.random.Philox(key=np.frombuffer(key[:16], dtype="<u8"))
        self.generator.advance(skip // _BLOCK)  # words that others draw: a whole number of what Philox makes at once

    def words(self, count: int) -> Words:
        return np.asarray(self.generator.random_raw(count), dtype=np.uint64)

    def bell(self, count: int, deviation: float) -> npt.NDArray[np.float32]:
        """``count`` values of mean 0: the sum of four uniform 16-bit integers, scaled by one float32 product."""
        quarters = self.words(count).astype("<u8").view("<u2").reshape(count, 4)
        total = quarters[:, 0].astype(np.int32) + quarters[:, 1] + quarters[:, 2] + quarters[:, 3]
        return np.asarray((total - _SUM_MEAN).astype(np.float32) * np.float32(deviation / _SUM_DEVIATION))

    def flat(self, count: int, low: float, high: float) -> npt.NDArray[np.float32]:
        """``count`` values uniform in [low, high)."""
        top = (self.words(count) >> np.uint64(40)).astype(np.float32)
        return top * np.float32((high - low) / 2**24) + np.float32(low)

    def octets(self, count: int) -> npt.NDArray[np.uint8]:
        return self.words(-(-count // 8)).astype("<u8").view(np.uint8)[:count]


def _deviation(spec: SynthSpec, role: Role) -> float:
    """Standard deviation of a matrix's values: keeps every activation of order one."""
    stem = role.stem
    if stem == "token_embd":
        return 1.0
    gain = {"output": _OUTPUT_GAIN, "ffn_gate_inp": spec.router_gain, "ssm_f_b": 2.0}.get(stem, 1.0)
    if stem in {"attn_q_a", "attn_kv_a_mqa", "attn_q", "attn_k"}:
        gain = spec.projection_scale
    return gain / math.sqrt(role.shape[-1])


def _vector(spec: SynthSpec, role: Role, stream: _Stream) -> npt.NDArray[np.float32]:
    """Values of a tensor that is always F32."""
    count = math.prod(role.shape)
    stem = role.stem
    if stem.endswith("_res_score"):
        return stream.bell(count, 1 / math.sqrt(spec.hidden))
    if stem.startswith("ssm_conv1d_"):
        return stream.bell(count, 0.5)
    if stem == "ssm_a":
        return -stream.flat(count, 0.5, 2.0)
    if stem == "ssm_dt":
        return stream.flat(count, -5.0, 1.0)
    if stem == "exp_probs_b":
        return stream.bell(count, spec.bias_scale)
    return np.float32(1) + stream.bell(count, 0.1)


def _full(stream: _Stream, count: int, deviation: float, storage: Storage) -> bytes:
    values = stream.bell(count, deviation)
    if storage is F16:
        return values.astype("<f2").tobytes()
    if storage is BF16:
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()
    return values.astype("<f4").tobytes()


def _blocks(stream: _Stream, blocks: int, deviation: float, storage: Storage) -> bytes:
    """Random blocks of a quantised type whose values have the wished deviation."""
    out = np.empty((blocks, storage.block_bytes), dtype=np.uint8)
    codes = stream.octets(blocks * storage.block_bytes).reshape(blocks, storage.block_bytes)
    out[:] = codes
    if storage is Q8_0:
        scale = np.float16(deviation / (127 / math.sqrt(3)))
        out[:, 2:][out[:, 2:] == 0x80] = 0x81
    elif storage is MXFP4:
        rms = float(np.sqrt((E2M1.astype(np.float64) ** 2).mean()))
        # Two neighbouring exponents, so that scales differ between blocks.
        base = round(math.log2(deviation / rms)) + 127
        out[:, 0] = base + (codes[:, 0] & 1)
        return out.tobytes()
    else:
        assert storage is IQ1_S
        grid = iq1_s_grid().astype(np.float64)
        steps = (2 * np.arange(8) + 1.0) ** 2
        rms = math.sqrt(float(steps.mean()) * float((grid**2).mean() + 0.125**2))
        scale = np.float16(deviation / rms)
    out[:, :2] = np.frombuffer(scale.astype("<f2").tobytes(), dtype=np.uint8)
    return out.tobytes()


def _chunks(spec: SynthSpec, role: Role, storage: Storage) -> Callable[[], Iterator[bytes]]:
    def generate() -> Iterator[bytes]:
        stream = _Stream(spec.seed, role.name)
        if role.full and role.stem != "ffn_gate_inp":
            yield _vector(spec, role, stream).astype("<f4").tobytes()
            return
        deviation = _deviation(spec, role)
        total = math.prod(role.shape)
        words = _CHUNK if storage.block == 1 else _CHUNK // storage.block * storage.block_bytes // 8

        def draw(at: int) -> bytes:
            stream = _Stream(spec.seed, role.name, skip=at * words)
            count = min(_CHUNK, total - at * _CHUNK)
            if storage.block == 1:
                return _full(stream, count, deviation, storage)
            return _blocks(stream, count // storage.block, deviation, storage)

        yield from _in_order(draw, -(-total // _CHUNK))

    return generate


def _in_order(draw: Callable[[int], bytes], count: int) -> Iterator[bytes]:
    """``draw(0)`` to ``draw(count - 1)``, drawn on every core, a few ahead: numpy draws without the lock."""
    if count == 1:
        yield draw(0)
        return
    threads = min(_THREADS, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[bytes]] = deque()
        for at in range(count):
            ahead.append(pool.submit(draw, at))
            if len(ahead) > 2 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _storage(spec: SynthSpec, role: Role) -> Storage:
    if role.full:
        return F32
    name = spec.expert_storage if role.stem.endswith("_exps") else spec.storage
    return {s.name: s for s in (F32, F16, BF16, Q8_0, MXFP4, IQ1_S)}[name]


def write_synthetic(spec: SynthSpec, path: Path, *, progress: Callable[[int], None] = lambda _written: None) -> int:
    """Writes the model and returns the file's size in bytes.

    Args:
        spec: what to write.
        path: target file.
        progress: told the bytes of tensor data written since its last call.
    """
    tensors = []
    for role in expected_tensors(spec.config()):
        storage = _storage(spec, role)
        tensors.append(NewTensor(role.name, role.shape, storage, _chunks(spec, role, storage)))
    return write_gguf(path, spec.header(), tensors, progress=progress)


def synthetic_size(spec: SynthSpec) -> int:
    """Bytes of tensor data that :func:`write_synthetic` would write."""
    return sum(
        math.prod(role.shape[:-1]) * _storage(spec, role).row_bytes(role.shape[-1])
        for role in expected_tensors(spec.config())
    )

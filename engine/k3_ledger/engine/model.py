"""A loaded K3 model and its four functions: ``prefill``, ``decode_one``, ``decode_n``, ``generate``.

Prefill walks layers outside and tokens inside a chunk; a residual bank lives for one chunk. Two contracts, and a
record says which one ran:

*Bit-identical* (``deterministic``): the output for any chunk width equals the one-token walk, bit for bit. No product
of a token depends on the others of its chunk, attention reads the cache token by token, KDA is the token recurrence.

*Tolerance* (fast): products take a chunk at once, attention is expanded for long chunks and KDA runs in chunks of
16. Relative L2, KL and top-1 against the deterministic path are bounded by tests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import torch

from k3_ledger.engine.config import Epsilons, K3Config
from k3_ledger.engine.experts import Experts
from k3_ledger.engine.linear import Matrix, Numerics
from k3_ledger.engine.reference import SMALLEST_SUM
from k3_ledger.engine.sampling import Chosen, Greedy, Sampler, numbers
from k3_ledger.engine.state import SLICE_ROWS, State, new_state
from k3_ledger.engine.steps import Steps
from k3_ledger.engine.weights import Weights, open_weights
from k3_ledger.kernels.dispatch import Backend, Runs, select
from k3_ledger.schemas.models import ExpertLoad

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

EXPANDED_TOKENS: Final = 32
"""Chunks of at least this many tokens attend in expanded form on the fast path."""


@dataclass
class ExpertUse:
    """How routing spread, per MoE layer, since the last reset."""

    tokens: int = 0
    loads: dict[int, Counter[int]] = field(default_factory=dict)

    def add(self, layer: int, ids: Tensor) -> None:
        """Counts the chosen experts of one chunk."""
        self.loads.setdefault(layer, Counter()).update(ids.flatten().tolist())

    @property
    def distinct(self) -> int:
        """Experts used by the layer that used fewest."""
        return min((len(load) for load in self.loads.values()), default=0)

    @property
    def max_load(self) -> int:
        """Tokens sent to the busiest expert of any layer."""
        return max((max(load.values()) for load in self.loads.values()), default=0)

    def record(self, experts: int) -> ExpertLoad:
        """As a receipt holds it."""
        return ExpertLoad(experts=experts, distinct=self.distinct, max_load=self.max_load, tokens=self.tokens)


@dataclass(frozen=True)
class Options:
    """How to load and run a model.

    Attributes:
        device: torch device name.
        numerics: types and rounding.
        backend: kernels: ``naive``, ``triton`` or ``auto``.
        packed: keep routed experts as stored bytes.
        epsilons: preset name, ``gguf`` or ``hf``.
        graph: record a decode step once and replay it (:mod:`k3_ledger.engine.steps`): the same bits, one launch.
    """

    device: str = "cpu"
    numerics: Numerics = field(default_factory=Numerics)
    backend: Backend = "auto"
    packed: bool = False
    epsilons: str = "gguf"
    graph: bool = False

    def __post_init__(self) -> None:
        if self.graph and (not self.device.startswith("cuda") or self.packed or self.numerics.emulate):
            raise ValueError("graph needs a CUDA device, and neither packed experts nor emulation: both ask the host")


class Model:
    """Weights on a device. Not thread-safe; one sequence a call."""

    def __init__(self, weights: Weights, options: Options) -> None:
        self.config: K3Config = weights.config
        self.options = options
        self.numerics = options.numerics
        self.device = torch.device(options.device)
        self.epsilons = Epsilons.preset(options.epsilons, weights.config.epsilon)
        self.runs = Runs()
        self.expert_use: ExpertUse | None = None
        self._steps: Steps | None = None
        self.experts: dict[int, Experts] = {}
        self.matrices: dict[str, Matrix] = {}
        self.vectors: dict[str, Tensor] = {}
        self._load(weights)

    def _load(self, weights: Weights) -> None:
        for name in weights.tensors:
            if "_exps." not in name:
                self._keep(weights, name)
        for layer in range(self.config.layers):
            if not self.config.mla[layer]:
                streams = [self.vectors.pop(f"blk.{layer}.ssm_conv1d_{s}.weight") for s in "qkv"]
                taps = torch.cat([s.reshape(self.config.inner, self.config.taps) for s in streams])
                self.vectors[f"blk.{layer}.conv"] = taps.contiguous()
            if self.config.is_moe(layer):
                self.experts[layer] = Experts(
                    weights,
                    layer,
                    device=self.device,
                    numerics=self.numerics,
                    packed=self.options.packed,
                    backend=self.options.backend,
                    runs=self.runs,
                )

    def _keep(self, weights: Weights, name: str) -> None:
        """One tensor, of whose float32 nothing is left behind it where it is kept in another type."""
        info = weights.tensors[name]
        tensor = torch.from_numpy(weights.load(name)).to(self.device)
        if "ffn_gate_inp" in name:
            full = Numerics(torch.float32, self.numerics.deterministic, self.numerics.emulate)
            self.matrices[name] = Matrix(tensor, info.storage, full, self.options.backend, self.runs)
        elif len(info.shape) > 1 and "ssm_conv1d" not in name:
            dtype = torch.float32 if name == "token_embd.weight" else self.numerics.dtype
            self.matrices[name] = Matrix(
                tensor.to(dtype).contiguous(), info.storage, self.numerics, self.options.backend, self.runs
            )
        else:
            self.vectors[name] = tensor

    # ----------------------------------------------------------------------------------------------- functions

    def new_state(self, capacity: int) -> State:
        """An empty state with room for ``capacity`` tokens."""
        return new_state(self.config, capacity, device=self.device, dtype=self.numerics.dtype)

    def prefill(self, ids: Sequence[int], state: State, chunk: int = 64) -> Tensor:
        """Takes a prompt in chunks and returns the float32 logits ``[V]`` after its last token.

        Args:
            ids: at least one token id.
            state: continued in place.
            chunk: tokens taken together, at least 1; any width gives the same result on the deterministic path.

        Raises:
            ValueError: no ids, an id outside the vocabulary, a chunk below 1, or no room left.
        """
        hidden = None
        for part in self._parts(ids, state, chunk):
            hidden = self._take(part, state)[-1:]
        assert hidden is not None
        return self._head(hidden)[0]

    def prefill_rows(self, ids: Sequence[int], state: State, chunk: int = 64) -> Tensor:
        """As :meth:`prefill`, with the logits after every token: ``[len(ids), V]``."""
        return torch.cat([self._head(self._take(part, state)) for part in self._parts(ids, state, chunk)])

    def decode_one(self, token: Chosen, state: State) -> Tensor:
        """Takes one token and returns the float32 logits ``[V]`` of the next.

        A recorded step takes an id that was chosen on the device from there: the host waits for nothing.
        """
        if not self.options.graph or self.expert_use is not None:
            return self.prefill([int(token)], state, 1)
        # The same refusals; an id that the device chose among logits is one of the vocabulary.
        next(self._parts([token if isinstance(token, int) else 0], state, 1))
        if self._steps is None or self._steps.capacity < state.capacity:
            self._steps = Steps(self, state.capacity)
        return self._steps(token, state)

    def step(self, token: Tensor, state: State) -> Tensor:
        """One token ``[1]`` that is on the device, at a state's ``place``: nothing in it waits for the host."""
        return self._head(self._stack(token, state))[0]

    def decode_n(self, token: int, count: int, state: State, sampler: Sampler | None = None) -> list[int]:
        """Takes ``token`` and goes on for ``count`` steps, each feeding the id it chose; returns the chosen ids."""
        sampler = sampler or Greedy()
        out: list[Chosen] = [token]
        for _ in range(count):
            out.append(sampler(self.decode_one(out[-1], state)))
        return numbers(out[1:])

    def generate(
        self,
        ids: Sequence[int],
        count: int,
        *,
        sampler: Sampler | None = None,
        stop: frozenset[int] = frozenset(),
        chunk: int = 64,
    ) -> Iterator[int]:
        """Yields up to ``count`` ids after a prompt; an id of ``stop`` ends it and is not yielded."""
        sampler = sampler or Greedy()
        state = self.new_state(len(ids) + count)
        logits = self.prefill(ids, state, chunk)
        for step in range(count):
            token = int(sampler(logits))
            if token in stop:
                return
            yield token
            if step + 1 < count:
                logits = self.decode_one(token, state)

    def _parts(self, ids: Sequence[int], state: State, chunk: int) -> Iterator[Sequence[int]]:
        if chunk < 1 or not ids:
            raise ValueError("a prompt of at least one token and a chunk of at least 1 are needed")
        if min(ids) < 0 or max(ids) >= self.config.vocabulary:
            raise ValueError(f"token ids are 0 to {self.config.vocabulary - 1}")
        if state.position + len(ids) > state.capacity:
            raise ValueError(f"no room for {len(ids)} tokens after {state.position}: capacity {state.capacity}")
        for begin in range(0, len(ids), chunk):
            yield ids[begin : begin + chunk]

    # --------------------------------------------------------------------------------------------------- layers

    def _norm(self, name: str, x: Tensor, epsilon: float, gate: Tensor | None = None) -> Tensor:
        operation = select("rms_norm", self.options.backend, runs=self.runs)
        out: Tensor = operation(x.contiguous(), self.vectors[name], eps=epsilon, gate=gate)
        return out

    def _mix(self, bank: Tensor, count: int, x: Tensor, name: str) -> Tensor:
        operation = select("residual_mix", self.options.backend, runs=self.runs)
        out: Tensor = operation(bank, x, self.vectors[name], count=count, eps=self.epsilons.norm)
        return out

    def _take(self, ids: Sequence[int], state: State) -> Tensor:
        """One chunk: see :meth:`_stack`."""
        hidden = self._stack(torch.tensor(ids, device=self.device), state)
        state.position += len(ids)
        if self.expert_use is not None:
            self.expert_use.tokens += len(ids)
        return hidden

    def _stack(self, index: Tensor, state: State) -> Tensor:
        """One chunk of ids through every layer; returns the normed hidden rows ``[T, H]`` before the head."""
        c = self.config
        x = self.matrices["token_embd.weight"].weight[index]
        # The bank is new for every chunk; slots that are not sealed yet hold NaN, so that a read of one shows.
        bank = torch.full((c.banks, *x.shape), torch.nan, device=self.device)
        count = 0
        for layer in range(c.layers):
            prefix = f"blk.{layer}."
            a = self._mix(bank, count, x, f"{prefix}attn_res_score.weight")
            sealed = layer % c.bank_stride == 0
            if sealed:
                bank[count] = x
                count += 1
            z = self._norm(f"{prefix}attn_norm.weight", a, self.epsilons.norm)
            y = self._mla(layer, z, state) if c.mla[layer] else self._kda(layer, z, state)
            x = y if sealed else x + y
            b = self._mix(bank, count, x, f"{prefix}ffn_res_score.weight")
            z = self._norm(f"{prefix}ffn_norm.weight", b, self.epsilons.norm)
            x = x + (self._moe(layer, z) if c.is_moe(layer) else self._mlp(prefix, "", z))
        x = self._mix(bank, count, x, "output_res_score.weight")
        return self._norm("output_norm.weight", x, self.epsilons.norm)

    def _head(self, hidden: Tensor) -> Tensor:
        return self.matrices["output.weight"](hidden)

    def _kda(self, layer: int, z: Tensor, state: State) -> Tensor:
        c, prefix = self.config, f"blk.{layer}."
        tokens = z.shape[0]
        streams = torch.cat([self.matrices[f"{prefix}attn_{s}.weight"](z) for s in "qkv"], dim=1)
        convolve = select("conv", self.options.backend, runs=self.runs)
        streams = convolve(streams[None].contiguous(), state.windows[layer], self.vectors[f"{prefix}conv"])
        q, k, v = (s.reshape(1, tokens, c.heads, c.head) for s in streams.split(c.inner, dim=2))
        low = self.matrices[f"{prefix}ssm_f_a.weight"](z)
        f = self.matrices[f"{prefix}ssm_f_b.weight"](low).reshape(1, tokens, c.heads, c.head)
        beta = self.matrices[f"{prefix}ssm_beta.weight"](z)[None]
        arguments = (q.contiguous(), k.contiguous(), v.contiguous(), f, beta)
        # The step takes a chunk in one call: it rounds the carried state once a token, however many there are.
        stepped = self.numerics.deterministic or tokens == 1
        out = self._recur("kda_step" if stepped else "kda_chunk", layer, arguments, state)[0]
        gate = self.matrices[f"{prefix}ssm_g.weight"](z).reshape(tokens, c.heads, c.head)
        out = self._norm(f"{prefix}ssm_norm.weight", out, self.epsilons.norm, gate)
        return self.matrices[f"{prefix}attn_output.weight"](out.reshape(tokens, c.inner))

    def _recur(self, name: str, layer: int, arguments: tuple[Tensor, ...], state: State) -> Tensor:
        """The KDA recurrence over ``[1, T, heads, …]`` arguments, updating the layer's memory in place."""
        c = self.config
        out: Tensor = select(name, self.options.backend, runs=self.runs)(
            *arguments,
            a=self.vectors[f"blk.{layer}.ssm_a"],
            dt_bias=self.vectors[f"blk.{layer}.ssm_dt.bias"].reshape(c.heads, c.head),
            state=state.memory[layer],
            lower_bound=c.gate_bound,
            l2_eps=self.epsilons.l2,
        )
        return out

    def _mla(self, layer: int, z: Tensor, state: State) -> Tensor:
        c, prefix = self.config, f"blk.{layer}."
        tokens, start = z.shape[0], state.position
        low = self.matrices[f"{prefix}attn_q_a.weight"](z)
        low = self._norm(f"{prefix}attn_q_a_norm.weight", low, self.epsilons.lora)
        q = self.matrices[f"{prefix}attn_q_b.weight"](low).reshape(tokens, c.heads, c.nope + c.rope)
        row = self.matrices[f"{prefix}attn_kv_a_mqa.weight"](z)
        latent = self._norm(f"{prefix}attn_kv_a_norm.weight", row[:, : c.kv_rank], self.epsilons.lora)
        cache = state.rows[layer]
        # Every row of the chunk is written before any token attends; each token sees its own prefix.
        kept = torch.cat([latent, row[:, c.kv_rank :]], dim=1).to(cache.dtype)
        if state.place is not None:
            # Slices of the cache past the length are empty, and those add nothing: the bits of the branches below.
            out = self._absorbed(prefix, q, cache.index_copy_(1, state.place, kept[None]), state.place[None] + 1)
            return self._gated(prefix, z, out)
        cache[0, start : start + tokens] = kept
        if self.numerics.deterministic or tokens < EXPANDED_TOKENS:
            lengths = torch.arange(start + 1, start + tokens + 1, device=self.device)[None]
            out = self._absorbed(prefix, q, cache[:, : start + tokens], lengths)
        else:
            out = self._expanded(prefix, q, cache, start)
        return self._gated(prefix, z, out)

    def _gated(self, prefix: str, z: Tensor, out: Tensor) -> Tensor:
        """What attention gives back of ``[T, heads, value]``."""
        out = out.flatten(1)
        gate = self.matrices.get(f"{prefix}attn_gate.weight")
        if gate is not None:
            out = out * gate(z).sigmoid()
        return self.matrices[f"{prefix}attn_output.weight"](out)

    def _absorbed(self, prefix: str, q: Tensor, cache: Tensor, lengths: Tensor) -> Tensor:
        """Attention in the latent space, each token over ``lengths`` rows of the cache: ``[T, heads, value]``."""
        c = self.config
        nope = self.matrices[f"{prefix}attn_k_b.weight"].per_head(q[..., : c.nope])
        query = torch.cat([nope, q[..., c.nope :]], dim=2)[None].to(cache.dtype)
        latent = select("mla_decode", self.options.backend, runs=self.runs)(
            query.contiguous(),
            cache,
            lengths,
            value_dim=c.kv_rank,
            scale=(c.nope + c.rope) ** -0.5,
            slice_rows=SLICE_ROWS,
        )[0]
        return self.matrices[f"{prefix}attn_v_b.weight"].per_head(latent.float())

    def _expanded(self, prefix: str, q: Tensor, cache: Tensor, start: int) -> Tensor:
        """Attention over keys and values expanded from the latent: ``[T, heads, value]``."""
        c, rows = self.config, start + q.shape[0]
        latent = cache[0, :rows, : c.kv_rank]
        key = torch.einsum("hrn,sr->shn", self.matrices[f"{prefix}attn_k_b.weight"].weight, latent)
        value = torch.einsum("hvr,sr->shv", self.matrices[f"{prefix}attn_v_b.weight"].weight, latent)
        out: Tensor = select("mla_prefill", self.options.backend, runs=self.runs)(
            q[None].to(cache.dtype).contiguous(),
            key[None].contiguous(),
            cache[:, :rows, c.kv_rank :].contiguous(),
            value[None].contiguous(),
            start=start,
            scale=(c.nope + c.rope) ** -0.5,
        )
        return out[0].float()

    def _mlp(self, prefix: str, suffix: str, x: Tensor) -> Tensor:
        gate = self.matrices[f"{prefix}ffn_gate{suffix}.weight"](x)
        up = self.matrices[f"{prefix}ffn_up{suffix}.weight"](x)
        inner = select("situ", self.options.backend, runs=self.runs)(
            gate, up, beta=self.config.situ_beta, linear_beta=max(self.config.situ_linear_beta, 0.0)
        )
        return self.matrices[f"{prefix}ffn_down{suffix}.weight"](inner)

    def _moe(self, layer: int, z: Tensor) -> Tensor:
        c, prefix = self.config, f"blk.{layer}."
        ids, shares = select("router", self.options.backend, runs=self.runs)(
            self.matrices[f"{prefix}ffn_gate_inp.weight"](z),
            self.vectors[f"{prefix}exp_probs_b.bias"],
            top_k=c.top_k,
            renormalise=c.renormalise,
            scale=c.expert_scale,
            min_sum=SMALLEST_SUM,
        )
        if self.expert_use is not None:
            self.expert_use.add(layer, ids)
        total = self.experts[layer](self.matrices[f"{prefix}ffn_routed_down.weight"](z), ids, shares)
        if f"{prefix}ffn_routed_norm.weight" in self.vectors:
            total = self._norm(f"{prefix}ffn_routed_norm.weight", total, self.epsilons.norm)
        routed = self.matrices[f"{prefix}ffn_routed_up.weight"](total)
        if f"{prefix}ffn_gate_shexp.weight" not in self.matrices:
            return routed
        return routed + self._mlp(prefix, "_shexp", z)


def load_model(path: Path, options: Options | None = None, *, allow_missing: frozenset[str] = frozenset()) -> Model:
    """Opens, checks and loads a model file.

    Raises:
        ModelError: the file is not a whole, finite K3 model.
    """
    with open_weights(path, allow_missing=allow_missing) as weights:
        return Model(weights, options or Options())

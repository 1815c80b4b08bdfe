"""The forward pass in float64 and numpy, one token at a time: the specification in code.

Written to be read beside ``docs/engine.md``, not to be fast. Every step is a small method, so that a test can swap
one for a wrong variant and see the parity check fail. Shapes are given without batch: ``x`` is ``[H]``, the KDA
state ``[heads, key, value]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from k3_ledger.engine.config import Epsilons, K3Config
from k3_ledger.engine.gguf.quants import round_activations
from k3_ledger.engine.gguf.types import F32, Storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.engine.weights import Weights

Array = npt.NDArray[np.float64]
SMALLEST_SUM: Final = 6.103515625e-05
"""Floor of the sum that expert weights are divided by: the smallest normal float16, as llama.cpp has it."""


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def silu(x: Array) -> Array:
    """x·σ(x)."""  # noqa: RUF002 (the field's symbol)
    return x * sigmoid(x)


def rms(x: Array, weight: Array | float, epsilon: float) -> Array:
    """Weight ⊙ x / sqrt(mean(x²) + ε) over the last axis."""
    return np.asarray(weight * x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon))


def softmax(scores: Array) -> Array:
    """Softmax over the last axis."""
    top = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(top / top.sum(axis=-1, keepdims=True))


@dataclass
class ReferenceState:
    """What one sequence keeps between tokens.

    Attributes:
        position: tokens taken so far.
        rows: per MLA layer, the cached rows ``[kv_rank + rope]``.
        windows: per KDA layer and stream, the last ``taps - 1`` projections, oldest first, ``[taps - 1, inner]``.
        memory: per KDA layer, ``[heads, key, value]``.
    """

    position: int = 0
    rows: dict[int, list[Array]] = field(default_factory=dict)
    windows: dict[tuple[int, str], Array] = field(default_factory=dict)
    memory: dict[int, Array] = field(default_factory=dict)


class Reference:
    """A model whose every weight is a float64 array.

    Args:
        weights: a checked file.
        epsilons: see :class:`~k3_ledger.engine.config.Epsilons`; the file's value everywhere when not given.
        emulate: round activations as llama.cpp's CPU kernels do for each weight's storage type.
    """

    def __init__(self, weights: Weights, *, epsilons: Epsilons | None = None, emulate: bool = False) -> None:
        self.config: K3Config = weights.config
        self.epsilons = epsilons or Epsilons.preset("gguf", weights.config.epsilon)
        self.emulate = emulate
        self.storage: dict[str, Storage] = {name: info.storage for name, info in weights.tensors.items()}
        self.weights: dict[str, Array] = {name: weights.load(name).astype(np.float64) for name in weights.tensors}

    # ---------------------------------------------------------------------------------------------- primitives

    def rounded(self, name: str, x: Array) -> Array:
        """``x`` as the kernel of this weight's storage type sees it."""
        if not self.emulate or self.storage[name] is F32:
            return x
        return round_activations(x, self.storage[name]).astype(np.float64)

    def linear(self, name: str, x: Array) -> Array:
        """W·x for ``[out, in]`` and ``[in]``."""
        return np.asarray(self.weights[name] @ self.rounded(name, x))

    def situ(self, gate: Array, up: Array) -> Array:
        """β·tanh(g/β)·σ(g) · β_lin·tanh(u/β_lin); the gate branch alone has the sigmoid."""  # noqa: RUF002 (the field's symbol)
        beta, linear = self.config.situ_beta, self.config.situ_linear_beta
        if linear > 0:
            up = linear * np.tanh(up / linear)
        return np.asarray(beta * np.tanh(gate / beta) * sigmoid(gate) * up)

    def l2(self, x: Array) -> Array:
        """X / sqrt(Σx² + ε): ε on the sum."""
        return np.asarray(x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + self.epsilons.l2))

    def mix(self, bank: Sequence[Array], x: Array, score: Array) -> Array:
        """Softmax-weighted sum of the banked residuals and ``x``, scored normalised, summed raw."""
        if not bank:
            return x
        candidates = np.stack([*bank, x])
        scores = rms(candidates, 1.0, self.epsilons.norm) @ score
        return np.asarray(softmax(scores) @ candidates)

    # --------------------------------------------------------------------------------------------------- layers

    def convolve(self, layer: int, stream: str, x: Array, state: ReferenceState) -> Array:
        """Causal depthwise convolution, silu after it; the current sample has the last tap."""
        taps = self.config.taps
        key = (layer, stream)
        past = state.windows.get(key, np.zeros((taps - 1, self.config.inner)))
        window = np.concatenate([past, x[None]])
        state.windows[key] = window[1:]
        weight = self.weights[f"blk.{layer}.ssm_conv1d_{stream}.weight"].reshape(self.config.inner, taps)
        return silu((weight.T * window).sum(axis=0))

    def decay(self, layer: int, z: Array) -> Array:
        """Log decay ``[heads, key]``: in [gate_bound, 0), or minus infinity to 0 for the softplus gate."""
        c, prefix = self.config, f"blk.{layer}."
        f = self.linear(f"{prefix}ssm_f_b.weight", self.linear(f"{prefix}ssm_f_a.weight", z))
        f = (f + self.weights[f"{prefix}ssm_dt.bias"]).reshape(c.heads, c.head)
        rate = -self.weights[f"{prefix}ssm_a"][:, None]  # the file holds -exp(A_log)
        if c.gate_bound is None:
            return np.asarray(-rate * np.logaddexp(0, f))
        return c.gate_bound * sigmoid(rate * f)

    def delta_rule(self, memory: Array, *, q: Array, k: Array, v: Array, g: Array, beta: Array) -> tuple[Array, Array]:
        """One step of the recurrence: decay rows, read, correct, write, read again. Returns memory and output."""
        memory = np.exp(g)[:, :, None] * memory
        read = np.einsum("hk,hkv->hv", k, memory)
        correction = beta[:, None] * (v - read)
        memory = memory + k[:, :, None] * correction[:, None, :]
        return memory, np.einsum("hk,hkv->hv", q, memory)

    def kda(self, layer: int, z: Array, state: ReferenceState) -> Array:
        """Kimi Delta Attention with its output projection."""
        c, prefix = self.config, f"blk.{layer}."
        q, k, v = (
            self.convolve(layer, s, self.linear(f"{prefix}attn_{s}.weight", z), state).reshape(c.heads, c.head)
            for s in "qkv"
        )
        q, k = self.l2(q) / np.sqrt(c.head), self.l2(k)
        beta = sigmoid(self.linear(f"{prefix}ssm_beta.weight", z))
        memory = state.memory.get(layer, np.zeros((c.heads, c.head, c.head)))
        state.memory[layer], out = self.delta_rule(memory, q=q, k=k, v=v, g=self.decay(layer, z), beta=beta)
        return self.linear(f"{prefix}attn_output.weight", self.kda_output(layer, out, z))

    def kda_output(self, layer: int, out: Array, z: Array) -> Array:
        """RMS over each head with one shared weight, then the sigmoid gate, flattened head-major."""
        prefix = f"blk.{layer}."
        normed = rms(out, self.weights[f"{prefix}ssm_norm.weight"], self.epsilons.norm)
        return normed.reshape(-1) * sigmoid(self.linear(f"{prefix}ssm_g.weight", z))

    def mla_scale(self) -> float:
        """Softmax scale: by the expanded key size, not by the cached row's."""
        return float(1 / np.sqrt(self.config.nope + self.config.rope))

    def cache_row(self, layer: int, z: Array) -> Array:
        """The row kept for this position: normed latent, then the key part as it is. Nothing is rotated."""
        c, prefix = self.config, f"blk.{layer}."
        row = self.linear(f"{prefix}attn_kv_a_mqa.weight", z)
        latent = rms(row[: c.kv_rank], self.weights[f"{prefix}attn_kv_a_norm.weight"], self.epsilons.lora)
        return np.concatenate([latent, row[c.kv_rank :]])

    def attend(self, q: Array, rows: Array) -> Array:
        """Weighted latents ``[heads, kv_rank]`` for absorbed queries ``[heads, row]`` over cached ``[T, row]``."""
        p = softmax(q @ rows.T * self.mla_scale())
        return np.asarray(p @ rows[:, : self.config.kv_rank])

    def mla_gate(self, layer: int, out: Array, z: Array) -> Array:
        """Output gate, from the normed layer input."""
        name = f"blk.{layer}.attn_gate.weight"
        return out * sigmoid(self.linear(name, z)) if name in self.weights else out

    def mla(self, layer: int, z: Array, state: ReferenceState) -> Array:
        """Multi-head latent attention without positions, absorbed, with its output projection."""
        c, prefix = self.config, f"blk.{layer}."
        low = self.linear(f"{prefix}attn_q_a.weight", z)
        low = rms(low, self.weights[f"{prefix}attn_q_a_norm.weight"], self.epsilons.lora)
        q = self.linear(f"{prefix}attn_q_b.weight", low).reshape(c.heads, c.nope + c.rope)
        name = f"{prefix}attn_k_b.weight"
        absorbed = np.einsum("hrn,hn->hr", self.weights[name], self.rounded(name, q[:, : c.nope]))
        rows = state.rows.setdefault(layer, [])
        rows.append(self.cache_row(layer, z))
        latent = self.attend(np.concatenate([absorbed, q[:, c.nope :]], axis=1), np.stack(rows))
        name = f"{prefix}attn_v_b.weight"
        out = np.einsum("hvr,hr->hv", self.weights[name], self.rounded(name, latent)).reshape(-1)
        return self.linear(f"{prefix}attn_output.weight", self.mla_gate(layer, out, z))

    def mlp(self, prefix: str, suffix: str, x: Array) -> Array:
        """down·situ(gate·x, up·x)."""
        inner = self.situ(
            self.linear(f"{prefix}ffn_gate{suffix}.weight", x), self.linear(f"{prefix}ffn_up{suffix}.weight", x)
        )
        return self.linear(f"{prefix}ffn_down{suffix}.weight", inner)

    def route(self, layer: int, z: Array) -> tuple[npt.NDArray[np.intp], Array]:
        """Chosen experts and their weights. The bias takes part in the choice and never in the weight."""
        c, prefix = self.config, f"blk.{layer}."
        p = sigmoid(self.linear(f"{prefix}ffn_gate_inp.weight", z))
        # Stable sort of the negated scores: of equal scores the lower expert comes first.
        chosen = np.argsort(-(p + self.weights[f"{prefix}exp_probs_b.bias"]), kind="stable")[: c.top_k]
        weights = p[chosen]
        if c.renormalise:
            weights = weights / max(float(weights.sum()), SMALLEST_SUM)
        return chosen, weights * c.expert_scale

    def expert(self, layer: int, expert: int, u: Array) -> Array:
        """One routed expert on the latent input."""
        prefix = f"blk.{layer}."
        gate, up, down = (f"{prefix}ffn_{part}_exps.weight" for part in ("gate", "up", "down"))
        inner = self.situ(
            self.weights[gate][expert] @ self.rounded(gate, u), self.weights[up][expert] @ self.rounded(up, u)
        )
        return np.asarray(self.weights[down][expert] @ self.rounded(down, inner))

    def moe(self, layer: int, z: Array) -> Array:
        """Routed experts in the latent space, normed after their sum; the shared expert reads the full input."""
        prefix = f"blk.{layer}."
        chosen, weights = self.route(layer, z)
        u = self.linear(f"{prefix}ffn_routed_down.weight", z)
        total = np.zeros(self.config.latent)
        for expert, weight in zip(chosen, weights, strict=True):
            total = total + weight * self.expert(layer, int(expert), u)
        norm = self.weights.get(f"{prefix}ffn_routed_norm.weight")
        routed = self.linear(
            f"{prefix}ffn_routed_up.weight", total if norm is None else rms(total, norm, self.epsilons.norm)
        )
        if f"{prefix}ffn_gate_shexp.weight" not in self.weights:
            return routed
        return routed + self.mlp(prefix, "_shexp", z)

    # ---------------------------------------------------------------------------------------------------- stack

    def bank(self, layer: int, bank: list[Array], x: Array) -> bool:
        """Seals the raw layer input on every ``bank_stride``-th layer; returns whether it did."""
        if layer % self.config.bank_stride:
            return False
        bank.append(x)
        return True

    def layer(self, layer: int, x: Array, bank: list[Array], state: ReferenceState) -> Array:
        """One layer: mix, attend, mix, feed forward."""
        c, w, prefix = self.config, self.weights, f"blk.{layer}."
        a = self.mix(bank, x, w[f"{prefix}attn_res_score.weight"])
        sealed = self.bank(layer, bank, x)
        z = rms(a, w[f"{prefix}attn_norm.weight"], self.epsilons.norm)
        y = self.mla(layer, z, state) if c.mla[layer] else self.kda(layer, z, state)
        x = y if sealed else x + y
        b = self.mix(bank, x, w[f"{prefix}ffn_res_score.weight"])
        z = rms(b, w[f"{prefix}ffn_norm.weight"], self.epsilons.norm)
        return x + (self.moe(layer, z) if c.is_moe(layer) else self.mlp(prefix, "", z))

    def step(self, token: int, state: ReferenceState) -> Array:
        """Takes one token and returns the logits ``[V]`` of the next."""
        x = self.weights["token_embd.weight"][token]
        bank: list[Array] = []
        for layer in range(self.config.layers):
            x = self.layer(layer, x, bank, state)
        state.position += 1
        h = self.mix(bank, x, self.weights["output_res_score.weight"])
        h = rms(h, self.weights["output_norm.weight"], self.epsilons.norm)
        return self.linear("output.weight", h)

    def logits(self, ids: Sequence[int]) -> Array:
        """Logits after every token of ``ids``, ``[len(ids), V]``, from an empty state."""
        state = ReferenceState()
        return np.stack([self.step(token, state) for token in ids])

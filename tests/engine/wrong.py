"""Wrong forward passes, one fault each: the negative controls of parity.

Every class is the float64 specification with one step swapped for a fault that has been seen somewhere. A parity
check that cannot tell one of them from the real thing is not a check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from k3_ledger.engine.reference import Reference, rms, sigmoid, silu, softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.engine.reference import Array, ReferenceState


class DecayOnTheValueAxis(Reference):
    def delta_rule(self, memory: Array, *, g: Array, **rest: Array) -> tuple[Array, Array]:
        memory = np.exp(g)[:, None, :] * memory
        return super().delta_rule(memory, g=np.zeros_like(g), **rest)


class DecayAfterTheUpdate(Reference):
    def delta_rule(self, memory: Array, *, g: Array, q: Array, **rest: Array) -> tuple[Array, Array]:
        memory, _ = super().delta_rule(memory, g=np.zeros_like(g), q=q, **rest)
        memory = np.exp(g)[:, :, None] * memory
        return memory, np.einsum("hk,hkv->hv", q, memory)


class OutputFromTheOldMemory(Reference):
    def delta_rule(self, memory: Array, *, q: Array, g: Array, **rest: Array) -> tuple[Array, Array]:
        old = np.einsum("hk,hkv->hv", q, np.exp(g)[:, :, None] * memory)
        memory, _ = super().delta_rule(memory, q=q, g=g, **rest)
        return memory, old


class QueryUnscaled(Reference):
    """The RMS norm of the head output cancels a factor but for its epsilon, which small heads make visible."""

    def delta_rule(self, memory: Array, *, q: Array, **rest: Array) -> tuple[Array, Array]:
        return super().delta_rule(memory, q=q * np.sqrt(self.config.head), **rest)


class OneDecayForAHead(Reference):
    def decay(self, layer: int, z: Array) -> Array:
        g = super().decay(layer, z)
        return np.broadcast_to(g.mean(axis=1, keepdims=True), g.shape)


class SoftplusGate(Reference):
    def decay(self, layer: int, z: Array) -> Array:
        c, prefix = self.config, f"blk.{layer}."
        f = self.linear(f"{prefix}ssm_f_b.weight", self.linear(f"{prefix}ssm_f_a.weight", z))
        f = (f + self.weights[f"{prefix}ssm_dt.bias"]).reshape(c.heads, c.head)
        return self.weights[f"{prefix}ssm_a"][:, None] * np.logaddexp(0, f)


class GateRateTakenTwice(Reference):
    def decay(self, layer: int, z: Array) -> Array:
        c, prefix = self.config, f"blk.{layer}."
        f = self.linear(f"{prefix}ssm_f_b.weight", self.linear(f"{prefix}ssm_f_a.weight", z))
        f = (f + self.weights[f"{prefix}ssm_dt.bias"]).reshape(c.heads, c.head)
        return (c.gate_bound or 0) * sigmoid(np.exp(self.weights[f"{prefix}ssm_a"])[:, None] * f)


class GateRateOfTheOtherSign(Reference):
    def decay(self, layer: int, z: Array) -> Array:
        g = super().decay(layer, z)
        return (self.config.gate_bound or 0) - g


class OneWriteStrength(Reference):
    def kda(self, layer: int, z: Array, state: ReferenceState) -> Array:
        name = f"blk.{layer}.ssm_beta.weight"
        keep = self.weights[name]
        self.weights = self.weights | {name: np.zeros_like(keep)}  # one half for every head
        out = super().kda(layer, z, state)
        self.weights = self.weights | {name: keep}
        return out


class ConvolutionReversed(Reference):
    def convolve(self, layer: int, stream: str, x: Array, state: ReferenceState) -> Array:
        name = f"blk.{layer}.ssm_conv1d_{stream}.weight"
        keep = self.weights[name]
        self.weights = self.weights | {name: keep[..., ::-1]}
        out = super().convolve(layer, stream, x, state)
        self.weights = self.weights | {name: keep}
        return out


class SiluBeforeTheConvolution(Reference):
    def convolve(self, layer: int, stream: str, x: Array, state: ReferenceState) -> Array:
        taps = self.config.taps
        past = state.windows.get((layer, stream), np.zeros((taps - 1, self.config.inner)))
        window = np.concatenate([past, silu(x)[None]])
        state.windows[layer, stream] = window[1:]
        weight = self.weights[f"blk.{layer}.ssm_conv1d_{stream}.weight"].reshape(self.config.inner, taps)
        return np.asarray((weight.T * window).sum(axis=0))


class WindowLostBetweenTokens(Reference):
    def convolve(self, layer: int, stream: str, x: Array, state: ReferenceState) -> Array:
        state.windows.pop((layer, stream), None)
        return super().convolve(layer, stream, x, state)


class ValueNormalised(Reference):
    def delta_rule(self, memory: Array, *, v: Array, **rest: Array) -> tuple[Array, Array]:
        return super().delta_rule(memory, v=self.l2(v), **rest)


class GateBeforeTheNorm(Reference):
    def kda_output(self, layer: int, out: Array, z: Array) -> Array:
        c, prefix = self.config, f"blk.{layer}."
        gated = out * sigmoid(self.linear(f"{prefix}ssm_g.weight", z)).reshape(c.heads, c.head)
        return rms(gated, self.weights[f"{prefix}ssm_norm.weight"], self.epsilons.norm).reshape(-1)


class NormOverAllHeads(Reference):
    def kda_output(self, layer: int, out: Array, z: Array) -> Array:
        c, prefix = self.config, f"blk.{layer}."
        weight = np.tile(self.weights[f"{prefix}ssm_norm.weight"], c.heads)
        return rms(out.reshape(-1), weight, self.epsilons.norm) * sigmoid(self.linear(f"{prefix}ssm_g.weight", z))


class ScaleByTheCachedRow(Reference):
    def mla_scale(self) -> float:
        return float(1 / np.sqrt(self.config.cached_row))


class RotatedKeys(Reference):
    def attend(self, q: Array, rows: Array) -> Array:
        rank, half = self.config.kv_rank, self.config.rope // 2
        turned = rows.copy()
        for position in range(len(rows)):
            back = len(rows) - 1 - position  # rotating both by their positions leaves their distance
            angle = -back / 10_000 ** (np.arange(half) / half)
            first, second = rows[position, rank : rank + half], rows[position, rank + half :]
            turned[position, rank : rank + half] = first * np.cos(angle) - second * np.sin(angle)
            turned[position, rank + half :] = first * np.sin(angle) + second * np.cos(angle)
        return np.asarray(softmax(q @ turned.T * self.mla_scale()) @ rows[:, :rank])


class GateFromTheAttentionOutput(Reference):
    def mla_gate(self, layer: int, out: Array, z: Array) -> Array:
        return out * sigmoid(out)


class NoOutputGate(Reference):
    def mla_gate(self, layer: int, out: Array, z: Array) -> Array:
        return out


class NormOverTheWholeRow(Reference):
    def cache_row(self, layer: int, z: Array) -> Array:
        prefix = f"blk.{layer}."
        row = self.linear(f"{prefix}attn_kv_a_mqa.weight", z)
        weight = np.concatenate([self.weights[f"{prefix}attn_kv_a_norm.weight"], np.ones(self.config.rope)])
        return rms(row, weight, self.epsilons.lora)


class ValuesFromTheRowsEnd(Reference):
    def attend(self, q: Array, rows: Array) -> Array:
        return np.asarray(softmax(q @ rows.T * self.mla_scale()) @ rows[:, self.config.rope :])


class FirstRowsOnly(Reference):
    """Every token writes the first row: one shared position."""

    def attend(self, q: Array, rows: Array) -> Array:
        return super().attend(q, rows[-1:])


class NormalisedValuesInTheMix(Reference):
    def mix(self, bank: Sequence[Array], x: Array, score: Array) -> Array:
        if not bank:
            return x
        candidates = rms(np.stack([*bank, x]), 1.0, self.epsilons.norm)
        return np.asarray(softmax(candidates @ score) @ candidates)


class MixScoredRaw(Reference):
    def mix(self, bank: Sequence[Array], x: Array, score: Array) -> Array:
        if not bank:
            return x
        candidates = np.stack([*bank, x])
        return np.asarray(softmax(candidates @ score) @ candidates)


class AddedOnSealedLayers(Reference):
    def bank(self, layer: int, bank: list[Array], x: Array) -> bool:
        super().bank(layer, bank, x)
        return False


class MixedValueBanked(Reference):
    def layer(self, layer: int, x: Array, bank: list[Array], state: ReferenceState) -> Array:
        self._mixed = self.mix(bank, x, self.weights[f"blk.{layer}.attn_res_score.weight"])
        return super().layer(layer, x, bank, state)

    def bank(self, layer: int, bank: list[Array], x: Array) -> bool:
        return super().bank(layer, bank, self._mixed)


class BankedAfterAttention(Reference):
    def layer(self, layer: int, x: Array, bank: list[Array], state: ReferenceState) -> Array:
        c, w, prefix = self.config, self.weights, f"blk.{layer}."
        sealed = layer % c.bank_stride == 0
        z = self.mix(bank, x, w[f"{prefix}attn_res_score.weight"])
        z = rms(z, w[f"{prefix}attn_norm.weight"], self.epsilons.norm)
        x = (0 if sealed else x) + (self.mla(layer, z, state) if c.mla[layer] else self.kda(layer, z, state))
        if sealed:
            bank.append(x)
        z = self.mix(bank, x, w[f"{prefix}ffn_res_score.weight"])
        z = rms(z, w[f"{prefix}ffn_norm.weight"], self.epsilons.norm)
        return np.asarray(x + (self.moe(layer, z) if c.is_moe(layer) else self.mlp(prefix, "", z)))


class BankKeptBetweenTokens(Reference):
    _kept: tuple[Array, ...] = ()

    def step(self, token: int, state: ReferenceState) -> Array:
        self._first = True
        return super().step(token, state)

    def layer(self, layer: int, x: Array, bank: list[Array], state: ReferenceState) -> Array:
        if layer == 0 and state.position:
            bank.extend(self._kept)
        out = super().layer(layer, x, bank, state)
        self._kept = tuple(bank)
        return out


class NoFinalMix(Reference):
    def mix(self, bank: Sequence[Array], x: Array, score: Array) -> Array:
        return x if score is self.weights["output_res_score.weight"] else super().mix(bank, x, score)


class BiasInTheWeights(Reference):
    def route(self, layer: int, z: Array) -> Any:
        chosen, _ = super().route(layer, z)
        p = sigmoid(self.linear(f"blk.{layer}.ffn_gate_inp.weight", z))
        p = (p + self.weights[f"blk.{layer}.exp_probs_b.bias"])[chosen]
        return chosen, p / p.sum()


class BiasLeftOut(Reference):
    def route(self, layer: int, z: Array) -> Any:
        name = f"blk.{layer}.exp_probs_b.bias"
        keep = self.weights[name]
        self.weights = self.weights | {name: np.zeros_like(keep)}
        out = super().route(layer, z)
        self.weights = self.weights | {name: keep}
        return out


class NotRenormalised(Reference):
    """The routed norm cancels a common factor but for its epsilon: the faintest fault of all."""

    def route(self, layer: int, z: Array) -> Any:
        chosen, weights = super().route(layer, z)
        return chosen, weights * 2


class SoftmaxRouter(Reference):
    def route(self, layer: int, z: Array) -> Any:
        chosen, _ = super().route(layer, z)
        return chosen, softmax(self.linear(f"blk.{layer}.ffn_gate_inp.weight", z)[chosen])


class OneExpertDropped(Reference):
    def route(self, layer: int, z: Array) -> Any:
        chosen, weights = super().route(layer, z)
        return chosen[:-1], weights[:-1]


class SituSymmetric(Reference):
    def situ(self, gate: Array, up: Array) -> Array:
        return super().situ(gate, up) * sigmoid(up)


class SituWithoutBeta(Reference):
    def situ(self, gate: Array, up: Array) -> Array:
        return np.asarray(np.tanh(gate) * sigmoid(gate) * up)


class SwigluForSitu(Reference):
    def situ(self, gate: Array, up: Array) -> Array:
        return silu(gate) * up


class NormBeforeTheSum(Reference):
    def expert(self, layer: int, expert: int, u: Array) -> Array:
        norm = self.weights[f"blk.{layer}.ffn_routed_norm.weight"]
        return rms(super().expert(layer, expert, u), norm, self.epsilons.norm)


class NoRoutedNorm(Reference):
    def moe(self, layer: int, z: Array) -> Array:
        name = f"blk.{layer}.ffn_routed_norm.weight"
        keep = self.weights
        self.weights = {key: value for key, value in keep.items() if key != name}
        out = super().moe(layer, z)
        self.weights = keep
        return out


class NoSharedExpert(Reference):
    def moe(self, layer: int, z: Array) -> Array:
        return super().moe(layer, z) - self.mlp(f"blk.{layer}.", "_shexp", z)


class SharedExpertTwice(Reference):
    def moe(self, layer: int, z: Array) -> Array:
        return super().moe(layer, z) + self.mlp(f"blk.{layer}.", "_shexp", z)


class SharedExpertOnTheLatent(Reference):
    """The shared expert reads the full-width input; here that input is what the latent keeps of it."""

    def moe(self, layer: int, z: Array) -> Array:
        down = self.weights[f"blk.{layer}.ffn_routed_down.weight"]
        kept = np.linalg.pinv(down) @ (down @ z)
        return (
            super().moe(layer, z) - self.mlp(f"blk.{layer}.", "_shexp", z) + self.mlp(f"blk.{layer}.", "_shexp", kept)
        )


INVISIBLE_AT_ONE_TOKEN = {
    DecayOnTheValueAxis,
    OneDecayForAHead,
    SoftplusGate,
    GateRateTakenTwice,
    GateRateOfTheOtherSign,
    WindowLostBetweenTokens,
    ScaleByTheCachedRow,
    RotatedKeys,
    FirstRowsOnly,
    BankKeptBetweenTokens,
}
"""Faults that a one-token prompt hides: the memory is empty, or there is one key and one bank."""
VARIANTS = [
    value
    for value in list(globals().values())
    if isinstance(value, type) and issubclass(value, Reference) and value is not Reference
]

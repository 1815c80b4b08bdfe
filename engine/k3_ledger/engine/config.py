"""A K3 model's sizes and switches, typed, all from the file's header.

Nothing is defaulted: a key without which the forward pass would be guessed is refused when missing. Four keys that
other loaders take as optional in silence (one of them changes the decay gate's formula) are refused too, unless the
caller names them in ``allow_missing``; what then stands in for them is written beside each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from k3_ledger.engine.gguf.header import ARRAYS
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from k3_ledger.engine.gguf.header import Value

ARCHITECTURE: Final = "kimi-k3"
OPTIONAL_KEYS: Final = frozenset(
    {
        "vocab_size",  # the embedding's row count
        "attention.value_length",  # kv_lora_rank
        "expert_weights_scale",  # 1
        "kda.gate_lower_bound",  # the softplus gate of Kimi-Linear
    }
)
"""Keys that may be named in ``allow_missing``, each with what stands in for it."""
SIGMOID_GATING: Final = 2
_STEEPEST: Final = 1e6
"""Most of a factor that float32 has room beside: K3's are 4, 25 and 2.8."""
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Epsilons:
    """The three small numbers on which public implementations disagree.

    Attributes:
        norm: of every RMS norm but the next.
        lora: of the norms inside MLA's two low-rank projections.
        l2: added to the sum of squares of KDA's q and k.
    """

    norm: float
    lora: float
    l2: float

    @classmethod
    def preset(cls, name: str, file_epsilon: float) -> Epsilons:
        """``gguf``: the file's value everywhere, as llama.cpp. ``hf``: 1e-6 in the low-rank norms and in l2."""
        if name == "gguf":
            return cls(file_epsilon, file_epsilon, file_epsilon)
        if name == "hf":
            return cls(file_epsilon, 1e-6, 1e-6)
        raise ValueError(f"no epsilon preset named {name!r}: gguf or hf")


@dataclass(frozen=True, slots=True)
class K3Config:
    """Sizes of a K3 model, named as in the architecture's own papers and files.

    Attributes:
        layers: number of layers.
        hidden: width of the residual stream.
        vocabulary: number of tokens.
        heads: heads of both attention kinds.
        mla: for each layer, true when it is an MLA layer.
        epsilon: the file's RMS epsilon.
        dense_width: width of the dense layers' MLP.
        dense_layers: leading layers without experts.
        head: KDA head size.
        taps: taps of KDA's causal convolution.
        gate_bound: lower bound of KDA's log decay; None for the softplus gate.
        q_rank, kv_rank: MLA's low ranks.
        nope, rope, value: MLA's per-head sizes. ``rope`` is a size only: nothing is rotated.
        experts, top_k, shared: routed experts, routed experts per token, shared experts.
        expert_width: width of one expert's MLP.
        latent: width the routed experts work in.
        renormalise: divide the chosen experts' weights by their sum.
        expert_scale: factor on the routed experts' weights.
        bank_stride: layers between two sealed residuals.
        situ_beta, situ_linear_beta: bounds of the activation; linear 0 or less leaves the up branch alone.
        context: longest context that the file announces.
    """

    layers: int
    hidden: int
    vocabulary: int
    heads: int
    mla: tuple[bool, ...]
    epsilon: float
    dense_width: int
    dense_layers: int
    head: int
    taps: int
    gate_bound: float | None
    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int
    experts: int
    top_k: int
    shared: int
    expert_width: int
    latent: int
    renormalise: bool
    expert_scale: float
    bank_stride: int
    situ_beta: float
    situ_linear_beta: float
    context: int

    @property
    def inner(self) -> int:
        """Width of KDA's projections: heads times head size."""
        return self.heads * self.head

    @property
    def cached_row(self) -> int:
        """Values that MLA caches for one position: latent and un-rotated key part."""
        return self.kv_rank + self.rope

    @property
    def banks(self) -> int:
        """Residual vectors sealed by the end of the stack."""
        return -(-self.layers // self.bank_stride)

    def is_moe(self, layer: int) -> bool:
        """Whether the layer routes to experts."""
        return layer >= self.dense_layers


class _Keys:
    """Typed access to ``kimi-k3.*`` keys; every failure names the key."""

    def __init__(self, values: Mapping[str, Value], allow_missing: frozenset[str]) -> None:
        self.values = values
        self.allow_missing = allow_missing

    def fail(self, name: str, message: str, found: object, code: Code = Code.MODEL_KEY_VALUE) -> NoReturn:
        key = f"{ARCHITECTURE}.{name}"
        raise ModelError(code, f"{key} {message}", position=Position(field=key), found=repr(found)[:_SHOWN])

    def get(self, name: str) -> Value | None:
        value = self.values.get(f"{ARCHITECTURE}.{name}")
        if value is None and name not in self.allow_missing:
            self.fail(name, "is missing", None, Code.MODEL_KEY_MISSING)
        return value

    def integer(self, name: str, *, low: int = 1, high: int = 1 << 24, default: int | None = None) -> int:
        value = self.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, ARRAYS) and len(value) > 0 and all(one == value[0] for one in value):
            value = value[0]
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.fail(name, f"is no integer from {low} to {high}", value)
        return value

    def number(self, name: str, *, low: float = -math.inf, high: float = math.inf) -> float:
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.fail(name, "is no finite number", value)
        if not low < value < high:
            self.fail(name, f"is not between {low} and {high}", value)
        return float(value)

    def boolean(self, name: str) -> bool:
        value = self.get(name)
        if not isinstance(value, bool):
            self.fail(name, "is no boolean", value)
        return value

    def layer_map(self, layers: int) -> tuple[bool, ...]:
        value = self.get("attention.head_count_kv")
        if (
            not isinstance(value, ARRAYS)
            or len(value) != layers
            or not all(type(item) is int and 0 <= item <= 1 for item in value)
        ):
            self.fail("attention.head_count_kv", f"is no array of {layers} zeros (KDA) and ones (MLA)", value)
        return tuple(item == 1 for item in value)


def read_config(
    values: Mapping[str, Value], *, embedding_rows: int, allow_missing: frozenset[str] = frozenset()
) -> K3Config:
    """Reads the sizes from a header.

    Args:
        values: the header's values.
        embedding_rows: rows of ``token_embd.weight``: stands in for ``vocab_size`` where that may be missing.
        allow_missing: keys from :data:`OPTIONAL_KEYS` that may be absent.

    Raises:
        ModelError: MODEL_ARCHITECTURE, MODEL_KEY_MISSING or MODEL_KEY_VALUE, naming the key.
        ValueError: ``allow_missing`` names a key that is not optional anywhere.
    """
    if not allow_missing <= OPTIONAL_KEYS:
        raise ValueError(f"never optional: {', '.join(sorted(allow_missing - OPTIONAL_KEYS))}")
    architecture = values.get("general.architecture")
    if architecture != ARCHITECTURE:
        raise ModelError(
            Code.MODEL_ARCHITECTURE,
            f"architecture is {architecture!r:.80}",
            position=Position(field="general.architecture"),
            expected=ARCHITECTURE,
            found=str(architecture)[:_SHOWN],
        )
    keys = _Keys(values, allow_missing)
    layers = keys.integer("block_count", high=4096)
    rope = keys.integer("rope.dimension_count")
    key_mla = keys.integer("attention.key_length_mla")
    bound = None
    if keys.get("kda.gate_lower_bound") is not None:
        bound = keys.number("kda.gate_lower_bound", low=-64, high=0)
    scale = 1.0
    if keys.get("expert_weights_scale") is not None:
        scale = keys.number("expert_weights_scale", low=0, high=_STEEPEST)
    config = K3Config(
        layers=layers,
        hidden=keys.integer("embedding_length"),
        vocabulary=keys.integer("vocab_size", default=embedding_rows),
        heads=keys.integer("attention.head_count", high=4096),
        mla=keys.layer_map(layers),
        epsilon=keys.number("attention.layer_norm_rms_epsilon", low=0, high=1),
        dense_width=keys.integer("feed_forward_length"),
        dense_layers=keys.integer("leading_dense_block_count", low=0, high=layers),
        head=keys.integer("kda.head_dim", high=1024),
        taps=keys.integer("ssm.conv_kernel", low=2, high=16),
        gate_bound=bound,
        q_rank=keys.integer("attention.q_lora_rank"),
        kv_rank=keys.integer("attention.kv_lora_rank"),
        nope=key_mla - rope,
        rope=rope,
        value=keys.integer("attention.value_length_mla"),
        experts=keys.integer("expert_count", high=65_536),
        top_k=keys.integer("expert_used_count", high=65_536),
        shared=keys.integer("expert_shared_count", high=1024),
        expert_width=keys.integer("expert_feed_forward_length"),
        latent=keys.integer("expert_latent_length"),
        renormalise=keys.boolean("expert_weights_norm"),
        expert_scale=scale,
        bank_stride=keys.integer("attn_res.block_size"),
        situ_beta=keys.number("activation.situ_beta", low=1 / _STEEPEST, high=_STEEPEST),
        situ_linear_beta=keys.number("activation.situ_linear_beta", high=_STEEPEST),
        context=keys.integer("context_length", high=1 << 40),
    )
    _check(keys, config, embedding_rows)
    return config


def _check(keys: _Keys, config: K3Config, embedding_rows: int) -> None:
    """Keys that must agree with one another."""
    if config.nope < 1:
        keys.fail("attention.key_length_mla", "is not larger than rope.dimension_count", config.nope + config.rope)
    if config.top_k > config.experts:
        keys.fail("expert_used_count", "is larger than expert_count", config.top_k)
    if config.vocabulary != embedding_rows:
        keys.fail("vocab_size", f"contradicts the embedding's {embedding_rows} rows", config.vocabulary)
    if keys.integer("expert_gating_func", low=0, high=16) != SIGMOID_GATING:
        keys.fail("expert_gating_func", "is not sigmoid (2)", keys.get("expert_gating_func"))
    if keys.integer("attention.key_length") != config.cached_row:
        keys.fail("attention.key_length", f"is not kv_lora_rank + rope ({config.cached_row})", "")
    if keys.integer("attention.value_length", default=config.kv_rank) != config.kv_rank:
        keys.fail("attention.value_length", f"is not kv_lora_rank ({config.kv_rank})", "")

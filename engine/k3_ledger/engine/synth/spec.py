"""What a synthetic model is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from k3_ledger.engine.config import ARCHITECTURE, SIGMOID_GATING, K3Config, read_config
from k3_ledger.engine.gguf.types import BY_NAME, Storage
from k3_ledger.engine.tokenizer import synthetic_vocabulary

if TYPE_CHECKING:
    from k3_ledger.engine.gguf.header import Value


@dataclass(frozen=True, slots=True)
class SynthSpec:
    """Sizes, storage and scales of a synthetic model; every field goes into the file's header.

    Attributes:
        layers, hidden, heads, head: stack and KDA sizes.
        q_rank, kv_rank, nope, rope, value: MLA sizes.
        dense_width, dense_layers: leading dense MLPs.
        experts, top_k, shared, expert_width, latent: mixture sizes.
        bank_stride: layers between sealed residuals.
        mla_period: every so many layers one is MLA, and the last layer always is (K3: 4).
        vocabulary: number of tokens.
        storage: storage type of matrices outside the routed experts.
        expert_storage: storage type of the routed experts.
        seed: any integer from 0 to 2**63 - 1.
        projection_scale: factor on the projections whose outputs go through an RMS or l2 norm. At 1e-3 the choice
            of epsilon shows.
        bias_scale: standard deviation of the router's selection bias. Load spreads less as it grows.
        router_gain: standard deviation of the router's logits.
        context: longest context announced.
    """

    layers: int
    hidden: int
    heads: int
    head: int
    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int
    dense_width: int
    experts: int
    top_k: int
    shared: int
    expert_width: int
    latent: int
    bank_stride: int
    vocabulary: int
    dense_layers: int = 1
    mla_period: int = 4
    storage: str = "F32"
    expert_storage: str = "F32"
    seed: int = 0
    projection_scale: float = 1.0
    bias_scale: float = 0.01
    router_gain: float = 1.0
    context: int = 131_072

    def __post_init__(self) -> None:
        for name in (self.storage, self.expert_storage):
            if name not in BY_NAME:
                raise ValueError(f"no storage type named {name!r}: one of {', '.join(BY_NAME)}")
        for name in ("hidden", "head", "kv_rank", "q_rank", "nope", "dense_width", "latent"):
            self._fits(name, getattr(self, name), self.matrix_storage)
        self._fits("shared * expert_width", self.shared * self.expert_width, self.matrix_storage)
        self._fits("heads * value", self.heads * self.value, self.matrix_storage)
        for name in ("expert_width", "latent"):
            self._fits(name, getattr(self, name), BY_NAME[self.expert_storage])
        if self.top_k > self.experts:
            raise ValueError(f"{self.experts} experts are fewer than the {self.top_k} that a token takes")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed {self.seed} is not in [0, 2**63)")

    @staticmethod
    def _fits(name: str, columns: int, storage: Storage) -> None:
        if columns < 1 or columns % storage.block:
            raise ValueError(
                f"{name}: rows of {columns} values cannot be stored as {storage.name}: blocks of {storage.block}"
            )

    @property
    def matrix_storage(self) -> Storage:
        """Storage of matrices outside the routed experts."""
        return BY_NAME[self.storage]

    @property
    def layer_map(self) -> tuple[int, ...]:
        """0 for KDA, 1 for MLA; counted from 1 every ``mla_period``-th layer is MLA, and the last one is."""
        last = self.layers
        return tuple(int(layer % self.mla_period == 0 or layer == last) for layer in range(1, self.layers + 1))

    def header(self) -> dict[str, Value]:
        """Header values of the file, in writing order."""
        sizes: dict[str, Value] = {
            "block_count": self.layers,
            "context_length": self.context,
            "embedding_length": self.hidden,
            "feed_forward_length": self.dense_width,
            "vocab_size": self.vocabulary,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.layer_map,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "attention.q_lora_rank": self.q_rank,
            "attention.kv_lora_rank": self.kv_rank,
            "attention.key_length": self.kv_rank + self.rope,
            "attention.value_length": self.kv_rank,
            "attention.key_length_mla": self.nope + self.rope,
            "attention.value_length_mla": self.value,
            "rope.dimension_count": self.rope,
            "leading_dense_block_count": self.dense_layers,
            "expert_count": self.experts,
            "expert_used_count": self.top_k,
            "expert_shared_count": self.shared,
            "expert_feed_forward_length": self.expert_width,
            "expert_latent_length": self.latent,
            "expert_gating_func": SIGMOID_GATING,
            "expert_weights_norm": True,
            "expert_weights_scale": 1.0,
            "kda.head_dim": self.head,
            "kda.gate_lower_bound": -5.0,
            "ssm.conv_kernel": 4,
            "attn_res.block_size": self.bank_stride,
            "activation.situ_beta": 4.0,
            "activation.situ_linear_beta": 25.0,
        }
        out: dict[str, Value] = {
            "general.architecture": ARCHITECTURE,
            "general.name": f"synthetic K3, {self.layers} layers, seed {self.seed}",
        }
        out |= {f"{ARCHITECTURE}.{key}": value for key, value in sizes.items()}
        out |= synthetic_vocabulary(self.vocabulary).values()
        out |= {f"k3_ledger.synthetic.{key}": value for key, value in asdict(self).items()}
        return out

    def config(self) -> K3Config:
        """The sizes as a model file would carry them."""
        return read_config(self.header(), embedding_rows=self.vocabulary)

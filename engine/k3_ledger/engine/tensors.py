"""Which tensors a K3 model has, in which shapes: the list that a file is held against, both ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.engine.gguf.types import F32
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from k3_ledger.engine.config import K3Config
    from k3_ledger.engine.gguf.file import ModelFile
    from k3_ledger.engine.gguf.header import TensorInfo

OPTIONAL_TENSORS: Final = frozenset(
    {"ffn_routed_norm", "attn_gate", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"}
)
"""Tensors that llama.cpp leaves out in silence. Refused when missing unless named in ``allow_missing``."""


@dataclass(frozen=True, slots=True)
class Role:
    """A tensor of the architecture.

    Attributes:
        name: its name in the file.
        shape: row-major.
        full: stored as F32 always (norms, biases, router, convolution), so never quantised.
    """

    name: str
    shape: tuple[int, ...]
    full: bool = False

    @property
    def stem(self) -> str:
        """The name without layer number and suffix: ``attn_q`` of ``blk.3.attn_q.weight``."""
        parts = self.name.split(".")
        return parts[2] if parts[0] == "blk" else parts[0]


def _kda(c: K3Config, prefix: str) -> Iterator[Role]:
    for stream in "qkv":
        yield Role(f"{prefix}attn_{stream}.weight", (c.inner, c.hidden))
    for stream in "qkv":
        yield Role(f"{prefix}ssm_conv1d_{stream}.weight", (c.inner, 1, c.taps), full=True)
    yield Role(f"{prefix}ssm_f_a.weight", (c.head, c.hidden))
    yield Role(f"{prefix}ssm_f_b.weight", (c.inner, c.head))
    yield Role(f"{prefix}ssm_dt.bias", (c.inner,), full=True)
    yield Role(f"{prefix}ssm_a", (c.heads,), full=True)
    yield Role(f"{prefix}ssm_beta.weight", (c.heads, c.hidden))
    yield Role(f"{prefix}ssm_g.weight", (c.inner, c.hidden))
    yield Role(f"{prefix}ssm_norm.weight", (c.head,), full=True)
    yield Role(f"{prefix}attn_output.weight", (c.hidden, c.inner))


def _mla(c: K3Config, prefix: str) -> Iterator[Role]:
    yield Role(f"{prefix}attn_q_a.weight", (c.q_rank, c.hidden))
    yield Role(f"{prefix}attn_q_a_norm.weight", (c.q_rank,), full=True)
    yield Role(f"{prefix}attn_q_b.weight", (c.heads * (c.nope + c.rope), c.q_rank))
    yield Role(f"{prefix}attn_kv_a_mqa.weight", (c.cached_row, c.hidden))
    yield Role(f"{prefix}attn_kv_a_norm.weight", (c.kv_rank,), full=True)
    yield Role(f"{prefix}attn_k_b.weight", (c.heads, c.kv_rank, c.nope))
    yield Role(f"{prefix}attn_v_b.weight", (c.heads, c.value, c.kv_rank))
    yield Role(f"{prefix}attn_gate.weight", (c.heads * c.value, c.hidden))
    yield Role(f"{prefix}attn_output.weight", (c.hidden, c.heads * c.value))


def _ffn(c: K3Config, prefix: str, *, moe: bool) -> Iterator[Role]:
    if not moe:
        yield Role(f"{prefix}ffn_gate.weight", (c.dense_width, c.hidden))
        yield Role(f"{prefix}ffn_up.weight", (c.dense_width, c.hidden))
        yield Role(f"{prefix}ffn_down.weight", (c.hidden, c.dense_width))
        return
    wide = c.shared * c.expert_width
    yield Role(f"{prefix}ffn_gate_inp.weight", (c.experts, c.hidden), full=True)
    yield Role(f"{prefix}exp_probs_b.bias", (c.experts,), full=True)
    yield Role(f"{prefix}ffn_routed_down.weight", (c.latent, c.hidden))
    yield Role(f"{prefix}ffn_gate_exps.weight", (c.experts, c.expert_width, c.latent))
    yield Role(f"{prefix}ffn_up_exps.weight", (c.experts, c.expert_width, c.latent))
    yield Role(f"{prefix}ffn_down_exps.weight", (c.experts, c.latent, c.expert_width))
    yield Role(f"{prefix}ffn_routed_norm.weight", (c.latent,), full=True)
    yield Role(f"{prefix}ffn_routed_up.weight", (c.hidden, c.latent))
    yield Role(f"{prefix}ffn_gate_shexp.weight", (wide, c.hidden))
    yield Role(f"{prefix}ffn_up_shexp.weight", (wide, c.hidden))
    yield Role(f"{prefix}ffn_down_shexp.weight", (c.hidden, wide))


def expected_tensors(config: K3Config) -> Iterator[Role]:
    """Every tensor of the model, in the order in which a synthetic file holds them."""
    yield Role("token_embd.weight", (config.vocabulary, config.hidden))
    for layer in range(config.layers):
        prefix = f"blk.{layer}."
        for stem in ("attn_norm.weight", "attn_res_score.weight", "ffn_norm.weight", "ffn_res_score.weight"):
            yield Role(prefix + stem, (config.hidden,), full=True)
        yield from _mla(config, prefix) if config.mla[layer] else _kda(config, prefix)
        yield from _ffn(config, prefix, moe=config.is_moe(layer))
    yield Role("output_res_score.weight", (config.hidden,), full=True)
    yield Role("output_norm.weight", (config.hidden,), full=True)
    yield Role("output.weight", (config.vocabulary, config.hidden))


def _same_shape(role: Role, info: TensorInfo) -> bool:
    """Equal shapes; the convolution may carry a leading 1 (``[1, D, 1, taps]``)."""
    if role.stem.startswith("ssm_conv1d_") and len(info.shape) == 4 and info.shape[0] == 1:
        return info.shape[1:] == role.shape
    return info.shape == role.shape


def check_tensors(
    file: ModelFile,
    config: K3Config,
    *,
    allow_missing: frozenset[str] = frozenset(),
    allow_unknown: frozenset[str] = frozenset(),
) -> dict[str, TensorInfo]:
    """Holds the file's tensors against the architecture and returns them by role name.

    Args:
        file: the opened model.
        config: its sizes.
        allow_missing: stems from :data:`OPTIONAL_TENSORS` that may be absent (what they would do is then left out).
        allow_unknown: names of tensors that may stand in the file without a role.

    Raises:
        ModelError: MODEL_TENSOR_MISSING, MODEL_TENSOR_SHAPE or MODEL_TENSOR_UNKNOWN, naming the tensor.
        ValueError: ``allow_missing`` names a tensor that is never optional.
    """
    if not allow_missing <= OPTIONAL_TENSORS:
        raise ValueError(f"never optional: {', '.join(sorted(allow_missing - OPTIONAL_TENSORS))}")
    source = file.paths[0].name
    found: dict[str, TensorInfo] = {}
    for role in expected_tensors(config):
        info = file.tensors.get(role.name)
        position = Position(source=source, field=role.name)
        if info is None:
            if role.stem in allow_missing:
                continue
            raise ModelError(Code.MODEL_TENSOR_MISSING, f"tensor {role.name!r} is missing", position=position)
        if not _same_shape(role, info):
            raise ModelError(
                Code.MODEL_TENSOR_SHAPE,
                f"tensor {role.name!r} has shape {list(info.shape)}",
                position=position,
                expected=str(list(role.shape)),
                found=str(list(info.shape)),
            )
        if role.full and info.storage is not F32:
            raise ModelError(
                Code.MODEL_TENSOR_SHAPE,
                f"tensor {role.name!r} is stored as {info.storage.name}",
                position=position,
                expected="F32",
                found=info.storage.name,
            )
        found[role.name] = info
    _check_shared_expert(expected_tensors(config), found, source)
    for name in file.tensors:
        if name not in found and name not in allow_unknown:
            raise ModelError(
                Code.MODEL_TENSOR_UNKNOWN,
                f"tensor {name!r} has no role in the model",
                position=Position(source=source, field=name),
            )
    return found


def _check_shared_expert(roles: Iterable[Role], found: Mapping[str, TensorInfo], source: str) -> None:
    """All of a layer's shared expert is there, or none: a part of it computes nothing that anybody means."""
    parts = [role.name for role in roles if role.stem.endswith("_shexp")]
    begun = {name.rsplit(".", 2)[0] for name in parts if name in found}
    for name in parts:
        if name not in found and name.rsplit(".", 2)[0] in begun:
            raise ModelError(
                Code.MODEL_TENSOR_MISSING,
                f"tensor {name!r} is missing, and other parts of that shared expert are there",
                position=Position(source=source, field=name),
                expected="all three parts of a layer's shared expert, or none",
            )

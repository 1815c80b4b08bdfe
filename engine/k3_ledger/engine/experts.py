"""Routed experts of one layer: dense on the device, or packed and unpacked as they are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from k3_ledger.engine.gguf.quants import iq1_s_grid
from k3_ledger.engine.linear import Matrix, Numerics
from k3_ledger.kernels.dispatch import select
from k3_ledger.kernels.situ.naive import situ

if TYPE_CHECKING:
    from torch import Tensor

    from k3_ledger.engine.config import K3Config
    from k3_ledger.engine.gguf.types import Storage
    from k3_ledger.engine.weights import Weights
    from k3_ledger.kernels.dispatch import Backend, Runs

_PARTS = ("gate", "up", "down")


@dataclass(frozen=True)
class Packed:
    """Stored bytes ``[experts, rows, row bytes]`` on the device."""

    data: Tensor
    storage: Storage
    grid: Tensor | None

    def unpack(self, chosen: Tensor, dtype: torch.dtype, backend: Backend, runs: Runs | None) -> Tensor:
        """Dense ``[len(chosen), rows, columns]`` of some experts."""
        operation = select("unpack", backend, runs=runs)
        out: Tensor = operation(
            self.data[chosen].contiguous(), quant=self.storage.name.lower(), dtype=dtype, grid=self.grid
        )
        return out


class Experts:
    """The routed experts of one layer.

    Args:
        weights: the file.
        layer: layer number.
        device: where to keep them.
        numerics: how to compute.
        packed: keep stored bytes and unpack the experts that a chunk uses, instead of keeping them all dense.
        backend: which kernels run.
        runs: where to count what ran.
    """

    def __init__(
        self,
        weights: Weights,
        layer: int,
        *,
        device: torch.device,
        numerics: Numerics,
        packed: bool,
        backend: Backend,
        runs: Runs | None,
    ) -> None:
        self.config: K3Config = weights.config
        self.numerics = numerics
        self.backend: Backend = backend
        self.runs = runs
        self.device = device
        self.dense: dict[str, Matrix] = {}
        self.packed: dict[str, Packed] = {}
        for part in _PARTS:
            name = f"blk.{layer}.ffn_{part}_exps.weight"
            info = weights.tensors[name]
            if packed:
                raw = weights.view(name).raw.reshape(info.shape[0], info.shape[1], -1)
                grid = torch.from_numpy(iq1_s_grid()).to(device) if info.storage.name == "IQ1_S" else None
                self.packed[part] = Packed(torch.from_numpy(raw).to(device), info.storage, grid)
            else:
                dense = torch.from_numpy(weights.load(name)).to(device, numerics.dtype)
                self.dense[part] = Matrix(dense, info.storage, numerics)

    def __call__(self, u: Tensor, ids: Tensor, shares: Tensor) -> Tensor:
        """``[T, latent]`` inputs, ``[T, k]`` ids and weights to the weighted sum ``[T, latent]``, float32."""
        if self.numerics.emulate:
            return self._emulated(u, ids, shares)
        if self.dense:
            parts = {part: self.dense[part].weight for part in _PARTS}
            local, count = ids, self.config.experts
        else:
            chosen, local = torch.unique(ids, return_inverse=True)
            count = len(chosen)
            parts = {
                part: self.packed[part].unpack(chosen, self.numerics.dtype, self.backend, self.runs) for part in _PARTS
            }
        out: Tensor = select("experts", self.backend, runs=self.runs)(
            u.to(self.numerics.dtype).contiguous(),
            local.contiguous(),
            shares.contiguous(),
            **parts,
            beta=self.config.situ_beta,
            linear_beta=max(self.config.situ_linear_beta, 0.0),
            first_expert=0,
            expert_count=count,
            by_load=not self.numerics.deterministic,
        )
        return out

    def _emulated(self, u: Tensor, ids: Tensor, shares: Tensor) -> Tensor:
        """Token by token, slot by slot, with activations rounded before both products."""
        if not self.dense:
            raise ValueError("emulation needs dense experts: load with packed=False")
        out = torch.zeros_like(u)
        beta, linear_beta = self.config.situ_beta, max(self.config.situ_linear_beta, 0.0)
        gate, up, down = (self.dense[part] for part in _PARTS)
        for token in range(u.shape[0]):
            for expert, share in zip(ids[token].tolist(), shares[token], strict=True):
                row = u[token][None]
                inner = situ(
                    gate.rounded(row) @ gate.weight[expert].T,
                    up.rounded(row) @ up.weight[expert].T,
                    beta=beta,
                    linear_beta=linear_beta,
                )
                out[token] += share * (down.rounded(inner) @ down.weight[expert].T)[0]
        return out

"""The cases of :mod:`benchmarks.kernels`: inputs, bytes, operations, baselines and variants at the shapes of K3."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from k3_ledger.kernels.dispatch import OPS, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Inputs = dict[str, Any]
BF16 = torch.bfloat16
DEVICE = "cuda"


@dataclass
class Case:
    """One operation at one shape.

    Attributes:
        name: operation and shape.
        op: name in the dispatch.
        make: one set of fresh random inputs (keyword arguments of the operation).
        bytes: least device memory traffic of a call.
        operations: floating-point operations of a call that matrix units could do.
        sets: sets of inputs in one capture.
        baseline: the same function in plain torch, or None.
        variants: arguments of the call, or tables of tile sizes of the kernel's module; one dict a row.
        reduce: smaller inputs for the comparison, where the specification would not fit.
        tolerance: relative L2.
    """

    name: str
    op: str
    make: Callable[[], Inputs]
    bytes: float
    operations: float = 0.0
    sets: int = 8
    baseline: Callable[[Inputs], object] | None = None
    variants: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    reduce: Callable[[Inputs], Inputs] = lambda inputs: inputs
    tolerance: float = 4e-3

    def kernel(self, inputs: Inputs, variant: dict[str, Any]) -> object:
        """Run the kernel; entries of the variant that name an argument replace it."""
        changes = {key: value for key, value in variant.items() if key in inputs}
        return select(self.op, "triton")(**{**own(inputs), **changes})

    @contextmanager
    def use(self, variant: dict[str, Any]) -> Iterator[None]:
        """Put the variant's tile sizes (entries named like the kernel module's own tables) in their place."""
        module = import_module(f"{OPS[self.op].package}.triton_")
        before = {name: getattr(module, name) for name in variant if hasattr(module, name)}
        for name in before:
            setattr(module, name, (lambda *_, name=name: variant[name]) if name == "tiles" else variant[name])
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(module, name, value)

    def error(self, inputs: Inputs, variant: dict[str, Any]) -> float:
        """Relative L2 against the float64 specification, on states of their own."""
        inputs = self.reduce(inputs)
        result, expected = self.kernel(clone(inputs), variant), select(self.op, "naive")(**own(clone(inputs)))
        if isinstance(result, tuple):
            if not torch.equal(result[0], expected[0]):
                return float("inf")
            result, expected = result[1], expected[1]
        return ((result.double() - expected.double()).norm() / expected.double().norm()).item()


def own(inputs: Inputs) -> Inputs:
    """The operation's arguments, without what a baseline keeps beside them."""
    return {key: value for key, value in inputs.items() if not key.startswith("_")}


def clone(inputs: Inputs) -> Inputs:
    """Inputs whose states may be written."""
    return {key: value.clone() if key in ("state", "window") else value for key, value in inputs.items()}


def normal(*shape: int, dtype: torch.dtype = BF16, scale: float = 1.0) -> torch.Tensor:
    """Fresh values on the device; 59 GB of weights take seconds."""
    return torch.empty(shape, dtype=dtype, device=DEVICE).normal_(std=scale)


def rms_norm(tokens: int) -> Case:
    """Bytes: the row in, the row out."""

    def make() -> Inputs:
        return {"x": normal(tokens, 7168), "weight": normal(7168), "eps": 1e-5}

    def plain(i: Inputs) -> object:
        return functional.rms_norm(i["x"], (7168,), i["weight"], i["eps"])

    return Case(f"rms_norm {tokens}x7168", "rms_norm", make, tokens * 7168 * 4 + 14336, baseline=plain)


def situ(tokens: int) -> Case:
    """The shared expert's activation, twice 3072 wide."""

    def make() -> Inputs:
        return {"gate": normal(tokens, 6144), "up": normal(tokens, 6144), "beta": 4.0, "linear_beta": 25.0}

    def plain(i: Inputs) -> object:
        return 4 * (i["gate"] / 4).tanh() * i["gate"].sigmoid() * (25 * (i["up"] / 25).tanh())

    return Case(f"situ {tokens}x6144", "situ", make, tokens * 6144 * 6, baseline=plain)


def conv(tokens: int, variants: list[dict[str, Any]]) -> Case:
    """Three streams of 12,288 channels side by side."""
    channels = 3 * 12288

    def make() -> Inputs:
        window = normal(1, 3, channels, dtype=torch.float32)
        return {"x": normal(1, tokens, channels), "window": window, "weight": normal(channels, 4)}

    def plain(i: Inputs) -> object:
        samples = torch.cat([i["window"].to(BF16), i["x"]], 1)
        i["window"].copy_(samples[:, tokens:])
        return functional.silu(functional.conv1d(samples.mT, i["weight"][:, None], groups=channels))

    moved = channels * (tokens * 4 + 2 * 12 + 8)
    return Case(f"conv {tokens}x36864", "conv", make, moved, 0.0, min(8, 2 + 512 // tokens), plain, variants)


def kda(op: str, tokens: int, heads: int, variants: list[dict[str, Any]], tolerance: float = 4e-3) -> Case:
    """Bytes: five streams and the state in and out; the recurrence itself has no matrix product."""

    def make() -> Inputs:
        q, k, v, f = (normal(1, tokens, heads, 128) for _ in range(4))
        state = normal(1, heads, 128, 128, dtype=torch.float32)
        slopes = {"a": -normal(heads, dtype=torch.float32).exp(), "dt_bias": normal(heads, 128, dtype=torch.float32)}
        tail = {"state": state, "lower_bound": -5.0, "l2_eps": 1e-5}
        return {"q": q, "k": k, "v": v, "f": f, "beta": normal(1, tokens, heads), **slopes, **tail}

    def plain(i: Inputs) -> object:
        q, k, v = (i[name][:, 0].float() for name in "qkv")
        q = q * ((q * q).sum(-1, keepdim=True) + 1e-5).rsqrt() * 128**-0.5
        k = k * ((k * k).sum(-1, keepdim=True) + 1e-5).rsqrt()
        gate = (-5 * (-i["a"][:, None] * (i["f"][:, 0].float() + i["dt_bias"])).sigmoid()).exp()
        state = i["state"].mul_(gate[..., None])
        delta = i["beta"][:, 0].float().sigmoid()[..., None] * (v - (k[..., None, :] @ state)[..., 0, :])
        state.add_(k[..., None] * delta[..., None, :])
        return (q[..., None, :] @ state)[..., 0, :].to(BF16)

    moved = tokens * heads * 128 * 2 * 5 + heads * 128 * 128 * 8
    case = Case(f"{op} T={tokens} H={heads}", op, make, moved, variants=variants, tolerance=tolerance)
    case.baseline = plain if tokens == 1 else None
    case.sets = 16 if tokens == 1 else 2
    if tokens > 4096:  # token by token in python: compare the beginning
        names = ("q", "k", "v", "f", "beta")
        case.reduce = lambda i: {**i, **{name: i[name][:, :512].contiguous() for name in names}}
    # Chunked: per chunk and head, two triangular and four state products.
    case.operations = tokens * heads * (6 * 128 * 128 + 6 * 16 * 128) if op == "kda_chunk" else 0
    return case


def mla_decode(heads: int, rows: int, variants: list[dict[str, Any]]) -> Case:
    """Bytes: the latent cache once, for all heads."""

    def make() -> Inputs:
        shape = {"value_dim": 512, "scale": 192**-0.5, "slice_rows": 1024}
        lengths = torch.full((1, 1), rows, device=DEVICE)
        return {"query": normal(1, 1, heads, 576), "cache": normal(1, rows, 576), "lengths": lengths, **shape}

    def plain(i: Inputs) -> object:
        return (i["query"][0, 0] @ i["cache"][0].T * i["scale"]).softmax(-1) @ i["cache"][0, :, :512]

    operations = heads * rows * 2176
    case = Case(f"mla_decode {rows} H={heads}", "mla_decode", make, rows * 1152, operations, 3, plain, variants)
    case.tolerance = 8e-3
    return case


def mla_prefill(tokens: int, variants: list[dict[str, Any]]) -> Case:
    """Operations: half of the square, expanded keys and values."""
    heads = 96

    def make() -> Inputs:
        key, value = normal(1, tokens, heads, 128), normal(1, tokens, heads, 128)
        tail = {"key_pe": normal(1, tokens, 64), "start": 0, "scale": 192**-0.5}
        return {"query": normal(1, tokens, heads, 192), "key": key, "value": value, **tail}

    def plain(i: Inputs) -> object:
        if "_whole" not in i:
            i["_whole"] = torch.cat([i["key"], i["key_pe"][:, :, None].expand(-1, -1, heads, -1)], -1).transpose(1, 2)
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            q, v = i["query"].transpose(1, 2), i["value"].transpose(1, 2)
            return functional.scaled_dot_product_attention(q, i["_whole"], v, is_causal=True, scale=i["scale"])

    def two_heads(i: Inputs) -> Inputs:
        cut = {name: i[name][:, :2048, :2].contiguous() for name in ("query", "key", "value")}
        return {**i, **cut, "key_pe": i["key_pe"][:, :2048].contiguous()}

    operations = heads * tokens * tokens * (192 + 128)
    moved = tokens * heads * (192 + 128 + 128 + 128) * 2
    return Case(
        f"mla_prefill {tokens} H=96", "mla_prefill", make, moved, operations, 2, plain, variants, two_heads, 8e-3
    )


def router(tokens: int) -> Case:
    """Logits in, sixteen ids and weights out."""

    def make() -> Inputs:
        tail = {"top_k": 16, "renormalise": True, "scale": 1.0, "min_sum": 2.0**-14}
        # On a grid, so that equal scores are equal in any arithmetic and ids can be compared.
        logits = torch.randint(-400, 400, (tokens, 896), device=DEVICE) / 100
        return {"logits": logits, "bias": torch.zeros(896, device=DEVICE), **tail}

    def plain(i: Inputs) -> object:
        probability = i["logits"].sigmoid()
        ids = (probability + i["bias"]).topk(16).indices
        weight = probability.gather(1, ids)
        return ids, weight / weight.sum(-1, keepdim=True)

    return Case(f"router {tokens}x896", "router", make, tokens * (896 * 4 + 16 * 12), baseline=plain, tolerance=1e-5)


def product(tokens: int, long: int, wide: int, dtype: torch.dtype, variants: list[dict[str, Any]]) -> Case:
    """Bytes: the weight once, vectors in, sums out. Float32 has no matrix units: only bytes bound it here."""
    size = long * wide * dtype.itemsize

    def make() -> Inputs:
        return {
            "x": normal(tokens, wide, dtype=torch.float32),
            "weight": normal(long, wide, dtype=dtype),
            "by_count": False,
        }

    def plain(i: Inputs) -> object:
        return functional.linear(i["x"].to(dtype), i["weight"])

    name = f"product {str(dtype)[6:]} {tokens}x{long}x{wide}"
    case = Case(name, "product", make, size + tokens * (long + wide) * 4, baseline=plain, variants=variants)
    case.operations = 2 * tokens * long * wide if dtype == BF16 else 0
    case.sets, case.tolerance = max(4, min(64, round(3e8 / size))), 1e-5 if dtype == BF16 else 3e-6
    return case


def experts(held: int, tokens: int, slots: int, variants: list[dict[str, Any]], dtype: torch.dtype = BF16) -> Case:
    """Balanced random routing; the weights are shared by the sets, which outgrow the cache by themselves."""
    weights: Inputs = {}

    def make() -> Inputs:
        if not weights:
            weights["gate"], weights["up"] = (normal(held, 3072, 3584, dtype=dtype, scale=3584**-0.5) for _ in range(2))
            weights["down"] = normal(held, 3584, 3072, dtype=dtype, scale=3072**-0.5)
        ids = torch.rand(tokens, held, device=DEVICE).argsort(1)[:, :slots].contiguous()
        tail = {"beta": 4.0, "linear_beta": 25.0, "first_expert": 0, "expert_count": held}
        return {
            "x": normal(tokens, 3584, dtype=dtype),
            "ids": ids,
            "weights": torch.rand(tokens, slots, device=DEVICE),
            "by_load": False,
            **weights,
            **tail,
        }

    def plain(i: Inputs) -> object:
        """Three bare grouped products on rows that were sorted beforehand: no gather, no combine."""
        if "_rows" not in i:
            i["_ends"] = torch.bincount(i["ids"].flatten(), minlength=held).cumsum(0).to(torch.int32)
            i["_rows"] = i["x"].repeat_interleave(slots, 0)[i["ids"].flatten().argsort()]
        g, u = (torch._grouped_mm(i["_rows"], i[name].mT, offs=i["_ends"]) for name in ("gate", "up"))  # noqa: SLF001
        hidden = 4 * (g / 4).tanh() * g.sigmoid() * (25 * (u / 25).tanh())
        return torch._grouped_mm(hidden, i["down"].mT, offs=i["_ends"])  # noqa: SLF001  torch's only grouped product

    def one_by_one(i: Inputs) -> object:
        """The same of float32, which torch does not group: three products an expert, as if the host knew the ids."""
        if "_used" not in i:
            pairs = [(expert, (i["ids"] == expert).any(1).nonzero()[:, 0]) for expert in i["ids"].unique().tolist()]
            i["_used"] = [(expert, i["x"][rows]) for expert, rows in pairs]
        outs = []
        for expert, rows in i["_used"]:
            g, u = functional.linear(rows, i["gate"][expert]), functional.linear(rows, i["up"][expert])
            hidden = 4 * (g / 4).tanh() * g.sigmoid() * (25 * (u / 25).tanh())
            outs.append(functional.linear(hidden, i["down"][expert]))
        return outs

    each = 3 * 3584 * 3072
    used = held * (1 - (1 - slots / held) ** tokens)
    name = f"experts {held} T={tokens} k={slots}" if dtype == BF16 else f"experts float32 {held} T={tokens} k={slots}"
    moved, operations = used * each * dtype.itemsize, tokens * slots * each * 2 if dtype == BF16 else 0
    if dtype == BF16:
        return Case(name, "experts", make, moved, operations, 4, plain, variants, tolerance=6e-3)
    return Case(name, "experts", make, moved, operations, 4, one_by_one, variants, tolerance=3e-6)


def residual_mix(tokens: int) -> Case:
    """Bytes: eight banked vectors and the current one in, one out."""

    def make() -> Inputs:
        bank = normal(8, tokens, 7168)
        return {
            "bank": bank,
            "x": normal(tokens, 7168),
            "score_weight": normal(7168, scale=0.01),
            "count": 8,
            "eps": 1e-5,
        }

    def plain(i: Inputs) -> object:
        every = torch.cat([i["bank"], i["x"][None]]).float()
        normed = every * (every.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        share = (normed * i["score_weight"].float()).sum(-1).softmax(0)
        return (share[..., None] * every).sum(0).to(BF16)

    moved = tokens * 7168 * 20
    return Case(f"residual_mix {tokens}x7168, 8 banked", "residual_mix", make, moved, sets=4, baseline=plain)


def unpack(quant: str, block_bytes: int, block_values: int) -> Case:
    """Packed bytes in, bfloat16 out."""
    blocks = 2**26 // block_values

    def make() -> Inputs:
        data = torch.randint(0, 256, (1, blocks, block_bytes), dtype=torch.uint8, device=DEVICE)
        if quant == "mxfp4":
            data[..., 0] = 120 + data[..., 0] % 16
        else:
            data[..., 1] &= 0xBB
        inputs: Inputs = {"data": data.reshape(1, -1), "quant": quant, "dtype": BF16}
        if quant == "iq1_s":
            inputs["grid"] = torch.randint(-1, 2, (2048, 8), dtype=torch.int8, device=DEVICE)
        return inputs

    return Case(f"unpack {quant}, 64 Mi values", "unpack", make, 2**26 * 2 + blocks * block_bytes, sets=2)


def row(name: str, keys: str, *values: int, **arguments: int) -> dict[str, Any]:
    """A variant: one table of tile sizes, and arguments."""
    return {**arguments, name: dict(zip(keys.split(), values, strict=True))}


LAUNCH = "num_warps num_stages"
DECODE = [
    {"slice_rows": 2048},
    {"slice_rows": 2048, "PASSES": False},
    *({"slice_rows": rows} for rows in (512, 1024, 4096)),
    {"slice_rows": 512, "PASSES": False},
    *(
        row("POWERS", f"BN BK {LAUNCH}", *sizes, slice_rows=2048)
        for sizes in ((128, 64, 8, 4), (128, 64, 4, 3), (128, 32, 4, 6), (64, 64, 4, 4), (256, 64, 8, 4))
    ),
    *(
        row("VALUES", f"BV BK {LAUNCH}", *sizes, slice_rows=2048)
        for sizes in ((128, 64, 8, 4), (256, 64, 8, 4), (256, 32, 8, 4), (256, 128, 8, 2))
    ),
    {"slice_rows": 2048},
]
DECODE_12 = [
    {"slice_rows": 512},
    *(row("tiles", f"BH BN {LAUNCH}", *sizes, slice_rows=512) for sizes in ((16, 32, 4, 3), (16, 32, 4, 4))),
]
STEP = [{}, row("TILE", "BV num_warps", 32, 4)]
CHUNK = [
    {},
    {"HALF": False},
    *(
        row("HALF_PREPARE_TILE", f"WIDTH {LAUNCH} maxnreg", *sizes)
        for sizes in ((16, 1, 1, 96), (32, 1, 1, 168), (64, 2, 1, 168), (128, 4, 1, 168))
    ),
    *(row("HALF_SCAN_TILE", f"BLOCK {LAUNCH}", *sizes) for sizes in ((64, 4, 2), (64, 4, 4), (128, 8, 3))),
]
CONV = [
    {},
    *(row("TILE", "RUN BLOCK num_warps", *sizes) for sizes in ((8, 256, 4), (16, 256, 8))),
]
PREFILL = [
    {},
    *(row("tiles", f"BT BS SKIP {LAUNCH}", *sizes) for sizes in ((64, 64, 1, 4, 2), (64, 32, 1, 4, 3))),
]
EXPERTS = [{}, {"by_load": True}, {"by_load": True, "GROUP": 1 << 20}]
EXPERTS_MANY = [
    *EXPERTS,
    *({"by_load": True, "FEW": group} for group in (2, 8, 16, 32)),
    {"by_load": True, "BULK": False},
    *(
        {**row("DOWN", f"ROWS COLUMNS INNER {LAUNCH}", *sizes), "by_load": True}
        for sizes in ((128, 128, 64, 8, 4), (128, 128, 64, 8, 3), (128, 256, 64, 8, 4))
    ),
    {"by_load": True},
]

LANES = "ROWS INNER num_warps"
EXACT: list[dict[str, Any]] = [{}, {}]
BY_COUNT: list[dict[str, Any]] = [{}, {"by_count": True}, {}]
MANY_ROWS: list[dict[str, Any]] = [
    {},
    *(row("LONG", LANES, *sizes) for sizes in ((4, 512, 4), (4, 512, 2), (8, 256, 4), (8, 256, 2), (4, 1024, 8))),
    {},
]

CASES: list[Callable[[], Case]] = [
    lambda: rms_norm(1),
    lambda: rms_norm(4096),
    lambda: situ(1),
    lambda: situ(4096),
    lambda: conv(1, [{}]),
    lambda: conv(4096, CONV),
    lambda: kda("kda_step", 1, 96, STEP),
    lambda: kda("kda_step", 1, 12, STEP),
    lambda: kda("kda_step", 4096, 96, [{}]),
    lambda: kda("kda_chunk", 4096, 96, CHUNK),
    lambda: kda("kda_chunk", 32768, 96, [{}]),
    lambda: mla_decode(96, 131_072, DECODE),
    lambda: mla_decode(12, 131_072, DECODE_12),
    lambda: mla_prefill(8192, PREFILL),
    lambda: router(1),
    lambda: router(4096),
    lambda: experts(112, 1, 2, EXPERTS),
    lambda: experts(112, 512, 2, EXPERTS),
    lambda: experts(112, 1024, 2, EXPERTS),
    lambda: experts(112, 2048, 2, EXPERTS),
    lambda: experts(112, 4096, 2, EXPERTS_MANY),
    lambda: experts(896, 1, 16, EXPERTS[1:]),
    lambda: experts(896, 4096, 16, EXPERTS[1:]),
    *(
        lambda long=long, wide=wide, tokens=tokens: product(tokens, long, wide, torch.float32, MANY_ROWS)
        for tokens, long, wide in (
            (1, 12288, 7168),
            (1, 7168, 12288),
            (1, 3072, 7168),
            (1, 128, 7168),
            (8, 12288, 7168),
            (64, 12288, 7168),
            (64, 3072, 7168),
        )
    ),
    *(
        lambda long=long, wide=wide, tokens=tokens: product(
            tokens, long, wide, BF16, BY_COUNT if tokens == 1 else EXACT
        )
        for tokens, long, wide in ((1, 12288, 7168), (1, 3072, 7168), (1, 128, 7168), (64, 12288, 7168))
    ),
    lambda: experts(8, 1, 2, EXACT, torch.float32),
    lambda: experts(112, 1, 2, EXACT, torch.float32),
    lambda: experts(112, 64, 2, EXACT, torch.float32),
    lambda: residual_mix(1),
    lambda: residual_mix(4096),
    lambda: unpack("q8_0", 34, 32),
    lambda: unpack("mxfp4", 17, 32),
    lambda: unpack("iq1_s", 50, 256),
]

from __future__ import annotations

import struct

import pytest
import torch

from k3_ledger.kernels.unpack.formats import IQ1_S_GRID, LAYOUTS
from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive

QUANTS = sorted(LAYOUTS)
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]


def grid():
    return torch.randint(-1, 2, IQ1_S_GRID, generator=draw(1), dtype=torch.int8)


def packed(quant, rows=3, blocks=5):
    """Random bits with finite scales: every pattern of the values themselves occurs."""
    layout = LAYOUTS[quant]
    random = draw(blocks)
    data = torch.randint(0, 256, (rows, blocks, layout.block_bytes), generator=random, dtype=torch.uint8)
    if quant in ("q8_0", "iq1_s", "f16"):
        data[..., 1] &= 0xBB  # exponent below the infinities
    if quant == "bf16":
        data[..., 1] &= 0xBF
    if quant == "f32":
        data[..., 3] &= 0xBF
    if quant == "mxfp4":
        data[..., 0] = 100 + data[..., 0] % 60
    return data.reshape(rows, -1)


def extras(quant, device):
    return {"grid": grid().to(device)} if quant == "iq1_s" else {}


@pytest.mark.parametrize("quant", QUANTS)
@pytest.mark.parametrize("blocks", [1, 5, 300])
def test_every_bit_equals_the_specification(quant, blocks, device):
    data = packed(quant, rows=2, blocks=blocks if LAYOUTS[quant].block_values < 256 else blocks // 10 + 1)
    result = kernel("unpack", data.to(device), quant=quant, dtype=torch.float32, **extras(quant, device))
    expected = naive("unpack", data, quant=quant, dtype=torch.float32, **extras(quant, "cpu"))
    assert result.shape == (2, expected.shape[1])
    assert torch.equal(result.cpu(), expected)


@pytest.mark.parametrize("quant", QUANTS)
def test_narrow_outputs_are_rounded_to_nearest(quant, device):
    data = packed(quant)
    wide = naive("unpack", data, quant=quant, dtype=torch.float32, **extras(quant, "cpu"))
    result = kernel("unpack", data.to(device), quant=quant, dtype=torch.bfloat16, **extras(quant, device))
    assert torch.equal(result.cpu(), wide.to(torch.bfloat16))


@pytest.mark.parametrize(
    ("quant", "block", "expected"),
    [
        ("q8_0", struct.pack("<e32b", 0.5, *range(-16, 16)), [value / 2 for value in range(-16, 16)]),
        ("mxfp4", bytes([128, *(low | (15 - low) << 4 for low in range(16))]), [2 * v for v in E2M1 + E2M1[::-1]]),
        ("bf16", b"\x80\x3f", [1.0]),
        ("f16", b"\x00\xc0", [-2.0]),
        ("f32", struct.pack("<f", 1.1), [struct.unpack("<f", struct.pack("<f", 1.1))[0]]),
    ],
    ids=["q8_0", "mxfp4", "bf16", "f16", "f32"],
)
def test_a_block_written_by_hand(quant, block, expected, device):
    data = torch.frombuffer(bytearray(block), dtype=torch.uint8)[None].to(device)
    result = kernel("unpack", data, quant=quant, dtype=torch.float32)
    assert result.cpu().tolist() == [expected]


def test_iq1_s_by_hand(device):
    """Group 3 of word 2: index 0x5a5, s = 6, delta negative, d = 0.25."""
    index, s, word_number, group = 0x5A5, 6, 2, 3
    word = 0x8000 | s << 12 | (index >> 8) << (3 * group)
    words = [0] * 8
    words[word_number] = word
    low = bytearray(32)
    low[4 * word_number + group] = index & 0xFF
    block = struct.pack("<e", 0.25) + bytes(low) + struct.pack("<8H", *words)
    data = torch.frombuffer(bytearray(block), dtype=torch.uint8)[None].to(device)
    result = kernel("unpack", data, quant="iq1_s", dtype=torch.float32, grid=grid().to(device)).cpu()[0]
    begin = 32 * word_number + 8 * group
    assert torch.equal(result[begin : begin + 8], 0.25 * 13 * (grid()[index].float() - 0.125))
    assert torch.equal(result[:8], 0.25 * (grid()[0].float() + 0.125))


def test_nibbles_in_another_order_are_seen(device):
    data = packed("mxfp4")
    result = kernel("unpack", data.to(device), quant="mxfp4", dtype=torch.float32)
    neighbours = result.cpu().reshape(3, 5, 2, 16).transpose(2, 3).reshape(3, -1)
    assert (
        distance(neighbours, naive("unpack", data, quant="mxfp4", dtype=torch.float32))
        > MARGIN * TOLERANCE[torch.bfloat16]
    )


@pytest.mark.parametrize(("exponent", "scale"), [(0, 2.0**-127), (1, 2.0**-126), (127, 1.0), (254, 2.0**127)], ids=str)
def test_every_scale_of_mxfp4_is_exact_subnormals_too(exponent, scale, device):
    data = torch.tensor([[exponent, *[0x21] * 16]], dtype=torch.uint8, device=device)
    result = kernel("unpack", data, quant="mxfp4", dtype=torch.float32).cpu().double()
    assert result[0].tolist() == [0.5 * scale] * 16 + [scale] * 16


def test_a_nan_scale_reaches_every_value_of_its_block(device):
    data = packed("mxfp4", rows=1, blocks=3)
    data[0, 17] = 255
    result = kernel("unpack", data.to(device), quant="mxfp4", dtype=torch.float32).cpu()[0]
    assert result[32:64].isnan().all()
    assert result[:32].isfinite().all()
    assert result[64:].isfinite().all()


@pytest.mark.parametrize("quant", ["q8_0", "mxfp4", "iq1_s", "bf16", "f16"])
def test_agrees_with_the_public_reader_of_gguf_files(quant, device):
    quants = pytest.importorskip("gguf.quants")
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[quant.upper()]
    keywords = {}
    if quant == "iq1_s":
        quants.IQ1_S.init_grid()
        table = quants.IQ1_S.grid.reshape(2048, 8)
        keywords["grid"] = torch.from_numpy(table.astype("int8")).to(device)
    data = packed(quant)
    expected = torch.from_numpy(quants.dequantize(data.numpy(), kind).copy())
    result = kernel("unpack", data.to(device), quant=quant, dtype=torch.float32, **keywords).cpu()
    assert distance(result, expected) < TOLERANCE[torch.float32]


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"quant": "q4_k"}, ValueError, "unknown quantisation"),
        ({"quant": "iq1_s"}, ValueError, "whole number"),
        ({"dtype": torch.int8}, TypeError, "cannot unpack"),
        ({"grid": grid()}, ValueError, "grid"),
    ],
    ids=str,
)
def test_what_cannot_be_unpacked_is_refused(change, error, match, device):
    data = packed("q8_0").to(device)
    with pytest.raises(error, match=match):
        kernel("unpack", data, **{"quant": "q8_0", "dtype": torch.float32, **change})

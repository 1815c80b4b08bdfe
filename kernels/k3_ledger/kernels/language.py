"""What every kernel shares: 64-bit program ids, products of stated precision, and functions that keep small values.

Importing this module imports triton. Whether kernels are interpreted is decided by ``TRITON_INTERPRET`` when triton is
first imported, and is a fact of the process from then on; :mod:`.dispatch` records it.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl

INTERPRETED: Final = bool(triton.knobs.runtime.interpret)
"""Whether kernels of this process run in triton's CPU interpreter."""
_INTERPRETED = tl.constexpr(INTERPRETED)

if INTERPRETED:
    from k3_ledger.kernels.interpreter import read_loop_bounds

    read_loop_bounds()


@triton.jit
def program_id(axis: tl.constexpr):
    """Program id as int64: it multiplies strides, and 2^31 elements of bfloat16 are only 4 GiB."""
    return tl.program_id(axis).to(tl.int64)


@triton.jit
def dot(a, b, acc):
    """``acc + a @ b``, accumulated in float32; float32 operands multiply in IEEE float32 (no TF32), 16-bit exactly."""
    if _INTERPRETED:
        # The interpreter stores bfloat16 as 16-bit integers and would multiply those.
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, acc, input_precision="ieee")


@triton.jit
def dot_tf32x3(a, b, acc):
    """``acc + a @ b`` of float32 operands as three TF32 products on matrix units, accumulated in float32.

    2^-22 relative: for operations under a tolerance contract only.
    """
    return tl.dot(a, b, acc, input_precision="tf32x3")


@triton.jit
def dot_tf32(a, b, acc):
    """``acc + a @ b`` of float32 operands cut to TF32's 11 bits, accumulated in float32.

    2^-10 relative: for 16-bit inputs of operations under a tolerance contract only.
    """
    if _INTERPRETED:
        # The interpreter multiplies in full: cut what matrix units do not read, so that tests see the same loss.
        a = (a.to(tl.uint32, bitcast=True) & 0xFFFFE000).to(tl.float32, bitcast=True)
        b = (b.to(tl.uint32, bitcast=True) & 0xFFFFE000).to(tl.float32, bitcast=True)
    return tl.dot(a, b, acc, input_precision="tf32")


@triton.jit
def narrow(x, dtype: tl.constexpr):
    """Float32 values in the type they are stored in, rounded to nearest even."""
    if _INTERPRETED and dtype == tl.bfloat16:
        # The interpreter truncates to bfloat16: round first, so that it has nothing to cut. NaN stays as it is.
        bits = x.to(tl.uint32, bitcast=True)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).to(tl.float32, bitcast=True)
        x = tl.where(is_nan(x), x, rounded)
    return x.to(dtype)


@triton.jit
def is_nan(x):
    """Whether each value is NaN."""
    return x != x  # noqa: PLR0124  how a kernel finds NaN


@triton.jit
def sigmoid(x):
    """``1 / (1 + e^-x)`` in float32, without overflow on the way."""
    power = tl.exp(-tl.abs(x))
    return tl.where(x < 0.0, power, 1.0) / (1.0 + power)


@triton.jit
def tanh(x):
    """Hyperbolic tangent in float32, to 2e-7 relative at any size: the quotient of exponentials cancels near 0."""
    power = tl.exp(-2.0 * tl.abs(x))
    large = (1.0 - power) / (1.0 + power)
    s = x * x
    small = x * (1.0 + s * (-1.0 / 3.0 + s * (2.0 / 15.0 + s * (-17.0 / 315.0 + s * (62.0 / 2835.0)))))
    return tl.where(tl.abs(x) < 0.25, small, tl.where(x < 0.0, -large, large))


@triton.jit
def situ(gate, up, beta, linear_beta):
    """The situ activation of float32 values; ``linear_beta`` 0 leaves ``up`` as it is."""
    divisor = tl.where(linear_beta > 0.0, linear_beta, 1.0)
    linear = tl.where(linear_beta > 0.0, linear_beta * tanh(up / divisor), up)
    return beta * tanh(gate / beta) * sigmoid(gate) * linear


@triton.jit
def log_decay(f, slope, lower_bound, BOUNDED: tl.constexpr):
    """Natural logarithm of KDA's decay; ``slope`` is exp(A_log), ``f`` already holds its bias."""
    if BOUNDED:
        g = lower_bound * sigmoid(slope * f)
    else:
        g = -slope * (tl.maximum(f, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(f))))
    return g

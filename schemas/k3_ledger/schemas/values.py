"""The constrained values that models are made of, and the base class of all models.

Patterns are written in the part of the syntax that pydantic, Python, msgspec and ECMA share, and each is anchored at
both ends. A constraint that this syntax cannot say is not part of a schema; the verifier's semantic steps check it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from k3_ledger.schemas.canonical import MAX_INTEGER

Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""64 lower-case hexadecimal digits: a SHA-256 digest or a raw Ed25519 public key."""
KeyId = Hex64
"""Lower-case hexadecimal SHA-256 of a raw 32-byte Ed25519 public key."""
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}(?:[0-9a-f]{24})?$")]
"""40 or 64 lower-case hexadecimal digits: the git object id of a commit, in full."""
Decimal = Annotated[str, StringConstraints(pattern=r"^-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,40})?$")]
"""A decimal number as text, such as `12` or `-0.5`: no exponent, plus sign, leading zero, NaN or infinity. At most 31
digits before the point and 40 after it. Trailing zeros are kept: they say how precisely it was recorded."""
BigInt = Annotated[str, StringConstraints(pattern=r"^(?:0|[1-9][0-9]{0,38})$")]
"""A non-negative integer that may pass 2^53 (absolute clock readings, FLOP counts), as text of at most 39 digits."""
Timestamp = Annotated[
    str,
    StringConstraints(
        pattern=(
            r"^(?:2[0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
            r"|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:2[0-9](?:0[48]|[2468][048]|[13579][26])|2[048]00)-02-29)"
            r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$"
        )
    ),
]
"""`YYYY-MM-DDTHH:MM:SSZ`: UTC to the second, a day of the calendar between 2000 and 2999, no leap second. Claimed by
the signer: order comes from the chain, never from this."""
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+:@/-]{0,199}$")]
"""A short ASCII name: 1 to 200 characters of `A-Z a-z 0-9 . _ + : @ / -`, the first a letter or digit."""
FileName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+@-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+@-]*)*$", max_length=200),
]
"""A relative path of at most 200 ASCII characters, `/` between its parts. No part starts with a dot, so none climbs."""
MediaType = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9.+-]+/[A-Za-z0-9.+-]+(?:;[!-~]{1,80})?$", max_length=200)
]
"""A media type with at most one parameter, such as `text/plain;charset=utf-8`."""
Origin = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,198}$")]
"""Name of a log: a host and path without scheme, such as `example.org/speed`; also its checkpoint key name."""
Text = Annotated[str, StringConstraints(max_length=4096)]
"""Free text of at most 4,096 characters (Unicode code points)."""
Signature = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{85}[AQgw]==$")]
"""Strict base64 of a 64-byte Ed25519 signature: 88 characters, unused bits zero."""
Integer = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
"""An integer within ±(2^53-1)."""
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
"""An integer from 0 to 2^53-1."""
Positive = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
"""An integer from 1 to 2^53-1."""


class Model(BaseModel):
    """Base of all models: frozen, strict types, unknown fields refused.

    No field of any model has a default. Every field is always written, ``null`` or ``[]`` where there is nothing to
    say, so that one value has one encoding and "not measured" is a statement that somebody signed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

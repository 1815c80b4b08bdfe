"""No private key is published, however it stands in a file; what only speaks of one is."""

from __future__ import annotations

import base64
import io
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from k3_ledger.ledger.writer import blobs, secrets_in
from k3_ledger.ledger.writer.blobs import check_publishable
from k3_ledger.schemas.errors import KeyFileError
from k3_ledger.schemas.findings import Code

SEED = bytes(range(100, 132))
KEY = ed25519.Ed25519PrivateKey.from_private_bytes(SEED)
PUBLIC = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
PLAIN = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
DER = KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
SECOND = bytes.fromhex("3051020101300506032b657004220420") + SEED + b"\x81\x21\x00" + PUBLIC
SLASHES = PLAIN.replace(b"C", b"/")
KEYS = {
    "PEM": PLAIN,
    "PEM under a passphrase": KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")),
    "OpenSSH": KEY.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
    "EC": ec.derive_private_key(7, ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    ),
    "RSA": rsa.generate_private_key(65537, 1024).private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    ),
    "CRLF": PLAIN.replace(b"\n", b"\r\n"),
    "indented": b"key: |\n" + b"".join(b"        " + line for line in PLAIN.splitlines(keepends=True)),
    "JSON": json.dumps({"key": PLAIN.decode()}).encode(),
    "JSON in JSON": json.dumps({"text": json.dumps({"key": PLAIN.decode().replace("\n", "\r\n")})}).encode(),
    "JSON with slashes": json.dumps({"key": SLASHES.decode()}).replace("/", "\\/").encode(),
    "UTF-16": PLAIN.decode().encode("utf-16"),
    "UTF-16, the other way round": PLAIN.decode().encode("utf-16-be"),
    "UTF-32": PLAIN.decode().encode("utf-32"),
    "DER": DER,
    "DER with the public half": SECOND,
}
LINE = b"a line of a log, as long as any other\n"
SPOKEN = {
    "the first line": b"the file begins with\n-----BEGIN PRIVATE KEY-----\nand ends with\n-----END PRIVATE KEY-----\n",
    "an example": b'"-----BEGIN PRIVATE KEY-----\\n...\\n-----END PRIVATE KEY-----"\n',
    "a public key": KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    "a public key in DER": KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    "a certificate": b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(bytes(90)) + b"\n",
}


def refused(data: bytes) -> bool:
    try:
        check_publishable(io.BytesIO(data), "name")
    except KeyFileError as error:
        return error.code is Code.KEY_FILE_EXPOSED
    return False


@pytest.mark.parametrize("where", ["alone", "within", "behind", "long", "at the end"])
@pytest.mark.parametrize("kind", KEYS)
def test_a_private_key_is_recognized_wherever_it_stands(kind, where):
    data = KEYS[kind]
    around = {
        "alone": data,
        "within": b"before it " + data + b" behind it",
        "behind": LINE * 9 + data + LINE,
        "long": LINE * 1000 + data + LINE * 1000,
        "at the end": LINE * 60_000 + data,
    }[where]
    assert refused(around)


@pytest.mark.parametrize("kind", KEYS)
def test_the_edge_of_a_block_hides_nothing(kind, monkeypatch):
    data = LINE * 500 + KEYS[kind] + LINE * 500
    for block in (1000, 1001, 1007, len(LINE) * 500 + 5, len(LINE) * 500 + len(KEYS[kind]) // 2):
        monkeypatch.setattr(blobs, "BLOCK", block)
        assert refused(data)


@pytest.mark.parametrize("kind", SPOKEN)
def test_what_speaks_of_a_key_in_a_long_file_is_published(kind):
    data = LINE * 500 + SPOKEN[kind] + LINE * 500
    assert not refused(data)
    assert not refused(data.decode("latin-1").encode("utf-16"))


def test_in_a_short_file_the_first_line_is_enough():
    line = b"-----BEGIN PRIVATE KEY-----\n"
    room = secrets_in.SHORT - len(line)
    assert refused(line)
    assert refused(b"x" * (room - 1) + b"\n" + line)
    assert not refused(b"x" * room + b"\n" + line)


def test_the_longest_match_fits_into_what_is_looked_at_again():
    longest = b"-----BEGIN " + (b"A" * 20 + b" ") * 4 + b"PRIVATE KEY-----" + b"\\\\\\\\n" * 64
    longest += (b"\\\\\\\\/" + b"\\\\\\\\n" * 8) * 40
    match = secrets_in._ARMOUR.fullmatch(longest)
    assert match is not None
    assert len(longest.decode().encode("utf-32-le")) <= secrets_in._OVERLAP


def test_the_form_of_a_key_without_one_is_published():
    assert not refused(LINE * 500 + DER[:-1])
    assert refused(LINE * 500 + DER)

"""Tokens whose certificates stand in another order than DER's are the same tokens: openssl writes such ones."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from docs.examples.made_up_intel import der
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.cli.token_sets import with_sorted_sets
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from pathlib import Path

OPENSSL = shutil.which("openssl")
CONFIG = """[tsa]
default_tsa = t
[t]
serial = serial
signer_cert = tsa.pem
signer_key = tsa.key
certs = chain.pem
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
signer_digest = sha256
"""
STAMPING = "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=critical,timeStamping\n"
SIGNING = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
LONG = "An authority whose name is as long as names of authorities are"
TEXT = b"the text of a head\n"


class Maker:
    """Authorities by openssl: a root, one in between, one that stamps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "stamping").write_text(STAMPING)
        (folder / "signing").write_text(SIGNING)
        (folder / "serial").write_text("01\n")
        (folder / "config").write_text(CONFIG)
        (folder / "data").write_bytes(TEXT)
        self("ts", "-query", "-data", "data", "-sha256", "-cert", "-out", "query")

    def __call__(self, *arguments: str) -> None:
        assert OPENSSL is not None
        subprocess.run([OPENSSL, *arguments], check=True, capture_output=True, cwd=self.folder, timeout=60)

    def certificate(self, name: str, above: str | None, subject: str, extensions: str) -> None:
        self("ecparam", "-genkey", "-name", "prime256v1", "-out", f"{name}.key")
        self("req", "-new", "-key", f"{name}.key", "-subj", f"/CN={subject}", "-out", f"{name}.csr")
        by = ["-signkey", f"{name}.key"] if above is None else ["-CA", f"{above}.pem", "-CAkey", f"{above}.key"]
        more = [] if above is None else ["-CAcreateserial"]
        files = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", extensions)
        self("x509", "-req", *by, *more, "-days", "9", *files)

    def token(self, *chain: str) -> bytes:
        (self.folder / "chain.pem").write_bytes(b"".join((self.folder / f"{one}.pem").read_bytes() for one in chain))
        self("ts", "-reply", "-config", "config", "-queryfile", "query", "-out", "token")
        return (self.folder / "token").read_bytes()

    def der(self, name: str) -> bytes:
        self("x509", "-in", f"{name}.pem", "-outform", "DER", "-out", f"{name}.der")
        return (self.folder / f"{name}.der").read_bytes()


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    pytest.importorskip("rfc3161_client", reason="the extra k3-ledger[time] is not installed")
    if OPENSSL is None:
        pytest.skip("openssl, which plays the timestamp authority, is not installed")
    made = Maker(tmp_path_factory.mktemp("tsa"))
    made.certificate("ca", None, "Root", "signing")
    made.certificate("between", "ca", LONG, "signing")
    made.certificate("tsa", "between", "Stamps", "stamping")
    return made


def permuted(token: bytes, certificates: tuple[bytes, ...]) -> bytes:
    """The same token with its certificates in that order."""
    length = sum(map(len, certificates))
    start = next(at for at in range(len(token)) if set(certificates) == _split(token[at : at + length], certificates))
    return token[:start] + b"".join(certificates) + token[start + length :]


def _split(data: bytes, certificates: tuple[bytes, ...]) -> set[bytes]:
    found = set()
    while data and (first := next((one for one in certificates if data.startswith(one)), None)):
        found.add(first)
        data = data[len(first) :]
    return found


def test_tokens_of_openssl_are_read_in_whatever_order_their_certificates_stand(maker: Maker) -> None:
    from rfc3161_client import decode_timestamp_response

    from k3_ledger.cli.tokens import read_token

    token = maker.token("between", "ca")
    certificates = tuple(maker.der(name) for name in ("tsa", "between", "ca"))
    read, refused = set(), 0
    for order in itertools.permutations(certificates):
        other = permuted(token, order)
        assert len(other) == len(token)
        read.add(read_token(other, [certificates[2]]))
        assert with_sorted_sets(other) == with_sorted_sets(token)
        try:
            decode_timestamp_response(other)
        except ValueError:
            refused += 1
    assert refused == 5, "five of six orders are not DER's, and the library refuses them: that is what is tested here"
    (found,) = read
    assert found.authority == "CN=Stamps"
    assert maker.der("tsa") in token


def test_a_root_beside_the_signer_is_enough(maker: Maker) -> None:
    from k3_ledger.cli.tokens import read_token

    assert read_token(maker.token("between"), [maker.der("ca")]).authority == "CN=Stamps"
    with pytest.raises(LedgerError) as caught:
        read_token(maker.token("ca"), [maker.der("ca")])
    assert caught.value.code is Code.TIMESTAMP_UNTRUSTED, "one in between is missing"


def test_another_order_saves_no_token_that_is_forged(maker: Maker) -> None:
    from k3_ledger.cli.tokens import read_token

    token, root = maker.token("between", "ca"), maker.der("ca")
    meant = read_token(token, [root])
    codes = set()
    for at in range(0, len(token), 3):
        data = bytearray(token)
        data[at] ^= 1 << at % 8
        try:
            assert read_token(bytes(data), [root]) == meant, "bytes that nobody signs"
        except LedgerError as error:
            codes.add(error.code)
    assert codes == {Code.TIMESTAMP_BAD, Code.TIMESTAMP_UNREADABLE, Code.TIMESTAMP_UNTRUSTED}


# ---------------------------------------------------------------------------------------------------------- any bytes


def response(*sets: bytes, status: bytes = der(0x30, der(0x02, b"\0"))) -> bytes:
    signed = der(0x30, der(0x02, b"\3") + der(0x31, b"") + der(0x30, der(0x06, b"x")) + b"".join(sets) + der(0x31, b""))
    return der(0x30, status + der(0x30, der(0x06, b"y") + der(0xA0, signed)))


MEMBERS = (der(0x30, b"c" * 300), der(0x30, b"b"), der(0x30, b"a"))


def test_certificates_and_revocation_lists_are_sorted_and_nothing_else() -> None:
    unsorted, in_order = b"".join(MEMBERS), b"".join(sorted(MEMBERS))
    assert unsorted != in_order
    given_sets = response(der(0xA0, unsorted), der(0xA1, unsorted))
    assert with_sorted_sets(given_sets) == response(der(0xA0, in_order), der(0xA1, in_order))
    assert with_sorted_sets(response(der(0xA2, unsorted))) == response(der(0xA2, unsorted))
    assert with_sorted_sets(response(der(0xA1, unsorted))) == response(der(0xA1, in_order))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x30",
        b"\x30\x80\0\0",
        b"\x30\x85\0\0\0\0\1x",
        b"\x30\x83\0",
        b"\x30\x02x",
        b"\x1f\x21\0",
        b"\x31\0",
        response(der(0xA0, b"".join(MEMBERS)))[:-1],
        response(der(0xA0, b"".join(MEMBERS))) + b"\0",
        der(0x31, response(der(0xA0, b"".join(MEMBERS)))[4:]),
        response(der(0xA0, MEMBERS[0] + b"\x30\x05")),
    ],
)
def test_what_has_not_the_shape_of_a_token_comes_back_as_it_is(data: bytes) -> None:
    assert with_sorted_sets(data) == data


@given(st.binary(max_size=60), st.lists(st.binary(max_size=200), max_size=5))
def test_no_byte_is_lost_or_made(data: bytes, members: list[bytes]) -> None:
    token = response(der(0xA0, b"".join(der(0x30, one) for one in members)) + data)
    for one in (data, token):
        found = with_sorted_sets(one)
        assert sorted(found) == sorted(one)
        assert with_sorted_sets(found) == found

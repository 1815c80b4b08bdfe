"""What a certificate under a timestamp may be: an authority of the tests' own makes each that should not do."""

from __future__ import annotations

import pytest

pytest.importorskip("rfc3161_client", reason="the extra k3-ledger[time] is not installed")

from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose

from k3_ledger.cli import token_chain
from k3_ledger.cli.token_chain import MAX_CARRIED, MAX_STEPS, ways
from k3_ledger.cli.token_sets import names_certificate
from k3_ledger.cli.tokens import read_token
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.reference.naive_tsa import DAY, NOW, TST_INFO, Holder, Reply, Wanted, authority, issue

STAMPS = (Purpose.TIME_STAMPING,)
HOUR = DAY / 24
GONE = {"ends": NOW - HOUR}

GOOD = {
    "as it should be": (Wanted(),),
    "authority between": (Wanted(), authority("Between")),
    "two between": (Wanted(), authority("Lower", path_length=0), authority("Upper", path_length=1)),
    "authority for timestamps": (Wanted(), authority("Between", purposes=STAMPS)),
    "authority for anything": (Wanted(), authority("Between", purposes=(Purpose.ANY_EXTENDED_KEY_USAGE,))),
    "no basic constraints": (Wanted(ca=None),),
    "no key usage": (Wanted(key_usage=False),),
    "expires the next moment": (Wanted(ends=NOW + HOUR / 3600),),
}
"""The signer's certificate, and those between it and the root."""

BAD = {
    "for more than timestamps": (Wanted(purposes=(*STAMPS, Purpose.CODE_SIGNING)),),
    "for anything": (Wanted(purposes=(*STAMPS, Purpose.ANY_EXTENDED_KEY_USAGE)),),
    "for something else": (Wanted(purposes=(Purpose.CODE_SIGNING,)),),
    "for nothing": (Wanted(purposes=()),),
    "purpose not critical": (Wanted(purposes_critical=False),),
    "key for more": (Wanted(key_encipherment=True),),
    "key for no signature": (Wanted(digital_signature=False, key_encipherment=True),),
    "key for certificates": (Wanted(key_cert_sign=True),),
    "an authority over certificates": (Wanted(ca=True),),
    "expired": (Wanted(**GONE),),
    "not valid yet": (Wanted(begins=NOW + HOUR),),
    "unknown critical extension": (Wanted(unknown_critical=True),),
    "between: expired": (Wanted(), authority("Between", **GONE)),
    "between: no authority": (Wanted(), authority("Between", ca=False)),
    "between: does not say": (Wanted(), authority("Between", ca=None)),
    "between: may not sign": (Wanted(), authority("Between", key_cert_sign=False, digital_signature=True)),
    "between: unknown extension": (Wanted(), authority("Between", unknown_critical=True)),
    "between: for web servers": (Wanted(), authority("Between", purposes=(Purpose.SERVER_AUTH,))),
    "path length": (Wanted(), authority("Lower"), authority("Upper", path_length=0)),
}

BAD_ROOTS = {
    "expired": authority("Root", **GONE),
    "no authority": authority("Root", ca=False),
    "may not sign": authority("Root", key_cert_sign=False, digital_signature=True),
    "unknown extension": authority("Root", unknown_critical=True),
}


def chained(wanted: tuple[Wanted, ...], root: Holder) -> tuple[Holder, ...]:
    """Certificates of one chain, the signer's first, under a root."""
    made = [root]
    for one in reversed(wanted):
        made.append(issue(one, made[-1]))
    return tuple(reversed(made[1:]))


def refused(data: bytes, root: Holder) -> tuple[Code, str]:
    with pytest.raises(LedgerError) as caught:
        read_token(data, [root.bytes])
    return caught.value.code, caught.value.finding.found or ""


@pytest.fixture(scope="module")
def root() -> Holder:
    return issue(authority("Root"))


@pytest.mark.parametrize("wanted", GOOD.values(), ids=GOOD)
def test_a_stamp_by_a_certificate_for_timestamps_holds(wanted: tuple[Wanted, ...], root: Holder) -> None:
    signer, *between = chained(wanted, root)
    token = read_token(Reply(signer, tuple(between)).bytes(), [root.bytes])
    assert (token.latest, token.authority) == (int(NOW.timestamp()), "CN=Authority")


@pytest.mark.parametrize("wanted", BAD.values(), ids=BAD)
def test_a_stamp_by_a_certificate_that_may_not_make_it_is_refused(wanted: tuple[Wanted, ...], root: Holder) -> None:
    signer, *between = chained(wanted, root)
    assert refused(Reply(signer, tuple(between)).bytes(), root)[0] is Code.TIMESTAMP_BAD


@pytest.mark.parametrize("wanted", BAD_ROOTS.values(), ids=BAD_ROOTS)
def test_a_root_that_may_not_vouch_does_not(wanted: Wanted) -> None:
    root = issue(wanted)
    assert refused(Reply(issue(Wanted(), root)).bytes(), root)[0] is Code.TIMESTAMP_BAD


def test_a_path_that_is_too_long_for_the_root_is_refused() -> None:
    root = issue(authority("Root", path_length=0))
    signer, between = chained((Wanted(), authority("Between")), root)
    assert refused(Reply(signer, (between,)).bytes(), root)[0] is Code.TIMESTAMP_BAD
    assert read_token(Reply(issue(Wanted(), root)).bytes(), [root.bytes])


def test_the_signer_s_own_certificate_can_be_what_the_reader_names() -> None:
    signer = issue(Wanted())
    assert read_token(Reply(signer).bytes(), [signer.bytes]).authority == "CN=Authority"


@pytest.mark.parametrize("naming", ["v1", "v2", "spelled", "both"])
def test_the_signed_part_names_the_signer_s_certificate(naming: str, root: Holder) -> None:
    signer = issue(Wanted(), root)
    other = issue(Wanted(serial=signer.certificate.serial_number, ends=NOW + 99 * DAY), root, signer.key)
    assert read_token(Reply(signer, naming=naming).bytes(), [root.bytes])
    code, why = refused(Reply(other, naming=naming, named=signer).bytes(), root)
    assert (code, "names another certificate" in why) == (Code.TIMESTAMP_BAD, True)


def test_each_of_two_names_is_held_against_the_certificate(root: Holder) -> None:
    signer, other = issue(Wanted(), root), issue(Wanted(), root)
    for named, again in ((signer, other), (other, signer)):
        data = Reply(signer, naming="both", named=named, named_again=again).bytes()
        assert "names another certificate" in refused(data, root)[1]


@pytest.mark.parametrize(
    ("naming", "why"),
    [
        ("none", "does not say which certificate"),
        ("md5", "digest of another kind than SHA-2"),
        ("empty", "an element is missing"),
    ],
)
def test_a_token_that_names_no_certificate_is_refused(naming: str, why: str, root: Holder) -> None:
    code, found = refused(Reply(issue(Wanted(), root), naming=naming).bytes(), root)
    assert (code, why in found) == (Code.TIMESTAMP_BAD, True), found


def test_a_token_has_one_signer(root: Holder) -> None:
    code, why = refused(Reply(issue(Wanted(), root), signers=2).bytes(), root)
    assert (code, "2 signers, not one" in why) == (Code.TIMESTAMP_BAD, True)


def test_certificates_that_have_no_part_in_the_chain_say_nothing(root: Holder) -> None:
    """Nobody signs which certificates a token carries: one more makes it neither true nor false."""
    signer, between = chained((Wanted(), authority("Between")), root)
    twin = issue(Wanted(serial=signer.certificate.serial_number), between)
    web = issue(authority("Between", purposes=(Purpose.SERVER_AUTH,)), root, between.key)
    ring = [issue(authority("Between"), issue(authority("Between"))) for _ in range(3)]
    for more in ((), (twin,), (web,), tuple(ring), (twin, web, root)):
        token = read_token(Reply(signer, (between, *more)).bytes(), [root.bytes])
        assert token.authority == "CN=Authority", more
    assert refused(Reply(signer, (web,)).bytes(), root)[0] is Code.TIMESTAMP_BAD


def test_openssl_sees_only_the_certificates_of_the_way_that_was_judged(
    root: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer, between = chained((Wanted(), authority("Between")), root)
    data = Reply(signer, (between,)).bytes()
    assert read_token(data, [root.bytes])
    monkeypatch.setattr(token_chain, "ways", lambda leaf, *_: iter([(leaf,)]))
    assert refused(data, root)[0] is Code.TIMESTAMP_BAD


@pytest.mark.parametrize(
    "kinds",
    [(), (("1.2.840.113549.1.7.1",),), ((TST_INFO,), (TST_INFO,)), ((TST_INFO, TST_INFO),), ((),)],
    ids=["nothing", "plain data", "twice", "two values", "no value"],
)
def test_a_signature_that_does_not_say_that_it_is_of_a_timestamp_is_none(
    root: Holder, kinds: tuple[tuple[str, ...], ...]
) -> None:
    """RFC 5652, section 5.3: else the same signature is one of content of another kind."""
    signer = issue(Wanted(), root)
    assert read_token(Reply(signer).bytes(), [root.bytes])
    assert refused(Reply(signer, kinds=kinds).bytes(), root)[0] is Code.TIMESTAMP_BAD


def test_authorities_that_vouch_for_one_another_cost_no_more_than_a_bound(
    root: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = issue(authority("Ring"))
    ring = [issue(authority("Ring"), one, one.key).certificate for _ in range(MAX_CARRIED + 2)]
    leaf = issue(Wanted(), one).certificate
    asked: list[object] = []
    real = token_chain._issued
    monkeypatch.setattr(token_chain, "_issued", lambda *pair: bool(asked.append(pair) or real(*pair)))
    assert not list(ways(leaf, ring, [root.certificate]))
    assert len(asked) <= (MAX_CARRIED + 1) * (MAX_CARRIED + 1)
    found = list(ways(leaf, ring, [one.certificate]))
    assert len(found) == 1, "an anchor that issued it is reached at once"
    assert MAX_STEPS < MAX_CARRIED**2


@pytest.mark.parametrize("data", [b"", b"\x30\x00", b"\x30\x05\x30\x03\x02\x01\x00", b"\x02\x01\x00"])
def test_what_is_no_token_names_no_certificate(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"unpack|not an element"):
        names_certificate(data, b"")

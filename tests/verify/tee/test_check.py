"""Every way in which a quote can be wrong, made on purpose under a made-up root; the quote that is right passes."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from docs.examples.made_up_intel import AT, FLAGS, FMSPC, SGX, World, days, der, key, pair, sgx_extension, tcb

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome, Position
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.tee import check as checking
from k3_ledger.verify.tee.certificates import load_anchors
from k3_ledger.verify.tee.check import check_quote
from k3_ledger.verify.tee.differences import ATTRIBUTES, STRICTER
from k3_ledger.verify.tee.outcome import ORIGIN, QuoteReport, Step, worst
from k3_ledger.verify.tee.second import Opinion
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

PINNED = AttestationPolicy(
    measurements=(("mrtd", frozenset({"c1" * 48})), ("rtmr0", frozenset({"0a" * 48, "00" * 48})))
)


def checked(
    world: World | None = None,
    policy: AttestationPolicy = PINNED,
    at: int = AT,
    *,
    quote: bytes | None = None,
    collateral: bytes | None = None,
    anchors: tuple[tuple[str, bytes], ...] | None = None,
    bound: bytes | None = bytes(64),
) -> QuoteReport:
    world = world or World()
    return check_quote(
        world.quote() if quote is None else quote,
        world.collateral() if collateral is None else collateral,
        load_anchors(world.anchors() if anchors is None else anchors),
        policy,
        at,
        report_data=bound,
        position=Position(source="quote"),
    )


def failed(report: QuoteReport) -> set[Step]:
    return {result.step for result in report.results if result.outcome is Outcome.FAIL}


def codes(report: QuoteReport) -> set[Code]:
    return {finding.code for finding in report.findings}


def test_a_genuine_quote_passes_every_step_by_both_checkers() -> None:
    report = checked()
    assert [(result.step, result.outcome) for result in report.results] == [(step, Outcome.PASS) for step in Step]
    assert report.findings == ()
    assert report.outcome() is Outcome.PASS
    assert report.level is not None
    assert report.level.status == "UpToDate"


def test_collateral_as_the_second_checker_writes_it_will_do() -> None:
    import json

    report = checked(collateral=json.dumps(World().collateral_of_library()).encode())
    assert report.outcome() is Outcome.PASS


NAMES = ("dynamic-platform", "cached-keys", "smt")


@pytest.mark.parametrize("said", range(4))
def test_what_a_certificate_does_not_say_of_its_platform_is_named_and_not_passed(said: int) -> None:
    """A certificate without configuration, and ones that break off behind one or two properties."""
    report = checked(World(flags=dict(list(FLAGS.items())[:said]) if said else None))
    assert report.platform is not None
    unsaid = (report.platform.dynamic, report.platform.cached_keys, report.platform.smt).count(None)
    assert unsaid == 3 - said
    wanted = Outcome.NOT_CHECKED if unsaid else Outcome.PASS
    assert (report.outcome(ORIGIN), report.outcome((Step.PLATFORM,)), report.outcome()) == (
        Outcome.PASS,
        wanted,
        wanted,
    )
    assert [finding.code for finding in report.findings] == [Code.QUOTE_PLATFORM_UNSAID] * bool(unsaid)
    if unsaid:
        assert report.findings[0].message.endswith(f"whether the platform has {', '.join(NAMES[said:])}")


def test_a_property_that_is_allowed_needs_no_word() -> None:
    assert checked(World(flags=None), replace(PINNED, allow=frozenset(NAMES))).outcome() is Outcome.PASS
    report = checked(World(flags=None), replace(PINNED, allow=frozenset(NAMES[1:])))
    assert report.outcome() is Outcome.NOT_CHECKED
    assert report.findings[0].message.endswith("whether the platform has dynamic-platform")


def test_silence_about_one_property_hides_no_other_that_is_refused() -> None:
    report = checked(World(flags={"dynamic": b"\xff"}))
    assert failed(report) == {Step.PLATFORM}
    assert codes(report) == {Code.QUOTE_PLATFORM, Code.QUOTE_PLATFORM_UNSAID}


LATE = datetime(2026, 7, 1, tzinfo=UTC)
EXTENSION = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00")
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
SERIALS = {name: getattr(World(), name).serial_number for name in ("pck", "platform_authority", "tcb_signer")}


def level(status: str = "UpToDate", *advisories: str, **svn: int) -> dict[str, Any]:
    return {"tcb": tcb(**svn), "tcbDate": "2026-01-01T00:00:00Z", "tcbStatus": status, "advisoryIDs": list(advisories)}


def own(svn: int, status: str = "UpToDate") -> dict[str, Any]:
    return {
        "tcb": {"isvsvn": svn},
        "tcbDate": "2026-01-01T00:00:00Z",
        "tcbStatus": status,
        "advisoryIDs": ["MADE-UP-7"],
    }


WRONG: list[tuple[Step, Code, dict[str, Any]]] = [
    # certificates
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"authority": {"ca": False, "depth": None}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"authority": {"key_cert_sign": False}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"authority": {"usage": False}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"top": {"depth": 0}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"authority": {"more": ((EXTENSION, True),)}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"leaf": {"ca": True}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"leaf": {"digital_signature": False, "key_cert_sign": True}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"leaf": {"public": RSA}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"leaf": {"public": key(13, ec.SECP384R1()).public_key()}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"leaf": {"more": ()}}),
    (Step.CERTIFICATES, Code.QUOTE_CHAIN, {"leaf": {"extension": b"\x05\x00"}}),
    # revocation
    (Step.REVOCATION, Code.QUOTE_REVOKED, {"revoked_pck": (SERIALS["pck"],)}),
    (Step.REVOCATION, Code.QUOTE_REVOKED, {"revoked_root": (SERIALS["platform_authority"],)}),
    (Step.REVOCATION, Code.QUOTE_REVOKED, {"revoked_root": (SERIALS["tcb_signer"],)}),
    # collateral
    (Step.COLLATERAL, Code.QUOTE_COLLATERAL, {"lists": {"key": 99}}),
    (Step.COLLATERAL, Code.QUOTE_COLLATERAL, {"lists": {"issuer": "somebody else"}}),
    (Step.COLLATERAL, Code.QUOTE_COLLATERAL, {"lists": {"more": ((EXTENSION, True),)}}),
    (Step.COLLATERAL, Code.QUOTE_COLLATERAL, {"tcb": {"id": "SGX"}}),
    (Step.COLLATERAL, Code.QUOTE_COLLATERAL, {"tcb": {"version": 2}}),
    (Step.COLLATERAL, Code.QUOTE_COLLATERAL, {"identity": {"id": "QE"}}),
    (Step.COLLATERAL, Code.QUOTE_COLLATERAL, {"identity": {"version": 1}}),
    # enclaves
    (Step.ENCLAVES, Code.QUOTE_ENCLAVE, {"identity": {"mrsigner": "dd" * 32}}),
    (Step.ENCLAVES, Code.QUOTE_ENCLAVE, {"identity": {"isvprodid": 3}}),
    (Step.ENCLAVES, Code.QUOTE_ENCLAVE, {"enclave": {16: b"\x01"}}),
    (Step.ENCLAVES, Code.QUOTE_ENCLAVE, {"enclave": {48: b"\x13"}}),  # a debug enclave
    (Step.ENCLAVES, Code.QUOTE_ENCLAVE, {"body": {112: b"\x01"}}),  # the module's signer
    (Step.ENCLAVES, Code.QUOTE_ENCLAVE, {"body": {160: b"\x01"}}),  # the module's attributes
    (Step.ENCLAVES, Code.QUOTE_ENCLAVE, {"module": bytes((5, 2, 10))}),
    (Step.ENCLAVES, Code.QUOTE_TCB, {"module": bytes((4, 1, 10))}),
    (Step.ENCLAVES, Code.QUOTE_TCB, {"enclave": {258: b"\x03"}}),
    (Step.ENCLAVES, Code.QUOTE_COLLATERAL, {"identity": {"attributesMask": "FF"}}),
    (Step.ENCLAVES, Code.QUOTE_COLLATERAL, {"identity": {"mrsigner": 7}}),
    (Step.ENCLAVES, Code.QUOTE_COLLATERAL, {"module_levels": [{"tcb": {}}]}),
    # TCB level
    (Step.LEVEL, Code.QUOTE_TCB, {"levels": [level(sgx=10)]}),
    (Step.LEVEL, Code.QUOTE_TCB, {"levels": [level(pce=12)]}),
    (Step.LEVEL, Code.QUOTE_TCB, {"levels": [level(tdx=1)]}),
    (Step.LEVEL, Code.QUOTE_COLLATERAL, {"tcb": {"fmspc": "00" * 6}}),
    (Step.LEVEL, Code.QUOTE_COLLATERAL, {"levels": [level("Excellent")]}),
    (Step.LEVEL, Code.QUOTE_COLLATERAL, {"levels": [{"tcb": {"sgxtcbcomponents": [], "tdxtcbcomponents": []}}]}),
    # dates
    (Step.DATES, Code.QUOTE_EXPIRED, {"leaf": {"last": datetime(2026, 5, 31, tzinfo=UTC)}}),
    (Step.DATES, Code.QUOTE_EXPIRED, {"authority": {"first": LATE}}),
    (Step.DATES, Code.QUOTE_EXPIRED, {"signer": {"last": datetime(2026, 5, 31, tzinfo=UTC)}}),
    (Step.DATES, Code.QUOTE_EXPIRED, {"lists": {"last": datetime(2026, 5, 31, tzinfo=UTC)}}),
    (Step.DATES, Code.QUOTE_EXPIRED, {"tcb": {"issueDate": "2026-06-02T00:00:00Z"}}),
    (Step.DATES, Code.QUOTE_EXPIRED, {"identity": {"nextUpdate": "2026-05-31T00:00:00Z"}}),
    (Step.DATES, Code.QUOTE_COLLATERAL, {"tcb": {"issueDate": "2026-05-25T00:00:00"}}),
    (Step.DATES, Code.QUOTE_COLLATERAL, {"identity": {"nextUpdate": 7}}),
    # policy
    (Step.PLATFORM, Code.QUOTE_TCB, {"levels": [level("OutOfDate", "MADE-UP-1")]}),
    (Step.PLATFORM, Code.QUOTE_PLATFORM, {"flags": FLAGS | {"dynamic": b"\xff"}}),
    (Step.PLATFORM, Code.QUOTE_PLATFORM, {"flags": FLAGS | {"cached": b"\xff"}}),
    (Step.PLATFORM, Code.QUOTE_PLATFORM, {"flags": FLAGS | {"smt": b"\xff"}}),
    # measurements
    (Step.MEASUREMENTS, Code.QUOTE_MEASUREMENT, {"body": {184: b"\xc2"}}),
    (Step.MEASUREMENTS, Code.QUOTE_MEASUREMENT, {"body": {376: b"\x0b"}}),
    # report data
    (Step.BINDING, Code.QUOTE_BINDING, {"body": {631: b"\x01"}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "code", "changes"),
    WRONG,
    ids=[f"{number}-{step.name.lower()}-{'-'.join(changes)}" for number, (step, _, changes) in enumerate(WRONG)],
)
def test_what_is_wrong_fails_its_own_step_and_no_other(step: Step, code: Code, changes: dict[str, Any]) -> None:
    report = checked(World(**changes))
    assert failed(report) == {step}
    assert code in codes(report)
    assert Code.QUOTE_CHECKERS_DISAGREE not in codes(report)
    assert report.outcome() is Outcome.FAIL
    assert {finding.position.source for finding in report.findings} == {"quote"}


@pytest.mark.parametrize(
    ("step", "changes"),
    [(Step.LEVEL, {"tcb": {"pceId": "0001"}}), (Step.DATES, {"lists": {"first": datetime(2026, 6, 2, tzinfo=UTC)}})],
)
def test_what_only_this_checker_looks_at_shows_as_a_disagreement(step: Step, changes: dict[str, Any]) -> None:
    report = checked(World(**changes))
    assert failed(report) == {step, Step.SECOND}
    assert Code.QUOTE_CHECKERS_DISAGREE in codes(report)


ATTRIBUTES_AT = 168
USUAL = bytes.fromhex("0000001000000000")
"""TD attributes of a domain without debugging, whose pages the host cannot take away unseen."""


def attributed(bits: int) -> QuoteReport:
    return checked(World(body={ATTRIBUTES_AT: (int.from_bytes(USUAL, "little") ^ bits).to_bytes(8, "little")}))


@pytest.mark.parametrize("bit", range(64))
def test_no_attribute_of_a_trust_domain_makes_the_checkers_disagree_about_its_origin(bit: int) -> None:
    """Whatever the second checker refuses by the attributes, this one refuses as well, as a matter of policy."""
    report = attributed(1 << bit)
    harmless = {16, 18, 19, 20, 21, 22, 27, 30, 31, 62, 63}
    if bit in harmless:
        assert (report.outcome(), report.findings) == (Outcome.PASS, ())
        return
    assert codes(report) == {Code.QUOTE_DEBUG if bit in (0, 4, 5, 6) else Code.QUOTE_ATTRIBUTES}
    assert (failed(report), open_steps(report)) == ({Step.PLATFORM}, {Step.SECOND})
    (second,) = (result for result in report.results if result.step is Step.SECOND)
    assert "dcap-qvl found everything else in order" in second.detail


@pytest.mark.parametrize("bits", [0xFF, 0x11, 1 << 29 | 1 << 17, 1 << 28 | 1, 2**64 - 1])
def test_several_attributes_at_once_are_no_disagreement_either(bits: int) -> None:
    report = attributed(bits)
    assert codes(report) <= {Code.QUOTE_DEBUG, Code.QUOTE_ATTRIBUTES}
    assert failed(report) == {Step.PLATFORM}


def test_a_debugged_domain_hides_no_other_disagreement() -> None:
    debugged = {"body": {ATTRIBUTES_AT: bytes.fromhex("0100001000000000")}}
    report = checked(World(**debugged, tcb={"pceId": "0001"}))
    assert Code.QUOTE_CHECKERS_DISAGREE in codes(report), "all but the attributes is in order for the second checker"
    report = checked(World(**debugged), at=days(30))
    assert codes(report) == {Code.QUOTE_EXPIRED, Code.QUOTE_DEBUG}


@pytest.mark.parametrize(
    "reason",
    [
        "Verification failed: Debug mode is enabled",
        "Verification failed: TD migration is enabled",
        "Verification failed: Debug mode is enabled in part",
        "Debug mode is enabled",
    ],
)
def test_a_refusal_for_attributes_that_this_checker_does_not_find_is_a_disagreement(
    says: Callable[[Opinion | None], None], reason: str
) -> None:
    says(Opinion(accepted=False, reason=reason))
    assert codes(checked()) == {Code.QUOTE_CHECKERS_DISAGREE}
    debugged = checked(World(body={ATTRIBUTES_AT: bytes.fromhex("0100001000000000")}))
    found = {Code.QUOTE_DEBUG} if reason == "Verification failed: Debug mode is enabled" else None
    assert codes(debugged) == (found or {Code.QUOTE_DEBUG, Code.QUOTE_CHECKERS_DISAGREE})


def test_a_second_checker_that_takes_a_debugged_domain_leaves_it_refused(
    says: Callable[[Opinion | None], None],
) -> None:
    says(
        Opinion(
            accepted=True,
            status="UpToDate",
            flags=(False, False, False),
            report=(("mr_td", "c1" * 48), ("report_data", "00" * 64)),
        )
    )
    report = checked(World(body={ATTRIBUTES_AT: bytes.fromhex("0100001000000000")}))
    assert (codes(report), failed(report)) == ({Code.QUOTE_DEBUG}, {Step.PLATFORM})


@pytest.mark.parametrize("at", range(12, 28))
def test_a_quote_by_another_vendors_enclave_is_none_for_both_checkers(at: int) -> None:
    report = checked(World(body={at: b"\x00"}))
    assert (failed(report), codes(report)) == ({Step.STRUCTURE}, {Code.QUOTE_MALFORMED})


def test_every_known_difference_stands_in_the_document() -> None:
    page = (ROOT / "docs" / "attestation.md").read_text(encoding="utf-8")
    table = page.partition("## Two checkers")[2].partition("## Collateral")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines() if row.startswith("| ")][2:]
    known = {row[0].partition(" (")[0]: row[3] for row in rows}
    wanted = {fault.name: fault.code.id.removeprefix("K3L-") for fault in ATTRIBUTES}
    assert known == wanted | dict.fromkeys(STRICTER, "a disagreement")


def test_an_authority_need_not_say_how_deep_it_may_sign_but_a_signer_must_say_that_it_may() -> None:
    assert checked(World(authority={"depth": None})).outcome() is Outcome.PASS
    report = checked(World(signer={"usage": False}))
    assert failed(report) == {Step.COLLATERAL}
    assert codes(report) == {Code.QUOTE_CHAIN}


@pytest.mark.parametrize("part", ["levels", "module_levels", "identity"])
def test_a_revoked_level_is_refused_by_both(part: str) -> None:
    revoked: dict[str, Any] = {
        "levels": [level("Revoked")],
        "module_levels": [own(5, "Revoked")],
        "identity": {"tcbLevels": [own(4, "Revoked")]},
    }
    report = checked(World(**{part: revoked[part]}))
    assert failed(report) == {Step.LEVEL}
    assert codes(report) == {Code.QUOTE_REVOKED}


def test_a_debuggable_domain_is_refused() -> None:
    report = checked(World(body={168: b"\x01"}))
    assert Step.PLATFORM in failed(report)
    assert Code.QUOTE_DEBUG in codes(report)


# -- signatures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "step"),
    [
        (48, Step.SIGNATURE),  # body
        (631, Step.SIGNATURE),
        (640, Step.SIGNATURE),  # its signature
        (770, Step.ENCLAVE_REPORT),
        (1100, Step.ENCLAVE_REPORT),  # digest of the key
        (1160, Step.ENCLAVE_REPORT),  # its signature
        (1225, Step.KEY),  # authentication data
        (700, Step.KEY),  # the key itself
    ],
)
def test_a_flipped_byte_fails_the_step_that_covers_it(at: int, step: Step) -> None:
    data = bytearray(World().quote())
    data[at] ^= 1
    report = checked(quote=bytes(data))
    assert step in failed(report)
    assert failed(report) <= {step, Step.BINDING}
    assert Code.QUOTE_SIGNATURE in codes(report)


def test_an_attestation_key_off_the_curve_is_refused() -> None:
    import hashlib

    authentication, off = bytes(range(32)), bytes(63) + b"\x05"
    digest = hashlib.sha256(off + authentication).digest()
    data = bytearray(World(enclave={320: digest}).quote())
    data[700:764] = off
    report = checked(quote=bytes(data))
    assert failed(report) == {Step.SIGNATURE}
    assert "not on the curve" in report.findings[0].message


def test_bytes_behind_the_signature_data_are_reported_and_change_nothing() -> None:
    for padding, words in ((bytes(9), "9 bytes behind the signature data (all zero)"), (b"hello", "(not all zero)")):
        report = checked(quote=World().quote(padding=padding))
        assert report.outcome() is Outcome.PASS
        assert codes(report) == {Code.QUOTE_MALLEABLE}
        assert words in report.findings[0].message


def test_the_certificates_have_one_spelling() -> None:
    world = World()
    pems = [c.public_bytes(Encoding.PEM) for c in (world.pck, world.platform_authority, world.root)]
    for chain, words in (
        (b"\n".join(pems), "spelled as PEM"),
        (b"".join(pems).replace(b"\n", b"\r\n"), "spelled as PEM"),
        (b"".join(pems[:2]), "3"),
        (b"".join([*pems, pems[2]]), "3"),
        (b"no certificate", "cannot be read"),
        (b"".join([pems[1], pems[0], pems[2]]), "certificate 0"),
    ):
        report = checked(quote=world.quote(chain=chain))
        assert failed(report) == {Step.CERTIFICATES}, words
        assert words in report.findings[0].message + str(report.findings[0].expected)
    assert checked(quote=world.quote(chain=b"".join(pems) + b"\0")).outcome() is Outcome.PASS


# -- what is missing is not checked, never passed ---------------------------------------------------------------------


def open_steps(report: QuoteReport) -> set[Step]:
    return {result.step for result in report.results if result.outcome is Outcome.NOT_CHECKED}


def test_without_a_root_nothing_about_origin_is_checked() -> None:
    report = checked(anchors=World().anchors("tcb_signing"))
    assert codes(report) == {Code.QUOTE_NO_ANCHOR}
    assert open_steps(report) == set(Step) - {Step.STRUCTURE}
    assert report.outcome() is Outcome.NOT_CHECKED


def test_without_the_tcb_signing_certificate_the_quote_is_not_called_genuine() -> None:
    report = checked(anchors=World().anchors("root"))
    assert codes(report) == {Code.QUOTE_NO_ANCHOR}
    assert "TCB signing" in report.findings[0].message
    assert "trust directory" in report.findings[0].advice
    assert report.outcome(ORIGIN) is Outcome.NOT_CHECKED
    assert open_steps(report) == {
        Step.COLLATERAL, Step.REVOCATION, Step.ENCLAVES, Step.LEVEL, Step.DATES, Step.SECOND, Step.PLATFORM,
    }  # fmt: skip


def test_a_tcb_signing_certificate_of_another_root_is_none() -> None:
    other = World(root_key=21)
    signer = other.certificate("Made-up TCB Signing", key(14).public_key(), "Another Root", key(21))
    anchors = (*World().anchors("root"), ("other.pem", signer.public_bytes(Encoding.PEM)))
    assert codes(checked(anchors=anchors)) == {Code.QUOTE_NO_ANCHOR}


def test_of_several_signing_certificates_the_one_that_signed_is_used() -> None:
    world = World()
    old = world.certificate("Made-up TCB Signing", key(40).public_key(), "Made-up SGX Root CA", key(11), serial=5)
    older = ("a.pem", old.public_bytes(Encoding.PEM))
    assert checked(anchors=(older, *world.anchors())).outcome() is Outcome.PASS
    assert checked(anchors=(*world.anchors(), older)).outcome() is Outcome.PASS
    alone = checked(anchors=(older, *world.anchors("root")))
    assert failed(alone) == {Step.COLLATERAL}
    assert codes(alone) == {Code.QUOTE_COLLATERAL}


def test_another_root_of_the_same_name_is_refused() -> None:
    report = checked(anchors=World(root_key=21).anchors())
    assert failed(report) == {Step.CERTIFICATES}
    assert "not Intel" in str(report.findings[0].expected)


def test_a_signing_certificate_that_names_the_root_and_is_not_signed_by_it_is_refused() -> None:
    report = checked(anchors=(*World().anchors("root"), *World(root_key=21).anchors("tcb_signing")))
    assert failed(report) == {Step.COLLATERAL}
    assert Code.QUOTE_CHAIN in codes(report)


def test_without_collateral_only_signatures_are_checked() -> None:
    world = World()
    report = check_quote(world.quote(), None, load_anchors(world.anchors()), PINNED, AT)
    assert codes(report) == {Code.QUOTE_NO_COLLATERAL}
    assert report.outcome() is Outcome.NOT_CHECKED
    assert Step.BINDING not in {result.step for result in report.results}


def test_without_pins_any_program_could_be_it() -> None:
    report = checked(policy=AttestationPolicy())
    assert report.outcome(ORIGIN) is Outcome.PASS
    assert report.outcome() is Outcome.NOT_CHECKED
    assert codes(report) == {Code.QUOTE_UNPINNED}


def test_outcomes_of_nothing_are_not_checked() -> None:
    assert worst([]) is Outcome.NOT_CHECKED
    assert worst([Outcome.PASS]) is Outcome.PASS
    assert worst([Outcome.PASS, Outcome.NOT_CHECKED]) is Outcome.NOT_CHECKED
    assert worst([Outcome.NOT_CHECKED, Outcome.FAIL]) is Outcome.FAIL


# -- the policy -------------------------------------------------------------------------------------------------------


def test_what_a_policy_allows_by_name_is_accepted() -> None:
    flags: dict[str, bytes] = dict.fromkeys(FLAGS, b"\xff")
    world = World(flags=flags, levels=[level("OutOfDate", "MADE-UP-1", "INTEL-SA-99992")])
    generous = replace(
        PINNED,
        allow=frozenset({"dynamic-platform", "cached-keys", "smt"}),
        tcb_status=frozenset({"UpToDate", "OutOfDate"}),
    )
    report = checked(world, generous)
    assert report.outcome() is Outcome.PASS
    assert codes(report) == {Code.QUOTE_ADVISORIES}
    picky = replace(generous, refuse_advisories=frozenset({"INTEL-SA-99992", "INTEL-SA-99993"}))
    refused = checked(world, picky)
    assert failed(refused) == {Step.PLATFORM}
    assert refused.findings[-1].code is Code.QUOTE_ADVISORIES
    assert refused.findings[-2].found == "INTEL-SA-99992"


@pytest.mark.parametrize(
    ("platform", "enclave", "module", "status"),
    [
        ("UpToDate", "UpToDate", "UpToDate", "UpToDate"),
        ("UpToDate", "OutOfDate", "UpToDate", "OutOfDate"),
        ("UpToDate", "UpToDate", "OutOfDate", "OutOfDate"),
        ("SWHardeningNeeded", "OutOfDate", "UpToDate", "OutOfDate"),
        ("ConfigurationNeeded", "UpToDate", "OutOfDate", "OutOfDateConfigurationNeeded"),
        ("ConfigurationAndSWHardeningNeeded", "OutOfDate", "OutOfDate", "OutOfDateConfigurationNeeded"),
        ("OutOfDate", "UpToDate", "UpToDate", "OutOfDate"),
        ("UpToDate", "Revoked", "UpToDate", "Revoked"),
        ("Revoked", "UpToDate", "OutOfDate", "Revoked"),
    ],
)
def test_an_enclave_or_a_module_can_only_make_a_status_worse(
    platform: str, enclave: str, module: str, status: str
) -> None:
    world = World(
        levels=[level(platform, "MADE-UP-1")],
        module_levels=[own(5, module)],
        identity={"tcbLevels": [own(4, enclave)]},
    )
    report = checked(world)
    assert report.level is not None
    assert report.level.status == status
    assert report.level.advisories == ("MADE-UP-1", "MADE-UP-7")
    assert (status == "Revoked") == (Step.LEVEL in failed(report))
    assert Code.QUOTE_CHECKERS_DISAGREE not in codes(report)


def test_the_newest_level_that_is_reached_counts() -> None:
    world = World(levels=[level(sgx=10), level("SWHardeningNeeded", sgx=9), level("OutOfDate", sgx=1)])
    report = checked(world)
    assert report.level is not None
    assert report.level.status == "SWHardeningNeeded"


def test_only_a_module_without_a_version_is_compared_in_its_first_two_parts() -> None:
    newer = level()
    newer["tcb"]["tdxtcbcomponents"] = [{"svn": 6}, *[{"svn": 0}] * 15]
    old, versioned = bytes((5, 0, 10)), bytes((5, 1, 10))
    assert checked(World(module=old)).outcome() is Outcome.PASS
    assert failed(checked(World(module=old, levels=[newer]))) == {Step.LEVEL}
    assert checked(World(module=versioned, levels=[newer])).outcome() is Outcome.PASS


def test_time_decides_and_both_checkers_say_so() -> None:
    for at in (days(-30), days(0), days(19) - 1, days(19), days(30), days(4000)):
        report = checked(at=at)
        assert (report.outcome() is Outcome.PASS) == (at in (days(0), days(19) - 1))
        assert Code.QUOTE_CHECKERS_DISAGREE not in codes(report)
    expired = [finding.message for finding in checked(at=days(30)).findings]
    assert "TCB info is expired" in expired
    assert "PCK revocation list is expired" in expired


# -- the second checker -----------------------------------------------------------------------------------------------


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[[Opinion | None], None]:
    """Puts words into the second checker's mouth."""
    return lambda opinion: monkeypatch.setattr(checking, "ask", lambda _: opinion)


def test_a_second_checker_that_is_not_installed_leaves_the_quote_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dcap_qvl", None)
    report = checked()
    assert codes(report) == {Code.QUOTE_ONE_CHECKER}
    assert open_steps(report) == {Step.SECOND}
    assert report.outcome() is Outcome.NOT_CHECKED


class PanicException(BaseException):
    """What a panic of the second checker looks like."""


@pytest.mark.parametrize("module", ["pyo3_runtime", "elsewhere"])
def test_a_second_checker_that_panics_accepts_nothing_and_other_ends_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    def panic(**_: object) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr(PanicException, "__module__", module)
    monkeypatch.setitem(sys.modules, "dcap_qvl", SimpleNamespace(QuoteCollateralV3=panic))
    if module == "elsewhere":
        with pytest.raises(PanicException):
            checked()
        return
    report = checked()
    assert failed(report) == {Step.SECOND}
    assert report.findings[0].found == "dcap-qvl: it gave up: index out of bounds"


def test_a_second_checker_that_refuses_what_this_one_takes(says: Callable[[Opinion | None], None]) -> None:
    says(Opinion(accepted=False, reason="I do not like it"))
    report = checked()
    assert failed(report) == {Step.SECOND}
    assert codes(report) == {Code.QUOTE_CHECKERS_DISAGREE}
    assert report.findings[0].found == "dcap-qvl: I do not like it"


def test_a_second_checker_that_takes_what_this_one_refuses(says: Callable[[Opinion | None], None]) -> None:
    says(Opinion(accepted=True))
    report = checked(at=days(30))
    assert failed(report) == {Step.DATES, Step.SECOND}
    assert Code.QUOTE_CHECKERS_DISAGREE in codes(report)
    assert report.findings[-1].found == "dcap-qvl: genuine"


@pytest.mark.parametrize(
    ("about", "changes"),
    [
        ("status", {"status": "OutOfDate"}),
        ("advisories", {"advisories": ("MADE-UP-9",)}),
        ("platform", {"flags": (False, True, False)}),
        ("mr_td", {"report": (("mr_td", "00"), ("report_data", "00" * 64))}),
        ("report_data", {"report": (("mr_td", "c1" * 48),)}),
    ],
)
def test_checkers_that_accept_must_also_have_seen_the_same(
    says: Callable[[Opinion | None], None], about: str, changes: dict[str, Any]
) -> None:
    same = Opinion(
        accepted=True,
        status="UpToDate",
        flags=(False, False, False),
        report=(("mr_td", "c1" * 48), ("report_data", "00" * 64)),
    )
    says(same)
    assert checked().outcome() is Outcome.PASS
    says(replace(same, **changes))
    report = checked()
    assert failed(report) == {Step.SECOND}
    assert [finding.message for finding in report.findings] == [f"the checkers disagree about {about}"]


# -- the SGX extension ------------------------------------------------------------------------------------------------


GOOD = sgx_extension((9,) * 16, 11, FLAGS)


def with_parts(*parts: bytes) -> bytes:
    return der(0x30, b"".join(parts))


@pytest.mark.parametrize(
    "extension",
    [
        b"",
        GOOD[:-1],  # cut
        GOOD + b"\0",  # more behind
        der(0x31, GOOD[4:]),  # no sequence
        with_parts(der(0x04, b"")),  # no pair
        with_parts(der(0x30, pair("4", b"")[2:] + b"\x05\x00\x05\x00")),  # three in a pair
        with_parts(der(0x30, b"\x05\x00\x05\x00")),  # no identifier
        with_parts(der(0x30, b"\x06\x00\x05\x00")),  # an empty one
        with_parts(GOOD[4:], pair("4", der(0x04, FMSPC))),  # twice, and the same
        with_parts(pair("4", der(0x04, bytes(6)))),  # no TCB
        sgx_extension((9,) * 15, 11, FLAGS),
        sgx_extension((9,) * 16, 70000, FLAGS),
        sgx_extension((9,) * 16, 11, {"dynamic": b""}),
        GOOD[:1] + b"\x83\x00" + GOOD[2:4] + GOOD[4:],  # a length that is longer than it has to be
        b"\x30",
        b"\x30\x81\x05" + bytes(5),
    ],
)
def test_an_sgx_extension_that_is_not_der_as_intel_writes_it_is_refused(extension: bytes) -> None:
    report = checked(World(leaf={"extension": extension}))
    assert failed(report) == {Step.CERTIFICATES}
    assert "SGX extension" in report.findings[0].message


def test_the_sgx_extension_must_be_there_under_its_own_name() -> None:
    assert SGX == "1.2.840.113741.1.13.1"
    assert checked(World(leaf={"extension": GOOD})).outcome() is Outcome.PASS

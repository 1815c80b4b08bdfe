"""The [attestation] table of a trust policy: typed, strict, and stated in the report."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from k3_ledger.schemas.errors import PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.attestation import AttestationPolicy, read_at, read_table, read_time
from k3_ledger.verify.policy import TrustPolicy, parse_policy

MRTD = "ab" * 48


def test_a_table_is_read() -> None:
    text = f"""
        [attestation]
        kinds = ["tdx"]
        trust_dir = "intel"
        at = "2026-08-02T00:00:00Z"
        allow = ["smt", "dynamic-platform"]
        tcb_status = ["UpToDate", "SWHardeningNeeded"]
        refuse_advisories = ["INTEL-SA-00001"]
        [attestation.measurements]
        mrtd = ["{MRTD}"]
    """
    policy = parse_policy(text.encode()).attestation
    assert policy is not None
    assert policy.trust_dir == "intel"
    assert policy.measurements == (("mrtd", frozenset({MRTD})),)
    assert policy.sentence == (
        "attestations at 2026-08-02T00:00:00Z (kinds tdx) (allowing dynamic-platform, smt) "
        "(TCB status UpToDate, SWHardeningNeeded) (refusing INTEL-SA-00001) (pinned mrtd)"
    )
    assert policy.sentence in parse_policy(text.encode()).sentence


def test_an_empty_table_asks_for_receipt_time_and_accepts_only_what_is_up_to_date() -> None:
    policy = read_table({})
    assert policy == AttestationPolicy()
    assert policy.sentence == "attestations at receipt time"
    assert policy.tcb_status == {"UpToDate"}
    assert parse_policy(b"").attestation is None


@pytest.mark.parametrize(
    "text",
    [
        "attestation = 7",
        "[attestation]\nkind = []",
        "[attestation]\nkinds = ['sgx']",
        "[attestation]\nkinds = 'tdx'",
        "[attestation]\nkinds = [7]",
        "[attestation]\nat = 7",
        "[attestation]\nat = 'yesterday'",
        "[attestation]\nat = '2026-08-02T00:00:00'",
        "[attestation]\nat = '0001-01-01T00:00:00Z'",
        "[attestation]\ntrust_dir = 7",
        "[attestation]\nallow = ['everything']",
        "[attestation]\ntcb_status = ['Revoked']",
        "[attestation]\nmeasurements = 7",
        "[attestation.measurements]\nrtmr9 = []",
        "[attestation.measurements]\nmrtd = ['AB']",
        f"[attestation.measurements]\nmrtd = ['{MRTD.upper()}']",
    ],
)
def test_a_table_with_a_mistake_is_refused(text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text.encode(), "my.toml")
    finding = caught.value.finding
    assert (finding.code, finding.position.field) == (Code.POLICY_MALFORMED, "attestation")


def test_times_name_their_zone() -> None:
    assert read_at("receipt") == "receipt"
    assert read_at("now") == "now"
    assert read_at("2026-08-02T03:55:27+00:00") == read_time("2026-08-02T03:55:27Z") == 1785642927


@pytest.mark.parametrize("text", ["2026-W31-7T00:00:00Z", "20260802T000000Z", "2026-08-02 00:00:00Z", "2026-08-02T00Z"])
def test_a_time_has_one_form_whatever_this_python_takes(text: str) -> None:
    with pytest.raises(ValueError, match="is no time such as"):
        read_at(text)
    assert read_at("2026-08-02T00:00:00.250000+00:00") == read_at("2026-08-02T00:00:00Z")


def test_the_readers_time_is_filled_in_from_outside() -> None:
    policy = AttestationPolicy(at="now")
    with pytest.raises(TypeError, match="at_time"):
        policy.judged_at("2026-08-02T00:00:00Z")
    assert policy.at_time(7).judged_at("") == 7
    assert policy.at_time(7).sentence == "attestations at 1970-01-01T00:00:07Z"
    assert AttestationPolicy().at_time(7) == AttestationPolicy()
    assert AttestationPolicy().at_time(7).judged_at("1970-01-01T00:01:00Z") == 60
    with pytest.raises(ValueError, match="is no time such as"):
        AttestationPolicy().judged_at("")


def test_what_a_policy_says_is_in_its_digest_and_what_the_reader_fills_in_is_not() -> None:
    policies = [
        AttestationPolicy(),
        AttestationPolicy(kinds=frozenset({"tdx"})),
        AttestationPolicy(at=7),
        AttestationPolicy(allow=frozenset({"smt"})),
        AttestationPolicy(tcb_status=frozenset({"OutOfDate"})),
        AttestationPolicy(refuse_advisories=frozenset({"INTEL-SA-00002"})),
        AttestationPolicy(measurements=(("mrtd", frozenset({MRTD})),)),
        AttestationPolicy(trust_dir="intel"),
    ]
    assert len({TrustPolicy(attestation=policy).digest for policy in policies}) == len(policies)
    assert len(fields(AttestationPolicy)) - 2 == len(AttestationPolicy().as_dict()) == len(policies) - 1
    now = AttestationPolicy(at="now")
    filled = replace(now.at_time(7), anchors=(("a.pem", b"1"),))
    assert filled.as_dict() == now.as_dict()
    assert filled.sentence != now.sentence == "attestations at now time"


def test_the_id_of_a_policy_covers_certificates_that_were_read_and_not_the_folders_name() -> None:
    def policy_id(folder: str, *files: tuple[str, bytes]) -> str:
        return TrustPolicy(attestation=AttestationPolicy(trust_dir=folder, anchors=files)).digest

    one = policy_id("intel", ("a.pem", b"1"))
    assert one == policy_id("elsewhere", ("a.pem", b"1"))
    assert len({one, policy_id("intel", ("a.pem", b"2")), policy_id("intel"), policy_id("elsewhere")}) == 4
    timed = AttestationPolicy(at="now")
    assert TrustPolicy(attestation=timed.at_time(7)).digest == TrustPolicy(attestation=timed).digest


def test_the_digest_of_a_trust_directory_covers_names_and_contents() -> None:
    def digest(*files: tuple[str, bytes]) -> Any:
        return AttestationPolicy(anchors=files).digest

    one = digest(("a.pem", b"1"), ("b.pem", b"2"))
    assert one == digest(("b.pem", b"2"), ("a.pem", b"1"))
    assert len({one, digest(("a.pem", b"2"), ("b.pem", b"1")), digest(("a.pem", b"1"))}) == 3
    assert f"trust directory {one[:16]}…" in AttestationPolicy(anchors=(("a.pem", b"1"), ("b.pem", b"2"))).sentence


NOTHING = {
    "kinds": "kinds = []",
    "tcb_status": "tcb_status = []",
    "measurements: mrtd": "[attestation.measurements]\nmrtd = []",
    "measurements: rtmr2": f"[attestation.measurements]\nmrtd = ['{MRTD}']\nrtmr2 = []",
    "trust_dir": "trust_dir = ''",
}


@pytest.mark.parametrize("key", NOTHING)
def test_what_accepts_nothing_is_refused_and_never_read_as_something_else(key: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(f"[attestation]\n{NOTHING[key]}\n".encode())
    error = caught.value
    assert (error.code, error.finding.message.startswith(f"attestation.{key}: an empty ")) == (
        Code.POLICY_MALFORMED,
        True,
    )


def test_the_same_holds_for_a_policy_that_a_program_makes() -> None:
    for changes in ({"kinds": frozenset()}, {"tcb_status": frozenset()}, {"measurements": (("mrtd", frozenset()),)}):
        with pytest.raises(ValueError, match="an empty list accepts nothing"):
            AttestationPolicy(**changes)  # type: ignore[arg-type]


def test_lists_that_may_be_empty_say_what_their_absence_says() -> None:
    text = "[attestation]\nallow = []\nrefuse_advisories = []\n[attestation.measurements]\n"
    assert parse_policy(text.encode()).attestation == AttestationPolicy()


SPELLED = ("INTEL-SA-00837", "INTEL-SA-01036", "INTEL-DOC-00001")
MISSPELLED = (
    "intel-sa-00837", "Intel-SA-00837", "INTEL-SA-0837", "INTEL-SA-000837", "INTEL-SA-00837 ", " INTEL-SA-00837",
    "INTEL SA 00837", "INTEL_SA_00837", "INTEL-SA00837", "INTEL-00837", "SA-00837", "00837", "", "-", "A-",
    "INTEL-SA-\uff10\uff10\uff18\uff13\uff17", "INTEL-SA-00837\n", "CVE-2026-12345",
    "INTEL\u2010SA\u201000837", "INTEL-SA-00837,INTEL-SA-00838",
)  # fmt: skip


@pytest.mark.parametrize("advisory", SPELLED)
def test_an_advisory_that_is_spelled_as_collateral_spells_it_is_taken(advisory: str) -> None:
    assert read_table({"refuse_advisories": [advisory]}).refuse_advisories == {advisory}


@pytest.mark.parametrize("advisory", MISSPELLED)
def test_an_advisory_in_any_other_spelling_would_refuse_nothing_and_is_refused(advisory: str) -> None:
    for given in ([advisory], ["INTEL-SA-00001", advisory]):
        with pytest.raises(ValueError, match=r"refuse_advisories: .* is not spelled like INTEL-SA-00837"):
            read_table({"refuse_advisories": given})

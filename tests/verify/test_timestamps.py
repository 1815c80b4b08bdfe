"""Timestamps bound from above when entries existed, and only those of authorities that the reader named."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.policy import TrustPolicy, parse_policy
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.timestamps import Token
from tests.ledgers import ROOT, Builder, sign_head, small_ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from k3_ledger.verify.report import Report

POLICY = TrustPolicy(root_public_key=ROOT.public, timestamp_roots=(b"root",))
NOON = 1_780_000_000


def digest(note: bytes) -> bytes:
    """What a timestamp of a head is over: its text."""
    return sha256(note.partition(b"\n\n")[0] + b"\n").digest()


def reader(data: bytes, roots: Sequence[bytes]) -> Token:
    """Tokens of these tests are `time authority digest`, or the name of what is wrong with them."""
    assert tuple(roots) == (b"root",)
    parts = data.split(b" ", 2)
    if len(parts) == 1:
        raise LedgerError(Code[data.decode()], "wrong", expected="e", found="f")
    return Token(parts[2], int(parts[0]), parts[1].decode())


def check(tokens: Iterable[tuple[str, bytes]], policy: TrustPolicy | None = POLICY, *, read: bool = True) -> Report:
    ledger = small_ledger()
    kept = [("checkpoints/000000000007.note", sign_head(ledger.lines[:7]))]
    source = MemorySource(ledger.data, checkpoint=ledger.head(), kept=kept, tokens=tokens)
    return check_log(source, policy, Options(read_token=reader if read else None))


def step(report: Report) -> tuple[str, int, int, int, str]:
    found = report.steps[13]
    return str(found.outcome), found.checked, found.failed, found.not_checked, found.detail


def token(head: bytes, time: int = NOON, authority: str = "CN=a") -> bytes:
    return b"%d %s " % (time, authority.encode()) + digest(head)


NEW, OLD = small_ledger().head(), sign_head(small_ledger().lines[:7])


def test_a_timestamp_bounds_when_the_entries_below_a_head_existed() -> None:
    report = check([("timestamps/000000000010.tsr", token(NEW))])
    assert report.exit_code == 0
    assert step(report) == ("pass", 1, 0, 0, "entries below 10 by 2026-05-28T20:26:40Z, according to CN=a")
    assert report.as_dict()["timestamped"] == [
        {"entries_below": 10, "at_or_before": "2026-05-28T20:26:40Z", "according_to": ["CN=a"]}
    ]


def test_of_several_the_earliest_counts_for_each_head() -> None:
    tokens = [
        ("a", token(NEW, NOON + 5)),
        ("b", token(NEW, NOON + 3, "CN=b")),
        ("c", token(NEW, NOON + 4)),
        ("d", token(OLD)),
    ]
    report = check(tokens)
    assert [(bound.size, bound.timestamp) for bound in report.stamps] == [(10, NOON + 3), (7, NOON)]
    assert step(report)[:4] == ("pass", 4, 0, 0)


def test_without_a_token_nothing_is_bounded() -> None:
    assert step(check([])) == ("not-checked", 0, 0, 0, "no timestamps")
    report = check([], TrustPolicy(timestamp_roots=(b"root",), require=frozenset({"timestamps"})))
    assert (report.exit_code, list(report.counts)) == (4, [Code.REQUIRED_NOT_CHECKED])


@pytest.mark.parametrize(
    ("policy", "read"), [(None, True), (TrustPolicy(root_public_key=ROOT.public), True), (POLICY, False)]
)
def test_without_an_authority_to_believe_tokens_are_counted_and_not_opened(
    policy: TrustPolicy | None, read: bool
) -> None:
    report = check([("t", b"TIMESTAMP_BAD"), ("u", token(NEW))], policy, read=read)
    assert (report.exit_code, report.stamps) == (0, ())
    assert step(report)[:4] == ("not-checked", 0, 0, 2)


@pytest.mark.parametrize(
    ("name", "exit_code", "counts"),
    [
        ("TIMESTAMP_UNREADABLE", 0, ("not-checked", 1, 0, 1)),
        ("TIMESTAMP_UNTRUSTED", 0, ("not-checked", 1, 0, 1)),
        ("TIMESTAMP_BAD", 1, ("FAIL", 2, 1, 0)),
    ],
)
def test_a_stranger_s_token_is_not_checked_and_a_forged_one_is_false(
    name: str, exit_code: int, counts: tuple[str, int, int, int]
) -> None:
    report = check([("t", name.encode()), ("u", token(NEW))])
    assert (report.exit_code, report.findings[0].code, report.findings[0].position.source) == (
        exit_code,
        Code[name],
        "t",
    )
    assert step(report)[1:4] == counts[1:]
    assert [bound.size for bound in report.stamps] == [10], "the good one beside it still counts"


def test_a_token_of_something_else_bounds_nothing() -> None:
    forked = Builder(small_ledger().lines[:9]).runs(2).head()
    report = check([("t", token(forked))])
    assert (report.exit_code, list(report.counts), report.stamps) == (0, [Code.TIMESTAMP_ELSEWHERE], ())
    assert step(report)[:4] == ("not-checked", 0, 0, 1)


def test_a_head_that_does_not_hold_is_bounded_by_nothing() -> None:
    ledger = small_ledger()
    forged = sign_head(ledger.lines, ROOT)
    source = MemorySource(ledger.data, checkpoint=forged, tokens=[("t", token(forged))])
    report = check_log(source, POLICY, Options(read_token=reader))
    assert (report.exit_code, report.stamps) == (1, ())


def test_cosignatures_that_are_added_later_change_nothing() -> None:
    assert digest(NEW) == digest(NEW + "\u2014 witness AAAA\n".encode())


def test_a_medium_that_fails_is_said_and_stops_nothing() -> None:
    class Broken(MemorySource):
        def timestamps(self) -> Iterable[tuple[str, bytes]]:
            raise StoreError(Code.UNREADABLE, "no such disk")

    ledger = small_ledger()
    report = check_log(Broken(ledger.data, checkpoint=ledger.head()), POLICY, Options(read_token=reader))
    assert (report.exit_code, list(report.counts)) == (0, [Code.TIMESTAMP_UNREADABLE])


# ------------------------------------------------------------------------------------------------------------ policy


def pem(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----\n"


def test_authorities_are_named_by_their_root_certificates() -> None:
    policy = parse_policy(f'timestamp_roots = ["""{pem(b"one root")}""", """\n{pem(b"another")}"""]\n'.encode())
    assert policy.timestamp_roots == (b"one root", b"another")
    assert "2 timestamp authorities believed" in policy.sentence
    assert policy.as_dict()["timestamp_roots"] == sorted(sha256(root).hexdigest() for root in policy.timestamp_roots)
    assert policy.digest != TrustPolicy().digest


NO_LISTS = ['"x"', "[1]", '["x"]', "[{}]", "[[]]"]
NO_CERTIFICATES = [pem(b"abc")[5:], pem(b"abc") * 2, pem(b"abcd").replace("=", ""), pem(b"abc").replace("Y", "\u00e9")]


@pytest.mark.parametrize("value", [*NO_LISTS, *(f'["""{text}"""]' for text in NO_CERTIFICATES)])
def test_what_is_no_certificate_is_refused(value: str) -> None:
    with pytest.raises(LedgerError) as caught:
        parse_policy(f"timestamp_roots = {value}\n".encode())
    assert caught.value.code is Code.POLICY_MALFORMED

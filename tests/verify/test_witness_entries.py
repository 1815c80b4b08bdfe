"""`witness` entries: a cosignature that the log keeps is the witness's, over a head of the log, or it is false."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.cosignature import Witness
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.note import parse_note, parse_verifier_key
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry
from k3_ledger.verify.source import MemorySource
from tests.ledgers import LOG, ROOT, Builder, Key, key_body, sign_head, small_ledger
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey, cosign

if TYPE_CHECKING:
    from k3_ledger.verify.report import Report

NAME = "witness.example/w1"
KEY, OTHER = NoteKey(NAME, "w1", COSIGNER_TYPE), NoteKey(NAME, "w2", COSIGNER_TYPE)
THIRD = NoteKey("witness.example/w3", "w3", COSIGNER_TYPE)
NOON = 1_767_268_800
SIZE = 8
TEXT = parse_note(sign_head(small_ledger().lines[:SIZE])).text


def body(**changes: Any) -> dict[str, Any]:
    line = KEY.line(TEXT, NOON).removesuffix("\n")
    return {
        "checkpoint_sha256": hashlib.sha256(TEXT.encode()).hexdigest(),
        "cosignature": line,
        "witness": NAME,
        **changes,
    }


def ledger(**changes: Any) -> Builder:
    made = small_ledger()
    made.add("witness", body(**changes), LOG)
    return made


def trust(*keys: NoteKey) -> TrustPolicy:
    witnesses = tuple(Witness(parse_verifier_key(key.verifier_key), key.name) for key in keys)
    return TrustPolicy(ROOT.public, witnesses=witnesses, quorum=min(1, len(keys)))


def judged(made: Builder, policy: TrustPolicy | None = None, sizes: tuple[int, ...] = (SIZE,)) -> Report:
    kept = tuple((f"checkpoints/{size:012d}.note", sign_head(made.lines[:size])) for size in sizes)
    newest = sign_head(made.lines)
    if policy is not None and policy.quorum:
        newest = cosign(cosign(newest, KEY, NOON), THIRD, NOON)
    return check_log(MemorySource(made.data, checkpoint=newest, kept=kept), policy or trust(KEY))


def codes(report: Report) -> tuple[set[Code], ExitCode]:
    return set(report.counts) - {Code.WITNESS_QUORUM}, report.exit_code


def step(report: Report) -> tuple[int, int, int]:
    found = next(result for result in report.steps if result.name == "witnesses")
    return found.checked, found.failed, found.not_checked


def test_a_cosignature_that_the_witness_made_holds() -> None:
    report = judged(ledger(), trust(KEY))
    assert codes(report) == (set(), ExitCode.VERIFIED)
    assert step(report) == (2, 0, 0), "the cosignature on the newest head, and the entry's"
    assert [bound.size for bound in report.bounds] == [len(ledger().lines)], "an entry bounds nothing"


def test_a_witness_that_the_log_enrolled_is_checked_without_a_policy() -> None:
    made = Builder().open()
    made.add("key", key_body(Key("w1"), "witness"), ROOT)
    made.runs(3)
    head = sign_head(made.lines[:SIZE])
    text = parse_note(head).text
    own = NoteKey(NAME, "w1", COSIGNER_TYPE)
    for key, wanted in ((own, set()), (OTHER, {Code.WITNESS_ENTRY_OPEN})):
        one = Builder(list(made.lines))
        line = key.line(text, NOON).removesuffix("\n")
        digest = hashlib.sha256(text.encode()).hexdigest()
        one.add("witness", {"checkpoint_sha256": digest, "cosignature": line, "witness": NAME}, LOG)
        report = judged(one, TrustPolicy(ROOT.public))
        assert set(report.counts) == wanted


def own_word(key: NoteKey = KEY, **changes: Any) -> tuple[Builder, bytes]:
    """A log that enrolled a witness of its own and keeps its cosignature over a head, whose note comes with it."""
    made = Builder().open()
    made.add("key", key_body(Key(key.word), "witness"), ROOT)
    made.runs(3)
    head = sign_head(made.lines[:SIZE])
    text = parse_note(head).text
    line = key.line(text, NOON).removesuffix("\n")
    digest = hashlib.sha256(text.encode()).hexdigest()
    made.add("witness", {"checkpoint_sha256": digest, "cosignature": line, "witness": key.name, **changes}, LOG)
    return made, head


REQUIRED = frozenset({"witnesses"})


def test_what_a_policy_requires_of_witnesses_is_not_met_by_a_witness_of_the_log_s_own() -> None:
    made, _ = own_word()
    report = judged(made, TrustPolicy(ROOT.public, require=REQUIRED))
    assert (report.exit_code, set(report.counts)) == (ExitCode.NOT_CHECKED, {Code.REQUIRED_NOT_CHECKED})
    assert step(report) == (0, 0, 0)
    assert report.steps[7].detail.endswith(
        "1 kept cosignatures by keys that only the log calls witnesses count for nothing"
    )


def test_nor_does_it_keep_a_quorum_from_meeting_it() -> None:
    made, _ = own_word()
    trusted = replace(trust(THIRD), require=REQUIRED)
    assert judged(made, trusted).exit_code == ExitCode.VERIFIED
    assert step(judged(made, trusted)) == (1, 0, 0)
    assert step(judged(made, replace(trust(KEY), require=REQUIRED))) == (2, 0, 0), "one that the policy names counts"


def test_a_false_word_of_a_witness_that_only_the_log_knows_is_an_error_still() -> None:
    text = TEXT.replace("\n8\n", "\n9\n")
    made, _ = own_word(cosignature=KEY.line(text, NOON).removesuffix("\n"))
    report = judged(made, TrustPolicy(ROOT.public))
    assert set(report.counts) == {Code.WITNESS_ENTRY_FALSE}
    assert step(report) == (1, 1, 0)


def test_a_line_in_another_name_under_a_witness_s_key_hash_is_by_nobody_known() -> None:
    """The key hash is four bytes that whoever writes the line chooses."""
    name = "witness.example/other"
    line = KEY.line(TEXT, NOON).removesuffix("\n").replace(NAME, name)
    report = judged(ledger(cosignature=line, witness=name), trust(KEY))
    assert codes(report) == ({Code.WITNESS_ENTRY_OPEN}, ExitCode.VERIFIED)


FALSE: dict[str, dict[str, Any]] = {
    "no line at all": {"cosignature": "yes, I saw it"},
    "two lines": {"cosignature": KEY.line(TEXT, NOON) + KEY.line(TEXT, NOON).removesuffix("\n")},
    "words in front of the line": {"cosignature": "Checked by all.\n\n" + KEY.line(TEXT, NOON).removesuffix("\n")},
    "a blank line in front of the line": {"cosignature": "\n\n" + KEY.line(TEXT, NOON).removesuffix("\n")},
    "a line feed in front of the line": {"cosignature": "\n" + KEY.line(TEXT, NOON).removesuffix("\n")},
    "a line of the log": {"cosignature": NoteKey(NAME, "w1").line(TEXT).removesuffix("\n")},
    "a line of another witness": {"witness": "witness.example/w2"},
    "another time": {"cosignature": KEY.line(TEXT, NOON)[:60] + "AAAA" + KEY.line(TEXT, NOON)[64:-1]},
    "a signature of another text": {"cosignature": KEY.line(TEXT.replace("\n8\n", "\n9\n"), NOON).removesuffix("\n")},
    "no time": {"cosignature": KEY.line(TEXT, 0).removesuffix("\n")},
}


@pytest.mark.parametrize("changes", FALSE.values(), ids=FALSE)
def test_a_cosignature_that_is_none_is_false(changes: dict[str, Any]) -> None:
    report = judged(ledger(**changes), trust(KEY))
    assert codes(report) == ({Code.WITNESS_ENTRY_FALSE}, ExitCode.FALSE)
    assert report.findings[-1].position.index == 10
    assert step(report)[1] == 1


OPEN: dict[str, tuple[dict[str, Any], tuple[NoteKey, ...], tuple[int, ...]]] = {
    "the checkpoint is not here": ({}, (KEY,), ()),
    "a checkpoint of nothing": ({"checkpoint_sha256": "00" * 32}, (KEY,), (SIZE,)),
    "a witness whose key nobody named": ({}, (), (SIZE,)),
    "a key of the log in another role": (
        {"cosignature": NoteKey(NAME, "runner", COSIGNER_TYPE).line(TEXT, NOON).removesuffix("\n")},
        (KEY,),
        (SIZE,),
    ),
    "another witness is named": ({}, (THIRD,), (SIZE,)),
    "a key that nobody named": ({"cosignature": OTHER.line(TEXT, NOON).removesuffix("\n")}, (KEY,), (SIZE,)),
}


@pytest.mark.parametrize(("changes", "keys", "sizes"), OPEN.values(), ids=OPEN)
def test_what_cannot_be_compared_is_named_and_not_checked(
    changes: dict[str, Any], keys: tuple[NoteKey, ...], sizes: tuple[int, ...]
) -> None:
    report = judged(ledger(**changes), trust(*keys), sizes)
    assert codes(report) == ({Code.WITNESS_ENTRY_OPEN}, ExitCode.VERIFIED)
    assert step(report)[2] >= 1


def test_an_entry_that_was_taken_back_says_nothing() -> None:
    made = ledger(cosignature="no line")
    made.add("key", key_body(Key("log-2"), "log"), ROOT)
    made.add("key", key_body(LOG, "log", "revoke", revoked_from=10), ROOT)
    new = sign_head(made.lines, Key("log-2"))
    report = check_log(MemorySource(made.data, checkpoint=new), trust())
    assert Code.WITNESS_ENTRY_FALSE not in report.counts
    assert Code.WITNESS_ENTRY_OPEN not in report.counts


def test_a_line_that_is_too_long_leaves_them_unchecked() -> None:
    made = ledger()
    made.lines.append(b'{"entry":' + b"x" * 70_000 + b"\n")
    report = check_log(MemorySource(made.data), trust(KEY))
    assert Code.WITNESS_ENTRY_OPEN not in report.counts
    assert step(report)[2] >= 1


def test_a_proof_file_of_one_counts_it_as_not_checked() -> None:
    made = ledger()
    data = format_proof(prove_entry(MemorySource(made.data, checkpoint=sign_head(made.lines)), 10))
    found = check_proof(data, "p", TrustPolicy(ROOT.public))
    assert (found.exit_code, step(found)[2]) == (ExitCode.VERIFIED, 1)


def test_a_line_that_verify_would_refuse_for_ever_is_not_appended() -> None:
    from k3_ledger.cli.admission import faults

    for changes, wanted in (({}, []), ({"cosignature": "yes"}, [Code.WITNESS_ENTRY_FALSE])):
        entry = decode(parse_line(ledger(**changes).lines[-1][:-1]).entry)
        assert [fault.code for fault in faults(entry)] == wanted


def test_without_a_policy_nobody_s_key_is_known() -> None:
    made = ledger()
    kept = ((f"checkpoints/{SIZE:012d}.note", sign_head(made.lines[:SIZE])),)
    report = check_log(MemorySource(made.data, checkpoint=sign_head(made.lines), kept=kept))
    assert codes(report) == ({Code.WITNESS_ENTRY_OPEN}, ExitCode.VERIFIED)

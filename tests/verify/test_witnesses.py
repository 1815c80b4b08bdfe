"""Cosignatures: whose count, for which head, how often, and what they say about time."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.cosignature import COSIGNATURE_LEN, Witness
from k3_ledger.ledger.core.note import parse_note, parse_verifier_key
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.errors import PolicyError, ProofError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy, parse_policy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.witnesses import TimeBound
from tests.ledgers import LOG, ROOT, RUNNER, Builder, Key, key_body, sign_head, small_ledger
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey, cosign

if TYPE_CHECKING:
    from k3_ledger.verify.report import Report

W1, W2, W3 = (NoteKey(f"witness.example/w{number}", f"w{number}", COSIGNER_TYPE) for number in (1, 2, 3))
STRANGER = NoteKey("stranger.example", "stranger", COSIGNER_TYPE)
NOON, LATER, DAY = 1_767_268_800, 1_767_272_400, 86_400
"""2026-01-01T12:00:00Z, an hour later, and seconds in a day."""


def policy(quorum: int, *keys: NoteKey, operators: tuple[str, ...] = (), **more: Any) -> TrustPolicy:
    names = operators or tuple(key.name for key in keys)
    witnesses = tuple(
        Witness(parse_verifier_key(key.verifier_key), name) for key, name in zip(keys, names, strict=True)
    )
    return TrustPolicy(ROOT.public, witnesses=witnesses, quorum=quorum, **more)


def cosigned(note: bytes, *given: tuple[NoteKey, int]) -> bytes:
    for key, time in given:
        note = cosign(note, key, time)
    return note


def check(note: bytes, trust: TrustPolicy, *, kept: tuple[tuple[str, bytes], ...] = (), ledger: Builder | None = None):
    return check_log(MemorySource((ledger or small_ledger()).data, checkpoint=note, kept=kept), trust)


def step(report: Report):
    return next(result for result in report.steps if result.name == "witnesses")


def codes(report: Report) -> set[Code]:
    return set(report.counts)


HEAD = small_ledger().head()
SIZE = len(small_ledger().lines)


# --------------------------------------------------------------------------------------------------------- it counts


def test_a_head_with_its_quorum_passes_and_bounds_when_entries_existed() -> None:
    report = check(cosigned(HEAD, (W1, LATER), (W2, NOON)), policy(2, W1, W2, W3, require=frozenset({"witnesses"})))
    assert report.exit_code is ExitCode.VERIFIED
    assert (step(report).outcome, step(report).checked) == (Outcome.PASS, 2)
    assert step(report).detail == "2 of 2 that the trust policy asks for cosigned the newest head"
    assert report.bounds == (TimeBound(SIZE, LATER, (W2.name, W1.name)),)
    assert report.as_dict()["existed"] == [
        {"entries_below": SIZE, "at_or_before": "2026-01-01T13:00:00Z", "according_to": [W2.name, W1.name]}
    ]
    assert (
        report.bounds[0].sentence == f"entries below {SIZE} by 2026-01-01T13:00:00Z, according to {W2.name}, {W1.name}"
    )
    assert "cosignatures by 2 of 3 witnesses" in report.policy


def test_one_more_witness_than_needed_makes_the_bound_earlier_not_later() -> None:
    note = cosigned(HEAD, (W1, LATER), (W2, NOON), (W3, NOON + 1))
    assert check(note, policy(2, W1, W2, W3)).bounds == (TimeBound(SIZE, NOON + 1, (W2.name, W3.name)),)
    assert check(note, policy(1, W1, W2, W3)).bounds == (TimeBound(SIZE, NOON, (W2.name,)),)


def test_older_heads_bound_older_entries_and_say_no_more_than_is_new() -> None:
    ledger = small_ledger()
    heads = {size: sign_head(ledger.lines[:size]) for size in (5, 6, 7, 8)}
    kept = (
        ("checkpoints/000000000005.note", cosigned(heads[5], (W1, NOON))),
        ("checkpoints/000000000006.note", cosigned(heads[6], (W1, NOON + DAY))),  # later than the next: says nothing
        ("checkpoints/000000000007.note", cosigned(heads[7], (W1, NOON + DAY))),
        ("checkpoints/000000000008.note", heads[8]),
    )
    report = check(cosigned(ledger.head(), (W1, NOON + 2 * DAY)), policy(1, W1), kept=kept)
    assert [(bound.size, bound.timestamp) for bound in report.bounds] == [
        (SIZE, NOON + 2 * DAY),
        (7, NOON + DAY),
        (5, NOON),
    ]


def test_lines_on_a_kept_copy_of_the_newest_head_count_for_it() -> None:
    kept = ((f"checkpoints/{SIZE:012d}.note", cosigned(HEAD, (W2, NOON), (W1, NOON))),)
    report = check(cosigned(HEAD, (W1, LATER)), policy(2, W1, W2), kept=kept)
    assert (report.exit_code, report.bounds[0].timestamp) == (ExitCode.VERIFIED, NOON)


def test_a_kept_copy_of_the_newest_head_is_not_counted_again() -> None:
    note = cosigned(HEAD, (W1, NOON))
    report = check(note, policy(1, W1), kept=((f"checkpoints/{SIZE:012d}.note", note),))
    assert (report.exit_code, step(report).checked) == (ExitCode.VERIFIED, 1)


def test_a_witness_that_gave_its_word_again_bounds_by_its_first() -> None:
    report = check(cosigned(HEAD, (W1, LATER), (W1, NOON)), policy(1, W1))
    assert (report.exit_code, codes(report), step(report).checked) == (ExitCode.VERIFIED, set(), 2)
    assert report.bounds == (TimeBound(SIZE, NOON, (W1.name,)),)


def test_a_proof_file_carries_its_time_bound() -> None:
    source = MemorySource(small_ledger().data, checkpoint=cosigned(HEAD, (W1, NOON)))
    data = format_proof(prove_entry(source, 5))
    report = check_proof(data, "entry-5.proof", policy(1, W1))
    assert (report.exit_code, report.bounds) == (ExitCode.VERIFIED, (TimeBound(SIZE, NOON, (W1.name,)),))
    refused = check_proof(data, "entry-5.proof", policy(1, W2))
    assert (refused.exit_code, refused.bounds) == (ExitCode.FALSE, ())
    damaged = check_proof(
        data.replace(b'"inclusion":["', b'"inclusion":["' + b"0" * 64 + b'","', 1), "p", policy(1, W1)
    )
    assert damaged.bounds == ()


def test_a_proof_that_leads_to_an_older_head_has_its_tighter_bound() -> None:
    ledger = small_ledger()
    ledger.add("key", key_body(type(LOG)("late"), "runner", "rotate", replaces=RUNNER.id), ROOT)  # behind the head
    kept = ((f"checkpoints/{SIZE:012d}.note", cosigned(HEAD, (W1, NOON))),)
    source = MemorySource(ledger.data, checkpoint=cosigned(ledger.head(), (W1, NOON + 9 * DAY)), kept=kept)
    newest, older = prove_entry(source, 5), prove_entry(source, 5, head_size=SIZE)
    assert check_proof(format_proof(newest), "p", policy(1, W1)).bounds == (
        TimeBound(SIZE + 1, NOON + 9 * DAY, (W1.name,)),
    )
    report = check_proof(format_proof(older), "p", policy(1, W1))
    assert (report.exit_code, report.bounds) == (ExitCode.VERIFIED, (TimeBound(SIZE, NOON, (W1.name,)),))
    revoked = Builder(list(small_ledger().lines))
    revoked.add("key", key_body(RUNNER, "runner", "revoke"), ROOT)
    source = MemorySource(revoked.data, checkpoint=HEAD, kept=kept)
    assert check_proof(format_proof(prove_entry(source, 5, head_size=SIZE)), "p", policy(1, W1)).exit_code == 0
    for index, size, code in ((5, SIZE - 1, Code.NO_SUCH_HEAD), (SIZE, SIZE, Code.NO_SUCH_HEAD)):
        with pytest.raises(ProofError) as caught:
            prove_entry(source, index, head_size=size)
        assert caught.value.code is code


# ------------------------------------------------------------------------------------------------- what does not count


@pytest.mark.parametrize(
    ("note", "trust", "also"),
    [
        (HEAD, policy(1, W1), set()),
        (cosigned(HEAD, (STRANGER, NOON)), policy(1, W1), set()),
        (cosigned(HEAD, (W1, NOON), (W1, LATER)), policy(2, W1, W2), set()),
        (
            cosigned(HEAD, (W1, NOON), (W2, NOON)),
            policy(2, W1, W2, W3, operators=("Org", "Org", "Other")),
            {Code.COSIGNATURE_REPEATED},
        ),
        (cosigned(HEAD, (W1, 0)), policy(1, W1), {Code.COSIGNATURE_TIMELESS}),
        (cosigned(HEAD, (replace(W1, kind=1), NOON)), policy(1, W1), set()),
    ],
    ids=["nobody", "unknown witness", "one witness twice", "one operator twice", "no time", "not a cosignature"],
)
def test_too_few_witnesses_fail_the_verification(note: bytes, trust: TrustPolicy, also: set[Code]) -> None:
    report = check(note, trust)
    assert report.exit_code is ExitCode.FALSE
    assert codes(report) == {Code.WITNESS_QUORUM} | also
    assert (step(report).outcome, report.bounds) == (Outcome.FAIL, ())


def test_what_is_missing_is_named() -> None:
    report = check(cosigned(HEAD, (W1, NOON), (STRANGER, NOON)), policy(2, W1, W2))
    finding = report.findings[0]
    assert (finding.position.source, finding.found) == ("checkpoint", W1.name)
    assert finding.expected == "cosignatures by 2 operators of trusted witnesses"
    assert step(report).detail == (
        "1 of 2 that the trust policy asks for cosigned the newest head; 1 signatures by unknown keys count for nothing"
    )


def test_an_older_head_with_a_quorum_is_named_and_is_no_substitute() -> None:
    kept = (("checkpoints/000000000005.note", cosigned(sign_head(small_ledger().lines[:5]), (W1, NOON))),)
    report = check(HEAD, policy(1, W1), kept=kept)
    assert (report.exit_code, report.bounds) == (ExitCode.FALSE, (TimeBound(5, NOON, (W1.name,)),))
    assert report.findings[0].advice == "the largest head with a quorum has 5 entries"


def test_without_a_head_there_is_nothing_to_cosign() -> None:
    report = check_log(MemorySource(small_ledger().data), policy(1, W1))
    assert report.exit_code is ExitCode.FALSE
    assert "no newest head" in next(f for f in report.findings if f.code is Code.WITNESS_QUORUM).message


def test_a_forged_cosignature_under_a_trusted_name_is_an_error_even_beside_a_quorum() -> None:
    forged = replace(W2, word="thief").line(parse_note(HEAD).text, NOON)
    blob = W2.hash + base64.b64decode(forged.split()[2])[4:]
    line = f"\u2014 {W2.name} {base64.b64encode(blob).decode()}\n".encode()
    report = check(cosigned(HEAD, (W1, NOON)) + line, policy(1, W1, W2))
    assert (report.exit_code, codes(report)) == (ExitCode.FALSE, {Code.COSIGNATURE_BAD})
    assert (step(report).checked, step(report).failed) == (2, 1)


@pytest.mark.parametrize("at", range(COSIGNATURE_LEN))
def test_no_byte_of_a_cosignature_can_be_changed(at: int) -> None:
    note = cosigned(HEAD, (W1, NOON))
    sig = parse_note(note).sigs[1]
    blob = bytearray(sig.key_hash.to_bytes(4, "big") + sig.signature)
    blob[4 + at] ^= 1
    line = f"\u2014 {W1.name} {base64.b64encode(blob).decode()}\n".encode()
    assert Code.COSIGNATURE_BAD in codes(check(HEAD + line, policy(1, W1)))


def test_a_cosignature_of_another_head_is_none_of_this_one() -> None:
    other = cosigned(sign_head(small_ledger().lines[:5]), (W1, NOON))
    line = other.split(b"\n\n")[1].split(b"\n")[1] + b"\n"
    assert Code.COSIGNATURE_BAD in codes(check(HEAD + line, policy(1, W1)))


def test_witnesses_of_a_head_that_the_log_did_not_sign_bound_nothing() -> None:
    ledger = small_ledger()
    fork = Builder(list(ledger.lines[:-1])).runs(0)
    fork.add("note", {"text": "another history", "artifacts": []}, RUNNER)
    report = check(cosigned(fork.head(), (W1, NOON)), policy(1, W1), ledger=ledger)
    assert codes(report) == {Code.CHECKPOINT_ROOT}  # who cosigned what was refused is no second fault
    assert report.bounds == ()


def test_the_log_cannot_witness_itself() -> None:
    own = NoteKey("witness.example/own", LOG.seed, COSIGNER_TYPE)
    report = check(cosigned(HEAD, (own, NOON)), policy(1, own))
    assert codes(report) == {Code.WITNESS_NOT_INDEPENDENT, Code.WITNESS_QUORUM}
    assert next(f for f in report.findings if f.code is Code.WITNESS_NOT_INDEPENDENT).position.index == 1


def test_a_witness_that_the_log_enrolled_as_one_counts() -> None:
    ledger = Builder().open()
    key = type(LOG)(W1.word)
    ledger.add("key", key_body(key, "witness"), ROOT)
    report = check(cosigned(ledger.head(), (W1, NOON)), policy(1, W1), ledger=ledger)
    assert (report.exit_code, len(report.bounds)) == (ExitCode.VERIFIED, 1)


def test_a_log_without_a_genesis_is_judged_all_the_same() -> None:
    ledger = Builder()
    ledger.add("note", {"text": "no beginning", "artifacts": []}, RUNNER)
    report = check(cosigned(ledger.head(), (W1, NOON)), policy(1, W1), ledger=ledger)
    assert codes(report) == {Code.CHAIN_NO_GENESIS, Code.ROOT_NOT_CHECKED}
    assert next(step for step in report.steps if step.name == "witnesses").not_checked == 1


def test_the_empty_tree_bounds_nothing() -> None:
    kept = (("checkpoints/000000000000.note", cosigned(sign_head([]), (W1, NOON))),)
    report = check(cosigned(HEAD, (W1, LATER)), policy(1, W1), kept=kept)
    assert all(bound.size for bound in report.bounds)


# ------------------------------------------------------------------------------------------------------- in the policy


def table(*keys: NoteKey, quorum: int | None = 1, **operators: str) -> bytes:
    lines = [] if quorum is None else [f"quorum = {quorum}"]
    for key in keys:
        lines += ["[[witness]]", f'key = "{key.verifier_key}"']
        lines += [f'operator = "{operators[key.word]}"'] if key.word in operators else []
    return "\n".join(lines).encode()


def test_witnesses_are_read_from_toml() -> None:
    read = parse_policy(table(W1, W2, W3, quorum=2, w2="Org"))
    assert read.quorum == 2
    assert [(w.name, w.operator) for w in read.witnesses] == [(W1.name, W1.name), (W2.name, "Org"), (W3.name, W3.name)]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (table(W1, quorum=None), None),
        (table(W1, quorum=0), None),
        (table(W1, quorum=2), None),
        (table(quorum=1), None),
        (table(W1, quorum=-1), None),
        (table(W1, W2, quorum=2, w1="Org", w2="Org"), None),
        (table(W1, replace(W1, name="again.example")), None),
        (table(replace(W1, kind=1)), None),
        (b'quorum = "1"', "quorum"),
        (b"witness = 1", "witness"),
        (b"quorum = 1\nwitness = [1]", "witness[0]"),
        (b'quorum = 1\n[[witness]]\noperator = "x"', "witness[0]"),
        (b"quorum = 1\n[[witness]]\nkey = 1", "witness[0]"),
        (table(W1, w1=""), "witness[0]"),
        (table(W1) + b"\nurl = 1", "witness[0]"),
        (b'quorum = 1\n[[witness]]\nkey = "x"\noperator = 1', "witness[0]"),
        (b'quorum = 1\n[[witness]]\nkey = "x+00000000+AA=="', "witness[0].key"),
    ],
)
def test_a_mistake_in_the_witnesses_is_refused_and_named(text: bytes, field: str | None) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert caught.value.finding.position.field == field


def test_a_bad_or_timeless_line_by_a_known_witness_is_not_called_one_by_an_unknown_key() -> None:
    spoiled = bytearray(cosigned(HEAD, (W1, NOON)))
    spoiled[-20] = ord("A") if spoiled[-20] != ord("A") else ord("B")
    for note in (bytes(spoiled), cosigned(HEAD, (W1, 0))):
        assert step(check(note, policy(1, W1))).detail.endswith("cosigned the newest head")
    strange = cosigned(HEAD, (W1, NOON), (STRANGER, NOON))
    assert step(check(strange, policy(1, W1))).detail.endswith("; 1 signatures by unknown keys count for nothing")


@pytest.mark.parametrize(
    ("seed", "said", "place"),
    [(ROOT, "the root key that the genesis entry names", 0), (LOG, "the log key that entry 1 enrolled", 1)],
)
def test_a_witness_with_another_part_in_the_log_is_named_by_the_entry_that_gave_it_that(
    seed: Key, said: str, place: int
) -> None:
    own = NoteKey("witness.example/own", seed.seed, COSIGNER_TYPE)
    report = check(cosigned(HEAD, (own, NOON)), policy(1, own))
    (finding,) = [one for one in report.findings if one.code is Code.WITNESS_NOT_INDEPENDENT]
    assert (finding.message, finding.position.index) == (f"the key of {own.name} is {said}", place)


def ended(how: str) -> tuple[Builder, Key, str]:
    """A ledger in which a log key, or a thief's, came to an end; that key, and what the finding says of it."""
    ledger = small_ledger(2)
    first = Key("log-before")
    if how in ("revoked", "rotated out"):
        ledger.add("key", key_body(first, "log"), ROOT)  # 6
        rotated = {"action": "rotate", "replaces": first.id}
        body = key_body(first, "log", "revoke") if how == "revoked" else key_body(Key("log-after"), "log", **rotated)
        ledger.add("key", body, ROOT)  # 7
        return ledger.runs(1), first, f"the log key that entry 6 enrolled and entry 7 {how}"
    thief = Key("thief")
    ledger.add("key", key_body(thief, "root"), ROOT)  # 6
    ledger.add("key", key_body(first, "log"), thief)  # 7
    ledger.add("key", key_body(thief, "root", "revoke", revoked_from=7), ROOT)  # 8
    if how == "enrolled again":
        ledger.add("key", key_body(first, "witness"), ROOT)
    return ledger.runs(1), first, "the log key that entry 7 enrolled, which entry 8 took back"


@pytest.mark.parametrize("how", ["revoked", "rotated out", "taken back", "enrolled again"])
def test_a_log_key_that_came_to_an_end_is_no_witness(how: str) -> None:
    ledger, key, said = ended(how)
    own = NoteKey("witness.example/own", key.seed, COSIGNER_TYPE)
    report = check(cosigned(ledger.head(), (own, NOON), (W1, NOON)), policy(2, own, W1), ledger=ledger)
    assert {Code.WITNESS_NOT_INDEPENDENT, Code.WITNESS_QUORUM} <= codes(report)
    assert report.exit_code is ExitCode.FALSE
    (finding,) = [one for one in report.findings if one.code is Code.WITNESS_NOT_INDEPENDENT]
    assert finding.message == f"the key of {own.name} is {said}"
    assert f"entry {finding.position.index} enrolled" in said
    assert report.bounds == ()


def test_a_witness_that_the_log_revoked_still_counts_for_a_reader_who_names_it() -> None:
    """Whom the reader believes is not the log's to say: a log that could silence a witness needed none to fork."""
    ledger = small_ledger(2)
    ledger.add("key", key_body(Key(W1.word), "witness"), ROOT)
    ledger.add("key", key_body(Key(W1.word), "witness", "revoke"), ROOT)
    report = check(cosigned(ledger.head(), (W1, NOON)), policy(1, W1), ledger=ledger)
    assert (report.exit_code, codes(report)) == (0, set())


def test_two_witnesses_whose_lines_cannot_be_told_apart_are_refused() -> None:
    """A line names its key by a name and 32 bits; a pair with the same ones is found by a hundred thousand tries."""
    twins = [NoteKey("witness.example/w", word, COSIGNER_TYPE) for word in ("t40547", "t100344")]
    assert twins[0].hash == twins[1].hash
    with pytest.raises(ValueError, match="one name and one key hash"):
        policy(1, *twins, operators=("one", "other"))
    apart = NoteKey("witness.example/other", twins[1].word, COSIGNER_TYPE)
    assert policy(2, twins[0], apart, operators=("one", "other")).quorum == 2

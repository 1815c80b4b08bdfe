"""Proof files: built from a ledger, read back, checked, and refused in every other shape."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.checkpoint import Checkpoint, format_checkpoint, open_checkpoint
from k3_ledger.ledger.core.merkle import CompactRange
from k3_ledger.ledger.core.note import MAX_NOTE, Verifier, sign_note
from k3_ledger.ledger.core.proof import (
    LIMITS,
    MAX_ENTRIES,
    ProofEntry,
    build_proof,
    check_inclusions,
    format_proof,
    parse_proof,
)
from k3_ledger.ledger.core.tlog_proof import (
    MAX_BYTES,
    TlogProof,
    format_tlog_proof,
    parse_tlog_proof,
    to_tlog_proof,
)
from k3_ledger.schemas import canonical
from k3_ledger.schemas.outcomes import Position
from tests.ledger.core.samples import TestKey, code_of, line, refusal

LOG = TestKey("log")
LINES = [line(index) for index in range(13)]
LEAVES = [leaf_hash(found) for found in LINES]
SIZE = 11
PLACE = Position(source="x.proof")


def head(size=SIZE):
    covered = CompactRange()
    for leaf in LEAVES[:size]:
        covered.append(leaf)
    return Checkpoint(LOG.name, size, covered.root())


def signed(checkpoint):
    return sign_note(format_checkpoint(checkpoint), [LOG])


CHECKPOINT = signed(head())


def lines(*indexes):
    return {index: LINES[index] for index in indexes}


PROOF = build_proof(7, lines(0, 7, 2), LEAVES, CHECKPOINT)
DOCUMENT = canonical.parse(format_proof(PROOF), limits=LIMITS)


def document(**changes):
    return canonical.format(DOCUMENT | changes, limits=LIMITS)


def with_entry(at, **changes):
    entries = copy.deepcopy(DOCUMENT["entries"])
    entries[at] |= changes
    return document(entries=entries)


# --------------------------------------------------------------------------------------------- building and checking


@pytest.mark.parametrize("subject", range(SIZE))
def test_a_proof_of_every_entry_holds_without_the_ledger(subject):
    data = format_proof(build_proof(subject, lines(0, 2, subject), LEAVES, CHECKPOINT))
    proof = parse_proof(data)
    assert proof.subject_entry.line == LINES[subject]
    opened = open_checkpoint(proof.checkpoint, [Verifier(LOG.name, LOG.public_key)], origin=LOG.name)
    check_inclusions(proof, opened.checkpoint)
    assert [entry.index for entry in proof.entries] == sorted({0, 2, subject})


def test_every_line_of_a_proof_is_checked():
    for at, entry in enumerate(PROOF.entries):
        changed = replace(entry, line=entry.line + b" ")
        entries = (*PROOF.entries[:at], changed, *PROOF.entries[at + 1 :])
        error = refusal(check_inclusions, replace(PROOF, entries=entries), head(), position=PLACE)
        assert error.code.name == "INCLUSION_MISMATCH"
        assert error.finding.position == Position(source="x.proof", index=entry.index)


def test_a_proof_leads_to_its_own_checkpoint_only():
    assert code_of(check_inclusions, PROOF, head(12)) is not None
    assert code_of(check_inclusions, PROOF, head(10)) is not None
    check_inclusions(PROOF, head())


def test_an_entry_behind_the_checkpoint_cannot_be_proved():
    error = refusal(build_proof, 11, lines(0, 11), LEAVES, CHECKPOINT, position=PLACE)
    assert (error.code.name, error.finding.position) == ("NOT_CHECKPOINTED", PLACE)
    assert code_of(build_proof, 7, lines(0, 7, 12), LEAVES, CHECKPOINT) == "NOT_CHECKPOINTED"


def test_a_checkpoint_that_the_ledger_does_not_reach_is_refused():
    error = refusal(build_proof, 7, lines(0, 7), LEAVES[:10], CHECKPOINT, position=PLACE)
    assert (error.code.name, error.finding.position) == ("CHECKPOINT_AHEAD", PLACE)
    assert "commits to 11 entries, and 10 are there" in str(error)
    assert code_of(build_proof, 7, lines(0, 7), LEAVES[:11], CHECKPOINT) is None


def test_a_checkpoint_of_other_entries_is_refused():
    leaves = [*LEAVES[:4], leaf_hash(b"forged"), *LEAVES[5:]]
    error = refusal(build_proof, 7, lines(0, 7), leaves, CHECKPOINT, position=PLACE)
    assert (error.code.name, error.finding.position) == ("CHECKPOINT_ROOT", PLACE)
    assert error.finding.expected == head().root.hex()
    assert error.finding.found not in (None, error.finding.expected)


def test_no_more_leaves_are_read_than_the_checkpoint_commits_to():
    def leaves():
        yield from LEAVES[:SIZE]
        raise AssertionError("read on")

    assert build_proof(7, lines(0, 7, 2), leaves(), CHECKPOINT) == PROOF


@pytest.mark.parametrize(
    "given_lines",
    [lines(0), lines(7), {}, lines(0, 7) | {3: b"not the line"}, dict.fromkeys(range(MAX_ENTRIES + 1), b"")],
    ids=["no subject", "no genesis", "nothing", "another line", "too many"],
)
def test_wrong_lines_are_the_callers_mistake(given_lines):
    with pytest.raises(ValueError, match=r"a proof holds|not the one in the tree"):
        build_proof(7, given_lines, LEAVES, CHECKPOINT)


NO_HEAD = sign_note("a\n", [LOG])


@pytest.mark.parametrize(("checkpoint", "code"), [(b"", "NOTE_MALFORMED"), (NO_HEAD, "CHECKPOINT_MALFORMED")])
def test_an_unreadable_checkpoint_is_refused(checkpoint, code):
    error = refusal(build_proof, 7, lines(0, 7), LEAVES, checkpoint, position=PLACE)
    assert (error.code.name, error.finding.position) == (code, PLACE)


# ------------------------------------------------------------------------------------------------------ the file


def test_the_file_is_canonical_json_without_a_line_feed():
    data = format_proof(PROOF)
    assert data.startswith(b'{"checkpoint":"example.com/log\\n11\\n')
    assert data.endswith(b'"schema":"k3-ledger/proof/1","subject":7}')
    assert parse_proof(data) == PROOF
    assert [list(entry) for entry in DOCUMENT["entries"]] == [["inclusion", "index", "line"]] * 3


@pytest.mark.parametrize(
    ("data", "field"),
    [
        pytest.param(b"[]", None, id="no object"),
        pytest.param(b"{}", None, id="no members"),
        pytest.param(document(more=1), None, id="one more member"),
        pytest.param(document(schema="k3-ledger/proof/2"), "schema", id="another schema"),
        pytest.param(document(subject="7"), "subject", id="subject is text"),
        pytest.param(document(subject=True), "subject", id="subject is true"),
        pytest.param(document(subject=-7), "subject", id="subject is negative"),
        pytest.param(document(subject=3), "entries", id="subject is missing"),
        pytest.param(document(checkpoint=7), "checkpoint", id="checkpoint is a number"),
        pytest.param(document(entries={}), "entries", id="entries are an object"),
        pytest.param(document(entries=DOCUMENT["entries"][1:]), "entries", id="genesis is missing"),
        pytest.param(document(entries=DOCUMENT["entries"][::-1]), "entries", id="falling order"),
        pytest.param(document(entries=[*DOCUMENT["entries"], DOCUMENT["entries"][2]]), "entries", id="an entry twice"),
        pytest.param(document(entries=[0]), "entries[0]", id="an entry is a number"),
        pytest.param(with_entry(1, more=1), "entries[1]", id="one more member of an entry"),
        pytest.param(with_entry(1, index="2"), "entries[1].index", id="index is text"),
        pytest.param(with_entry(0, index=-1), "entries[0].index", id="index is negative"),
        pytest.param(with_entry(2, line=[]), "entries[2].line", id="line is a list"),
        pytest.param(with_entry(2, inclusion="00"), "entries[2].inclusion", id="inclusion is text"),
        pytest.param(with_entry(2, inclusion=["0" * 64] * 65), "entries[2].inclusion", id="65 hashes"),
        pytest.param(with_entry(2, inclusion=[0]), "entries[2].inclusion[0]", id="a hash is a number"),
        pytest.param(with_entry(2, inclusion=["0" * 64, "0" * 63]), "entries[2].inclusion[1]", id="a short hash"),
        pytest.param(with_entry(2, inclusion=["A" * 64]), "entries[2].inclusion[0]", id="an upper-case hash"),
        pytest.param(with_entry(2, inclusion=["0" * 64 + "\n"]), "entries[2].inclusion[0]", id="a line feed"),
    ],
)
def test_other_documents_are_refused(data, field):
    error = refusal(parse_proof, data, position=PLACE)
    assert error.code.name == "PROOF_FILE"
    assert error.finding.position == Position(source="x.proof", field=field)


def test_more_than_a_thousand_and_twenty_four_entries_are_refused():
    entry = DOCUMENT["entries"][0] | {"inclusion": ["0" * 64] * 64}
    entries = [entry | {"index": index} for index in range(MAX_ENTRIES + 1)]
    assert MAX_ENTRIES == 1_024
    assert code_of(parse_proof, document(entries=entries)) == "PROOF_FILE"
    assert code_of(parse_proof, document(entries=entries[:-1])) is None


def test_a_proof_of_as_many_lines_as_there_may_be_is_built_and_read():
    many = {index: b"%d" % index for index in range(MAX_ENTRIES)}
    leaves = [leaf_hash(found) for found in many.values()]
    covered = CompactRange()
    for leaf in leaves:
        covered.append(leaf)
    proof = build_proof(63, many, leaves, signed(Checkpoint(LOG.name, MAX_ENTRIES, covered.root())))
    assert parse_proof(format_proof(proof)) == proof


def test_sixty_four_hashes_are_enough_for_any_tree():
    assert code_of(parse_proof, with_entry(2, inclusion=["0" * 64] * 64)) is None


def test_other_spellings_are_refused_by_the_canonical_profile():
    assert code_of(parse_proof, format_proof(PROOF) + b"\n") == "JSON_NOT_CANONICAL"
    assert code_of(parse_proof, b"") == "JSON_SYNTAX"
    assert refusal(parse_proof, b"{", position=PLACE).finding.position.source == "x.proof"


def test_a_proof_of_the_longest_lines_can_be_written_and_read():
    longest = [line(0, size=32_680), line(1, size=32_680)]
    leaves = [leaf_hash(found) for found in longest]
    covered = CompactRange(0, 0)
    for leaf in leaves:
        covered.append(leaf)
    proof = build_proof(1, dict(enumerate(longest)), leaves, signed(Checkpoint(LOG.name, 2, covered.root())))
    assert len(longest[1]) > 65_400
    assert parse_proof(format_proof(proof)) == proof


@pytest.mark.parametrize(
    "proof",
    [
        replace(PROOF, subject=3),
        replace(PROOF, entries=PROOF.entries[1:]),
        replace(PROOF, checkpoint=b"\xff"),
        replace(PROOF, entries=(ProofEntry(0, b"\xff", ()), *PROOF.entries[1:])),
        replace(PROOF, entries=(ProofEntry(0, b"", (b"short",)), *PROOF.entries[1:])),
        replace(PROOF, checkpoint=b"a" * (MAX_NOTE + 1)),
    ],
    ids=range(6),
)
def test_what_would_not_be_read_back_is_not_written(proof):
    with pytest.raises(ValueError, match=r"not a proof file|not UTF-8"):
        format_proof(proof)


@given(st.binary(max_size=80))
def test_arbitrary_bytes_give_a_ledger_error(data):
    assert code_of(parse_proof, data) is not None
    assert code_of(parse_tlog_proof, data) == "TLOG_PROOF"


# ----------------------------------------------------------------------------------------------- the C2SP form


TLOG = to_tlog_proof(PROOF)
TLOG_DATA = format_tlog_proof(TLOG)


def test_the_c2sp_form_holds_the_subject_alone():
    assert TlogProof(7, PROOF.subject_entry.inclusion, CHECKPOINT, LINES[7]) == TLOG
    text = TLOG_DATA.decode()
    assert text.startswith("c2sp.org/tlog-proof@v1\nextra ")
    assert "\nindex 7\n" in text
    assert text.endswith("\n\n" + CHECKPOINT.decode())
    assert parse_tlog_proof(TLOG_DATA) == TLOG


@pytest.mark.parametrize("extra", [None, b"", b"\0\xff"])
@pytest.mark.parametrize("hashes", [(), (bytes(32),) * 64])
def test_the_c2sp_form_is_read_back(extra, hashes):
    proof = TlogProof(0, hashes, CHECKPOINT, extra)
    assert parse_tlog_proof(format_tlog_proof(proof)) == proof


HASH = "A" * 43 + "="
TOP = "c2sp.org/tlog-proof@v1\n"
BOTTOM = "\n" + CHECKPOINT.decode()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("", "TLOG_PROOF", id="empty"),
        pytest.param(TOP, "TLOG_PROOF", id="header alone"),
        pytest.param(TOP + BOTTOM, "TLOG_PROOF", id="no index"),
        pytest.param("c2sp.org/tlog-proof@v2\nindex 0\n" + BOTTOM, "TLOG_PROOF", id="another version"),
        pytest.param(TOP + "index 0\nextra QQ==\n" + BOTTOM, "TLOG_PROOF", id="extra behind the index"),
        pytest.param(TOP + "extra QQ\nindex 0\n" + BOTTOM, "TLOG_PROOF", id="extra is not base64"),
        pytest.param(TOP + "extra QQ==\n" + BOTTOM, "TLOG_PROOF", id="extra and no index"),
        pytest.param(TOP + "index 00\n" + BOTTOM, "TLOG_PROOF", id="leading zero"),
        pytest.param(TOP + "index +1\n" + BOTTOM, "TLOG_PROOF", id="plus sign"),
        pytest.param(TOP + "index 12345678901234567\n" + BOTTOM, "TLOG_PROOF", id="seventeen digits"),
        pytest.param(TOP + "index 0\nAAAA\n" + BOTTOM, "TLOG_PROOF", id="a short hash"),
        pytest.param(TOP + f"index 0\n{HASH[:-2]}B=\n" + BOTTOM, "TLOG_PROOF", id="stray bits"),
        pytest.param(TOP + f"index 0\n{HASH}\r\n" + BOTTOM, "TLOG_PROOF", id="CRLF"),
        pytest.param(TOP + f"index 0\n{HASH}\u00e9\n" + BOTTOM, "TLOG_PROOF", id="not ASCII"),
        pytest.param(TOP + "index 0\n" + f"{HASH}\n" * 65 + BOTTOM, "TLOG_PROOF", id="65 hashes"),
        pytest.param(TOP + "index 0\n" + CHECKPOINT.decode(), "TLOG_PROOF", id="no blank line"),
        pytest.param(TOP + "index 0\n\n", "NOTE_MALFORMED", id="no checkpoint"),
        pytest.param(TOP + "index 0\n\n" + NO_HEAD.decode(), "CHECKPOINT_MALFORMED", id="no tree head"),
        pytest.param(TOP + "index 0\n" + BOTTOM + "x", "NOTE_MALFORMED", id="junk behind"),
        pytest.param(TOP + "extra " + "A" * MAX_BYTES, "TLOG_PROOF", id="too large"),
    ],
)
def test_what_is_no_c2sp_proof(text, code):
    error = refusal(parse_tlog_proof, text.encode(), position=PLACE)
    assert (error.code.name, error.finding.position) == (code, PLACE)


def test_too_large_is_said_before_anything_is_read():
    assert "2000001 bytes are more than 2000000" in str(refusal(parse_tlog_proof, bytes(2_000_001)))
    assert "no header" in str(refusal(parse_tlog_proof, bytes(2_000_000)))


@pytest.mark.parametrize(
    "proof",
    [replace(TLOG, index=-1), replace(TLOG, hashes=(b"short",)), replace(TLOG, checkpoint=b"")],
    ids=["index", "hash", "checkpoint"],
)
def test_a_c2sp_proof_that_would_not_be_read_back_is_not_written(proof):
    with pytest.raises(ValueError, match="not a tlog-proof"):
        format_tlog_proof(proof)

"""Mirrors: whole ones verify as the ledger does, partial ones are checked as far as they go and accuse nobody."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.ledger.core.tiles import Tile, tile_path
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import Options, check_log, verify_log
from k3_ledger.verify.mirror import TileSource
from k3_ledger.verify.partial import check_partial
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_from_tiles
from k3_ledger.verify.report import FINDINGS_KEPT_PER_CODE
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, LOG, ORIGIN, ROOT, RUNNER, Builder, Key, key_body, run_body, sign_head, small_ledger
from tests.static_host import mirror_files
from tests.verify.test_disowned_bodies import DIGEST, imported

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from k3_ledger.verify.report import Report

POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)


class Files:
    """A mirror in memory that notes what was asked for."""

    def __init__(self, files: dict[str, bytes], kept: Iterable[tuple[str, bytes]] = ()) -> None:
        self.name = "mirror"
        self.files = files
        self.kept = kept
        self.unlisted: frozenset[str] = frozenset()
        self.asked: list[str] = []
        self.accepted: list[str] = []

    def checkpoint(self) -> bytes | None:
        return self.files.get("checkpoint")

    def kept_checkpoints(self) -> Iterable[tuple[str, bytes]]:
        return self.kept

    def timestamps(self) -> Iterable[tuple[str, bytes]]:
        return ()

    def lists(self, folder: str) -> bool:
        return folder not in self.unlisted

    def kept_checkpoint(self, size: int) -> bytes | None:
        return self.files.get(f"checkpoints/{size:012}.note")

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        data = self.files.get(f"blobs/sha256/{sha256[:2]}/{sha256}")
        return None if data is None else io.BytesIO(data)

    def candidates(self, tile: Tile) -> Iterator[bytes]:
        self.asked.append(tile_path(tile))
        if tile_path(tile) in self.files:
            yield self.files[tile_path(tile)]

    def accept(self, tile: Tile, data: bytes) -> None:
        self.accepted.append(tile_path(tile))

    def key_entries(self) -> bytes | None:
        return self.files.get("key-entries")


def source(ledger: Builder, *lost: str, **options: Any) -> TileSource:
    files = mirror_files(ledger)
    for path in lost:
        del files[path]
    return TileSource(Files(files, **options))


def partial(given: TileSource, policy: TrustPolicy | None = POLICY, **options: Any) -> Report:
    return check_partial(given, policy, Options(**options))


def step(report: Report, name: str) -> tuple[str, int, int, int]:
    found = next(result for result in report.steps if result.name == name)
    return str(found.outcome), found.checked, found.failed, found.not_checked


def codes(report: Report) -> list[Code]:
    return list(report.counts)


@pytest.fixture(scope="module")
def ledger() -> Builder:
    return small_ledger(700)


def test_a_whole_mirror_verifies_as_the_ledger_does(ledger: Builder) -> None:
    plain = check_log(MemorySource(ledger.data, checkpoint=ledger.head()), POLICY)
    mirrored = check_log(source(ledger), POLICY)
    assert (mirrored.exit_code, mirrored.steps, mirrored.head) == (0, plain.steps, plain.head)
    assert [item.index for item in verify_log(source(ledger), POLICY)] == list(range(704))


def test_a_mirror_without_a_head_says_nothing(ledger: Builder) -> None:
    report = check_log(source(ledger, "checkpoint"), POLICY)
    assert (report.exit_code, codes(report)) == (3, [Code.UNREADABLE])
    broken = source(ledger)
    broken.mirror.files["checkpoint"] = b"?"  # type: ignore[attr-defined]
    assert Code.NOTE_MALFORMED in codes(check_log(broken, POLICY))


def test_a_mirror_that_lacks_a_bundle_is_not_verified(ledger: Builder) -> None:
    report = check_log(source(ledger, "tile/entries/001"), POLICY)
    assert (report.exit_code, codes(report)) == (4, [Code.TILE_MISSING])


def test_what_is_there_is_checked_and_what_is_missing_is_counted(ledger: Builder) -> None:
    report = partial(source(ledger, "tile/entries/001"))
    assert (report.exit_code, codes(report)) == (4, [Code.MIRROR_INCOMPLETE])
    assert report.findings[0].message == "256 of 704 entries are not on this mirror: 256 to 511"
    assert report.head is not None
    assert report.head.size == 704
    assert report.authenticated
    for name in ("framing", "schema", "signatures"):
        assert step(report, name) == ("not-checked", 448, 0, 256)
    assert step(report, "chain") == ("not-checked", 447, 0, 257), "the link behind the gap is open as well"
    assert step(report, "checkpoint") == ("pass", 1, 0, 0)


def test_nothing_worse_than_missing_hides_behind_missing(ledger: Builder) -> None:
    bad = Builder(ledger.lines[:])
    bad.lines[600] = bad.lines[600].replace(b'"count":10', b'"count":11')
    report = partial(source(bad, "tile/entries/001"))
    assert report.exit_code == 1
    assert {Code.SIGNATURE_MISMATCH, Code.MIRROR_INCOMPLETE} <= set(codes(report))
    given = source(ledger, "tile/entries/001")
    files = given.mirror.files  # type: ignore[attr-defined]
    files["tile/entries/002.p/192"] = files["tile/entries/002.p/192"].replace(b'"count":10', b'"count":11')
    report = partial(given)
    assert (report.exit_code, codes(report)) == (1, [Code.TILE_MISMATCH])


def test_many_gaps_are_counted_and_a_few_are_named() -> None:
    ledger = small_ledger(7 * 256)
    report = partial(source(ledger, *(f"tile/entries/{number:03}" for number in range(1, 7))))
    message = report.findings[0].message
    assert message.startswith("1536 of 1796 entries are not on this mirror: 256 to 511, 512 to 767,")
    assert message.endswith(", and 1 more bundles")


def test_a_whole_mirror_may_be_checked_in_parts(ledger: Builder) -> None:
    report = partial(source(ledger))
    plain = check_log(MemorySource(ledger.data, checkpoint=ledger.head()), POLICY)
    assert (report.steps, report.head) == (plain.steps, plain.head)


def test_a_whole_mirror_that_is_checked_in_parts_is_not_called_verified(ledger: Builder) -> None:
    # Something was missing a moment ago. Checked in parts, a head that nobody signed is one whose key may be missing.
    files = mirror_files(ledger) | {"checkpoint": sign_head(ledger.lines, Key("nobody"))}
    report = partial(TileSource(Files(files)))
    assert (report.exit_code, codes(report)) == (4, [Code.MIRROR_INCOMPLETE])
    assert step(report, "checkpoint")[0] == "not-checked"


def test_without_its_beginning_nobody_is_accused(ledger: Builder) -> None:
    policy = TrustPolicy(root_public_key=ROOT.public, origin="example.org/x", minimum_size=704)
    for given in (policy, None):
        report = partial(source(ledger, "tile/entries/000"), given)
        assert (report.exit_code, codes(report)) == (4, [Code.MIRROR_INCOMPLETE])
    assert not report.authenticated
    assert step(report, "signatures") == ("not-checked", 0, 0, 256 + 448)
    assert step(report, "checkpoint")[2] == 0
    assert step(report, "keys")[0] == "not-checked"


def test_a_key_that_was_enrolled_in_a_gap_is_not_unknown() -> None:
    ledger = small_ledger(300)
    late, log2 = Key("late"), Key("log2")
    ledger.add("key", key_body(late, "runner"), ROOT)
    ledger.add("key", key_body(log2, "log"), ROOT)
    ledger.runs(300)
    ledger.add("run", run_body(1), late)
    ledger.add("key", key_body(Key("later"), "runner", "rotate", replaces=late.id), ROOT)
    files = mirror_files(ledger) | {"checkpoint": sign_head(ledger.lines, log2)}
    whole = check_log(TileSource(Files(dict(files))), POLICY)
    assert whole.exit_code == 0
    del files["tile/entries/001"]
    report = partial(TileSource(Files(files)))
    assert (report.exit_code, Code.MIRROR_INCOMPLETE in codes(report)) == (4, True)
    assert not {Code.KEY_UNKNOWN, Code.CHECKPOINT_SIGNATURE} & set(codes(report))
    assert step(report, "keys")[2:] == (0, 256 + 1 + 1), "the gap, the late signer's run, and the rotation of its key"
    assert step(report, "checkpoint")[0] == "not-checked"


def test_heads_inside_a_gap_are_judged_by_its_hashes_or_not_at_all(ledger: Builder) -> None:
    kept = [("checkpoints/000000000300.note", sign_head(ledger.lines[:300]))]
    report = partial(source(ledger, "tile/entries/001", kept=kept))
    assert (codes(report), step(report, "checkpoint")) == ([Code.MIRROR_INCOMPLETE], ("pass", 2, 0, 0))
    forged = Builder(ledger.lines[:299])
    forged.add("run", run_body(1), RUNNER)
    wrong = [("checkpoints/000000000300.note", forged.head())]
    report = partial(source(ledger, "tile/entries/001", kept=wrong))
    assert (report.exit_code, Code.CHECKPOINT_ROOT in codes(report)) == (1, True)
    report = partial(source(ledger, "tile/entries/001", "tile/0/001", kept=wrong))
    assert (report.exit_code, step(report, "checkpoint")) == (4, ("not-checked", 1, 0, 1))


def test_what_takes_a_thiefs_head_back_may_be_in_a_gap() -> None:
    ledger, log2 = small_ledger(100), Key("log2")
    ledger.add("key", key_body(log2, "log"), ROOT)
    thief = Builder(ledger.lines[:60])
    thief.add("run", run_body(99), RUNNER)
    kept = [("checkpoints/000000000061.note", thief.head())]
    ledger.runs(200)
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=9), ROOT)
    files = mirror_files(ledger.runs(300)) | {"checkpoint": sign_head(ledger.lines, log2)}
    assert codes(check_log(TileSource(Files(dict(files), kept)), POLICY)) == [Code.CHECKPOINT_DISOWNED]
    del files["tile/entries/001"]
    report = partial(TileSource(Files(files, kept)))
    assert (report.exit_code, codes(report)) == (4, [Code.MIRROR_INCOMPLETE])
    assert step(report, "checkpoint") == ("not-checked", 1, 0, 1)
    files["checkpoint"] = ledger.head()
    assert Code.CHECKPOINT_ROOT in codes(partial(TileSource(Files(files, kept)))), "its key stands"


def note(size: int) -> dict[str, Any]:
    return {"text": "x", "artifacts": [{"name": "a", "sha256": "ab" * 32, "size": size, "media_type": "text/plain"}]}


def backwards(number: int) -> dict[str, Any]:
    body = run_body(number)
    body["timing"][0]["samples"][1]["start_ns"] = 0
    return body


SAID: dict[str, tuple[Code, str, str, dict[str, Any]]] = {
    "receipt": (Code.RECEIPT_CLOCK, "receipts", "run", backwards(99)),
    "size": (Code.ARTIFACT_SIZE, "receipts", "note", note(4)),
    "role": (Code.KEY_WRONG_ROLE, "keys", "supersede", {"reason": "x", "replacement": None}),
    "attestation": (
        *(Code.ATTESTATION_MISSING, "attestations", "run"),
        run_body(98, tee={"kind": "tdx", "report_data_sha256": None}),
    ),
}


@pytest.mark.parametrize("what", SAID)
def test_what_takes_a_thiefs_word_back_may_be_in_a_gap(what: str) -> None:
    code, name, kind, body = SAID[what]
    ledger, stolen = Builder().open(), Key("stolen")
    ledger.add("key", key_body(stolen, "runner"), ROOT)
    ledger.add("note", note(3), RUNNER)
    target = ledger.add("run", run_body(97), RUNNER)
    at = len(ledger.lines)
    ledger.add(kind, body | ({"target": target} if kind == "supersede" else {}), stolen)
    ledger.runs(300 - len(ledger.lines))
    false = Builder(ledger.lines[:]).runs(300)
    ledger.add("key", key_body(stolen, "runner", "revoke", revoked_from=at), ROOT)
    ledger.runs(299)
    cured, held = (check_log(source(log), POLICY) for log in (ledger, false))
    assert (cured.exit_code, held.exit_code, code in codes(held)) == (0, 1, True)
    for log in (ledger, false):
        report = partial(source(log, "tile/entries/001"))
        assert (report.exit_code, code in codes(report)) == (4, False)
        assert step(report, name)[2] == 0
        assert step(report, name)[3] > step(partial(source(ledger, "tile/entries/002.p/88")), name)[3] - 88
    report = partial(source(ledger, "tile/entries/002.p/88"))
    assert (report.exit_code, code in codes(report), Code.KEY_DISOWNED in codes(report)) == (4, False, True)


def test_an_enrolment_that_was_taken_back_is_none_that_may_be_in_a_gap() -> None:
    ledger, root2, stolen = Builder().open(), Key("root2"), Key("stolen")
    ledger.add("key", key_body(root2, "root"), ROOT)
    at = len(ledger.lines)
    ledger.add("key", key_body(stolen, "runner"), root2)
    ledger.add("run", backwards(1), stolen)
    ledger.add("key", key_body(root2, "root", "revoke", revoked_from=at), ROOT)
    ledger.runs(300)
    report = partial(source(ledger, f"tile/entries/001.p/{len(ledger.lines) - 256}"))
    assert (report.exit_code, set(codes(report))) == (4, {Code.MIRROR_INCOMPLETE, Code.KEY_DISOWNED})


def test_what_stands_behind_every_gap_is_false() -> None:
    ledger = small_ledger(20)
    for number in range(2 * FINDINGS_KEPT_PER_CODE):
        ledger.add("run", backwards(number), RUNNER)
    ledger.runs(512 - len(ledger.lines))
    late = len(ledger.lines)
    ledger.add("run", backwards(999), RUNNER)
    report = partial(source(ledger, "tile/entries/001"))
    assert (report.exit_code, report.counts[Code.RECEIPT_CLOCK]) == (1, 1)
    assert [found.position.index for found in report.findings if found.code is Code.RECEIPT_CLOCK] == [late]
    assert step(report, "receipts")[2:] == (1, 2 * FINDINGS_KEPT_PER_CODE)
    detail = next(each.detail for each in report.steps if each.name == "receipts")
    assert detail == "100 wrong, unless a root action that is not here took them back"


def test_an_import_that_is_wrong_before_a_gap_is_left_open_once() -> None:
    def receipts(*originals: str) -> tuple[str, int, int, int]:
        ledger = small_ledger(20)
        for original in originals:
            ledger.add("import", imported(original), LOG)
        ledger.runs(512 - len(ledger.lines))
        ledger.add("import", imported("ab" * 32), LOG)
        return step(partial(source(ledger, "tile/entries/001")), "receipts")

    read = receipts()[1] + receipts()[3]
    assert receipts()[2:] == (1, 0)
    for count in (1, 3):
        assert receipts(*["ab" * 32] * count) == ("fail", read - count, 1, count)
        assert receipts(*[DIGEST] * count) == ("fail", read - count, 1, count)
        assert receipts(*["ab" * 32] * count, *[DIGEST] * 2) == ("fail", read - count - 2, 1, count + 2)


def test_a_remembered_head_is_compared_with_a_partial_mirror(ledger: Builder) -> None:
    other = Builder(ledger.lines[:600])
    other.add("run", run_body(1), RUNNER)
    report = partial(source(ledger, "tile/entries/001"), expected_heads=(("memory", other.head()),))
    assert (report.exit_code, Code.FORK in codes(report)) == (1, True)


def test_a_mirror_hides_no_fork_by_what_it_lacks() -> None:
    late = Key("late")
    ledger = small_ledger(300)
    ledger.add("key", key_body(late, "runner"), ROOT)
    ledger.runs(220)
    ledger.add("run", run_body(5), late)
    seen = (("memory", Builder(list(ledger.lines)).runs(20).head()),)
    other = Builder(list(ledger.lines))
    for _ in range(40):
        other.add("run", run_body(77), RUNNER)
    for lost in ((), ("tile/entries/001",)):
        report = partial(source(other, *lost), expected_heads=seen)
        assert (report.exit_code, Code.FORK in codes(report), step(report, "memory")) == (1, True, ("fail", 1, 1, 0))


def test_a_remembered_head_by_a_key_that_was_enrolled_in_a_gap_is_of_no_other_log() -> None:
    ledger, log2 = small_ledger(300), Key("log2")
    ledger.add("key", key_body(log2, "log"), ROOT)
    seen = (("memory", sign_head(ledger.runs(300).lines, log2)),)
    files = mirror_files(ledger.runs(10))
    assert partial(TileSource(Files(dict(files))), expected_heads=seen).counts.keys() == {Code.MIRROR_INCOMPLETE}
    del files["tile/entries/001"]
    report = partial(TileSource(Files(files)), expected_heads=seen)
    assert (report.exit_code, codes(report)) == (4, [Code.MIRROR_INCOMPLETE])
    assert step(report, "memory") == ("not-checked", 0, 0, 1)
    report = partial(TileSource(Files(files)), TrustPolicy(minimum_size=10_000), expected_heads=seen)
    assert Code.HEAD_TOO_SMALL in codes(report), "of the log's own heads none is open"
    foreign = (("memory", sign_head(ledger.lines, origin="example.org/other")),)
    assert Code.MEMORY_FOREIGN in codes(partial(TileSource(Files(files)), expected_heads=foreign))


def test_references_and_artifacts_of_a_partial_mirror_are_not_called_wrong(ledger: Builder) -> None:
    made = Builder(ledger.lines[:])
    artifact = {"name": "raw", "sha256": "ab" * 32, "size": 3, "media_type": "text/plain"}
    target = made.add("run", run_body(1, artifacts=[artifact]), RUNNER)
    made.add("supersede", {"target": target, "replacement": None, "reason": "typing error"}, JUDGE)
    report = partial(source(made, "tile/entries/001"), artifacts=False)
    assert step(report, "artifacts") == ("not-checked", 0, 0, 1)
    assert step(report, "receipts")[2:] == (0, 1)
    required = TrustPolicy(require=frozenset({"signatures"}))
    assert Code.REQUIRED_NOT_CHECKED in codes(partial(source(made, "tile/entries/001"), required))


def test_without_the_border_nothing_is_known(ledger: Builder) -> None:
    report = partial(source(ledger, "tile/1/000.p/2"))
    assert (report.exit_code, codes(report)) == (4, [Code.TILE_MISSING])


def test_a_mirror_that_fails_is_said_to(ledger: Builder) -> None:
    class Failing(Files):
        def candidates(self, tile: Tile) -> Iterator[bytes]:
            raise StoreError(Code.REMOTE_UNREADABLE, "no route")

    for check in (check_log, partial):
        report = check(TileSource(Failing(mirror_files(ledger))), POLICY)
        assert (report.exit_code, codes(report)) == (3, [Code.REMOTE_UNREADABLE])


# ------------------------------------------------------------------------------------------------------------ proofs


def test_a_proof_from_tiles_is_the_proof_from_the_log(ledger: Builder) -> None:
    from k3_ledger.verify.prove import prove_entry

    plain = MemorySource(ledger.data, checkpoint=ledger.head())
    for index in (0, 1, 4, 255, 256, 703):
        given = source(ledger)
        made = prove_from_tiles(given, index)
        assert made == prove_entry(plain, index)
        assert check_proof(format_proof(made), "proof", POLICY).exit_code == 0
        bundles = [path for path in given.mirror.asked if "entries" in path]  # type: ignore[attr-defined]
        assert len(set(bundles)) <= 2


def test_a_list_of_key_entries_that_makes_no_sense_is_passed_over(ledger: Builder) -> None:
    for listed in (b"x\n", b"1\n2", b"704\n", None):
        given = source(ledger)
        files = given.mirror.files  # type: ignore[attr-defined]
        files["key-entries"] = listed or b""
        if listed is None:
            del files["key-entries"]
        assert prove_from_tiles(given, 300) == prove_from_tiles(source(ledger), 300)
    given = source(ledger)
    given.mirror.files["key-entries"] = b"1\n2\n3\n4\n300\n"  # type: ignore[attr-defined]
    assert prove_from_tiles(given, 300) == prove_from_tiles(source(ledger), 300)


def test_there_is_no_proof_of_what_is_not_there(ledger: Builder) -> None:
    with pytest.raises(LedgerError) as caught:
        prove_from_tiles(source(ledger), 704)
    assert (caught.value.code, caught.value.finding.expected) == (Code.NO_SUCH_ENTRY, "0 to 703")
    empty = TileSource(Files({"checkpoint": sign_head([], LOG)}))
    with pytest.raises(LedgerError) as caught:
        prove_from_tiles(empty, 0)
    assert caught.value.finding.expected == "an entry"
    with pytest.raises(ValueError, match="not negative"):
        prove_from_tiles(source(ledger), -1)
    with pytest.raises(LedgerError) as caught:
        prove_from_tiles(source(ledger, "tile/entries/001"), 300)
    assert caught.value.code is Code.TILE_MISSING


def test_a_log_of_unknown_length_asks_for_other_processes_only_when_it_is_long(
    ledger: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from k3_ledger.verify import scan

    used: list[int] = []
    parallel = scan._parallel

    def watched(chunker: Any, joiner: Any, start: Any, processes: int) -> Any:
        used.append(processes)
        return parallel(chunker, joiner, start, processes)

    monkeypatch.setattr(scan, "_parallel", watched)
    plain = check_log(source(ledger), POLICY)
    assert check_log(source(ledger), POLICY, Options(processes=2)).steps == plain.steps
    assert used == []
    monkeypatch.setattr(scan, "PARALLEL_BYTES", 1 << 19)
    report = check_log(source(ledger), POLICY, Options(processes=2, chunk_bytes=1 << 16))
    assert (report.steps, report.head, used) == (plain.steps, plain.head, [2])

"""What cannot be read hides nothing: each file is read by itself, and what is false beside it is false."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.tiles import tile_path
from k3_ledger.schemas.errors import LedgerError, ProofError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.mirror import TileSource
from k3_ledger.verify.partial import check_partial
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.prove import prove_entry, prove_heads
from k3_ledger.verify.source import NOT_LOOKED_FOR, InTurn, MemorySource, each
from k3_ledger.verify.timestamps import Token
from tests.ledgers import LOG, ROOT, RUNNER, Builder, Key, key_body, run_body, sign_head, small_ledger
from tests.static_host import mirror_files
from tests.verify.test_mirror import Files
from tests.verify.test_timestamps import NOON, digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from k3_ledger.ledger.core.tiles import Tile
    from k3_ledger.verify.report import Report

POLICY = TrustPolicy(root_public_key=ROOT.public, timestamp_roots=(b"root",))
BROKEN = StoreError(Code.UNREADABLE, "input/output error")


def in_turn(files: Sequence[tuple[str, bytes | None]]) -> InTurn:
    """Files of which those without bytes cannot be read."""
    held = dict(files)

    def read(name: str) -> bytes:
        if (data := held[name]) is None:
            raise BROKEN
        return data

    return InTurn(lambda: list(held), read)


class Obstructed(MemorySource):
    """A ledger in which things cannot be read."""

    heads: Sequence[tuple[str, bytes | None]] = ()
    stamps: Sequence[tuple[str, bytes | None]] = ()
    newest: bytes | StoreError | None = None
    cut: int | None = None

    def blocks(self) -> Iterator[bytes]:
        for block in super().blocks():
            yield block if self.cut is None else block[: self.cut]
        if self.cut is not None:
            raise BROKEN

    def checkpoint(self) -> bytes | None:
        if isinstance(self.newest, StoreError):
            raise self.newest
        return self.newest

    def kept_checkpoints(self) -> Iterator[tuple[str, bytes]]:
        return in_turn(self.heads)

    def timestamps(self) -> Iterator[tuple[str, bytes]]:
        return in_turn(self.stamps)


def reader(data: bytes, roots: Sequence[bytes]) -> Token:
    assert roots
    if data == b"bad":
        raise LedgerError(Code.TIMESTAMP_BAD, "wrong")
    return Token(data, NOON, "CN=a")


def check(source: Obstructed, policy: TrustPolicy = POLICY, **options: object) -> Report:
    return check_log(source, policy, Options(read_token=reader, **options))  # type: ignore[arg-type]


def result(report: Report) -> tuple[int, list[str]]:
    return int(report.exit_code), sorted(code.id.removeprefix("K3L-") for code in report.counts)


def contradiction(ledger: Builder, size: int) -> bytes:
    """A head by the log's own key over another history of that size."""
    other = Builder(ledger.lines[: size - 1])
    other.add("run", run_body(99), RUNNER)
    return sign_head(other.lines)


# ------------------------------------------------------------------------------------------- files that lie beside it

GOOD, LOST = "good", "lost"


def test_files_are_read_in_turn_whatever_happens_to_one() -> None:
    files = in_turn([("a", b"1"), ("b", None), ("c", b"3")])
    assert list(each(lambda: files)) == [("a", b"1"), BROKEN, ("c", b"3")]
    with pytest.raises(StoreError):
        list(in_turn([("a", b"1"), ("b", None)]))


def test_a_folder_that_cannot_be_listed_is_one_obstruction() -> None:
    def names() -> list[str]:
        raise BROKEN

    assert list(each(lambda: InTurn(names, lambda _: b""))) == [BROKEN]

    def files() -> Iterator[tuple[str, bytes]]:
        raise BROKEN

    assert list(each(files)) == [BROKEN]


@pytest.mark.parametrize("order", list(permutations(("false", GOOD, LOST))), ids=" ".join)
@pytest.mark.parametrize("newest", [None, GOOD, LOST])
def test_a_head_that_contradicts_the_log_is_found_beside_one_that_cannot_be_read(
    order: tuple[str, ...], newest: str | None
) -> None:
    ledger = small_ledger()
    heads = {"false": contradiction(ledger, 7), GOOD: sign_head(ledger.lines[:7]), LOST: None}
    source = Obstructed(ledger.data)
    source.newest = {None: None, GOOD: ledger.head(), LOST: BROKEN}[newest]
    source.heads = [(f"checkpoints/{number:012}.note", heads[what]) for number, what in enumerate(order)]
    report = check(source)
    assert report.exit_code == 1
    assert {Code.CHECKPOINT_ROOT, Code.CHECKPOINT_UNREADABLE} <= report.counts.keys()
    assert report.counts[Code.CHECKPOINT_UNREADABLE] == 1 + (newest == LOST)
    heads["false"] = heads[GOOD]
    source.heads = [(f"checkpoints/{number:012}.note", heads[what]) for number, what in enumerate(order)]
    assert check(source).exit_code == 3, "nothing is false here"


@pytest.mark.parametrize("order", list(permutations(("false", GOOD, LOST))), ids=" ".join)
def test_a_false_timestamp_is_found_beside_one_that_cannot_be_read(order: tuple[str, ...]) -> None:
    ledger = small_ledger()
    tokens = {"false": b"bad", GOOD: digest(ledger.head()), LOST: None}
    source = Obstructed(ledger.data)
    source.newest = ledger.head()
    source.stamps = [(f"timestamps/{number:012}.tsr", tokens[what]) for number, what in enumerate(order)]
    assert result(check(source)) == (1, ["TIMESTAMP-BAD", "TIMESTAMP-UNREADABLE"])
    tokens["false"] = tokens[GOOD]
    source.stamps = [(f"timestamps/{number:012}.tsr", tokens[what]) for number, what in enumerate(order)]
    report = check(source)
    assert result(report) == (0, ["TIMESTAMP-UNREADABLE"])
    assert [bound.timestamp for bound in report.stamps] == [NOON]
    assert (report.steps[13].checked, report.steps[13].not_checked) == (2, 1)


# ------------------------------------------------------------------------------- a log that cannot be read to its end


def interrupted(ledger: Builder, entries: int, *, newest: bytes | None = None) -> Obstructed:
    """A log of which so many entries can be read, and the beginning of one more."""
    source = Obstructed(ledger.data)
    source.cut = len(b"".join(ledger.lines[:entries])) + 30
    source.newest = ledger.head() if newest is None else newest
    return source


def test_what_can_be_read_of_a_good_log_accuses_nobody() -> None:
    ledger = small_ledger()
    for entries in range(len(ledger.lines)):
        source = interrupted(ledger, entries)
        source.heads = [("checkpoints/000000000007.note", sign_head(ledger.lines[:7]))]
        report = check(source, expected_heads=(("memory", ledger.head()), ("older", sign_head(ledger.lines[:5]))))
        assert (*result(report), report.head) == (3, ["UNREADABLE"], None)


def test_an_entry_is_false_in_front_of_an_obstruction() -> None:
    ledger = small_ledger()
    ledger.lines[5] = ledger.lines[5].replace(b'"count":10', b'"count":11')
    code, found = result(check(interrupted(ledger, 8)))
    assert (code, {"SIGNATURE-MISMATCH", "UNREADABLE"} <= set(found)) == (1, True)
    assert result(check(interrupted(ledger, 5))) == (3, ["UNREADABLE"]), "it was not read"


def test_a_stranger_signs_nothing_in_front_of_an_obstruction() -> None:
    ledger = small_ledger()
    ledger.add("run", run_body(7), Key("stranger"))
    ledger.runs(2)
    assert result(check(interrupted(ledger, 11))) == (1, ["KEY-UNKNOWN", "UNREADABLE"])


def test_another_root_opened_what_can_be_read() -> None:
    report = check(interrupted(small_ledger(), 6), TrustPolicy(root_public_key=LOG.public))
    assert result(report) == (1, ["ROOT-NOT-TRUSTED", "UNREADABLE"])


def test_heads_within_what_can_be_read_are_compared() -> None:
    ledger = small_ledger()
    source = interrupted(ledger, 8)
    source.heads = [("checkpoints/000000000007.note", contradiction(ledger, 7))]
    assert result(check(source)) == (1, ["CHECKPOINT-ROOT", "UNREADABLE"])
    memory = (("memory", contradiction(ledger, 7)),)
    assert result(check(interrupted(ledger, 8), expected_heads=memory)) == (1, ["FORK", "UNREADABLE"])
    assert result(check(interrupted(ledger, 6), expected_heads=memory)) == (3, ["UNREADABLE"])
    source = interrupted(ledger, 6, newest=b"?")
    assert result(check(source)) == (1, ["NOTE-MALFORMED", "UNREADABLE"])


def test_what_takes_a_thiefs_word_back_may_be_what_cannot_be_read() -> None:
    ledger, stolen = small_ledger(), Key("stolen")
    ledger.add("key", key_body(stolen, "runner"), ROOT)
    at = len(ledger.lines)
    body = run_body(9)
    body["timing"][0]["samples"][1]["start_ns"] = 0
    ledger.add("run", body, stolen)
    ledger.add(
        "supersede", {"target": ledger.add("run", run_body(8), RUNNER), "reason": "x", "replacement": None}, stolen
    )
    ledger.runs(2)
    report = check(interrupted(ledger, at + 4))
    assert result(report) == (3, ["UNREADABLE"])
    assert report.steps[4].not_checked == 1
    assert next(step for step in report.steps if step.name == "receipts").not_checked == 1


def test_what_takes_a_thiefs_head_back_may_be_what_cannot_be_read() -> None:
    ledger, second = small_ledger(), Key("second")
    ledger.add("key", key_body(second, "log"), ROOT)
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=5), ROOT)
    for read, newest, expected in (
        (11, second, (3, ["UNREADABLE"])),
        (10, second, (3, ["UNREADABLE"])),
        (11, LOG, (1, ["CHECKPOINT-ROOT", "UNREADABLE"])),
    ):
        source = interrupted(ledger, read, newest=sign_head(ledger.lines, newest))
        source.heads = [("checkpoints/000000000007.note", contradiction(ledger, 7))]
        report = check(source)
        assert result(report) == expected
        assert report.steps[5].not_checked == (2 if newest is second else 1)
        source.heads = [("checkpoints/000000000007.note", sign_head(ledger.lines[:6] + ledger.lines[7:8], RUNNER))]
        assert result(check(source))[0] == 1, "no revocation makes a stranger's head"


def test_a_false_timestamp_is_found_beside_a_log_that_cannot_be_read_and_a_good_one_bounds_nothing() -> None:
    ledger = small_ledger()
    source = interrupted(ledger, 6)
    source.stamps = [("timestamps/000000000010.tsr", digest(ledger.head()))]
    report = check(source)
    assert (*result(report), report.stamps) == (3, ["UNREADABLE"], ())
    assert report.steps[13].detail == ""
    source.stamps = [*source.stamps, ("timestamps/000000000009.tsr", b"bad")]
    assert result(check(source)) == (1, ["TIMESTAMP-BAD", "UNREADABLE"])


def test_lines_that_are_no_ledger_are_nobodys_fault_where_the_reading_ends() -> None:
    source = Obstructed(b"one\ntwo\nthree\n")
    source.cut = 10
    assert result(check(source)) == (3, ["UNREADABLE"])


# ------------------------------------------------------------------------------------------------------------ mirrors


class Lost(Files):
    """A mirror that cannot read some of its tiles, and may have them in a cache."""

    unreadable: frozenset[str] = frozenset()
    cached: dict[str, bytes]

    def candidates(self, tile: Tile) -> Iterator[bytes]:
        if (data := getattr(self, "cached", {}).get(tile_path(tile))) is not None:
            yield data
        if tile_path(tile) in self.unreadable:
            raise BROKEN
        yield from super().candidates(tile)


BUNDLES = ("tile/entries/000", "tile/entries/001", "tile/entries/002.p/192")


@pytest.fixture(scope="module")
def ledger() -> Builder:
    return small_ledger(700)


def mirror(files: dict[str, bytes], *unreadable: str) -> TileSource:
    made = Lost(dict(files))
    made.unreadable = frozenset(unreadable)
    return TileSource(made)


def flipped(data: bytes) -> bytes:
    return data.replace(b'"count":10', b'"count":11', 1)


@pytest.mark.parametrize(("lost", "wrong"), list(permutations(BUNDLES, 2)))
def test_a_changed_bundle_is_found_beside_one_that_cannot_be_read(ledger: Builder, lost: str, wrong: str) -> None:
    files = mirror_files(ledger)
    report = check_partial(mirror(files, lost), POLICY, Options())
    assert result(report) == (3, ["UNREADABLE"])
    files[wrong] = flipped(files[wrong])
    code, found = result(check_partial(mirror(files, lost), POLICY, Options()))
    assert (code, "TILE-MISMATCH" in found) == (1, True)


def test_bundles_that_cannot_be_read_are_not_called_missing(ledger: Builder) -> None:
    files = mirror_files(ledger)
    report = check_partial(mirror(files, BUNDLES[1]), POLICY, Options())
    assert report.steps[0].detail == "256 entries cannot be read"
    assert (report.steps[0].checked, report.steps[0].not_checked) == (448, 256)
    del files[BUNDLES[2]]
    report = check_partial(mirror(files, BUNDLES[1]), POLICY, Options())
    assert result(report) == (3, ["MIRROR-INCOMPLETE", "UNREADABLE"])
    assert report.steps[0].detail == "192 entries are not on this mirror; 256 entries cannot be read"
    said = [finding.message for finding in report.findings]
    assert min(said).startswith("192 of 704 entries are not on this mirror: 512 to 703")


def test_what_a_cache_holds_is_not_held_against_a_file_that_cannot_be_read(ledger: Builder) -> None:
    source = mirror(mirror_files(ledger), BUNDLES[0])
    source.mirror.cached = {BUNDLES[0]: b"?"}  # type: ignore[attr-defined]
    assert result(check_partial(source, POLICY, Options())) == (3, ["UNREADABLE"])
    source = mirror(mirror_files(ledger))
    source.mirror.cached = {BUNDLES[0]: b"?"}  # type: ignore[attr-defined]
    assert result(check_log(source, POLICY)) == (0, [])


def test_a_wrong_partial_tile_is_wrong_though_the_full_one_cannot_be_read(ledger: Builder) -> None:
    files = mirror_files(ledger)
    source = mirror(files, "tile/entries/002")
    assert result(check_log(source, POLICY)) == (0, []), "nobody asks for it"
    files[BUNDLES[2]] = flipped(files[BUNDLES[2]])
    assert result(check_log(mirror(files, "tile/entries/002"), POLICY)) == (1, ["TILE-MISMATCH"])
    del files[BUNDLES[2]]
    assert result(check_partial(mirror(files, "tile/entries/002"), POLICY, Options())) == (3, ["UNREADABLE"])


def test_a_border_tile_that_is_none_weighs_more_than_one_that_cannot_be_read(ledger: Builder) -> None:
    border = ("tile/0/002.p/192", "tile/1/000.p/2")
    for lost, wrong in permutations(border):
        files = mirror_files(ledger)
        assert result(check_partial(mirror(files, lost), POLICY, Options())) == (3, ["UNREADABLE"])
        files[wrong] = b"?"
        assert result(check_partial(mirror(files, lost), POLICY, Options())) == (1, ["TILE-MALFORMED"])


def test_a_gap_that_not_even_a_hash_stands_for_hides_no_changed_bundle() -> None:
    ledger = Builder().open()
    line = ledger.lines[-1]
    ledger.lines += [line] * (65_536 + 300 - len(ledger.lines))  # what stands in them is not reached here
    files = mirror_files(ledger)
    lost = [path for path in files if path in {"tile/1/000", "tile/entries/000"}]
    assert result(check_partial(mirror(files, *lost), POLICY, Options()))[0] == 3
    files["tile/entries/256"] = files["tile/entries/256"][:-1] + b"?"
    assert result(check_partial(mirror(files, *lost), POLICY, Options()))[0] == 1


# --------------------------------------------------------------------------------------------- places that list nothing


def test_where_nothing_is_listed_it_is_said_that_nothing_was_looked_for(ledger: Builder) -> None:
    source = mirror(mirror_files(ledger))
    plain = check_log(source, POLICY, Options(read_token=reader))
    source.mirror.unlisted = frozenset({"checkpoints", "timestamps"})  # type: ignore[attr-defined]
    for policy, token_reader in ((POLICY, reader), (POLICY, None), (None, reader)):
        report = check_log(source, policy, Options(read_token=token_reader))
        heads, stamps = report.steps[5], report.steps[13]
        assert heads.detail == f"{plain.steps[5].detail}; kept heads {NOT_LOOKED_FOR}"
        assert (report.exit_code, heads.outcome, heads.checked) == (0, plain.steps[5].outcome, 1)
        assert (str(stamps.outcome), stamps.not_checked) == ("not-checked", 1)
        assert stamps.detail.endswith(NOT_LOOKED_FOR)
    asked = TrustPolicy(require=frozenset({"checkpoint"}))
    assert check_log(source, asked).exit_code == 0, "the newest head covers every entry"
    asked = TrustPolicy(timestamp_roots=(b"root",), require=frozenset({"timestamps"}))
    assert check_log(source, asked, Options(read_token=reader)).exit_code == 4
    assert plain.steps[13].detail == "no timestamps"


class Unlisted(MemorySource):
    """A place that lists no heads."""

    def kept_checkpoints(self) -> Iterator[tuple[str, bytes]]:
        return iter(())

    def lists(self, folder: str) -> bool:
        return folder != "checkpoints"


def test_a_kept_head_is_asked_for_by_its_name_where_none_is_listed() -> None:
    made = small_ledger()
    older = sign_head(made.lines[:7])
    kept = [("checkpoints/000000000007.note", older), ("checkpoints/000000000005.note", older)]
    source = Unlisted(made.data, checkpoint=made.head(), kept=kept)
    assert prove_entry(source, 3, head_size=7).checkpoint == older
    assert prove_heads(source, 7, len(made.lines)).old == older
    for size in (5, 6):  # under the one name stands another head, and under the other none
        with pytest.raises(ProofError, match="this place does not list those it has") as caught:
            prove_entry(source, 3, head_size=size)
        assert caught.value.code is Code.NO_SUCH_HEAD
    listed = MemorySource(made.data, checkpoint=made.head(), kept=kept)
    with pytest.raises(ProofError, match="the ledger keeps no signed head of 6 entries"):
        prove_entry(listed, 3, head_size=6)


def test_a_mirror_hands_the_question_on() -> None:
    source = mirror(mirror_files(small_ledger()) | {"checkpoints/000000000007.note": b"head"})
    assert source.kept_checkpoint(7) == b"head"
    assert source.kept_checkpoint(8) is None

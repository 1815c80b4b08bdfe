"""Ledgers and mirrors at addresses: what a host may do, and that neither it nor a cache changes a verdict."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from k3_ledger.cli import app
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests import static_host
from tests.ledgers import JUDGE, ROOT, RUNNER, Builder, run_body, sign_head, small_ledger
from tests.static_host import Host, ledger_files, mirror_files, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

pytest.importorskip("fsspec", reason="the extra k3-ledger[remote] is not installed")
pytest.importorskip("aiohttp", reason="the extra k3-ledger[remote] is not installed")

RAW = b"raw samples" * 1000
DIGEST = hashlib.sha256(RAW).hexdigest()
BLOB = f"blobs/sha256/{DIGEST[:2]}/{DIGEST}"


@pytest.fixture(scope="module")
def ledger() -> Builder:
    made = small_ledger(600)
    artifact = {"name": "raw", "sha256": DIGEST, "size": len(RAW), "media_type": "text/plain"}
    made.add("run", run_body(1, artifacts=[artifact]), RUNNER)
    return made


@pytest.fixture
def log_host(ledger: Builder) -> Iterator[Host]:
    with serve(ledger_files(ledger, {DIGEST: RAW})) as host:
        yield host


@pytest.fixture
def mirror(ledger: Builder) -> Iterator[Host]:
    with serve(mirror_files(ledger, {DIGEST: RAW})) as host:
        yield host


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def code(result: Result) -> Code | None:
    return result.exception.code if isinstance(result.exception, LedgerError) else None


def report(*arguments: object) -> dict[str, Any]:
    result = k3("verify", *arguments, "--json", "--root-key", ROOT.public.hex())
    assert result.stdout, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def verdict(*arguments: object) -> tuple[int, list[str]]:
    found = report(*arguments)
    return found["exit_code"], list(found["counts"])


DEMANDS = ("--require", "artifacts", "--require", "checkpoint", "--require", "chain")


NOT_LOOKED_FOR = "were not looked for, and not checked: this place does not say which files it has"


def check_like(there: dict[str, Any], here: dict[str, Any]) -> None:
    """A host that lists nothing is no place to look for kept heads and timestamps, and nothing else differs."""
    steps = {step["name"]: step for step in here["steps"]}
    assert steps["timestamps"]["detail"] == "no timestamps"
    steps["timestamps"] |= {"detail": f"timestamps {NOT_LOOKED_FOR}", "not_checked": 1}
    steps["checkpoint"]["detail"] += f"; kept heads {NOT_LOOKED_FOR}"
    assert (there["exit_code"], there["head"], there["steps"]) == (0, here["head"], here["steps"])


def test_a_ledger_at_an_address_verifies_like_one_on_disk(log_host: Host, ledger: Builder, tmp_path: Path) -> None:
    folder = static_host.lay_out(tmp_path, log_host.files)
    for address in (log_host.address, f"{log_host.address}/", f"{log_host.address}/ledger.jsonl"):
        check_like(report(address, *DEMANDS), report(folder, *DEMANDS))
    assert report(f"file://{folder}", *DEMANDS) == report(folder, *DEMANDS)


def test_a_mirror_without_a_log_verifies_like_the_ledger(mirror: Host, tmp_path: Path) -> None:
    here = report(folder := static_host.lay_out(tmp_path, mirror.files), *DEMANDS)
    assert report(f"file://{folder}", *DEMANDS) == here
    check_like(there := report(mirror.address, *DEMANDS), here)
    assert there["head"]["size"] == 605


def test_a_host_that_knows_no_ranges_will_do(mirror: Host, log_host: Host, tmp_path: Path) -> None:
    assert verdict(mirror.address)[0] == verdict(log_host.address)[0] == 0
    assert k3("prove", 300, "-l", mirror.address, "-o", tmp_path / "p").exit_code == 0
    assert mirror.ranges == log_host.ranges == 0


def test_a_file_address_needs_no_host(mirror: Host, tmp_path: Path) -> None:
    static_host.lay_out(tmp_path / "m", mirror.files)
    assert verdict(f"file://{tmp_path}/m") == (0, [])
    assert code(k3("verify", f"file://{tmp_path}/none")) is Code.UNREADABLE


FAULTS = [
    static_host.truncated,
    static_host.broken_chunks,
    static_host.dies,
    *(pytest.param(static_host.status(number), id=str(number)) for number in (500, 204, 206)),
]


def test_a_log_is_fetched_once_however_often_it_is_read(log_host: Host, ledger: Builder) -> None:
    made = Builder(ledger.lines[:6])
    body = {"target": made.add("run", run_body(5), RUNNER), "replacement": None, "reason": "typing error"}
    made.add("supersede", body, JUDGE)  # a reference, which needs a second pass
    log_host.files |= ledger_files(made)
    assert verdict(log_host.address)[0] == 0
    assert log_host.asked.count("ledger.jsonl") == 2, "once to see whether it is there, and once to read it"


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("path", ["ledger.jsonl", "checkpoint"])
def test_a_transfer_that_ends_early_is_no_verdict_about_the_log(log_host: Host, path: str, fault: Any) -> None:
    log_host.faults[path] = fault
    result = k3("verify", log_host.address)
    if path == "checkpoint":
        assert "[K3L-CHECKPOINT-UNREADABLE]" in result.stdout
        assert result.exit_code == 3
    else:
        assert code(result) is Code.REMOTE_UNREADABLE or "[K3L-REMOTE-UNREADABLE]" in result.stdout
        assert result.exit_code == 3 or code(result) is Code.REMOTE_UNREADABLE


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("path", ["tile/0/000", "tile/entries/001", "tile/1/000.p/2"])
def test_a_host_that_dies_inside_a_tile_has_said_nothing_false(mirror: Host, path: str, fault: Any) -> None:
    mirror.faults[path] = fault
    assert verdict(mirror.address) == (3, ["K3L-REMOTE-UNREADABLE"])


def test_a_log_that_a_host_cuts_short_is_missing_entries(log_host: Host) -> None:
    log_host.faults["ledger.jsonl"] = static_host.short_length
    assert verdict(log_host.address) == (1, ["K3L-CHECKPOINT-AHEAD", "K3L-TORN-TAIL"])


@pytest.mark.parametrize("path", ["tile/0/000", "tile/entries/000"])
def test_a_tile_that_is_longer_than_one_can_be_is_wrong_and_read_no_further(mirror: Host, path: str) -> None:
    for fault in (static_host.endless, static_host.longer):
        mirror.faults[path] = fault
        assert verdict(mirror.address) == (1, ["K3L-TILE-MALFORMED"])


@pytest.mark.parametrize("path", ["checkpoint", "key-entries"])
def test_a_small_file_that_never_ends_is_refused(mirror: Host, path: str, tmp_path: Path) -> None:
    mirror.faults[path] = static_host.endless
    verified = k3("verify", mirror.address)
    proved = k3("prove", 300, "-l", mirror.address, "-o", tmp_path / "p")
    seen = {code(verified), code(proved)} | {
        Code.UNREADABLE for result in (verified,) if "longer than" in result.stdout
    }
    assert Code.UNREADABLE in seen


def test_an_artifact_that_never_ends_is_read_no_further_than_it_should_be_long(mirror: Host) -> None:
    mirror.faults[BLOB] = static_host.endless
    assert verdict(mirror.address) == (1, ["K3L-ARTIFACT-MISMATCH"])


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (static_host.status(404), (4, ["K3L-ARTIFACT-MISSING", "K3L-REQUIRED-NOT-CHECKED"])),
        (static_host.status(403), (4, ["K3L-ARTIFACT-MISSING", "K3L-REQUIRED-NOT-CHECKED"])),
        (static_host.status(500), (4, ["K3L-ARTIFACT-UNREADABLE", "K3L-REQUIRED-NOT-CHECKED"])),
        (static_host.status(204), (4, ["K3L-ARTIFACT-UNREADABLE", "K3L-REQUIRED-NOT-CHECKED"])),
        (static_host.truncated, (4, ["K3L-ARTIFACT-UNREADABLE", "K3L-REQUIRED-NOT-CHECKED"])),
        (static_host.short_length, (1, ["K3L-ARTIFACT-MISMATCH"])),
    ],
)
def test_an_artifact_that_is_not_all_there_is_not_checked(
    mirror: Host, fault: Any, expected: tuple[int, list[str]], tmp_path: Path
) -> None:
    mirror.faults[BLOB] = fault
    for cache in ((), ("--cache", tmp_path / "cache")):
        assert verdict(mirror.address, "--require", "artifacts", *cache) == expected
    assert not list(tmp_path.glob("cache/sha256/**/*.*")), "nothing partial stays"
    assert not list(tmp_path.glob(f"cache/sha256/*/{DIGEST}"))


def test_a_redirect_is_followed(mirror: Host) -> None:
    mirror.files["elsewhere"] = mirror.files["tile/0/000"]
    mirror.faults["tile/0/000"] = static_host.redirected("elsewhere")
    assert verdict(mirror.address) == (0, [])
    mirror.faults["elsewhere"] = static_host.redirected("tile/0/000")
    circle = k3("verify", mirror.address)
    assert circle.exit_code == 3
    assert "the host redirected 10 times, most likely in a circle" in circle.stdout


def test_what_a_host_answers_is_said_in_words(mirror: Host) -> None:
    mirror.faults["tile/0/000"] = static_host.status(500)
    said = k3("verify", mirror.address).stdout
    assert "cannot be read: the host answered 500" in said
    assert "message=" not in said


def test_a_log_that_grows_between_two_reads_is_uncheckpointed_at_its_end(log_host: Host, ledger: Builder) -> None:
    grown = Builder(ledger.lines[:])
    grown.add("run", run_body(7), RUNNER)
    log_host.faults["ledger.jsonl"] = static_host.changing(ledger.data, grown.data)
    assert verdict(log_host.address) == (0, ["K3L-UNCHECKPOINTED"])


def test_a_mirror_that_shows_two_faces_is_caught(mirror: Host, ledger: Builder) -> None:
    other = Builder(ledger.lines[:500])
    other.add("run", run_body(99), RUNNER)
    other.runs(104)
    two = mirror_files(other)
    mirror.faults["tile/entries/001"] = static_host.changing(two["tile/entries/001"])
    assert verdict(mirror.address) == (1, ["K3L-TILE-MISMATCH"])
    mirror.faults.clear()
    mirror.faults["checkpoint"] = static_host.changing(
        mirror.files["checkpoint"], mirror.files["checkpoint"], two["checkpoint"]
    )
    assert verdict(mirror.address) == (0, []), "the head is read once, and all else is held to it"


def test_a_proof_from_a_mirror_reads_a_few_tiles(mirror: Host, tmp_path: Path) -> None:
    out = tmp_path / "p"
    assert k3("prove", 300, "-l", mirror.address, "-o", out).exit_code == 0
    assert k3("verify", out, "--root-key", ROOT.public.hex()).exit_code == 0
    tiles = {path for path in mirror.asked if path.startswith("tile/")}
    assert tiles == {
        "tile/0/000",
        "tile/0/001",
        "tile/0/002.p/93",
        "tile/1/000.p/2",
        "tile/entries/000",
        "tile/entries/001",
    }
    assert len([path for path in mirror.asked if path.startswith("tile/0")]) == 3


@pytest.mark.parametrize("listed", [b"", b"1\n", b"9999999\n", b"one\n", b"1\n2\n3", None])
def test_a_wrong_list_of_key_entries_makes_no_wrong_proof(mirror: Host, listed: bytes | None, tmp_path: Path) -> None:
    if listed is None:
        del mirror.files["key-entries"]
    else:
        mirror.files["key-entries"] = listed
    result = k3("prove", 300, "-l", mirror.address, "-o", tmp_path / "p")
    if listed in (b"", b"1\n"):
        assert code(result) is Code.KEY_ENTRIES_WRONG
        assert not (tmp_path / "p").exists()
    else:
        assert k3("verify", tmp_path / "p", "--root-key", ROOT.public.hex()).exit_code == 0


def test_a_proof_prefers_tiles_where_a_log_stands_beside_them(mirror: Host, ledger: Builder, tmp_path: Path) -> None:
    mirror.files["ledger.jsonl"] = ledger.data
    assert k3("prove", 300, "-l", mirror.address, "-o", tmp_path / "p").exit_code == 0
    assert mirror.asked.count("ledger.jsonl") == 1
    del mirror.files["tile/1/000.p/2"]
    assert k3("prove", 300, "-l", mirror.address, "-o", tmp_path / "q").exit_code == 0
    assert mirror.asked.count("ledger.jsonl") > 2
    assert code(k3("prove", 605, "-l", mirror.address, "-o", tmp_path / "r")) is Code.NO_SUCH_ENTRY


def test_what_is_cached_is_not_fetched_again_and_what_may_change_is(mirror: Host, tmp_path: Path) -> None:
    for _ in range(2):
        mirror.asked.clear()
        assert verdict(mirror.address, "--cache", tmp_path) == (0, [])
    again = set(mirror.asked)
    assert {"checkpoint", "tile/0/002.p/93", "tile/1/000.p/2", "tile/entries/002.p/93"} <= again
    assert not again & {"tile/0/000", "tile/0/001", "tile/entries/000", "tile/entries/001", BLOB}
    kept = sorted(path.name for path in tmp_path.glob("**/*") if path.is_file())
    assert kept == sorted(["000", "001", "000", "001", DIGEST])


def test_a_poisoned_cache_cannot_change_a_verdict(mirror: Host, ledger: Builder, tmp_path: Path) -> None:
    assert verdict(mirror.address, "--cache", tmp_path) == (0, [])
    kept = [path for path in tmp_path.glob("**/*") if path.is_file()]
    good = {path: path.read_bytes() for path in kept}
    forged = mirror_files(small_ledger(700))
    for poison in (b"", b"x", forged["tile/entries/000"], forged["tile/0/000"], b"x" * (1 << 24)):
        for path in kept:
            path.write_bytes(poison)
        assert verdict(mirror.address, "--cache", tmp_path) == (0, [])
        assert {path: path.read_bytes() for path in kept} == good, "and it heals"


def test_a_good_cache_does_not_cover_for_a_mirror_that_changed_its_head(
    mirror: Host, ledger: Builder, tmp_path: Path
) -> None:
    assert verdict(mirror.address, "--cache", tmp_path) == (0, [])
    other = Builder(ledger.lines[:4]).runs(601)
    other.lines[100] = small_ledger(600).lines[100]
    mirror.files["checkpoint"] = sign_head(other.lines)
    assert verdict(mirror.address, "--cache", tmp_path)[0] == 1


def test_a_cache_that_cannot_be_written_is_done_without(mirror: Host, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert verdict(mirror.address, "--cache", tmp_path / "file") == (0, [])


def test_a_partial_mirror_says_what_it_has_and_lacks(mirror: Host) -> None:
    del mirror.files["tile/entries/001"]
    found = report(mirror.address)
    steps = {step["name"]: step for step in found["steps"]}
    assert (found["exit_code"], list(found["counts"])) == (4, ["K3L-MIRROR-INCOMPLETE"])
    assert "256 of 605 entries are not on this mirror: 256 to 511" in found["findings"][0]["message"]
    for name in ("framing", "schema", "signatures"):
        assert (steps[name]["checked"], steps[name]["not_checked"], steps[name]["outcome"]) == (349, 256, "not-checked")
    assert steps["checkpoint"]["outcome"] == "pass"
    assert found["head"]["size"] == 605


def test_a_partial_mirror_with_a_changed_entry_is_false(mirror: Host) -> None:
    del mirror.files["tile/entries/001"]
    mirror.files["tile/entries/000"] = mirror.files["tile/entries/000"].replace(b'"count":10', b'"count":11', 1)
    assert verdict(mirror.address) == (1, ["K3L-TILE-MISMATCH"])


def test_a_proof_file_and_an_archive_may_stand_at_an_address(log_host: Host, tmp_path: Path) -> None:
    folder = static_host.lay_out(tmp_path / "led", log_host.files)
    assert k3("prove", 5, "-l", folder, "-o", tmp_path / "p").exit_code == 0
    assert k3("bundle", "pack", folder, "-o", tmp_path / "b").exit_code == 0
    log_host.files |= {"five.proof": (tmp_path / "p").read_bytes(), "all.tar": (tmp_path / "b").read_bytes()}
    assert verdict(f"{log_host.address}/five.proof")[0] == 0
    assert verdict(f"{log_host.address}/all.tar")[0] == 0
    log_host.files["page"] = b"<html>"
    assert code(k3("verify", f"{log_host.address}/page")) is Code.UNREADABLE
    assert code(k3("verify", f"{log_host.address}/none")) is Code.REMOTE_UNREADABLE
    assert code(k3("prove", 1, "-l", f"{log_host.address}/five.proof")) is Code.UNREADABLE


def test_nobody_listens(mirror: Host) -> None:
    port = mirror.address.rpartition(":")[2]
    assert code(k3("verify", f"https://127.0.0.1:{port}/")) is Code.REMOTE_UNREADABLE


@pytest.mark.parametrize("module", ["fsspec", "aiohttp"])
def test_a_missing_extra_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, capsys: Any, module: str) -> None:
    from k3_ledger.cli import main

    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys, "argv", ["k3-ledger", "verify", "https://example.org/ledger"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert 'hint: pip install "k3-ledger[remote]"' in capsys.readouterr().err


@pytest.mark.parametrize(("address", "says"), [("s3://bucket/ledger", "s3fs"), ("nonsense://x", "nonsense")])
def test_another_protocol_names_what_it_needs(address: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    result = k3("verify", address)
    assert (result.exit_code, says in result.stderr) == (2, True)


def test_any_protocol_of_fsspec_will_do(ledger: Builder) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for name, data in mirror_files(ledger, {DIGEST: RAW}).items():
        memory.pipe_file(f"/mirror/{name}", data)
    assert verdict("memory://mirror") == (0, [])

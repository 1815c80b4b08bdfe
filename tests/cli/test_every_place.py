"""One set of bytes has one verdict, wherever it lies; a host that misbehaves neither stops nor misleads a reader."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from tests import static_host
from tests.ledgers import RUNNER, Builder, run_body, sign_head, small_ledger
from tests.static_host import Handler, Host, ledger_files, mirror_files, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytest.importorskip("fsspec", reason="the extra k3-ledger[remote] is not installed")
pytest.importorskip("aiohttp", reason="the extra k3-ledger[remote] is not installed")

OLD = "checkpoints/000000000007.note"
SAID = "were not looked for, and not checked: this place does not say which files it has"


def forked() -> bytes:
    """A head by the log's own key that contradicts the record."""
    other = Builder(small_ledger().lines[:6])
    other.add("run", run_body(99), RUNNER)
    return sign_head(other.lines)


def verdict(run: Any, place: object, *words: object) -> tuple[int, list[str], dict[str, Any]]:
    done = run("verify", place, "--json", "--processes", "1", *words)
    found = json.loads(done.out) if done.out else {"counts": {}, "steps": []}
    return done.code, sorted(found["counts"]), {step["name"]: step for step in found["steps"]}


def tarred(folder: Path) -> Path:
    path = folder.with_suffix(".tar")
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.add(file, str(file.relative_to(folder)))
    return path


def in_memory(folder: Path) -> str:
    """The same files in a store that lists them."""
    import fsspec

    store = fsspec.filesystem("memory")
    name = f"/{folder.parent.name}-{folder.name}"
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            store.pipe(f"{name}/{file.relative_to(folder).as_posix()}", file.read_bytes())
    return f"memory:/{name}"


LISTING: dict[str, Callable[[Path], object]] = {
    "folder": lambda folder: folder,
    "file://": lambda folder: f"file://{folder}",
    "local://": lambda folder: f"local://{folder}",
    "file://localhost": lambda folder: f"file://localhost{folder}",
    "tar": tarred,
    "memory://": in_memory,
}
SHAPES = {"ledger": ledger_files, "mirror": mirror_files}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", LISTING)
def test_a_kept_head_that_contradicts_the_log_is_found_at_every_place_that_lists_it(run, tmp_path, form, shape) -> None:
    ledger = small_ledger()
    files = SHAPES[shape](ledger)
    good = static_host.lay_out(tmp_path / "good", {**files, OLD: sign_head(ledger.lines[:7])})
    assert verdict(run, LISTING[form](good))[:2] == (0, [])
    false = static_host.lay_out(tmp_path / "false", {**files, OLD: forked()})
    assert verdict(run, LISTING[form](false))[:2] == (1, ["K3L-CHECKPOINT-ROOT"])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_place_that_lists_nothing_is_said_to_be_one(run, tmp_path, shape) -> None:
    ledger = small_ledger()
    files = {**SHAPES[shape](ledger), OLD: forked(), "timestamps/7.tsr": b"?"}
    with serve(files) as host:
        code, found, steps = verdict(run, host.address)
        assert (code, found) == (0, [])
        assert steps["checkpoint"]["detail"].endswith(f"; kept heads {SAID}")
        assert steps["timestamps"]["detail"] == f"timestamps {SAID}"
        assert steps["timestamps"]["not_checked"] == 1
    steps = verdict(run, static_host.lay_out(tmp_path / "here", SHAPES[shape](ledger)))[2]
    assert SAID not in json.dumps(steps)
    assert steps["timestamps"]["detail"] == "no timestamps"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_kept_head_at_a_place_that_lists_nothing_is_found_by_its_name(run, tmp_path, shape) -> None:
    ledger = small_ledger()
    with serve({**SHAPES[shape](ledger), OLD: sign_head(ledger.lines[:7])}) as host:
        to = ("--ledger", host.address, "--out", "p", "--replace")
        assert run("prove", "3", "--head", "7", *to).code == 0
        assert run("verify", "p").code == 0
        assert run("prove", "--consistency", "7", len(ledger.lines), *to).code == 0
        assert run("verify", "p").code == 0
        done = run("prove", "3", "--head", "6", *to)
    assert (done.code, "this place does not list those it has" in done.err) == (2, True)


def test_a_witness_is_told_where_no_kept_heads_were_looked_for(run, keys, ledger, tmp_path) -> None:
    assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
    assert run("witness", "init", "w", "--name", "witness.example/w", "-k", "spare.pem").code == 0
    assert run("witness", "add-log", "example.org/bench", "log.pub.pem", "--state", "w").code == 0
    files = {str(path.relative_to(ledger)): path.read_bytes() for path in ledger.rglob("*") if path.is_file()}
    words = ("--state", "w", "-k", "spare.pem")
    with serve(files) as host:
        done = run("witness", "cosign", host.address, *words)
        assert (done.code, f"kept heads {SAID}" in done.err) == (0, True)
    done = run("witness", "cosign", "ledger", *words)
    assert (done.code, done.err) == (0, "")


def test_a_store_that_keeps_its_list_to_itself_lists_nothing(run, tmp_path, monkeypatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    place = in_memory(static_host.lay_out(tmp_path / "kept", {**ledger_files(small_ledger()), OLD: forked()}))

    def refuses(error: type[Exception]) -> Callable[..., Any]:
        def ls(*_: object, **__: object) -> Any:
            raise error("no")

        return ls

    monkeypatch.setattr(MemoryFileSystem, "ls", refuses(PermissionError))
    code, found, steps = verdict(run, place)
    assert (code, found, steps["checkpoint"]["detail"].endswith(SAID)) == (0, [], True)
    monkeypatch.setattr(MemoryFileSystem, "ls", refuses(TimeoutError))
    assert verdict(run, place)[:2] == (3, ["K3L-CHECKPOINT-UNREADABLE", "K3L-TIMESTAMP-UNREADABLE"])


def test_what_is_listed_and_not_there_is_unreadable_and_no_false_head(run, tmp_path, monkeypatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    place = in_memory(static_host.lay_out(tmp_path / "gone", ledger_files(small_ledger())))
    monkeypatch.setattr(MemoryFileSystem, "ls", lambda *_, **__: [f"/x/{OLD.rpartition('/')[2]}"])
    assert verdict(run, place)[:2] == (3, ["K3L-CHECKPOINT-UNREADABLE"])


# -------------------------------------------------------------------------------------------------------- obstructions

OBSTRUCTIONS: dict[str, Callable[[Path], object]] = {
    "a folder": lambda path: path.mkdir(),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a pipe": os.mkfifo,
    "a file without an end": lambda path: path.write_bytes(b"x" * 3_000_000),
}


@pytest.mark.parametrize("address", ["{}", "file://{}"])
@pytest.mark.parametrize("thing", OBSTRUCTIONS)
@pytest.mark.parametrize("place", ["checkpoint", "checkpoints/000000000001.note", "checkpoints/000000000009.note"])
def test_what_stands_in_the_place_of_a_head_hides_no_false_one(run, tmp_path, place, thing, address) -> None:
    ledger = small_ledger()
    for old, expected in ((forked(), 1), (sign_head(ledger.lines[:7]), 3)):
        folder = static_host.lay_out(tmp_path / str(expected), {**ledger_files(ledger), OLD: old})
        (folder / place).unlink(missing_ok=True)
        OBSTRUCTIONS[thing](folder / place)
        code, found, _ = verdict(run, address.format(folder))
        assert (code, "K3L-CHECKPOINT-UNREADABLE" in found) == (expected, True)
        assert ("K3L-CHECKPOINT-ROOT" in found) == (expected == 1)


@pytest.mark.parametrize("name", ["ledger.jsonl", "checkpoint"])
def test_a_pipe_at_an_address_of_this_machine_hangs_nobody(run, tmp_path, name) -> None:
    folder = static_host.lay_out(tmp_path / "led", ledger_files(small_ledger()))
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert run("verify", f"file://{folder}").code == run("verify", folder).code == 3
    assert run("prove", "3", "--ledger", f"file://{folder}", "--out", "p").code == 3


BUNDLES = ("tile/entries/000", "tile/entries/001", "tile/entries/002.p/92")


@pytest.mark.parametrize(("lost", "wrong"), list(permutations(BUNDLES, 2)))
def test_a_bundle_that_cannot_be_had_hides_no_changed_one(run, lost, wrong) -> None:
    files = mirror_files(small_ledger(600))
    assert set(BUNDLES) <= files.keys()
    with serve(files) as host:
        host.faults[lost] = static_host.status(500)
        assert verdict(run, host.address)[:2] == (3, ["K3L-REMOTE-UNREADABLE"])
        files[wrong] = files[wrong].replace(b'"count":10', b'"count":11', 1)
        assert verdict(run, host.address)[0] == 1


@pytest.mark.parametrize("fault", [static_host.truncated])
def test_a_transfer_that_ends_early_hides_no_false_entry_in_front_of_it(run, fault) -> None:
    ledger = small_ledger(3000)
    files = ledger_files(ledger)
    with serve(files) as host:
        host.faults["ledger.jsonl"] = fault
        assert verdict(run, host.address)[:2] == (3, ["K3L-REMOTE-UNREADABLE"])
        files["ledger.jsonl"] = files["ledger.jsonl"].replace(b'"count":10', b'"count":11', 1)
        assert verdict(run, host.address)[0] == 1


# --------------------------------------------------------------------------------------------- hosts that answer oddly

PAGE = b"<!DOCTYPE html><title>Our app</title>" + b" " * 2000


def page_for_what_is_absent(host: Host, page: bytes = PAGE) -> None:
    """What a host does that is set up for an app of one page."""
    host.fallback = page


@pytest.fixture
def mirror() -> Iterator[Host]:
    raw = b"raw"
    ledger = small_ledger(300)
    digest = hashlib.sha256(raw).hexdigest()
    artifact = {"name": "raw", "sha256": digest, "size": len(raw), "media_type": "text/plain"}
    ledger.add("run", run_body(1, artifacts=[artifact]), RUNNER)
    with serve(mirror_files(ledger, {digest: raw})) as host:
        yield host


def test_a_host_with_a_page_for_what_is_absent_is_a_mirror_all_the_same(run, mirror) -> None:
    page_for_what_is_absent(mirror)
    assert verdict(run, mirror.address)[:2] == (0, [])
    del mirror.files["tile/entries/000"]
    assert verdict(run, mirror.address)[:2] == (4, ["K3L-MIRROR-INCOMPLETE"]), "as where the host says 404"


def test_a_page_in_the_place_of_an_artifact_is_none(run, mirror) -> None:
    blob = next(path for path in mirror.files if path.startswith("blobs/"))
    del mirror.files[blob]
    page_for_what_is_absent(mirror)
    assert verdict(run, mirror.address)[:2] == (0, ["K3L-ARTIFACT-MISSING"])
    mirror.files[blob] = PAGE + b"changed"
    assert verdict(run, mirror.address)[:2] == (1, ["K3L-ARTIFACT-MISMATCH"])
    mirror.fallback = None
    mirror.files[blob] = PAGE
    assert verdict(run, mirror.address)[:2] == (1, ["K3L-ARTIFACT-MISMATCH"]), "a file of the host's own"


def test_an_artifact_that_is_a_page_is_an_artifact(run) -> None:
    ledger = small_ledger()
    digest = hashlib.sha256(PAGE).hexdigest()
    artifact = {"name": "page", "sha256": digest, "size": len(PAGE), "media_type": "text/html"}
    ledger.add("run", run_body(1, artifacts=[artifact]), RUNNER)
    with serve(ledger_files(ledger, {digest: PAGE})) as host:
        page_for_what_is_absent(host, b"<html>not found</html>")
        assert verdict(run, host.address, "--require", "artifacts")[:2] == (0, [])


def test_a_host_that_has_nothing_but_its_page_has_no_ledger(run) -> None:
    with serve({}) as host:
        page_for_what_is_absent(host)
        done = run("verify", host.address)
    assert (done.code, done.out) == (3, "")


def test_one_changed_byte_makes_no_page(run) -> None:
    files = ledger_files(small_ledger())
    with serve(files) as host:
        for name in ("ledger.jsonl", "checkpoint"):
            whole = files[name]
            files[name] = b"<" + whole[1:]
            assert verdict(run, host.address)[0] == 1, name
            files[name] = whole


def packed(data: bytes) -> Callable[[Handler, bytes | None], None]:
    def answer(handler: Handler, _: bytes | None) -> None:
        handler.start(200, Content_Length=len(data), Content_Encoding="gzip")
        handler.wfile.write(data)

    return answer


def test_what_a_host_packs_is_unpacked(run, mirror) -> None:
    for name, data in mirror.files.items():
        mirror.faults[name] = packed(gzip.compress(data[:40]) + gzip.compress(data[40:]))
    assert verdict(run, mirror.address)[:2] == (0, [])


@pytest.mark.parametrize("data", [gzip.compress(b"x" * 500)[:-9], b"no gzip", b""], ids=["cut", "none", "empty"])
def test_what_cannot_be_unpacked_is_unreadable_or_no_head(run, mirror, data) -> None:
    mirror.faults["tile/entries/000"] = packed(data)
    code, found, _ = verdict(run, mirror.address)
    assert (code, found) == ((1, ["K3L-TILE-MALFORMED"]) if not data else (3, ["K3L-REMOTE-UNREADABLE"]))


def test_an_encoding_that_nobody_asked_for_is_unreadable(run, mirror) -> None:
    def answer(handler: Handler, data: bytes | None) -> None:
        assert data is not None
        handler.start(200, Content_Length=len(data), Content_Encoding="br")
        handler.wfile.write(data)

    mirror.faults["tile/entries/000"] = answer
    assert verdict(run, mirror.address)[:2] == (3, ["K3L-REMOTE-UNREADABLE"])


def test_a_small_answer_that_unpacks_to_a_large_one_is_unpacked_no_further_than_it_is_read(run, mirror, monkeypatch):
    from k3_ledger.cli import remote

    unpacked = []
    inner = remote._Stream._next

    def counted(stream: Any, count: int) -> bytes:
        unpacked.append(len(data := inner(stream, count)))
        return data

    monkeypatch.setattr(remote._Stream, "_next", counted)
    mirror.faults["checkpoint"] = packed(gzip.compress(bytes(1 << 26), 1))
    assert verdict(run, mirror.address)[:2] == (3, ["K3L-CHECKPOINT-UNREADABLE", "K3L-UNREADABLE"])
    assert max(unpacked) <= 1_000_001
    assert sum(unpacked) < 1 << 24


# ------------------------------------------------------------------------------------------------- addresses of nothing

ODD = (
    "http://[::1", "http://[zz]:1/", "http://a:99999", "http://a:x/", "http://", "https://", "http:///x", "http://a b/",
    "http://\udcff/", "http://user:p@[::1", "ftp://[::1", "memory://[", "foo://[", "file://[::1", "file:///a%00b",
    "file:///%ff", "http://xn--/", "zip://",
)  # fmt: skip
TAKING: dict[str, Callable[[str], tuple[object, ...]]] = {
    "verify": lambda odd: ("verify", odd),
    "prove": lambda odd: ("prove", "1", "--ledger", odd, "--out", "p"),
    "prove --consistency": lambda odd: ("prove", "--consistency", "1", "2", "--ledger", odd, "--out", "p"),
    "witness cosign": lambda odd: ("witness", "cosign", odd, "--state", "w", "--key", "k.pem"),
    "witness add-log": lambda odd: ("witness", "add-log", "a/b", "log.pub.pem", "--state", "w", "--from", odd),
    "trust init": lambda odd: ("trust", "init", odd, "--out", "t.toml"),
    "bundle pack": lambda odd: ("bundle", "pack", odd, "--out", "b.tar"),
    "export": lambda odd: ("export", odd, "--dsse", "--key", "k.pem", "--out", "e.json"),
    "rescore": lambda odd: ("rescore", odd, "--rule", "house-1.decode"),
    "reconcile": lambda odd: ("reconcile", odd),
    "tiles": lambda odd: ("tiles", odd),
    "verify --trust": lambda odd: ("verify", "x", "--trust", odd),
    "verify --expect-head": lambda odd: ("verify", "x", "--expect-head", odd),
}


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_an_address_that_is_none_is_refused_in_words(run, odd) -> None:
    for words in TAKING.values():
        done = run(*words(odd))
        assert done.code in (2, 3), words(odd)
        assert "Traceback" not in done.err
        assert done.err

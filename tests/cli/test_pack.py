"""Offline bundles: one file, the same bytes each time, verified with nothing else at hand, and hostile ones refused."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from k3_ledger.cli import app, pack
from k3_ledger.ledger.core.checkpoint import parse_checkpoint
from k3_ledger.ledger.core.note import parse_note
from k3_ledger.ledger.writer import tarball
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.ledgers import JUDGE, LOG, ORIGIN, ROOT, RUNNER, Builder, Key, key_body, run_body, sign_head, small_ledger
from tests.static_host import lay_out, ledger_files, mirror_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

RAW = b"raw samples" * 1000
DIGEST = hashlib.sha256(RAW).hexdigest()


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def code(result: Result) -> Code | None:
    return result.exception.code if isinstance(result.exception, LedgerError) else None


def verdict(path: Path, *more: object) -> tuple[int, list[str]]:
    report = json.loads(k3("verify", path, "--json", "--root-key", ROOT.public.hex(), *more).stdout)
    return report["exit_code"], list(report["counts"])


def with_artifact() -> Builder:
    ledger = small_ledger(6)
    artifact = {"name": "raw", "sha256": DIGEST, "size": len(RAW), "media_type": "text/plain"}
    ledger.add("run", run_body(1, artifacts=[artifact]), RUNNER)
    return ledger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ledger = with_artifact()
    files = ledger_files(ledger, {DIGEST: RAW})
    files["checkpoints/000000000008.note"] = sign_head(ledger.lines[:8])
    files["checkpoints/000000000099.note.txt"] = b"nobody's business"
    return lay_out(tmp_path / "ledger", files)


@pytest.fixture
def whole(folder: Path, tmp_path: Path) -> Path:
    assert k3("bundle", "pack", folder, "--out", tmp_path / "whole").exit_code == 0
    return tmp_path / "whole"


def names(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return tar.getnames()


def test_the_whole_record_in_one_file_verifies_alone(whole: Path, folder: Path) -> None:
    assert names(whole) == [
        "pack.json",
        f"blobs/sha256/{DIGEST[:2]}/{DIGEST}",
        "checkpoint",
        "checkpoints/000000000008.note",
        "ledger.jsonl",
    ]
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert verdict(whole, "--require", "artifacts", "--require", "checkpoint") == (0, [])


def test_some_entries_in_one_file_verify_alone(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "some"
    result = k3("bundle", "pack", folder, "--entries", "10,4,10", "--out", out)
    assert "2 entries" in result.stdout
    assert names(out) == [
        "pack.json",
        f"blobs/sha256/{DIGEST[:2]}/{DIGEST}",
        "checkpoint",
        "consistency/000000000008.proof",
        "proofs/000000000004.proof",
        "proofs/000000000010.proof",
    ]
    assert verdict(out, "--require", "artifacts", "--require", "checkpoint") == (0, [])
    assert verdict(out, "--require", "artifacts", "--no-artifacts")[0] == 4
    assert "2 proved entries" in k3("verify", out).stdout
    assert k3("bundle", "pack", folder, "--entries", "5", "--out", out, "--replace").exit_code == 0
    assert verdict(out)[0] == 0


@pytest.mark.parametrize("entries", ["all", "10"])
def test_what_is_packed_is_taken_and_what_would_not_be_is_not_packed(
    folder: Path, tmp_path: Path, entries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "bundle"
    assert k3("bundle", "pack", folder, "--entries", entries, "--out", out).exit_code == 0
    members = len(names(out))
    monkeypatch.setattr(tarball, "MAX_MEMBERS", members)
    assert k3("bundle", "pack", folder, "--entries", entries, "--out", out, "--replace").exit_code == 0
    assert verdict(out)[0] == 0
    before = out.read_bytes()
    monkeypatch.setattr(tarball, "MAX_MEMBERS", members - 1)
    refused = k3("bundle", "pack", folder, "--entries", entries, "--out", out, "--replace")
    assert code(refused) is Code.ARCHIVE_REFUSED
    assert isinstance(refused.exception, LedgerError)
    assert refused.exception.finding.found == f"{members} files"
    assert out.read_bytes() == before
    assert code(k3("verify", out)) is Code.ARCHIVE_REFUSED  # as it would have been


@pytest.mark.parametrize("what", ["blobs", "ledger.jsonl"])
def test_a_file_whose_length_a_header_cannot_say_is_not_packed(
    folder: Path, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest, more = (
        (len(RAW), ["--entries", "10"]) if what == "blobs" else ((folder / what).stat().st_size, ["--no-artifacts"])
    )
    monkeypatch.setattr(pack, "MAX_FILE", longest)
    assert k3("bundle", "pack", folder, "--out", tmp_path / "a", *more).exit_code == 0
    monkeypatch.setattr(pack, "MAX_FILE", longest - 1)
    refused = k3("bundle", "pack", folder, "--out", tmp_path / "b", *more)
    assert code(refused) is Code.ARCHIVE_REFUSED
    assert isinstance(refused.exception, LedgerError)
    assert (refused.exception.finding.position.source or "").startswith(what)
    assert not (tmp_path / "b").exists()


def test_the_longest_file_is_the_longest_that_a_header_can_say() -> None:
    pack._member("name", pack.MAX_FILE).tobuf(tarfile.USTAR_FORMAT)
    with pytest.raises(ValueError, match="overflow"):
        pack._member("name", pack.MAX_FILE + 1).tobuf(tarfile.USTAR_FORMAT)


def test_equal_content_makes_equal_bytes(folder: Path, whole: Path, tmp_path: Path) -> None:
    (folder / "ledger.jsonl").touch()
    k3("bundle", "pack", folder, "--out", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == whole.read_bytes()
    assert hashlib.sha256(whole.read_bytes()).hexdigest() == GOLDEN


GOLDEN = "110f565aa995c098307b504cff54420183ebd71a82f8de3dfd09abf981effcb4"


def test_entries_past_the_checkpoint_stay_out(folder: Path, tmp_path: Path) -> None:
    grown = Builder((folder / "ledger.jsonl").read_bytes().splitlines(keepends=True))
    committed = grown.data
    grown.runs(3)
    (folder / "ledger.jsonl").write_bytes(grown.data)
    out = tmp_path / "out"
    assert k3("bundle", "pack", folder, "--out", out).exit_code == 0
    with tarfile.open(out) as tar:
        member = tar.extractfile("ledger.jsonl")
        assert member is not None
        assert member.read() == committed
    assert verdict(out) == (0, [])
    assert code(k3("bundle", "pack", folder, "--entries", "12", "--out", tmp_path / "more")) is Code.NOT_CHECKPOINTED


def test_an_artifact_that_is_not_there_is_said_and_not_checked(folder: Path, tmp_path: Path) -> None:
    (folder / "blobs" / "sha256" / DIGEST[:2] / DIGEST).unlink()
    result = k3("bundle", "pack", folder, "--out", tmp_path / "out", "--json")
    assert json.loads(result.stdout)["missing_artifacts"] == 1
    assert "1 artifacts are not in the ledger's blobs/" in result.stderr
    assert verdict(tmp_path / "out") == (0, ["K3L-ARTIFACT-MISSING"])
    assert verdict(tmp_path / "out", "--require", "artifacts")[0] == 4
    assert k3("bundle", "pack", folder, "--no-artifacts", "--out", tmp_path / "less").stderr == ""


def test_only_a_ledger_that_verifies_is_packed(folder: Path, tmp_path: Path) -> None:
    log = folder / "ledger.jsonl"
    good = log.read_bytes()
    log.write_bytes(good.replace(b'"count":10', b'"count":11', 1))
    assert code(k3("bundle", "pack", folder, "--out", tmp_path / "out")) is Code.SIGNATURE_MISMATCH
    log.write_bytes(good)
    (folder / "checkpoint").unlink()
    assert code(k3("bundle", "pack", folder, "--out", tmp_path / "out")) is Code.NOT_CHECKPOINTED
    for wrong in ("", "x", "1,", "-1", "all,1", "1 2"):
        assert k3("bundle", "pack", folder, "--entries", wrong, "--out", tmp_path / "out").exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_file_that_cannot_be_written_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    assert code(k3("bundle", "pack", folder, "--out", tmp_path / "none" / "out")) is Code.UNREADABLE
    (tmp_path / "taken").mkdir()
    assert k3("bundle", "pack", folder, "--out", tmp_path / "taken", "--replace").exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "taken"]


def test_the_policy_it_was_packed_under_is_named_and_never_obeyed(folder: Path, tmp_path: Path) -> None:
    makers, yours = tmp_path / "makers.toml", tmp_path / "yours.toml"
    makers.write_text(f'root_public_key = "{ROOT.public.hex()}"\n')
    yours.write_text('origin = "example.org/speed"\n')
    assert k3("bundle", "pack", folder, "--trust", makers, "--out", tmp_path / "out").exit_code == 0
    result = k3("verify", tmp_path / "out", "--trust", yours)
    assert (result.exit_code, "[K3L-ARCHIVE-POLICY]" in result.stdout) == (0, True)
    assert "K3L-ARCHIVE-POLICY" not in k3("verify", tmp_path / "out", "--trust", makers).stdout
    assert "signer not authenticated" in k3("verify", tmp_path / "out").stdout
    yours.write_text('origin = "example.org/other"\n')
    assert k3("verify", tmp_path / "out", "--trust", yours).exit_code == 1


def test_a_root_key_is_enough_to_pack_under(folder: Path, tmp_path: Path) -> None:
    makers = tmp_path / "makers.toml"
    makers.write_text(f'root_public_key = "{ROOT.public.hex()}"\n')
    assert k3("bundle", "pack", folder, "--root-key", ROOT.public.hex(), "-o", tmp_path / "a").exit_code == 0
    assert k3("bundle", "pack", folder, "--trust", makers, "-o", tmp_path / "b").exit_code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    refused = k3("bundle", "pack", folder, "--root-key", LOG.public.hex(), "-o", tmp_path / "c")
    assert code(refused) is Code.ROOT_NOT_TRUSTED
    assert not (tmp_path / "c").exists()


# ------------------------------------------------------------------------------------------------------ plain tars


@pytest.mark.parametrize("inside", ["", "speed/"])
@pytest.mark.parametrize("files", [ledger_files, mirror_files])
def test_a_plain_tar_of_a_ledger_or_a_mirror_verifies(
    files: Callable[..., dict[str, bytes]], inside: str, tmp_path: Path
) -> None:
    content = {".gitattributes": b"* -text\n"} | files(with_artifact(), {DIGEST: RAW})
    content["checkpoints/000000000008.note"] = sign_head(with_artifact().lines[:8])
    path = tmp_path / "ledger.tar"
    path.write_bytes(tar_of({inside + name: data for name, data in content.items()}))
    assert verdict(path, "--require", "artifacts", "--require", "checkpoint") == (0, [])
    assert k3("prove", 6, "-l", path, "-o", tmp_path / "p").exit_code == 0
    assert verdict(tmp_path / "p")[0] == 0


@pytest.mark.parametrize("name", ["../x", "a/../ledger.jsonl", "/x", "./../x", "a//b", ".."])
def test_a_plain_tar_that_climbs_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(tar_of({**ledger_files(with_artifact()), name: b"x"}))
    assert code(k3("verify", tmp_path / "t")) is Code.ARCHIVE_REFUSED


def test_a_tar_of_something_else_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(tar_of({"readme": b"hello"}))
    assert verdict(tmp_path / "t") == (3, ["K3L-UNREADABLE"])
    (tmp_path / "t").write_bytes(bytes(257) + b"ustar" + bytes(300))
    assert code(k3("verify", tmp_path / "t")) is Code.ARCHIVE_REFUSED


# --------------------------------------------------------------------------------------------------- hostile archives


def tar_of(files: dict[str, bytes], change: Callable[[tarfile.TarInfo], object] = lambda _: None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            change(member)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def read(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def relist(files: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    """The same files behind a list that names them as they are now."""
    listed = json.loads(files["pack.json"]) | changes
    listed["files"] = [
        {"name": name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        for name, data in sorted(files.items())
        if name != "pack.json"
    ]
    spelled = json.dumps(listed, sort_keys=True, separators=(",", ":")).encode()
    return {"pack.json": spelled} | dict(sorted((name, data) for name, data in files.items() if name != "pack.json"))


def end_of(files: dict[str, bytes]) -> int:
    """Where the members of a tar of these files end."""
    return sum(512 + -(-len(data) // 512) * 512 for data in files.values())


def typed(kind: bytes) -> Callable[[tarfile.TarInfo], object]:
    return lambda member: member.name == "checkpoint" and setattr(member, "type", kind)


REFUSED = {
    "a name that climbs": lambda files: tar_of({**files, "../evil": b"x"}),
    "an absolute name": lambda files: tar_of({**files, "/evil": b"x"}),
    "a name that climbs inside": lambda files: tar_of({**files, "blobs/../../evil": b"x"}),
    "a symbolic link": lambda files: tar_of(
        files, lambda m: m.name == "checkpoint" and setattr(m, "type", tarfile.SYMTYPE)
    ),
    "a hard link": lambda files: tar_of(
        files, lambda m: m.name == "checkpoint" and setattr(m, "type", tarfile.LNKTYPE)
    ),
    "a device": lambda files: tar_of(files, typed(tarfile.CHRTYPE)),
    "a member twice": lambda files: tar_of(files)[: end_of(files)] + tar_of({"checkpoint": b"x"}),
    "a member more": lambda files: tar_of({**files, "trust.toml": b"x"}),
    "a member less": lambda files: tar_of({name: data for name, data in files.items() if name != "checkpoint"}),
    "another order": lambda files: tar_of({"pack.json": files["pack.json"]} | dict(reversed(files.items()))),
    "the list last": lambda files: tar_of(dict(reversed(files.items()))),
    "a size beyond the end": lambda files: tar_of(files)[: -(2 * 10240)],
    "a list that is none": lambda files: tar_of({**files, "pack.json": b"{}"}),
    "a list of another version": lambda files: tar_of(relist(files, schema="k3-ledger/pack/2")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_hostile_archive_is_one_clear_error(whole: Path, case: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(REFUSED[case](read(whole)))
    result = k3("verify", path)
    assert code(result) is Code.ARCHIVE_REFUSED
    assert result.stdout == ""
    assert sorted(found.name for found in tmp_path.iterdir()) == ["hostile", "ledger", "whole"], "nothing is unpacked"


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside a document, its own included."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], *path, key)


def altered(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with the value at the end of a way replaced, or taken out where it is ``...``."""
    if not path:
        return {} if value is ... else value
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return copy


def spelled(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("value", [..., None, [], {}, "", 0, True], ids=repr)
@pytest.mark.parametrize("name", ["pack.json", "proofs/000000000004.proof"])
def test_a_document_with_anything_anywhere_is_refused_in_words(
    folder: Path, name: str, value: Any, tmp_path: Path
) -> None:
    """Every list emptied, every member missing, every value of another type: an error or a report, and no crash."""
    path = tmp_path / "some"
    k3("bundle", "pack", folder, "--entries", "4", "--no-artifacts", "--out", path)
    files = read(path)
    document = json.loads(files[name])
    for place in places(document):
        changed = spelled(altered(document, place, value))
        if changed == files[name]:
            continue
        path.write_bytes(tar_of({**files, name: changed} if name == "pack.json" else relist({**files, name: changed})))
        result = k3("verify", path)
        assert isinstance(result.exception, LedgerError | SystemExit), (place, result.exception)
        assert name != "pack.json" or code(result) is not None, place
        assert result.exit_code, place


def test_a_bundle_that_proves_nothing_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "none"
    k3("bundle", "pack", folder, "--entries", "4", "--out", path)
    files = {name: data for name, data in read(path).items() if not name.startswith("proofs/")}
    path.write_bytes(tar_of(relist(files, entries=[])))
    result = k3("verify", path)
    assert code(result) is Code.ARCHIVE_REFUSED
    assert "it proves no entry" in str(result.exception)


@pytest.mark.parametrize("action", ["revoke", "rotate"])
def test_what_ends_a_key_is_packed_and_verifies(action: str, tmp_path: Path) -> None:
    ledger = small_ledger(1)
    if action == "revoke":
        ledger.add("key", key_body(JUDGE, "judge", "revoke"), ROOT)
    else:
        ledger.add("key", key_body(Key("new"), "judge", "rotate", replaces=JUDGE.id), ROOT)
    folder = lay_out(tmp_path / "ledger", ledger_files(ledger))
    assert k3("bundle", "pack", folder, "--entries", "5", "--out", tmp_path / "some").exit_code == 0
    assert verdict(tmp_path / "some") == (0, [])


def test_a_proof_that_does_not_stand_is_not_packed(folder: Path, tmp_path: Path) -> None:
    """What a revocation took back is no error of the ledger, and one of its proof."""
    ledger = Builder((folder / "ledger.jsonl").read_bytes().splitlines(keepends=True))
    ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=5), ROOT)
    ledger.write(folder)
    assert verdict(folder)[0] == 0
    result = k3("bundle", "pack", folder, "--entries", "6", "--out", tmp_path / "out")
    assert code(result) is Code.PROOF_DISOWNED
    assert not (tmp_path / "out").exists()
    assert k3("bundle", "pack", folder, "--entries", "4", "--out", tmp_path / "out").exit_code == 0


def test_a_size_that_no_disk_holds_is_refused_before_anything_is_read(whole: Path, tmp_path: Path) -> None:
    data = bytearray(whole.read_bytes())
    data[124:136] = b"77777777777\0"
    data[148:156] = b"        "
    data[148:156] = b"%06o\0 " % sum(data[:512])
    (tmp_path / "huge").write_bytes(data)
    assert code(k3("verify", tmp_path / "huge")) is Code.ARCHIVE_REFUSED


def test_a_changed_file_is_a_damaged_copy_and_a_forged_list_helps_nobody(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "changed"
    files = read(whole)
    for name in list(files)[1:]:
        forged = {**files, name: files[name][:-3] + b"?" + files[name][-2:]}
        path.write_bytes(tar_of(forged))
        assert code(k3("verify", path)) is Code.ARCHIVE_MISMATCH
        path.write_bytes(tar_of(relist(forged)))
        assert verdict(path)[0] == 1


def test_a_proof_of_something_else_is_not_taken(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "some"
    k3("bundle", "pack", folder, "--entries", "4,5", "--out", path)
    files = read(path)
    swapped = {**files, "proofs/000000000004.proof": files["proofs/000000000005.proof"]}
    path.write_bytes(tar_of(relist(swapped)))
    assert code(k3("verify", path)) is Code.ARCHIVE_MISMATCH
    older = {**files, "checkpoint": sign_head(with_artifact().lines[:8])}
    head = {"size": 8, "root": parse_checkpoint(parse_note(older["checkpoint"]).text).root.hex()}
    path.write_bytes(tar_of(relist(older, **head)))
    assert code(k3("verify", path)) is Code.ARCHIVE_MISMATCH


# ------------------------------------------------------------------------------------------- older heads of an extract

EXTENDS = "consistency/000000000008.proof"


def with_old(files: dict[str, bytes], old: bytes, name: str = EXTENDS) -> dict[str, bytes]:
    """An extract whose older head is another note."""
    document = json.loads(files[EXTENDS]) | {"old": old.decode()}
    return {other: data for other, data in files.items() if other != EXTENDS} | {name: spelled(document)}


@pytest.fixture
def some(folder: Path, tmp_path: Path) -> Path:
    assert k3("bundle", "pack", folder, "--entries", "4,5", "--out", tmp_path / "some").exit_code == 0
    return tmp_path / "some"


def test_a_fork_in_an_extract_is_found(some: Path, folder: Path, tmp_path: Path) -> None:
    """A head of another history that the log's own key signed stands in the very file."""
    lines = Builder((folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)).lines
    forged = with_old(read(some), sign_head([*lines[:7], lines[9]]))
    (tmp_path / "forged").write_bytes(tar_of(relist(forged)))
    assert verdict(tmp_path / "forged") == (1, ["K3L-CONSISTENCY-MISMATCH"])
    for junk, found in ((b"junk\n", "K3L-NOTE-MALFORMED"), (sign_head(lines[:8], JUDGE), "K3L-CHECKPOINT-SIGNATURE")):
        (tmp_path / "forged").write_bytes(tar_of(relist(with_old(read(some), junk))))
        assert verdict(tmp_path / "forged") == (1, [found])


def test_an_older_head_under_another_name_or_of_another_log_is_not_taken(
    some: Path, folder: Path, tmp_path: Path
) -> None:
    files, path = read(some), tmp_path / "other"
    moved = with_old(files, json.loads(files[EXTENDS])["old"].encode(), "consistency/000000000007.proof")
    path.write_bytes(tar_of(relist(moved)))
    assert code(k3("verify", path)) is Code.ARCHIVE_MISMATCH
    lines = Builder((folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)).lines
    document = json.loads(files[EXTENDS])
    document["proof"]["checkpoint"] = sign_head(lines[:9]).decode()
    path.write_bytes(tar_of(relist({**files, EXTENDS: spelled(document)})))
    assert code(k3("verify", path)) is Code.ARCHIVE_MISMATCH
    path.write_bytes(tar_of(relist({**files, EXTENDS: b"{}"})))
    assert code(k3("verify", path)) is Code.PROOF_FILE


@pytest.mark.parametrize("entries", ["all", "4,5"])
def test_a_bundle_holds_no_older_head_that_nothing_in_it_leads_to(folder: Path, entries: str, tmp_path: Path) -> None:
    """What is in the file is checked, or it is refused: a head beside proofs alone could not be."""
    path = tmp_path / "packed"
    k3("bundle", "pack", folder, "--entries", entries, "--out", path)
    files = read(path)
    more = {EXTENDS: b"{}"} if entries == "all" else {"checkpoints/000000000008.note": sign_head(small_ledger().lines)}
    path.write_bytes(tar_of(relist({**files, **more})))
    assert code(k3("verify", path)) is Code.ARCHIVE_REFUSED


def test_a_head_that_was_taken_back_is_left_out_of_an_extract(tmp_path: Path) -> None:
    ledger = small_ledger(2)
    early = sign_head(ledger.lines)
    ledger.add("key", key_body(Key("log-two"), "log"), ROOT)
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=4), ROOT)
    files = ledger_files(ledger) | {"checkpoints/000000000006.note": early, "checkpoints/000000000042.note": b"junk"}
    files["checkpoint"] = ledger.head(key=Key("log-two"))
    folder = lay_out(tmp_path / "ledger", {name: data for name, data in files.items() if data != b"junk"})
    assert verdict(folder) == (0, ["K3L-CHECKPOINT-DISOWNED"])
    result = k3("bundle", "pack", folder, "--entries", "4", "--out", tmp_path / "some", "--json")
    assert result.exit_code == 0, result.output
    assert "note: 1 older signed heads could not be proved and were not packed" in result.stderr
    assert [name for name in names(tmp_path / "some") if name.startswith("consistency")] == []
    assert verdict(tmp_path / "some") == (0, [])


@pytest.mark.parametrize("entries", ["all", "4,5"])
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"origin": "example.org/another"}, "origin"),
        ({"origin": ORIGIN.upper()}, "origin"),
        ({"origin": ""}, "origin"),
        ({"size": 6}, "size"),
        ({"size": 2**53 - 1}, "size"),
        ({"root": "00" * 32}, "root"),
        ({"checkpoint": "older"}, "size"),
    ],
)
def test_a_list_that_contradicts_the_checkpoint_beside_it_is_not_taken(
    folder: Path, tmp_path: Path, entries: str, changes: dict[str, Any], what: str
) -> None:
    path = tmp_path / "packed"
    k3("bundle", "pack", folder, "--entries", entries, "--out", path)
    files = read(path)
    path.write_bytes(tar_of(relist(files)))
    assert verdict(path) == (0, [])
    if "checkpoint" in changes:
        files["checkpoint"] = sign_head(with_artifact().lines[:8])
    path.write_bytes(tar_of(relist(files, **{name: value for name, value in changes.items() if name != "checkpoint"})))
    result = k3("verify", path)
    assert code(result) is Code.ARCHIVE_CONTRADICTION
    assert f"names another {what} than the checkpoint" in str(result.exception)
    assert result.stdout == ""


def test_a_checkpoint_that_is_none_is_the_verifiers_to_judge(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "packed"
    path.write_bytes(tar_of(relist(read(whole) | {"checkpoint": b"no note"})))
    found, codes = verdict(path)
    assert (found, "NOTE-MALFORMED" in "".join(codes)) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("prove", 4, "-o", "four.proof", "-l"),
        ("trust", "init", "--out", "trust.toml"),
        ("bundle", "pack", "-o", "again.tar"),
    ],
    ids=["verify", "prove", "trust init", "bundle pack"],
)
def test_a_bundle_that_was_unpacked_is_a_ledger_or_is_said_to_be_none(
    folder: Path, tmp_path: Path, words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for entries in ("all", "4,8"):
        assert k3("bundle", "pack", folder, "--entries", entries, "--out", f"{entries}.tar").exit_code == 0
        with tarfile.open(f"{entries}.tar") as tar:
            tar.extractall(entries, filter="data")
    result = k3(*words, "4,8")
    assert code(result) is Code.NOT_A_LEDGER
    assert "an offline bundle of some entries that was unpacked" in str(result.exception)
    assert "nothing has to be unpacked" in str(result.exception.finding.hint)  # type: ignore[union-attr]
    assert k3(*words, "all").exit_code == 0

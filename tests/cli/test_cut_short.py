"""A log that is cut within its first bytes, down to none: signed heads beside it say that there was more."""

from __future__ import annotations

import json
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.ledgers import Builder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEFT = range(13)
"""Bytes that are left: the first nine are the same in every log."""
HEADS: dict[str, tuple[str, ...]] = {
    "none": ("checkpoint", "checkpoints"),
    "the newest": ("checkpoints",),
    "a kept one": ("checkpoint",),
    "both": (),
}
"""What is taken away, by the heads that stay."""


def tarred(folder: Path) -> str:
    path = folder.with_suffix(".tar")
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.add(file, str(file.relative_to(folder)))
    return str(path)


FORMS: dict[str, Callable[[Path], str]] = {
    "directory": str,
    "log": lambda folder: str(folder / "ledger.jsonl"),
    "tar": tarred,
    "address": lambda folder: f"file://{folder}",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a signed head, as its owner publishes it."""
    folder = tmp_path_factory.mktemp("cut") / "ledger"
    builder = Builder().open().runs(1)
    folder.mkdir()
    (folder / "checkpoints").mkdir()
    (folder / "ledger.jsonl").write_bytes(builder.data)
    (folder / "checkpoint").write_bytes(builder.head())
    (folder / "checkpoints" / f"{len(builder.lines)}.note").write_bytes(builder.head())
    return folder


def cut(made: Path, tmp_path: Path, left: bytes, heads: str) -> Path:
    folder = tmp_path / "ledger"
    shutil.copytree(made, folder)
    (folder / "ledger.jsonl").write_bytes(left)
    for name in HEADS[heads]:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder


@pytest.mark.parametrize("case", [(form, heads) for form in FORMS for heads in HEADS], ids=" ".join)
@pytest.mark.parametrize("left", LEFT)
def test_a_cut_is_false_beside_a_signed_head_wherever_it_falls(run, made, tmp_path, left, case) -> None:
    form, heads = case
    start = (made / "ledger.jsonl").read_bytes()[:left]
    folder = cut(made, tmp_path, start, heads)
    done = run("verify", FORMS[form](folder), "--json")
    found = set(json.loads(done.out)["counts"])
    if heads == "none":
        assert done.code == (3 if left < 9 else 5)
        return
    assert done.code == 1
    assert found == {"K3L-EMPTY-LEDGER" if left == 0 else "K3L-TORN-TAIL", "K3L-CHECKPOINT-AHEAD"}


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("left", LEFT)
def test_verify_and_recover_say_the_same_about_a_cut(run, made, tmp_path, left, heads) -> None:
    folder = cut(made, tmp_path, (made / "ledger.jsonl").read_bytes()[:left], heads)
    verdict = run("verify", folder)
    recovered = run("recover", "-l", folder)
    if heads == "none":
        assert (verdict.code, recovered.code) == (3 if left < 9 else 5, 0)
    else:
        assert (verdict.code, recovered.code) == (1, 1)
        assert "do not recover" in verdict.out
        assert (folder / "ledger.jsonl").stat().st_size == left


@pytest.mark.parametrize("left", [b"\0", bytes(4096), b'{"ent\0\0'])
def test_nul_bytes_in_the_place_of_every_entry_are_a_cut_too(run, made, tmp_path, left) -> None:
    assert run("verify", cut(made, tmp_path, left, "both")).code == 1
    shutil.rmtree(tmp_path / "ledger")
    assert run("verify", cut(made, tmp_path, left, "none")).code == 3


@pytest.mark.parametrize("left", [b"hello", b"\n", b'{"entry"x', b"{}\n{}\n"])
def test_what_no_cut_leaves_is_no_ledger_whatever_stands_beside_it(run, made, tmp_path, left) -> None:
    done = run("verify", cut(made, tmp_path, left, "both"), "--json")
    assert (done.code, set(done.json["counts"])) == (3, {"K3L-NOT-A-LEDGER"})


@pytest.mark.parametrize("left", [b"", b'{"ent'])
def test_a_head_that_cannot_be_read_shows_a_cut_as_well(run, made, tmp_path, left) -> None:
    folder = cut(made, tmp_path, left, "the newest")
    (folder / "checkpoint").write_bytes(b"no note\n")
    assert run("verify", folder).code == 1
    (folder / "checkpoint").unlink()
    (folder / "checkpoint").mkdir()
    done = run("verify", folder, "--json")
    assert (done.code, "K3L-CHECKPOINT-UNREADABLE" in done.json["counts"]) == (3, True)


@pytest.mark.parametrize("left", [b"", b'{"ent'])
def test_a_remembered_head_shows_a_cut_where_the_logs_own_are_gone(run, made, tmp_path, left) -> None:
    (tmp_path / "seen").write_bytes((made / "checkpoint").read_bytes())
    done = run("verify", cut(made, tmp_path, left, "none"), "--expect-head", "seen", "--json")
    assert (done.code, "K3L-ROLLBACK" in done.json["counts"]) == (1, True)

"""A commit is named only of the files that run, and only these are in a patch: with repositories that git made."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.engine import machine, provenance
from k3_ledger.engine.provenance import probe_source, source_manifest
from k3_ledger.engine.runner.run import PACKAGES

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = (None, b"")
SECRET = b"password = hunter2\n"


@dataclass(frozen=True)
class Repository:
    """One that git made, with two packages and a file of another kind."""

    top: Path

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.top), "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, *words: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "next", *words)
        return self.git("rev-parse", "HEAD")

    @property
    def packages(self) -> list[Path]:
        return [self.top / "engine" / "k3" / "engine", self.top / "kernels" / "k3" / "kernels"]

    @property
    def module(self) -> Path:
        return self.packages[0] / "part" / "module.py"

    def probe(self) -> tuple[str | None, bool, bytes]:
        source, patch = probe_source(self.packages)
        assert source is not None
        assert source.patch_sha256 == (hashlib.sha256(patch).hexdigest() if patch else None)
        return source.commit, source.dirty, patch


def packages_in(folder: Path) -> list[Path]:
    """Two packages there, as an installation puts them beside one another."""
    made = [folder / "k3" / "engine", folder / "k3" / "kernels"]
    for package in made:
        (package / "part").mkdir(parents=True)
        (package / "__init__.py").write_text("one = 1\n")
        (package / "part" / "module.py").write_text("two = 2\nthree = 3\n")
    return made


def repository(top: Path, *options: str) -> Repository:
    made = Repository(top)
    top.mkdir(exist_ok=True)
    made.git("init", "-q", *options)
    for package in made.packages:
        shutil.copytree(packages_in(top.parent / f"made-{package.name}-{top.name}")[0], package)
    (top / "thesis.txt").write_text("hello\n")
    (top / ".gitignore").write_text(".venv\n")
    made.commit()
    return made


@pytest.fixture
def ours(tmp_path: Path) -> Repository:
    return repository(tmp_path / "ours")


def head(made: Repository) -> str:
    return made.git("rev-parse", "HEAD")


def given_by(made: Repository, commit: str, patch: bytes, place: Path) -> bytes:
    """The manifest of what commit and patch give."""
    made.git("worktree", "add", "-q", "--detach", str(place), commit)
    again = Repository(place)
    (kept := place.parent / "source.patch").write_bytes(patch)
    again.git("apply", "--binary", str(kept))
    return source_manifest(again.packages)


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)])
def test_a_checkout_that_runs_as_it_was_committed_is_its_commit(options: tuple[str, ...], tmp_path: Path) -> None:
    made = repository(tmp_path / "ours", *options)
    assert made.probe() == (head(made), False, b"")


def test_no_repository_is_no_source(tmp_path: Path) -> None:
    assert probe_source(packages_in(tmp_path)) == NOTHING


def test_no_git_is_no_source(ours: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert probe_source(ours.packages) == NOTHING


def test_a_repository_without_a_commit_is_no_source(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    made.git("init", "-q")
    installed = packages_in(tmp_path)
    made.git("add", "-A")
    assert probe_source(installed) == NOTHING


@pytest.mark.parametrize("folder", [".venv", "environment"])
@pytest.mark.parametrize("changed", [False, True])
def test_what_is_installed_within_somebody_elses_repository_is_not_of_its_commit(
    folder: str, changed: bool, tmp_path: Path
) -> None:
    """Whether the environment is ignored there or not; and nothing of it is kept."""
    made = Repository(tmp_path)
    made.git("init", "-q")
    (tmp_path / "thesis.txt").write_text("hello\n")
    (tmp_path / ".gitignore").write_text(".venv\n")
    made.commit()
    if changed:
        (tmp_path / "thesis.txt").write_bytes(SECRET)
    assert probe_source(packages_in(tmp_path / folder / "lib" / "site-packages")) == NOTHING


def test_what_is_installed_within_our_own_checkout_is_not_of_the_commit_that_is_checked_out(ours: Repository) -> None:
    installed = packages_in(ours.top / ".venv" / "lib" / "site-packages")
    ours.module.write_text("two = 3\n")
    ours.commit()
    assert probe_source(installed) == NOTHING
    assert ours.probe() == (head(ours), False, b"")


def test_packages_of_which_a_repository_tracks_one_are_not_of_its_commit(ours: Repository, tmp_path: Path) -> None:
    other = repository(tmp_path / "other")
    installed = packages_in(ours.top / ".venv")
    for mixed in (
        [ours.packages[0], other.packages[1]],
        [ours.packages[0], installed[1]],
        [*ours.packages, *installed],
    ):
        assert probe_source(mixed) == NOTHING


def test_a_repository_within_the_repository_is_another(ours: Repository) -> None:
    Repository(ours.packages[0]).git("init", "-q")
    assert probe_source(ours.packages) == NOTHING
    assert probe_source(ours.packages[::-1]) != NOTHING, "seen from outside, the files are tracked"


def test_unrelated_changes_make_nothing_dirty_and_are_not_kept(ours: Repository) -> None:
    (ours.top / "thesis.txt").write_bytes(SECRET)
    (ours.top / "notes.py").write_bytes(SECRET)
    (ours.packages[0] / "notes.txt").write_bytes(SECRET)
    assert ours.probe() == (head(ours), False, b"")
    ours.git("add", "-A")
    assert ours.probe() == (head(ours), False, b"")
    ours.commit()
    (ours.packages[0] / "notes.txt").write_bytes(2 * SECRET)
    assert ours.probe() == (head(ours), False, b"")


def test_what_stands_in_for_a_commit_is_not_that_commit(ours: Repository) -> None:
    """A repository can be told to show another commit in the place of one."""
    said = head(ours)
    ours.module.write_text("two = 3\n")
    ours.git("replace", said, ours.commit())
    ours.git("checkout", "-q", said)
    assert ours.module.read_text() == "two = 3\n"
    assert ours.probe()[:2] == (said, True)


CHANGES = {
    "edited": lambda ours: ours.module.write_bytes(b"two = 22\nthree = 3\n"),
    "no text": lambda ours: ours.module.write_bytes(b"gr\xfcn\x00\n"),
    "no last newline": lambda ours: ours.module.write_bytes(b"two = 2"),
    "emptied": lambda ours: ours.module.write_bytes(b""),
    "deleted": lambda ours: ours.module.unlink(),
    "renamed": lambda ours: ours.git("mv", str(ours.module), str(ours.module.parent / "other.py")),
    "new": lambda ours: (ours.module.parent / "new [1].py").write_text("four = 4\n"),
    "looks like a header": lambda ours: ours.module.write_text("index 00..11\n--- a/x\n"),
}


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_commit_and_patch_give_the_files_that_ran(change: str, staged: bool, ours: Repository, tmp_path: Path) -> None:
    (ours.top / "thesis.txt").write_bytes(SECRET)
    CHANGES[change](ours)
    ours.git("add", "-A") if staged else ours.git("add", "-N", ".")
    commit, dirty, patch = ours.probe()
    assert (commit, dirty) == (head(ours), True)
    assert SECRET not in patch
    assert given_by(ours, str(commit), patch, tmp_path / "again") == source_manifest(ours.packages)


def test_a_file_that_git_does_not_track_is_dirty_and_not_in_the_patch(ours: Repository) -> None:
    (ours.packages[1] / "scratch.py").write_bytes(SECRET)
    assert ours.probe() == (head(ours), True, b"")
    ours.module.write_text("two = 3\n")
    commit, dirty, patch = ours.probe()
    assert (commit, dirty) == (head(ours), True)
    assert b"+two = 3" in patch
    assert SECRET not in patch


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_was_told_not_to_look_at_gives_no_clean_commit(flag: str, ours: Repository) -> None:
    ours.git("update-index", flag, str(ours.module))
    assert ours.probe() == (head(ours), False, b"")
    ours.module.write_text("two = 3\n")
    assert probe_source(ours.packages) == NOTHING


@pytest.mark.parametrize("others", [False, True])
def test_a_file_that_git_was_told_not_to_look_at_is_not_taken_for_one_that_it_sees(
    others: bool, ours: Repository
) -> None:
    """What the patch makes of another file says nothing of this one."""
    ours.git("update-index", "--assume-unchanged", str(ours.module))
    for path in (ours.module, ours.packages[1] / "part" / "module.py"):
        path.write_text("two = 9\n")
    if others:
        (ours.packages[0] / "__init__.py").write_text("two = 9\n")
    assert probe_source(ours.packages) == NOTHING


def test_a_file_that_is_converted_is_not_taken_for_one_that_is_not(ours: Repository) -> None:
    """Both are changed, and to the same bytes; of one the patch gives others."""
    (ours.top / ".gitattributes").write_text("engine/**/module.py text\nkernels/** -text\n")
    for package in ours.packages:
        (package / "part" / "module.py").write_bytes(b"two = 9\r\n")
    assert probe_source(ours.packages) == NOTHING


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_is_gone_where_git_was_told_not_to_look_gives_no_commit(flag: str, ours: Repository) -> None:
    """As in a sparse checkout: the commit holds a module that did not run."""
    ours.git("update-index", flag, str(ours.module))
    ours.module.unlink()
    assert probe_source(ours.packages) == NOTHING
    (ours.packages[1] / "part" / "module.py").write_text("two = 9\n")
    assert probe_source(ours.packages) == NOTHING


def test_what_cannot_be_read_is_no_source(ours: Repository) -> None:
    """Editors leave a link to nowhere beside an open file."""
    plain = source_manifest(ours.packages)
    (ours.packages[0] / ".#module.py").symlink_to("me@host.1:2")
    (ours.packages[0] / "folder.py").mkdir()
    os.mkfifo(ours.packages[0] / "pipe.py")
    assert source_manifest(ours.packages) == plain
    assert ours.probe() == (head(ours), False, b"")


def test_a_file_that_goes_while_it_is_read_is_no_source(ours: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: Path) -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr("pathlib.Path.read_bytes", gone)
    assert source_manifest(ours.packages) == b""


def test_bytes_that_git_converts_are_not_what_is_committed(ours: Repository) -> None:
    (ours.top / ".gitattributes").write_text("*.py text\n")
    ours.module.write_bytes(b"two = 2\r\nthree = 3\r\n")
    assert probe_source(ours.packages) == NOTHING


@pytest.mark.parametrize("kind", ["worktree", "shallow"])
def test_other_checkouts_are_checkouts(kind: str, ours: Repository, tmp_path: Path) -> None:
    ours.module.write_text("two = 3\n")
    ours.commit()
    if kind == "worktree":
        ours.git("worktree", "add", "-q", "--detach", str(tmp_path / "other"), "HEAD~1")
    else:
        ours.git("clone", "-q", "--depth", "1", f"file://{ours.top}", str(tmp_path / "other"))
    other = Repository(tmp_path / "other")
    assert other.probe() == (head(other), False, b"")
    other.module.write_text("two = 4\n")
    assert other.probe()[:2] == (head(other), True)


def test_a_link_to_the_checkout_is_the_checkout(ours: Repository, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ours.top)
    assert Repository(tmp_path / "link").probe() == (head(ours), False, b"")


def test_a_checkout_that_is_one_package_is_a_checkout(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    made.git("init", "-q")
    (tmp_path / "module.py").write_text("one = 1\n")
    commit = made.commit()
    source, patch = probe_source([tmp_path])
    assert source is not None
    assert (source.commit, source.dirty, patch) == (commit, False, b"")


def test_nothing_that_is_set_for_another_repository_counts(
    ours: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As within a hook, which git runs with the place of its own repository in the environment."""
    other = repository(tmp_path / "other")
    other.module.write_text("two = 3\n")
    other.commit()
    expected = (head(ours), False, b"")
    monkeypatch.setenv("GIT_DIR", str(other.top / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.top))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/bin/true")
    assert ours.probe() == expected


SETTINGS = {
    "color.ui": "always",
    "diff.noprefix": "true",
    "diff.external": "/bin/true",
    "diff.context": "0",
    "diff.interHunkContext": "9",
    "diff.orderFile": "/nowhere",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_setting_of_the_user_changes_a_patch(name: str, ours: Repository, tmp_path: Path) -> None:
    lines = [f"x{number} = {number}\n" for number in range(40)]
    ours.module.write_text("".join(lines))
    ours.commit()
    ours.module.write_text("".join(["y = 1\n", *lines[:15], "y = 2\n", *lines[15:27], *lines[28:]]))
    (ours.packages[0] / "__init__.py").write_text("one = 2\n")
    plain = ours.probe()
    ours.git("config", name, SETTINGS[name])
    assert ours.probe() == plain
    assert given_by(ours, head(ours), plain[2], tmp_path / "again") == source_manifest(ours.packages)


def test_no_converter_of_the_user_changes_a_patch(ours: Repository, tmp_path: Path) -> None:
    ours.module.write_text("two = 4\n")
    plain = ours.probe()
    (ours.top / ".git" / "info" / "attributes").write_text("*.py diff=shown\n")
    ours.git("config", "diff.shown.textconv", "sed s/t/T/")
    assert ours.probe() == plain
    assert given_by(ours, head(ours), plain[2], tmp_path / "again") == source_manifest(ours.packages)


def test_looking_starts_no_program_of_the_user(ours: Repository, tmp_path: Path) -> None:
    monitor, started = tmp_path / "monitor", tmp_path / "started"
    monitor.write_text(f"#!/bin/sh\ntouch {started}\nexit 1\n")
    monitor.chmod(0o755)
    ours.git("config", "core.fsmonitor", str(monitor))
    ours.git("update-index", "--fsmonitor")
    started.unlink(missing_ok=True)
    assert ours.probe() == (head(ours), False, b"")
    assert not started.exists()


@pytest.mark.parametrize("fails", ["ls-tree", "--binary", "--name-only"])
def test_what_git_does_not_say_is_not_known(fails: str, ours: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(command: list[str], **options: Any) -> machine.Said:
        return machine.Said(b"", "no") if fails in command else asked(command, **options)

    asked = machine.ask
    monkeypatch.setattr(provenance, "ask", ask)
    assert probe_source(ours.packages) == NOTHING


def test_the_packages_that_run_are_those_of_the_build_digest() -> None:
    lines = source_manifest(PACKAGES).decode().splitlines()
    assert {line.split("  ")[1].split("/")[0] for line in lines} == {"engine", "kernels"}
    paths = [os.path.relpath(path, folder.parent) for folder in PACKAGES for path in folder.rglob("*.py")]
    assert sorted(line.split("  ")[1] for line in lines) == sorted(paths)

"""Engines that tamper with the folder that they work in: nothing is read from it but the rows that were asked for.

Each runs as a real process. A control holds that the same engine without the tampering is measured to its end.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from k3_ledger.engine.runner import channel
from k3_ledger.engine.runner.channel import Channel
from k3_ledger.engine.runner.folder import Folder, working_folder
from k3_ledger.engine.runner.sources import ProcessSource
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code
from tests.engine.cheats import liars
from tests.engine.cheats.test_cheats import CERTAIN, TIMED, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.engine.parity.rows import Rows
    from k3_ledger.engine.runner.session import Session

SECRET = b"SIGNING-KEY-OF-SOMEBODY\n"
BEGIN = f"""
import os, sys, json, socket
sys.path.insert(0, {str(Path(liars.__file__).parent)!r})
from pathlib import Path
from liars import Engine
from engine import VOCABULARY
print("words of the engine", file=sys.stderr, flush=True)
secret, here = Path(sys.argv[1]), Path.cwd()
"""
AT_START = {
    "does nothing": "",
    "links the name of its standard error to a secret": 'os.symlink(secret, "stderr.txt")',
    "makes a pipe of it": 'os.mkfifo("stderr.txt")',
    "makes a folder of it": 'os.mkdir("stderr.txt")',
    "makes a socket of it": 'socket.socket(socket.AF_UNIX).bind("stderr.txt")',
    "links its own standard error into the folder": """
try: os.link("/proc/self/fd/2", "stderr.txt", follow_symlinks=True)
except OSError: pass
""",
    "fills its folder with links, pipes and sockets": """
for at in range(5):
    os.symlink(secret, f"link{at}"); os.mkfifo(f"pipe{at}"); os.symlink("/", f"root{at}"); os.mkdir(f"shut{at}")
    Path(f"shut{at}/inner").touch(); os.chmod(f"shut{at}", 0)
""",
    "nests folders without end": """
for _ in range(3000):
    os.mkdir("d"); os.chdir("d")
os.chdir(here)
""",
}
"""None of these is any concern of the controller's: the engine is measured to its end."""
TAKES_AWAY = {
    "removes its folder": "os.rmdir(here)",
    "removes its folder and puts a link to another in its place": """
os.rmdir(here); (here.parent / "other").mkdir(); os.symlink(here.parent / "other", here)
""",
    "moves its folder and puts a link to another in its place": """
os.rename(here, here.with_name("moved")); (here.parent / "other").mkdir(); os.symlink(here.parent / "other", here)
""",
    "moves its folder and puts a pipe in its place": 'os.rename(here, here.with_name("moved")); os.mkfifo(here)',
}
"""Its rows are then not where they were asked for: that is said, and nothing is followed."""
ROWS = {
    "hands over nothing": "",
    "hands over a link to a secret": "os.symlink(secret, out)",
    "hands over a link to itself": "os.symlink(out, out)",
    "hands over a pipe": "os.mkfifo(out)",
    "hands over a folder": "os.mkdir(out)",
    "hands over a folder that is not empty": 'os.makedirs(out + "/rows")',
    "hands over a socket": "os.chdir(os.path.dirname(out)); socket.socket(socket.AF_UNIX).bind(os.path.basename(out))",
    "hands over a terminal's end": "os.symlink(os.ttyname(os.openpty()[1]), out)",
    "hands over memory of a process": 'os.symlink("/proc/self/mem", out)',
    "hands over one byte too many": 'Path(out).write_bytes(b"x" * (4 * VOCABULARY * request["count"] + 1))',
    "hands over a sparse file of a terabyte": "os.truncate(os.open(out, os.O_CREAT | os.O_WRONLY), (1 << 30) - 1)",
}
SAYS_WHAT_IS_NO_INTEGER = {
    "rows": '{"rows": float(request["count"]), "vocabulary": VOCABULARY}',
    "a row": '{"rows": True, "vocabulary": VOCABULARY}',
    "a vocabulary": '{"rows": request["count"], "vocabulary": float(VOCABULARY)}',
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_QUIT_SECONDS", 0.2)


def engine(start: str, logits: str = "", tmp: Path = Path()) -> list[str]:
    secret = tmp / "secret"
    secret.write_bytes(SECRET)
    body = [f"        {line}" for line in logits.splitlines()] or ["        return super().logits(request)"]
    made = "class Made(Engine):\n    def logits(self, request):\n        out = request['out']\n" + "\n".join(body)
    return [sys.executable, "-S", "-c", f"{BEGIN}{start}\n{made}\nMade().serve()\n", str(secret)]


def measured(command: list[str]) -> tuple[Session, set[Code]]:
    with working_folder() as folder:
        result = measure(command, folder, CERTAIN, 30.0)
    assert not folder.exists()
    return result


@pytest.mark.parametrize("start", AT_START.values(), ids=AT_START)
def test_what_stands_in_its_folder_is_never_read_for_what_it_wrote(start: str, tmp_path: Path) -> None:
    session, refused = measured(engine(start, tmp=tmp_path))
    assert session.stderr == b"words of the engine\n"
    assert refused <= TIMED
    assert session.stage == "done"


@pytest.mark.parametrize("start", TAKES_AWAY.values(), ids=TAKES_AWAY)
def test_a_folder_that_was_taken_away_is_refused_and_what_stands_there_now_is_left_alone(
    start: str, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    session, refused = measure(engine(start, tmp=tmp_path), folder, CERTAIN, 30.0)
    assert session.stderr.startswith(b"words of the engine\n")
    assert refused & {Code.RUN_PROTOCOL, Code.RUN_ENGINE_FAILED}
    assert b"SIGNING" not in session.stderr


def rows_of(logits: str, tmp: Path) -> Rows:
    with (
        working_folder() as path,
        Folder(path) as folder,
        Channel(engine("", logits, tmp), path, timeout_s=30) as asked,
    ):
        return ProcessSource(asked, "liar", "1", liars.VOCABULARY, folder).rows([1, 2, 3], 1, "prefill")


def test_honest_rows_are_taken_and_their_file_is_removed(tmp_path: Path) -> None:
    assert rows_of("", tmp_path).values.shape == (1, liars.VOCABULARY)


@pytest.mark.parametrize("handed", ROWS.values(), ids=ROWS)
def test_rows_that_are_no_file_of_their_size_are_refused(handed: str, tmp_path: Path) -> None:
    said = 'return {"rows": request["count"], "vocabulary": VOCABULARY, "processing": "raw"}'
    with pytest.raises(RunError, match="size they should be") as caught:
        rows_of(f"{handed}\n{said}", tmp_path)
    assert caught.value.code is Code.RUN_PROTOCOL


@pytest.mark.parametrize("said", SAYS_WHAT_IS_NO_INTEGER.values(), ids=SAYS_WHAT_IS_NO_INTEGER)
def test_rows_are_counted_in_integers(said: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="size they should be"):
        rows_of(f"super().logits(request)\nreturn {said}", tmp_path)


def test_standard_error_is_read_to_its_end_wherever_the_engine_left_the_offset(tmp_path: Path) -> None:
    """The engine holds the same open file: it can move the offset, cut the file, and open it again."""
    moves = "import os; os.write(2, b'all of it'); os.lseek(2, 3, 0); os.open('/proc/self/fd/2', os.O_RDWR); input()"
    with Channel([sys.executable, "-S", "-c", moves], tmp_path) as started:
        with pytest.raises(RunError):
            started.ask("hello")
        assert started.stderr().startswith(b"all of it")
    assert list(tmp_path.iterdir()) == []


def test_what_an_engine_left_is_removed_and_nothing_that_it_links_to(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_bytes(SECRET)
    with working_folder() as folder:
        (folder / "link").symlink_to(kept)
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "link").symlink_to(kept)
        os.mkfifo(folder / "a" / "pipe")
    assert not folder.exists()
    assert (kept / "file").read_bytes() == SECRET


def test_a_link_in_its_place_is_not_emptied(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_bytes(SECRET)
    with working_folder() as folder:
        folder.rename(tmp_path / "moved")
        folder.symlink_to(kept)
    assert (kept / "file").read_bytes() == SECRET
    assert list((tmp_path / "moved").iterdir()) == []
    folder.unlink()


def test_empty_files_and_folders_count_and_counting_ends_at_the_limit(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").touch()
        (tmp_path / f"d{number}").mkdir()
    (tmp_path / "root").symlink_to("/")
    with Folder(tmp_path) as folder:
        assert folder.size(1 << 40) >= 101 * 4096
        assert folder.size(1 << 40) < 1 << 24, "a link was followed"
        assert folder.size(5 * 4096) < 10 * 4096


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, and nobody's rights: root may look into everything."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))  # others have no way into that of pytest
    place.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield place
    finally:
        os.seteuid(user)
        shutil.rmtree(place)


@pytest.mark.parametrize("mode", [0, 0o400, 0o500, 0o555])
def test_folders_that_an_engine_shut_are_counted_and_removed(shared: Path, mode: int) -> None:
    """Caches of packages are kept without the right to write; an engine may hide what it fills its folder with."""
    with working_folder() as path, Folder(path) as folder:
        within = path / "a" / "b" / "c"
        within.mkdir(parents=True)
        (within / "big").write_bytes(bytes(1 << 20))
        for shut in (within, *within.parents[:3]):
            shut.chmod(mode)
        assert folder.size(1 << 40) >= 1 << 20
    assert list(shared.iterdir()) == []

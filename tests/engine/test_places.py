"""Nothing that a bundle keeps holds a folder of the machine that made it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.engine.adapters import READERS, Told
from k3_ledger.engine.adapters.write import Origin, bundle_reading
from k3_ledger.engine.places import Places
from k3_ledger.engine.runner import run as runner
from k3_ledger.engine.runner.measure import Plan
from k3_ledger.engine.runner.run import Request
from tests.engine.adapters.test_adapters import llama
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = Plan(context=8, decode_tokens=4, repetitions=3, most_repetitions=3, warmup=0, shortest_ns=1, most_extra=8)
DEEP = Path("/srv/models of acme/k3-00001-of-00002.gguf")


def everything(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def check(folder: Path, *more: Path) -> None:
    kept = everything(folder)
    for place in (ROOT, Path.cwd(), Path(sys.prefix), Path.home(), Path(__file__), folder.parent, *more):
        if len(place.parts) > 1:
            assert str(place).encode() not in kept, place
            assert str(place.resolve()).encode() not in kept, place


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the environment names everywhere."""
    place = tmp_path / "clients of ours" / "acme"
    place.mkdir(parents=True)
    for name, old in (("PYTHONPATH", os.pathsep.join(sys.path)), ("PATH", os.environ["PATH"]), ("LD_LIBRARY_PATH", "")):
        monkeypatch.setenv(name, f"{old}{os.pathsep}{place}")
    monkeypatch.setenv("HOME", str(place))
    return place


def request(model: Path, out: Path, hidden: Path, **changes: Any) -> Request:
    command = ("k3-ledger", "run", "--model", str(model), f"--out={out}", "--", f"{hidden}/engine")
    plain: dict[str, Any] = {"plan": SMALL, "depths": (4,), "rows": 1, "own_reference": True, "command": command}
    return Request(model, "m", out, "here", **(plain | changes))


def test_a_run_keeps_no_path(synthetic: Callable[..., Path], tmp_path: Path, hidden: Path) -> None:
    model = hidden / "m.gguf"
    model.write_bytes(synthetic("tiny").read_bytes())
    outcome = runner.run(request(model, tmp_path / "b", hidden))
    assert {"observations.json", "prompts.txt"} < {one.name for one in outcome.measurement.artifacts}
    check(tmp_path / "b", model, hidden, Path("/") / hidden.parent.name)
    command = outcome.measurement.machine.command
    assert command[:5] == ("k3-ledger", "run", "--model", "{model}", "--out={out}")
    environment = next(one for one in outcome.measurement.artifacts if one.name == "environment.json")
    values = json.loads((tmp_path / "b" / "blobs" / environment.sha256).read_bytes())
    assert values["HOME"] == values["TMPDIR"] == "{folder}"
    assert "{path:" in values["PATH"]


def test_a_run_that_fails_keeps_no_path(synthetic: Callable[..., Path], tmp_path: Path, hidden: Path) -> None:
    """The engine prints its folder, the model's and one that nobody named; its error and its end are kept."""
    model = hidden / "m.gguf"
    model.write_bytes(synthetic("tiny").read_bytes())
    says = f"echo $PWD {model} file:///srv/acme FILE:///srv/acme -I/srv/acme '\"/srv/acme\"' >&2; exit 3"
    for name, engine in (("a", ("sh", "-c", says)), ("b", (f"{hidden}/no-such-engine",))):
        outcome = runner.run(request(model, tmp_path / name, hidden, engine=engine))
        assert outcome.kind == "failed"
        check(tmp_path / name, model, hidden, Path("/srv/acme"))
    stderr = next(one for one in outcome.measurement.artifacts if one.name == "findings.json")
    assert b"{path:" in (tmp_path / "b" / "blobs" / stderr.sha256).read_bytes()


TALKATIVE = """
from k3_ledger.engine.runner import serve
answer = serve.Server.answer
def talk(self, request):
    reply = answer(self, request)
    if request["op"] == "hello":
        reply["version"] = "1.0 of /srv/acme/build"
    if request["op"] == "kernels":
        reply = {"kernels": [{"op": "/srv/acme/kernels a.cu", "file": "from=/srv/acme/b.cu", "calls": 1}]}
    return reply
serve.Server.answer = talk
serve.main()
"""


def test_an_engine_that_names_its_folders_publishes_none(
    synthetic: Callable[..., Path], tmp_path: Path, hidden: Path
) -> None:
    model, program = hidden / "m.gguf", hidden / "engine.py"
    model.write_bytes(synthetic("tiny").read_bytes())
    program.write_text(TALKATIVE)
    engine = (sys.executable, str(program), "--model", str(model), "--context", "64")
    outcome = runner.run(request(model, tmp_path / "b", hidden, engine=engine))
    assert outcome.kind == "run", outcome.findings
    check(tmp_path / "b", model, hidden, Path("/srv/acme"))
    assert outcome.measurement.subject.version.startswith("1.0 of {path:")
    (kernels,) = [one for one in outcome.measurement.artifacts if one.name == "kernels.json"]
    assert (tmp_path / "b" / "blobs" / kernels.sha256).read_bytes().count(b"{path:") == 2


@pytest.mark.parametrize("escape", [False, True])
def test_another_tools_file_keeps_no_path(tmp_path: Path, *, escape: bool) -> None:
    """However its path is spelled; every other byte stays, and the file as it was can be recognised."""
    test = llama(model_filename=str(DEEP))
    data = json.dumps([test], indent=3).encode()
    if escape:
        data = data.replace(b"/srv", b"\\/srv")
    reading = READERS["llama-bench"](data, Told(warmup=0))
    ran = ("llama-bench", "-m", str(DEEP), f"--log={DEEP}", "-p", "512")
    _, body = bundle_reading(reading, data, "llama-bench.json", Origin("here", ran), tmp_path / "b")
    check(tmp_path / "b", DEEP, DEEP.parent)
    assert b"acme" not in everything(tmp_path / "b")
    kept = {one.name: (tmp_path / "b" / "blobs" / one.sha256).read_bytes() for one in body.artifacts}
    name = json.loads(kept["llama-bench.json"])[0]["model_filename"]
    assert kept["llama-bench.json"].replace(name.encode(), b"X") == data.replace(
        json.dumps(str(DEEP))[1:-1].replace("/srv", "\\/srv" if escape else "/srv").encode(), b"X"
    )
    assert kept["original.sha256"].endswith(b"  llama-bench.json\n")
    assert body.machine.command == ("llama-bench", "-m", name, f"--log={name}", "-p", "512")


PLACES = Places({"model": Path("/data/k3.gguf"), "folder": Path("/tmp/k3-run")})
STAYS = (
    "/usr/bin/env",
    "https://example.org/a/b",
    "a/b",
    "1/2 tok/s",
    "~/x",
    "either / or",
    "//",
    "{model}/x",
    "/proc/1",
)


@pytest.mark.parametrize("text", STAYS)
def test_what_is_no_path_of_this_machine_stays(text: str) -> None:
    assert PLACES.text(text) == text
    assert PLACES.words([text]) == (text,)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/data/k3.gguf", "{model}"),
        ("at /tmp/k3-run/x.py:3", "at {folder}/x.py:3"),
        ("/data/k3.gguf2", "{path:f0}"),
        ("/data/k3", "{path:f1}"),
        ("/usrlocal/x", "{path:f2}"),
        ("(/home/a), '/home/a': /home/a; [/home/a]", "({path:f3}), '{path:f3}': {path:f3}; [{path:f3}]"),
    ],
)
def test_a_place_has_its_name_and_any_other_path_a_digest(text: str, clean: str) -> None:
    found = PLACES.text(text)
    for digest in dict.fromkeys(part.partition("}")[0] for part in found.split("{path:")[1:]):
        assert len(digest) == 16
        found = found.replace(digest, next(name for name in ("f0", "f1", "f2", "f3") if name in clean))
    assert found == clean


def test_two_paths_have_two_digests_and_one_path_has_one() -> None:
    first, second = PLACES.words(["/home/a", "/home/b"])
    assert first != second
    assert PLACES.words(["/home/a", "x=/home/a"]) == (first, f"x={first}")


def test_bytes_that_are_not_text_stay() -> None:
    assert PLACES.lines(b"\xff /data/k3.gguf \xfe") == b"\xff {model} \xfe"

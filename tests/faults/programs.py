"""The commands that faults are injected into, and what must hold after each, whatever happened to it.

Of every command: it ends, with a message and no traceback, and never with the exit code of an accusation. What it said
it did (an acknowledgement on its standard output) was done. The ledger verifies up to a torn tail; ``recover`` makes it
whole; appending, signing its head and verifying under a trust policy that demands everything then succeed.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.checkpoint import parse_checkpoint
from k3_ledger.ledger.core.note import parse_note
from k3_ledger.ledger.writer.append import Draft
from k3_ledger.ledger.writer.keys import load_signer
from k3_ledger.ledger.writer.store import Ledger
from tests.faults.tracing import command, run, run_here
from tests.ledger.writer.support import TIME, artifact, note, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.tracing import Ended, Fault

ORIGIN = "example.org/faults"
LATE = b"what the fault is about\n"
COSIGNED = 6
"""Entries of the ledger when its witness first cosigned."""
TORN = b'{"entry":{"body":{"text":"half an ent'


class Lost(AssertionError):  # noqa: N818 - what happened, not which exception
    """Something that must hold did not."""


def hold(condition: object, message: str) -> None:
    """Complain unless it holds."""
    if not condition:
        raise Lost(message)


def quiet(folder: Path, *words: object, code: int | tuple[int, ...] = 0) -> str:
    """Run a command without faults and give its output; it must end with the exit code."""
    ended = run_here(command(*words), folder)
    wanted = code if isinstance(code, tuple) else (code,)
    hold(
        ended.code in wanted, f"{' '.join(map(str, words))}: exit {ended.code}, not {wanted}: {ended.err or ended.out}"
    )
    return ended.out


# ----------------------------------------------------------------------------------------------------- templates


def make_template(folder: Path) -> None:
    """Keys, a ledger of some entries with a signed head and an index, and things to be appended to it."""
    quiet(folder, "keygen", "root.pem", "log.pem", "runner.pem", "judge.pem")
    enrol = [word for role in ("log", "runner", "judge") for word in ("--enrol", f"{role}={role}.pub.pem")]
    quiet(folder, "init", "ledger", "--origin", ORIGIN, "-k", "root.pem", *enrol, "--time", TIME)
    (folder / "early.txt").write_bytes(b"an early artifact\n")
    (folder / "late.txt").write_bytes(LATE)
    for name in ("early", "late"):
        content = (folder / f"{name}.txt").read_bytes()
        body = {"text": f"a note with the {name} artifact", "artifacts": [artifact(content, f"{name}.txt")]}
        (folder / f"{name}.json").write_text(json.dumps(body))
    append(folder, "early")
    write_bundle(folder / "run-1", {"log": b"first run\n", "samples": b"1 2 3\n"})
    write_bundle(folder / "run-2", {"log": b"second run\n", "samples": b"4 5 6\n"})
    quiet(folder, "seal", "run-1", "-l", "ledger", "-k", "runner.pem")
    quiet(folder, *CHECKPOINT)
    quiet(folder, "index", "-l", "ledger")
    root = re.search(r"root +root +([0-9a-f]{64})", quiet(folder, "key", "ls", "-l", "ledger"))
    assert root is not None
    genesis = json.loads((folder / "ledger" / "ledger.jsonl").read_bytes().split(b"\n")[0])
    public = genesis["entry"]["body"]["root_public_key"]
    (folder / "trust.toml").write_text(f'origin = "{ORIGIN}"\nroot_public_key = "{public}"\nrequire = ["checkpoint"]\n')


def append(folder: Path, name: str) -> None:
    """Append one of the notes of the template."""
    quiet(folder, *appending(name))


def appending(name: str) -> tuple[str, ...]:
    """The command that does."""
    return "append", "note", "-b", f"{name}.json", "--artifact", f"{name}.txt", "-l", "ledger", "-k", "judge.pem"


def with_tail(folder: Path) -> None:
    """A torn tail behind the last entry."""
    with (folder / "ledger" / "ledger.jsonl").open("ab") as file:
        file.write(TORN)


def with_entries(folder: Path) -> None:
    """More entries than the last head and the index cover."""
    append(folder, "late")
    quiet(folder, *SEAL)


# ------------------------------------------------------------------------------------------------------- checks

_ACKNOWLEDGED = re.compile(r"^entry (\d+) ([0-9a-f]{64})(?::.*)\n", re.MULTILINE)
_DURABLE = re.compile(r"\b(?:p?write(?:64)?|f(?:data)?sync|ftruncate|rename\w*)\((?!\d+<(?:pipe|/dev))")
"""A call on which it depends that something lasts; output is none."""
_HEAD = re.compile(r"^head of (\d+) entries, root ([0-9a-f]{64}): .*\n", re.MULTILINE)


def identities(folder: Path) -> list[str]:
    """Identities of the entries of the ledger, read naively: each line names the one before it."""
    import hashlib

    lines = (folder / "ledger" / "ledger.jsonl").read_bytes().split(b"\n")[:-1]
    return [hashlib.sha256(line[len(b'{"entry":') : -98]).hexdigest() for line in lines]


def check_ended(ended: Ended, fault: Fault, *, lasting: bool = True) -> None:
    """A fault is no accusation and no bug: killed, done, or refused in words."""
    hold("Traceback" not in ended.err, f"a traceback:\n{ended.err}")
    if fault.kind == "SIGKILL":
        hold(ended.code is None, f"exit {ended.code} after a kill")
        return
    if lasting and ended.struck and _DURABLE.search(ended.struck):
        hold(ended.code != 0, f"said to be done though the system refused: {ended.struck}")
    # Where no output can be written at all, the interpreter's own last flush fails: 120 is no verdict either.
    codes = (0, 3, 120) if fault.call == "write" and fault.kind.endswith("+") else (0, 3)
    hold(ended.code in codes, f"exit {ended.code} when the system refused: {ended.err}")
    hold(
        ended.code in (0, 120) or "error:" in ended.err + ended.out or "+" in fault.kind,
        f"refused without a word: {ended.err}",
    )


def check_ledger(folder: Path, before: bytes, ended: Ended) -> None:
    """Nothing acknowledged is lost, nobody is accused, recovery works."""
    log = folder / "ledger" / "ledger.jsonl"
    hold(log.read_bytes().startswith(before), "the ledger does not begin as it did")
    now = identities(folder)
    for index, identity in _ACKNOWLEDGED.findall(ended.out):
        hold(int(index) < len(now) and now[int(index)] == identity, f"entry {index} was acknowledged and is lost")
    if "the ledger is as it was" in ended.err:
        known = before.count(b"\n") + len(_ACKNOWLEDGED.findall(ended.out))
        hold(len(now) == known, f"the ledger is not as it was: {len(now)} entries, not {known}")
    heads = [parse_checkpoint(parse_note(path.read_bytes()).text) for path in _notes(folder)]
    for size, root in _HEAD.findall(ended.out):
        hold((int(size), root) in [(head.size, head.root.hex()) for head in heads], f"the head of {size} is lost")
    hold(all(head.size <= len(now) for head in heads), "a signed head commits to entries that are not there")
    torn = ended_with(folder, *VERIFY)
    # 4: the policy demands a head over every entry, and the last ones were never acknowledged or never signed for.
    hold(torn in (0, 4, 5), f"verify ends with {torn} after an honest crash")
    told = quiet(folder, *RECOVER)
    hold(("nothing is torn" in told) == (torn != 5), f"recover and verify disagree: {told}")
    hold(identities(folder) == now, "recover changed an entry")
    append(folder, "late")
    quiet(folder, *CHECKPOINT)
    quiet(folder, *VERIFY)
    listed = json.loads(quiet(folder, *LIST))["entries"]
    hold([row["identity"] for row in listed] == identities(folder), "the index shows another ledger")
    left = list((folder / "ledger" / ".incoming").glob("*"))
    hold(not left, f"a partial file stays behind: {left}")


def ended_with(folder: Path, *words: object) -> int:
    """Exit code of a command without faults."""
    code = run_here(command(*words), folder).code
    assert code is not None
    return code


def _notes(folder: Path) -> list[Path]:
    ledger = folder / "ledger"
    kept = ledger / "checkpoints"
    return [path for path in (ledger / "checkpoint", *(kept.iterdir() if kept.is_dir() else ())) if path.exists()]


# ----------------------------------------------------------------------------------------------------- programs


@dataclass(frozen=True, slots=True)
class Program:
    """One command under faults.

    Attributes:
        name: what the figures call it.
        action: the command.
        prepare: what is done to a copy of the template first.
        check: what must hold beyond :func:`check_ledger`.
        lasting: whether what it writes is promised to last. The index is derived, and SQLite, which looks after it,
            forgives a directory whose sync fails.
        ledger_check: whether :func:`check_ledger` applies.
    """

    name: str
    action: Callable[[], None]
    prepare: Callable[[Path], None] = lambda folder: None
    check: Callable[[Path, Ended, Fault], None] = lambda folder, ended, fault: None
    ledger_check: bool = True
    lasting: bool = True


def append_groups() -> None:
    """Three group commits, each acknowledged once it is on the disk."""
    try:
        ledger = Ledger.open(Path("ledger"))
        with ledger.writer(load_signer(Path("judge.pem"))) as writer:
            for group in range(3):
                texts = [f"group {group} note {number}" for number in range(4)]
                for receipt in writer.append_many(Draft("note", note(text)) for text in texts):
                    print(f"entry {receipt.index} {receipt.identity}: note")
                print(end="", flush=True)
    except Exception as error:
        import sys

        from k3_ledger.cli import _fail_output, fail
        from k3_ledger.schemas.errors import LedgerError

        if isinstance(error, LedgerError):
            sys.exit(fail(error))
        if isinstance(error, OSError):
            sys.exit(_fail_output(error))
        raise


def _stored(folder: Path, ended: Ended, _: Fault) -> None:
    """An artifact that an acknowledged entry names is there (verify re-hashes those of every entry)."""
    for name in re.findall(r"late.txt: ([0-9a-f]{64})", ended.err):
        path = folder / "ledger" / "blobs" / "sha256" / name[:2] / name
        hold(path.read_bytes() == LATE, "an artifact that was stored is lost")


def _sealed_once(folder: Path, ended: Ended, _: Fault) -> None:
    """Sealing again appends it if it was not there and nothing if it was."""
    before = sum(b'"kind":"run"' in line for line in _lines(folder))
    quiet(folder, *SEAL)
    after = sum(b'"kind":"run"' in line for line in _lines(folder))
    hold(after == 2 and before in (1, 2), f"{before} runs, then {after}")


def _lines(folder: Path) -> list[bytes]:
    return (folder / "ledger" / "ledger.jsonl").read_bytes().split(b"\n")[:-1]


def _cut(folder: Path, ended: Ended, _: Fault) -> None:
    """What was cut off is kept, whole."""
    kept = [path.read_bytes() for path in sorted((folder / "ledger" / "recovered").glob("*.torn"))]
    hold(kept == [TORN], f"{len(kept)} pieces are kept aside, not the one that was torn off")


def _begun(folder: Path, ended: Ended, fault: Fault) -> None:
    """A ledger is there with its whole beginning, or not at all, and then it can be made."""
    log = folder / "new" / "ledger.jsonl"
    if not log.exists():
        hold("root public key" not in ended.out, "a ledger was acknowledged and is not there")
        quiet(folder, *INIT)
    quiet(folder, "verify", "new", "--processes", 1)
    hold(log.read_bytes().count(b"\n") == 4, "the ledger has not its whole beginning")


def _published(folder: Path, ended: Ended, fault: Fault) -> None:
    """A mirror is written whole by the next run, and what stood there before is readable at any time."""
    mirror = folder / "mirror"
    if (mirror / "checkpoint").exists():
        code = ended_with(folder, *MIRROR)
        hold(code == 0, f"a mirror with a head verifies with {code}")
    elif "tiles" in ended.out:
        raise Lost("a mirror was acknowledged and has no head")
    quiet(folder, *TILES)
    quiet(folder, *MIRROR)


def with_witness(folder: Path) -> None:
    """A witness that cosigned the head of the ledger; then two ledgers that go on differently, both signed."""
    quiet(folder, "keygen", "witness.pem")
    quiet(folder, "witness", "init", "w", "--name", "witness.example/w", "-k", "witness.pem")
    quiet(folder, "witness", "add-log", ORIGIN, "log.pub.pem", "-s", "w")
    quiet(folder, *cosigning("ledger"))
    shutil.copytree(folder / "ledger", folder / "fork")
    for name, text in (("ledger", "early"), ("fork", "late")):
        words = appending(text)
        quiet(folder, *(name if word == "ledger" else word for word in words))
        quiet(folder, "checkpoint", "-l", name, "-k", "log.pem")


def cosigning(ledger: str) -> tuple[str, ...]:
    """The command by which the witness cosigns the head of a ledger."""
    return "witness", "cosign", ledger, "-s", "w", "-k", "witness.pem"


def _never_a_fork(folder: Path, ended: Ended, fault: Fault) -> None:
    """Of two heads of one size the witness signs one at most, whichever it is asked for first, and one it does sign."""
    said = "witness.example/w" in ended.out
    order = ("ledger", "fork") if fault.nth % 2 else ("fork", "ledger")
    codes = {name: ended_with(folder, *cosigning(name)) for name in order}
    signed = {name for name, code in codes.items() if code == 0} | ({"ledger"} if said else set())
    hold(signed != {"ledger", "fork"}, f"the witness signed a fork: said {said}, then {codes}")
    hold(signed, f"the witness signs nothing any more: {codes}")
    hold(not said or codes["ledger"] == 0, f"the witness refuses what it signed: {codes}")
    _remembers(folder, COSIGNED + 1)


def _remembers(folder: Path, size: int) -> None:
    logs = json.loads(quiet(folder, *WITNESSED))["logs"]
    hold([log["size"] for log in logs] == [size], f"the witness remembers {logs}")
    left = list((folder / "w" / ".incoming").glob("*"))
    hold(not left, f"a partial file stays behind: {left}")


def _still_remembers(folder: Path, ended: Ended, fault: Fault) -> None:
    """Whatever became of a new key of the log, what was cosigned is remembered, and the key can be added."""
    quiet(folder, *ADD_KEY)
    _remembers(folder, COSIGNED)
    _never_a_fork(folder, ended, fault)


def _no_verdict(folder: Path, ended: Ended, fault: Fault) -> None:
    """A disk that cannot be read is exit 3: neither an accusation nor a pass over bytes that were not read."""
    if ended.code is None:
        return
    if "/blobs/" in (ended.struck or ""):
        hold(ended.code == 3 or "K3L-ARTIFACT-UNREADABLE" in ended.out, "an artifact is passed that was not read")
        return
    touched = re.search(r"/(ledger/[^\">]*|trust\.toml|memory)[\">]", ended.struck or "")
    if touched:
        hold(ended.code == 3, f"exit {ended.code} though {touched[1]} could not be read or written")
    with contextlib.suppress(FileNotFoundError):
        hold((folder / "memory").read_bytes(), "the memory is left empty")


INIT = ("init", "new", "--origin", ORIGIN, "-k", "root.pem", *(
    word for role in ("log", "runner", "judge") for word in ("--enrol", f"{role}={role}.pub.pem")
), "--time", TIME)  # fmt: skip
VERIFY = ("verify", "ledger", "--trust", "trust.toml", "--processes", "1")
RECOVER = ("recover", "-l", "ledger")
CHECKPOINT = ("checkpoint", "-l", "ledger", "-k", "log.pem")
LIST = ("ls", "-l", "ledger", "--limit", "0", "--json")
SEAL = ("seal", "run-2", "-l", "ledger", "-k", "runner.pem")
TILES = ("tiles", "ledger", "--out", "mirror")
WITNESSED = ("witness", "ls", "-s", "w", "--json")
ADD_KEY = ("witness", "add-log", ORIGIN, "judge.pub.pem", "-s", "w")
MIRROR = ("verify", "mirror", "--trust", "trust.toml", "--processes", "1")
AFTERWARDS = tuple(command(*words) for words in (RECOVER, appending("late"), SEAL, CHECKPOINT, TILES, VERIFY, LIST))
"""What checks run, to be imported before the first of them."""

PROGRAMS = (
    Program("init", command(*INIT), check=_begun, ledger_check=False),
    Program("append", command(*appending("late")), check=_stored),
    Program("append-many", append_groups),
    Program("seal", command(*SEAL), check=_sealed_once),
    Program("checkpoint", command(*CHECKPOINT), prepare=with_entries),
    Program("witness", command(*cosigning("ledger")), with_witness, _never_a_fork, ledger_check=False),
    Program("witness-keys", command(*ADD_KEY), with_witness, _still_remembers, ledger_check=False),
    Program("recover", command(*RECOVER), prepare=with_tail, check=_cut),
    Program("index", command("index", "-l", "ledger"), prepare=with_entries, lasting=False),
    Program("index-rebuild", command("index", "-l", "ledger", "--rebuild"), prepare=with_entries, lasting=False),
    Program("tiles", command(*TILES), check=_published),
    Program("verify", command(*VERIFY, "--memory", "memory"), check=_no_verdict),
)


def copy_of(template: Path, target: Path) -> Path:
    """A fresh copy of a template."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(template, target)
    return target


def run_case(program: Program, template: Path, scratch: Path, fault: Fault) -> tuple[Ended, str | None]:
    """Inject one fault and hold the consequences to what was promised. Returns how it ended, and what did not hold."""
    folder = copy_of(template, scratch)
    before = (folder / "ledger" / "ledger.jsonl").read_bytes().removesuffix(TORN)
    ended = run(program.action, folder, fault=fault)
    if ended.struck is None:
        return ended, None
    try:
        check_ended(ended, fault, lasting=program.lasting)
        if program.ledger_check:
            check_ledger(folder, before, ended)
        program.check(folder, ended, fault)
    except (Lost, OSError) as error:
        return ended, f"{type(error).__name__}: {error}"
    return ended, None

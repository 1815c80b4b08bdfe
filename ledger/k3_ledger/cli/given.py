"""Files that a user names: where one is not what an option takes, the error says which, what it is and what to give.

A parser knows what is wrong with the bytes as its own kind of file. That somebody gave a public key for a private one,
a directory for a file, or the wrong one of two files, shows only here, where the name and the purpose are known.
"""

from __future__ import annotations

import contextlib
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from k3_ledger.cli.kinds import ENOUGH, KEYS, UNPACKED_WITH, Kind, looks_like
from k3_ledger.cli.sources import is_stream
from k3_ledger.ledger.regular import NO_PIPES, open_regular, read_up_to
from k3_ledger.schemas.errors import LedgerError, MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING: Final = "no file at all"
DIRECTORY: Final = "a directory"
PIPE: Final = "a named pipe or a device"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an option takes.

    Attributes:
        what: in words, behind "not".
        fits: kinds whose faults their own parser explains better.
        hint: what to give.
    """

    what: str
    fits: frozenset[str]
    hint: str


def _wanted(what: str, hint: str, *fits: str) -> Wanted:
    return Wanted(what, frozenset(fits), hint)


_TOML: Final = (Kind.TOML, Kind.EMPTY, Kind.BLANK)
"""TOML that may say nothing at all."""
PRIVATE_KEY: Final = _wanted(
    "a private key file (PKCS#8 PEM)",
    "give the private half; it stands beside the .pub.pem file where `k3-ledger keygen` made it",
    *KEYS,
)
PUBLIC_KEY: Final = _wanted(
    "a public key file (PEM)",
    "give the .pub.pem file that stands beside the private key, or its 64 hexadecimal digits",
    Kind.PUBLIC_KEY,
)
CERTIFICATE: Final = _wanted("a certificate (PEM)", "give the root certificate as a PEM file", Kind.CERTIFICATE)
PASSPHRASE: Final = _wanted(
    "a file with a passphrase in its first line", "write the passphrase into a file of its own, mode 0600", *Kind
)
POLICY: Final = _wanted("a trust policy (TOML)", "`k3-ledger trust init` writes one; see docs/verify.md", Kind.TOML)
CLAIMS: Final = _wanted(
    "a claims file (TOML) or a document with claims blocks",
    "see docs/claims.md for what a claims file says",
    *(Kind.TOML, Kind.TEXT, Kind.HTML),
)
RULE: Final = _wanted("a rule file (TOML)", "`k3-ledger rules show RULE --toml` prints one to begin with", Kind.TOML)
PINS: Final = _wanted("a pins file (TOML)", "see docs/reconcile.md for what a pins file says", *_TOML)
MERGES: Final = _wanted("a file of merges (TOML)", "see docs/reconcile.md for what a merges file says", *_TOML)
BODY: Final = _wanted(
    "the body of an entry (JSON)", "see docs/format-bodies.md for the fields of each kind of entry", Kind.JSON
)
BUNDLE: Final = _wanted(
    "a measurement bundle (a directory, or a tar of it)",
    "give the directory that holds bundle.json and blobs/, or an uncompressed tar of it",
    *(Kind.TAR, Kind.BUNDLE_TAR, DIRECTORY),
)
PROPOSAL: Final = _wanted(
    "a proposal", "give the file that `k3-ledger key … --propose FILE` wrote", *(Kind.PROPOSAL, Kind.JSON)
)
HEAD: Final = _wanted(
    "a checkpoint or a memory of one",
    "give the file checkpoint of an earlier copy of the ledger, or a --memory file",
    *(Kind.CHECKPOINT, Kind.NOTE, Kind.MEMORY, Kind.UTF16),
)
MEMORY: Final = _wanted(
    "a memory of a verified head",
    "name a file that --memory made, or one that is not there yet: verify makes it; a signed head that you kept is for "
    "--expect-head",
    *(Kind.MEMORY, Kind.EMPTY, Kind.BLANK, NOTHING),
)
"""An empty file or one of NUL bytes is what a crash leaves of any file: nothing is lost with it."""
TIMESTAMP: Final = _wanted(
    "an authority's answer (a timestamp response)",
    "ask the authority again: `k3-ledger timestamp request` writes the question",
    *(Kind.TIMESTAMP, Kind.DER),
)
TOKEN: Final = _wanted(
    "the attestation service's answer (JSON)", "see docs/attestation.md for how to ask the service", Kind.JSON
)
MODEL: Final = _wanted("a GGUF model", "give a .gguf file, or make one: `k3-ledger model synth`", Kind.GGUF)
RESULT: Final = _wanted("a tool's result file (JSON)", "give the file that the tool wrote", Kind.JSON, Kind.LOG)
ARTIFACT: Final = _wanted("a file to store", "give a file that is there; a pipe is first written to one", *Kind)
LEDGER_FILE: Final = _wanted(
    "a ledger, a mirror, a proof file or a tar of one",
    "give the ledger's directory, its ledger.jsonl, or a file that `k3-ledger prove` or `bundle pack` wrote",
    *(Kind.LOG, Kind.PROOF, Kind.TAR, Kind.OFFLINE_BUNDLE, Kind.UTF16, DIRECTORY),
)

RUN_LOG: Final = _wanted("the directory of a run log", "give the directory that holds runs/", DIRECTORY)


def standing(path: Path) -> str | None:
    """What stands at a path, in the words of an error; None where the system will not say."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return NOTHING
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return DIRECTORY
    if not stat.S_ISREG(mode):
        return PIPE
    try:
        with open_regular(path) as stream:
            return looks_like(read_up_to(stream, ENOUGH))
    except (LedgerError, OSError):
        return None


@dataclass(slots=True)
class Seen:
    """What was read of a file that is read once, such as standard input; None leaves it to look at the file."""

    data: bytes | None = None


@contextlib.contextmanager
def given(name: Path | str, wanted: Wanted) -> Iterator[Seen]:
    """Around the reading of a file that a user named: an error says which file, what it is and what was wanted.

    Args:
        name: the path as it was given, or words in the place of one.
        wanted: what it was taken for.

    Raises:
        BadParameter: it is ``-``, standard input, where only a file is taken.
    """
    if name == "-" and wanted is not BODY:
        import typer

        from k3_ledger.cli.lazy import NO_DASH

        raise typer.BadParameter(NO_DASH)
    seen = Seen()
    try:
        yield seen
    except LedgerError as error:
        if seen.data is not None:
            found: str | None = looks_like(seen.data[:ENOUGH])
        else:
            found = None if isinstance(name, str) and is_stream(name) else standing(Path(name))
        explain(error, "stdin" if name == "-" else str(name), found, wanted)
        raise


def refuse(name: str, data: bytes, wanted: Wanted, code: Code) -> None:
    """Refuse what does not even look like the kind of file that is wanted.

    Raises:
        MalformedError: it looks like another kind.
    """
    found = looks_like(data[:ENOUGH])
    if found not in wanted.fits:
        error = MalformedError(code, f"this is not {wanted.what}")
        explain(error, name, found, wanted)
        raise error


_OF_ABSENCE: Final = frozenset(
    {Code.UNREADABLE, Code.KEY_FILE_UNREADABLE, Code.STORE_MISSING, Code.BUNDLE_MISSING_FILE}
)
"""What is said where no file stands."""


def explain(error: LedgerError, name: str, found: str | None, wanted: Wanted) -> None:
    """Say of an error about a file what the file is, where it is something else than was wanted."""
    finding = error.finding
    absent = found == NOTHING and finding.code not in _OF_ABSENCE  # words were given, and no path
    if found is None or found in wanted.fits or absent:
        if finding.position.source == Path(name).name:
            error.finding = replace(finding, position=replace(finding.position, source=name))
        return
    code = Code.KEY_FILE_MALFORMED if finding.code is Code.KEY_FILE_EXPOSED else finding.code
    said = f"there is {found}" if found == NOTHING else f"this is {found}"
    error.finding = replace(
        finding,
        code=code,
        message=f"{said}, not {wanted.what}",
        position=Position(source=name),
        expected=None,
        found=None,
        hint=_cure(name, found, wanted),
    )
    error.handed_in = True


def _cure(name: str, found: str, wanted: Wanted) -> str:
    if found in UNPACKED_WITH:
        return f"decompress it first: {UNPACKED_WITH[Kind(found)]} {name}"
    if found == Kind.UTF16:
        return "save it again as UTF-8, without a byte order mark"
    if found in (Kind.EMPTY, Kind.BLANK):
        return f"restore it from a copy; {wanted.hint}"
    if found == PIPE and wanted in (LEDGER_FILE, BODY):
        return NO_PIPES
    if found == NOTHING:
        return f"check the path; {wanted.hint}"
    return wanted.hint

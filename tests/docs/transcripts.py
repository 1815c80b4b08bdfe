"""Runs the ``console`` blocks of a document and compares what they print with what the document shows.

A block holds commands (``$ `` in front, ``> `` for further lines) and under each what it prints, stdout and stderr
together. All blocks of one document run in order in one shell, in a scratch folder that holds this tree's examples
and published ledger at their places. A document shows a real run; what differs between two runs (digests, keys,
signatures, times, durations) is replaced by its kind on both sides before they are compared. ``…`` in the document
stands for any text of one line, or, alone on a line, for any lines. A command that fails is followed by ``echo $?``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from tests.support import ROOT

KINDS: Final = (
    (re.compile(r"\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}(?![A-Za-z0-9+/=])"), "+<verifier-key>"),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{102}=="), "<base64-76>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<sha256>"),
    (re.compile(r"\b[0-9a-f]{8,32}(?:…|\.\.\.)"), "<short-sha256>"),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}="), "<base64-32>"),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}=="), "<base64-64>"),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{91,92}={0,2}(?![A-Za-z0-9+/=])"), "<base64-68>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d ?(?:Z|UTC)"), "<time>"),
    (re.compile(r"\b\d[\d,]*(?:\.\d+)? (?:ns|µs|us|ms|s|seconds?)\b"), "<duration>"),
    (re.compile(r"\b\d[\d,]*(?:\.\d+)? (\w+)/s\b"), r"<rate> \1/s"),
)
ELSEWHERE: Final = {
    "make test": "the build that runs this test",
    "make demo-engine": "the stage of that build which is called so",
}
"""Commands that are not run from here, and who runs them."""
REPLACED: Final = {"make demo": f"{shlex.quote(sys.executable)} docs/examples/demo.py"}
"""Commands that make would wrap in the making of an environment: what is left without that."""
TIMEOUT_SECONDS: Final = 240


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a document and what the document says it prints.

    ``line`` is the line of the command, ``first`` and ``last`` bound the lines of its output: ``first <= n < last``,
    all counted from 1.
    """

    line: int
    command: str
    expected: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Ran:
    """What a step did."""

    step: Step
    printed: str
    status: int


class TranscriptError(AssertionError):
    """A document that does not show what happens."""


def steps(text: str) -> list[Step]:
    """Commands of all console blocks of a Markdown text, in order."""
    found: list[Step] = []
    for token in MarkdownIt().parse(text):
        if token.type != "fence" or token.info.split()[:1] != ["console"]:
            continue
        assert token.map is not None
        command: list[str] = []
        expected: list[str] = []
        start = 0
        for number, line in enumerate([*token.content.splitlines(), "$ "], token.map[0] + 2):
            if line.startswith("$ "):
                if command:
                    first = start + len(command)
                    found.append(Step(start, "\n".join(command), "\n".join(expected), first, number))
                command, expected, start = [line[2:]] if line[2:] else [], [], number
            elif line.startswith("> ") and command and not expected:
                command.append(line[2:])
            elif command:
                expected.append(line)
            else:
                raise TranscriptError(f"line {number}: a console block begins with a command ('$ ')")
    return found


DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
"""Digests and keys, whole."""


def normalised(text: str) -> str:
    """``text`` with everything that differs between two runs replaced by its kind."""
    for pattern, kind in KINDS:
        text = pattern.sub(kind, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def matches(expected: str, printed: str) -> bool:
    """Does ``printed`` agree with what a document shows?"""
    pattern = re.escape(normalised(expected))
    pattern = re.sub(r"(?m)^…\n", "(?:.*\n)*?", pattern.replace("\\\n", "\n"))
    pattern = re.sub(r"(?m)\n…\Z", "(?:\n.*)*", pattern)
    pattern = re.sub(r"\A…\Z", "(?s:.*)", pattern)
    return re.fullmatch(pattern.replace("…", ".*"), normalised(printed)) is not None


def lay_out(folder: Path) -> None:
    """Give ``folder`` what a reader finds in a checkout: examples and the published ledger."""
    for part in ("docs/examples", "published", "published.toml", "README.md", "docs/published.md"):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part)
        elif (ROOT / part).exists():
            shutil.copy(ROOT / part, folder / part)


def run(found: list[Step], folder: Path) -> list[Ran]:
    """Run the steps in one shell inside ``folder``."""
    mark = "k3-transcript-mark"
    script = ""
    steps_here = [step for step in found if bare(step.command) not in ELSEWHERE]
    for step in steps_here:
        command = REPLACED.get(bare(step.command), step.command)
        script += f"{{ {command}\n}} 2>&1; __status=$?; printf '\\n{mark} %s\\n' $__status; (exit $__status)\n"
    done = subprocess.run(
        ["bash", "-c", script],
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
        | {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "COLUMNS": "120",
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    results = re.findall(rf"(?s)(.*?)\n{mark} (\d+)\n", done.stdout)
    if len(results) != len(steps_here):
        raise TranscriptError(f"the shell stopped after {len(results)} of {len(steps_here)} commands:\n{done.stderr}")
    return [Ran(step, printed, int(status)) for step, (printed, status) in zip(steps_here, results, strict=True)]


def check(ran: list[Ran]) -> None:
    """The first step that did not do what the document shows raises."""
    following = [result.step.command for result in ran[1:]] + [""]
    for result, after in zip(ran, following, strict=True):
        step = result.step
        if not matches(step.expected, result.printed):
            shown = f"--- the document shows\n{step.expected}\n--- it printed\n{result.printed}"
            raise TranscriptError(f"line {step.line}: $ {step.command}\n{shown}")
        if result.status and not after.startswith("echo $?"):
            raise TranscriptError(
                f"line {step.line}: $ {step.command}\nexit status {result.status}, and no `echo $?` shows it"
            )
    check_digests(ran)


def check_digests(ran: list[Ran]) -> None:
    """A document is one run: what one run prints twice it shows twice, for a reader compares digests."""
    shown: dict[str, str] = {}
    printed: dict[str, str] = {}
    for result in ran:
        step = result.step
        there, here = DIGEST.findall(step.expected), DIGEST.findall(result.printed)
        if "…" in step.expected or len(there) != len(here):
            continue
        for old, new in zip(there, here, strict=True):
            if shown.setdefault(new, old) != old or printed.setdefault(old, new) != new:
                raise TranscriptError(
                    f"line {step.line}: $ {step.command}\n{old} is shown where one run prints what stands elsewhere as "
                    f"{shown[new]}: the document was recorded in parts"
                )


def recorded(text: str, ran: list[Ran]) -> str:
    """The document as this run shows it, where anything differs; a step that leaves something out keeps its form."""
    try:
        check(ran)
    except TranscriptError:
        pass
    else:
        return text
    lines = text.split("\n")
    for result in reversed(ran):
        step = result.step
        if "…" not in step.expected or not matches(step.expected, result.printed):
            printed = result.printed.strip("\n")
            lines[step.first - 1 : step.last - 1] = printed.split("\n") if printed else []
    return "\n".join(lines)


def bare(command: str) -> str:
    """A command without its trailing comment."""
    return re.sub(r"\s+#.*", "", command).strip()


def main(documents: list[str]) -> int:
    """``python -m tests.docs.transcripts FILE…``: record again, in place, what documents show."""
    for name in documents:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            lay_out(Path(folder))
            path.write_text(recorded(text, run(steps(text), Path(folder))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

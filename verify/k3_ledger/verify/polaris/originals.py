"""Step 10 for `import` entries: what an entry copied out of its originals is what stands in them.

The fields of an import are what rules, pins and claims read, and they are the importer's words. The originals are
artifacts of the entry. So the part of the foreign log that they are is put together again and read as importing reads
it: field by field, with the attestation, the original and the digests that do not come out, the same has to be there.

An entry whose originals are not all here, that names them by digests of their names, or that left some of them out, is
not checked, and neither is one in another format. What ``polaris/1`` copies is frozen: a reading that copies anything
else has another name, or what was imported honestly before would be false.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Outcome, Position
from k3_ledger.verify.artifacts import read_artifact
from k3_ledger.verify.polaris.audit import check_receipt
from k3_ledger.verify.polaris.logtext import read_log
from k3_ledger.verify.polaris.parse import INDEX, LEDGER, parse_log
from k3_ledger.verify.polaris.quotes import read_imports
from k3_ledger.verify.polaris.to_import import (
    ARTIFACTS_OMITTED,
    FORMAT,
    ROUNDS,
    as_name,
    is_digested,
    item_of_advance,
    item_of_round,
    item_of_run,
)
from k3_ledger.verify.receipts import check_import

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.polaris.parse import Run
    from k3_ledger.verify.polaris.to_import import ImportItem
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import ArtifactSource, LogSource

MAX_ORIGINAL: Final = 1 << 26
"""Most bytes that the originals of one entry have together: the longest file that importing takes."""
MAX_AGAIN: Final = 1 << 28
"""Most bytes of originals that are read more than once: entries may name one again and again."""
_ROW: Final = re.compile(rf"({re.escape(LEDGER)}|{re.escape(INDEX)})@([0-9]{{1,9}})")
DIGESTS: Final = frozenset({Code.FOREIGN_HASH})
"""What an audit finds that judging an import rests on, and that its originals show by themselves."""


class _NotHereError(Exception):
    """Not all originals of an entry can be read again."""


def check_originals(scan: Scan, source: LogSource) -> None:
    """Hold the imports that count against their originals; tallies and findings are added to ``scan``.

    Args:
        scan: what the pass found, of a log that is here in whole.
        source: where the log and the artifacts come from.

    Raises:
        StoreError: the log could not be read again, or is no longer what was verified.
    """
    originals = Originals(source)
    tally = scan.tallies["receipts"]
    held = left = 0
    for position, body in read_imports(scan, source):
        if any(check_import(body)):
            continue  # it names no original, as was said
        outcome, finding = originals.check(body)
        held += outcome is not Outcome.NOT_CHECKED
        left += outcome is Outcome.NOT_CHECKED
        tally.failed += outcome is Outcome.FAIL
        if finding is not None:
            scan.findings.add(replace(finding, position=scan.place(position, finding.position.field)))
    tally.checked -= left
    tally.not_checked += left
    said = (f"{held} imports held against their originals" if held else "", describe_open(left))
    tally.detail = "; ".join(filter(None, (tally.detail, *said)))


class Originals:
    """Artifacts that imports are held against.

    Args:
        source: where they come from.
    """

    def __init__(self, source: ArtifactSource) -> None:
        self._source = source
        self._seen: set[str] = set()
        self._again = 0

    def check(self, body: Any) -> tuple[Outcome, Finding | None]:
        """What became of one import, and what is wrong with it.

        Args:
            body: of an ``import`` entry, model or struct; its original is one of its artifacts.
        """
        if body.format != FORMAT or not _is_whole(body):
            return Outcome.NOT_CHECKED, None
        try:
            files = self._files(body)
        except _NotHereError:
            return Outcome.NOT_CHECKED, None
        finding = _compare(body, _items(body, files))
        return (Outcome.PASS if finding is None else Outcome.FAIL), finding

    def _files(self, body: Any) -> dict[str, bytes]:
        """The part of the log that an entry's originals are, by path."""
        if sum(artifact.size for artifact in body.artifacts) > MAX_ORIGINAL:
            raise _NotHereError
        files: dict[str, bytes] = {}
        rows: dict[str, list[bytes]] = {}
        for artifact in body.artifacts:
            data = self._read(artifact.sha256, artifact.size)
            row = _ROW.fullmatch(artifact.name)
            if row is None:
                files[artifact.name] = data
            else:
                rows.setdefault(row[1], []).append(data)
        if LEDGER in rows:
            files[LEDGER] = b"\n".join(rows[LEDGER])
        if INDEX in rows:
            files[INDEX] = b"[" + b",".join(rows[INDEX]) + b"]"
        return files

    def _read(self, digest: str, size: int) -> bytes:
        if digest in self._seen:
            self._again += size
        if self._again > MAX_AGAIN:
            raise _NotHereError
        self._seen.add(digest)
        data = read_artifact(self._source, digest, size)
        if data is None:
            raise _NotHereError
        return data


def _is_whole(body: Any) -> bool:
    """Whether all originals are artifacts, by their own names."""
    names = [body.foreign_id, *(artifact.name for artifact in body.artifacts)]
    return not any(is_digested(name) for name in names) and all(step.name != ARTIFACTS_OMITTED for step in body.fields)


def describe_open(count: int) -> str:
    """What is said of imports that were not held against their originals; empty of none."""
    return f"{count} imports not held against their originals" if count else ""


def _items(body: Any, files: dict[str, bytes]) -> list[ImportItem]:
    """What importing would make of a part of a log, in each way in which the whole may have had it.

    A name that two folders of a log have is one folder's, and the text of a round is read by names. So a run may have
    fewer names in the whole than in its part. There are none where it is no part of a log.
    """
    foreign_id = body.foreign_id
    if foreign_id.startswith(ROUNDS) and all(path.startswith(ROUNDS) for path in files):
        texts = [(path, read_log(data, path)) for path, data in files.items() if path.count("/") == 2]
        rounds = [item_of_round(path.split("/")[1], text, files) for path, text in texts]
        return [item for item in rounds if item.body["foreign_id"] == foreign_id]
    try:
        log = parse_log(files)
    except MalformedError:
        return []
    alone = [artifact.name for artifact in body.artifacts] == [foreign_id]  # by its line, which no part has
    advances = [item_of_advance(row) for row in log.advances if alone]
    runs = [run for run in log.runs if as_name(run.run_id) == foreign_id]
    named = [replace(run, names=names) for run in runs for names in _namings(run.names)]
    return [*advances, *(item_of_run(run, files, _digests(run)) for run in named)]


def _namings(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield names
    for name in names[1:]:
        yield names[0], name
    if len(names) > 1:
        yield names[:1]


def _digests(run: Run) -> list[str]:
    """Codes of the findings that say that a digest of the run does not come out."""
    found = {finding.code for finding in check_receipt(run, ()).findings}
    return sorted(code.id for code in found & DIGESTS)


def _compare(body: Any, items: list[ImportItem]) -> Finding | None:
    """What is wrong with a body that is to be one of these; None where it is."""
    if not items:
        message = f"{body.foreign_id}: its originals hold nothing of that name"
        return Finding(Code.IMPORT_FIELDS, message, Position(field="body.artifacts"), "the records of the item", None)
    stated = Counter((step.name, step.value) for step in body.fields)
    ways = [Counter((field["name"], field["value"]) for field in item.body["fields"]) for item in items]
    copied = min(ways, key=lambda way: ((stated - way) + (way - stated)).total())
    if stated != copied:
        name = min(name for name, _ in (stated - copied) + (copied - stated))
        message = f"{body.foreign_id}: {name} is not what its originals say"
        place = Position(field="body.fields")
        return Finding(Code.IMPORT_FIELDS, message, place, _said(copied, name), _said(stated, name))
    first = items[0].body
    for name in ("attestation", "original_sha256"):
        if getattr(body, name) != first[name]:
            message = f"{body.foreign_id}: {name} is not that of its originals"
            return Finding(
                Code.IMPORT_FIELDS, message, Position(field=f"body.{name}"), first[name], getattr(body, name)
            )
    for code in first["findings"]:
        if code not in body.findings:
            message = f"{body.foreign_id}: a digest in its originals does not come out, on which it keeps silent"
            return Finding(Code.IMPORT_FIELDS, message, Position(field="body.findings"), code)
    return None


def _said(fields: Counter[tuple[str, str]], name: str) -> str:
    """What stands under a name, shortened."""
    return ", ".join(sorted(value for field, value in fields.elements() if field == name))[:200] or "nothing"

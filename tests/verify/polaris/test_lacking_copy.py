"""A file that is to be the receipt's attestation, and lacks something of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.polaris import audit
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import edit, path_of, receipt, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.verify.polaris.make_log import Draft

Files = dict[str, bytes]
Path = tuple[str, ...]
ATTESTED: Final = make_log.draft().runs[1].attestation


def of(draft: Draft) -> Files:
    for run in draft.runs:
        run.beside = True
    return make_log.build(draft)


def said(files: Files) -> list[str]:
    words = ": attestation.json has no "
    found = [finding for finding in audit(files).findings if finding.code is Code.FOREIGN_BLANK_COPY]
    return [one.message.partition(words)[2].partition(",")[0] for one in found if words in one.message]


def parts(tree: dict[str, Any], above: Path = ()) -> Iterator[Path]:
    for key, value in tree.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from parts(value, (*above, key))


def take(body: dict[str, Any], path: Path) -> None:
    for key in path[:-1]:
        body = body[key]
    del body[path[-1]]


@pytest.mark.parametrize("form", ["tdx", "ed25519"])
@pytest.mark.parametrize("path", list(parts(ATTESTED)), ids=".".join)
def test_whatever_the_copy_lacks_is_said_once(path: Path, form: str) -> None:
    files = of(make_log.draft() if form == "tdx" else signed())
    assert said(files) == []
    edit(files, path_of(files, 2, "attestation.json"), lambda body: take(body, path))
    assert said(files) == [".".join(path)]


def test_a_copy_of_nothing_lacks_every_block() -> None:
    files = of(make_log.draft())
    files[path_of(files, 2, "attestation.json")] = b"{}"
    assert said(files) == list(ATTESTED)


@pytest.mark.parametrize("value", [None, ""])
def test_what_the_receipt_leaves_blank_the_copy_need_not_have(value: object) -> None:
    files = of(make_log.draft())
    receipt(files, 2, lambda body: body["attestation"]["code"].update(note=value))
    assert said(files) == []


@pytest.mark.parametrize("value", [7, None, "", [], {}])
def test_of_what_stands_in_the_place_of_a_block_nothing_is_said_twice(value: object) -> None:
    files = of(make_log.draft())
    edit(files, path_of(files, 2, "attestation.json"), lambda body: body.update(verdict=value))
    inside = [f"verdict.{name}" for name in ATTESTED["verdict"]]
    assert said(files) == (inside if value == {} else ["verdict"] if value in (None, "") else [])
    assert len(audit(files).findings) > len(audit(of(make_log.draft())).findings)


@pytest.mark.parametrize("lost", ["receipt.json", "attestation.json", "attestation"])
def test_without_either_there_is_no_copy(lost: str) -> None:
    files = of(make_log.draft())
    if lost == "attestation":
        receipt(files, 2, lambda body: body.update(attestation=[]))
    else:
        del files[path_of(files, 2, lost)]
    assert said(files) == []

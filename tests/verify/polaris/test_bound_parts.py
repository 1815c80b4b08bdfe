"""What is called bound is covered to the last character: fields beside digests, and where joined fields end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.polaris import audit, parse_log
from k3_ledger.verify.polaris.audit import check_receipt
from k3_ledger.verify.polaris.crosscheck import Standing
from k3_ledger.verify.polaris.hashes import Check, Record
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import path_of, receipt

if TYPE_CHECKING:
    from k3_ledger.verify.polaris.hashes import RunHashes

Files = dict[str, bytes]


def hashes(files: Files) -> RunHashes:
    folder = path_of(files, 1, "").split("/")[1]
    return check_receipt(next(run for run in parse_log(files).runs if run.run_id == folder), ())


def is_bound(found: RunHashes, path: str) -> bool:
    return any(part.covers(Record.RECEIPT, path) for part in found.bound)


def outcomes(found: RunHashes, check: Check) -> set[Outcome]:
    return {result.outcome for result in found.results if result.check is check}


# -- where joined fields end ------------------------------------------------------------------------------------------

BOUNDARIES: Final = [
    ("tdx.nonce", "tdx.e2e_pubkey_b64", Check.REPORT_NONCE),
    ("tdx.bound_digest", "tdx.result_sha256", Check.REPORT_RESULT),
    ("tdx.result_sha256", "tdx.files_sha256", Check.REPORT_RESULT),
    ("attestation.code.commit", "attestation.references.model_sha256", Check.NONCE),
    ("attestation.references.model_sha256", "attestation.references.eval_seed", Check.NONCE),
]
"""Fields of which a digest covers the one text that both make, and what is checked by it."""


def place(body: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    *parents, name = path.split(".")
    for parent in parents:
        body = body[parent]
    return body, name


def moved(left: str, right: str, by: int | None) -> Files:
    """A log of which a receipt has a boundary moved by so many characters, to the left where negative; or all of it."""

    def move(body: dict[str, Any]) -> None:
        (here, name), (there, other) = place(body, left), place(body, right)
        text, end = here[name] + there[other], len(here[name]) + (by or 0)
        here[name], there[other] = (text, "") if by is None else (text[:end], text[end:])

    log = make_log.draft()
    for run in log.runs:
        run.attestation["references"]["eval_seed"] = "a0" * 40
    files = make_log.build(log)
    receipt(files, 1, move)
    return files


@pytest.mark.parametrize("by", [-32, -4, -1, 1, 2, 24, 32, None])
@pytest.mark.parametrize(("left", "right", "check"), BOUNDARIES)
def test_a_moved_boundary_is_no_verified_digest_and_binds_nothing(
    left: str, right: str, check: Check, by: int | None
) -> None:
    found = hashes(moved(left, right, by))
    assert outcomes(found, check) == {Outcome.FAIL}
    said = {one.position.field for one in found.findings if one.code is Code.FOREIGN_SHAPE}
    assert said
    assert said <= {left, right}
    assert not is_bound(found, left)
    assert not is_bound(found, right)
    assert audit(moved(left, right, by)).exit_code.value == 1


@pytest.mark.parametrize(("left", "right", "check"), BOUNDARIES)
def test_a_boundary_in_its_place_is_verified(left: str, right: str, check: Check) -> None:
    """The control: fields of the same log that nobody moved."""
    found = hashes(moved(left, right, 0))
    assert outcomes(found, check) == {Outcome.PASS}
    assert not found.findings or {one.code for one in found.findings} <= {Code.FOREIGN_ATTESTATION_UNBOUND}
    assert is_bound(found, left)
    assert is_bound(found, right)


def test_a_random_nonce_of_half_the_length_is_verified() -> None:
    log = make_log.draft()
    log.runs[0].tdx["nonce"] = "0123456789abcdef" * 2
    found = hashes(make_log.build(log))
    assert outcomes(found, Check.REPORT_NONCE) == {Outcome.PASS}
    assert is_bound(found, "tdx.nonce")


# -- fields beside digests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "standing"),
    [
        ("tps", 99.9, Standing.REFUTED),
        ("tps", 10.5, Standing.CONFIRMED),
        ("label", "XS", Standing.REFUTED),
        ("commit", "0" * 40, Standing.REFUTED),
        ("pr", 9, Standing.DISPUTED),
        ("other", "nobody else", Standing.ALONE),
        ("result", {"sha256": "0" * 64}, Standing.ALONE),
    ],
)
def test_a_field_beside_the_expected_digests_is_held_against_other_records(
    name: str, value: object, standing: Standing
) -> None:
    files = make_log.build(make_log.draft())
    receipt(files, 1, lambda body: body["_expected"].update({name: value}))
    report = audit(files)
    path = f"_expected.{name}" + (".sha256" if isinstance(value, dict) else "")
    (row,) = [row for row in report.fields if (row.record, row.path) == (Record.RECEIPT, path)]
    assert row.standings == ((standing, 1),)
    assert report.exit_code.value == (1 if standing in (Standing.REFUTED, Standing.DISPUTED) else 0)


@pytest.mark.parametrize("name", ["result_sha256", "scoring_sha256"])
def test_the_expected_digests_are_bound_only_through_the_quote(name: str) -> None:
    whole = make_log.build(make_log.draft())
    assert is_bound(hashes(whole), f"_expected.{name}")
    for change in ({"bound_digest": "sha256:" + make_log.sha("other")}, {"files_sha256": make_log.sha("other")}):
        files = dict(whole)
        receipt(files, 1, lambda body, change=change: body["tdx"].update(change))
        found = hashes(files)
        assert outcomes(found, Check.REPORT_RESULT) == {Outcome.FAIL}
        assert outcomes(found, Check.FILES) == {Outcome.PASS if "bound_digest" in change else Outcome.FAIL}
        assert not is_bound(found, f"_expected.{name}")


def test_whatever_of_a_receipt_is_bound_cannot_be_edited() -> None:
    """Each text that is called bound, the last character of it changed."""
    whole = make_log.build(make_log.draft())
    leaves = json.loads(whole[path_of(whole, 1, "receipt.json")])
    paths = [path for path in _texts(leaves, "") if is_bound(hashes(whole), path)]
    assert len(paths) == 12
    for path in paths:
        files = dict(whole)

        def change(body: dict[str, Any], path: str = path) -> None:
            parent, name = place(body, path)
            parent[name] = parent[name][:-1] + ("0" if parent[name][-1:] != "0" else "1")

        receipt(files, 1, change)
        found = hashes(files)
        assert Outcome.FAIL in {result.outcome for result in found.results} or not is_bound(found, path), path


def _texts(tree: dict[str, Any], path: str) -> list[str]:
    out = []
    for key, value in tree.items():
        below = f"{path}.{key}" if path else key
        out += _texts(value, below) if isinstance(value, dict) else [below] * isinstance(value, str)
    return out

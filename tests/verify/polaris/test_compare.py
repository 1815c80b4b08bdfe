"""What counts as the same value, as a rounded copy and as something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.verify.polaris.compare import Agreement, compare, instant
from k3_ledger.verify.polaris.derived import DERIVATIONS, follows
from k3_ledger.verify.polaris.facts import fact_of
from k3_ledger.verify.polaris.foreign_json import Compound, Number
from k3_ledger.verify.polaris.hashes import Record
from k3_ledger.verify.polaris.names import ALIASES

E, R, B, D = Agreement.EQUAL, Agreement.ROUNDED, Agreement.BLANK, Agreement.DIFFER
N = Agreement.NOT_COMPARED


@pytest.mark.parametrize(
    ("a", "b", "agreement"),
    [
        ("10.5", "10.50", E),
        ("1e1", "10", E),
        ("0.0039", "0.0038673887147093475", R),
        ("0.006695", "0.006694998", R),
        ("0.004", "0.0039", R),
        ("0.0038", "0.0038673887147093475", D),
        ("1.0", "0.97", D),
        ("45.4", "45.38", D),
        ("45.38", "45.384", R),
        ("0.125", "0.12", R),
        ("0.125", "0.13", R),
        ("10.5", "10.6", D),
        ("NaN", "NaN", E),
        ("NaN", "1", D),
        ("1e999", "1e998", D),
    ],
)
def test_numbers_are_equal_or_rounded_copies_or_different(a: str, b: str, agreement: Agreement) -> None:
    assert compare("kl", Number(a), Number(b)) is agreement
    assert compare("kl", Number(b), Number(a)) is agreement


def test_percentages_may_be_rounded_to_one_place() -> None:
    assert compare("pct_over_frontier", Number("14.6"), Number("14.647")) is R
    assert compare("tps", Number("14.6"), Number("14.647")) is D


@pytest.mark.parametrize(
    ("fact", "a", "b", "agreement"),
    [
        ("pr", "20", Number("20"), E),
        ("pr", "020", Number("20"), D),
        ("pr", "#20", Number("20"), E),
        ("pr", "#20", "20", E),
        ("pr", "#20", "#21", D),
        ("pr", "##20", Number("20"), D),
        ("pr", "#", Number("20"), D),
        ("tps", "#20", Number("20"), D),
        ("pass", True, True, E),
        ("pass", True, False, D),
        ("pass", True, Number("1"), D),
        ("model", "a", "b", D),
        ("model", "", "b", B),
        ("model", None, "", E),
        ("model", None, Number("0"), B),
        ("labels", Compound("[]"), Compound("[]"), E),
        ("labels", Compound("[]"), Compound('["x"]'), D),
        ("label", "XL", "xl", E),
        ("label", "XL", "L", D),
        ("label", "XL", Number("1"), D),
        ("commit", "abcdef0", "abcdef0123", E),
        ("commit", "abcde", "abcdef0123", D),
        ("commit", "abcde", "abcde", E),
        ("commit", "abcdef1", "abcdef0123", D),
        ("commit", "ABCDEF0", "abcdef0123", E),
        ("commit", "ABCDEF1", "abcdef0123", D),
        ("receipt_id", "AB" * 16, "ab" * 16, E),
        ("build_hash", "AB" * 32, "ab" * 32, E),
        ("bound_digest", "sha256:" + "AB" * 32, "sha256:" + "ab" * 32, E),
        ("build_hash", "AB" * 32, "ab" * 31 + "aa", D),
        ("node", "NODE-ABC", "node-abc", D),
        ("repo", "Deed", "deed", N),
        ("timestamp_utc", "2026-08-01T12:00:00Z", "2026-08-01T14:00:00+02:00", E),
        ("timestamp_utc", "2026-08-01T12:00:00Z", "2026-08-01T12:00:01Z", D),
        ("timestamp_utc", "2026-08-01T12:00:00.5Z", "2026-08-01 12:00:00", E),
        ("timestamp_utc", "2026-08-01t12:00:00z", "2026-08-01T12:00:00Z", E),
        ("timestamp_utc", "2026-08-01t12:00:00z", "2026-08-01T12:00:00+00:00", E),
        ("timestamp_utc", "2026-08-01t12:00:01z", "2026-08-01T12:00:00Z", D),
        ("timestamp_utc", "yesterday", "yesterday", E),
        ("timestamp_utc", "yesterday", "today", N),
    ],
)
def test_other_values_are_compared_by_what_they_are(fact: str, a: object, b: object, agreement: Agreement) -> None:
    assert compare(fact, a, b) is agreement  # type: ignore[arg-type]
    assert compare(fact, b, a) is agreement  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "2026-13-01T00:00:00Z", "2026-08-01", "0001-01-01T00:00:00+23:59", "2026-08-01T25:00:00Z"]
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert instant(text) is None


@given(st.decimals(min_value=-1000, max_value=1000, places=9), st.integers(2, 8))
def test_a_rounding_is_always_seen_as_one(value: object, places: int) -> None:
    full = Number(f"{value:f}")
    rounded = Number(str(round(full.value or 0, places)))
    assert compare("kl", full, rounded) in (E, R)


@given(st.floats(0.01, 1000), st.floats(0.01, 1000))
def test_a_figure_derived_from_rounded_figures_follows(tps: float, frontier: float) -> None:
    tps, frontier = round(tps, 2), round(frontier, 2)
    shown = {
        "delta_tps": round(tps - frontier, 2),
        "pct_over_frontier": round(100 * (tps - frontier) / frontier, 1),
        "ms_per_token": round(1000 / tps, 2),
    }
    inputs = {"tps": Number(repr(tps)), **dict.fromkeys(("frontier", "frontier_tps"), Number(repr(frontier)))}
    for derivation in DERIVATIONS:
        if derivation.output in shown:
            used = {name: inputs[name] for name in derivation.inputs}
            assert follows(derivation, Number(repr(shown[derivation.output])), used) in (True, None)


def test_nothing_follows_from_no_figure_or_a_divisor_around_zero() -> None:
    gain = next(d for d in DERIVATIONS if d.output == "pct_over_frontier")
    assert follows(gain, Number("5.0"), {"tps": Number("10.5"), "frontier_tps": Number("0.0")}) is None
    assert follows(gain, Number("NaN"), {"tps": Number("10.5"), "frontier_tps": Number("10.0")}) is None
    assert follows(gain, Number("5.0"), {"tps": Number("1e999"), "frontier_tps": Number("10.0")}) is None
    assert follows(gain, Number("5.0"), {"tps": Number("10.5"), "frontier_tps": Number("10.0")}) is True
    assert follows(gain, Number("7.0"), {"tps": Number("10.5"), "frontier_tps": Number("10.0")}) is False


@pytest.mark.parametrize(
    ("record", "path", "fact"),
    [
        (Record.RECEIPT, "attestation.verdict.tps", "tps"),
        (Record.RECEIPT, "attestation.measurements.guard.kl", "guard.kl"),
        (Record.RECEIPT, "attestation.measurements.other.kl", "measurements.other.kl"),
        (Record.RECEIPT, "tdx.nonce", None),
        (Record.RECEIPT, "receipt_id", "receipt_id"),
        (Record.SEALED, "reason", None),
        (Record.RESULT, "provenance.node", "node"),
        (Record.RESULT, "scored_ctx", "scored_context"),
        (Record.INDEX, "id", "run_id"),
        (Record.NAME, "anything", "anything"),
    ],
)
def test_fields_state_facts(record: Record, path: str, fact: str | None) -> None:
    assert fact_of(record, path, ALIASES) == fact

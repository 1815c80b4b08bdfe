"""Published JSON vectors and collected bug cases, each file with the verdict that the profile's rules ask for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from k3_ledger.schemas import canonical
from k3_ledger.schemas.canonical import Limits
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from tests.reference import json_profile

ROOMY = Limits(max_bytes=1 << 20)
"""The longest file of the suite must meet the depth limit, not the length limit."""

TABLE = json.loads(Path(__file__).with_name("jsontestsuite.json").read_text(encoding="utf-8"))
"""What every file of JSONTestSuite has to give: ``accept``, ``accept, not canonical``, or the code of its refusal."""


def verdict(data: bytes, read=canonical.parse) -> str:
    try:
        read(data, limits=ROOMY)
    except MalformedError as error:
        return error.code.id
    return "accept"


@pytest.mark.parametrize("folder", ["test_parsing", "test_transform"])
def test_every_file_of_jsontestsuite_gives_its_verdict(test_data, folder):
    root = test_data("vectors", "jsontestsuite")
    found = {}
    for path in sorted((root / folder).glob("*.json")):
        data = path.read_bytes()
        loose, strict = verdict(data, canonical.parse_value), verdict(data)
        found[f"{folder}/{path.name}"] = "accept, not canonical" if (loose, strict) == ("accept", NOT) else strict
        assert json_profile.accepts(data) == (loose == "accept"), path.name
    assert found == {name: given for name, given in TABLE.items() if name.startswith(folder)}


NOT = Code.JSON_NOT_CANONICAL.id


def test_the_table_follows_the_rules():
    parsing = {name.partition("/")[2]: given for name, given in TABLE.items() if name.startswith("test_parsing/")}
    kinds = Counter(name[0] for name in parsing)
    assert kinds == {"y": 95, "n": 188, "i": 35}
    # What is not JSON is refused, and so is everything that RFC 8259 leaves to implementations.
    assert not [name for name, given in parsing.items() if name[0] in "ni" and given.startswith("accept")]
    # JSON is refused only for what the profile takes out of it.
    refused = {given for name, given in parsing.items() if name[0] == "y" and not given.startswith("accept")}
    codes = {Code.JSON_FLOAT, Code.JSON_NEGATIVE_ZERO, Code.JSON_DUPLICATE_KEY, Code.JSON_KEY_ALPHABET}
    assert refused == {code.id for code in codes}


JCS = {
    "arrays": "accept",
    "french": "K3L-JSON-KEY-ALPHABET",
    "structures": "K3L-JSON-KEY-ALPHABET",
    "unicode": "K3L-JSON-KEY-ALPHABET",
    "values": "K3L-JSON-FLOAT",
    "weird": "K3L-JSON-KEY-ALPHABET",
}


@pytest.mark.parametrize("name", JCS)
def test_jcs_documents_are_written_as_rfc_8785_writes_them_where_the_profile_admits_them(test_data, name):
    root = test_data("vectors", "jcs", "testdata")
    given, wanted = ((root / part / f"{name}.json").read_bytes() for part in ("input", "output"))
    assert verdict(given, canonical.parse_value) == JCS[name]
    assert bytes.fromhex((root / "outhex" / f"{name}.txt").read_text()) == wanted
    if JCS[name] == "accept":
        assert canonical.format(canonical.parse_value(given)) == wanted
        assert canonical.format(canonical.parse(wanted)) == wanted


def test_every_string_of_every_jcs_document_is_written_as_rfc_8785_writes_it(test_data):
    root = test_data("vectors", "jcs", "testdata")
    for name in JCS:
        wanted = (root / "output" / f"{name}.json").read_bytes()
        for string in strings(json.loads((root / "input" / f"{name}.json").read_bytes())):
            assert canonical.format(string) in wanted


def strings(value):
    if isinstance(value, dict):
        return [text for key, member in value.items() for text in [*strings(member), *strings(key)]]
    if isinstance(value, list):
        return [text for element in value for text in strings(element)]
    return [value] if isinstance(value, str) else []


BUG_CASES = {
    "12-float-spelling/same_value_0.json": "accept",
    "12-float-spelling/same_value_1.json": "K3L-JSON-FLOAT",
    "12-float-spelling/same_value_2.json": "K3L-JSON-FLOAT",
    "12-float-spelling/same_value_3.json": "K3L-JSON-FLOAT",
    "12-float-spelling/same_value_4.json": "K3L-JSON-FLOAT",
    "13-nan-infinity/inf.json": "K3L-JSON-NOT-A-NUMBER",
    "13-nan-infinity/nan.json": "K3L-JSON-NOT-A-NUMBER",
    "13-nan-infinity/ninf.json": "K3L-JSON-NOT-A-NUMBER",
    "13-nan-infinity/overflow.json": "K3L-JSON-FLOAT",
    "14-duplicate-keys/control_ok.json": "accept",
    "14-duplicate-keys/equal_values.json": "K3L-JSON-DUPLICATE-KEY",
    # These three hold fractions in front of the second key; what comes first is reported.
    "14-duplicate-keys/escaped.json": "K3L-JSON-FLOAT",
    "14-duplicate-keys/nested.json": "K3L-JSON-FLOAT",
    "14-duplicate-keys/top.json": "K3L-JSON-FLOAT",
    "16-lone-surrogates/high.json": "K3L-JSON-LONE-SURROGATE",
    "16-lone-surrogates/key.json": "K3L-JSON-LONE-SURROGATE",
    "16-lone-surrogates/low.json": "K3L-JSON-LONE-SURROGATE",
    "16-lone-surrogates/pair_ok.json": "accept",
    "16-lone-surrogates/raw_cesu.json": "K3L-JSON-LONE-SURROGATE",
    "16-lone-surrogates/reversed.json": "K3L-JSON-LONE-SURROGATE",
    "17-big-integers/2p53.json": "K3L-JSON-INTEGER-RANGE",
    "17-big-integers/2p53p1.json": "K3L-JSON-INTEGER-RANGE",
    "17-big-integers/2p64m1.json": "K3L-JSON-INTEGER-RANGE",
    "17-big-integers/digits5000.json": "K3L-JSON-INTEGER-RANGE",
    "17-big-integers/ns_epoch.json": "K3L-JSON-INTEGER-RANGE",
    "19-deep-and-huge/nest20k.json": "K3L-JSON-TOO-DEEP",
}


@pytest.mark.parametrize("name", BUG_CASES)
def test_collected_bug_cases_give_their_verdict(test_data, name):
    assert (
        verdict(test_data("bug-cases", "cases", *name.split("/")).read_bytes(), canonical.parse_value)
        == BUG_CASES[name]
    )


@pytest.mark.parametrize("name", ["escaped", "nested", "top"])
def test_duplicate_keys_are_found_once_the_fractions_are_out_of_the_way(test_data, name):
    data = test_data("bug-cases", "cases", "14-duplicate-keys", f"{name}.json").read_bytes()
    for fraction in (b"0.9", b"9.0", b"5.0", b"0.0"):
        data = data.replace(fraction, b"1")
    assert verdict(data) == "K3L-JSON-DUPLICATE-KEY"


def test_a_float_never_gets_as_far_as_a_spelling(test_data):
    spellings = json.loads(test_data("bug-cases", "cases", "12-float-spelling", "numbers.json").read_bytes())
    assert len(spellings) > 5
    for row in spellings:
        number = json.loads(row["python_json"])
        with pytest.raises(MalformedError) as caught:
            canonical.format({"ms": number})
        assert caught.value.code in {Code.JSON_FLOAT, Code.JSON_INTEGER_RANGE}
        assert caught.value.finding.position.field == "ms"


def test_a_huge_line_is_refused_by_its_length(test_data):
    script = test_data("bug-cases", "cases", "19-deep-and-huge", "huge_line.py")
    line = subprocess.run([sys.executable, script, "8"], capture_output=True, check=True).stdout
    with pytest.raises(MalformedError) as caught:
        canonical.parse(line)
    assert caught.value.code is Code.JSON_TOO_LONG

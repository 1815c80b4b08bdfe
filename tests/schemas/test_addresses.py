"""How addresses are said: nothing that opens them is shown, and what names them is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.schemas.addresses import SCHEME, file_name, lower_scheme, masked, said, secrets, told
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

SHOWN = {
    "user and password": ("https://u:pw@example.org/led", "https://***@example.org/led"),
    "a token for a user": ("https://token@example.org", "https://***@example.org"),
    "presigned": ("s3://bucket/x.tar?X-Sig=pw&n=1", "s3://bucket/x.tar?***"),
    "fragment": ("https://example.org/#pw", "https://example.org/#***"),
    "capitals": ("HTTPS://u:pw@Example.org/A", "HTTPS://***@Example.org/A"),
    "two at signs": ("https://u:p@w@example.org/x", "https://***@example.org/x"),
    "a slash in the password": ("https://u:p/w@example.org/x", "https://***@example.org/x"),
    "a mark in the password": ("https://u:p?w#@example.org:80/x", "https://***@example.org:80/x"),
    "a port of the six": ("https://u:pw@[::1]:80/x", "https://***@[::1]:80/x"),
    "a chain": ("zip://a.jsonl::https://u:pw@example.org/x.zip?pw", "zip://a.jsonl::https://***@example.org/x.zip?***"),
    "one address in another": ("https://cache/https://u:pw@example.org/", "https://cache/https://***@example.org/"),
    "taken for a path": ("https:/u:pw@example.org/x?pw", "https:/***@example.org/x?***"),
}
PLAIN = (
    "https://example.org:8080/led@1/a:b@c",
    "https://[::1]:80/x@y",
    "s3://bucket/folder/x.tar",
    "file:///home/a b/led",
    "https://",
    "a/path@v1?x#y",
    "c:/path@v1?x",
    "",
)


@pytest.mark.parametrize("name", SHOWN)
def test_what_opens_an_address_is_not_said(name: str) -> None:
    address, shown = SHOWN[name]
    assert said(address) == shown
    assert said(shown) == shown
    assert masked(f"see '{address}', or ({address}): {address}") == f"see '{shown}', or ({shown}): {shown}"
    assert told(f"no {address}!pw", address) == ""


@pytest.mark.parametrize("text", PLAIN)
def test_what_names_an_address_or_a_path_is_said(text: str) -> None:
    assert (said(text), masked(f"at {text} there"), secrets(text)) == (text, f"at {text} there", ())
    assert told(f"no host: {text}", text) == f"no host: {text}"


@given(st.text("ab:/?#%.", max_size=6), st.text("ab:@?#/%.", max_size=6), st.text("ab/?#@", max_size=6))
def test_a_password_is_not_said_however_badly_it_is_spelled(before: str, after: str, more: str) -> None:
    address = f"https://user:{before}SECRET{after}@host{more}"
    assert "SECRET" not in said(address)
    assert "SECRET" not in masked(f"at {address}: nothing")
    assert told(f"no {address}", address) == ""


@given(st.text())
def test_any_text_can_be_masked_and_stays_so(text: str) -> None:
    once = masked(text)
    assert masked(once) == once
    assert said(said(text)) == said(text)
    assert not any(secret == "" for secret in secrets(text))


@pytest.mark.parametrize("word", ["a", "ab12", "a.", "a+"])
def test_a_long_word_does_not_cost_the_square_of_its_length(word: str) -> None:
    text = f"x:/ {word * 100_000} https://u:pw@example.org"
    assert masked(text) == text.replace("u:pw", "***")
    assert said(word * 100_000) == word * 100_000


def test_secrets_are_known_in_each_spelling() -> None:
    found = secrets("https://us%65r:p%40w/x@example.org/a?sig=q%2Fw&n#t")
    assert {"p%40w", "p@w", "x", "q%2Fw", "q/w", "t"} <= set(found)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://u:pw@example.org/a/x.tar?sig=pw", "x.tar"),
        ("https://u:pw@example.org", ""),
        ("https://u:p/w@example.org/x", "x"),
        ("https://example.org/a/?pw/x", ""),
    ],
)
def test_the_file_of_an_address_has_a_name_without_secrets(address: str, name: str) -> None:
    assert file_name(address) == name


def test_a_scheme_is_the_same_in_capitals() -> None:
    assert lower_scheme("ZIP://A::HTTPS://U:P@Host/X") == "zip://A::https://U:P@Host/X"
    assert lower_scheme("A/Path://x") == "A/Path://x"
    assert SCHEME.match("HTTP://x")
    assert not SCHEME.match("/HTTP://x")


def test_no_finding_and_no_error_holds_what_opens_an_address() -> None:
    address = "https://u:pw@example.org/x?pw"
    finding = Finding(Code.UNREADABLE, f"not at {address}", Position(source=f"{address} and pw"), hint=f"ask {address}")
    error = StoreError(Code.UNREADABLE, f"not at {address}", position=Position(source=address, line=3))
    assert "pw" not in str(finding.as_dict()) + str(error) + repr(error) + str(error.finding)
    assert finding.message == "not at https://***@example.org/x?***"
    assert (error.finding.position.line, finding.hint) == (3, "ask https://***@example.org/x?***")
    assert Finding(Code.UNREADABLE, "at https://x/y").position.source is None

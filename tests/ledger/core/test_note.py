"""Signed notes: what opens, what does not, and what is only carried along."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core import note
from k3_ledger.ledger.core.note import (
    KeyType,
    Note,
    NoteSignature,
    Verifier,
    format_note,
    format_verifier_key,
    open_note,
    parse_note,
    parse_verifier_key,
    sign_note,
)
from k3_ledger.schemas.outcomes import Position
from tests.ledger.core.samples import TestKey, code_of, refusal

LOG = TestKey("log")
OTHER = TestKey("other")
WITNESS = TestKey("witness", key_type=KeyType.COSIGNATURE, time=1_700_000_000)
TEXT = "example.com/log\n7\n\nlast line\n"
SIGNED = sign_note(TEXT, [LOG])
PLACE = Position(source="checkpoint")


def verifier(key):
    return Verifier(key.name, key.public_key, key.key_type)


def signature(key, text=TEXT):
    return NoteSignature(key.name, key.key_hash, key.sign(text.encode()))


def test_a_note_opens_with_the_key_that_signed_it():
    opened = open_note(SIGNED, [verifier(LOG)])
    assert opened.text == TEXT
    assert [sig.verifier for sig in opened.sigs] == [verifier(LOG)]
    assert opened.sigs[0].signature == signature(LOG)
    assert opened.sigs[0].timestamp is None
    assert opened.unverified_sigs == ()


def test_the_bytes_are_those_of_the_specification():
    blob = base64.b64encode(LOG.key_hash.to_bytes(4, "big") + LOG.raw(TEXT.encode())).decode()
    assert SIGNED.decode() == f"{TEXT}\n\u2014 example.com/log {blob}\n"


def test_key_hashes_and_verifier_keys_are_those_of_other_implementations():
    plain = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    cosigner = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2"
    assert parse_verifier_key(plain).key_type is KeyType.ED25519
    assert parse_verifier_key(cosigner).key_type is KeyType.COSIGNATURE
    assert [format_verifier_key(parse_verifier_key(text)) for text in (plain, cosigner)] == [plain, cosigner]


# ---------------------------------------------------------------------------------------------------------- attacks


def test_a_changed_text_is_refused():
    error = refusal(open_note, SIGNED.replace(b"\n7\n", b"\n8\n"), [verifier(LOG)], position=PLACE)
    assert error.code.name == "NOTE_SIGNATURE"
    assert error.finding.position == PLACE
    assert "example.com/log" in str(error)
    assert "does not belong to this message and key" in str(error)


def test_a_note_by_nobody_who_is_known_is_refused():
    error = refusal(open_note, SIGNED, [verifier(OTHER)], position=PLACE)
    assert (error.code.name, error.finding.position) == ("NOTE_UNSIGNED", PLACE)
    assert error.finding.expected == f"{OTHER.name}+{OTHER.key_hash:08x}"
    assert error.finding.found == f"{LOG.name}+{LOG.key_hash:08x}"
    assert refusal(open_note, SIGNED, []).finding.expected == "none"


def test_signatures_by_unknown_keys_are_carried_along_unverified():
    made_up = NoteSignature("example.com/nobody", 1, b"anything")
    opened = open_note(format_note(TEXT, [made_up, signature(LOG), signature(OTHER)]), [verifier(LOG)])
    assert opened.unverified_sigs == (made_up, signature(OTHER))
    assert len(opened.sigs) == 1


@pytest.mark.parametrize("name", ["example.com/log", "example.com/other"])
def test_sharing_a_name_or_a_hash_does_not_make_a_key_known(name):
    same_name = NoteSignature(LOG.name, LOG.key_hash ^ 1, b"junk")
    same_hash = NoteSignature("example.com/other", LOG.key_hash, b"junk")
    opened = open_note(format_note(TEXT, [same_name, same_hash, signature(LOG)]), [verifier(LOG)])
    assert opened.unverified_sigs == (same_name, same_hash)


def test_one_bad_signature_by_a_known_key_spoils_the_note():
    bad = NoteSignature(OTHER.name, OTHER.key_hash, LOG.sign(TEXT.encode()))
    data = format_note(TEXT, [signature(LOG), bad])
    assert code_of(open_note, data, [verifier(LOG), verifier(OTHER)]) == "NOTE_SIGNATURE"
    assert code_of(open_note, data, [verifier(LOG)]) is None


def test_repeating_a_signature_fills_no_quorum():
    opened = open_note(format_note(TEXT, [signature(LOG)] * 3), [verifier(LOG)])
    assert len(opened.sigs) == 1
    bad_repetition = format_note(TEXT, [signature(LOG), signature(LOG, "x\n")])
    assert code_of(open_note, bad_repetition, [verifier(LOG)]) == "NOTE_SIGNATURE"


def test_of_two_keys_with_one_hash_the_line_is_by_the_one_that_verifies_it():
    """A pair is found by trying fifty thousand keys."""
    first, second = (TestKey(seed, name="example.org/a") for seed in ("c43023", "c48735"))
    assert first.key_hash == second.key_hash
    for signer in (first, second):
        note = sign_note(TEXT, [signer])
        for known in ((first, second), (second, first)):
            opened = open_note(note, map(verifier, known))
            assert [sig.verifier for sig in opened.sigs] == [verifier(signer)]
    both = open_note(format_note(TEXT, [signature(first), signature(second)]), map(verifier, (first, second)))
    assert [sig.verifier for sig in both.sigs] == [verifier(first), verifier(second)]
    spoilt = format_note(TEXT, [NoteSignature(first.name, first.key_hash, bytes(64))])
    assert code_of(open_note, spoilt, map(verifier, (first, second))) == "NOTE_SIGNATURE"


# ----------------------------------------------------------------------------------------------------- cosignatures


def test_a_cosignature_says_when():
    opened = open_note(sign_note(TEXT, [LOG, WITNESS]), [verifier(LOG), verifier(WITNESS)])
    assert [(sig.verifier.name, sig.timestamp) for sig in opened.sigs] == [
        (LOG.name, None),
        (WITNESS.name, WITNESS.time),
    ]


def test_what_a_cosigner_signs():
    assert note.cosigned_message(5, "text\n") == b"cosignature/v1\ntime 5\ntext\n"


def test_the_time_of_a_cosignature_cannot_be_changed():
    good = WITNESS.sign(TEXT.encode())
    for time in (WITNESS.time + 1, 2**63 - 1, 2**63, 2**64 - 1):
        later = NoteSignature(WITNESS.name, WITNESS.key_hash, time.to_bytes(8, "big") + good[8:])
        data = format_note(TEXT, [later])
        assert code_of(open_note, data, [verifier(WITNESS)]) == "NOTE_SIGNATURE"


@pytest.mark.parametrize("length", [1, 8, 71, 73])
def test_a_cosignature_of_another_length_is_refused(length):
    cut = NoteSignature(WITNESS.name, WITNESS.key_hash, (WITNESS.sign(TEXT.encode()) * 2)[:length])
    assert code_of(open_note, format_note(TEXT, [cut]), [verifier(WITNESS)]) == "NOTE_SIGNATURE"


def test_a_log_signature_is_no_cosignature():
    as_log = TestKey("witness")
    assert as_log.public_key == WITNESS.public_key
    assert as_log.key_hash != WITNESS.key_hash
    relabelled = NoteSignature(WITNESS.name, WITNESS.key_hash, bytes(8) + as_log.sign(TEXT.encode()))
    assert code_of(open_note, format_note(TEXT, [relabelled]), [verifier(WITNESS)]) == "NOTE_SIGNATURE"


@pytest.mark.parametrize("time", [-1, 2**63])
def test_times_that_cannot_be_cosigned(time):
    with pytest.raises(ValueError, match="no time"):
        note.cosigned_message(time, TEXT)
    note.cosigned_message(2**63 - 1, TEXT)
    note.cosigned_message(0, TEXT)


# ------------------------------------------------------------------------------------------------------------- form


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30),
    st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=3),
)
def test_parse_undoes_format(text, blobs):
    sigs = tuple(NoteSignature("name", at, blob) for at, blob in enumerate(blobs))
    data = format_note(text + "\n", sigs)
    parsed = parse_note(data)
    assert (parsed.text, parsed.sigs) == (text + "\n", sigs)


LINE = "\u2014 name AAAAAQE=\n"
BAD_LINE = "a signature line is not"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"", "no blank line", id="empty"),
        pytest.param(bytes(187), "control character 0x00", id="NUL-filled after a power cut"),
        pytest.param(SIGNED[:-1], "does not end in a line feed", id="cut"),
        pytest.param(SIGNED.replace(b"\n", b"\r\n"), "line endings were rewritten to CR LF", id="CRLF"),
        pytest.param(SIGNED.replace(b"last", b"la\tst"), "control character 0x09", id="a tab"),
        pytest.param(SIGNED.replace(b"last", b"la\x1fst"), "control character 0x1f", id="a control character"),
        pytest.param(SIGNED.replace(b"last", b"la\xffst"), "is not UTF-8", id="not UTF-8"),
        pytest.param(f"text\n{LINE}".encode(), "no blank line", id="no blank line"),
        pytest.param(b"text\n\n", "does not end in a line feed", id="no signatures"),
        pytest.param(
            f"text\n\n{LINE}\n".encode(), "a blank line stands behind the signatures", id="a blank line behind"
        ),
        pytest.param(SIGNED.replace(b"last", b"la\rst"), "control character 0x0d", id="a carriage return"),
        pytest.param(b"\xef\xbb\xbf" + SIGNED, "UTF-8 with a byte order mark", id="byte order mark"),
        pytest.param(SIGNED.decode().encode("utf-16-le"), "control character 0x00", id="UTF-16 without a mark"),
        pytest.param(b"\xff\xfe" + SIGNED.decode().encode("utf-16-le"), "UTF-16 text", id="UTF-16"),
        pytest.param(b"\xfe\xff" + SIGNED.decode().encode("utf-16-be"), "UTF-16 text", id="UTF-16, the other way"),
        pytest.param(f"text\n\n{LINE}junk\n".encode(), BAD_LINE, id="junk behind"),
        pytest.param(b"text\n\n- name AAAAAQE=\n", BAD_LINE, id="a hyphen for the dash"),
        pytest.param("text\n\n\u2014name AAAAAQE=\n".encode(), BAD_LINE, id="no space"),
        pytest.param("text\n\n\u2014  AAAAAQE=\n".encode(), BAD_LINE, id="no name"),
        pytest.param("text\n\n\u2014 na+me AAAAAQE=\n".encode(), BAD_LINE, id="plus in the name"),
        pytest.param("text\n\n\u2014 na\u00a0me AAAAAQE=\n".encode(), BAD_LINE, id="space in the name"),
        pytest.param("text\n\n\u2014 name AAAAAQE= \n".encode(), BAD_LINE, id="trailing space"),
        pytest.param("text\n\n\u2014 name AAAAAQF=\n".encode(), BAD_LINE, id="stray bits"),
        pytest.param("text\n\n\u2014 name AAAAAQE\n".encode(), BAD_LINE, id="no padding"),
        pytest.param("text\n\n\u2014 name AAAAAA==\n".encode(), BAD_LINE, id="a hash and no signature"),
        pytest.param("text\n\n\u2014 name \u00e9\n".encode(), BAD_LINE, id="not base64"),
        pytest.param("text\n\n\u2014 name\n".encode(), BAD_LINE, id="no signature"),
        pytest.param(f"text\n\n{LINE * 101}".encode(), "101 signatures are more than 100", id="too many signatures"),
        pytest.param(b"a" * 1_000_001, "1000001 bytes are more than 1000000", id="too large"),
    ],
)
def test_what_is_no_note(data, says):
    error = refusal(parse_note, data, position=PLACE)
    assert error.code.name == "NOTE_MALFORMED"
    assert says in str(error)
    assert error.finding.position == PLACE


def test_long_lines_are_shortened_in_messages():
    assert refusal(parse_note, f"text\n\n{'x' * 999}\n".encode()).finding.found == "x" * 200
    assert refusal(parse_verifier_key, "x" * 999).finding.found == "x" * 200
    unknown_type = with_material("x" * 300, b"\x02" + LOG.public_key)
    assert refusal(parse_verifier_key, unknown_type).finding.found == "x" * 200


def test_a_note_may_have_a_hundred_signatures_and_a_million_bytes():
    assert len(parse_note(f"text\n\n{LINE * 100}".encode()).sigs) == 100
    rest = f"\n\n{LINE}".encode()
    assert parse_note(b"a" * (1_000_000 - len(rest)) + rest).sigs == (NoteSignature("name", 1, b"\x01"),)


def test_the_last_blank_line_separates():
    assert parse_note(f"a\n\nb\n\n{LINE}".encode()).text == "a\n\nb\n"
    assert parse_note(f"\n\n{LINE}".encode()).text == "\n"


@pytest.mark.parametrize(
    ("text", "sigs"),
    [
        ("no line feed", [signature(LOG)]),
        ("", [signature(LOG)]),
        (f"text\n\n{LINE.strip()}", [signature(LOG)]),
        ("text\n", []),
        ("te\0xt\n", [signature(LOG)]),
        ("text\n", [NoteSignature("a b", 0, b"x")]),
        ("text\n", [NoteSignature("", 0, b"x")]),
        ("text\n", [NoteSignature("a", 0, b"")]),
    ],
    ids=[
        "no line feed",
        "empty",
        "a signature line in the text",
        "no signatures",
        "NUL",
        "name",
        "no name",
        "no bytes",
    ],
)
def test_what_would_not_parse_is_not_written(text, sigs):
    with pytest.raises(ValueError, match="not a note"):
        format_note(text, sigs)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_give_a_note_or_a_ledger_error(data):
    assert code_of(open_note, data, [verifier(LOG)]) in {"NOTE_MALFORMED", "NOTE_UNSIGNED"}


# ---------------------------------------------------------------------------------------------------------- signing


def test_signing_again_replaces_the_own_signature_and_keeps_the_others():
    old = NoteSignature(LOG.name, LOG.key_hash, b"old")
    data = sign_note(TEXT, [LOG], others=[old, signature(OTHER)])
    assert parse_note(data).sigs == (signature(OTHER), signature(LOG))
    assert isinstance(open_note(data, [verifier(LOG), verifier(OTHER)]), Note)


# ---------------------------------------------------------------------------------------------------- verifier keys


KEY_TEXT = format_verifier_key(verifier(LOG))


@pytest.mark.parametrize("key", [LOG, OTHER, WITNESS], ids=["log", "other", "witness"])
def test_a_verifier_key_is_read_back(key):
    assert parse_verifier_key(format_verifier_key(verifier(key))) == verifier(key)


def test_a_plus_in_the_base64_is_no_separator():
    keys = (TestKey(str(number)) for number in range(99))
    text = next(text for key in keys if (text := format_verifier_key(verifier(key))).count("+") > 2)
    assert format_verifier_key(parse_verifier_key(text)) == text


def test_every_changed_character_of_a_verifier_key_is_refused():
    for at, character in enumerate(KEY_TEXT):
        changed = KEY_TEXT[:at] + chr(ord(character) + 1) + KEY_TEXT[at + 1 :]
        assert code_of(parse_verifier_key, changed) is not None, changed


def test_every_part_of_a_verifier_key_is_refused():
    for start in range(len(KEY_TEXT)):
        for end in range(start, len(KEY_TEXT)):
            if (start, end) != (0, len(KEY_TEXT)):
                assert code_of(parse_verifier_key, KEY_TEXT[start:end]) == "VERIFIER_KEY"


def with_material(name, material):
    """A verifier key text whose hash fits, whatever the material."""
    hashed = note.key_hash(name, material[1:], material[0])
    return f"{name}+{hashed:08x}+{base64.b64encode(material).decode()}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(with_material("a", b"\x02" + LOG.public_key), "VERIFIER_KEY", id="another type"),
        pytest.param(with_material("a", b"\x01" + LOG.public_key + b"x"), "VERIFIER_KEY", id="too long"),
        pytest.param(with_material("a b", b"\x01" + LOG.public_key), "VERIFIER_KEY", id="no key name"),
        pytest.param(with_material("a", b"\x01" + bytes([1, *bytes(31)])), "PUBLIC_KEY_LOW_ORDER", id="low order"),
        pytest.param(KEY_TEXT + "\n", "VERIFIER_KEY", id="line feed"),
        pytest.param(KEY_TEXT.replace(f"{LOG.key_hash:08x}", "00000000"), "VERIFIER_KEY", id="another hash"),
        pytest.param(KEY_TEXT.replace(f"{LOG.key_hash:08x}", f"{LOG.key_hash:08X}"), "VERIFIER_KEY", id="upper case"),
        pytest.param(with_material("a", b"\x01" + LOG.public_key).replace("a+", "a+0"), "VERIFIER_KEY", id="long hash"),
    ],
)
def test_what_is_no_verifier_key(text, code):
    error = refusal(parse_verifier_key, text, position=PLACE)
    assert (error.code.name, error.finding.position) == (code, PLACE)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u2003b", "a\n"])
def test_a_verifier_needs_a_key_name(name):
    with pytest.raises(ValueError, match="no key name"):
        Verifier(name, LOG.public_key)


@given(st.text(max_size=80))
def test_arbitrary_text_gives_a_ledger_error(text):
    assert code_of(parse_verifier_key, text) is not None


def test_a_key_hash_that_does_not_fit_says_what_would():
    finding = refusal(parse_verifier_key, KEY_TEXT.replace(f"{LOG.key_hash:08x}", "00000000")).finding
    assert (finding.expected, finding.found) == (f"{LOG.key_hash:08x}", "00000000")

"""TOML of a stranger: a short text costs little to refuse, and what passes a bound is called what it is."""

from __future__ import annotations

import tomllib
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.schemas import toml
from k3_ledger.schemas.toml import MOST_DIGITS, MOST_NESTED, MOST_PARTS, TomlError, read_toml

if TYPE_CHECKING:
    from collections.abc import Callable

ASIDE = "# " + "[" * 150 + '\nname = "' + "[" * 150 + " # " + "{" * 150 + '"\n'
ASIDE += "other = '[[[a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r'\nfigures = [1.5, 2.5, 00:00:00.5]\n"
NAMES = {
    "a key": lambda part, many: f"{'.'.join([part] * many)} = 1\n",
    "a spaced key": lambda part, many: f"{' . '.join([part] * many)} = 1\n",
    "a header": lambda part, many: f"[{'.'.join([part] * many)}]\n",
    "a header of many": lambda part, many: f"[[{'.'.join([part] * many)}]]\n",
    "a key in a table": lambda part, many: f"x = {{{'.'.join([part] * many)} = 1}}\n",
}
NESTED: dict[str, Callable[[int], str]] = {
    "lists": lambda many: f"x = {'[' * many}{']' * many}\n",
    "tables": lambda many: f"x = {'{a = ' * many}1{'}' * many}\n",
    "lists of figures": lambda many: f"x = {'[' * many}1.5{']' * many}\n",
}
NUMBERS = {
    "decimal": lambda many: "9" * many,
    "signed": lambda many: "-" + "9" * (many - 1),
    "grouped": lambda many: "9_9" + "9" * (many - 3),
    "hexadecimal": lambda many: "0x" + "f" * (many - 2),
    "octal": lambda many: "0o" + "7" * (many - 2),
    "binary": lambda many: "0b" + "1" * (many - 2),
    "a fraction": lambda many: "1." + "1" * many,
}


def refused(text: str) -> TomlError:
    with pytest.raises(TomlError) as caught:
        read_toml(ASIDE + text)
    assert caught.value.line == 5
    return caught.value


@pytest.mark.parametrize("part", ["a", "a-b_1", '"a.b"', r'"\""', "'a\"'", '""', "''"])
@pytest.mark.parametrize("kind", NAMES)
def test_a_name_has_as_many_parts_as_the_bound_says_and_no_more(kind: str, part: str) -> None:
    assert read_toml(ASIDE + NAMES[kind](part, MOST_PARTS))["other"].startswith("[[[")
    assert str(refused(NAMES[kind](part, MOST_PARTS + 1))) == f"a name of more than {MOST_PARTS} parts"


@pytest.mark.parametrize(
    "text",
    [
        "''", '""', r'"\""', r'"\\"', "'\\'", '"""a"""', '"""a""""', '"""a"""""', '"""a"b""c"""',
        r'"""a\""""', '"""\na\n"""', "'''a'''", "'''a''''", "'''a'''''", "'''a'b''c'''", "'''a\\'''", "'''\na\n'''",
        "1 # ' \"",
    ],
)  # fmt: skip
def test_what_stands_behind_a_text_is_seen(text: str) -> None:
    for beyond in (f"{'.'.join('a' * 3000)} = 1", f"x = {'[' * 3000}"):
        with pytest.raises(TomlError) as caught:
            read_toml(f"a = {text}\n{beyond}\n")
        assert caught.value.line == text.count("\n") + 2


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("many", [MOST_NESTED + 1, 3000])
def test_what_is_nested_deeper_than_the_bound_is_refused(kind: str, many: int) -> None:
    assert read_toml(ASIDE + NESTED[kind](MOST_NESTED))["other"].startswith("[[[")
    assert str(refused(NESTED[kind](many))) == f"nested more than {MOST_NESTED} deep"


@pytest.mark.parametrize("many", [MOST_NESTED + 1, 3000])
def test_the_line_is_the_one_that_goes_too_far(many: int) -> None:
    with pytest.raises(TomlError) as caught:
        read_toml("x = [\n" + "[\n" * (many - 1) + "1" + "]\n" * many)
    assert caught.value.line == MOST_NESTED + 1


def test_names_and_brackets_that_are_too_deep_only_together_are_refused() -> None:
    text = "x" + "={a.b.c" * 34 + " = 1" + "}" * 34
    with pytest.raises(TomlError, match=f"nested more than {MOST_NESTED} deep") as caught:
        read_toml(text)
    assert caught.value.line is None
    assert read_toml("x" + "={a.b.c" * 33 + " = 1" + "}" * 33)


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_of_too_many_digits_is_called_that(kind: str) -> None:
    many = MOST_DIGITS - (kind == "a fraction")
    value = read_toml(f"x = {NUMBERS[kind](many)}\n")["x"]
    assert str(value)
    for beyond in (MOST_DIGITS + 1, 10_000):
        assert str(refused(f"x = {NUMBERS[kind](beyond)}\n")) == f"a number of {beyond} digits"


def test_a_long_text_of_digits_is_no_number() -> None:
    assert read_toml(f"x = '{'9' * 10_000}'  # {'9' * 10_000}\n") == {"x": "9" * 10_000}


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("\na = ", "invalid value", None),
        ("[a\n", "expected ']' at the end of a table declaration", 1),
        ("a = 1\na = 2\n", "cannot overwrite a value", 2),
        ("a = 'b\n", 'expected "\'"', None),
        ('\na = "b\n" [[', "illegal character '\\n'", 2),
        ("a = '''b" + "[" * 200, "expected \"'''\"", None),
        ('a = """b' + "[" * 200, "unterminated string", None),
        ('a = """b"' + "[" * 200, "unterminated string", None),
        ("a = '''b'" + "[" * 200, "expected \"'''\"", None),
    ],
)
def test_what_is_no_toml_is_said_with_its_line(text: str, says: str, line: int | None) -> None:
    with pytest.raises(TomlError) as caught:
        read_toml(text)
    assert str(caught.value) == says
    assert caught.value.line == line


@pytest.mark.parametrize("kind", [*NAMES, *NESTED])
def test_a_short_text_costs_no_more_than_its_length_to_refuse(kind: str) -> None:
    text = NAMES[kind]("a", 3000) if kind in NAMES else NESTED[kind](3000)
    tracemalloc.start()
    try:
        with pytest.raises(TomlError):
            read_toml(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(text)


def _deepest(value: Any) -> int:
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(_deepest, inside), default=0)


PIECES = ["a", "b.c", ".", '"', '"""', "'", "'''", "#", "\n", "[", "]", "{", "}", "=", "\\", "1", "1.5", " ", ",", "[["]
TEXT = st.lists(st.sampled_from(['"', "'", "\\\\", '\\"', "[", "{", "#", "a.b.c.d", ".", " "]), max_size=5).map("".join)
VALUE = st.recursive(
    st.sampled_from(["1", "1.5", "07:32:00.5", '""', "''", '""""""', "''''''", '"[[["', "'\"'", "true"])
    | TEXT.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'")
    | TEXT.map(lambda text: f'"""{text}"""')
    | TEXT.filter(lambda text: not text.startswith("'") and "'''" not in text).map(lambda text: f"'''{text}'''"),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(inner, max_size=2).map(lambda items: f"[ # [[\n{','.join(items)}\n]")
        | st.lists(inner, max_size=2).map(
            lambda items: f"{{{', '.join(f'a{i}.b = {item}' for i, item in enumerate(items))}}}"
        )
    ),
    max_leaves=4,
)
NAME = st.lists(st.sampled_from(["a", "b", '"c.d"', "'[e'", '""']), min_size=1, max_size=4)
LINE = st.one_of(
    st.tuples(NAME.map(".".join), VALUE).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    NAME.map(lambda names: f"[{' . '.join(names)}]"),
    NAME.map(lambda names: f"[[{'.'.join(names)}]] # a.b.c.d.e"),
)


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.lists(LINE, max_size=4).map("\n".join))
def test_the_bounds_refuse_what_is_too_deep_and_nothing_else(text: str) -> None:
    """Held against the parser with bounds so small that a name of too many parts is too deep as well."""
    try:
        held: dict[str, Any] | None = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        held = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toml, "MOST_NESTED", 2)
        patch.setattr(toml, "MOST_PARTS", 3)
        try:
            read: dict[str, Any] | None = read_toml(text)
        except TomlError:
            read = None
    assert read == (held if held is not None and _deepest(held) - 1 <= 2 else None)


def test_a_byte_order_mark_in_front_is_none_of_it() -> None:
    assert read_toml("\ufeffa = 1\n") == {"a": 1}
    for text in ("\ufeff\ufeffa = 1\n", "a = 1\n\ufeffb = 2\n"):
        with pytest.raises(TomlError):
            read_toml(text)

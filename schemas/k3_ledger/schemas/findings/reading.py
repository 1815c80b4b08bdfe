"""Rows of the registry: bytes that are not entries."""

from __future__ import annotations

from typing import Final

from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import ExitCode, Severity

E = Severity.ERROR

# fmt: off
ROWS: Final = {
    # -- input -----------------------------------------------------------------------------------------------
    "NOT_A_LEDGER": CodeInfo(
        Area.INPUT, E, "not a ledger",
        "No line of the input has the shape of a ledger entry.",
        "point the command at a ledger directory or its ledger.jsonl", ExitCode.UNREADABLE,
    ),
    "EMPTY_LEDGER": CodeInfo(
        Area.INPUT, E, "empty ledger",
        "The ledger file holds no bytes. An empty file proves nothing, so it is not called valid.",
        "restore the file; where it never held an entry, `k3-ledger recover` clears the place for `k3-ledger init`",
        ExitCode.UNREADABLE,
    ),
    "UNREADABLE": CodeInfo(
        Area.INPUT, E, "input cannot be read",
        "A file that is needed is missing or the operating system refused to read it.",
        "check the path and its permissions", ExitCode.UNREADABLE,
    ),
    "CHANGED_WHILE_READ": CodeInfo(
        Area.INPUT, E, "log changed after it was verified",
        "The log was read again after verification and its bytes were others.",
        "verify a copy that nobody writes to",
        ExitCode.UNREADABLE,
    ),
    # -- framing ---------------------------------------------------------------------------------------------
    "UTF16": CodeInfo(
        Area.FRAMING, E, "UTF-16 text",
        "The file was rewritten as UTF-16, so no line of it is an entry any more.",
        "restore the original bytes; on Windows, copy the file instead of redirecting it through a shell",
        ExitCode.UNREADABLE,
    ),
    "BOM": CodeInfo(
        Area.FRAMING, E, "byte order mark",
        "A UTF-8 byte order mark stands in front of a line. An editor put it there; no writer of this format does.",
        "remove the three bytes EF BB BF, or restore the original file",
    ),
    "CRLF": CodeInfo(
        Area.FRAMING, E, "line endings were rewritten",
        "A line ends in CR LF. That is what git does with core.autocrlf, and some editors: the entry may be intact.",
        "mark the ledger '-text' in .gitattributes and check it out again",
    ),
    "BLANK_LINE": CodeInfo(
        Area.FRAMING, E, "blank line",
        "A line holds no bytes. Every line of a ledger is an entry.",
        "restore the original file",
    ),
    "TRAILING_SPACE": CodeInfo(
        Area.FRAMING, E, "trailing spaces",
        "Spaces or tabs follow an entry. An editor put them there; no writer of this format does.",
        "restore the original file",
    ),
    "NUL_BYTES": CodeInfo(
        Area.FRAMING, E, "NUL bytes inside a line",
        "A line holds NUL bytes: a write that never reached the disk was followed by another, or the disk lost data.",
        "restore the file from a copy that verifies",
    ),
    "GLUED_LINES": CodeInfo(
        Area.FRAMING, E, "two entries glued into one line",
        "The head of an entry stands in the middle of a line: a torn write was followed by an append without recovery, "
        "or a line feed was overwritten.",
        "restore the file; the later entry starts at the byte that is named",
    ),
    "LINE_TOO_LONG": CodeInfo(
        Area.FRAMING, E, "line too long",
        "A line is longer than 65,535 bytes. Anything that large belongs in an artifact.",
        "store large content as an artifact and name its digest",
    ),
    "LINE_HEAD": CodeInfo(
        Area.FRAMING, E, "line does not begin like an entry",
        'A line does not begin with the nine bytes {"entry": that every entry begins with.',
        "compare the line with a copy that verifies",
    ),
    "LINE_TAIL": CodeInfo(
        Area.FRAMING, E, "line does not end like an entry",
        "The last 98 bytes of a line are not a signature member and a closing brace.",
        "compare the line with a copy that verifies",
    ),
    "SIGNATURE_BASE64": CodeInfo(
        Area.FRAMING, E, "signature is not strict base64",
        "The signature's 88 characters are not the one accepted spelling of 64 bytes.",
        "compare the line with a copy that verifies",
    ),
    "TORN_TAIL": CodeInfo(
        Area.FRAMING, E, "torn tail",
        "The bytes after the last line feed are the beginning of an entry: a write was cut short. No acknowledged "
        "entry is lost by that.",
        "run `k3-ledger recover`, which keeps the cut bytes aside", ExitCode.TORN_TAIL,
    ),
    "NUL_TAIL": CodeInfo(
        Area.FRAMING, E, "torn tail filled with NUL bytes",
        "The file ends in NUL bytes: it grew, and the power failed before the data followed. No acknowledged entry is "
        "lost by that.",
        "run `k3-ledger recover`, which keeps the cut bytes aside", ExitCode.TORN_TAIL,
    ),
    "TAIL_DAMAGED": CodeInfo(
        Area.FRAMING, E, "damaged tail",
        "The bytes after the last line feed are not what a cut write leaves behind: they were changed or added.",
        "restore the file from a copy that verifies",
    ),
    # -- canonical -------------------------------------------------------------------------------------------
    "JSON_TOO_LONG": CodeInfo(
        Area.CANONICAL, E, "document too long",
        "A JSON document has more bytes than its limit. It was refused before it was read.",
        "move large content into an artifact and name it by its digest",
    ),
    "JSON_BYTE_ORDER_MARK": CodeInfo(
        Area.CANONICAL, E, "byte order mark",
        "A JSON document starts with a UTF-8 byte order mark. Editors add it; the format forbids it.",
        "save the file as UTF-8 without a byte order mark",
    ),
    "JSON_NOT_UTF8": CodeInfo(
        Area.CANONICAL, E, "not UTF-8",
        "A JSON document holds bytes that are no UTF-8 text.",
        "save the file as UTF-8, or put binary content into an artifact",
    ),
    "JSON_SYNTAX": CodeInfo(
        Area.CANONICAL, E, "not JSON",
        "The bytes do not follow the grammar of JSON at this place.",
        "compare the byte offset with what was expected there",
    ),
    "JSON_TRAILING_BYTES": CodeInfo(
        Area.CANONICAL, E, "bytes after the value",
        "A complete JSON value is followed by more bytes, so the document holds more than one thing.",
        "keep one value per document",
    ),
    "JSON_TOO_DEEP": CodeInfo(
        Area.CANONICAL, E, "nested too deeply",
        "More brackets are open at once than the limit allows. Such input is built to exhaust a parser.",
        "flatten the value",
    ),
    "JSON_TOO_MANY_ITEMS": CodeInfo(
        Area.CANONICAL, E, "too many values",
        "A JSON document holds more values than the limit allows.",
        "move large content into an artifact and name it by its digest",
    ),
    "JSON_STRING_TOO_LONG": CodeInfo(
        Area.CANONICAL, E, "string too long",
        "One string or key has more characters than the limit allows.",
        "move long text into an artifact and name it by its digest",
    ),
    "JSON_CONTROL_CHARACTER": CodeInfo(
        Area.CANONICAL, E, "raw control character in a string",
        "A string holds an unescaped character below U+0020, which JSON forbids.",
        "escape it, for example as \\n",
    ),
    "JSON_ESCAPE": CodeInfo(
        Area.CANONICAL, E, "unknown escape",
        "A backslash in a string starts an escape that JSON does not have.",
        "write a backslash as two backslashes",
    ),
    "JSON_LONE_SURROGATE": CodeInfo(
        Area.CANONICAL, E, "lone surrogate",
        "A string holds half of a UTF-16 surrogate pair, escaped or as raw bytes. "
        "It is no character, and implementations turn it into different bytes.",
        "write the whole character, or keep such bytes in an artifact",
    ),
    "JSON_FLOAT": CodeInfo(
        Area.CANONICAL, E, "fractional number",
        "A number has a fraction or an exponent. "
        "Such numbers have several spellings, and serialisers disagree about them.",
        "use an integer in a smaller unit, or a decimal string",
    ),
    "JSON_NOT_A_NUMBER": CodeInfo(
        Area.CANONICAL, E, "NaN or Infinity",
        "A number is NaN or infinite. JSON has no such value, and comparisons with NaN are false both ways.",
        "find out why the measurement gave no number",
    ),
    "JSON_NEGATIVE_ZERO": CodeInfo(
        Area.CANONICAL, E, "minus zero",
        "The number -0 is a second spelling of 0.",
        "write 0",
    ),
    "JSON_LEADING_ZERO": CodeInfo(
        Area.CANONICAL, E, "leading zero",
        "A number starts with a zero that carries no value.",
        "write the number without it",
    ),
    "JSON_INTEGER_RANGE": CodeInfo(
        Area.CANONICAL, E, "integer out of range",
        "An integer lies outside ±(2^53-1), "
        "where doubles merge neighbours and one signature would stand for two records.",
        "write it as a decimal string, or count from the start of the run",
    ),
    "JSON_DUPLICATE_KEY": CodeInfo(
        Area.CANONICAL, E, "duplicate key",
        "A key stands twice in one object, after unescaping. Readers differ in which of the two they show.",
        "keep one of the two",
    ),
    "JSON_KEY_ALPHABET": CodeInfo(
        Area.CANONICAL, E, "key outside the alphabet",
        "An object key is empty or holds a character other than a-z, 0-9 and _.",
        "rename the key",
    ),
    "JSON_TYPE": CodeInfo(
        Area.CANONICAL, E, "type without a spelling",
        "A value that was to be written has a type that canonical JSON does not have.",
        "convert it to an integer, a string, a list or an object first",
    ),
    "JSON_NOT_CANONICAL": CodeInfo(
        Area.CANONICAL, E, "not canonical",
        "The value is fine but its bytes are not the one canonical spelling: white space, key order or escapes differ. "
        "Signed bytes are never rewritten, so they are refused.",
        "write the value with the canonical formatter before it is signed",
    ),
    # -- schema ----------------------------------------------------------------------------------------------
    "SCHEMA_UNKNOWN_KIND": CodeInfo(
        Area.SCHEMA, E, "unknown entry kind",
        "An entry's kind is none of those that format version 1 has.",
        "use a newer version of this program if the log is newer than it",
    ),
    "SCHEMA_VERSION": CodeInfo(
        Area.SCHEMA, E, "unsupported schema version",
        "The kind is known, but its schema has a version that this program does not. The entry was not judged.",
        "use a newer version of this program",
    ),
    "SCHEMA_UNKNOWN_FIELD": CodeInfo(
        Area.SCHEMA, E, "unknown field",
        "An object holds a field that its model does not have. Unknown content is never skipped under a signature.",
        "remove the field, or look at its spelling",
    ),
    "SCHEMA_MISSING_FIELD": CodeInfo(
        Area.SCHEMA, E, "missing field",
        "An object lacks a field of its model. Every field is always written, so that one value has one encoding.",
        "write the field, as null or [] where there is nothing to say",
    ),
    "SCHEMA_TYPE": CodeInfo(
        Area.SCHEMA, E, "wrong type",
        "A field holds another JSON type than its model asks for.",
        "see what was expected at this field",
    ),
    "SCHEMA_VALUE": CodeInfo(
        Area.SCHEMA, E, "value not allowed",
        "A field has the right type, but its value breaks a constraint: a pattern, a range, a length or a choice.",
        "see what was expected at this field",
    ),
}
# fmt: on

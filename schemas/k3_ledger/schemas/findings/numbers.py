"""Rows of the registry: rules, pins, verdicts and claims."""

from __future__ import annotations

from typing import Final

from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import ExitCode, Severity

E, W, N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# fmt: off
ROWS: Final = {
    # -- rules -----------------------------------------------------------------------------------------------
    "NUMBER": CodeInfo(
        Area.RULES, E, "not an exact number",
        "A figure is missing, is not a finite decimal number, or carries a unit, so nothing can be computed from it.",
        "write the number alone, such as 56.82; its unit has a field of its own", ExitCode.UNREADABLE,
    ),
    "RULE_UNKNOWN": CodeInfo(
        Area.RULES, E, "unknown rule",
        "No rule of that name is registered. A rule is never guessed from part of a name.",
        "`k3-ledger rules list` shows every rule", ExitCode.USAGE,
    ),
    "RULE_MOMENT": CodeInfo(
        Area.RULES, E, "no rule in force",
        "The moment asked for is older than the first rule, or is no moment at all.",
        "`k3-ledger rules list` shows since when each rule was in force", ExitCode.USAGE,
    ),
    "RULE_PARAMETERS": CodeInfo(
        Area.RULES, E, "not the parameters of a rule",
        "A parameter of a rule is missing, unknown, given twice or of the wrong kind. None is ever defaulted.",
        "`k3-ledger rules show NAME --toml` prints a complete rule to start from", ExitCode.UNREADABLE,
    ),
    "RULE_DIGEST": CodeInfo(
        Area.RULES, E, "a rule entry that states another rule's digest",
        "The digest or the arithmetic that a `rule` entry states is not that of the parameters it carries. Whoever "
        "reads the digest believes in another rule than the one that verdicts are derived by.",
        "publish the rule again as `k3-ledger rules show NAME --body` prints it", ExitCode.FALSE,
    ),
    "TOML_SYNTAX": CodeInfo(
        Area.RULES, E, "not TOML",
        "A file of pins, merges or claims, or a rule file, is not TOML, or is not UTF-8. Nor is one read that is "
        "nested more than 100 deep, or that has a name of more than 16 parts or a number of more than 1000 digits: "
        "such a text could fill the memory of whoever reads it.",
        "correct the line that is named", ExitCode.UNREADABLE,
    ),
    "TOML_FIELD": CodeInfo(
        Area.RULES, E, "wrong field in a TOML file",
        "A field of a file of pins, merges or claims is unknown, missing, given twice or of the wrong type.",
        "correct the field that is named; the documentation lists them all", ExitCode.UNREADABLE,
    ),
    # -- pins ------------------------------------------------------------------------------------------------
    "PIN_INVALID": CodeInfo(
        Area.PINS, E, "not a pin",
        "A pin is zero, negative, missing or in another metric's unit, so nothing can be held against it.",
        "pin a measured value above zero, in the unit of its metric", ExitCode.UNREADABLE,
    ),
    "PIN_STALE": CodeInfo(
        Area.PINS, E, "stale pin",
        "The newest measurement differs from the pin by more than the threshold and no merged winner explains it: "
        "whoever is scored against the pin is scored against the wrong number.",
        "measure again; `reconcile --write` raises a pin that is too low",
    ),
    "PIN_EXPLAINED": CodeInfo(
        Area.PINS, W, "pin behind a merged winner",
        "The newest measurement is above the pin by more than the threshold, and the last merged winner explains it.",
        "`reconcile --write` raises the pin",
    ),
    "PIN_ALARM": CodeInfo(
        Area.PINS, E, "measurement far below the pin",
        "The newest measurement is below nine tenths of the pin: a bad build, a slow machine, or a regression.",
        "find the cause and measure again before anything is scored; a pin is never lowered",
    ),
    "PIN_UNSOURCED": CodeInfo(
        Area.PINS, E, "pin without a source",
        "The pin names no receipt, or one that is not in the ledger, so nobody can say where its value was measured.",
        "name the receipt that the value was measured in",
    ),
    "PIN_HAND_EDITED": CodeInfo(
        Area.PINS, E, "pin edited by hand",
        "The pin's value is not the one that the receipt it names measured on that slot.",
        "restore the measured value, or name the receipt that measured this one",
    ),
    "PIN_STAMP": CodeInfo(
        Area.PINS, E, "pin under another stamp",
        "The pin states another commit, or another moment of measurement, than the receipt it names.",
        "state what the receipt states, or nothing; a pin entry is superseded and appended anew",
    ),
    "PIN_PREDATES": CodeInfo(
        Area.PINS, W, "pin older than accepted work",
        "The pin was measured before receipts that were accepted on its track, or work that was merged on its node.",
        "measure the frontier again",
    ),
    "PIN_UNMEASURED": CodeInfo(
        Area.PINS, N, "pin without a measurement",
        "No receipt measures the pin's slot, so its drift was not checked.",
        "seal a measurement of the slot",
    ),
    "PIN_PROPOSAL": CodeInfo(
        Area.PINS, W, "pin differs from its proposal",
        "The file proposes another value than the ledger's own pin entry, which is the one that counts.",
        "append a pin entry, or bring the file in line",
    ),
    "PIN_LOWERED": CodeInfo(
        Area.PINS, E, "pin lowered",
        "A pin entry is lower than one before it on its slot, or a file proposes less. Pins only rise.",
        "restore the higher value; if that was the wrong one, supersede its entry and say why",
    ),
    "PIN_UNWRITTEN": CodeInfo(
        Area.PINS, E, "pins file that cannot be changed in place",
        "A pin should rise, and the file is written in a way that its value cannot be replaced with every other byte "
        "kept. Nothing was written.",
        "write pins as [[pin]] tables, all headers alike, with one field a line; or change it by hand",
        ExitCode.UNREADABLE,
    ),
    "PIN_WEIGHTS": CodeInfo(
        Area.PINS, W, "several weights under one name",
        "The pin's slot was measured on other weights than the pin was: one name stands for several files, whose "
        "speeds are no evidence about one another.",
        "find out which file is meant; where weights have changed for good, supersede the pin, measure the frontier on "
        "the new ones and pin that",
    ),
    # -- verdicts --------------------------------------------------------------------------------------------
    "VERDICT_MISMATCH": CodeInfo(
        Area.VERDICTS, E, "verdict does not follow",
        "The rule that a verdict names, applied to the run and the pins it names, gives something else.",
        "do not trust this verdict; `k3-ledger rescore` derives the right one",
    ),
    "VERDICT_PIN": CodeInfo(
        Area.VERDICTS, E, "verdict rests on a pin that is not there",
        "A pin that a verdict took from a receipt, a pin entry, the rule or the history is not what stands there.",
        "do not trust this verdict; `k3-ledger rescore` shows the pins that are there",
    ),
    "JUDGEMENT_UNREADABLE": CodeInfo(
        Area.VERDICTS, E, "pin or rule entry that is none",
        "An entry that verdicts rest on holds no pin (zero, negative, an unknown slot) or no complete rule.",
        "supersede the entry and append a right one; do not trust what was judged on it meanwhile",
    ),
    "JUDGEMENT_DISOWNED": CodeInfo(
        Area.VERDICTS, W, "judgement on an entry that was taken back",
        "A verdict or a pin rests on an entry that a later revocation took back, or follows from what stood there "
        "before it. Who judged did nothing wrong; it was not derived from what is left.",
        "measure and judge again, and supersede the judgement; until then rely on no figure that rests on the entry",
    ),
    "VERDICT_UNKNOWN_RULE": CodeInfo(
        Area.VERDICTS, W, "verdict by an unknown rule",
        "No rule of that digest is registered or published in the ledger, so the verdict was not derived again.",
        "publish the rule as a `rule` entry",
    ),
    "RULE_NAME_TAKEN": CodeInfo(
        Area.VERDICTS, E, "another rule under a known name",
        "A rule entry, or a verdict, has the name of a rule that says something else: a shipped one, or one published "
        "before it. Whoever reads the name in a verdict would take it for the other.",
        "supersede the entry, and publish the rule under a name of its own; a rule never changes under its name",
    ),
    "SUPERSEDE_REPLACEMENT": CodeInfo(
        Area.VERDICTS, E, "superseded by what does not stand",
        "A supersession names as standing in the place of an entry that very entry, or one that was superseded before. "
        "Whoever follows the replacements would go in a circle, or end at what counts for nothing.",
        "supersede the supersession, and name with the next one an entry that stands, or null; what it took back stays "
        "taken back",
    ),
    "VERDICT_OLDER_READING": CodeInfo(
        Area.VERDICTS, W, "verdict by an older reading of runs",
        "A verdict follows from how runs were read when it was sealed: with a frontier that its own clock refutes, the "
        "divergence of another track or ground, or a clock of which two lengths were read. Today it would not follow.",
        "judge the run again; the verdict is not false, and nothing newer should rest on it",
    ),
    "VERDICT_UNTRACED_PIN": CodeInfo(
        Area.VERDICTS, W, "verdict rests on a pin from a file",
        "The verdict follows, but a pin in it was taken from a file that the ledger does not hold, so nobody can "
        "derive it from the ledger alone. It says what would be if that pin were so, and publishes nothing: no claim, "
        "frontier or comparison with what was published counts it.",
        "append the pin as a `pin` entry and judge again",
    ),
    # -- claims ----------------------------------------------------------------------------------------------
    "CLAIM_CONTRADICTED": CodeInfo(
        Area.CLAIMS, E, "claim contradicted",
        "The receipts say something else than what was published, or the run it rests on was refused.",
        "correct what was published; the contradicting evidence is named",
    ),
    "CLAIM_AMBIGUOUS": CodeInfo(
        Area.CLAIMS, E, "claim ambiguous",
        "Several receipts could be meant, or those that could disagree with each other.",
        "name the receipt that is meant",
    ),
    "CLAIM_NO_RECEIPT": CodeInfo(
        Area.CLAIMS, E, "claim without a receipt",
        "Nothing in the ledger holds the published value.",
        "seal the measurement it was taken from, or withdraw it",
    ),
    "CLAIM_STALE": CodeInfo(
        Area.CLAIMS, E, "claim stale",
        "The value was right once; newer evidence on the same track says otherwise.",
        "publish the newer value, or say when the old one held",
    ),
    "CLAIM_UNSEALED": CodeInfo(
        Area.CLAIMS, W, "claim rests on an unsealed figure",
        "Only a log line, a pin or the shipped history holds the value, or one side of a ratio; no receipt does.",
        "measure again and seal it",
    ),
}
# fmt: on

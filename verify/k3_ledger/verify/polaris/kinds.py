"""Which class of trouble each finding code of an audit belongs to: the grouping of its report."""

from __future__ import annotations

import enum
from typing import Final

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.findings.row import Area


class Trouble(enum.StrEnum):
    """Classes of trouble, in the order in which a report shows them."""

    UNREADABLE = "cannot be read as it stands"
    DIGEST = "digest, signature or quote fails"
    CONTRADICTION = "records contradict one another"
    SEALED = "the seal vouches for something else"
    EDITED = "edited, or added after sealing"
    LISTING = "missing from a listing, or listed without being there"
    ROUND = "the log text tells another story"
    MEANING = "one field, two meanings"
    PRECISION = "precision lost between copies"
    DUPLICATE = "shared by several runs, or changed between them"
    UNBOUND = "nothing binds it"
    PROVENANCE = "provenance left empty"


_CLASSES: Final = {
    Trouble.DIGEST: "HASH QUOTE QUOTE_PADDING SIGNATURE SIGNER_OTHER CHAIN_BROKEN CHAIN_INDEX",
    Trouble.CONTRADICTION: "CONTRADICTION COMMIT DERIVED IMPOSSIBLE BLANK_COPY TIME_ORDER TIME_COLLATERAL",
    Trouble.SEALED: "SEALED_VERDICT SEALED_BARS ENCLAVE_FAILED RESULT_REWRITTEN SIGNED_ROUNDED",
    Trouble.EDITED: "EDITED_IN_PLACE SUPERSEDED_BY_OLDER ADDED_AFTER_SEALING",
    Trouble.LISTING: "UNLISTED ROW_WITHOUT_RUN ROW_REPEATED FILE_MISSING FIELD_ABSENT INDEX_ORDER "
    "ADVANCE_UNPROVED RECEIPT_GONE LEDGER_EMPTY",
    Trouble.ROUND: "TIER TIER_HISTORY REGRESSION_PUBLISHED MERGED_WITHOUT_GAIN LOG_SILENT LOG_COUNT LOG_SHARED "
    "FAILURE_UNRECORDED REFUSED_THEN_PUBLISHED OVERRIDE_UNRECORDED PIN_GAP FRONTIER_UNMEASURED",
    Trouble.MEANING: "TWO_MEANINGS NOT_COMPARED TIER_BASIS FIELD_MISFILLED GUARD_UNMEASURED CLOCK_WRONG_METRIC",
    Trouble.PRECISION: "PRECISION_LOST PRECISION_FEIGNED",
    Trouble.DUPLICATE: "SAME_COMMIT SAME_RECEIPT ID_REPEATED BUILD_DIFFERS BUILD_SHARED WEIGHTS_CHANGED "
    "EVIDENCE_REPEATED BOUND_DIGEST ENCLAVE_CHANGED SCORER_COMMIT",
    Trouble.UNBOUND: "ATTESTATION_UNBOUND NONCE_UNBOUND RECEIPT_ID_COMMON CHAIN_UNLINKED CHAIN_UNSIGNED "
    "SIGNER_UNKNOWN VERIFICATION_ASSERTED VERIFICATION_DENIED VERSION VERIFIER_REFUSES",
    Trouble.PROVENANCE: "PROVENANCE_EMPTY CLOCKS_UNPINNED CLOCK_UNPUBLISHED MISSING_FOR_RESCORE",
}

TROUBLE: Final[dict[Code, Trouble]] = {
    Code[f"FOREIGN_{name}"]: trouble for trouble, names in _CLASSES.items() for name in names.split()
}
"""Class of every code that speaks of what records say; the rest say that bytes cannot be read."""
_UNBOUND_QUOTES: Final = frozenset({Code.QUOTE_MALLEABLE, Code.QUOTE_TIME_UNBOUND})


def trouble(code: Code) -> Trouble:
    """Class of a finding code."""
    if code.info.area is Area.ATTESTATION:
        return Trouble.UNBOUND if code in _UNBOUND_QUOTES else Trouble.DIGEST
    return TROUBLE.get(code, Trouble.UNREADABLE)

"""Attacks by who publishes a foreign log: what its receipts, its listing and its rounds say of themselves.

Each is made on a log of the family that docs/audit.md describes, by the generator of that family's tests. The ledger
that other attacks are made on plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.verify.polaris import audit
from tests.attacks.registry import attack
from tests.attacks.world import Outcome
from tests.verify.polaris.cases import CASES

if TYPE_CHECKING:
    from tests.attacks.world import World

MADE: Final = {case.name: case for case in CASES}
COMMITTED: Final = {
    "vouch_for_a_foreign_receipt_in_the_receipt": "receipt_that_vouches_for_itself",
    "leave_a_foreign_body_outside_its_quote": "nonce_that_was_replaced",
    "publish_what_the_enclave_rejected": "enclave_that_rejects_what_was_published",
    "have_the_enclave_judge_by_other_bars": "enclave_that_judges_by_other_bars",
    "add_depths_to_a_foreign_result_after_sealing": "depths_added_after_sealing",
    "rewrite_a_foreign_result_after_sealing": "result_rewritten_after_the_measurements_were_sealed",
    "name_a_scorer_that_did_not_score": "scorer_between_two_of_another",
    "leave_the_provenance_of_a_foreign_run_empty": "provenance_left_empty",
    "call_a_foreign_field_by_another_name": "fields_filled_with_something_else",
    "leave_a_foreign_run_out_of_the_listing": "run_left_out_of_the_ledger",
    "tell_of_no_failed_round": "failures_that_no_ledger_line_tells",
    "publish_a_commit_that_was_refused": "commit_refused_and_later_published",
    "publish_one_log_for_two_runs": "one_log_for_two_runs",
    "publish_no_reading_of_the_clock": "clock_reading_that_was_not_published",
    "edit_a_foreign_row_in_place": "row_marked_as_superseded_later",
    "write_times_that_the_familys_verifier_refuses": "time_that_the_family_cannot_read",
    "make_receipt_ids_over_a_constant": "receipt_ids_over_a_constant",
}  # fmt: skip
"""Name of the attack: name of the case that commits it."""


@dataclass
class ForeignTrial:
    """A foreign log in front of the audit."""

    case: str

    def run(self) -> Outcome:
        """Audit it."""
        report = audit(MADE[self.case].files())
        return Outcome(frozenset(finding.code.id for finding in report.findings), int(report.exit_code))


def _commit(name: str, case: str) -> None:
    def generate(world: World) -> ForeignTrial:
        del world
        return ForeignTrial(case)

    generate.__name__ = name
    attack(generate)


for _name, _case in COMMITTED.items():
    _commit(_name, _case)

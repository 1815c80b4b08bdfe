"""Attacks on the bytes of ``ledger.jsonl`` by whoever can change the file: he holds no key."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from tests.attacks.registry import attack
from tests.attacks.world import World, build, entry
from tests.ledgers import JUDGE, RUNNER, Builder, canonical, run_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.attacks.world import LogTrial

L = 2**252 + 27742317777372353535851937790883648493
"""Order of the prime-order group of Ed25519."""


def _changed(world: World, change: Callable[[list[bytes]], None], *, head: bool = True) -> LogTrial:
    """The ledger with its lines changed, under the head that commits to the honest ones."""
    honest = world.ledger.head()
    world = world.copy()
    change(world.lines)
    return world.trial(checkpoint=honest if head else None)


def _replaced(world: World, name: str, change: Callable[[bytes], bytes], **options: bool) -> LogTrial:
    def replace(lines: list[bytes]) -> None:
        lines[world.at[name]] = change(lines[world.at[name]])

    return _changed(world, replace, **options)


def _respelled(line: bytes, data: bytes) -> bytes:
    """The line with other entry bytes and the signature it had."""
    return line[:9] + data + line[-99:]


def _other(world: World) -> World:
    """Another log of the same name under the same keys, whose runs differ."""
    other = build().copy()
    for at in (world.at["run"], world.at["note"]):
        other.lines[at:] = []
        other.ledger.add("run", run_body(999 + at), RUNNER)
    other.ledger.add("run", run_body(1999), RUNNER)
    return other


# ------------------------------------------------------------------------------------------- which entries, in order


@attack
def swap_two_entries(world: World) -> LogTrial:
    def change(lines: list[bytes]) -> None:
        a, b = world.at["evidence"], world.at["run"]
        lines[a], lines[b] = lines[b], lines[a]

    return _changed(world, change)


@attack
def drop_an_entry(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.__delitem__(world.at["evidence"]))


@attack
def drop_an_entry_and_the_checkpoint(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.__delitem__(world.at["evidence"]), head=False)


@attack
def drop_the_genesis(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.__delitem__(0), head=False)


@attack
def repeat_an_entry_in_place(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.insert(world.at["run"], lines[world.at["run"]]))


@attack
def repeat_an_entry_later(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.append(lines[world.at["candidate"]]))


@attack
def cut_the_end_off_below_the_checkpoint(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.__delitem__(slice(-2, None)))


@attack
def cut_the_end_off_with_the_checkpoint(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.__delitem__(slice(-2, None)), head=False)


@attack
def cut_inside_the_last_entry(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.__setitem__(-1, lines[-1][:-40]), head=False)


@attack
def splice_in_an_entry_of_another_log_of_that_name(world: World) -> LogTrial:
    other = _other(world)
    return _replaced(world, "run", lambda _: other.lines[world.at["run"]])


@attack
def splice_in_the_end_of_another_log_of_that_name(world: World) -> LogTrial:
    other, at = _other(world), world.at["note"]
    return _changed(world, lambda lines: lines.__setitem__(slice(at, None), other.lines[at:]))


@attack
def join_two_ledgers(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.extend(build().lines))


@attack
def begin_a_second_genesis_by_the_trusted_root(world: World) -> LogTrial:
    """The genesis of a forgotten test log, opened by the same root key, is put behind the end."""
    other = Builder(origin="example.org/test").open()
    return _changed(world, lambda lines: lines.append(other.lines[0]))


# ------------------------------------------------------------------------------------------------ what an entry says


@attack
def edit_a_figure(world: World) -> LogTrial:
    return _replaced(world, "candidate", lambda line: line.replace(b'"count":2048', b'"count":4096'))


@attack
def edit_a_label_of_a_verdict(world: World) -> LogTrial:
    """Label to XL, as nothing in an unbound attestation would notice."""
    return _replaced(world, "verdict", lambda line: line.replace(b'"tier":"XL"', b'"tier":"XX"'))


@attack
def edit_the_last_entry_unseen_by_the_chain(world: World) -> LogTrial:
    """No later entry names the last one: only its signature and the head stand for it."""
    return _changed(world, lambda lines: lines.__setitem__(-1, lines[-1].replace(b"ended", b"is on")), head=False)


@attack
def edit_the_claimed_time(world: World) -> LogTrial:
    return _replaced(world, "run", lambda line: line.replace(b'"time":"2026', b'"time":"2027'))


@attack
def edit_the_index_of_an_entry(world: World) -> LogTrial:
    at = world.at["run"]
    return _replaced(world, "run", lambda line: line.replace(b'"index":%d' % at, b'"index":%d' % (at + 1)))


@attack
def give_an_entry_a_giant_index(world: World) -> LogTrial:
    at = world.at["note"]
    return _replaced(world, "note", lambda line: line.replace(b'"index":%d' % at, b'"index":%d' % (2**53 - 1)))


@attack
def give_an_entry_an_index_no_float_holds(world: World) -> LogTrial:
    at = world.at["note"]
    return _replaced(world, "note", lambda line: line.replace(b'"index":%d' % at, b'"index":%d' % (2**53 + 1)))


@attack
def write_a_float(world: World) -> LogTrial:
    return _replaced(world, "candidate", lambda line: line.replace(b'"count":2048', b'"count":2048.0'))


@attack
def write_one_member_twice(world: World) -> LogTrial:
    def change(line: bytes) -> bytes:
        return line.replace(b'"time":', b'"time":"2026-01-01T00:00:00Z","time":')

    return _replaced(world, "run", change)


@attack
def spell_an_entry_another_way(world: World) -> LogTrial:
    """The same value with a space: it would hash, and sign, differently in every reader."""

    def change(line: bytes) -> bytes:
        return _respelled(line, json.dumps(entry(line), sort_keys=True).encode())

    return _replaced(world, "note", change)


@attack
def hide_a_member_nobody_knows(world: World) -> LogTrial:
    def change(line: bytes) -> bytes:
        return _respelled(line, canonical(entry(line) | {"zz": "hidden"}))

    return _replaced(world, "note", change)


@attack
def make_an_entry_of_an_unknown_kind(world: World) -> LogTrial:
    return _replaced(world, "note", lambda line: line.replace(b'"kind":"note"', b'"kind":"memo"'))


@attack
def claim_another_signer(world: World) -> LogTrial:
    return _replaced(world, "note", lambda line: line.replace(JUDGE.id.encode(), RUNNER.id.encode()))


# ------------------------------------------------------------------------------------------------ signatures, frames


@attack
def put_another_entrys_signature_there(world: World) -> LogTrial:
    other = world.lines[world.at["evidence"]]
    return _replaced(world, "run", lambda line: line[:-99] + other[-99:])


@attack
def add_the_group_order_to_s(world: World) -> LogTrial:
    """A second signature that sloppier verifiers accept: the entry's identity does not depend on it."""

    def change(line: bytes) -> bytes:
        sig = base64.b64decode(line[-91:-3])
        s = int.from_bytes(sig[32:], "little") + L
        return line[:-91] + base64.b64encode(sig[:32] + s.to_bytes(32, "little")) + line[-3:]

    return _replaced(world, "note", change, head=False)


@attack
def sign_with_a_point_of_low_order(world: World) -> LogTrial:
    sig = bytes([1]) + bytes(31) + bytes(32)
    return _replaced(world, "note", lambda line: line[:-91] + base64.b64encode(sig) + line[-3:], head=False)


@attack
def spell_a_signature_another_way(world: World) -> LogTrial:
    """Unused bits of the last digit: fifteen of sixteen spellings that decode alike are refused."""
    digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    def change(line: bytes) -> bytes:
        last = digits.index(line[-6:-5])
        return line[:-6] + digits[last + 1 : last + 2] + line[-5:]

    return _replaced(world, "note", change, head=False)


@attack
def end_lines_the_windows_way(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.__setitem__(slice(None), [x[:-1] + b"\r\n" for x in lines]), head=False)


@attack
def put_a_byte_order_mark_in_front(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.__setitem__(0, b"\xef\xbb\xbf" + lines[0]), head=False)


@attack
def leave_a_blank_line(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.insert(world.at["run"], b"\n"), head=False)


@attack
def glue_two_lines_together(world: World) -> LogTrial:
    at = world.at["run"]
    return _changed(world, lambda lines: lines.__setitem__(at, lines[at][:-1]), head=False)


@attack
def write_beyond_the_end_without_a_line_feed(world: World) -> LogTrial:
    return _changed(world, lambda lines: lines.append(b"{"), head=True)


@attack
def make_a_line_of_half_a_gigabyte_seem_likely(world: World) -> LogTrial:
    """One line longer than any may be; it is refused without being held."""
    return _replaced(world, "note", lambda line: line[:40] + b"a" * 200_000 + line[40:], head=False)

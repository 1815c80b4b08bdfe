"""The log's side of the witness protocol: ask for a cosignature, prove what the witness wants proved, believe nothing.

What comes back is checked with the witness's key before it is taken for anything. An answer that the ledger is behind
the witness, or inconsistent with it, is the witness doing its work: it is raised, never retried.

Other makers' witnesses say "another head of that size" in two ways. The protocol had 409 for it up to version 1.0.0,
with a body that it left open, and has 422 since; both are refusals here. A 409 is about the old size, and asked again,
only if it names another one.
"""

from __future__ import annotations

import http.client
import queue
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.checkpoint import parse_checkpoint
from k3_ledger.ledger.core.cosignature import MAX_AHEAD_S, Witness, read_cosignatures
from k3_ledger.ledger.core.note import NoteSignature, UnverifiedNote, parse_note
from k3_ledger.ledger.core.tlog_witness import SIZE_TYPE, AddCheckpoint, format_request, parse_answer, parse_size
from k3_ledger.schemas.addresses import said, told
from k3_ledger.schemas.errors import MalformedError, WitnessError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from k3_ledger.ledger.core.note import Verifier

    Prove = Callable[[int, int], Sequence[bytes]]
    """Gives the hashes of the consistency proof between two sizes of the log, the smaller one at least 1."""

MAX_ANSWER: Final = 65_536
"""Most bytes of an answer that are read."""
TRIES: Final = 3
"""How often a witness that moves on meanwhile is asked again."""
_SCHEMES: Final = ("http", "https")
_REFUSALS: Final = frozenset({400, 403, 404, 422})
"""Answers by which a witness says that it will not cosign this (C2SP tlog-witness); any other is trouble on the way."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A cosignature that was asked for and checked.

    Attributes:
        signature: the signature line.
        timestamp: the time in it, in seconds since the Epoch.
    """

    signature: NoteSignature
    timestamp: int


def check_address(address: str) -> None:
    """Raises ValueError, with the reason, where an address is not one of http or https that names a host."""
    why = ""
    try:
        url = urllib.parse.urlsplit(address)
        if url.username is not None:
            why = ": no witness is asked under a user's name"
        elif url.scheme in _SCHEMES and url.hostname and url.port != 0:
            return
    except ValueError as error:
        why = f": {told(str(error), address) or 'it names no host'}"
    raise ValueError(f"{said(address)!r} is no http or https address{why}")


def ask_witness(
    address: str,
    verifier: Verifier,
    checkpoint: bytes,
    prove: Prove,
    *,
    old_size: int = 0,
    timeout_s: float = 10.0,
    now: int | None = None,
) -> Asked:
    """Ask one witness to cosign a checkpoint.

    Args:
        address: submission prefix of the witness, http or https.
        verifier: its key.
        checkpoint: the signed note.
        prove: makes consistency proofs.
        old_size: what the witness is believed to have cosigned last; it says so itself if that is wrong.
        timeout_s: how long to wait for a whole answer, in seconds.
        now: this machine's clock, in seconds since the Epoch: a cosignature of much later is not taken, for the latest
            one of a witness stands for ever. None takes any time.

    Raises:
        WitnessError: the witness was not reached, refused, or gave an answer that cannot be used.
        MalformedError: the checkpoint or the answer cannot be read.
        ValueError: the address is not of http or https.
    """
    check_address(address)
    place = Position(source=address)
    note = parse_note(checkpoint)
    size = parse_checkpoint(note.text).size
    for _ in range(TRIES):
        proof = prove(old_size, size) if 0 < old_size < size else ()
        body = format_request(AddCheckpoint(old_size, tuple(proof), checkpoint))
        status, kind, answer = _post(f"{address.removesuffix('/')}/add-checkpoint", body, timeout_s, place)
        if status == http.client.OK:
            return _timely(_checked(note, answer, verifier, place), now, verifier, place)
        if status != http.client.CONFLICT:
            raise _refused(status, answer, place)
        seen = _size_named(kind, answer, place)
        if seen is None or seen == old_size == size:
            raise _conflict(answer, size, old_size, place)
        if seen > size:
            raise WitnessError(
                Code.WITNESS_AHEAD,
                f"the witness {verifier.name} has cosigned a larger head of this log",
                position=place,
                expected=f"at least {seen} entries",
                found=f"{size} entries",
            )
        old_size = seen
    raise WitnessError(
        Code.WITNESS_ANSWER, f"the witness named another size {TRIES} times, and none was right", position=place
    )


def _checked(note: UnverifiedNote, answer: bytes, verifier: Verifier, place: Position) -> Asked:
    """The cosignature in an answer; lines by other keys are ignored."""
    lines = parse_answer(answer, position=place)
    found = read_cosignatures(UnverifiedNote(note.text, lines), [Witness(verifier, "")], position=place)
    if found.bad or not found.good:
        raise WitnessError(
            Code.WITNESS_ANSWER,
            found.bad[0].finding.message if found.bad else f"the answer holds no cosignature by {verifier.name}",
            position=place,
            expected=f"{verifier.name}+{verifier.key_hash:08x}",
            found=", ".join(f"{sig.name}+{sig.key_hash:08x}" for sig in lines),
        )
    time = found.good[0].timestamp
    ours = (sig for sig in lines if (sig.name, sig.key_hash) == (verifier.name, verifier.key_hash))
    return Asked(next(sig for sig in ours if int.from_bytes(sig.signature[:8], "big") == time), time)


def _timely(asked: Asked, now: int | None, verifier: Verifier, place: Position) -> Asked:
    """The cosignature, unless its time is one that no clock here can have seen."""
    if now is None or asked.timestamp <= now + MAX_AHEAD_S:
        return asked
    raise WitnessError(
        Code.WITNESS_ANSWER,
        f"the clock of {verifier.name} is {asked.timestamp - now} seconds ahead of this machine's: nothing was kept",
        position=place,
        expected=f"a time no more than {MAX_AHEAD_S} seconds ahead of {now}",
        found=str(asked.timestamp),
        hint="one of the two clocks is wrong: set this machine's right, or tell the witness's operator",
    )


def _size_named(kind: str, answer: bytes, place: Position) -> int | None:
    """The size in an answer of 409; None where it names none, and is not said to.

    A size counts under whatever type it comes, since libraries for HTTP add to types of text what they like.
    """
    try:
        return parse_size(answer, position=place)
    except MalformedError:
        if kind.partition(";")[0].strip().lower() == SIZE_TYPE:
            raise
        return None


def _conflict(answer: bytes, size: int, old_size: int, place: Position) -> WitnessError:
    """A 409 that is not about another size: up to version 1.0.0, the protocol had it for another root of that size."""
    words = answer[:200].decode("utf-8", errors="replace").strip()
    fork = f"it has cosigned another head of {size} entries" if old_size == size else "it names no size to start from"
    return WitnessError(
        Code.WITNESS_REFUSED, f"the witness answered 409: {fork}{f' ({words})' if words else ''}", position=place
    )


def _refused(status: int, answer: bytes, place: Position) -> WitnessError:
    words = f"the witness answered {status}: {answer[:200].decode('utf-8', errors='replace').strip()}"
    if status in _REFUSALS:
        return WitnessError(Code.WITNESS_REFUSED, words, position=place)
    return _unreachable(place, words)


def _unreachable(place: Position, found: str) -> WitnessError:
    return WitnessError(Code.WITNESS_UNREACHABLE, "the witness gave no answer", position=place, found=found)


def _opener() -> urllib.request.OpenerDirector:
    """Speaks http and https, and follows no redirection: a witness stands where it was said to stand."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _post(url: str, body: bytes, timeout_s: float, place: Position) -> tuple[int, str, bytes]:
    """Status, content type and body of the answer.

    A socket's own limit begins anew with every byte, so whoever sends a byte at a time could keep us for ever: the
    exchange has a thread of its own, and is left to itself when the time is up.
    """
    outcome: queue.SimpleQueue[tuple[int, str, bytes] | Exception] = queue.SimpleQueue()
    threading.Thread(target=_exchange, args=(url, body, timeout_s, outcome), daemon=True).start()
    try:
        found = outcome.get(timeout=timeout_s)
    except queue.Empty:
        raise _unreachable(place, f"no whole answer within {timeout_s:g} s") from None
    if isinstance(found, Exception):  # of the system, of HTTP, or about a name that no host can have
        words = told(str(getattr(found, "reason", None) or found), url)
        raise _unreachable(place, words or type(found).__name__) from found
    return found


def _exchange(
    url: str, body: bytes, timeout_s: float, outcome: queue.SimpleQueue[tuple[int, str, bytes] | Exception]
) -> None:
    request = urllib.request.Request(url, body, {"Content-Type": "text/plain; charset=utf-8"}, method="POST")  # noqa: S310 - the scheme was checked
    try:
        try:
            with _opener().open(request, timeout=timeout_s) as answer:
                outcome.put((answer.status, answer.headers.get("Content-Type", ""), answer.read(MAX_ANSWER)))
        except urllib.error.HTTPError as error:
            with error:
                outcome.put((error.code, error.headers.get("Content-Type", ""), error.read(MAX_ANSWER)))
    except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
        outcome.put(error)

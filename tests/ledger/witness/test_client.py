"""The log's side: what is asked, what is believed, and what answers of hostile witnesses come to."""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Self

import pytest

from k3_ledger.ledger.core.note import KeyType, Verifier
from k3_ledger.ledger.core.tlog_witness import format_answer, parse_request
from k3_ledger.ledger.witness import client
from k3_ledger.ledger.witness.client import TRIES, ask_witness
from tests.ledger.core.samples import code_of, refusal
from tests.ledger.witness.support import NAME, NOW, STRANGER, WITNESS, A, B

VERIFIER = Verifier(NAME, WITNESS.public, KeyType.COSIGNATURE)
TYPES = {200: "text/plain", 409: "text/x.tlog.size"}


class Scripted:
    """A witness that answers what it is told to, and keeps what it was asked."""

    def __init__(self, *answers: tuple[int, bytes] | tuple[int, bytes, str]) -> None:
        self.asked: list[bytes] = []
        script = iter(answers)
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked.append(self.rfile.read(int(self.headers["Content-Length"])))
                status, body, *kind = next(script)
                self.send_response(status)
                self.send_header("Content-Type", kind[0] if kind else TYPES.get(status, "text/plain"))
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def ask(url: str, size: int = 8, *, old: int = 0, branch=A):
    return ask_witness(url, VERIFIER, branch.note(size), branch.proof, old_size=old, timeout_s=30)


GOOD = WITNESS.line(A.text(8), NOW).encode()


def test_a_real_witness_cosigns_and_is_followed_to_where_it_stands(served, clock):
    for size, old in ((5, 0), (8, 5), (8, 0), (12, 0), (12, 9)):
        asked = ask(f"{served.url}/", size, old=old)
        assert asked.timestamp == NOW
        assert format_answer([asked.signature]).decode() == WITNESS.line(A.text(size), NOW)


def test_a_real_witness_that_is_ahead_or_elsewhere_is_not_argued_with(served):
    ask(served.url, 8)
    ahead = refusal(ask, served.url, 5)
    assert (ahead.code.name, ahead.finding.expected) == ("WITNESS_AHEAD", "at least 8 entries")
    fork = refusal(ask, served.url, 8, branch=B)
    assert (fork.code.name, "422" in str(fork)) == ("WITNESS_REFUSED", True)
    assert code_of(ask, served.url, 9, branch=B) == "WITNESS_REFUSED"


def test_what_is_asked_first_is_what_is_believed(served):
    with Scripted((409, b"3\n"), (200, GOOD)) as script:
        ask(script.url, old=5)
        first, second = map(parse_request, script.asked)
    assert (first, second) == (A.request(5, 8), A.request(3, 8))


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([(200, b"")], "WITNESS_ANSWER"),
        ([(200, b"thank you\n")], "WITNESS_ANSWER"),
        ([(200, WITNESS.line(A.text(7), NOW).encode())], "WITNESS_ANSWER"),
        ([(200, WITNESS.line(A.text(8), 0).encode())], "WITNESS_ANSWER"),
        ([(200, STRANGER.line(A.text(8)).encode())], "WITNESS_ANSWER"),
        ([(200, GOOD[:-1])], "WITNESS_ANSWER"),
        ([(200, GOOD * 101)], "WITNESS_ANSWER"),
        ([(409, b"")], "WITNESS_ANSWER"),
        ([(409, b"07\n")], "WITNESS_ANSWER"),
        ([(409, b"9\n")], "WITNESS_AHEAD"),
        ([(409, b"3\n"), (409, b"5\n"), (409, b"3\n"), (200, GOOD)], "WITNESS_ANSWER"),
        *(([(status, b"no\xff")], "WITNESS_REFUSED") for status in (400, 403, 404, 422)),
        *(([(status, GOOD)], "WITNESS_UNREACHABLE") for status in (201, 301, 302, 307, 308, 405, 418, 429, 500, 503)),
    ],
)
def test_no_answer_but_a_good_cosignature_is_taken(answers, code):
    with Scripted(*answers) as script:
        error = refusal(ask, script.url)
        assert (error.code.name, error.finding.position.source) == (code, script.url)
        assert len(script.asked) <= TRIES


CONFLICTS = {
    "empty": (409, b"", "text/plain"),
    "without a type": (409, b"", ""),
    "text": (409, b"root mismatch\n", "text/plain; charset=utf-8"),
    "text that is no text": (409, b"\xff\x00", "application/octet-stream"),
    "the size": (409, b"8\n", "text/x.tlog.size"),
    "the size, as text": (409, b"8\n", "text/plain; charset=utf-8"),
    "422": (422, b"", "text/plain"),
}


@pytest.mark.parametrize("name", CONFLICTS)
@pytest.mark.parametrize("before", [[], [(409, b"8\n")]], ids=["at once", "after the size was asked"])
def test_another_head_of_that_size_is_a_refusal_however_a_witness_says_it(name, before):
    with Scripted(*before, CONFLICTS[name]) as script:
        error = refusal(ask, script.url, old=0 if before else 8)
        assert (error.code.name, error.exit_code) == ("WITNESS_REFUSED", 1)
        assert len(script.asked) == len(before) + 1
    if CONFLICTS[name][0] == 409:
        assert "it has cosigned another head of 8 entries" in str(error)


@pytest.mark.parametrize("kind", ["text/x.tlog.size", "Text/X.TLog.Size; charset=utf-8", "text/plain", ""])
def test_a_size_that_a_witness_names_is_followed_under_any_type(kind):
    with Scripted((409, b"3\n", kind), (200, GOOD)) as script:
        assert ask(script.url, old=5).timestamp == NOW
        assert parse_request(script.asked[1]) == A.request(3, 8)


def test_a_conflict_that_names_no_size_is_a_refusal_and_no_fork():
    with Scripted((409, b"no\n", "text/plain")) as script:
        error = refusal(ask, script.url, old=5)
        assert (error.code.name, len(script.asked)) == ("WITNESS_REFUSED", 1)
    assert "another head" not in str(error)


@pytest.mark.parametrize("kind", ["text/x.tlog.size", "TEXT/x.tlog.size ;charset=utf-8"])
@pytest.mark.parametrize("body", [b"", b"8", b"08\n", b"+8\n", b"8\r\n", b"eight\n"])
def test_what_is_said_to_be_a_size_and_is_none_is_no_refusal(kind, body):
    with Scripted((409, body, kind)) as script:
        assert code_of(ask, script.url, old=8) == "WITNESS_ANSWER"


def test_lines_by_others_are_ignored():
    with Scripted((200, STRANGER.line(A.text(8)).encode() + GOOD)) as script:
        assert ask(script.url).timestamp == NOW


def test_a_witness_that_is_not_there_is_said():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = refusal(ask, f"http://127.0.0.1:{port}")
    assert (error.code.name, "refused" in error.finding.found) == ("WITNESS_UNREACHABLE", True)


def test_whatever_goes_wrong_on_the_way_is_no_answer(monkeypatch):
    def encode() -> None:
        raise UnicodeError("label too long")  # as of a name that no host can have

    monkeypatch.setattr(client, "_opener", encode)
    error = refusal(ask, "http://witness.example")
    assert (error.code.name, error.finding.found) == ("WITNESS_UNREACHABLE", "label too long")


def test_a_witness_that_speaks_no_http_is_said():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HELLO\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert code_of(ask, f"http://127.0.0.1:{listener.getsockname()[1]}") == "WITNESS_UNREACHABLE"
        thread.join()


@pytest.mark.parametrize("place", ["in a header", "in the body"])
def test_a_witness_that_drips_is_left_when_the_time_is_up(place):
    left = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                head = b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n"
                connection.sendall(head + (b"X: " if place == "in a header" else b"\r\n"))
                while not left.wait(0.02):
                    connection.sendall(b"a")

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        error = refusal(ask_witness, url, VERIFIER, A.note(8), A.proof, timeout_s=0.2)
        left.set()
        thread.join()
    assert (error.code.name, error.finding.found) == ("WITNESS_UNREACHABLE", "no whole answer within 0.2 s")


@pytest.mark.parametrize("address", ["", "127.0.0.1:80", "file:///etc/passwd", "ftp://example.org", "http://"])
def test_only_http_is_spoken(address):
    with pytest.raises(ValueError, match="no http or https address"):
        ask(address)


@pytest.mark.parametrize("ahead", [301, 10**6, 2**62 - NOW])
def test_a_cosignature_of_a_time_that_nobody_has_seen_yet_is_not_taken(ahead):
    line = WITNESS.line(A.text(8), NOW + ahead).encode()
    with Scripted((200, line), (200, line)) as scripted:
        error = refusal(ask_witness, scripted.url, VERIFIER, A.note(8), A.proof, timeout_s=30, now=NOW)
        assert (error.code.name, error.finding.found) == ("WITNESS_ANSWER", str(NOW + ahead))
        assert ask(scripted.url).timestamp == NOW + ahead, "without a clock any time is taken"


@pytest.mark.parametrize("ahead", [-(10**6), 0, 300])
def test_two_clocks_need_not_agree_to_the_second(ahead):
    with Scripted((200, WITNESS.line(A.text(8), NOW + ahead).encode())) as scripted:
        asked = ask_witness(scripted.url, VERIFIER, A.note(8), A.proof, timeout_s=30, now=NOW)
    assert asked.timestamp == NOW + ahead


@pytest.mark.parametrize(
    "address",
    ["http://[::1", "http://[zz]:1/", "http://a:99999", "http://a:x/", "https://:80/", "http:///x", "http://a:0/"],
)
def test_an_address_that_is_none_is_named(address):
    with pytest.raises(ValueError, match="no http or https address"):
        ask(address)

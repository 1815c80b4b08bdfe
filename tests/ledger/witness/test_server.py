"""The protocol over a real socket, status by status, with a client that knows nothing of the product."""

from __future__ import annotations

import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from k3_ledger.ledger.core.tlog_witness import MAX_REQUEST, AddCheckpoint, format_request
from k3_ledger.ledger.witness.server import WitnessServer
from k3_ledger.ledger.witness.state import origin_hash
from tests.ledger.witness.support import LOG, NOW, ORIGIN, STRANGER, WITNESS, A, B


def ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, str, bytes]:
    """Status, content type and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type") or "", answer.read()
    finally:
        connection.close()


def post(served, request: AddCheckpoint | bytes) -> tuple[int, str, bytes]:
    body = request if isinstance(request, bytes) else format_request(request)
    return ask(served.port, "POST", "/add-checkpoint", body)


def test_a_cosignature_is_a_signature_line(served, clock):
    assert post(served, A.request(0, 5)) == (200, "text/plain; charset=utf-8", WITNESS.line(A.text(5), NOW).encode())
    clock.now += 1
    assert post(served, A.request(5, 9))[::2] == (200, WITNESS.line(A.text(9), NOW + 1).encode())
    assert served.refused == []


def test_another_old_size_is_a_conflict_that_names_the_right_one(served):
    assert post(served, A.request(3, 5)) == (409, "text/x.tlog.size", b"0\n")
    post(served, A.request(0, 5))
    assert post(served, A.request(0, 5)) == (409, "text/x.tlog.size", b"5\n")
    assert post(served, A.request(4, 8)) == (409, "text/x.tlog.size", b"5\n")
    assert post(served, B.request(0, 8)) == (409, "text/x.tlog.size", b"5\n")


STATUSES = {
    "no request": (b"", 400),
    "no blank line": (b"old 5\n", 400),
    "too many hashes": (b"old 5\n" + b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n" * 64 + b"\n" + A.note(8), 400),
    "no note": (b"old 5\n\nnothing\n", 400),
    "no checkpoint": (b"old 5\n\ntext\n\n" + LOG.line("text\n").encode(), 400),
    "smaller than the old size": (replace(A.request(0, 4), old_size=5), 400),
    "signed by a stranger": (replace(A, key=STRANGER).request(5, 8), 403),
    "badly signed": (AddCheckpoint(5, A.proof(5, 8), A.note(8).replace(b"\n8\n", b"\n9\n")), 403),
    "another log": (replace(A, origin="example.org/other").request(5, 8), 404),
    "fork at a larger size": (B.request(5, 8), 422),
    "fork at the same size": (B.request(5, 5), 422),
    "no proof": (AddCheckpoint(5, (), A.note(8)), 422),
}


@pytest.mark.parametrize("name", STATUSES)
def test_every_refusal_has_the_status_of_the_specification(served, name):
    post(served, A.request(0, 5))
    request, status = STATUSES[name]
    got, kind, body = post(served, request)
    assert (got, kind) == (status, "text/plain; charset=utf-8")
    assert body.endswith(f"[{served.refused[-1].code.id}]\n".encode())
    assert len(served.refused) == 1
    assert post(served, A.request(5, 8))[0] == 200


def test_the_rules_for_the_empty_tree(served):
    text = A.text(5).replace("\n5\n", "\n0\n")
    assert post(served, AddCheckpoint(0, (), f"{text}\n{LOG.line(text)}".encode()))[0] == 422
    assert post(served, AddCheckpoint(0, (bytes(32),), A.note(5)))[0] == 422
    assert post(served, A.request(0, 0))[0] == 200


def test_a_body_that_never_could_be_a_request_is_cut_off(served):
    assert post(served, bytes(MAX_REQUEST + 1))[0] == 413
    assert post(served, A.request(0, 5))[0] == 200


def test_whoever_hangs_up_gets_nothing_and_harms_nobody(served):
    with socket.create_connection(("127.0.0.1", served.port)) as half:
        half.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nold 0")
    assert post(served, A.request(0, 5))[0] == 200
    assert served.refused == []


def test_trouble_of_the_witness_is_not_told_to_the_asker(served, clock):
    clock.now = 0
    status, _, body = post(served, A.request(0, 5))
    assert (status, body) == (500, b"this witness cannot sign at the moment [K3L-WITNESS-CLOCK]\n")
    path = served.witness.state.root / "logs" / f"{origin_hash(ORIGIN)}.json"
    path.write_bytes(b"damaged")
    status, _, body = post(served, A.request(0, 5))
    assert (status, body) == (500, b"this witness cannot sign at the moment [K3L-WITNESS-STATE]\n")
    assert ask(served.port, "GET", f"/{origin_hash(ORIGIN)}/checkpoint")[0] == 500
    assert [error.finding.position.source for error in served.refused[1:]] == [str(path), str(path)]


def test_the_last_cosigned_checkpoint_is_served(served):
    path = f"/{origin_hash(ORIGIN)}/checkpoint"
    assert ask(served.port, "GET", path)[0] == 404
    post(served, A.request(0, 5))
    expected = A.note(5) + WITNESS.line(A.text(5), NOW).encode()
    assert ask(served.port, "GET", path) == (200, "text/plain; charset=utf-8", expected)
    for other in ("/0/checkpoint", "/..%2fwitness.json/checkpoint", "/checkpoint", "/"):
        assert ask(served.port, "GET", other)[0] == 404
    assert ask(served.port, "GET", "/add-checkpoint")[0] == 405
    assert ask(served.port, "POST", path)[0] == 405


def test_a_damaged_or_lost_log_is_its_own_trouble(served):
    post(served, A.request(0, 5))
    logs = served.witness.state.root / "logs"
    (logs / f"{'0' * 64}.json").write_bytes(b"damaged")
    path = f"/{origin_hash(ORIGIN)}/checkpoint"
    assert ask(served.port, "GET", path)[0] == 200
    assert ask(served.port, "GET", f"/{'0' * 64}/checkpoint")[0] == 500
    assert post(served, A.request(5, 8))[0] == 200
    (logs / f"{origin_hash(ORIGIN)}.json").unlink()
    assert ask(served.port, "GET", path)[0] == 500
    assert ask(served.port, "GET", f"/{'1' * 64}/checkpoint")[0] == 404


def test_connections_are_kept_open(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    for old, new in ((0, 5), (5, 8)):
        connection.request("POST", "/add-checkpoint", format_request(A.request(old, new)))
        answer = connection.getresponse()
        assert (answer.status, len(answer.read()) > 0) == (200, True)
    connection.close()


def test_many_at_once_are_answered_and_only_one_history_is_cosigned(served):
    requests = [branch.request(0, size) for size in range(4, 20) for branch in (A, B)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda request: post(served, request), requests))
    assert sorted({status for status, *_ in answers}) == [200, 409]
    assert [status for status, *_ in answers].count(200) == 1


def test_only_the_loopback_interface_listens(tmp_path, served):
    assert served._server._socket.getsockname()[0] == "127.0.0.1"
    with pytest.raises(OSError, match="in use"):
        WitnessServer(served.witness, served.port, print)

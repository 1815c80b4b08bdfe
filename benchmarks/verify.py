"""Verification against its floor: a bare libsodium loop over the same messages with the same number of processes.

    python benchmarks/verify.py [--receipts 100000] [--processes 2] [--rounds 5] [--bundle FOLDER]

Builds a ledger of run receipts of about 1.5 KB, then alternates three actors: ``check_log`` over the directory in this
process and its workers, the whole command ``k3-ledger verify`` timed from outside, and the floor: `crypto_sign_open`
over messages that are already split and in memory. Also prints the peak memory of the command's largest process.
"""

from __future__ import annotations

import base64
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import nacl.bindings
from common import Recorder, finish, parser
from nacl.signing import SigningKey

from k3_ledger.cli.sources import DirectorySource
from k3_ledger.schemas.envelope import format_entry_around
from k3_ledger.verify.log import Options, check_log

if TYPE_CHECKING:
    from collections.abc import Sequence

ORIGIN = "example.org/benchmark"
SIGN_PREFIX = b"k3-ledger/entry/v1\n"


def canonical(value: object) -> bytes:
    """Canonical JSON of plain ASCII data."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def build(
    path: Path,
    receipts: int,
    size: int,
    bodies: Sequence[dict[str, object]] = (),
    *,
    varies: str = "",
    pins: Sequence[tuple[str, str]] = (),
) -> None:
    """Write a ledger of ``receipts`` run entries with lines of about ``size`` bytes, or with bodies in turn.

    Such bodies make rounds, each of all of them: the first of a round is that of the frontier build, if they say so.
    Each receipt has six other digits in place of ``varies``. ``pins`` are (slot, value) of what the first one measured.
    """
    names = ("root", "log", "runner", "judge") if pins else ("root", "log", "runner")
    keys = {name: SigningKey(hashlib.sha256(name.encode()).digest()) for name in names}
    root, runner = keys["root"], keys["runner"]
    ids = {key: hashlib.sha256(bytes(key.verify_key)).hexdigest() for key in keys.values()}
    prev = hashlib.sha256(ORIGIN.encode() + b"\n").hexdigest()
    lines = 0
    with (path / "ledger.jsonl").open("wb") as stream:

        def add(kind: str, body: bytes, key: SigningKey) -> None:
            nonlocal prev, lines
            entry = format_entry_around(
                body, index=lines, key=ids[key], kind=kind, prev=prev, time="2026-01-01T00:00:00Z"
            )
            sig = base64.b64encode(key.sign(SIGN_PREFIX + entry).signature)
            stream.write(b'{"entry":' + entry + b',"sig":"' + sig + b'"}\n')
            prev, lines = hashlib.sha256(entry).hexdigest(), lines + 1

        genesis = {"format": "k3-ledger/1", "origin": ORIGIN, "root_public_key": bytes(root.verify_key).hex()}
        add("genesis", canonical(genesis), root)
        for role, key in list(keys.items())[1:]:
            body = {
                "action": "enrol", "role": role, "key_id": ids[key], "public_key": bytes(key.verify_key).hex(),
                "name": role, "replaces": None, "revoked_from": None, "reason": None, "endorsements": [],
            }  # fmt: skip
            add("key", canonical(body), root)
        pieces, source = [], ""
        for one in bodies or [run_body(size)]:
            before, after = canonical(one).split(b'"bundle":"' + b"0" * 64 + b'",')
            after = after.replace(b'"command":["run"]', b'"command":["run","%(number)d"]')
            after = after.replace(varies.encode(), b"%(digits)06d") if varies else after
            pieces.append((before, after.replace(b'"round":"r"', b'"round":"r%(round)d"')))
        for number in range(receipts):
            before, after = pieces[number % len(pieces)]
            digits = number * 2_654_435_761 % 10**6
            rest = after % {b"number": number, b"round": number // len(pieces), b"digits": digits}
            bundle = b'{"body":' + before + rest + b',"kind":"run","schema":"k3-ledger/bundle/1"}'
            digest = hashlib.sha256(bundle).hexdigest().encode()
            add("run", before + b'"bundle":"' + digest + b'",' + rest, runner)
            for slot, value in pins if number == 0 else ():
                pin = {"slot": slot, "value": value, "unit": "tok/s", "source": source or prev, "commit": None}
                source = pin["source"]
                add("pin", canonical(pin), keys["judge"])


def run_body(size: int) -> dict[str, object]:
    """A run body whose line comes to about ``size`` bytes: as many samples as fit."""
    node = {
        "name": "node", "cpu": "a processor", "logical_cores": 2, "memory_bytes": 1 << 34, "os": "linux",
        "kernel": "6.1", "accelerators": [],
    }  # fmt: skip
    series = {
        "metric": "decode", "unit": "token", "actor": "subject", "observer": "controller", "context": 131072,
        "context_filled": 131072, "batch": 1, "processes": 1, "warmup": 2, "inputs": "fresh", "cache": "none",
        "samples": [],
    }  # fmt: skip
    body: dict[str, object] = {
        "bundle": "0" * 64, "role": "candidate",
        "subject": {"name": "engine", "version": "1.0", "source": None, "build_sha256": "a" * 64}, "model": None,
        "machine": {"node": node, "software": [{"name": "torch", "version": "2.13.0"}], "command": ["run"],
                    "started": "2026-01-01T00:00:00Z"},
        "timing": [series], "parity": None, "memory": [], "flags": [], "expert_load": None,
        "tee": {"kind": "none", "report_data_sha256": None}, "round": None, "artifacts": [],
    }  # fmt: skip
    envelope = 400  # head, tail and the entry's own fields
    samples: list[dict[str, int]] = []
    while len(canonical({**body, "timing": [{**series, "samples": samples}]})) + envelope < size:
        samples.append({"start_ns": 10**9 * len(samples), "duration_ns": 987654321, "count": 128})
    body["timing"] = [{**series, "samples": samples}]
    return body


def _bare(pairs: list[tuple[bytes, bytes]], ready: object, start: object) -> None:
    ready.release()  # type: ignore[attr-defined]
    start.wait()  # type: ignore[attr-defined]
    opened = nacl.bindings.crypto_sign_open
    for signed, public_key in pairs:
        opened(signed, public_key)


def bare_loop(pairs: list[tuple[bytes, bytes]], processes: int) -> tuple[int, int]:
    """(start, duration) in nanoseconds of ``processes`` forked processes opening all signatures from memory."""
    context = multiprocessing.get_context("fork")
    ready, start = context.Semaphore(0), context.Event()
    shares = [pairs[i::processes] for i in range(processes)]
    workers = [context.Process(target=_bare, args=(share, ready, start)) for share in shares]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    begin = time.monotonic_ns()
    start.set()
    for worker in workers:
        worker.join()
    return begin, time.monotonic_ns() - begin


def signed_messages(path: Path) -> list[tuple[bytes, bytes]]:
    """(signature and message, public key) of every line, as `crypto_sign_open` wants them."""
    keys = {}
    pairs = []
    with (path / "ledger.jsonl").open("rb") as stream:
        for raw in stream:
            entry, sig = raw[9:-99], base64.b64decode(raw[-91:-3])
            document = json.loads(entry) if len(keys) < 3 else None
            if document is not None:
                body = document["body"]
                public_key = bytes.fromhex(body.get("root_public_key") or body["public_key"])
                keys[hashlib.sha256(public_key).hexdigest()] = public_key
            at = entry.index(b'"key":"', entry.index(b'"index":')) + 7
            pairs.append((sig + SIGN_PREFIX + entry, keys[entry[at : at + 64].decode()]))
    return pairs


def run_command(path: Path, processes: int) -> int:
    """Run `k3-ledger verify` as a whole command; peak bytes of its largest process."""
    command = [sys.executable, "-m", "k3_ledger.cli", "verify", str(path), "--processes", str(processes)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.returncode
    return usage.ru_maxrss * 1024


def check_once(path: Path, processes: int) -> None:
    """Verify the directory through the library."""
    report = check_log(DirectorySource(path), options=Options(processes=processes))
    assert report.exit_code == 0, report.findings


def main() -> None:
    """Measure, print, and leave a bundle when asked to."""
    arguments = parser(__doc__)
    arguments.add_argument("--receipts", type=int, default=100_000)
    arguments.add_argument("--bytes", type=int, default=1500, help="aimed-at bytes of a line")
    arguments.add_argument("--processes", type=int, default=2)
    options = arguments.parse_args()
    recorder = Recorder("verify", "receipt")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        build(path, options.receipts, options.bytes)
        size = (path / "ledger.jsonl").stat().st_size
        # Before this process grows: a child begins with the peak of the process that started it.
        peak = run_command(path, options.processes)
        pairs = signed_messages(path)
        count = len(pairs)
        print(f"{count} entries, {size / count:.0f} bytes a line, {options.processes} processes")
        for _ in range(options.rounds + recorder.warmup):
            start, duration = bare_loop(pairs, options.processes)
            recorder.add("floor", count, start, duration, observer="controller", processes=options.processes)
            recorder.record("subject", count, lambda: check_once(path, options.processes), processes=options.processes)
            start = time.monotonic_ns()
            run_command(path, options.processes)
            duration = time.monotonic_ns() - start
            recorder.add("subject", count, start, duration, observer="controller", processes=options.processes)
        print(f"peak memory of the command's largest process: {peak / 2**20:.0f} MiB")
    finish([recorder], "k3-ledger-verify", options, peak_bytes=peak)


if __name__ == "__main__":
    main()

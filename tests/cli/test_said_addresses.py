"""No command says what opens an address: not in a report, an error, a file that it keeps, or the name of one."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from k3_ledger.cli import app
from k3_ledger.cli.lazy import _MAY_BE_PATHS
from tests import static_host
from tests.cli.test_options import leaves
from tests.ledgers import LOG, ORIGIN, ROOT, RUNNER, Builder, run_body, sign_head, small_ledger
from tests.static_host import Handler, ledger_files, mirror_files, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytest.importorskip("fsspec", reason="the extra k3-ledger[remote] is not installed")
pytest.importorskip("aiohttp", reason="the extra k3-ledger[remote] is not installed")

USER, SECRET, TOKEN = "reader", "pass%2Fword", "sig.nature"
HIDDEN = (USER, SECRET, "pass/word", TOKEN)
KEY = "wit.example+377cc7dc+BJrjza+QzpUSZLIJeJ8NHrsN9kTBpIgohO/gBCNEt8ST"
SHAPES = {"ledger": ledger_files, "mirror": mirror_files}


def private(address: str, query: str = "") -> str:
    """The address with a user, and perhaps with a signature."""
    return address.replace("://", f"://{USER}:{SECRET}@") + query


def open_to(user: str) -> Callable[[Handler, bytes | None], None]:
    """What a host does that gives its files to one user."""
    wanted = "Basic " + base64.b64encode(user.encode()).decode()

    def answer(handler: Handler, data: bytes | None) -> None:
        if handler.headers.get("Authorization") == wanted:
            static_host.answer(handler, data)
        else:
            handler.start(401, Content_Length=0)

    return answer


def kept(folder: Path) -> Iterator[str]:
    """Everything that stands in a folder, names and contents."""
    for path in folder.rglob("*"):
        yield str(path.relative_to(folder))
        if path.is_file():
            yield path.read_bytes().decode(errors="replace")


def check_unsaid(done: Any, *more: str) -> None:
    said = [done.out, done.err, *more]
    assert [(secret, text) for secret in HIDDEN for text in said if secret in text] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_private_place_is_read_and_its_password_said_by_no_command(run: Any, tmp_path: Path, shape: str) -> None:
    ledger = small_ledger()
    files = SHAPES[shape](ledger)
    assert run("keygen", "w.pem").code == 0
    assert run("witness", "init", "w", "--name", "witness.example/w1", "-k", "w.pem").code == 0
    assert run("witness", "add-log", ORIGIN, LOG.public.hex(), "-s", "w").code == 0
    with serve(files) as host:
        host.faults = dict.fromkeys(files, open_to(f"{USER}:pass/word"))
        address = private(host.address)
        shown = host.address.replace("://", "://***@")
        commands: list[tuple[object, ...]] = [
            ("verify", address, "--cache", "cache", "--memory", "memory"),
            ("verify", address, "--json", "--cache", "cache"),
            ("verify", address.replace("http", "HTTP", 1), "--json"),
            ("prove", 5, "-l", address, "-o", "p"),
            ("prove", 5, "-l", address, "-o", "p", "--replace", "--cache", "cache"),
            ("trust", "init", address, "-o", "trust.toml"),
            ("witness", "add-log", "example.org/other", LOG.public.hex(), "-s", "w", "--from", address),
            ("witness", "cosign", address, "-s", "w", "-k", "w.pem"),
        ]
        for words in commands:
            done = run(*words)
            assert done.code == (3 if "--from" in words else 0), (words, done.err)
            check_unsaid(done, *kept(tmp_path))
            assert words[0] != "verify" or shown.lower() in done.out.lower()
        files["checkpoint"] = host.files["checkpoint"] = sign_head(small_ledger().lines[:6])
        done = run("verify", address, "--memory", "memory")
        check_unsaid(done, *kept(tmp_path))
        plain = run("verify", host.address)
        assert "the host answered 401" in plain.out + plain.err, "the host is private"
    for words in commands:
        check_unsaid(run(*words))


def test_a_presigned_file_is_read_and_its_signature_said_nowhere(run: Any, tmp_path: Path) -> None:
    query = f"?X-Signature={TOKEN}"
    static_host.lay_out(tmp_path / "led", ledger_files(small_ledger()))
    assert run("prove", 5, "-l", "led", "-o", "p").code == run("bundle", "pack", "led", "-o", "b").code == 0
    files = {"p": (tmp_path / "p").read_bytes(), "b.tar": (tmp_path / "b").read_bytes(), "page": b"<html>", "none": b""}
    changed = {"p": files["p"].replace(b'"index":5', b'"index":6', 1), "b.tar": files["b.tar"][:-9] + b"x" * 9}
    with serve({f"{name}{query}": data for name, data in files.items()}) as host:
        for name, code in {"p": 0, "b.tar": 0, "page": 3, "none": 3, "nothing": 3}.items():
            for words in ((), ("--json",), ("--cache", "cache")):
                done = run("verify", f"{host.address}/{name}{query}", *words)
                assert done.code == code, (name, done)
                check_unsaid(done, *kept(tmp_path))
                assert name in done.out + done.err
        host.files |= {f"{name}{query}": data for name, data in changed.items()}
        for name in changed:
            done = run("verify", f"{host.address}/{name}{query}", "--json")
            assert done.code in (1, 3)
            check_unsaid(done)
    plain = run("verify", f"{host.address}/p?X-Other=1")
    assert plain.code == 3


FAULTS = {
    "500": static_host.status(500),
    "204": static_host.status(204),
    "cut": static_host.truncated,
    "dead": static_host.dies,
    "circle": static_host.redirected("ledger.jsonl"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["ledger.jsonl", "checkpoint"])
def test_a_host_that_misbehaves_makes_no_command_say_it(run: Any, fault: str, name: str) -> None:
    with serve(ledger_files(small_ledger())) as host:
        host.faults[name] = FAULTS[fault]
        for words in ((), ("--json",)):
            check_unsaid(run("verify", private(host.address), *words))


ODD = {
    "refused": "http://{}:{}@127.0.0.1:1/led?sig={}",
    "no such scheme": "nonsense://{}:{}@example.org/led?sig={}",
    "no port": "http://{}:{}@127.0.0.1:x/led?sig={}",
    "no host": "http://{}:{}@/led?sig={}",
    "a broken host": "http://{}:{}@[::1/led?sig={}",
    "a space": "http://{}:{}@127.0.0.1:1 /led?sig={}",
    "an unescaped password": "http://{}:/{}@127.0.0.1:1/led?sig={}",
    "capitals": "HTTP://{}:{}@127.0.0.1:1/led?sig={}",
    "a NUL": "file://{}:{}@x%00?sig={}",
    "a chain": "zip://x::http://{}:{}@127.0.0.1:1/led?sig={}",
}


@pytest.mark.parametrize("how", ODD)
def test_an_address_that_cannot_be_read_is_not_said_with_its_secrets(run: Any, how: str) -> None:
    address = ODD[how].format(USER, SECRET, TOKEN)
    for words in (
        ("verify", address),
        ("verify", address, "--json"),
        ("prove", 1, "-l", address),
        ("trust", "init", address),
    ):
        done = run(*words)
        assert done.code in (2, 3), done
        check_unsaid(done)


@pytest.mark.parametrize("how", ["", *ODD])
@pytest.mark.parametrize("form", ["{}={}", "{}{}", "{}x={}"])
def test_the_address_of_a_witness_is_not_said_with_its_secrets(run: Any, ledger: Path, form: str, how: str) -> None:
    assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
    address = ODD.get(how, "https://{}:{}@example.invalid/?{}").format(USER, SECRET, TOKEN)
    done = run("cosign", "-l", "ledger", "--witness", form.format(KEY, address))
    assert done.code in (2, 3), done
    check_unsaid(done)


def test_what_the_library_for_http_says_of_a_witness_s_address_is_not_said(run: Any, ledger: Path) -> None:
    assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
    done = run("cosign", "-l", "ledger", "--witness", f"{KEY}=http://127.0.0.1:1/a b?sig={TOKEN}")
    assert (done.code, "InvalidURL" in done.err) == (3, True), done
    check_unsaid(done)


def test_a_witness_is_asked_at_an_address_in_capitals(run: Any, ledger: Path) -> None:
    assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
    small, large = (
        run("cosign", "-l", "ledger", "--witness", f"{KEY}={one}://127.0.0.1:1/") for one in ("http", "HTTP")
    )
    assert small.code == large.code != 2
    assert small.err.lower() == large.err.lower()


@pytest.mark.parametrize(
    "words", ["verify x", "verify x --now", "verify x --processes", "prove", "nothing-like", "ls --"]
)
def test_what_is_out_of_place_is_not_said_with_its_secrets(run: Any, words: str) -> None:
    """The framework says it: a word too many, or one that is no number and no command."""
    done = run(*words.split(), f"HTTPS://{USER}:{SECRET}@example.org/led?sig={TOKEN}")
    assert (done.code, "***" in done.err or words == "nothing-like") == (2, True), done
    check_unsaid(done)


def places() -> Iterator[tuple[str, Any]]:
    for said, command in leaves(typer.main.get_command(app)):
        for param in command.params:
            if type(param.type).__name__ == "_FilePath" or (param.type.name == "str" and param.name in _MAY_BE_PATHS):
                yield said, param


ADDRESSES = ("http://{}:{}@127.0.0.1:1/led?sig={}", "nonsense://{}:{}@h/led#{}")


@pytest.mark.parametrize("said", sorted({said for said, _ in places()}))
def test_no_command_says_it_wherever_it_takes_a_place(run: Any, tmp_path: Path, said: str) -> None:
    """Those that take a path and no address are given one by mistake."""
    command = dict(leaves(typer.main.get_command(app)))[said]
    taken = [param for name, param in places() if name == said]
    for address in (one.format(USER, SECRET, TOKEN) for one in ADDRESSES):
        for param in taken if address.startswith("http") else taken[:1]:
            words: list[object] = said.split()
            for other in command.params:
                if other is not param and not other.required:
                    continue
                value = address if other is param or type(other.type).__name__ == "_FilePath" else "1"
                words += [value] if other.param_type_name == "argument" else [f"{max(other.opts, key=len)}={value}"]
            check_unsaid(run(*words))


def test_places_are_looked_for_in_every_command() -> None:
    found = {said for said, _ in places()}
    assert {"verify", "prove", "trust init", "witness cosign", "bundle pack", "ls", "audit polaris"} <= found


def test_a_cache_serves_one_place_whoever_signs_its_address(run: Any, tmp_path: Path) -> None:
    with serve(mirror_files(small_ledger(600))) as host:
        for user in ("a:b", "c:d"):
            address = host.address.replace("://", f"://{user}@")
            assert run("verify", address, "--cache", "cache", "--root-key", ROOT.public.hex()).code == 0
    assert len(list((tmp_path / "cache" / "tiles").iterdir())) == 1


def test_a_log_that_holds_addresses_is_printed_as_it_is(run: Any, tmp_path: Path) -> None:
    """What an entry says is no address that is read: it is signed, and shown to the letter."""
    ledger = small_ledger()
    text = "see https://u:p@example.org/x?y=z#w"
    ledger.add("note", {"text": text, "artifacts": []}, RUNNER)
    ledger.add("run", run_body(3), RUNNER)
    static_host.lay_out(tmp_path / "led", ledger_files(ledger))
    done = run("show", len(ledger.lines) - 2, "-l", "led")
    assert text in done.out, done
    assert Builder(ledger.lines).data == (tmp_path / "led" / "ledger.jsonl").read_bytes()

"""Several things asked of one command: what was done is told, in JSON as in words, also where a later one fails."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.ledger.writer.support import artifact, write_bundle

FORMS = pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["words", "json"])


@FORMS
@pytest.mark.parametrize("second", ["nowhere", "root.pem", "damaged", "good"])
def test_what_was_sealed_is_told_where_a_later_bundle_fails(run, ledger, tmp_path, as_json, second):
    write_bundle(tmp_path / "first", {"raw": b"1"})
    write_bundle(tmp_path / "damaged", {"raw": b"2"})
    write_bundle(tmp_path / "good", {"raw": b"3"})
    next((tmp_path / "damaged" / "blobs").iterdir()).write_bytes(b"4")
    write_bundle(tmp_path / "third", {"raw": b"5"})
    done = run("seal", "first", second, "third", "-l", ledger, "-k", "runner.pem", *as_json)
    good = second == "good"
    assert (done.code == 0) == good
    assert ("error: " in done.err) != good
    assert (ledger / "ledger.jsonl").read_bytes().count(b"\n") == (7 if good else 5)
    if as_json:
        told = done.json["sealed"]
        assert next((one["bundle"], one["index"], one["added"]) for one in told) == ("first", 4, True)
        assert len(told) == (3 if good else 1)
    else:
        assert done.out.count("entry ") == (3 if good else 1)
    if not good:
        again = run("seal", second, "third", "-l", ledger, "-k", "runner.pem", *as_json)
        assert (again.code, again.out) == (done.code, "")


@FORMS
@pytest.mark.parametrize("second", ["first.pem", "nowhere/new.pem", "there"])
def test_what_keys_were_made_is_told_where_a_later_one_fails(run, tmp_path, as_json, second):
    (tmp_path / "there").mkdir()
    done = run("keygen", "first.pem", second, "third.pem", *as_json)
    assert (done.code in (2, 3), (tmp_path / "first.pem").exists(), (tmp_path / "third.pem").exists()) == (
        True,
        True,
        False,
    )
    if as_json:
        assert [key["path"] for key in done.json["keys"]] == ["first.pem"]
    else:
        assert done.out.startswith("first.pem: public key ")
    again = run("keygen", second, *as_json)
    assert (again.code, again.out) == (done.code, "")
    assert ("a directory stands there" in done.err) == (second == "there")


@pytest.mark.parametrize("name", ["x.pub.pem", "x.pub", "X.PUB.pem", "folder/.pub.pem"])
def test_no_private_key_goes_by_the_name_of_a_public_half(run, tmp_path, name):
    (tmp_path / "folder").mkdir()
    done = run("keygen", "good.pem", name)
    assert (done.code, "public half" in done.err, (tmp_path / "good.pem").exists()) == (2, True, False)
    assert run("keygen", "pub.pem", "x.public.pem").code == 0


@pytest.mark.parametrize("origin", ["http://x", "https://example.org/speed", "s3://bucket/log", "a://"])
def test_no_log_begins_under_a_name_with_a_scheme(run, keys, tmp_path, origin):
    done = run("init", "new", "--origin", origin, "-k", "root.pem")
    assert (done.code, "without scheme" in done.err, (tmp_path / "new").exists()) == (2, True, False)
    assert run("init", "new", "--origin", "example.org:80/a/b", "-k", "root.pem").code == 0


def private_keys(tmp_path, run) -> list[bytes]:
    (tmp_path / "words").write_text("a passphrase\n")
    assert run("keygen", "locked.pem", "--passphrase-file", "words").code == 0
    plain = (tmp_path / "root.pem").read_bytes()
    other = b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
    return [plain, (tmp_path / "locked.pem").read_bytes(), other, b"a comment\n" + plain, plain.replace(b"\n", b"\r\n")]


def test_a_private_key_is_no_artifact(run, ledger, tmp_path):
    (tmp_path / "note.json").write_text('{"text": "x"}')
    (tmp_path / "good").write_bytes(b"a good one")
    log = (ledger / "ledger.jsonl").read_bytes()
    for number, data in enumerate(private_keys(tmp_path, run)):
        (tmp_path / "key").write_bytes(data)
        words = ("append", "note", "-b", "note.json", "-l", ledger, "-k", "judge.pem", "--artifact", "good")
        done = run(*words, "--artifact", "key")
        assert (done.code, "holds a private key" in done.err, "key" in done.err) == (2, True, True)
        write_bundle(tmp_path / f"b{number}", {"raw": b"x", "key": data})
        done = run("seal", f"b{number}", "-l", ledger, "-k", "runner.pem")
        assert (done.code, "holds a private key" in done.err) == (2, True)
    assert (ledger / "ledger.jsonl").read_bytes() == log
    assert not [path for path in (ledger / "blobs").rglob("*") if path.is_file()]


def test_what_only_quotes_a_key_or_is_a_public_one_is_an_artifact(run, ledger, tmp_path):
    key = (tmp_path / "root.pem").read_bytes()
    quoted = b"".join(b"> " + line for line in key.splitlines(keepends=True))
    for data in (quoted, (tmp_path / "root.pub.pem").read_bytes()):
        (tmp_path / "file").write_bytes(data)
        (tmp_path / "note.json").write_text(json.dumps({"text": "x", "artifacts": [artifact(data, "file")]}))
        words = ("append", "note", "-b", "note.json", "-l", ledger, "-k", "judge.pem", "--artifact", "file")
        done = run(*words, "--json")
        assert done.code == 0, done
        assert [(one["path"], one["size"]) for one in done.json["artifacts"]] == [("file", len(data))]


def test_a_head_that_is_too_small_is_told_from_a_missing_one(run, ledger, tmp_path):
    (tmp_path / "note.json").write_text('{"text": "x"}')
    for count in (1, 2):
        assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
        for _ in range(count):
            assert run("append", "note", "-b", "note.json", "-l", ledger, "-k", "judge.pem").code == 0
    done = run("prove", 4, "--head", 4, "-l", ledger)
    assert (done.code, "[K3L-NO-SUCH-HEAD]" in done.err, "or give --head 5" in done.err) == (2, True, True)
    assert run("prove", 4, "--head", 5, "-l", ledger).code == 0
    done = run("prove", 6, "--head", 5, "-l", ledger)
    assert (done.code, "k3-ledger checkpoint" in done.err) == (2, True)
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    assert run("prove", 6, "-l", ledger).code == 0
    assert run("prove", 7, "--head", 5, "-l", ledger).code == 2


def test_an_entry_that_a_head_commits_to_and_that_is_gone_is_no_wrong_use(run, ledger, tmp_path):
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    log = ledger / "ledger.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    for index in (0, 3):
        done = run("prove", index, "-l", ledger)
        assert (done.code, "[K3L-CHECKPOINT-AHEAD]" in done.err) == (1, True)
    assert (run("prove", 4, "-l", ledger).code, run("verify", ledger).code) == (2, 1)


def test_export_needs_no_word_for_its_only_form(run, ledger, tmp_path):
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    assert run("export", ledger, "-k", "spare.pem", "-o", "one").code == 0
    assert run("export", ledger, "--dsse", "-k", "spare.pem", "-o", "two").code == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_json_says_which_record_was_packed(run, ledger):
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    said = run("bundle", "pack", ledger, "--out", "all.tar", "--json").json
    assert (said["head"]["origin"], said["head"]["size"], said["entries"]) == ("example.org/bench", 4, "all")
    assert run("bundle", "pack", ledger, "--out", "some.tar", "--entries", "2,1", "--json").json["entries"] == [1, 2]


def test_a_memory_that_holds_its_signers_enrolment_is_not_said_to_lack_it(run, ledger, tmp_path):
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    assert run("verify", ledger, "--memory", "seen").code == 0
    shutil.copy(ledger / "checkpoint", tmp_path / "bare")
    assert run("keygen", "evil.pem", "evil-log.pem").code == 0
    enrol = ("--enrol", "log=evil-log.pub.pem")
    assert run("init", "evil", "--origin", "example.org/bench", "-k", "evil.pem", *enrol).code == 0
    assert run("checkpoint", "-l", "evil", "-k", "evil-log.pem").code == 0
    for words, more in ((("--memory", "seen"), False), (("--expect-head", "bare"), True)):
        done = run("verify", "evil", *words)
        assert (done.code, "[K3L-MEMORY-FOREIGN]" in done.out) == (3, True)
        assert ("would prove more" in " ".join(done.out.split())) == more
        assert ("root key of this log is not behind them" in " ".join(done.out.split())) != more


# ------------------------------------------------------------------------------------------------------- small words


@pytest.mark.parametrize(
    "words",
    [
        ("verify", ""), ("recover", "-l", ""), ("checkpoint", "-l", "", "-k", "log.pem"), ("ls", "-l", ""),
        ("init", "", "--origin", "a/b", "-k", "root.pem"), ("append", "note", "-b", "", "-k", "judge.pem"),
        ("seal", "", "-k", "runner.pem"), ("audit", "polaris", ""), ("prove", "1", "-l", ""), ("keygen", ""),
        ("import", "polaris", "runs", "--into", "", "-k", "log.pem"), ("verify", "ledger", "--memory", ""),
        ("verify", "ledger", "--root-key", ""), ("tiles", "ledger", "--out", ""), ("key", "ls", "-l", ""),
        ("rescore", "", "--rule", "v0.2.1"), ("rescore", "ledger", "--rule", ""), ("show", "0", "-l", ""),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_empty_word_is_no_folder(run, ledger, tmp_path, monkeypatch, words):
    monkeypatch.chdir(ledger)
    before = (ledger / "ledger.jsonl").read_bytes()
    done = run(*words)
    assert (done.code, "names no file or folder" in " ".join(done.err.split())) == (2, True), done
    assert (ledger / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize("cut", [0, 1, 40])
@pytest.mark.parametrize("promised", [False, True])
def test_a_torn_log_whose_lost_entries_a_head_names_is_false_to_all_who_read_it(run, ledger, tmp_path, cut, promised):
    (tmp_path / "note.json").write_text('{"text": "x"}')
    append = ("append", "note", "-b", "note.json", "-l", ledger, "-k", "judge.pem")
    for _ in range(2):
        assert run(*append).code == 0
    if promised:
        assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    log = ledger / "ledger.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-2]) + lines[-2][: -1 - cut])
    write_bundle(tmp_path / "bundle", {"raw": b"1"})
    done = run(*append)
    sealed = run("seal", "bundle", "-l", ledger, "-k", "runner.pem")
    verified = run("verify", ledger)
    assert (done.code, sealed.code, verified.code) == ((1, 1, 1) if promised else (5, 5, 5))
    assert ("`k3-ledger recover`" in done.err) != promised
    assert run("recover", "-l", ledger).code == (1 if promised else 0)


def test_a_torn_entry_that_a_head_commits_to_is_for_recover_alone(run, ledger, tmp_path):
    (tmp_path / "note.json").write_text('{"text": "x"}')
    append = ("append", "note", "-b", "note.json", "-l", ledger, "-k", "judge.pem")
    assert run(*append).code == 0
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    log = ledger / "ledger.jsonl"
    log.write_bytes(log.read_bytes()[:-1])
    done = run(*append)
    assert (done.code, "`k3-ledger recover`" in done.err) == (5, True)
    assert (run("recover", "-l", ledger).code, run(*append).code, run("verify", ledger).code) == (0, 0, 0)


def test_a_policy_that_is_no_toml_is_told_with_its_line(run, ledger, tmp_path):
    for text, where in (
        ('origin = "a"\norigin = "b"\n', "trust.toml, line 2"),
        ("# x\n\nquorum = = 1\n", "trust.toml, line 3"),
        ('origin = "a', "trust.toml"),
    ):
        (tmp_path / "trust.toml").write_text(text)
        done = run("verify", ledger, "--trust", "trust.toml")
        assert (done.code, where in done.err, "(at " in done.err) == (3, True, False), done.err


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("true", "true"),
        ("false", "false"),
        ("[true, 1]", "[true, 1]"),
        ("{a = false}", "{a = false}"),
        ("1.50", "1.50"),
    ],
)
def test_what_a_claims_file_says_is_shown_as_toml_has_it(run, ledger, tmp_path, written, shown):
    (tmp_path / "claims.toml").write_text(f"[[claim]]\nkind = {written}\n")
    done = run("claims", "check", "claims.toml", "-a", ledger)
    assert (done.code, f"found: {shown}\n" in done.err) == (3, True), done.err


@pytest.mark.parametrize("command", ["audit", "import"])
def test_a_file_in_the_place_of_a_run_log_is_named(run, ledger, tmp_path, command):
    more = () if command == "audit" else ("--into", ledger, "-k", "log.pem")
    for name, what in (("root.pem", "a private key (PEM)"), ("ledger/ledger.jsonl", "the log of a ledger")):
        done = run(command, "polaris", name, *more)
        assert (done.code, f"error: {name}: this is {what}" in done.err) == (3, True), done.err
        assert "not the directory of a run log" in done.err


@pytest.mark.parametrize("size", [60 << 30, (1 << 30) + 1])
@pytest.mark.parametrize("command", ["append", "seal"])
def test_an_artifact_beyond_the_limit_is_refused_before_it_is_read(
    run, ledger, tmp_path, monkeypatch, *, command, size
):
    from k3_ledger.ledger.writer import blobs

    monkeypatch.setattr(blobs, "blocks", lambda _: pytest.fail("it was read"))
    (tmp_path / "note.json").write_text('{"text": "x"}')
    log = (ledger / "ledger.jsonl").read_bytes()
    if command == "append":
        words = ("append", "note", "-b", "note.json", "-l", ledger, "-k", "judge.pem", "--artifact", "big")
        path = tmp_path / "big"
        path.touch()
    else:
        write_bundle(tmp_path / "bundle", {"raw": b"x"})
        (path,) = (tmp_path / "bundle" / "blobs").iterdir()
        text = (tmp_path / "bundle" / "bundle.json").read_text()
        (tmp_path / "bundle" / "bundle.json").write_text(text.replace('"size":1', f'"size":{size}'))
        words = ("seal", "bundle", "-l", ledger, "-k", "runner.pem")
    os.truncate(path, size)
    done = run(*words)
    assert (done.code, "[K3L-ARTIFACT-TOO-LONG]" in done.err) == (3, True), done
    assert "at most 1,073,741,824 bytes" in done.err
    assert f"{path.name} is longer than an artifact may be" in done.err
    assert (ledger / "ledger.jsonl").read_bytes() == log
    assert not [path for path in (ledger / "blobs").rglob("*") if path.is_file()]

"""After a key was stolen: what its owner does, and that following the advice ends in a ledger that verifies."""

from __future__ import annotations

import re
import shutil

import pytest

ROOT = ("-k", "root.pem", "-l", "ledger")
NOTE = ("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger")


def verify(run):
    return run("verify", "ledger", "--processes", "1", "--json")


def follow(run, advice: str, **words: str) -> None:
    """Run the commands that an advice holds, with the file names that it leaves to the reader."""
    commands = re.findall("`k3-ledger ([^`]+)`", advice)
    assert commands
    for command in commands:
        done = run(*(words.get(word.replace("-", "_").replace(".", "_"), word) for word in command.split()))
        assert done.code == 0, (command, done.err)


@pytest.fixture
def stolen_log(run, ledger):
    """The log key is taken back from in front of the newest signed head on."""
    for text in ("one", "two"):
        assert run(*NOTE, stdin=b'{"text":"%s"}' % text.encode()).code == 0
    assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
    assert run("key", "revoke", "log", *ROOT, "--from", "5").code == 0
    return ledger


def test_the_advice_about_a_head_that_was_taken_back_makes_the_ledger_verify_again(run, stolen_log):
    done = verify(run)
    assert done.code == 1
    (found,) = [each for each in done.json["findings"] if each["code"] == "K3L-CHECKPOINT-SIGNATURE"]
    assert "takes back what the head's key signed" in found["message"]
    follow(run, found["hint"], DIR="ledger", ROOT_pem="root.pem")
    done = verify(run)
    assert done.code == 0
    assert "K3L-CHECKPOINT-DISOWNED" in done.json["counts"]


def test_where_a_log_key_is_left_the_advice_asks_for_no_other(run, stolen_log):
    assert run("key", "enrol", "log", "spare.pub.pem", *ROOT).code == 0
    (found,) = [each for each in verify(run).json["findings"] if each["code"] == "K3L-CHECKPOINT-SIGNATURE"]
    assert "keygen" not in found["hint"]
    follow(run, found["hint"], DIR="ledger", LOG_pem="spare.pem")
    assert verify(run).code == 0


def test_a_log_key_whose_enrolment_was_taken_back_is_replaced_likewise(run, ledger):
    assert run("key", "revoke", "log", *ROOT).code == 0
    assert run("keygen", "second.pem", "log-2.pem").code == 0
    assert run("key", "enrol", "root", "second.pub.pem", *ROOT).code == 0  # 5
    assert run("key", "enrol", "log", "log-2.pub.pem", "-k", "second.pem", "-l", "ledger").code == 0  # 6: the thief
    assert run("checkpoint", "-k", "log-2.pem", "-l", "ledger").code == 0
    assert run("key", "revoke", "second", *ROOT, "--from", "6").code == 0
    (found,) = [each for each in verify(run).json["findings"] if each["code"] == "K3L-CHECKPOINT-SIGNATURE"]
    follow(run, found["hint"], DIR="ledger", ROOT_pem="root.pem")
    assert verify(run).code == 0


def test_a_thiefs_head_of_another_history_keeps_the_owner_from_nothing(run, ledger, tmp_path):
    fork = shutil.copytree(ledger, tmp_path / "fork")
    assert run(*NOTE[:-1], "fork", stdin=b'{"text":"forged"}').code == 0
    assert run("checkpoint", "-k", "log.pem", "-l", "fork").code == 0
    assert run(*NOTE, stdin=b'{"text":"true"}').code == 0
    shutil.copytree(fork / "checkpoints", ledger / "checkpoints")
    assert "fork is never signed" in run("checkpoint", "-k", "log.pem", "-l", "ledger").err
    assert run("key", "revoke", "log", *ROOT, "--from", "4").code == 0
    assert run("key", "enrol", "log", "spare.pub.pem", *ROOT).code == 0
    assert run("checkpoint", "-k", "spare.pem", "-l", "ledger").code == 0
    assert verify(run).code == 0


def test_a_root_key_that_a_rotation_brought_in_takes_back_what_came_before_it(run, ledger):
    assert run(*NOTE, stdin=b'{"text":"by the thief"}').code == 0  # 4
    assert run("key", "rotate", "root", "spare.pub.pem", *ROOT, "--new-key", "spare.pem").code == 0  # 5
    assert run("key", "revoke", "judge", "--from", "4", "-k", "spare.pem", "-l", "ledger").code == 0
    assert verify(run).json["disowned"] == [{"first": 4, "last": 4, "by": 6}]


def test_a_root_key_is_not_taken_back_by_the_one_that_it_brought_in_and_the_refusal_says_what_can_be_done(run, ledger):
    assert run("keygen", "thief.pem").code == 0
    assert run("key", "enrol", "runner", "thief.pub.pem", *ROOT).code == 0  # 4
    assert run("key", "rotate", "root", "spare.pub.pem", *ROOT, "--new-key", "spare.pem").code == 0  # 5
    new = ("-k", "spare.pem", "-l", "ledger")
    key_id = next(line.split()[2] for line in run("key", "ls", "-l", "ledger").out.splitlines() if line[:4] == "root")
    done = run("key", "revoke", key_id, "--from", "4", *new)
    assert (done.code, "[K3L-REVOCATION-CIRCULAR]" in done.err) == (1, True)
    assert "signed from entry 4 on is taken back" in done.err
    assert "leave --from out and revoke the keys that should not have been enrolled one by one" in done.err
    assert run("key", "revoke", "thief", "--from", "5", *new).code == 0
    assert verify(run).code == 0


def test_a_key_that_revokes_itself_from_earlier_is_told_why_not(run, ledger):
    assert run("keygen", "second.pem").code == 0
    assert run("key", "enrol", "root", "second.pub.pem", *ROOT).code == 0
    done = run("key", "revoke", "root", "--from", "3", *ROOT)
    assert "a key that revokes itself from before this entry takes this entry back" in done.err
    assert "hint: have another root key sign it, or leave --from out" in done.err
    for name in ("root", "judge"):
        done = run("key", "revoke", name, "--from", "9", *ROOT)
        assert (done.code, "there is no entry 9: the ledger has 5" in " ".join(done.err.split())) == (2, True)
    assert run("key", "revoke", "root", "--from", "5", *ROOT, "--unproven").code == 0


def test_a_key_that_was_rotated_out_is_taken_back_by_its_name(run, ledger):
    for text in ("one", "two"):
        assert run(*NOTE, stdin=b'{"text":"%s"}' % text.encode()).code == 0  # 4, 5
    assert run("key", "rotate", "judge", "spare.pub.pem", *ROOT).code == 0  # 6
    revoke = ("key", "revoke", "judge", *ROOT, "--from")
    done = run(*revoke, 6)
    assert (done.code, "[K3L-KEY-RETIRED]" in done.err) == (1, True)
    assert "was rotated by entry 6: from entry 6 on it signed nothing that counts" in done.err
    assert run(*revoke, 5).code == 0  # 7
    assert verify(run).json["disowned"] == [{"first": 5, "last": 5, "by": 7}]
    assert "was taken back from entry 5: from entry 5 on it signed nothing that counts" in run(*revoke, 5).err
    assert run(*revoke, 4).code == 0  # 8: it was stolen earlier than was thought
    assert verify(run).json["disowned"] == [{"first": 4, "last": 4, "by": 8}, {"first": 5, "last": 5, "by": 7}]
    assert "no valid key" in run("key", "revoke", "judge", *ROOT).err
    assert "no key of this ledger is named" in run("key", "revoke", "nobody", *ROOT, "--from", "1").err


def test_of_several_ended_keys_of_one_name_the_key_id_tells(run, ledger):
    for _ in range(2):
        assert run("keygen", "next.pem").code == 0
        assert run("key", "enrol", "judge", "next.pub.pem", *ROOT, "--name", "visitor").code == 0
        assert run("key", "revoke", "visitor", *ROOT).code == 0
        for name in ("next.pem", "next.pub.pem"):
            (ledger.parent / name).unlink()
    done = run("key", "revoke", "visitor", *ROOT, "--from", "1")
    assert "several keys are named 'visitor'" in done.err
    assert "give the key id in full" in done.err

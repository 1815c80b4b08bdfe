"""Several root keys, each on a machine of its own: proposing, endorsing and appending from the command line."""

from __future__ import annotations

import json
import shutil

import pytest


@pytest.fixture
def roots(run, keys, ledger):
    """Two of three root keys are needed from here on; the third is `spare`."""
    assert run("keygen", "second.pem", "new.pem").code == 0
    for name in ("second", "spare"):
        assert run("key", "enrol", "root", f"{name}.pub.pem", "-k", "root.pem", "-l", "ledger").code == 0
    done = run("key", "threshold", "2", "-k", "root.pem", "-l", "ledger", "--reason", "more eyes")
    assert (done.code, done.out.split(": ")[1]) == (0, "threshold 2\n")
    return run


ENROL = ("key", "enrol", "judge", "new.pub.pem", "-l", "ledger")


def test_two_of_three_enrol_a_key(roots, tmp_path):
    done = roots(*ENROL, "-k", "root.pem")
    assert (done.code, done.out) == (1, "")
    assert "K3L-THRESHOLD-NOT-MET" in done.err
    assert "--propose" in done.err
    done = roots(*ENROL, "--propose", "p.json")
    assert done.code == 0
    assert "endorsed by nobody yet" in done.out
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy")
    done = roots("key", "endorse", "p.json", "-k", "second.pem", "-l", "copy")
    assert (done.code, done.err) == (0, "")
    assert "enrol judge key new" in done.out
    done = roots("key", "append", "p.json", "-k", "root.pem", "-l", "ledger")
    assert (done.code, done.out.split(": ")[1]) == (0, "enrol judge key new\n")
    assert "root actions need 2 of 3 root keys" in roots("verify", "ledger").out
    assert roots("append", "note", "-b", "-", "-k", "new.pem", "-l", "ledger", stdin=b'{"text": "x"}').code == 0


@pytest.mark.parametrize("action", ["rotate", "revoke", "threshold"])
def test_every_root_action_can_be_proposed(roots, action):
    words = {
        "rotate": ("key", "rotate", "judge", "new.pub.pem"),
        "revoke": ("key", "revoke", "judge", "--reason", "lost"),
        "threshold": ("key", "threshold", "1"),
    }[action]
    assert roots(*words, "-l", "ledger", "-k", "root.pem").code == 1
    assert roots(*words, "-l", "ledger", "--propose", "p.json").code == 0
    done = roots("key", "endorse", "p.json", "-k", "spare.pem")
    assert done.code == 0
    assert "not held against a ledger" in done.err
    assert ("lost" in done.out) == (action == "revoke")
    assert roots("key", "append", "p.json", "-k", "second.pem", "-l", "ledger").code == 0
    assert roots("verify", "ledger").code == 0


def test_the_threshold_is_listed_with_the_keys(roots):
    assert roots("key", "ls", "-l", "ledger").out.endswith("\nroot actions need 2 of 3 root keys\n")
    assert roots("key", "ls", "-l", "ledger", "--json").json["threshold"] == 2
    assert roots("key", "revoke", "spare", "-l", "ledger", "--propose", "p.json").code == 0
    assert roots("key", "endorse", "p.json", "-k", "second.pem").code == 0
    assert roots("key", "append", "p.json", "-k", "root.pem", "-l", "ledger").code == 0
    assert "root actions need 2 of 2 root keys" in roots("key", "ls", "-l", "ledger").out


def test_copies_are_endorsed_apart_and_appended_together(roots, tmp_path):
    assert roots("key", "threshold", "3", "-l", "ledger", "--propose", "p.json").code == 0
    assert roots("key", "endorse", "p.json", "-k", "second.pem").code == 0
    assert roots("key", "append", "p.json", "-k", "root.pem", "-l", "ledger").code == 0
    assert roots(*ENROL, "--propose", "q.json").code == 0
    before = (tmp_path / "q.json").read_bytes()
    done = roots("key", "endorse", "q.json", "-k", "second.pem", "--out", "q2.json", "--json")
    assert (done.code, done.json["path"], len(done.json["body"]["endorsements"])) == (0, "q2.json", 1)
    assert roots("key", "endorse", "q.json", "-k", "spare.pem", "--out", "q3.json").code == 0
    assert (tmp_path / "q.json").read_bytes() == before
    assert roots("key", "append", "q2.json", "-k", "root.pem", "-l", "ledger").code == 1
    done = roots("key", "append", "q.json", "q2.json", "q3.json", "-k", "root.pem", "-l", "ledger", "--json")
    assert (done.code, done.json["index"]) == (0, 8)


def test_what_is_no_root_of_the_ledger_endorses_nothing(roots, tmp_path):
    assert roots(*ENROL, "--propose", "p.json").code == 0
    before = (tmp_path / "p.json").read_bytes()
    done = roots("key", "endorse", "p.json", "-k", "judge.pem", "-l", "ledger")
    assert (done.code, "K3L-KEY-WRONG-ROLE" in done.err) == (1, True)
    assert (tmp_path / "p.json").read_bytes() == before


def test_nobody_is_shown_as_an_endorser_who_did_not_endorse(roots, tmp_path):
    """Whoever carries the file swaps the name of what second.pem endorsed; spare.pem is asked next."""
    assert roots(*ENROL, "--propose", "p.json").code == 0
    assert roots("key", "endorse", "p.json", "-k", "second.pem", "-l", "ledger").code == 0
    honest = (tmp_path / "p.json").read_text()
    first = json.loads(honest)["body"]["endorsements"][0]["key"]
    changed = honest.replace('"name":"new"', '"name":"evil"')
    assert changed != honest
    (tmp_path / "p.json").write_text(changed)
    done = roots("key", "endorse", "p.json", "-k", "spare.pem", "-l", "ledger")
    assert (done.code, done.out, "K3L-ENDORSEMENT-SIGNATURE" in done.err) == (1, "", True)
    assert (tmp_path / "p.json").read_text() == changed
    done = roots("key", "endorse", "p.json", "-k", "spare.pem", "--out", "blind.json")
    assert done.code == 0
    assert f"not checked whether {first} endorsed it" in done.out
    assert first not in done.out.partition("endorsed by ")[2]
    assert roots("key", "endorse", "p.json", "-k", "spare.pem", "--out", "j.json", "--json").json[
        "endorsements_not_checked"
    ]
    (tmp_path / "p.json").write_text(honest)
    done = roots("key", "endorse", "p.json", "-k", "spare.pem", "-l", "ledger", "--json")
    assert (done.code, done.json["endorsements_not_checked"]) == (0, 0)
    assert roots("key", "append", "p.json", "-k", "root.pem", "-l", "ledger").code == 0


def test_proposal_never_overwrites_a_file_and_needs_no_key(roots, tmp_path):
    (tmp_path / "p.json").write_text("mine")
    done = roots(*ENROL, "--propose", "p.json")
    assert (done.code, (tmp_path / "p.json").read_text()) == (2, "mine")
    for words in ((), ("-k", "root.pem", "--propose", "q.json")):
        done = roots(*ENROL, *words)
        assert done.code == 2
        assert "--propose" in done.err
    assert not (tmp_path / "q.json").exists()


def test_file_that_is_no_proposal_is_named(roots, tmp_path):
    (tmp_path / "p.json").write_text("{}")
    done = roots("key", "endorse", "p.json", "-k", "second.pem")
    assert (done.code, "p.json" in done.err, "K3L-PROPOSAL-MALFORMED" in done.err) == (3, True, True)
    done = roots("key", "endorse", "nothing.json", "-k", "second.pem")
    assert (done.code, "nothing.json" in done.err) == (3, True)


def test_endorsed_copy_that_cannot_be_written_leaves_nothing(roots, tmp_path):
    assert roots(*ENROL, "--propose", "p.json").code == 0
    done = roots("key", "endorse", "p.json", "-k", "second.pem", "--out", "nowhere/p.json")
    assert (done.code, done.out) == (3, "")
    (tmp_path / "folder").mkdir()
    assert roots("key", "endorse", "p.json", "-k", "second.pem", "--out", "folder").code == 2
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert json.loads((tmp_path / "p.json").read_text())["body"]["endorsements"] == []


LAST = ("key", "revoke", "root.pub.pem", "-l", "ledger")


def test_the_only_root_key_is_not_revoked_by_accident(run, ledger):
    before = (ledger / "ledger.jsonl").read_bytes()
    for words in ((*LAST, "-k", "root.pem"), (*LAST, "--propose", "p.json")):
        done = run(*words)
        assert (done.code, done.out) == (1, "")
        assert "no root keys are left and the threshold is 1: no root action can follow [K3L-ROOTS-TOO-FEW]" in done.err
        assert "--last-root" in done.err
    assert (ledger / "ledger.jsonl").read_bytes() == before
    assert run("verify", "ledger").code == 0


ROTATE = ("key", "rotate", "root", "spare.pub.pem", "-k", "root.pem", "-l", "ledger")


def test_the_only_root_key_is_not_left_to_a_key_that_nobody_has_shown(run, ledger):
    before = (ledger / "ledger.jsonl").read_bytes()
    done = run(*ROTATE)
    assert (done.code, done.out) == (1, "")
    assert "[K3L-KEY-NOT-SHOWN]" in done.err
    assert "--new-key" in done.err
    assert "--unproven" in done.err
    wrong = run(*ROTATE, "--new-key", "judge.pem")  # the private half of another key shows nothing
    assert "[K3L-KEY-NOT-SHOWN]" in wrong.err
    assert (ledger / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize("words", [("--new-key", "spare.pem"), ("--unproven",)])
def test_the_only_root_key_is_replaced_by_one_that_is_shown_or_on_purpose(run, ledger, words):
    done = run(*ROTATE, *words)
    assert (done.code, done.err) == (0, "")
    assert "K3L-ROOTS-TOO-FEW" not in run("verify", "ledger").out
    assert run("key", "revoke", "runner", "-k", "spare.pem", "-l", "ledger").code == 0


def test_a_new_root_key_shows_itself_by_retiring_the_old_one(run, ledger):
    assert run("key", "enrol", "root", "spare.pub.pem", "-k", "root.pem", "-l", "ledger").code == 0
    by_itself = run("key", "revoke", "root", "-k", "root.pem", "-l", "ledger")
    assert (by_itself.code, "[K3L-KEY-NOT-SHOWN]" in by_itself.err) == (1, True)
    assert run("key", "revoke", "root", "-k", "spare.pem", "-l", "ledger").code == 0
    assert run("verify", "ledger").code == 0


def test_a_root_key_that_nobody_holds_is_left_on_purpose_only(run, ledger):
    assert run("key", "enrol", "root", "spare.pub.pem", "-k", "root.pem", "-l", "ledger").code == 0
    assert run("key", "revoke", "root", "-k", "root.pem", "-l", "ledger", "--unproven").code == 0


def test_a_root_key_that_acted_once_needs_not_be_shown_again(run, ledger):
    assert run("key", "enrol", "root", "spare.pub.pem", "-k", "root.pem", "-l", "ledger").code == 0
    assert run("key", "revoke", "judge", "-k", "spare.pem", "-l", "ledger").code == 0
    assert run("key", "revoke", "root", "-k", "root.pem", "-l", "ledger").code == 0


def test_a_proposed_rotation_of_the_only_root_key_is_appended_with_the_new_one_at_hand(run, ledger):
    assert run(*ROTATE[:4], "-l", "ledger", "--propose", "p.json").code == 0
    append = ("key", "append", "p.json", "-k", "root.pem", "-l", "ledger")
    assert "[K3L-KEY-NOT-SHOWN]" in run(*append).err
    assert run(*append, "--new-key", "spare.pem").code == 0


@pytest.mark.parametrize(("old", "asked"), [("spare", False), ("root", True)])
def test_a_rotation_among_several_roots_asks_for_as_many_as_the_threshold_needs(roots, old, asked):
    """Of three two are needed: the signer and the endorser are, unless one of them is what is rotated out."""
    assert roots("key", "rotate", old, "new.pub.pem", "-l", "ledger", "--propose", "p.json").code == 0
    assert roots("key", "endorse", "p.json", "-k", "second.pem", "-l", "ledger").code == 0
    append = ("key", "append", "p.json", "-k", "root.pem", "-l", "ledger")
    if asked:
        assert "[K3L-KEY-NOT-SHOWN]" in roots(*append).err
        append += ("--new-key", "new.pem")
    assert roots(*append).code == 0


@pytest.mark.parametrize("role", ["log", "runner", "judge"])
def test_the_last_key_of_a_role_is_revoked_with_a_word_on_how_to_go_on(run, ledger, role):
    done = run("key", "revoke", role, "-k", "root.pem", "-l", "ledger")
    assert done.code == 0
    assert done.err == f"note: no {role} key is left: `k3-ledger key enrol {role} FILE` enrols one\n"
    assert run("key", "enrol", role, "spare.pub.pem", "-k", "root.pem", "-l", "ledger").code == 0
    assert run("keygen", "another.pem").code == 0
    assert run("key", "enrol", role, "another.pub.pem", "-k", "root.pem", "-l", "ledger").code == 0
    assert run("key", "revoke", "spare", "-k", "root.pem", "-l", "ledger").err == ""


@pytest.mark.parametrize("way", ["signed", "proposed"])
def test_the_only_root_key_is_revoked_on_purpose_and_verify_says_what_that_means(run, ledger, way):
    if way == "signed":
        assert run(*LAST, "-k", "root.pem", "--last-root").code == 0
    else:
        assert run(*LAST, "--propose", "p.json", "--last-root").code == 0
        endorse = ("key", "endorse", "p.json", "-k", "root.pem", "-l", "ledger")
        assert "K3L-ROOTS-TOO-FEW" in run(*endorse).err
        assert run(*endorse, "--last-root").code == 0
        append = ("key", "append", "p.json", "-k", "root.pem", "-l", "ledger")
        assert "K3L-ROOTS-TOO-FEW" in run(*append).err
        assert run(*append, "--last-root").code == 0
    done = run("verify", "ledger")
    assert done.code == 0
    assert "K3L-ROOTS-TOO-FEW" in done.out
    assert "K3L-KEY-RETIRED" in run(*ENROL[:3], "spare.pub.pem", "-k", "root.pem", "-l", "ledger").err
    assert run("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger", stdin=b'{"text": "x"}').code == 0


def test_a_word_for_the_last_root_lets_nothing_else_through(roots):
    done = roots("key", "revoke", "spare", "-k", "root.pem", "-l", "ledger", "--last-root")
    assert done.code == 1
    assert "K3L-THRESHOLD-NOT-MET" in done.err

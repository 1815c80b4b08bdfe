"""Writes trust policies: a new file, or a change of one that keeps its comments and its order.

What is written is read again by the verifier's own parser before it replaces anything, and has to say what was meant.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from k3_ledger.cli.files import WAIT_S, alone, create_file, replace_file
from k3_ledger.cli.given import POLICY, given
from k3_ledger.cli.places import check_spared
from k3_ledger.cli.trust import policy_in
from k3_ledger.ledger.regular import read_small
from k3_ledger.schemas.errors import PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.policy import TrustPolicy, parse_policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tomlkit import TOMLDocument

    from k3_ledger.ledger.core.cosignature import Witness


_WHAT = "the trust policy"


def new_policy(policy: TrustPolicy, heading: str) -> bytes:
    """The file of a policy without witnesses.

    Args:
        policy: what it says.
        heading: a sentence for its first line.
    """
    document = tomlkit.document()
    document.add(tomlkit.comment(heading))
    for name, value in _plain(policy).items():
        document.add(name, value)
    return _checked(document, policy, "trust.toml")


def create(path: Path, data: bytes, *, replacing: bool, wait: float = WAIT_S) -> TrustPolicy | None:
    """Write a new policy file; returns the policy that it replaced.

    Raises:
        BadParameter: it is a place of a ledger, or holds a private key.
        PolicyError: a file stands there and is not to be replaced, or is no policy.
        StoreError: the file cannot be read or written.
    """
    check_spared(path, reads=(), option="--out")
    if create_file(path, data):
        return None
    if not replacing:
        raise PolicyError(
            Code.POLICY_EXISTS,
            "a trust policy stands there already",
            position=Position(source=str(path)),
            hint="give another --out, add to it with `k3-ledger trust add …`, or say --replace",
        )
    with alone(path, _WHAT, wait=wait):
        with given(path, POLICY):
            old = parse_policy(read_small(path), path.name)
        replace_file(path, data)
    return old


def edit(
    path: Path,
    change: Callable[[TOMLDocument], None],
    meant: Callable[[TrustPolicy], TrustPolicy],
    wait: float = WAIT_S,
) -> TrustPolicy:
    """Change a policy file in one step; returns what it says now. What others add at the same time is kept.

    Args:
        path: the file.
        change: changes the document.
        meant: what the policy is to become, from what it was.
        wait: how long to wait for others who change it, in seconds.

    Raises:
        PolicyError: the file, or what it would become, is no policy.
        StoreError: the file cannot be read or written, or others changed it for the whole wait (``LOCK_BUSY``).
    """
    with given(path, POLICY):
        read_small(path)  # who named no policy hears so, and not that its folder cannot be written
    with alone(path, _WHAT, wait=wait):
        return _edit(path, change, meant)


def _edit(
    path: Path, change: Callable[[TOMLDocument], None], meant: Callable[[TrustPolicy], TrustPolicy]
) -> TrustPolicy:
    with given(path, POLICY):
        data = read_small(path)
        before = policy_in(data, path)
    policy = _allowed(meant, before, path)
    try:
        document = tomlkit.parse(data.decode("utf-8-sig"))
        change(document)
    except TOMLKitError as error:
        raise PolicyError(
            Code.POLICY_MALFORMED,
            f"the trust policy cannot be changed in place: {error}"[:300],
            position=Position(source=path.name),
            hint="change it by hand",
        ) from None
    replace_file(path, _checked(document, policy, path.name))
    return policy


def put(document: TOMLDocument, name: str, value: Any) -> None:
    """Set a top-level key, in its place or in front of the first table."""
    document[name] = value


def put_table(document: TOMLDocument, name: str, values: dict[str, Any]) -> None:
    """Set keys of a table, which is made where there is none."""
    if name not in document:
        document.add(name, tomlkit.table())
    table: Any = document[name]
    for key, value in values.items():
        table[key] = value


def put_witness(document: TOMLDocument, key: str, operator: str | None) -> None:
    """Add a witness behind those that are there."""
    listed = document.get("witness")
    inline = listed is not None and not isinstance(listed, AoT)
    item = tomlkit.inline_table() if inline else tomlkit.table()
    item.add("key", key)
    if operator is not None:
        item.add("operator", operator)
    if listed is None:
        listed = tomlkit.aot()
        document.add("witness", listed)
    listed.append(item)


def with_witness(policy: TrustPolicy, witness: Witness, quorum: int | None) -> TrustPolicy:
    """The policy with one more witness, and a quorum where one is given; the first witness makes it 1."""
    wanted = max(policy.quorum, 1) if quorum is None else quorum
    return replace(policy, witnesses=(*policy.witnesses, witness), quorum=wanted)


_NOT_PINNED = ("witnesses", "quorum", "timestamp_roots")
"""What no ledger says of itself."""


def _plain(policy: TrustPolicy) -> dict[str, Any]:
    """Top-level keys of a policy file, without what the policy leaves open."""
    values = policy.as_dict()
    return {name: value for name, value in values.items() if value and name not in _NOT_PINNED}


def _allowed(meant: Callable[[TrustPolicy], TrustPolicy], old: TrustPolicy, path: Path) -> TrustPolicy:
    try:
        return meant(old)
    except ValueError as error:
        raise PolicyError(Code.POLICY_MALFORMED, str(error), position=Position(source=path.name)) from None


def _checked(document: TOMLDocument, policy: TrustPolicy, name: str) -> bytes:
    """The document's bytes, once the verifier reads in them what was meant."""
    data = tomlkit.dumps(document).encode()
    read = parse_policy(data, name)
    assert read == policy, "a policy file says what was meant"
    return data

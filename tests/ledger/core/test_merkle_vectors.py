"""All published Merkle proof cases, every one with its expected verdict."""

from __future__ import annotations

import base64
import json

import pytest

from k3_ledger.ledger.core import chain, merkle
from tests.ledger.core.samples import code_of


def raw(text):
    return base64.b64decode(text or "")


def inclusion(case, proof):
    root, leaf = raw(case["root"]), raw(case["leafHash"])
    return code_of(merkle.check_inclusion, case["leafIdx"], case["treeSize"], leaf, proof, root)


def consistency(case, proof):
    roots = raw(case["root1"]), raw(case["root2"])
    return code_of(merkle.check_consistency, case["size1"], case["size2"], *roots, proof)


def subtree_inclusion(case, proof):
    root, leaf = raw(case["root"]), raw(case["leafHash"])
    bounds = {"start": case["start"], "end": case["end"]}
    return code_of(merkle.check_subtree_inclusion, case["leafIdx"], leaf, proof, root, **bounds)


def subtree_consistency(case, proof):
    subtree, root = raw(case["root1"]), raw(case["root2"])
    call = merkle.check_subtree_consistency
    return code_of(call, case["start"], case["end"], subtree, proof, size=case["size"], root=root)


@pytest.mark.parametrize(
    ("family", "check", "verdicts"),
    [
        ("inclusion", inclusion, {True: 6, False: 92}),
        ("consistency", consistency, {True: 6, False: 92}),
        ("subtreeinclusion", subtree_inclusion, {True: 12, False: 192}),
        ("subtreeconsistency", subtree_consistency, {True: 12, False: 106}),
    ],
    ids=["inclusion", "consistency", "subtree inclusion", "subtree consistency"],
)
def test_every_case_has_its_published_verdict(test_data, family, check, verdicts):
    mismatch = "INCLUSION_MISMATCH" if family.endswith("inclusion") else "CONSISTENCY_MISMATCH"
    seen = {True: 0, False: 0}
    for path in sorted(test_data("vectors", "merkle-rfc6962", "testdata", family).rglob("*.json")):
        case = json.loads(path.read_bytes())
        code = check(case, [raw(digest) for digest in case["proof"] or []])
        assert (code is not None) == case["wantErr"], path
        assert code in {None, mismatch, "PROOF_SHAPE"}, path
        seen[code is None] += 1
    assert seen == verdicts


def test_the_published_tree_has_the_published_roots(test_data):
    tree = json.loads(test_data("vectors", "merkle-rfc6962", "reference_tree.json").read_bytes())
    grown = merkle.CompactRange()
    roots = [grown.root().hex()]
    for leaf in tree["leaf_inputs_hex"]:
        grown.append(chain.leaf_hash(bytes.fromhex(leaf)))
        roots.append(grown.root().hex())
    assert roots == tree["root_hash_hex_by_size"]

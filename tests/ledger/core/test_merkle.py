"""The Merkle tree against a naive one, and proofs against every small tree."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core import chain, merkle
from k3_ledger.ledger.core.merkle import CompactRange
from k3_ledger.schemas.outcomes import Position
from tests.ledger.core.samples import code_of, refusal
from tests.reference import naive_merkle

LEAVES = [naive_merkle.leaf(str(at).encode()) for at in range(300)]
SMALL = 20
PLACE = Position(source="proof")


def reader(leaves):
    """Reads nodes of the tree over some leaves."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([merkle.node_hash(*below[at : at + 2]) for at in range(0, len(below) - 1, 2)])
    return lambda level, index: levels[level][index]


NODE = reader(LEAVES)


def covering(begin, end):
    made = CompactRange(begin)
    for leaf in LEAVES[begin:end]:
        made.append(leaf)
    return made


def subtrees(most):
    """Every subtree within the first ``most`` leaves."""
    for start in range(most + 1):
        for end in range(start + 1, most + 1):
            width = 1
            while width < end - start:
                width *= 2
            if start % width == 0:
                yield start, end


def flipped(digest):
    return bytes([digest[0] ^ 1]) + digest[1:]


# ---------------------------------------------------------------------------------------------------------- hashes


def test_hashes_are_those_of_rfc_6962():
    assert chain.leaf_hash(b"data") == naive_merkle.leaf(b"data")
    assert merkle.node_hash(LEAVES[0], LEAVES[1]) == naive_merkle.root(LEAVES[:2])
    assert naive_merkle.root([]) == merkle.EMPTY_ROOT


def test_a_leaf_is_never_taken_for_an_inner_node():
    assert chain.leaf_hash(LEAVES[0] + LEAVES[1]) != merkle.node_hash(LEAVES[0], LEAVES[1])


# -------------------------------------------------------------------------------------------------- compact ranges


def test_the_root_of_every_size_is_the_naive_one():
    grown = CompactRange()
    for size in range(len(LEAVES)):
        assert grown.root() == naive_merkle.root(LEAVES[:size])
        assert len(grown.hashes) == size.bit_count()
        grown.append(LEAVES[size])


@given(st.lists(st.integers(min_value=0, max_value=120), min_size=2, max_size=6).map(sorted))
def test_ranges_cut_anywhere_join_to_the_same_range(cuts):
    joined = covering(cuts[0], cuts[1])
    for begin, end in pairwise(cuts[1:]):
        joined.extend(covering(begin, end))
    whole = covering(cuts[0], cuts[-1])
    assert (joined.begin, joined.end, joined.hashes) == (whole.begin, whole.end, whole.hashes)


@given(st.integers(min_value=0, max_value=200), st.integers(min_value=0, max_value=100))
def test_a_range_is_the_fewest_perfect_subtrees_and_can_be_put_back_together(begin, length):
    end = begin + length
    nodes = list(merkle.decompose(begin, end))
    assert [at for level, index in nodes for at in range(index << level, index + 1 << level)] == list(range(begin, end))
    siblings = [(level, index) for level, index in nodes if (level, index ^ 1) in nodes]
    assert siblings == []
    hashes = [naive_merkle.root(LEAVES[index << level : index + 1 << level]) for level, index in nodes]
    assert covering(begin, end).hashes == tuple(hashes)
    assert CompactRange(begin, end, hashes).hashes == tuple(hashes)


def test_extending_does_not_change_the_range_on_the_right():
    left, right = covering(0, 3), covering(3, 8)
    before = right.hashes
    left.extend(right)
    assert (right.hashes, right.begin, right.end) == (before, 3, 8)
    assert left.root() == naive_merkle.root(LEAVES[:8])


@pytest.mark.parametrize("begin", [0, 5, 8])
def test_a_visitor_sees_every_perfect_subtree_once(begin):
    seen = {}
    made = CompactRange(begin)
    for leaf in LEAVES[begin:37]:
        made.append(leaf, lambda level, index, digest: seen.setdefault((level, index), []).append(digest))
    nodes = [(level, index) for level in range(6) for index in range(37)]
    perfect = [(level, at) for level, at in nodes if begin <= at << level and at + 1 << level <= 37]
    assert seen == {(level, at): [naive_merkle.root(LEAVES[at << level : at + 1 << level])] for level, at in perfect}


def test_a_visitor_sees_what_joining_completes():
    seen = set()
    covering(0, 3).extend(covering(3, 8), lambda level, index, _: seen.add((level, index)))
    assert seen == {(0, 3), (2, 1), (1, 1), (2, 0), (3, 0)}


@pytest.mark.parametrize(
    ("begin", "end", "hashes", "says"),
    [
        (-1, 0, [b"x"], "no range"),
        (2, 1, [], "no range"),
        (0, 1, [], "not covered"),
        (0, 3, LEAVES[:1], "not covered"),
        (0, 2, LEAVES[:2], "not covered"),
        (0, 1, [b"short"], "32 bytes"),
    ],
)
def test_impossible_ranges_are_the_callers_mistake(begin, end, hashes, says):
    with pytest.raises(ValueError, match=says):
        CompactRange(begin, end, hashes)


def test_only_neighbours_join():
    with pytest.raises(ValueError, match="does not begin where"):
        covering(0, 3).extend(covering(4, 5))


def test_a_range_that_begins_later_has_no_root():
    with pytest.raises(ValueError, match="no root"):
        covering(1, 2).root()


# ---------------------------------------------------------------------------------------------------------- proofs


def test_every_inclusion_proof_of_small_trees_is_the_naive_one_and_holds():
    for size in range(1, SMALL):
        root = naive_merkle.root(LEAVES[:size])
        for index in range(size):
            proof = merkle.prove_inclusion(index, size, NODE)
            assert proof == naive_merkle.inclusion(index, LEAVES[:size])
            merkle.check_inclusion(index, size, LEAVES[index], proof, root)


def test_every_consistency_proof_of_small_trees_is_the_naive_one_and_holds():
    for size2 in range(1, SMALL):
        for size1 in range(1, size2 + 1):
            roots = naive_merkle.root(LEAVES[:size1]), naive_merkle.root(LEAVES[:size2])
            proof = merkle.prove_consistency(size1, size2, NODE)
            assert proof == naive_merkle.consistency(size1, LEAVES[:size2])
            merkle.check_consistency(size1, size2, *roots, proof)


def test_every_subtree_of_small_trees_is_consistent_and_includes_its_leaves():
    for start, end in subtrees(SMALL):
        subtree_root = naive_merkle.root(LEAVES[start:end])
        for size in range(end, SMALL + 1):
            proof = merkle.prove_subtree_consistency(start, end, size, NODE)
            assert proof == naive_merkle.subtree_consistency(start, end, LEAVES[:size])
            root = naive_merkle.root(LEAVES[:size])
            merkle.check_subtree_consistency(start, end, subtree_root, proof, size=size, root=root)
        for index in range(start, end):
            proof = merkle.prove_subtree_inclusion(index, NODE, start=start, end=end)
            assert proof == naive_merkle.inclusion(index - start, LEAVES[start:end])
            merkle.check_subtree_inclusion(index, LEAVES[index], proof, subtree_root, start=start, end=end)


@given(st.data())
def test_inclusion_proofs_of_larger_trees(data):
    size = data.draw(st.integers(min_value=1, max_value=len(LEAVES)))
    index = data.draw(st.integers(min_value=0, max_value=size - 1))
    proof, root = merkle.prove_inclusion(index, size, NODE), naive_merkle.root(LEAVES[:size])
    assert proof == naive_merkle.inclusion(index, LEAVES[:size])
    merkle.check_inclusion(index, size, LEAVES[index], proof, root)
    at = data.draw(st.integers(min_value=0, max_value=len(proof)))
    inserted = [*proof[:at], LEAVES[0], *proof[at:]]
    assert code_of(merkle.check_inclusion, index, size, LEAVES[index], inserted, root) == "PROOF_SHAPE"
    if at < len(proof):
        changed = [*proof[:at], flipped(proof[at]), *proof[at + 1 :]]
        assert code_of(merkle.check_inclusion, index, size, LEAVES[index], changed, root) == "INCLUSION_MISMATCH"
        removed = proof[:at] + proof[at + 1 :]
        assert code_of(merkle.check_inclusion, index, size, LEAVES[index], removed, root) == "PROOF_SHAPE"


@given(st.data())
def test_consistency_proofs_of_larger_trees(data):
    size2 = data.draw(st.integers(min_value=2, max_value=len(LEAVES)))
    size1 = data.draw(st.integers(min_value=1, max_value=size2 - 1))
    roots = naive_merkle.root(LEAVES[:size1]), naive_merkle.root(LEAVES[:size2])
    proof = merkle.prove_consistency(size1, size2, NODE)
    assert proof == naive_merkle.consistency(size1, LEAVES[:size2])
    merkle.check_consistency(size1, size2, *roots, proof)
    for at in range(len(proof)):
        changed = [*proof[:at], flipped(proof[at]), *proof[at + 1 :]]
        assert code_of(merkle.check_consistency, size1, size2, *roots, changed) == "CONSISTENCY_MISMATCH"
    assert code_of(merkle.check_consistency, size1, size2, *roots, proof[:-1]) == "PROOF_SHAPE"
    assert code_of(merkle.check_consistency, size1, size2, *roots, [*proof, roots[0]]) == "PROOF_SHAPE"
    assert code_of(merkle.check_consistency, size1, size2, flipped(roots[0]), roots[1], proof) == "CONSISTENCY_MISMATCH"
    assert code_of(merkle.check_consistency, size1, size2, roots[0], flipped(roots[1]), proof) == "CONSISTENCY_MISMATCH"


def test_a_proof_holds_for_one_leaf_at_one_index():
    root, proof = naive_merkle.root(LEAVES[:11]), merkle.prove_inclusion(4, 11, NODE)
    for index in range(11):
        holds = code_of(merkle.check_inclusion, index, 11, LEAVES[4], proof, root) is None
        assert holds == (index == 4)
        holds = code_of(merkle.check_inclusion, 4, 11, LEAVES[index], proof, root) is None
        assert holds == (index == 4)


def test_errors_say_where_what_was_expected_and_what_was_found():
    wrong, found = flipped(LEAVES[0]), LEAVES[0].hex()
    error = refusal(merkle.check_inclusion, 0, 1, LEAVES[0], [], wrong, position=PLACE).finding
    assert (error.position, error.expected, error.found) == (PLACE, wrong.hex(), found)
    error = refusal(merkle.check_consistency, 1, 1, LEAVES[0], wrong, [], position=PLACE).finding
    assert (error.position, error.expected, error.found) == (PLACE, wrong.hex(), found)
    assert "the tree of 1 leaves" in error.message
    proof = merkle.prove_consistency(3, 7, NODE)
    error = refusal(merkle.check_consistency, 3, 7, wrong, naive_merkle.root(LEAVES[:7]), proof, position=PLACE).finding
    assert "the subtree [0, 3)" in error.message
    for shape in (
        refusal(merkle.check_inclusion, 1, 1, LEAVES[0], [], LEAVES[0], position=PLACE),
        refusal(merkle.check_inclusion, 0, 1, LEAVES[0], [LEAVES[0]], LEAVES[0], position=PLACE),
        refusal(merkle.check_consistency, 0, 1, merkle.EMPTY_ROOT, LEAVES[0], [], position=PLACE),
        refusal(merkle.check_consistency, 2, 1, LEAVES[0], LEAVES[0], [], position=PLACE),
    ):
        assert (shape.code.name, shape.finding.position) == ("PROOF_SHAPE", PLACE)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_hashes_of_another_length_are_refused(length):
    assert code_of(merkle.check_inclusion, 0, 1, bytes(length), [], bytes(length)) == "PROOF_SHAPE"
    assert code_of(merkle.check_inclusion, 0, 2, LEAVES[0], [bytes(length)], LEAVES[0]) == "PROOF_SHAPE"
    assert code_of(merkle.check_consistency, 1, 2, LEAVES[0], LEAVES[1], [bytes(length)]) == "PROOF_SHAPE"


@pytest.mark.parametrize(("start", "end"), [(0, 0), (3, 3), (5, 6), (2, 4), (4, 7), (8, 16), (0, 1000), (512, 1000)])
def test_ranges_that_are_subtrees(start, end):
    error = refusal(merkle.check_subtree_consistency, start, end, b"", [], size=2000, root=b"")
    assert "is not a subtree" not in str(error)


@pytest.mark.parametrize(("start", "end"), [(1, 3), (2, 5), (4, 12), (-8, -4), (-1, 0), (3, 2), (256, 1000)])
def test_ranges_that_are_not(start, end):
    error = refusal(merkle.check_subtree_consistency, start, end, b"", [], size=2000, root=b"")
    assert "is not a subtree" in str(error)


def test_a_subtree_ends_with_its_tree_at_the_latest():
    proof = merkle.prove_subtree_consistency(2, 4, 4, NODE)
    roots = naive_merkle.root(LEAVES[2:4]), naive_merkle.root(LEAVES[:4])
    merkle.check_subtree_consistency(2, 4, roots[0], proof, size=4, root=roots[1])
    error = refusal(merkle.check_subtree_consistency, 2, 4, roots[0], proof, size=3, root=roots[1])
    assert "is not a subtree of a tree of 3 leaves" in str(error)


def test_a_subtree_without_leaves_is_part_of_any_tree_and_has_one_root():
    root = naive_merkle.root(LEAVES[:4])
    merkle.check_subtree_consistency(2, 2, merkle.EMPTY_ROOT, [], size=4, root=root)
    error = refusal(merkle.check_subtree_consistency, 2, 2, LEAVES[2], [], size=4, root=root)
    assert "a subtree without leaves" in str(error)


@pytest.mark.parametrize(
    ("prove", "numbers"),
    [
        (merkle.prove_inclusion, (1, 1)),
        (merkle.prove_inclusion, (-1, 1)),
        (merkle.prove_consistency, (0, 1)),
        (merkle.prove_consistency, (2, 1)),
        (merkle.prove_subtree_consistency, (2, 2, 3)),
        (merkle.prove_subtree_consistency, (1, 3, 4)),
    ],
)
def test_proofs_that_cannot_exist_are_the_callers_mistake(prove, numbers):
    with pytest.raises(ValueError, match=r"subtree|empty tree"):
        prove(*numbers, NODE)


@pytest.mark.parametrize(("index", "start", "end"), [(3, 3, 5), (3, 4, 6), (6, 4, 6)])
def test_a_leaf_is_proved_inside_its_subtree_only(index, start, end):
    with pytest.raises(ValueError, match="is not in a subtree"):
        merkle.prove_subtree_inclusion(index, NODE, start=start, end=end)
    code = code_of(merkle.check_subtree_inclusion, index, LEAVES[index], [LEAVES[0]], LEAVES[1], start=start, end=end)
    assert code == "PROOF_SHAPE"


def test_the_nodes_of_a_proof_are_collected_in_one_pass():
    def prove(node):
        return merkle.prove_inclusion(77, 211, node)

    wanted = merkle.needed_nodes(prove)
    assert len(wanted) < 20
    covered, found = merkle.collect_nodes(iter(LEAVES[:211]), wanted)
    assert found.keys() == wanted
    assert prove(lambda level, index: found[level, index]) == naive_merkle.inclusion(77, LEAVES[:211])
    assert covered.root() == naive_merkle.root(LEAVES[:211])

"""Values by namespace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.edge.tree import NamespaceTree
from laps_wire.names import Namespace

A = Namespace.of(b"a")
AB = Namespace.of(b"a", b"b")
ABC = Namespace.of(b"a", b"b", b"c")
ROOT = Namespace()


def test_from_both_sides() -> None:
    tree: NamespaceTree[str] = NamespaceTree()
    tree.add(ROOT, "everything")
    tree.add(A, "one")
    tree.add(ABC, "three")
    tree.add(ABC, "three")
    assert len(tree) == 3
    assert tree.covering(AB) == ["everything", "one"]
    assert tree.covering(ABC) == ["everything", "one", "three"]
    assert tree.covering(ABC, longest=True) == ["three"]
    assert tree.covering(AB, longest=True) == ["one"]
    assert tree.covering(Namespace.of(b"x", b"y")) == ["everything"]
    assert list(tree.under(ROOT)) == ["everything", "one", "three"]
    assert list(tree.under(AB)) == ["three"]
    assert list(tree.under(Namespace.of(b"x"))) == []
    assert tree.at(A) == ["one"]
    assert tree.at(AB) == []
    assert tree.at(Namespace.of(b"x", b"y")) == []


def test_an_empty_tree() -> None:
    tree: NamespaceTree[str] = NamespaceTree()
    assert tree.covering(AB, longest=True) == []
    tree.remove(AB, "nothing")
    tree.remove(ROOT, "nothing")
    assert len(tree) == 0


_NAMESPACES = st.lists(st.sampled_from([b"a", b"b"]), max_size=3).map(
    lambda fields: Namespace(tuple(fields))
)


@given(st.lists(st.tuples(st.booleans(), _NAMESPACES, st.integers(0, 2)), max_size=40), _NAMESPACES)
def test_like_a_set_of_pairs(steps: list[tuple[bool, Namespace, int]], asked: Namespace) -> None:
    tree: NamespaceTree[int] = NamespaceTree()
    model: set[tuple[Namespace, int]] = set()
    for put, namespace, value in steps:
        if put:
            tree.add(namespace, value)
            model.add((namespace, value))
        else:
            tree.remove(namespace, value)
            model.discard((namespace, value))
    assert len(tree) == len(model)
    covering = sorted(value for place, value in model if place.is_prefix_of(asked))
    assert sorted(tree.covering(asked)) == covering
    below = sorted(value for place, value in model if asked.is_prefix_of(place))
    assert sorted(tree.under(asked)) == below
    assert sorted(tree.at(asked)) == sorted(value for place, value in model if place == asked)
    for namespace, value in list(model):
        tree.remove(namespace, value)
    assert not tree._root.children

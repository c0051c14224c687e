"""Rules of if and else on numbers and names, which are added to the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Sequence

import numpy as np

from ._arrays import Array, Indexes, frozen
from ._errors import FormatError
from ._json import Fields, loads
from ._schema import Schema

FILE = "trees"
MAX_BYTES = 16 << 20
_VERSION = 1  # of the file's form
_MAX_TREES = 1 << 12
_MAX_DEPTH = 10


@dataclass(frozen=True)
class Split:
    """Asks whether a number is at least an edge, or whether a categorical field has a certain name. What an event lacks is answered with no."""

    field: int  #: numeric, or -1 - categorical: by their places in the schema
    edge: float
    name: str


@dataclass(frozen=True)
class Tree:
    """The answers to its splits are the bits of the leaf, that of the first split the lowest."""

    splits: tuple[Split, ...]
    leaves: Array  #: 2^splits × m


class Trees:
    """The trees of a version. They never change."""

    def __init__(self, trees: Sequence[Tree]):
        self.trees = trees
        self.asked: dict[int, frozenset[str]] = {}  #: by categorical field: the names that are asked for
        for tree in trees:
            for s in tree.splits:
                if s.field < 0:
                    f = -1 - s.field
                    self.asked[f] = self.asked.get(f, frozenset()) | {s.name}

    def leaves(self, categorical: Sequence[str], numeric: Sequence[float]) -> Iterator[tuple[Tree, Array]]:
        """Yields each tree with the leaf of an event, given its names and numbers by field. Plain Python: numpy takes longer for one."""
        for tree in self.trees:
            at = 0
            for d, s in enumerate(tree.splits):
                if numeric[s.field] >= s.edge if s.field >= 0 else categorical[-1 - s.field] == s.name:
                    at |= 1 << d
            yield tree, tree.leaves[at]

    def added(self, categorical: Sequence[Sequence[str]], numeric: Sequence[Array], count: int) -> Array:
        """Returns what is added to the outputs of several events, a row for each, given their names and numbers by field."""
        names = {f: self._codes(f, categorical[f], count) for f in self.asked}
        out: Any = 0.0
        for tree in self.trees:
            at = np.zeros(count, dtype=np.int64)
            for d, s in enumerate(tree.splits):
                if s.field >= 0:
                    yes = numeric[s.field] >= s.edge
                else:
                    codes, places = names[-1 - s.field]
                    yes = codes == places[s.name]
                at |= yes.astype(np.int64) << d
            out = out + tree.leaves[at]
        found: Array = out
        return found

    def _codes(self, field: int, names: Sequence[str], count: int) -> tuple[Indexes, dict[str, int]]:
        """Numbers the names of a field that are asked for; all others are -1."""
        places = {name: i for i, name in enumerate(sorted(self.asked[field]))}
        return np.fromiter((places.get(name, -1) for name in names), dtype=np.int64, count=count), places


def decode(content: bytes, schema: Schema, outputs: int) -> Trees:
    """Raises FormatError for what is no such file of a version with the schema and so many outputs."""
    lines = content.split(b"\n")
    f = Fields(FILE, loads(FILE, lines[0]))
    if (version := f.whole("version")) != _VERSION:
        raise FormatError(
            f"{FILE}: version {version}, this build reads {_VERSION}: the version is of a newer format: use a newer build of this package"
        )
    count = f.whole("trees")
    if not 1 <= count <= _MAX_TREES or len(lines) != count + 2 or lines.pop() != b"":
        raise FormatError(f"{FILE}: {count} trees on {len(lines) - 2} lines, want 1 to {_MAX_TREES}")
    return Trees([_tree(f"{FILE}, line {n}", line, schema, outputs) for n, line in enumerate(lines[1:], 2)])


def _tree(what: str, line: bytes, schema: Schema, outputs: int) -> Tree:
    f = Fields(what, loads(what, line))
    splits = tuple(_split(x, schema) for x in f.objects("splits"))
    leaves = np.array(f.numbers("leaves"), dtype=np.float64)
    if f.unknown():
        raise FormatError(f"{what}: this build does not know {', '.join(sorted(f.unknown()))}")
    if not 1 <= len(splits) <= _MAX_DEPTH or len(leaves) != outputs << len(splits):
        raise FormatError(f"{what}: {len(splits)} splits with {len(leaves)} numbers in the leaves, want 1 to {_MAX_DEPTH} with 2^splits for each output")
    return Tree(splits, frozen(leaves.reshape(-1, outputs)))


def _split(f: Fields, schema: Schema) -> Split:
    field, is_ = f.text("field"), f.text("is")
    edge = f.number("at_least")
    numeric = [x.name for x in schema.numeric]
    given = {name for name in ("at_least", "is") if f.value.get(name) is not None}
    if field in numeric and given == {"at_least"}:
        return Split(numeric.index(field), edge, "")
    if field in schema.categorical and given == {"is"} and is_:
        return Split(-1 - schema.categorical.index(field), 0.0, is_)
    raise FormatError(f"{f.what} of {field!r}: want a numeric field and at_least, or a categorical one and is")

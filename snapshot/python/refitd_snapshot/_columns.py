"""How an event becomes columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence

import numpy as np

from ._arrays import Array, Indexes
from ._contents import Contents
from ._events import Input
from ._schema import CROSS_SIGN, FeatureMap, Schema


@dataclass
class Row:
    """An event as columns and their values, and what the feature map makes of it."""

    index: Indexes
    value: Array
    mapped: Optional[Array]
    ruled: Optional[Array] = None  #: what trees add to the outputs

    def without(self, column: int) -> Row:
        """Returns the row without a column."""
        keep = self.index != column
        return Row(self.index[keep], self.value[keep], self.mapped, self.ruled)


class Columns:
    """Numbers the columns of a model. It never changes."""

    def __init__(self, schema: Schema, contents: Contents, num_features: int, base: Optional[Columns] = None):
        """num_features is how many columns the version has. base, if any, is of the version, whose index is shared."""
        self.schema = schema
        self.names = contents.vocabulary
        self._index: list[dict[str, int]] = [] if base is None else base._index  # of the version's names
        self._first: list[int] = [] if base is None else base._first  # the column of the first name of each field
        column = 0
        for names in contents.vocabulary if base is None else ():
            self._first.append(column)
            self._index.append({name: column + i for i, name in enumerate(names)})
            column += len(names)
        self._added: list[dict[str, int]] = [{} for _ in contents.vocabulary]
        for i, (f, name) in enumerate(contents.added):
            self._added[f][name] = num_features + i
        self._added_names = contents.added
        self._crosses = [[schema.categorical.index(name) for name in parts] for parts in schema.cross]
        self._first_multi = len(schema.categorical) + len(schema.cross)
        self._num_features = num_features
        self._tables = contents.tables
        self._trees = contents.trees
        self._known = contents.known
        self._extras: dict[int, tuple[str, ...]] = {}

    def column(self, field: int, name: str) -> int:
        """Returns the column of a name of a field, or -1."""
        found = self._index[field].get(name)
        return self._added[field].get(name, -1) if found is None else found

    def columns_of(self, field: int, names: Sequence[str]) -> Indexes:
        """Returns the columns of names of a field, -1 for those it does not have."""
        index, added = self._index[field], self._added[field]
        if added:
            return np.array([self.column(field, name) for name in names], dtype=np.int64)
        return np.array([index.get(name, -1) for name in names], dtype=np.int64)

    def crossed(self, categorical: Sequence[Sequence[str]]) -> list[list[str]]:
        """Returns for each cross its names in several events, "" where one of them lacks a part."""
        found = []
        for parts in self._crosses:
            rows = zip(*(categorical[f] for f in parts))
            found.append([CROSS_SIGN.join(names) if all(names) else "" for names in rows])
        return found

    def candidates(self, field: int) -> tuple[Indexes, tuple[str, ...]]:
        """Returns the columns of a field and their names, in the order of the vocabulary."""
        first, names, added = self._first[field], self.names[field], self._added[field]
        columns = np.concatenate([np.arange(first, first + len(names)), np.array(list(added.values()), dtype=np.int64)])
        return columns, names + tuple(added)

    def extras(self, field: int) -> tuple[str, ...]:
        """Returns the names of a categorical field that tables know and that have no column, ascending."""
        if field not in self._extras:
            tables = [] if self._known is None else self._known.of(field)
            names = {name for t in tables for name in t.entities() if self.column(field, name) < 0}
            self._extras[field] = tuple(sorted(names))
        return self._extras[field]

    def is_crossed(self, field: int) -> bool:
        return any(field in parts for parts in self._crosses)

    def row(self, event: Input) -> Row:
        """Returns the columns of an event, increasing."""
        index: list[int] = []
        value: list[float] = []
        for f, name in enumerate(event.categorical):
            if (column := self.column(f, name)) >= 0:
                index.append(column)
        for c, parts in enumerate(self._crosses):
            names = [event.categorical[f] for f in parts]
            if all(names) and (column := self.column(len(event.categorical) + c, CROSS_SIGN.join(names))) >= 0:
                index.append(column)
        value += [1.0] * len(index)
        for f, list_ in enumerate(event.multi):
            found = sorted({self.column(self._first_multi + f, name) for name in list_} - {-1})
            index += found
            value += [self.schema.multi_value(f, list_)] * len(found)
        first = self._num_features - self.schema.num_extra
        for f, v in enumerate(event.numeric):
            x = 0.0 if math.isnan(v) else self.schema.numeric[f].scaled(v)
            if x != 0:
                index.append(first + f)
                value.append(x)
        if self.schema.augment:
            index.append(self._num_features - 1)
            value.append(1.0)
        mapped = None
        if self.schema.feature_map is not None and not all(map(math.isnan, event.numeric)):
            mapped = self.mapped(self.schema.feature_map, np.array([event.numeric]))[0]
        ruled = None
        if self._trees is not None:
            ruled = sum((leaf for _, leaf in self._trees.leaves(event.categorical, event.numeric)), np.zeros(1))
        return Row(np.array(index, dtype=np.int64), np.array(value), mapped, ruled)

    def mapped(self, m: FeatureMap, numeric: Array) -> Array:
        """Returns the columns of the feature map of several events, given their numbers in rows; those of an event without any number are 0."""
        present = ~np.isnan(numeric)
        center, scale = np.array([[s.center, s.scale] for s in m.scaling]).T
        with np.errstate(over="ignore"):
            z = np.where(present, np.clip((numeric - center) / scale, -m.clip, m.clip), 0.0)
        if m.kind == "fourier":
            angles = z @ self._tables["map_frequencies"].T + self._tables["map_phases"]
            columns: Array = 4 * math.sqrt(2 / m.count) * np.cos(angles)
        elif m.kind == "products":
            first, second = np.tril_indices(z.shape[1])
            columns = np.concatenate([z, z[:, first] * z[:, second]], axis=1)
        else:
            bins = np.zeros((*z.shape, m.count))
            for i, edges in enumerate(self._tables["map_edges"]):
                at = np.flatnonzero(present[:, i])
                bins[at, i, np.searchsorted(edges, z[at, i], side="right")] = 1
            columns = bins.reshape(len(z), -1)
        columns[~present.any(axis=1)] = 0
        return columns

    def unseen(self, event: Input, but: int = -1) -> tuple[str, ...]:
        """Returns the names of an event that the vocabulary does not have, as "user=u9". Those of
        categorical field but are left out: it has a replaced row."""
        names = [(f, name) for f, name in enumerate(event.categorical) if f != but]
        names += [(self._first_multi + f, name) for f, list_ in enumerate(event.multi) for name in list_]
        fields = self.schema.named
        return tuple(f"{fields[f]}={name}" for f, name in names if name and self.column(f, name) < 0 and not self._is_filter(f))

    def _is_filter(self, field: int) -> bool:
        """Reports whether a field is a column of tables that nothing has learned: its names serve conditions alone, and none of them is unseen."""
        return not self.names[field] and self._known is not None and self._known.column(self.schema.named[field]) is not None

    def name(self, column: int) -> str:
        """Names a column: "user=u1", "age", or "(constant)"."""
        if column >= self._num_features:
            f, added = self._added_names[column - self._num_features]
            return f"{self.schema.named[f]}={added}"
        for field, first, names in zip(self.schema.named, self._first, self.names):
            if first <= column < first + len(names):
                return f"{field}={names[column - first]}"
        i = column - (self._num_features - self.schema.num_extra)
        return self.schema.numeric[i].name if i < len(self.schema.numeric) else "(constant)"

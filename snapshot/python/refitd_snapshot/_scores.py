"""Outputs of several events at once, by field rather than by event."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Iterator, Optional

import numpy as np

from ._arrays import Array, Indexes
from ._batch import Inputs
from ._errors import InputError

if TYPE_CHECKING:
    from ._model import Scorer

_BLOCK = 1 << 14  # names and numbers of the events that are scored at once
_MAPPED = 1 << 20  # columns of the feature map


@dataclass
class _Lists:
    """The columns of a multi field: those of event i are from starts[i] up to starts[i+1], increasing, each with the value of the event."""

    starts: Indexes
    columns: Indexes
    values: Array


@dataclass
class _Encoded:
    """Several events as columns; -1 is none."""

    names: list[Indexes]  #: by categorical field and cross
    lists: list[_Lists]
    numbers: list[tuple[int, Array]]  #: column and values of each numeric field and of the constant one
    mapped: Optional[Array]  #: the numeric fields in columns, where the model has a feature map of them
    ruled: Optional[Array]  #: what trees add to the outputs
    own: Optional[Indexes]  #: which of the replaced rows an event has
    own_basis: Array
    own_linear: Array


def score_all(scorer: Scorer, x: Inputs) -> Array:
    """Returns the outputs of events, a row for each, clipped to output_limit of the manifest. Raises InputError with the place of one whose outputs are
    not finite."""
    outputs = unlimited(scorer, x)
    finite = np.isfinite(outputs).all(axis=1)
    if not finite.all():
        raise InputError(f"{x.where(int(finite.argmin()))}an output is not finite: a numeric field is too far from its center")
    return scorer._manifest.limited(outputs)


def unlimited(scorer: Scorer, x: Inputs) -> Array:
    """Is score_all before output_limit, of outputs that may not be finite."""
    encoded = _encode(scorer, x)
    outputs = np.empty((x.count, scorer._manifest.num_outputs))
    with np.errstate(all="ignore"):
        for begin, end in _blocks(scorer, x.count, encoded):
            outputs[begin:end] = _outputs(scorer, encoded, begin, end)
    return outputs


def _encode(scorer: Scorer, x: Inputs) -> _Encoded:
    columns, schema, m = scorer._columns, scorer._manifest.schema, scorer._manifest
    names = [columns.columns_of(f, list_) for f, list_ in enumerate(x.categorical)]
    names += [columns.columns_of(len(x.categorical) + c, crossed) for c, crossed in enumerate(columns.crossed(x.categorical))]
    own, own_basis, own_linear = None, np.zeros((0, m.num_basis)), np.zeros((0, m.num_outputs))
    field, rows = scorer._replaced()
    if rows:
        place = {name: i for i, name in enumerate(rows)}
        own = np.array([place.get(name, -1) for name in x.categorical[field]], dtype=np.int64)
        own_basis, own_linear = np.array([row.basis for row in rows.values()]), np.array([row.linear for row in rows.values()])
        names[field] = np.where(own >= 0, -1, names[field])
    lists = [_lists(scorer, f, of_events) for f, of_events in enumerate(x.multi)]
    first = m.num_features - schema.num_extra
    numbers = []
    for f, v in enumerate(x.numeric):
        numbers.append((first + f, np.where(np.isnan(v), 0.0, schema.numeric[f].scaled_all(v))))
    if schema.augment:
        numbers.append((m.num_features - 1, np.ones(x.count)))
    mapped = None
    if schema.feature_map is not None and scorer._contents.map_weights is not None:
        mapped = np.stack(x.numeric, axis=1)
    ruled = None
    if (trees := scorer._contents.trees) is not None:
        ruled = trees.added(x.categorical, x.numeric, x.count)
    return _Encoded(names, lists, numbers, mapped, ruled, own, own_basis, own_linear)


def _lists(scorer: Scorer, field: int, lists: list[list[str]]) -> _Lists:
    """Returns the columns of a multi field: of each list those of its different names."""
    columns, schema = scorer._columns, scorer._manifest.schema
    lengths = np.array([len(list_) for list_ in lists], dtype=np.int64)
    found = columns.columns_of(len(schema.categorical) + len(schema.cross) + field, list(chain.from_iterable(lists)))
    places, known = np.repeat(np.arange(len(lists)), lengths), found >= 0
    most = int(found.max(initial=0)) + 1
    keys = np.unique(places[known] * most + found[known])
    starts = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys // most, minlength=len(lists)), out=starts[1:])
    values = np.array([schema.multi_value(field, list_) for list_ in lists]) if schema.multi_weights else 1 / np.maximum(1, lengths)
    return _Lists(starts, keys % most, np.repeat(values, np.diff(starts)))


def _blocks(scorer: Scorer, count: int, encoded: _Encoded) -> Iterator[tuple[int, int]]:
    """Cuts events into blocks that have some thousand columns each, those of a feature map aside, which are a million at most; at least one event."""
    most = max(1, _BLOCK // (1 + len(encoded.names) + len(encoded.numbers)))
    if encoded.mapped is not None and scorer._manifest.schema.feature_map is not None:
        most = max(1, min(most, _MAPPED // scorer._manifest.schema.feature_map.num_columns))
    begin = 0
    while begin < count:
        end = min(begin + most, count)
        for list_ in encoded.lists:
            end = min(end, max(begin + 1, int(np.searchsorted(list_.starts, list_.starts[begin] + _BLOCK, side="right")) - 1))
        yield begin, end
        begin = end


def _parts(scorer: Scorer, x: _Encoded, begin: int, end: int, single: bool) -> Iterator[tuple[Optional[Indexes], Array, Array, Optional[Array]]]:
    """Yields what columns add to events: the events, None for all; what is added to each one's sum over columns, and to its sum of squares; and to its
    outputs. Columns of a list come together, or one after another where single is set: then no part has two columns of an event."""
    c = scorer._contents
    for codes in x.names:
        codes = codes[begin:end]
        at = np.flatnonzero(codes >= 0)
        found = codes if len(at) == len(codes) else codes[at]
        h = c.basis[found]
        yield None if len(at) == len(codes) else at, h, h * h, None if c.linear is None else c.linear[found]
    for list_ in x.lists:
        starts = list_.starts[begin : end + 1]
        lengths = np.diff(starts)
        if not single:
            at = np.flatnonzero(lengths)
            if len(at):
                part = slice(int(starts[0]), int(starts[-1]))
                columns, values = list_.columns[part], list_.values[part][:, None]
                h, cuts = c.basis[columns] * values, starts[:-1][at] - starts[0]
                linear = None if c.linear is None else np.add.reduceat(c.linear[columns] * values, cuts)
                yield at, np.add.reduceat(h, cuts), np.add.reduceat(h * h, cuts), linear
            continue
        for j in range(int(lengths.max(initial=0))):
            at = np.flatnonzero(lengths > j)
            places = starts[:-1][at] + j
            columns, values = list_.columns[places], list_.values[places][:, None]
            h = c.basis[columns] * values
            yield at, h, h * h, None if c.linear is None else c.linear[columns] * values
    for column, values in x.numbers:
        v = values[begin:end, None]
        h = v * c.basis[column]
        yield None, h, h * h, None if c.linear is None else v * c.linear[column]
    if x.own is not None:
        at = np.flatnonzero(x.own[begin:end] >= 0)
        own = x.own[begin:end][at]
        h = x.own_basis[own]
        yield at, h, h * h, x.own_linear[own]


def _outputs(scorer: Scorer, x: _Encoded, begin: int, end: int) -> Array:
    """Returns the outputs of events before output_limit, by the formulas of Scorer._outputs."""
    c, m, n = scorer._contents, scorer._manifest, end - begin
    outputs = np.tile(c.bias, (n, 1))
    total, squares = np.zeros((2, n, m.num_basis))
    triple = m.kernel == "anova" and m.degree == 3
    pairs, triples = np.zeros((2, n if triple else 0, m.num_basis))
    for at, h, square, linear in _parts(scorer, x, begin, end, triple):
        rows = slice(None) if at is None else at
        if linear is not None:
            outputs[rows] += linear
        if triple:
            triples[rows] += h * pairs[rows]
            pairs[rows] += h * total[rows]
        else:
            squares[rows] += square
        total[rows] += h
    if x.mapped is not None and c.map_weights is not None and m.schema.feature_map is not None:
        outputs += scorer._columns.mapped(m.schema.feature_map, x.mapped[begin:end]) @ c.map_weights
    if x.ruled is not None:
        outputs += x.ruled[begin:end]
    if triple:
        kernel = triples
    elif m.degree == 3:
        kernel = total * total * total
    elif m.kernel == "anova":
        kernel = (total * total - squares) / 2
    else:
        kernel = total * total
    found: Array = outputs + kernel @ c.weights
    return found

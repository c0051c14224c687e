"""The names of a field that are predicted best given the rest of an event."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

import numpy as np

from ._arrays import Array, Indexes
from ._batch import Inputs
from ._errors import InputError
from ._events import Event, Input, Name, Names, name_of, names_of, read_event
from ._prediction import Item, sigmoid
from ._scores import unlimited
from ._tables import Asked, Table, Tables
from ._where import conditions, passing

if TYPE_CHECKING:
    from ._model import Scorer

_BLOCK = 1 << 14  # candidates scored at once
_NEAR = 1e-9  # of keys, relative to 1 + |key|: sums of many events may be rounded otherwise than those of one
_TOO_FAR = "an output is not finite: a numeric field is too far from its center"


def topk(
    scorer: Scorer, event: Event, over: str, k: int, exclude: Names, class_: Name, where: Optional[Mapping[str, Any]] = None
) -> list[Item]:
    """Is Scorer.topk."""
    schema, columns = scorer._manifest.schema, scorer._columns
    if over not in schema.categorical:
        raise InputError(f"{over!r} is not a categorical field of the schema {schema.categorical}")
    field = schema.categorical.index(over)
    x = read_event(schema, {name: value for name, value in event.items() if name != over}, but=over)
    if scorer._ranked_field() == field:
        raise InputError(f"the history is of names of {over!r}: rank over another field")
    if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
        raise InputError(f"{k} names wanted, at least 1")
    k = int(k)
    output = _output(scorer, class_)
    known = scorer._contents.known
    asked = conditions(known, field, over, where)
    if known is not None and (known.of(field) or known.column(over) is not None):  # an event without the field may have it by tables
        return _of_table(scorer, known, known.without(field, x), field, k, frozenset(_excluded(exclude)), output, asked)
    candidates, names = columns.candidates(field)
    unwanted = np.array([columns.column(field, name) for name in _excluded(exclude)], dtype=np.int64)
    at: Indexes = np.flatnonzero(~np.isin(candidates, unwanted))
    if columns.is_crossed(field):  # whose names bring other columns with them
        keys = np.array([_exact(scorer, x, field, names[i], output) for i in at])
    else:
        keys = _keys(scorer, x, candidates[at], output)
        if (trees := scorer._contents.trees) is not None:  # which have the same answers for all names but those that they ask for
            for place, i in enumerate(at):
                if names[i] in trees.asked.get(field, ()):
                    keys[place] = _exact(scorer, x, field, names[i], output)
    added = _added(scorer, x, field, len(names))
    keys = keys + added[at]
    if np.isnan(keys).any():
        raise InputError(_TOO_FAR)
    best = at[_largest(keys, k)]
    found = {int(i): scorer._finite(scorer._joined(_with(x, field, names[i]))) + added[i] for i in best}
    ranked = sorted((-float(_key(scorer, o, output)), i) for i, o in found.items())
    return [_item(scorer, names[i], found[i], output) for _, i in ranked]


def _of_table(
    scorer: Scorer, known: Tables, x: Input, field: int, k: int, excluded: frozenset[str], output: int, where: list[tuple[Table, Asked]]
) -> list[Item]:
    """Is topk over a field of a table, whose names bring other columns with them. All are scored at once, and those that may be among the best again as one
    event is, so that names of which the same is known are equal."""
    columns = scorer._columns
    names: Sequence[str]
    if where:  # in the order of their columns, then those without one
        names = sorted(passing(where), key=lambda name: ((c := columns.column(field, name)) < 0, c, name))
    else:
        names = columns.candidates(field)[1] + columns.extras(field)
    names = [name for name in names if name not in excluded]
    if not names:
        return []
    n, own = len(names), len(columns.names[field])
    added = _added(scorer, x, field, own)
    places = columns.columns_of(field, names) - columns._first[field]
    lift = np.where((places >= 0) & (places < own), np.append(added, 0.0)[np.clip(places, 0, own)], 0.0)
    categorical = [[name] * n for name in x.categorical]
    categorical[field] = names
    events = Inputs(n, categorical, [np.full(n, v) for v in x.numeric], [[list_] * n for list_ in x.multi], "name")
    with np.errstate(all="ignore"):
        keys = _key(scorer, unlimited(scorer, known.join_all(events)), output) + lift
        if np.isnan(keys).any():
            raise InputError(_TOO_FAR)
        least = np.partition(keys, n - k)[n - k] if k < n else -np.inf
        near = np.flatnonzero(~(keys < least - _NEAR * (1 + abs(least))))
    found = {int(i): scorer._outputs(*scorer._row(scorer._joined(_with(x, field, names[i]))))[0] + lift[i] for i in near}
    ranked = sorted((-float(_key(scorer, o, output)), i) for i, o in found.items())[:k]
    if not all(np.isfinite(found[i]).all() for _, i in ranked):
        raise InputError(_TOO_FAR)
    return [_item(scorer, names[i], found[i], output) for _, i in ranked]


def _item(scorer: Scorer, name: str, o: Array, output: int) -> Item:
    """Returns a name of a list with its value, given its outputs before output_limit."""
    return Item(name, _value(scorer, float(_key(scorer, scorer._manifest.limited(o), output))))


def _added(scorer: Scorer, x: Input, field: int, names: int) -> Array:
    """Returns what co-choices add to each name of a field."""
    together, added = scorer._co_choices, np.zeros(names)
    if together is None or together.over != field or not x.categorical[together.by]:
        return added
    entity = x.categorical[together.by]
    recent = scorer._chosen(entity)
    at = scorer._columns._index[together.by].get(entity, -1) - scorer._columns._first[together.by]
    if not recent and 0 <= at < len(together.recent):
        recent = list(together.recent[at])
    own = len(scorer._columns.names[field])
    added[:own] = together.added(recent, own)
    return added


def _excluded(exclude: Optional[Names]) -> list[str]:
    """Returns the names that a ranking leaves out. One that is given alone is a list of one, and None is no name."""
    what = "exclude takes"
    if exclude is None:
        return []
    return [name_of(what, exclude)] if isinstance(exclude, (str, numbers.Integral)) else names_of(what, exclude)


def _output(scorer: Scorer, class_: Name) -> int:
    """Returns the output that a ranking is by; of a level it takes all."""
    schema = scorer._manifest.schema
    if schema.task not in ("multiclass", "multilabel"):
        return 0
    name = name_of("class_ takes", class_)
    if name not in schema.classes:
        raise InputError(f"set class_ to a class to rank by: {name!r} is none of the model's")
    return schema.classes.index(name)


def _key(scorer: Scorer, o: Array, output: int) -> Array:
    """Orders candidates, whose outputs are in rows: by an output, by the expected level, or by −Σ exp(o_j − o_c), which orders softmax probabilities."""
    link = scorer._manifest.link
    with np.errstate(all="ignore"):
        if link == "ordinal":
            e = np.exp(-np.abs(o))
            level: Array = scorer._manifest.schema.levels - np.where(o < 0, e / (1 + e), 1 / (1 + e)).sum(axis=-1)
            return level
        if link == "softmax":
            share: Array = -np.exp(o - o[..., output : output + 1]).sum(axis=-1)
            return share
    found: Array = o[..., output]
    return found


def _keys(scorer: Scorer, x: Input, columns: Indexes, output: int) -> Array:
    """Returns the keys of candidates. A name of a one-hot field changes the kernels by S_r h_r (anova) or (2 S_r + h_r) h_r (homogeneous), of degree 3 by
    A_r h_r, with the kernel of degree 2 of the other columns, or (3 S_r² + (3 S_r + h_r) h_r) h_r."""
    c = scorer._contents
    base, total = scorer._outputs(*scorer._row(scorer._joined(x)))
    keys = np.empty(len(columns))
    with np.errstate(all="ignore"):
        for begin in range(0, len(columns), _BLOCK):
            part = columns[begin : begin + _BLOCK]
            h = c.basis[part]
            if scorer._manifest.kernel == "anova":
                o = base + (h * total) @ c.weights
            elif scorer._manifest.degree == 3:
                o = base + ((3 * total * total + (3 * total + h) * h) * h) @ c.weights
            else:
                o = base + ((2 * total + h) * h) @ c.weights
            if c.linear is not None:
                o += c.linear[part]
            keys[begin : begin + len(part)] = _key(scorer, o, output)
    return keys


def _exact(scorer: Scorer, x: Input, field: int, name: str, output: int) -> float:
    """Returns the key of a name."""
    return float(_key(scorer, scorer._outputs(*scorer._row(scorer._joined(_with(x, field, name))))[0], output))


def _with(x: Input, field: int, name: str) -> Input:
    """Returns an event with a name in a field."""
    categorical = list(x.categorical)
    categorical[field] = name
    return Input(categorical, x.numeric, x.multi)


def _largest(keys: Array, k: int) -> Indexes:
    """Returns where the k largest keys are; of equal ones the first."""
    if k >= len(keys):
        return np.arange(len(keys))
    least = np.partition(keys, len(keys) - k)[len(keys) - k]
    above = np.flatnonzero(keys > least)
    return np.concatenate([above, np.flatnonzero(keys == least)[: k - len(above)]])


def _value(scorer: Scorer, key: float) -> float:
    m = scorer._manifest
    if m.link == "softmax":
        return -1 / key
    if m.link == "logistic" and m.schema.task != "multiclass":
        return sigmoid(key)
    if m.link == "identity" and m.schema.task == "ordinal":
        return min(max(key, 1.0), float(m.schema.levels))
    return key

"""Predictions taken apart."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, permutations
from typing import TYPE_CHECKING

import numpy as np

from ._arrays import Array
from ._errors import InputError
from ._events import Event, read_event
from ._prediction import Explanation, Term
from ._schema import Schema

if TYPE_CHECKING:
    from ._model import Scorer

MAX_EXPLAINED = 512  # columns of an event
MAX_TRIPLED = 89  # of a kernel of degree 3


def explain(scorer: Scorer, event: Event) -> Explanation:
    """Is Scorer.explain."""
    m, c, columns = scorer._manifest, scorer._contents, scorer._columns
    x = scorer._joined(read_event(m.schema, event))
    prediction = scorer._prediction(x)
    row, own = scorer._row(x)
    most = MAX_TRIPLED if m.degree == 3 and m.num_basis else MAX_EXPLAINED
    if len(row.index) > most:
        raise InputError(f"{len(row.index)} known features, at most {most} are explained")
    names = [columns.name(int(j)) for j in row.index]
    value, basis = row.value, c.basis[row.index]
    linear = c.linear[row.index] if c.linear is not None else np.zeros((len(names), m.num_outputs))
    if own is not None:  # it is explained after the columns
        names.append(f"{m.schema.categorical[own.field]}={x.categorical[own.field]}")
        value, basis, linear = np.append(value, 1.0), np.vstack([basis, own.basis]), np.vstack([linear, own.linear])
    found: list[tuple[tuple[str, ...], Array]] = [((), c.bias)]
    found += [((names[i],), linear[i] * value[i]) for i in range(len(names))]
    choose = combinations if m.kernel == "anova" else combinations_with_replacement
    a = basis * value[:, None]
    for places in choose(range(len(names)), m.degree):
        orders = len(set(permutations(places))) if m.kernel == "homogeneous" else 1
        found.append((tuple(names[i] for i in places), (orders * np.prod(a[list(places)], axis=0)) @ c.weights))
    if row.mapped is not None and c.map_weights is not None:
        share = row.mapped[:, None] * c.map_weights
        if m.schema.feature_map is not None and m.schema.feature_map.kind == "fourier":
            found.append((("(fourier)",), share.sum(0)))
        else:
            found += [(_factors(m.schema, j), share[j]) for j in range(len(share))]
    if c.trees is not None:
        shares: dict[tuple[str, ...], Array] = {}
        for tree, leaf in c.trees.leaves(x.categorical, x.numeric):
            fields = {m.schema.categorical[-1 - s.field] if s.field < 0 else m.schema.numeric[s.field].name for s in tree.splits}
            key = ("(trees)", *sorted(fields))
            shares[key] = shares.get(key, np.zeros(m.num_outputs)) + leaf
        found += list(shares.items())
    found = [(features, share) for features, share in found if np.abs(share).max(initial=0) > 0]
    found.sort(key=lambda term: -float(np.abs(term[1]).max()))
    return Explanation(prediction, tuple(Term(features, tuple(map(float, share))) for features, share in found))


def _factors(schema: Schema, j: int) -> tuple[str, ...]:
    """Names what column j of a map of bins or products is made of."""
    feature_map, numeric = schema.feature_map, schema.numeric
    assert feature_map is not None
    if feature_map.kind == "bins":
        return (f"{numeric[j // feature_map.count].name}=bin{j % feature_map.count}",)
    if j < len(numeric):
        return (numeric[j].name,)
    i, first = 0, len(numeric)  # the products of field i with those up to it
    while j > first + i:
        i, first = i + 1, first + i + 1
    return numeric[i].name, numeric[j - first].name

"""Several events by column, in the order of the schema's fields."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from itertools import chain
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from ._arrays import Array
from ._errors import InputError
from ._events import Input, categorical_of, is_missing, multi_of, name_of, numeric_of
from ._schema import Schema


@dataclass
class Inputs:
    """Several events: the values of each field, "" for a missing name and NaN for a missing number."""

    count: int
    categorical: list[list[str]]
    numeric: list[Array]
    multi: list[list[list[str]]]
    unit: str  #: what errors call one of them

    def event(self, i: int) -> Input:
        """Returns one of them."""
        return Input([c[i] for c in self.categorical], [float(c[i]) for c in self.numeric], [c[i] for c in self.multi])

    def where(self, i: int) -> str:
        """Begins the text of an error about one of them."""
        return f"{self.unit} {i}: "


def read_columns(schema: Schema, columns: Mapping[str, Sequence[Any]], unit: str, count: Optional[int] = None) -> Inputs:
    """Reads columns of equal length; a field without one is missing in all events. Raises InputError with the place of a value of another kind, or of a
    missing one of a field that is not optional."""
    if count is None:
        count = len(next(iter(columns.values())))
    x = Inputs(count, [], [], [], unit)
    for name in schema.categorical:
        x.categorical.append(_names(x, name, columns[name]) if name in columns else [""] * count)
    for field in schema.numeric:
        x.numeric.append(_numbers(x, field.name, columns[field.name]) if field.name in columns else np.full(count, math.nan))
    for name in schema.multi:
        x.multi.append(_lists(x, name, columns[name]) if name in columns else [[] for _ in range(count)])
    _refuse_missing(schema, columns, x)
    return x


def _refuse_missing(schema: Schema, columns: Mapping[str, Sequence[Any]], x: Inputs) -> None:
    """Refuses events of which one lacks a field that is not optional."""
    if schema.optional is None:
        return
    for name, names in zip(schema.categorical, x.categorical):
        _refuse(schema, x, name, names.index("") if "" in names else -1)
    for field, values in zip(schema.numeric, x.numeric):
        _refuse(schema, x, field.name, int(np.isnan(values).argmax()) if np.isnan(values).any() else -1)
    for name, lists in zip(schema.multi, x.multi):
        given = columns.get(name, (None,) * x.count)
        _refuse(schema, x, name, next((i for i, list_ in enumerate(lists) if not list_ and is_missing(given[i])), -1))


def _refuse(schema: Schema, x: Inputs, field: str, i: int) -> None:
    """Refuses events of which the one at i lacks a field that is not optional; -1 is none."""
    if i >= 0 and not schema.is_optional(field):
        raise InputError(f"{x.where(i)}missing_field: the event has no field {field!r}")


def _names(x: Inputs, field: str, values: Sequence[Any]) -> list[str]:
    """Returns the names of a categorical field. Each different value is read once."""
    if not all(kind is type(None) or _is_name(kind) for kind in set(map(type, values))):
        values = [None if is_missing(value) else value for value in values]
        for i, value in enumerate(values):
            if value is not None and not _is_name(type(value)):
                categorical_of(field, value, x.where(i))  # raises
    known = {value: "" if value is None else name_of(field, value) for value in dict.fromkeys(values)}
    return [known[value] for value in values]


def _is_name(kind: type) -> bool:
    return issubclass(kind, (str, numbers.Integral)) and not issubclass(kind, bool)


def _numbers(x: Inputs, field: str, values: Sequence[Any]) -> Array:
    """Returns the numbers of a numeric field."""
    if set(map(type, values)) <= {float, int, type(None)}:  # None becomes NaN
        try:
            found: Array = np.array(values, dtype=np.float64)
        except OverflowError:
            found = np.full(len(values), math.inf)
        if not np.isinf(found).any():
            return found
    return np.array([numeric_of(field, value, x.where(i)) for i, value in enumerate(values)], dtype=np.float64)


def _lists(x: Inputs, field: str, values: Sequence[Any]) -> list[list[str]]:
    """Returns the lists of a multi field."""
    if set(map(type, values)) <= {list, type(None)}:
        found: list[list[Any]] = [[] if value is None else value for value in values]
        if set(map(type, chain.from_iterable(found))) <= {str} and "".join(chain.from_iterable(found)).isascii():
            return found  # as they are
    return [multi_of(field, value, x.where(i)) for i, value in enumerate(values)]

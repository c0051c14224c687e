"""Conditions of lists on what tables say of names."""

from __future__ import annotations

import math
from typing import Any, Mapping, Optional

import numpy as np

from ._errors import InputError
from ._events import is_missing, name_of, names_of, numeric_of
from ._tables import Asked, Table, Tables

_MAX_NAMES = 1000  # of a condition


def conditions(known: Optional[Tables], field: int, over: str, where: Optional[Mapping[str, Any]]) -> list[tuple[Table, Asked]]:
    """Reads conditions on columns of tables of a categorical field: by column a name, True or False, a list of them, or a mapping with min and max for a
    number. Raises InputError."""
    if where is None:
        return []
    if not isinstance(where, Mapping):
        raise InputError(f"where is a mapping of columns to conditions, not {type(where).__name__}")
    found = []
    for column, given in where.items():
        names, least, most = _condition(column, given)
        place = None if known is None else known.column(column)
        if place is None or place[0].of != field:
            raise InputError(f"where: {column!r} is no column of a table of {over!r}")
        table, kind, at = place
        if kind == "numeric" and names is not None:
            raise InputError(f"where: {column!r} is a number: ask for min and max")
        if kind != "numeric" and names is None:
            raise InputError(f"where: {column!r} has names: ask for some of them")
        found.append((table, Asked(kind, at, names or frozenset(), least, most)))
    return found


def _condition(column: Any, given: Any) -> tuple[Optional[frozenset[str]], float, float]:
    """Returns the names that a condition asks for, or None and bounds."""
    what = f"where: {column!r} takes a name, a list of names, or a mapping with min and max, and of these"
    if isinstance(given, Mapping):
        if not given or not set(given) <= {"min", "max"} or any(is_missing(bound) for bound in given.values()):
            raise InputError(f"{what} finite numbers")
        bounds = {key: numeric_of(column, bound, "where: ") for key, bound in given.items()}
        return None, bounds.get("min", -math.inf), bounds.get("max", math.inf)
    if isinstance(given, (str, int, np.integer, np.bool_)):
        return frozenset([_name(what, given)]), 0.0, 0.0
    if hasattr(given, "__iter__") and not hasattr(given, "ndim") and not isinstance(given, (bytes, bytearray, memoryview)):
        names = [_name(what, value) for value in given]
    else:
        names = names_of(what, given)
    if len(names) > _MAX_NAMES:
        raise InputError(f"where: {column!r}: want at most {_MAX_NAMES} names")
    return frozenset(names), 0.0, 0.0


def _name(what: str, value: Any) -> str:
    """Is name_of that also takes True and False, as tables do."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return name_of(what, value)


def passing(where: list[tuple[Table, Asked]]) -> set[str]:
    """Returns the names for which all conditions hold; at least one condition."""
    by_table: dict[str, tuple[Table, list[Asked]]] = {}
    for table, asked in where:
        by_table.setdefault(table.name, (table, []))[1].append(asked)
    return set[str].intersection(*(set(table.passing(asked)) for table, asked in by_table.values()))

"""What callers give as events: one event, several, columns, or a table of another package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Optional, Protocol, Union

import numpy as np

from ._batch import Inputs, read_columns
from ._errors import InputError
from ._events import Event, Input, is_missing, is_row, mapping_of, read_event
from ._schema import Schema


class Table(Protocol):
    """A table with named columns: a DataFrame of pandas or polars, a Table of pyarrow."""

    @property
    def columns(self) -> Any: ...

    def __getitem__(self, name: Any, /) -> Any: ...


class ArrowStream(Protocol):
    """A table of any other package that follows the Arrow PyCapsule interface. It is read by pyarrow."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


Columns = Mapping[str, Iterable[Any]]  #: the values of all events by field
Events = Union[Iterable[Event], Columns, Table, ArrowStream]  #: several events, in any of these forms

_SINGLE = frozenset((str, int, float))
_LISTS = ("to_list", "tolist", "to_pylist")  # what makes a list of a column, by package


def read_given(schema: Schema, given: Any, event: Any, events: Any) -> Union[Input, Inputs]:
    """Reads one event or several, of which exactly one of three arguments is not None: given may be either. Raises InputError, with the place."""
    if (given is None) + (event is None) + (events is None) != 2:
        raise TypeError("want one event, or several as a list, as columns or as a table: one argument of these")
    if given is not None:
        event, events = (given, None) if _is_event(schema, given) else (None, given)
    if event is not None:
        return read_event(schema, event)
    if (columns := _columns_of(schema, events)) is not None:
        return read_columns(schema, columns, "row")
    rows = _rows(events)
    found = {name: [row.get(name) for row in rows] for name in schema.fields}
    return read_columns(schema, found, "event", len(rows))


def events_of(schema: Schema, given: Any) -> Sequence[Event]:
    """Returns the events of a history, with their labels. Raises InputError."""
    if given is None or isinstance(given, Mapping) and not given:
        return []
    if (columns := _columns_of(schema, given, schema.label)) is None:
        return _rows(given)
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def _is_event(schema: Schema, given: Any) -> bool:
    """Reports whether it is one event and no columns. Raises InputError for what is both."""
    if not isinstance(given, Mapping):
        return is_row(given)
    several: list[str] = []
    single: list[str] = []
    for name in schema.fields:
        value = given.get(name)
        if type(value) in _SINGLE:
            single.append(name)
        elif is_missing(value):
            continue
        elif name not in schema.multi:
            (several if _is_list(value) else single).append(name)
        elif isinstance(value, (list, tuple, np.ndarray)) and not all(type(v) in _SINGLE or not _is_list(v) for v in value):
            several.append(name)
    if several and single:
        raise InputError(
            f"field {several[0]!r} has several values, field {single[0]!r} has one: give an event one value for each field, or columns a list for each"
        )
    return not several


def _is_list(value: Any) -> bool:
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)):
        return False
    return isinstance(value, Iterable) and not (isinstance(value, np.ndarray) and value.ndim == 0)


def _rows(given: Any) -> list[Event]:
    """Returns events that were given one by one. Raises InputError."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InputError(f"events are a list of mappings, columns or a table, not {type(given).__name__}")
    rows = [mapping_of(row) for row in given]
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(f"event {i}: it is no mapping of names and values, but {type(row).__name__}")
    return rows


def _columns_of(schema: Schema, given: Any, label: str = "") -> Optional[dict[str, Sequence[Any]]]:
    """Returns the columns of the schema's fields, and of a label, in the order of the schema; None for what has no columns. Raises InputError."""
    columns = _named_columns(given)
    if columns is None:
        return None
    names, column = columns
    wanted = [*schema.fields, label] if label else schema.fields
    found: dict[str, Sequence[Any]] = {}
    for name in wanted:
        if names[name] > 1:
            raise InputError(f"the table has {names[name]} columns {name!r}: keep one of them")
        if name in names and (values := column(name)) is not None:
            found[name] = values
    missing = [name for name in schema.fields if name not in found and not schema.is_optional(name)]
    if missing or not found:
        those = missing or list(schema.fields)
        has = ", ".join(map(repr, list(names)[:20])) or "none"
        raise InputError(f"missing_field: the table has no column {those[0]!r}, but {has}: name it as in training")
    lengths = {name: len(values) for name, values in found.items()}
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length != lengths[first]:
            raise InputError(f"column {name!r} has {length} values, column {first!r} has {lengths[first]}: give each as many")
    return found


def _named_columns(given: Any) -> Optional[tuple[Counter[str], Callable[[str], Optional[Sequence[Any]]]]]:
    """Returns the names of columns, with how often they occur, and what returns one of them; None for what has no columns."""
    if isinstance(given, np.ndarray):
        if given.dtype.names is None:
            if given.dtype == object and given.ndim == 1:  # of events
                return None
            raise InputError("an array does not name the fields: give a table or columns, such as pandas.DataFrame(array, columns=[...])")
        return Counter(given.dtype.names), lambda name: _values(given[name])
    if isinstance(given, Mapping):
        return Counter(list(given)), lambda name: None if given[name] is None else _listed(name, given[name])
    if hasattr(given, "collect") and not hasattr(given, "__arrow_c_stream__"):
        raise InputError(f"{type(given).__name__} is not computed yet: call collect() first")
    names = getattr(given, "column_names", None)
    if names is None:
        names = getattr(given, "columns", None)
    if names is not None and not callable(names) and hasattr(given, "__getitem__"):
        times = Counter(names)
        first = next((name for name, n in times.items() if n == 1), None)  # the name of two columns stands for a table
        if first is None or any(hasattr(given[first], method) for method in _LISTS):
            return times, lambda name: _values(given[name])
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__dataframe__"):
        table = _by_pyarrow(given)
        return Counter(table.column_names), lambda name: _values(table[name])
    return None


def _by_pyarrow(given: Any) -> Any:
    """Returns a table of another package as one of pyarrow."""
    name = type(given).__name__
    try:
        pyarrow: Any = import_module("pyarrow")
    except ImportError:
        raise InputError(f"{name} is read by pyarrow: pip install 'refitd-snapshot[arrow]', or give a DataFrame of pandas or polars") from None
    if hasattr(given, "__arrow_c_stream__"):
        return pyarrow.table(given)
    return import_module("pyarrow.interchange").from_dataframe(given)


def _listed(name: str, column: Any) -> Sequence[Any]:
    """Returns the values of a column of a mapping. Raises InputError for what is no list."""
    if not _is_list(column):
        raise InputError(f"column {name!r} takes a list of values, not {type(column).__name__}")
    return _values(column)


def _values(column: Any) -> Sequence[Any]:
    """Returns the values of a column."""
    if isinstance(column, (list, tuple)):
        return column
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":  # whose list is of whole numbers
        return list(column)
    for method in _LISTS:
        if callable(values := getattr(column, method, None)):
            listed: list[Any] = values()
            return listed
    return list(column)

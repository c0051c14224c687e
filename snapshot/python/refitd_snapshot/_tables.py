"""What a version knows of entities: rows of tables, which are joined to events, and conditions of lists on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import numpy as np

from ._arrays import Array, Indexes
from ._batch import Inputs
from ._errors import FormatError
from ._events import Input
from ._json import Fields, loads, write
from ._manifest import TABLES_FILE as FILE
from ._schema import Schema

_VERSION = 1  # of the file's form
_MAX_TABLES = 64
_MOST_CHANGED = 4096  # rows apart from a table, in addition to an eighth of its own, before they are put into it
_NAN = 0x7FF8000000000001  # as Go writes it
_INT = np.dtype("<u4")


@dataclass(frozen=True)
class Row:
    """What a table says of an entity, in the order of its columns: "" is no name, NaN no number."""

    categorical: tuple[str, ...]
    multi: tuple[list[str], ...]
    numeric: tuple[float, ...]


@dataclass(frozen=True)
class NameColumn:
    """At most one name of each row."""

    name: str
    field: int  #: of Schema.categorical
    values: Sequence[str]  #: ascending
    at: Indexes  #: of each row, in values; -1 is none


@dataclass(frozen=True)
class ListColumn:
    """A list of names of each row."""

    name: str
    field: int  #: of Schema.multi
    values: Sequence[str]  #: ascending
    starts: Indexes  #: of each row where its list starts in at, and where the last one ends
    at: Indexes  #: in values


@dataclass(frozen=True)
class NumberColumn:
    """A number of each row, NaN for none."""

    name: str
    field: int  #: of Schema.numeric
    values: Array


@dataclass(frozen=True)
class Asked:
    """A condition on a column: one of some names, or a number within bounds."""

    kind: str  #: categorical, multi or numeric
    column: int
    names: frozenset[str]
    least: float
    most: float

    def holds(self, row: Row) -> bool:
        if self.kind == "numeric":
            return self.least <= row.numeric[self.column] <= self.most
        if self.kind == "multi":
            return not self.names.isdisjoint(row.multi[self.column])
        return row.categorical[self.column] != "" and row.categorical[self.column] in self.names


@dataclass(frozen=True)
class Table:
    """The rows of one table. It never changes."""

    name: str
    of: int  #: categorical field whose names are the entities
    of_name: str
    names: Sequence[str]  #: of the entities that have a row, ascending
    categorical: tuple[NameColumn, ...]
    multi: tuple[ListColumn, ...]
    numeric: tuple[NumberColumn, ...]
    rows: Mapping[str, int]  #: by name
    changed: Mapping[str, Optional[Row]]  #: by deltas; None is a row that is gone

    def row(self, name: str) -> Optional[Row]:
        """Returns what the table says of an entity, None for nothing."""
        if name in self.changed:
            return self.changed[name]
        at = self.rows.get(name)
        return None if at is None else self._row(at)

    def _row(self, at: int) -> Row:
        return Row(
            tuple("" if (v := c.at[at]) < 0 else c.values[v] for c in self.categorical),
            tuple([c.values[v] for v in c.at[c.starts[at] : c.starts[at + 1]]] for c in self.multi),
            tuple(float(c.values[at]) for c in self.numeric),
        )

    def rows_of(self, names: Iterable[str]) -> dict[str, Row]:
        """Returns what row says of several entities, of which it says something. For many it takes a fraction of the time."""
        different = dict.fromkeys(names)
        changed = {name: row for name in different if (row := self.changed.get(name)) is not None} if self.changed else {}
        wanted = [name for name in different if name in self.rows and name not in self.changed]
        at = np.array([self.rows[name] for name in wanted], dtype=np.int64)
        categorical = [["" if v < 0 else c.values[v] for v in c.at[at].tolist()] for c in self.categorical]
        multi: list[list[list[str]]] = []
        for c in self.multi:
            bounds = zip(c.starts[at].tolist(), c.starts[at + 1].tolist())
            multi.append([[c.values[v] for v in c.at[begin:end].tolist()] for begin, end in bounds])
        numeric = [c.values[at].tolist() for c in self.numeric]
        none: list[tuple[()]] = [()] * len(wanted)
        parts = (list(zip(*columns)) if columns else none for columns in (categorical, multi, numeric))
        return {**changed, **dict(zip(wanted, map(Row, *parts)))}

    def entities(self) -> Iterable[str]:
        """Yields the names that have a row, in no order."""
        yield from (name for name in self.names if name not in self.changed)
        yield from (name for name, row in self.changed.items() if row is not None)

    def passing(self, asked: Sequence[Asked]) -> list[str]:
        """Returns the entities for whose rows conditions hold, in no order."""
        mask = np.ones(len(self.names), dtype=bool)
        for a in asked:
            mask &= self._holds(a)
        found = [name for i in np.flatnonzero(mask).tolist() if (name := self.names[i]) not in self.changed]
        return found + [name for name, row in self.changed.items() if row is not None and all(a.holds(row) for a in asked)]

    def _holds(self, a: Asked) -> Any:
        """Reports for each row whether a condition holds."""
        if a.kind == "numeric":
            numbers = self.numeric[a.column].values
            return (numbers >= a.least) & (numbers <= a.most)
        if a.kind == "categorical":
            names = self.categorical[a.column]
            return np.isin(names.at, _places(names.values, a.names))
        lists = self.multi[a.column]
        rows = np.repeat(np.arange(len(self.names)), np.diff(lists.starts))
        mask = np.zeros(len(self.names), dtype=bool)
        mask[rows[np.isin(lists.at, _places(lists.values, a.names))]] = True
        return mask

    def current(self) -> Table:
        """Returns the table with all changes in it."""
        if not self.changed:
            return self
        names = sorted(self.entities())
        found = self.rows_of(names)
        rows = [found[name] for name in names]
        categorical = tuple(_name_column(c, [row.categorical[i] for row in rows]) for i, c in enumerate(self.categorical))
        multi = tuple(_list_column(c, [row.multi[i] for row in rows]) for i, c in enumerate(self.multi))
        numeric = tuple(replace(c, values=np.array([row.numeric[i] for row in rows], dtype=np.float64)) for i, c in enumerate(self.numeric))
        return replace(self, names=names, categorical=categorical, multi=multi, numeric=numeric, rows=_index(names), changed={})


def _places(values: Sequence[str], names: frozenset[str]) -> list[int]:
    return [i for i, value in enumerate(values) if value in names]


def _name_column(c: NameColumn, names: Sequence[str]) -> NameColumn:
    values = sorted(set(names) - {""})
    place = {"": -1, **_index(values)}
    return replace(c, values=values, at=np.array([place[name] for name in names], dtype=np.int64))


def _list_column(c: ListColumn, lists: Sequence[Sequence[str]]) -> ListColumn:
    values = sorted({name for list_ in lists for name in list_})
    place = _index(values)
    starts = np.cumsum([0, *map(len, lists)])
    return replace(c, values=values, starts=starts, at=np.array([place[name] for list_ in lists for name in list_], dtype=np.int64))


def _index(names: Sequence[str]) -> dict[str, int]:
    return {name: i for i, name in enumerate(names)}


@dataclass(frozen=True)
class Tables:
    """The tables of a version, in its order."""

    tables: tuple[Table, ...]

    def of(self, field: int) -> list[Table]:
        """Returns the tables that know the names of a categorical field."""
        return [t for t in self.tables if t.of == field]

    @cached_property
    def _columns(self) -> dict[str, tuple[Table, str, int]]:
        found: dict[str, tuple[Table, str, int]] = {}
        for t in self.tables:
            for kind, columns in (("categorical", t.categorical), ("multi", t.multi), ("numeric", t.numeric)):
                found.update({c.name: (t, kind, i) for i, c in enumerate(columns)})  # type: ignore[attr-defined]
        return found

    def column(self, name: str) -> Optional[tuple[Table, str, int]]:
        """Returns the table, the kind and the place of a column."""
        return self._columns.get(name)

    def join(self, x: Input) -> Input:
        """Returns an event with what tables know of its entities in the columns that it lacks. Joined twice it may know more: tables are joined in order."""
        categorical, numeric, multi = list(x.categorical), list(x.numeric), list(x.multi)
        for t in self.tables:
            if not (name := categorical[t.of]) or (row := t.row(name)) is None:
                continue
            for names, value in zip(t.categorical, row.categorical):
                categorical[names.field] = categorical[names.field] or value
            for numbers, number in zip(t.numeric, row.numeric):
                if math.isnan(numeric[numbers.field]):
                    numeric[numbers.field] = number
            for lists, list_ in zip(t.multi, row.multi):
                multi[lists.field] = multi[lists.field] or list_
        return Input(categorical, numeric, multi)

    def join_all(self, x: Inputs) -> Inputs:
        """Is join of several events."""
        categorical, numeric, multi = list(x.categorical), list(x.numeric), list(x.multi)
        for t in self.tables:
            known = t.rows_of(categorical[t.of])
            rows = [known.get(name) for name in categorical[t.of]]
            for i, names in enumerate(t.categorical):
                categorical[names.field] = [v or ("" if row is None else row.categorical[i]) for v, row in zip(categorical[names.field], rows)]
            for i, numbers in enumerate(t.numeric):
                found = np.array([math.nan if row is None else row.numeric[i] for row in rows], dtype=np.float64)
                numeric[numbers.field] = np.where(np.isnan(numeric[numbers.field]), found, numeric[numbers.field])
            for i, lists in enumerate(t.multi):
                multi[lists.field] = [v or ([] if row is None else row.multi[i]) for v, row in zip(multi[lists.field], rows)]
        return replace(x, categorical=categorical, numeric=numeric, multi=multi)

    def without(self, field: int, x: Input) -> Input:
        """Returns an event that lacks what tables say of a field."""
        categorical, numeric, multi = list(x.categorical), list(x.numeric), list(x.multi)
        for t in self.of(field):
            for names in t.categorical:
                categorical[names.field] = ""
            for numbers in t.numeric:
                numeric[numbers.field] = math.nan
            for lists in t.multi:
                multi[lists.field] = []
        return Input(categorical, numeric, multi)

    def changed(self, rows: Iterable[tuple[int, str, Optional[Row]]]) -> Tables:
        """Returns the tables after changes: the place of a table, a name, and its row, None for one that is gone. Of one name the last counts."""
        by_table: dict[int, dict[str, Optional[Row]]] = {}
        for at, name, row in rows:
            by_table.setdefault(at, dict(self.tables[at].changed))[name] = row
        tables = list(self.tables)
        for at, changed in by_table.items():
            tables[at] = replace(tables[at], changed=changed)
            if len(changed) > _MOST_CHANGED + len(tables[at].names) // 8:
                tables[at] = tables[at].current()
        return Tables(tuple(tables))

    def encode(self) -> bytes:
        """Returns the file that the Go library writes of the tables with all changes."""
        tables = [t.current() for t in self.tables]
        heads, parts = [], []
        for t in tables:
            names = [{"field": c.name, "values": len(c.values)} for c in t.categorical]
            lists = [{"field": c.name, "values": len(c.values), **({"entries": len(c.at)} if len(c.at) else {})} for c in t.multi]
            head = {"name": t.name, "of": t.of_name, "rows": len(t.names), "categorical": names, "multi": lists}
            heads.append({**head, "numeric": [c.name for c in t.numeric]})
            parts.append(_texts(t.names))
            for name_column in t.categorical:
                parts += [_texts(name_column.values), (name_column.at + 1).astype(_INT).tobytes()]
            for list_column in t.multi:
                parts += [_texts(list_column.values), np.diff(list_column.starts).astype(_INT).tobytes(), list_column.at.astype(_INT).tobytes()]
            for number_column in t.numeric:
                bits = number_column.values.astype("<f8").view("<u8")
                parts.append(np.where(np.isnan(number_column.values), np.uint64(_NAN), bits).astype("<u8").tobytes())
        return write({"version": _VERSION, "tables": heads or None}).encode() + b"\n" + b"".join(parts)


def _texts(names: Sequence[str]) -> bytes:
    content = [name.encode() for name in names]
    return np.array(list(map(len, content)), dtype=_INT).tobytes() + b"".join(content)


class _Reader:
    """Reads what follows the first line. Memory is taken once the file is long enough."""

    def __init__(self, rest: bytes):
        self._rest, self._at = rest, 0

    def take(self, count: int, size: int) -> bytes:
        if not 0 <= count <= (len(self._rest) - self._at) // size:
            raise FormatError(f"{FILE}: it is shorter than its first line says")
        begin, self._at = self._at, self._at + count * size
        return self._rest[begin : self._at]

    def wholes(self, count: int) -> Indexes:
        return np.frombuffer(self.take(count, 4), _INT).astype(np.int64)

    def floats(self, count: int) -> Array:
        return np.frombuffer(self.take(count, 8), "<f8").astype(np.float64)

    def texts(self, what: str, count: int) -> Sequence[str]:
        """Reads names, which ascend."""
        ends = np.cumsum(self.wholes(count))
        content = self.take(int(ends[-1]) if count else 0, 1)
        try:
            names = [content[begin:end].decode() for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist())]
        except UnicodeDecodeError:
            raise FormatError(f"{FILE}: {what}: a name is not UTF-8") from None
        if names and not names[0] or any(a >= b for a, b in zip(names, names[1:])):
            raise FormatError(f"{FILE}: {what}: an empty name, or names that do not ascend")
        return names

    def end(self) -> None:
        if self._at != len(self._rest):
            raise FormatError(f"{FILE}: it is longer than its first line says")


def decode(content: bytes, schema: Schema) -> Tables:
    """Raises FormatError for what is no such file of a version with the schema."""
    head, newline, rest = content.partition(b"\n")
    f = Fields(FILE, loads(FILE, head))
    if (version := f.whole("version")) != _VERSION or not newline:
        raise FormatError(
            f"{FILE}: version {version}, this build reads {_VERSION}: the version is of a newer format: use a newer build of this package"
        )
    heads = f.objects("tables")
    if len(heads) > _MAX_TABLES:
        raise FormatError(f"{FILE}: {len(heads)} tables, at most {_MAX_TABLES}")
    reader, seen = _Reader(rest), set[str]()
    tables = [_table(h, reader, schema, seen) for h in heads]
    reader.end()
    if "" in (names := [t.name for t in tables]) or len(set(names)) != len(names):
        raise FormatError(f"{FILE}: a table without a name, or a name twice")
    return Tables(tuple(tables))


def _table(h: Fields, reader: _Reader, schema: Schema, seen: set[str]) -> Table:
    name, of, count = h.text("name"), h.text("of"), h.whole("rows")
    if of not in schema.categorical:
        raise FormatError(f"{FILE}: table {name!r} of {of!r}: want a categorical field")
    numbers = [field.name for field in schema.numeric]

    def place(fields: Sequence[str], column: str) -> int:
        """Returns the field of a column, which is optional and no other column's."""
        if column in seen or column == of or column not in fields or not schema.is_optional(column):
            raise FormatError(f"{FILE}: table {name!r}: column {column!r}: want an optional field of the schema that no other column is")
        seen.add(column)
        return fields.index(column)

    names = reader.texts(name, count)
    categorical = tuple(_read_names(c, reader, count, lambda column: place(schema.categorical, column)) for c in h.objects("categorical"))
    multi = tuple(_read_lists(c, reader, count, lambda column: place(schema.multi, column)) for c in h.objects("multi"))
    numeric = tuple(NumberColumn(column, place(numbers, column), reader.floats(count)) for column in h.texts("numeric"))
    for column in numeric:
        if np.isinf(column.values).any():
            raise FormatError(f"{FILE}: column {column.name!r} has a number that is infinite")
    return Table(name, schema.categorical.index(of), of, names, categorical, multi, numeric, _index(names), {})


def _read_names(c: Fields, reader: _Reader, count: int, place: Callable[[str], int]) -> NameColumn:
    name = c.text("field")
    values, at = reader.texts(name, c.whole("values")), reader.wholes(count) - 1
    if at.max(initial=-1) >= len(values):
        raise FormatError(f"{FILE}: column {name!r} has a place outside of its {len(values)} values")
    return NameColumn(name, place(name), values, at)


def _read_lists(c: Fields, reader: _Reader, count: int, place: Callable[[str], int]) -> ListColumn:
    name = c.text("field")
    values, lengths, at = reader.texts(name, c.whole("values")), reader.wholes(count), reader.wholes(c.whole("entries"))
    if lengths.sum() != len(at) or at.max(initial=-1) >= len(values):
        raise FormatError(f"{FILE}: column {name!r} has lists of other lengths, or a place outside of its {len(values)} values")
    return ListColumn(name, place(name), values, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), at)


def decode_row(what: str, line: bytes, tables: Sequence[Table]) -> tuple[int, str, Optional[Row]]:
    """Reads a row of a delta: ["items","i1",["drama"],[["a","b"]],[3.5]] with null for what it lacks, or ["items","i1"] of one that is gone. Returns the
    place of its table, its name and what it says."""
    parts, names = loads(what, line), [t.name for t in tables]
    if not isinstance(parts, list) or len(parts) not in (2, 5) or parts[0] not in names or not _is_name(parts[1]) or not parts[1]:
        raise FormatError(f"{what}: want a table of the version, a name, and what each kind of columns has")
    at = names.index(parts[0])
    if len(parts) == 2:
        return at, parts[1], None
    t = tables[at]
    for part, columns in zip(parts[2:], (t.categorical, t.multi, t.numeric)):
        if len(_list(what, part)) != len(columns):
            raise FormatError(f"{what}: other columns than those of table {t.name!r}")
    categorical = tuple("" if v is None else v for v in _list(what, parts[2]))
    multi = tuple(_list(what, v) for v in _list(what, parts[3]))
    numeric = tuple(math.nan if v is None else v for v in _list(what, parts[4]))
    if not all(map(_is_name, categorical)) or not all(_is_name(v) and v for list_ in multi for v in list_):
        raise FormatError(f"{what}: a name is no text")
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in numeric):
        raise FormatError(f"{what}: a number is none")
    return at, parts[1], Row(categorical, multi, Fields(what, {"numbers": list(numeric)}).numbers("numbers"))


def _list(what: str, value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise FormatError(f"{what}: not a list")
    return value or []


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)

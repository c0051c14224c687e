"""Events, as mappings of names and values, in the order of the schema's fields."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Optional, Union

from ._errors import InputError
from ._schema import Schema

Event = Mapping[str, Any]
Name = Union[str, int]  #: a whole number means its decimal text
Names = Union[Name, Iterable[Name]]  #: one, or several in any collection

_PRESENT = frozenset((str, int, bool, list))  # of values that are never missing


@dataclass
class Input:
    """An event in the order of the schema's fields: "" is a missing name, NaN a missing number."""

    categorical: list[str]
    numeric: list[float]
    multi: list[list[str]]

    def absent(self, schema: Schema) -> tuple[str, ...]:
        """Returns the fields that the event lacks, in the order of the schema."""
        fields = [field for field, name in zip(schema.categorical, self.categorical) if name == ""]
        fields += [field.name for field, v in zip(schema.numeric, self.numeric) if math.isnan(v)]
        return tuple(fields + [f for f, names in zip(schema.multi, self.multi) if not names and f in (schema.optional or ())])


def read_event(schema: Schema, event: Event, but: str = "") -> Input:
    """Is parse_event, and raises InputError with the name of a field that is missing and neither optional nor but."""
    event = mapping_of(event)
    found = parse_event(schema, event)
    if schema.optional is not None:
        missing = [f for f, name in zip(schema.categorical, found.categorical) if not name]
        missing += [f.name for f, v in zip(schema.numeric, found.numeric) if math.isnan(v)]
        missing += [f for f in schema.multi if is_missing(event.get(f))]
        for name in missing:
            if name != but and name not in schema.optional:
                raise InputError(f"missing_field: the event has no field {name!r}")
    return found


def mapping_of(event: Any) -> Any:
    """Returns an event; of a row of pandas its mapping."""
    return event.to_dict() if type(event) is not dict and is_row(event) else event


def is_row(given: Any) -> bool:
    """Reports whether it is a row of pandas, which has names and values and is no mapping."""
    return hasattr(given, "to_dict") and hasattr(given, "index") and not hasattr(given, "columns") and not isinstance(given, Mapping)


def parse_event(schema: Schema, event: Event) -> Input:
    """Reads an event: names for categorical fields, numbers for numeric ones, lists of names for multi ones.

    A name is a text or a whole number. Fields that are absent, None or NaN are missing, others than the schema's are passed over. Raises InputError
    with the name of a field of another kind.
    """
    if not isinstance(event, Mapping):
        raise InputError(f"the event is no mapping of names and values, but {type(event).__name__}")
    categorical = [categorical_of(name, event.get(name)) for name in schema.categorical]
    numeric = [numeric_of(field.name, event.get(field.name)) for field in schema.numeric]
    multi = [multi_of(name, event.get(name)) for name in schema.multi]
    return Input(categorical, numeric, multi)


def categorical_of(field: str, value: Any, where: str = "") -> str:
    """Returns the name in a categorical field, "" for none. where begins the text of an InputError."""
    return "" if is_missing(value) else name_of(f"{where}field {field!r} is categorical and takes", value)


def numeric_of(field: str, value: Any, where: str = "") -> float:
    """Returns the number in a numeric field, NaN for none. where begins the text of an InputError."""
    return _number(f"{where}field {field!r} is numeric and takes", value)


def multi_of(field: str, value: Any, where: str = "") -> list[str]:
    """Returns the names in a multi field, none for a missing one. where begins the text of an InputError."""
    if type(value) is list and all(type(name) is str and name.isascii() for name in value):
        return value  # as it is
    return [] if is_missing(value) else names_of(f"{where}field {field!r} takes", value)


def is_missing(value: Any) -> bool:
    """Reports whether a value stands for none: None, NaN, or the NA and NaT of pandas."""
    if value is None or type(value) in _PRESENT:
        return value is None
    if type(value) is float:
        return math.isnan(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def name_of(what: str, value: Any) -> str:
    """Returns the name that a value is: a text, or a whole number, which means its decimal text, as in events of a topic. Raises InputError."""
    if type(value) is str and value.isascii():
        return value
    if isinstance(value, str):
        text = str(value)  # of a subclass, such as those of NumPy
        # Half a surrogate pair means U+FFFD, as in events of a topic.
        return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return str(int(value))
    raise InputError(f"{what} a text or a whole number, not {_described(value)}")


def names_of(what: str, values: Any) -> list[str]:
    """Returns the names in a list, tuple, set, array or other collection. Raises InputError, also for one text and for bytes, which are none."""
    is_one = isinstance(values, (str, bytes, bytearray, memoryview, Mapping)) or getattr(values, "ndim", 1) == 0
    is_table = getattr(values, "ndim", 1) > 1 or hasattr(values, "columns")  # whose names of columns would be taken for the names
    if is_one or is_table or not isinstance(values, Iterable):
        raise InputError(f"{what} a list of texts or whole numbers, not {_described(values)}")
    each = f"{what} a list whose elements are each"
    try:
        return [name_of(each, value) for value in values]
    except TypeError as error:  # of an array without dimensions
        raise InputError(f"{what} a list of texts or whole numbers: {error}") from None


def _number(what: str, value: Any) -> float:
    if is_missing(value):
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, Decimal)):
        raise InputError(f"{what} a number, not {_described(value, 'write it as 0 or 1')}")
    try:
        x = float(value)
    except OverflowError:
        x = math.inf
    if not math.isfinite(x):
        raise InputError(f"{what} a finite number, not {x}")
    return x


def _described(value: Any, of_bool: str = "write it as a text, or as 0 or 1") -> str:
    """Names a value of the wrong type, with what to write instead where that is known."""
    kind = type(value).__name__
    if kind in ("bool", "bool_"):
        return f"{kind}: {of_bool}"
    if isinstance(value, numbers.Real):
        whole = math.isfinite(value) and value == math.floor(value)
        return f"{kind} {value}" + (": write it as an int, in pandas a column by .astype('Int64')" if whole else "")
    if isinstance(value, str):
        return f"{kind} {value[:40]!r}"
    return kind


@dataclass
class Label:
    """The label of an event: a number, or the names of classes."""

    value: float
    classes: tuple[str, ...]


def read_label(schema: Schema, event: Event) -> Label:
    """Reads the label from the field that the schema names. Raises InputError if it is missing or of another kind than the task's."""
    value: Optional[Any] = event.get(schema.label)
    if is_missing(value):
        raise InputError(f"missing_label: the event has no {schema.label!r}")
    if schema.label_names is not None and isinstance(value, (str, numbers.Integral)) and not isinstance(value, bool):
        name, is_text = name_of("a label is", value), isinstance(value, str)
        if name == schema.positive or name == schema.negative or is_text and not schema.negative:
            return Label(float(name == schema.positive), ())
        if is_text:
            raise InputError(f"label {schema.label!r} is {value!r}, want {schema.positive!r} or {schema.negative!r}")
    if schema.task not in ("multiclass", "multilabel"):
        return Label(_number(f"label {schema.label!r} takes", value), ())
    what = f"label {schema.label!r} takes"
    classes = [name_of(what, value)] if isinstance(value, (str, numbers.Integral)) else names_of(what, value)
    if schema.task == "multiclass" and len(classes) != 1:
        raise InputError(f"missing_label: the event has {len(classes)} classes {schema.label!r}, want one")
    return Label(math.nan, tuple(classes))


def targets_of(schema: Schema, link: str, label_range: tuple[float, ...], label: Label, outputs: int) -> list[float]:
    """Returns the targets of a label, one for each output."""
    what, value = f"label {schema.label!r}", label.value
    if schema.task in ("multiclass", "multilabel"):
        targets = [-1.0 if link == "logistic" else 0.0] * outputs
        for name in label.classes:
            if name not in schema.classes:
                raise InputError(f"{what} has {name!r}, which is no class of the model")
            targets[schema.classes.index(name)] = 1.0
        return targets
    if schema.task == "ordinal" and not (value == math.floor(value) and 1 <= value <= schema.levels):
        raise InputError(f"{what} is {value}, want a level from 1 to {schema.levels}")
    if schema.task == "binary" and value not in (0, 1):
        raise InputError(f"{what} is {value}, want 0 or 1")
    if link == "ordinal":
        return [1.0 if value <= level else -1.0 for level in range(1, outputs + 1)]
    if link == "logistic":
        return [2 * value - 1]
    if label_range:
        value = min(max(value, label_range[0]), label_range[1])
    return [value]

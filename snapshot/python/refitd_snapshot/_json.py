"""JSON as the format has it: read with types checked, and written to the bytes that the Go library writes, over which digests are taken."""

from __future__ import annotations

import hashlib
import json
import math
import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Mapping, Optional, Union

from ._errors import FormatError


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of the range of numbers")
    return value


def _whole(text: str) -> Any:
    return -0.0 if text == "-0" else int(text)  # Go writes the float -0 so


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def loads(what: str, text: bytes) -> Any:
    """Returns the value of a JSON text. FormatError names what."""
    try:
        return json.loads(text.decode("utf-8"), parse_float=_finite, parse_int=_whole, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{what}: {error}") from None


def sha256(content: bytes) -> str:
    """Returns the SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


class Fields:
    """A JSON object whose members are read by type; null and absent are the zero of the type. A member of another type is a FormatError.
    It remembers which members were read: see known and unknown."""

    def __init__(self, what: str, value: Any):
        if not isinstance(value, Mapping):
            raise FormatError(f"{what}: not an object")
        self.what = what
        self.value: Mapping[str, Any] = value
        self._read: set[str] = set()
        self._within: dict[str, Union[Fields, list[Fields]]] = {}  # the objects in members

    def _get(self, name: str, absent: Any = None) -> Any:
        self._read.add(name)
        return self.value.get(name, absent)

    def known(self) -> dict[str, Any]:
        """Returns the members that were read, as they are in the text and in its order; of the objects in them what was read there."""
        found = {}
        for name, value in self.value.items():
            within = self._within.get(name)
            if isinstance(within, Fields):
                value = within.known()
            elif within is not None:
                value = [f.known() for f in within]
            if name in self._read:
                found[name] = value
        return found

    def unknown(self) -> list[str]:
        """Returns where the members are that nothing has read."""
        found = [f"{self.what}.{name}" for name in self.value if name not in self._read]
        for within in self._within.values():
            for f in [within] if isinstance(within, Fields) else within:
                found += f.unknown()
        return found

    def _bad(self, name: str, want: str) -> FormatError:
        return FormatError(f"{self.what}: {name} is not {want}")

    def text(self, name: str) -> str:
        value = self._get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._bad(name, "a text")
        return value

    def whole(self, name: str) -> int:
        value = self._get(name)
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
            raise self._bad(name, "a whole number")
        return value

    def number(self, name: str) -> float:
        return _number(self, name, self._get(name, 0.0))

    def flag(self, name: str) -> bool:
        value = self._get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self._bad(name, "true or false")
        return value

    def items(self, name: str) -> list[Any]:
        value = self._get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._bad(name, "a list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        items = self.items(name)
        if not all(isinstance(v, str) for v in items):
            raise self._bad(name, "a list of texts")
        return tuple(items)

    def numbers(self, name: str) -> tuple[float, ...]:
        return tuple(_number(self, name, v) for v in self.items(name))

    def wholes(self, name: str) -> tuple[int, ...]:
        items = self.items(name)
        if not all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 1 << 63 for v in items):
            raise self._bad(name, "a list of whole numbers")
        return tuple(items)

    def objects(self, name: str) -> list[Fields]:
        items = self.items(name)
        found = [Fields(f"{self.what}.{name}[{i}]", v) for i, v in enumerate(items)]
        if items:
            self._within[name] = found
        return found

    def object(self, name: str) -> Optional[Fields]:
        """Returns the object in a member, None where there is no such member."""
        value = self._get(name)
        if value is None:
            return None
        found = self._within[name] = Fields(f"{self.what}.{name}", value)
        return found

    def time(self, name: str) -> Optional[datetime]:
        """Returns a time in UTC, None where the member is missing or empty."""
        text = self.text(name)
        return parse_time(f"{self.what}: {name}", text) if text else None


def _number(fields: Fields, name: str, value: Any) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FormatError(f"{fields.what}: {name} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise FormatError(f"{fields.what}: {name} is out of the range of numbers") from None


_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


def parse_time(what: str, text: str) -> Optional[datetime]:
    """Reads a time of RFC 3339; the year 1 means no time and is None. What is below a microsecond is dropped."""
    match = _TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError("want a time of RFC 3339")
        whole, part, zone = match.groups()
        at = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
        at += timedelta(microseconds=int(((part or "") + "000000")[:6]))
        if zone != "Z":
            shift = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
            at += -shift if zone[0] == "+" else shift
    except (ValueError, OverflowError) as error:
        raise FormatError(f"{what}: {text!r}: {error}") from None
    return None if at.year == 1 else at


def write_time(at: Optional[datetime]) -> str:
    """Writes a time in UTC without trailing zeros; None is the year 1."""
    if at is None:
        return "0001-01-01T00:00:00Z"
    part = f".{at.microsecond:06d}".rstrip("0") if at.microsecond else ""
    return f"{at.year:04d}-{at.month:02d}-{at.day:02d}T{at.hour:02d}:{at.minute:02d}:{at.second:02d}{part}Z"


def write(value: Any) -> str:
    """Returns the JSON text of a value as Go's encoding/json writes it: no spaces, members in their order, <, > and & escaped."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_write_text(k)}:{write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(write, value)) + "]"
    if isinstance(value, str):
        return _write_text(value)
    if isinstance(value, float):
        return _write_float(value)
    return json.dumps(value)


_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def _write_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_ESCAPES)


def write_name(text: str) -> str:
    """Returns the JSON of a text as the vocabulary has it, where <, > and & stand as they are."""
    return json.dumps(text, ensure_ascii=False).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _write_float(value: float) -> str:
    """Writes the shortest decimal that reads back the same, with an exponent below 1e-6 and from 1e21 on."""
    if value != 0 and not 1e-6 <= abs(value) < 1e21:
        digits, exponent = f"{Decimal(repr(value)):e}".split("e")
        if "." in digits:
            digits = digits.rstrip("0").rstrip(".")
        return f"{digits}e{exponent}"
    text = f"{Decimal(repr(value)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

"""Names that are chosen by the same entities, which lists take into account."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from ._arrays import Array
from ._errors import FormatError
from ._json import Fields, loads
from ._schema import Schema

FILE = "cochoices"
MAX_BYTES = 256 << 20
_VERSION = 1  # of the file's form
_MAX_RECENT = 64
_COUNT, _NEIGHBOUR, _PLACE = struct.Struct("<H"), np.dtype([("place", "<i4"), ("lift", "<f4")]), np.dtype("<i4")


@dataclass(frozen=True)
class CoChoices:
    """What TopK of the Go library adds to the outputs of names: see CoChoices there."""

    over: int  #: field of the schema whose names are chosen
    by: int  #: field of who chooses
    half_life: float
    weight: float
    scale: float
    neighbours: Sequence[Any]  #: by name of over: places and lifts
    recent: Sequence[Any]  #: by name of by: places of the names chosen last, oldest first; -1 is not known

    def added(self, recent: Sequence[int], names: int) -> Array:
        """Returns what is added to each of so many names of over, given the places of what was chosen last."""
        sums = np.zeros(names)
        for age, place in enumerate(reversed(recent[-_MAX_RECENT:])):
            if 0 <= place < len(self.neighbours):
                list_ = self.neighbours[place]
                np.add.at(sums, list_["place"], 2.0 ** (-age / self.half_life) * list_["lift"].astype(float))
        found: Array = self.scale * np.log1p(self.weight * sums)
        return found


def decode(content: bytes, schema: Schema, vocabulary: Sequence[Sequence[str]]) -> CoChoices:
    """Raises FormatError for what is no such file of a version with the schema and the vocabulary."""
    head, _, rest = content.partition(b"\n")
    f = Fields(FILE, loads(FILE, head))
    if (version := f.whole("version")) != _VERSION:
        raise FormatError(f"{FILE}: version {version}, this build reads {_VERSION}: use a newer build of this package")
    over, by = f.text("over"), f.text("by")
    if over == by or over not in schema.categorical or by not in schema.categorical:
        raise FormatError(f"{FILE}: over {over!r} by {by!r}: want two categorical fields")
    fields = schema.categorical.index(over), schema.categorical.index(by)
    names, entities = f.whole("names"), f.whole("entities")
    known = len(vocabulary[fields[0]])
    half_life, weight, scale = f.number("half_life"), f.number("weight"), f.number("scale")
    positive = all(0 < x < np.inf for x in (half_life, weight, scale))
    if not (positive and 0 <= names <= known and 0 <= entities <= len(vocabulary[fields[1]])):
        raise FormatError(f"{FILE}: {names} names and {entities} entities, half-life {half_life}, weight {weight}, scale {scale}")
    at, lists = 0, list[Any]()
    for i in range(names + entities):
        of: Any = _NEIGHBOUR if i < names else _PLACE
        n = _COUNT.unpack_from(rest, at)[0] if at + _COUNT.size <= len(rest) else 0
        begin, at = at + _COUNT.size, at + _COUNT.size + n * of.itemsize
        if at > len(rest):
            raise FormatError(f"{FILE}: it ends before its lists do")
        list_ = np.frombuffer(rest, of, n, begin)
        places = list_["place"] if i < names else list_
        if n and not ((0 if i < names else -1) <= places.min() and places.max() < known):
            raise FormatError(f"{FILE}: list {i} has a name that is not there")
        if i < names and not (np.isfinite(list_["lift"]) & (list_["lift"] > 0)).all():
            raise FormatError(f"{FILE}: list {i} has a lift that is not positive")
        lists.append(list_)
    if at != len(rest):
        raise FormatError(f"{FILE}: {len(rest) - at} bytes follow its lists")
    return CoChoices(fields[0], fields[1], half_life, weight, scale, lists[:names], lists[names:])

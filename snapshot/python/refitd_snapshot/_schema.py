"""The schema of a version: fields of events, and how they become columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from ._arrays import Array
from ._errors import FormatError
from ._json import Fields

CROSS_SIGN = "×"
MAX_OUTPUTS = 1 << 16
_MAX_MAP_COLUMNS = 1 << 20
_PRODUCT_DEGREE = 2
_UNSCORED = ("optional", "derived")  # members that change no score, and that the digest of the payload leaves out


@dataclass(frozen=True)
class NumericField:
    """A number that becomes (value - center) / scale, within ±clip unless that is 0."""

    name: str
    center: float
    scale: float
    clip: float

    def scaled(self, value: float) -> float:
        x = (value - self.center) / self.scale
        return min(max(x, -self.clip), self.clip) if self.clip > 0 else x

    def scaled_all(self, values: Array) -> Array:
        """Is scaled for each of several values."""
        with np.errstate(over="ignore"):
            x = (values - self.center) / self.scale
        return np.clip(x, -self.clip, self.clip) if self.clip > 0 else x


@dataclass(frozen=True)
class MapScaling:
    """Where the values of a field of a feature map lie."""

    center: float
    scale: float


@dataclass(frozen=True)
class FeatureMap:
    """What makes further columns of the numeric fields: random Fourier features, bins or products."""

    kind: str
    count: int
    clip: float
    scaling: tuple[MapScaling, ...]

    @property
    def num_columns(self) -> int:
        p = len(self.scaling)
        if self.kind == "bins":
            return p * self.count
        if self.kind == "products":
            return p * (p + 3) // 2
        return self.count

    def tables(self) -> list[tuple[str, tuple[int, ...]]]:
        """Returns names and shapes of its tensors, in the order of the file."""
        p = len(self.scaling)
        if self.kind == "bins":
            return [("map_edges", (p, self.count - 1))]
        if self.kind == "products":
            return []
        return [("map_frequencies", (self.count, p)), ("map_phases", (self.count,))]

    def check(self, fields: int) -> None:
        where = "schema.feature_map"
        if self.kind not in ("fourier", "bins", "products"):
            raise FormatError(f"{where}: kind {self.kind!r} is not fourier, bins or products")
        if fields == 0 or len(self.scaling) != fields:
            raise FormatError(f"{where}: scaling of {len(self.scaling)} fields, the schema has {fields} numeric ones")
        most = _MAX_MAP_COLUMNS // fields
        if not 2 <= self.count <= most:
            raise FormatError(f"{where}: count is {self.count}, a map of {fields} fields has 2 to {most}")
        if self.kind == "products" and (self.count != _PRODUCT_DEGREE or fields > most):
            raise FormatError(f"{where}: products of degree {self.count} of {fields} fields, this build reads degree {_PRODUCT_DEGREE}")
        if not self.clip > 0:
            raise FormatError(f"{where}: clip {self.clip} has to be positive")
        for i, s in enumerate(self.scaling):
            if not s.scale > 0:
                raise FormatError(f"{where}: numeric field {i}: scale {s.scale} has to be positive")


@dataclass(frozen=True)
class Schema:
    """Names the fields of an event, what is predicted, and how fields become columns: the names of each categorical field, those of each cross,
    those of each multi field, one for each numeric field, and a constant one if augment is set."""

    task: str  #: regression, binary, multiclass, multilabel or ordinal
    label: str
    levels: int
    classes: tuple[str, ...]
    label_min: float
    label_max: float
    categorical: tuple[str, ...]
    multi: tuple[str, ...]
    multi_weights: tuple[str, ...]  #: mean or sqrt for each of multi; empty is mean for all
    numeric: tuple[NumericField, ...]
    augment: bool
    cross: tuple[tuple[str, ...], ...]
    optional: Optional[tuple[str, ...]]  #: fields that an event may lack; None lets it lack any
    feature_map: Optional[FeatureMap]
    positive: str = ""  #: of a binary label that is a name: the one that counts as 1; empty for 0 and 1
    negative: str = ""  #: the other one; empty for any
    digested: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  #: its members as the digest of the payload has them
    unknown: tuple[str, ...] = field(default=(), compare=False, repr=False)  #: members that only newer builds know

    @property
    def named(self) -> tuple[str, ...]:
        """The fields of the vocabulary in the order of columns."""
        return self.categorical + tuple(map(CROSS_SIGN.join, self.cross)) + self.multi

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields that an event has besides its label."""
        return self.categorical + tuple(field.name for field in self.numeric) + self.multi

    @property
    def num_extra(self) -> int:
        """How many columns have no name in the vocabulary."""
        return len(self.numeric) + self.augment

    @property
    def label_names(self) -> Optional[tuple[str, str]]:
        """The names of a binary label, in the order of 0 and 1; None where it has none."""
        if self.task != "binary" or not self.positive:
            return None
        return self.negative or f"not {self.positive}", self.positive

    def is_optional(self, field: str) -> bool:
        return self.optional is None or field in self.optional

    def multi_value(self, field: int, names: Sequence[str]) -> float:
        """The value of each name of a list in a multi field: 1/n or 1/sqrt(n) of n different ones; schemas without weights count repeats, too."""
        if not self.multi_weights:
            return 1 / max(1, len(names))
        n = max(1, len(set(names) - {""}))
        return 1 / math.sqrt(n) if self.multi_weights[field] == "sqrt" else 1 / n

    @property
    def format(self) -> int:
        """The version of the format that the schema needs."""
        if self.multi_weights:
            return 6
        if self.cross:
            return 4
        if self.feature_map is not None:
            return 3
        return 2 if any(f.clip > 0 for f in self.numeric) else 1

    def check(self) -> None:
        """Raises FormatError unless the schema is sound."""
        if self.task == "ordinal":
            if not 2 <= self.levels <= MAX_OUTPUTS:
                raise FormatError(f"schema.levels is {self.levels}, an ordinal label has 2 to {MAX_OUTPUTS}")
        elif self.task in ("multiclass", "multilabel"):
            distinct("schema.classes", self.classes)
        elif self.task not in ("regression", "binary"):
            raise FormatError(f"schema.task {self.task!r} is not regression, binary, multiclass, multilabel or ordinal")
        fields = self.categorical + self.multi + tuple(f.name for f in self.numeric)
        for f in self.numeric:
            if not f.scale > 0 or f.clip < 0:
                raise FormatError(f"schema.numeric {f.name!r}: scale {f.scale} has to be positive, and clip {f.clip} not negative")
        if self.multi_weights and len(self.multi_weights) != len(self.multi):
            raise FormatError(f"schema.multi_weights: {len(self.multi_weights)} of {len(self.multi)} multi fields")
        for weight in self.multi_weights:
            if weight not in ("mean", "sqrt"):
                raise FormatError(f"schema.multi_weights: {weight!r} is not mean or sqrt")
        for name in self.optional or ():
            if name not in fields:
                raise FormatError(f"schema.optional: {name!r} is not a field of the schema")
        if self.feature_map is not None:
            self.feature_map.check(len(self.numeric))
        for i, parts in enumerate(self.cross):
            if len(parts) < 2:
                raise FormatError(f"schema.cross[{i}]: a cross has at least two fields")
            for name in parts:
                if name not in self.categorical:
                    raise FormatError(f"schema.cross[{i}]: {name!r} is not a categorical field of the schema")
            distinct(f"schema.cross[{i}]", parts)
        distinct("schema fields", fields + tuple(map(CROSS_SIGN.join, self.cross)))
        distinct("schema.optional", self.optional or ())


def distinct(what: str, names: tuple[str, ...]) -> None:
    """Refuses empty and repeated names."""
    if "" in names:
        raise FormatError(f"{what}: an empty name")
    if len(set(names)) != len(names):
        raise FormatError(f"{what}: a name is there twice")


def read_schema(f: Fields) -> Schema:
    """Reads the schema of a manifest; check says whether it is sound. The digest of the payload covers the members as the manifest has them, so no
    member that is read here can be missing there."""
    numeric = tuple(NumericField(n.text("name"), n.number("center"), n.number("scale"), n.number("clip")) for n in f.objects("numeric"))
    feature_map = None
    if (m := f.object("feature_map")) is not None:
        scaling = tuple(MapScaling(s.number("center"), s.number("scale")) for s in m.objects("scaling"))
        feature_map = FeatureMap(m.text("kind"), m.whole("count"), m.number("clip"), scaling)
    cross = []
    for parts in f.items("cross"):
        if not isinstance(parts, list) or not all(isinstance(name, str) for name in parts):
            raise FormatError("schema.cross: not lists of texts")
        cross.append(tuple(parts))
    optional = None if f.value.get("optional") is None else f.texts("optional")
    schema = Schema(
        task=f.text("task"),
        label=f.text("label"),
        levels=f.whole("levels"),
        classes=f.texts("classes"),
        label_min=f.number("label_min"),
        label_max=f.number("label_max"),
        categorical=f.texts("categorical"),
        multi=f.texts("multi"),
        multi_weights=f.texts("multi_weights"),
        numeric=numeric,
        augment=f.flag("augment"),
        cross=tuple(cross),
        optional=optional,
        feature_map=feature_map,
        positive=f.text("positive"),
        negative=f.text("negative"),
    )
    digested = {name: value for name, value in f.known().items() if name not in _UNSCORED}
    unknown = tuple(name for name in f.unknown() if name != f"{f.what}.derived")
    for d in f.objects("derived"):
        for name in filter(None, (d.text("name"), d.text("of"))):
            if name not in schema.categorical + schema.multi:
                raise FormatError(f"schema.derived: {name!r} is not a field of the schema")
    return replace(schema, digested=digested, unknown=unknown)

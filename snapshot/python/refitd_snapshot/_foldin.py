"""What a version says about rows of entities that are made from their own events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import numpy as np

from ._arrays import Array
from ._errors import FormatError
from ._json import Fields
from ._schema import Schema, distinct

_LINKS = {"gaussian": ("identity",), "logistic": ("logistic", "ordinal"), "multinomial": ("softmax",)}
_MAX_RATES = 8
_CANCELS = 1e-5  # how much of its terms the sum of squares of a row may leave: what rounding to F32 does


@dataclass(frozen=True)
class FoldInField:
    """What the fold-in says of the names of one field: the precisions of the prior, the sign that a row has in each basis vector, the shares of its
    evidence that a row keeps at each of its events, and what each of these rates has lost of late."""

    name: str
    precision: tuple[float, ...]
    signs: tuple[int, ...]
    rates: tuple[float, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True)
class FoldIn:
    """How a row of linear weights u_1 … u_M and coordinates u_M+1 … u_M+K becomes one of the model, and by which likelihood it is learned."""

    likelihood: str
    shared: bool
    noise: tuple[float, ...]
    label_range: tuple[float, ...]
    coordinates: tuple[int, ...]
    scale: tuple[float, ...]
    fields: tuple[FoldInField, ...]

    def num_linear(self, outputs: int) -> int:
        return 1 if self.shared else outputs


def read_fold_in(f: Fields) -> Optional[FoldIn]:
    """Reads the fold-in of a manifest, None where it has none."""
    if f.value.get("fold_in") is None:
        return None
    g = Fields("fold_in", f.value["fold_in"])
    fields = tuple(
        FoldInField(d.text("name"), d.numbers("precision"), d.wholes("signs"), d.numbers("rates"), d.numbers("losses")) for d in g.objects("fields")
    )
    return FoldIn(
        likelihood=g.text("likelihood"),
        shared=g.flag("shared"),
        noise=g.numbers("noise"),
        label_range=g.numbers("label_range"),
        coordinates=g.wholes("coordinates"),
        scale=g.numbers("scale"),
        fields=fields,
    )


def check_fold_in(f: FoldIn, schema: Schema, link: str, kernel: str, degree: int, weights: Array) -> None:
    """Raises FormatError unless a fold-in belongs to a model with these weights."""
    vectors, outputs = weights.shape
    linear = f.num_linear(outputs)
    if degree != 2 and vectors:
        raise FormatError(f"fold_in: a kernel of degree {degree}, rows are made for degree 2 alone")
    if link not in _LINKS.get(f.likelihood, ()):
        raise FormatError(f"fold_in: likelihood {f.likelihood!r} does not go with link {link!r}")
    if f.likelihood == "multinomial" and f.shared:
        raise FormatError("fold_in: outputs of a multinomial likelihood cannot be shared")
    if f.likelihood == "gaussian" and not (len(f.noise) == linear and _positive(f.noise)):
        raise FormatError(f"fold_in: noise of {len(f.noise)} outputs, want {linear} positive precisions")
    if f.label_range and not (len(f.label_range) == 2 and f.label_range[0] <= f.label_range[1]):
        raise FormatError(f"fold_in: label_range {f.label_range} is no range")
    if len(f.coordinates) != vectors or len(f.scale) != vectors or not _positive(f.scale):
        raise FormatError(f"fold_in: {len(f.coordinates)} coordinates and {len(f.scale)} scales for {vectors} basis vectors")
    if not f.fields:
        raise FormatError("fold_in: no fields")
    if f.shared and np.any(weights != weights[:, :1]):
        raise FormatError("fold_in: outputs are said to be shared, and weights differ")
    for d in f.fields:
        _check_field(d, f, schema, kernel, weights, linear)
    distinct("fold_in fields", tuple(d.name for d in f.fields))


def _check_field(d: FoldInField, f: FoldIn, schema: Schema, kernel: str, weights: Array, linear: int) -> None:
    vectors, outputs = weights.shape
    coordinates = len(d.precision) - linear
    where = f"fold_in: field {d.name!r}"
    if d.name not in schema.categorical:
        raise FormatError(f"{where} is not a categorical field of the schema")
    if coordinates < 0 or not _positive(d.precision):
        raise FormatError(f"{where} has {len(d.precision)} precisions, want at least {linear}, all positive")
    if len(d.signs) != vectors:
        raise FormatError(f"{where} has {len(d.signs)} signs for {vectors} basis vectors")
    if not 1 <= len(d.rates) <= _MAX_RATES or not _positive(d.rates) or max(d.rates) > 1 or len(d.losses) != len(d.rates):
        raise FormatError(f"{where} has rates {d.rates} and losses {d.losses}, want 1 to {_MAX_RATES} rates in (0, 1] and a loss for each")
    for v, r in enumerate(f.coordinates):
        if not -1 <= d.signs[v] <= 1 or d.signs[v] and not 0 <= r < coordinates:
            raise FormatError(f"{where} has the sign {d.signs[v]} in basis vector {v}, of coordinate {r} of {coordinates}")
    if kernel != "homogeneous":
        return
    total, size = np.zeros((coordinates, outputs)), np.zeros((coordinates, outputs))
    for v, r in enumerate(f.coordinates):
        if d.signs[v]:
            w = weights[v] * f.scale[v] ** 2
            total[r] += w
            size[r] += np.abs(w)
    if np.any(np.abs(total) > _CANCELS * size):
        raise FormatError(f"{where}: outputs are not linear in its rows: the squares of a coordinate do not cancel")


def _positive(values: tuple[float, ...]) -> bool:
    return all(v > 0 for v in values)

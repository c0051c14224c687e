"""Rows of entities made from their own events, as the daemon's fold-in makes them."""

from __future__ import annotations

import copy
import math
from typing import Mapping, Optional, Sequence

import numpy as np

from ._arrays import Array
from ._errors import InputError, NoFoldInError
from ._events import Event, Input, read_event, read_label, targets_of
from ._foldin import FoldIn, FoldInField
from ._given import Events, events_of
from ._model import Model, Scorer

MAX_HISTORY = 1000

_LOSS_FADE = 0.99  # of what the rates of an entity lost, at each of its events
_LOSS_MAX = 25.0  # of one event
_LOGIT_SCALE = 4.0  # of the mean loss of outputs, relative to a squared error in units of its variance
_LEAST_PROBABILITY = 1e-6
_BLOCK = 3  # rates that are solved together, and whose diagonals are raised together


class EntityRow:
    """The posterior of one entity: for each rate what its events say, without the prior, and its mean; and the mean of these as a row of the model."""

    def __init__(self, rates: int, linear: int, coordinates: int, outputs: int, vectors: int, field: int, center: Array):
        size = linear + coordinates
        self.field = field  # of Schema.categorical
        self.center = center
        self.means = np.tile(center, (rates, 1))
        self.loss = np.zeros(rates)
        self.diagonal = np.zeros((rates, linear))
        self.cross = np.zeros((rates, linear, coordinates))
        self.square = np.zeros((rates, coordinates, coordinates))
        self.right = np.zeros((rates, size))
        self.linear = np.zeros(outputs)
        self.basis = np.zeros(vectors)

    def copy(self) -> EntityRow:
        """Returns a row that can be learned on: learning replaces arrays, but for means and losses, which it writes into."""
        other = copy.copy(self)
        other.loss = self.loss.copy()
        other.means = self.means.copy()
        return other


class Overlay(Scorer):
    """A model with replaced rows for some entities, made from events of theirs. It scores like the model below it,
    which it shares, and never changes: learn returns another one."""

    def __init__(self, model: Model, by: Optional[FoldInField], rows: dict[str, EntityRow], folded: int):
        self._model = model
        self._manifest, self._contents, self._columns = model._manifest, model._contents, model._columns
        self._by = by
        self._field = -1 if by is None else model.schema.categorical.index(by.name)
        self._rows = rows
        self._folded = folded
        self._co_choices = model._co_choices
        self._chosen_by: dict[str, list[int]] = {}

    @property
    def model(self) -> Model:
        """The model below."""
        return self._model

    @property
    def folded(self) -> int:
        """How many events were folded in."""
        return self._folded

    @property
    def entities(self) -> tuple[str, ...]:
        """The names that have rows, in the order of their first event."""
        return tuple(self._rows)

    def learn(self, event: Event, weight: float = 1.0) -> Overlay:
        """Returns the overlay after one more labelled event. Raises NoFoldInError or InputError."""
        by = self._by if self._by is not None or _lists_alone(self._model, "") else _field_of(self._model, "")
        changed = Overlay(self._model, by, dict(self._rows), self._folded)
        changed._chosen_by = dict(self._chosen_by)
        changed._finish(changed._add(event, weight))
        return changed

    def _chosen(self, entity: str) -> list[int]:
        return self._chosen_by.get(entity, [])

    def _note(self, x: Input, label: float) -> None:
        """Keeps the choice of an event, if lists take it into account."""
        together = self._co_choices
        if together is None or not label > 0:
            return
        entity, name = x.categorical[together.by], x.categorical[together.over]
        if entity and name:
            place = self._columns._index[together.over].get(name, -1)
            place -= self._columns._first[together.over] if place >= 0 else 0
            self._chosen_by[entity] = self._chosen(entity) + [place]

    def _own(self, event: Input) -> Optional[EntityRow]:
        return self._rows.get(event.categorical[self._field]) if self._rows else None

    def _replaced(self) -> tuple[int, Mapping[str, EntityRow]]:
        return self._field, self._rows

    def _ranked_field(self) -> int:
        return self._field if self._rows else -1

    def _fold_in(self) -> FoldIn:
        found = self._manifest.fold_in
        assert found is not None
        return found

    def _add(self, event: Event, weight: float, held: bool = False) -> str:
        """Folds an event into the row of its entity, which it makes if it is missing, and returns the entity."""
        m = self._manifest
        x = read_event(m.schema, event)
        field = self._field if self._by is not None or self._co_choices is None else self._co_choices.by
        entity = x.categorical[field]
        if not entity:
            raise InputError(f"missing_field: the event has no field {m.schema.categorical[field]!r}")
        if not (math.isfinite(weight) and weight > 0):
            raise InputError(f"weight {weight}, want a positive number")
        label = read_label(m.schema, event)
        if self._by is None:
            self._note(x, label.value)
            self._folded += 1
            return entity
        f = self._fold_in()
        targets = targets_of(m.schema, m.link, f.label_range, label, m.num_outputs)
        self._note(x, label.value)
        row = self._rows[entity].copy() if entity in self._rows else self._begin(entity)
        with np.errstate(all="ignore"):
            self._learn(row, x, np.array(targets), weight, held)
        self._rows[entity] = row
        self._folded += 1
        return entity

    def _begin(self, entity: str) -> EntityRow:
        """Returns the prior of an entity: around the row that the model has of it, or around 0."""
        assert self._by is not None
        f, c, outputs = self._fold_in(), self._contents, self._manifest.num_outputs
        linear = f.num_linear(outputs)
        center = np.zeros(len(self._by.precision))
        column = self._columns.column(self._field, entity)
        if column >= 0:
            if c.linear is not None:
                center[:linear] = c.linear[column, :linear]
            for v, r in enumerate(f.coordinates):
                if self._by.signs[v]:  # the same by every vector of the coordinate
                    center[linear + r] = c.basis[column, v] / (self._by.signs[v] * f.scale[v])
        return EntityRow(len(self._by.rates), linear, len(center) - linear, outputs, self._manifest.num_basis, self._field, center)

    def _learn(self, row: EntityRow, x: Input, targets: Array, weight: float, held: bool) -> None:
        """Folds an event in. The bound of a logistic likelihood is taken where the event finds the row. Of one that the row of the model holds already
        the curvature counts alone."""
        assert self._by is not None
        f = self._fold_in()
        encoded = self._columns.row(self._joined(x))
        column = self._columns.column(self._field, x.categorical[self._field])
        if column >= 0:
            encoded = encoded.without(column)
        rest, total = self._outputs(encoded)
        gradient = self._slopes(total)
        omega, right = self._observe(row, rest, gradient, targets, weight)
        if held and column >= 0:
            right = omega * (row.center[: len(omega)] + gradient @ row.center[len(omega) :])
        else:
            for g, mean in enumerate(row.means):
                loss = _rate_loss(f, targets, self._with(rest, gradient, mean))
                row.loss[g] = _LOSS_FADE * row.loss[g] + (loss if loss < _LOSS_MAX else _LOSS_MAX)
        keep = np.array(self._by.rates)
        row.diagonal = keep[:, None] * row.diagonal + omega
        row.cross = keep[:, None, None] * row.cross + omega[:, None] * gradient
        row.square = keep[:, None, None] * row.square + gradient.T @ (omega[:, None] * gradient)
        row.right = keep[:, None] * row.right + np.concatenate([right, gradient.T @ right])
        for begin in range(0, len(keep), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            row.means[block] = _solve(row, np.array(self._by.precision), block)[0]

    def _slopes(self, total: Array) -> Array:
        """Returns the gradient of the outputs by the coordinates, M×K, from the sums over the other columns."""
        assert self._by is not None
        f, m = self._fold_in(), self._manifest
        linear = f.num_linear(m.num_outputs)
        gradient = np.zeros((linear, len(self._by.precision) - linear))
        factor = 2.0 if m.kernel == "homogeneous" else 1.0
        for v, r in enumerate(f.coordinates):
            if self._by.signs[v]:
                gradient[:, r] += self._contents.weights[v, :linear] * (factor * self._by.signs[v] * f.scale[v] * total[v])
        return gradient

    def _with(self, rest: Array, gradient: Array, mean: Array) -> Array:
        """Returns the outputs with a row."""
        linear = len(gradient)
        added: Array = rest + (mean[:linear] + gradient @ mean[linear:])
        return added

    def _mixed(self, row: EntityRow) -> Array:
        """Returns the mean of the rates' means by recent loss."""
        assert self._by is not None
        losses = np.array(self._by.losses) + row.loss
        shares = np.exp(-0.5 * (losses - losses.min()))
        mixed: Array = shares @ row.means / shares.sum()
        return mixed

    def _observe(self, row: EntityRow, rest: Array, gradient: Array, targets: Array, weight: float) -> tuple[Array, Array]:
        """Returns the quadratic that approximates the log-likelihood of an event: −½ ω z² + right z for what the
        row adds to each of M outputs."""
        assert self._by is not None
        f, linear = self._fold_in(), len(gradient)
        outputs = self._with(rest, gradient, self._mixed(row))
        if f.likelihood == "gaussian":
            w = np.resize(np.array(f.noise), len(targets)) if linear == 1 else np.array(f.noise)
            right = w * (targets - rest)
        elif f.likelihood == "logistic":
            variance = self._variance(row, gradient)
            w, slope = _logistic_quadratic(targets, outputs, variance)
            right = slope + w * (outputs - rest)
        else:
            p = np.exp(outputs - _log_sum_exp(outputs))
            w = _softmax_weight(p, targets)
            right = targets - p + w * (outputs - rest)
        w, right = weight * w, weight * right
        return (w.sum(keepdims=True), right.sum(keepdims=True)) if linear == 1 else (w, right)

    def _variance(self, row: EntityRow, gradient: Array) -> Array:
        """Returns the variances of the M outputs by the posterior of the middle rate."""
        assert self._by is not None
        middle = len(self._by.rates) // 2
        begin = middle // _BLOCK * _BLOCK
        _, precision, rest = _solve(row, np.array(self._by.precision), slice(begin, begin + _BLOCK))
        at = middle - begin
        slopes = gradient - row.cross[middle] / precision[at][:, None]
        if not slopes.size:
            found: Array = 1 / precision[at]
            return found
        explained = np.linalg.solve(rest[at], slopes.T).T
        total: Array = 1 / precision[at] + (slopes * explained).sum(axis=1)
        return total

    def _finish(self, entity: str) -> None:
        """Writes the mixed mean of an entity as a row of the model."""
        if self._by is None:
            return
        row, f = self._rows[entity], self._fold_in()
        mixed = self._mixed(row)
        linear = f.num_linear(self._manifest.num_outputs)
        row.linear = np.broadcast_to(mixed[:linear], (self._manifest.num_outputs,)).copy()
        row.basis = np.zeros(self._manifest.num_basis)
        for v, r in enumerate(f.coordinates):
            if self._by.signs[v]:
                row.basis[v] = self._by.signs[v] * f.scale[v] * mixed[linear + r]
        parts = (row.linear, row.basis, row.means, row.loss, row.diagonal, row.cross, row.square, row.right)
        if not all(np.isfinite(part).all() for part in parts):
            raise InputError(f"events of {entity!r} have numbers too far from their field's center")


def fold(model: Model, given: Events, field: str, weights: Optional[Sequence[float]], held: int) -> Overlay:
    """Is Model.fold."""
    history = events_of(model.schema, given)
    if not history:
        return Overlay(model, None, {}, 0)
    by = None if _lists_alone(model, field) else _field_of(model, field)
    if len(history) > MAX_HISTORY:
        raise InputError(f"a history of {len(history)} events, at most {MAX_HISTORY}: leave the oldest out")
    if weights is not None and len(weights := list(weights)) != len(history):
        raise InputError(f"{len(weights)} weights for {len(history)} events")
    if not 0 <= held <= len(history):
        raise InputError(f"{held} events that the version holds, of {len(history)}")
    over = Overlay(model, by, {}, 0)
    for i, event in enumerate(history):
        try:
            over._add(event, 1.0 if weights is None else float(weights[i]), i < held)
        except InputError as error:
            raise InputError(f"event {i}: {error}") from None
    for entity in over.entities:
        over._finish(entity)
    return over


def _lists_alone(model: Model, field: str) -> bool:
    """Reports whether a history is for lists alone: the version has no fold-in, but co-choices."""
    together = model._co_choices
    return model._manifest.fold_in is None and together is not None and field in ("", model.schema.categorical[together.by])


def _field_of(model: Model, field: str) -> FoldInField:
    """Returns the field whose names are folded in, the first of the version's for none."""
    f = model._manifest.fold_in
    if f is None:
        raise NoFoldInError(model._manifest.no_fold_in or "the version was written by a build without it")
    for d in f.fields:
        if field in ("", d.name):
            return d
    raise InputError(f"field {field!r} is none whose names can be folded in")


def _solve(row: EntityRow, prior: Array, block: slice) -> tuple[Array, Array, Array]:
    """Returns the posterior means of some rates, the precisions of their linear weights, and those of their coordinates with the linear weights
    eliminated. If rounding defeats the elimination the diagonal is raised."""
    linear = row.diagonal.shape[1]
    precision = row.diagonal[block] + prior[:linear]
    cross = row.cross[block]
    right = row.right[block] + prior * row.center
    raised = np.einsum("grr->gr", row.square[block])
    rest = row.square[block] - np.einsum("gcr,gcs->grs", cross / precision[:, :, None], cross)
    at, lift = np.arange(len(prior) - linear), 0.0
    while True:
        trial = rest.copy()
        trial[:, at, at] += prior[linear:] + lift * (1 + prior[linear:] + raised)
        try:
            factor = np.linalg.cholesky(trial)
        except np.linalg.LinAlgError:
            factor = np.full_like(trial, np.nan)
        if np.isfinite(factor).all():
            break
        lift = max(1e-12, 100 * lift)
        if lift > 1:  # numbers beyond rounding: the events say nothing
            return np.tile(row.center, (len(trial), 1)), precision, trial
    begin = right[:, linear:] - np.einsum("gcr,gc->gr", cross, right[:, :linear] / precision)
    means = right.copy()
    means[:, linear:] = np.linalg.solve(trial, begin[:, :, None])[:, :, 0]
    means[:, :linear] = (right[:, :linear] - np.einsum("gcr,gr->gc", cross, means[:, linear:])) / precision
    return means, precision, trial


def _rate_loss(f: FoldIn, targets: Array, outputs: Array) -> float:
    """Returns the loss that decides between rates, on the scale of −2 log-likelihood."""
    if f.likelihood == "gaussian":
        return float(np.mean(np.array(f.noise) * (targets - outputs) ** 2))
    if f.likelihood == "logistic":
        return float(_LOGIT_SCALE * np.mean(np.logaddexp(0, -targets * outputs)))
    return float(_LOGIT_SCALE * (_log_sum_exp(outputs) - targets @ outputs))


def _jaakkola(xi: Array) -> Array:
    """Returns tanh(ξ/2)/(2ξ), the curvature of the quadratic bound on the logistic loss (Jaakkola and Jordan 2000, eq. 12)."""
    e = np.exp(-xi)
    found: Array = np.where(xi < 1e-4, 0.25 - xi * xi / 48, (1 - e) / ((1 + e) * 2 * np.maximum(xi, 1e-300)))
    return found


def _logistic_quadratic(targets: Array, outputs: Array, variance: Array) -> tuple[Array, Array]:
    """Returns the curvatures of the quadratics for labels of ±1, and their slopes at the outputs.

    Those of the bound, and, of an output that is alone, from there to those of the loss itself as the output is from two to four standard deviations on the
    side of its label.
    """
    w = _jaakkola(np.sqrt(outputs * outputs + variance))
    slope: Array = 0.5 * targets - w * outputs
    if len(outputs) > 1:
        return w, slope
    signed = np.maximum(targets * outputs, 0)
    sure = np.clip(signed / np.maximum(2 * np.sqrt(variance), 1e-300) - 1, 0, 1)
    e = np.exp(-signed)
    p = e / (1 + e)
    return w + sure * (p / (1 + e) - w), slope + sure * (targets * p - slope)


def _softmax_weight(p: Array, targets: Array) -> Array:
    """Returns the curvature of the quadratic for classes: p, for one that did occur at least that of the bound at its log odds."""
    p = np.clip(p, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    found: Array = np.where(targets == 0, p, np.maximum(p, _jaakkola(np.abs(np.log(p / (1 - p))))))
    return found


def _log_sum_exp(v: Array) -> float:
    return float(v.max() + np.log(np.exp(v - v.max()).sum()))

"""What a model says of an event."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Union

import numpy as np
import numpy.typing as npt

from ._arrays import Array
from ._schema import Schema

#: A number, the name of a class, or names of classes.
Label = Union[float, str, list[str]]
#: Of several events: numbers, or as objects names or lists of names.
Labels = Union[npt.NDArray[np.float64], npt.NDArray[np.object_]]


@dataclass(frozen=True)
class Prediction:
    """What a model says of one event."""

    #: The predicted number: the label of a regression; the expected level of an ordinal label; the class 0 or 1 of a binary one; the position of a
    #: multiclass one; the number of labels of a multilabel one.
    value: float
    #: The predicted names: one of a multiclass label, those with p > ½ of a multilabel one; else None.
    classes: Optional[tuple[str, ...]]
    #: Of 0 and 1, of the classes, or of the levels; None where the link has none.
    probabilities: Optional[tuple[float, ...]]
    outputs: tuple[float, ...]  #: clipped to output_limit of the manifest
    unseen: tuple[str, ...]  #: names outside the vocabulary, as "user=u9"
    absent: tuple[str, ...]  #: fields that the event lacks, which contribute nothing
    label: Label  #: as commands show it: the value, the name of the class or of a binary label, or the list of names
    ranked: Optional[tuple[str, ...]] = None  #: of a multiclass label all classes, those with the largest outputs first; else None
    names: Optional[tuple[str, str]] = None  #: of a binary label that has names, in the order of probabilities; else None


@dataclass(frozen=True)
class Term:
    """What some features of an event add to the outputs: none for the bias, one for a linear term, two for an interaction, of a kernel of degree
    3 three; of trees "(trees)" and the fields that they ask."""

    features: tuple[str, ...]
    contribution: tuple[float, ...]


@dataclass(frozen=True)
class Explanation:
    """A prediction taken apart: the contributions of the terms add up to the outputs before output_limit of the manifest, but for rounding."""

    prediction: Prediction
    terms: tuple[Term, ...]  #: with the largest contribution to any output first


@dataclass(frozen=True)
class Item:
    """A name of a ranking, with what is ranked by: the prediction of a regression or an ordinal label, the probability of 1 of a binary one, that of the
    class otherwise; the output where the link has no probabilities."""

    name: str
    value: float


def predict(schema: Schema, link: str, o: Array, unseen: tuple[str, ...], absent: tuple[str, ...]) -> Prediction:
    """Returns the prediction that the outputs of one event stand for. For one it is twice as fast as the functions below it, which say the same of many."""
    threshold = _threshold(link)
    value = float(o[0])
    classes: Optional[tuple[str, ...]] = None
    probabilities: Optional[tuple[float, ...]] = None
    label: Optional[Label] = None
    ranked: Optional[tuple[str, ...]] = None
    if schema.task == "binary":
        if link == "logistic":
            probabilities = (sigmoid(-value), sigmoid(value))
        value = 1.0 if value > threshold else 0.0
        if (names := schema.label_names) is not None:
            label = names[int(value)]
    elif schema.task == "ordinal" and link == "identity":
        value = min(max(value, 1.0), float(schema.levels))
    elif schema.task == "ordinal":
        value, last, levels = float(schema.levels), 0.0, []
        for v in o:
            below = sigmoid(float(v))
            value -= below
            levels.append(below - last)
            last = below
        probabilities = (*levels, 1 - last)
    elif schema.task == "multiclass":
        best = int(np.argmax(o))
        value, classes, label = float(best), (schema.classes[best],), schema.classes[best]
        ranked = tuple(schema.classes[c] for c in np.argsort(-o, kind="stable"))
        if link == "softmax":
            shares = np.exp(o - o[best])
            probabilities = tuple(map(float, shares / shares.sum()))
    elif schema.task == "multilabel":
        label = _labels_above(schema, link, o)
        value, classes = float(len(label)), tuple(label)
        if link == "logistic":
            probabilities = tuple(sigmoid(float(v)) for v in o)
    return Prediction(value, classes, probabilities, tuple(map(float, o)), unseen, absent, value if label is None else label, ranked, schema.label_names)


def values_of(schema: Schema, link: str, o: Array) -> Array:
    """Returns the predicted numbers of events whose outputs are along the last axis: value of Prediction."""
    found: Array = o[..., 0]
    if schema.task == "binary":
        found = np.where(found > _threshold(link), 1.0, 0.0)
    elif schema.task == "ordinal":
        found = np.clip(found, 1.0, schema.levels) if link == "identity" else schema.levels - sigmoids(o).sum(axis=-1)
    elif schema.task == "multiclass":
        found = np.argmax(o, axis=-1).astype(np.float64)
    elif schema.task == "multilabel":
        found = (o > _threshold(link)).sum(axis=-1).astype(np.float64)
    return found


def probabilities_of(schema: Schema, link: str, o: Array) -> Optional[Array]:
    """Returns the probabilities of events whose outputs are along the last axis: of 0 and 1, of the classes, or of the levels; None where the link has
    none."""
    found: Optional[Array] = None
    if link == "softmax":
        found = np.exp(o - o.max(axis=-1, keepdims=True))
        found /= found.sum(axis=-1, keepdims=True)
    elif link == "ordinal":
        edge = np.zeros((*o.shape[:-1], 1))
        found = np.diff(np.concatenate([edge, sigmoids(o), edge + 1], axis=-1), axis=-1)
    elif link == "logistic" and schema.task == "binary":
        found = sigmoids(o * np.array([-1.0, 1.0]))
    elif link == "logistic" and schema.task == "multilabel":
        found = sigmoids(o)
    return found


def labels_of(schema: Schema, link: str, o: Array) -> Labels:
    """Returns the labels of several events, given their outputs in rows: numbers, or names or lists of names as objects."""
    if schema.task == "multilabel":
        found = np.empty(len(o), dtype=object)
        for i, outputs in enumerate(o):
            found[i] = _labels_above(schema, link, outputs)
        return found
    values = values_of(schema, link, o)
    names = schema.classes if schema.task == "multiclass" else schema.label_names
    return values if names is None else np.array(names, dtype=object)[values.astype(np.int64)]


def classes_of(schema: Schema) -> Optional[Labels]:
    """Returns what probabilities are of, in their order: names, 0 and 1, or levels; None for a regression."""
    if schema.task == "binary":
        return np.array([0.0, 1.0]) if schema.label_names is None else np.array(schema.label_names, dtype=object)
    if schema.task == "ordinal":
        return np.arange(1.0, schema.levels + 1)
    return np.array(schema.classes, dtype=object) if schema.classes else None


def _labels_above(schema: Schema, link: str, o: Array) -> list[str]:
    return [name for name, v in zip(schema.classes, o) if v > _threshold(link)]


def _threshold(link: str) -> float:
    return 0.5 if link == "identity" else 0.0


def sigmoids(x: Array) -> Array:
    """Is sigmoid for each of several numbers."""
    e = np.exp(-np.abs(x))
    found: Array = np.where(x < 0, e / (1 + e), 1 / (1 + e))
    return found


def sigmoid(x: float) -> float:
    """Returns 1/(1 + exp(-x)) without overflow."""
    e = math.exp(-abs(x))
    return e / (1 + e) if x < 0 else 1 / (1 + e)

"""What a model says of an event."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Union

import numpy as np

from ._arrays import Array
from ._schema import Schema

#: A number, the name of a class, or names of classes.
Label = Union[float, str, list[str]]


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
    3 three."""

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
    """Returns the prediction that outputs stand for."""
    threshold = 0.5 if link == "identity" else 0.0
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
        classes = tuple(name for name, v in zip(schema.classes, o) if v > threshold)
        value, label = float(len(classes)), list(classes)
        if link == "logistic":
            probabilities = tuple(sigmoid(float(v)) for v in o)
    return Prediction(value, classes, probabilities, tuple(map(float, o)), unseen, absent, value if label is None else label, ranked, schema.label_names)


def sigmoid(x: float) -> float:
    """Returns 1/(1 + exp(-x)) without overflow."""
    e = math.exp(-abs(x))
    return e / (1 + e) if x < 0 else 1 / (1 + e)

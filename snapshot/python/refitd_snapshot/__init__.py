"""Reads the model snapshots of refitd: verifies, predicts, ranks, explains and folds histories in, as the Go library does.

    import refitd_snapshot

    model = refitd_snapshot.open("snapshots", "ratings")  # alias champion
    model.predict({"user": "u17", "item": "i42"})  # one event, one label
    model.predict(frame)  # many: a list of events, columns, or a table of pandas, polars or pyarrow; an array of labels
    model.predict_proba(frame)  # a row for each, in the order of model.classes_
    model.fold(history).predict({"user": "u17", "item": "i42"})  # with what the user did last

A service follows the alias with watch and asks for the model with each request. A model never changes and may be used by any number of threads.
Values are those of the Go library but for the rounding of sums, 1e-12 of 1 + |output|. Needs numpy; signatures need cryptography, which
"pip install refitd-snapshot[signed]" adds.
"""

from ._errors import (
    BadKeyError,
    BadNameError,
    ChainError,
    ContentsError,
    DigestError,
    ExpiredError,
    FormatError,
    GoldenError,
    InputError,
    NoFoldInError,
    NoProbabilitiesError,
    NotFoundError,
    OlderError,
    SignatureError,
    SnapshotError,
)
from ._events import Event
from ._fold import Overlay
from ._given import Events
from ._keys import Keys, load_keys
from ._model import Model, Position
from ._open import open
from ._prediction import Explanation, Item, Label, Labels, Prediction, Term
from ._schema import Schema
from ._watch import Status, Watcher, watch

__version__ = "0.2.0"

__all__ = [
    "BadKeyError",
    "BadNameError",
    "ChainError",
    "ContentsError",
    "DigestError",
    "Event",
    "Events",
    "ExpiredError",
    "Explanation",
    "FormatError",
    "GoldenError",
    "InputError",
    "Item",
    "Keys",
    "Label",
    "Labels",
    "Model",
    "NoFoldInError",
    "NoProbabilitiesError",
    "NotFoundError",
    "OlderError",
    "Overlay",
    "Position",
    "Prediction",
    "Schema",
    "SignatureError",
    "SnapshotError",
    "Status",
    "Term",
    "Watcher",
    "__version__",
    "load_keys",
    "open",
    "watch",
]

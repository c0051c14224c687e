"""Models, and models with replaced rows for some entities."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Sequence, Union, overload

import numpy as np

from ._arrays import Array
from ._batch import Inputs
from ._cochoices import CoChoices
from ._columns import Columns, Row
from ._contents import Contents
from ._errors import InputError, NoProbabilitiesError
from ._events import Event, Input, Name, Names, read_event
from ._given import Events, read_given
from ._manifest import Manifest
from ._prediction import Explanation, Item, Label, Labels, Prediction, classes_of, labels_of, predict, probabilities_of
from ._schema import Schema
from ._scores import score_all

if TYPE_CHECKING:
    from ._fold import EntityRow, Overlay


class Scorer:
    """What models and overlays have in common: they score events, which are mappings of the schema's fields to values.

    Events that lack a field which is not optional, or have one of another kind, are refused with InputError. It never changes and may be used by any
    number of threads.
    """

    _manifest: Manifest
    _contents: Contents
    _columns: Columns
    _co_choices: Optional[CoChoices]  #: None for none

    def _own(self, event: Input) -> Optional[EntityRow]:
        """Returns the row that replaces the column of the event's entity, None for none."""
        return None

    def _replaced(self) -> tuple[int, Mapping[str, EntityRow]]:
        """Returns the categorical field whose names have rows that replace their columns, and the rows; no rows for none."""
        return -1, {}

    def _chosen(self, entity: str) -> list[int]:
        """Returns the places of the names that an entity has chosen last by a history, oldest first."""
        return []

    def _ranked_field(self) -> int:
        """Returns the field over which names cannot be ranked, since events of theirs are folded in; -1 for none."""
        return -1

    @overload
    def predict(self, given: Event, /, *, event: None = None, events: None = None) -> Label: ...
    @overload
    def predict(self, given: Events, /, *, event: None = None, events: None = None) -> Labels: ...
    @overload
    def predict(self, given: None = None, /, *, event: Event, events: None = None) -> Label: ...
    @overload
    def predict(self, given: None = None, /, *, event: None = None, events: Events) -> Labels: ...
    def predict(self, given: Any = None, /, *, event: Optional[Event] = None, events: Optional[Events] = None) -> Union[Label, Labels]:
        """Returns the label that the model expects of one event, or an array of them, one for each of several.

        A label is what the command "refitd score" shows as prediction: a number, the name of a class, or a list of names. Several events are an iterable
        of mappings, a mapping of columns, or a table of pandas, polars, pyarrow or what follows the Arrow PyCapsule interface. A mapping is columns if a
        categorical or numeric field has a list in it; the names event and events say which it is. None and NaN are missing. Raises InputError with the
        place of a value of another kind, or of a missing one.
        """
        x = self._read(given, event, events)
        if isinstance(x, Input):
            return self._prediction(x).label
        return labels_of(self._manifest.schema, self._manifest.link, score_all(self, x))

    def predict_proba(self, given: Any = None, /, *, event: Optional[Event] = None, events: Optional[Events] = None) -> Array:
        """Returns the probabilities of one event in the order of classes_, or those of several, a row for each. Events are those of predict. Raises
        NoProbabilitiesError, or InputError as predict does."""
        m = self._manifest
        x = self._read(given, event, events)
        found = probabilities_of(m.schema, m.link, self._scored(x) if isinstance(x, Input) else score_all(self, x))
        if found is None:
            raise NoProbabilitiesError(f"a label of task {m.schema.task} with link {m.link} has no probabilities: use predict, or score for the outputs")
        return found

    def score(self, given: Any = None, /, *, event: Optional[Event] = None, events: Optional[Events] = None) -> Array:
        """Returns the m outputs o(x) of one event, before the link, or those of several, a row for each. They are clipped to output_limit of the manifest.
        Events are those of predict, and so are errors. It is no measure of quality, as score of scikit-learn is."""
        x = self._read(given, event, events)
        return self._scored(x) if isinstance(x, Input) else score_all(self, x)

    def prediction(self, event: Event) -> Prediction:
        """Returns the prediction for an event: the label with probabilities, outputs, and what of the event is not known or absent."""
        return self._prediction(self._joined(read_event(self._manifest.schema, event)))

    def predictions(self, events: Events) -> list[Prediction]:
        """Returns the prediction for each of several events, which are those of predict."""
        x = self._read(None, None, events)
        assert isinstance(x, Inputs)
        return [self._predicted(x.event(i), o) for i, o in enumerate(score_all(self, x))]

    @property
    def classes_(self) -> Labels:
        """What the columns of predict_proba are of: the names of classes, those of a binary label or 0 and 1, or the levels from 1. AttributeError for a
        regression, which has none."""
        found = classes_of(self._manifest.schema)
        if found is None:
            raise AttributeError(f"a label of task {self._manifest.schema.task} has no classes")
        return found

    def score_batch(self, events: Iterable[Event]) -> Array:
        """Is score of several events. It is removed in 0.3."""
        warnings.warn("score_batch is removed in 0.3: call score", DeprecationWarning, stacklevel=2)
        return self.score(events=events)

    def topk(
        self,
        event: Event,
        over: str,
        k: int = 10,
        exclude: Names = (),
        class_: Name = "",
        *,
        where: Optional[Mapping[str, Any]] = None,
        rank_by: Optional[Name] = None,
    ) -> list[Item]:
        """Returns the k names of a categorical field with the largest values given the rest of an event, largest first.

        What the event has in that field does not matter. It is exact; names of equal value are in the order of the vocabulary. Names that go with what was
        chosen last are put higher, where the version has co-choices. Names are ordered by their outputs before output_limit of the manifest, and
        values are of those after it: names that the limit makes equal keep their order. exclude are names to leave out, of which those that the vocabulary
        does not have are ignored. class_ is the class to rank by of a multiclass or multilabel model; rank_by is its old name, and is removed in 0.3.
        where has conditions on what tables of the version say of the names, all of which have to hold: by column a name, True or False, a list of them, or a
        mapping with min and max for a number. A name without a value does not pass. Names that only tables know are ranked, too.
        Raises InputError, for what is no name, too.
        """
        from ._topk import topk

        if rank_by is not None:
            warnings.warn("rank_by is removed in 0.3: call topk with class_", DeprecationWarning, stacklevel=2)
            class_ = rank_by
        return topk(self, event, over, k, exclude, class_, where)

    def explain(self, event: Event) -> Explanation:
        """Takes the prediction for an event apart: the exact share of every bias, linear term and pair of features, of every triple where the kernel is of
        degree 3. Raises InputError as predict does, and for an event with more than 512 known features, 89 with triples."""
        from ._explain import explain

        return explain(self, event)

    def _read(self, given: Any, event: Any, events: Any) -> Union[Input, Inputs]:
        """Is read_given, joined with what tables know."""
        x, known = read_given(self._manifest.schema, given, event, events), self._contents.known
        if known is None:
            return x
        return known.join(x) if isinstance(x, Input) else known.join_all(x)

    def _joined(self, event: Input) -> Input:
        known = self._contents.known
        return event if known is None else known.join(event)

    def _prediction(self, event: Input) -> Prediction:
        return self._predicted(event, self._scored(event))

    def _predicted(self, event: Input, o: Array) -> Prediction:
        m = self._manifest
        unseen = self._columns.unseen(event, -1 if (own := self._own(event)) is None else own.field)
        return predict(m.schema, m.link, o, unseen, event.absent(m.schema))

    def _scored(self, event: Input) -> Array:
        return self._manifest.limited(self._finite(event))

    def _finite(self, event: Input) -> Array:
        """Returns the outputs before output_limit of the manifest."""
        o = self._outputs(*self._row(event))[0]
        if not np.isfinite(o).all():
            raise InputError("an output is not finite: a numeric field is too far from its center")
        return o

    def _row(self, event: Input) -> tuple[Row, Optional[EntityRow]]:
        row, own = self._columns.row(event), self._own(event)
        if own is not None and (column := self._columns.column(own.field, event.categorical[own.field])) >= 0:
            row = row.without(column)
        return row, own

    def _outputs(self, row: Row, own: Optional[EntityRow] = None) -> tuple[Array, Array]:
        """Returns the outputs of a row, and of each basis vector the sum over the columns, for the ANOVA kernel of degree 3 that of their products by two.
        Σ_{i<j} a_i a_j = ½((Σa)² − Σa²) (Rendle 2010)."""
        c = self._contents
        with np.errstate(all="ignore"):
            o = c.bias.copy()
            if c.linear is not None:
                o += row.value @ c.linear[row.index]
            if own is not None:
                o += own.linear
            if row.mapped is not None and c.map_weights is not None:
                o += row.mapped @ c.map_weights
            if row.ruled is not None:
                o += row.ruled
            a = c.basis[row.index] * row.value[:, None]
            total = a.sum(0)
            if own is not None:
                total = total + own.basis
            kernel = total * total
            if self._manifest.degree == 3 and self._manifest.kernel == "anova":
                kernel, total = _triples(a if own is None else np.vstack([a, own.basis]))
            elif self._manifest.degree == 3:
                kernel = kernel * total
            elif self._manifest.kernel == "anova":
                squares = (a * a).sum(0)
                if own is not None:
                    squares += own.basis * own.basis
                kernel = (kernel - squares) / 2
            o += kernel @ c.weights
        return o, total


@dataclass(frozen=True)
class Position:
    """Where a model is in the chain of deltas of its version."""

    version: int
    sequence: int  #: of the last delta; 0 is the version as it was published
    digest: str  #: of the last delta, or of the version's manifest
    payload_digest: str  #: where the publisher has said it; else empty
    created: Optional[datetime]  #: when the last delta, or the version, was made
    watermark: Optional[datetime]  #: newest event that the model knows


def _triples(a: Array) -> tuple[Array, Array]:
    """Returns Σ_{i<j<l} a_i a_j a_l and Σ_{i<j} a_i a_j over the rows of a, row by row: power sums would cancel (Blondel et al. 2016)."""
    total, pairs, triples = np.zeros((3, a.shape[1]))
    for row in a:
        triples += row * pairs
        pairs += row * total
        total += row
    return triples, pairs


class Model(Scorer):
    """A published version, verified and tested on its golden events."""

    def __init__(
        self,
        manifest: Manifest,
        contents: Contents,
        signed_by: str = "",
        expires: Optional[datetime] = None,
        before: Optional[Model] = None,
        position: Optional[Position] = None,
        co_choices: Optional[CoChoices] = None,
    ):
        self._manifest = manifest
        self._contents = contents
        self._columns = Columns(manifest.schema, contents, manifest.num_features, None if before is None else before._columns)
        self._position = position or Position(manifest.version, 0, manifest.digest, manifest.payload_digest, manifest.created, manifest.watermark)
        self._co_choices = co_choices if before is None else before._co_choices
        self._signed_by = signed_by
        self._expires = expires

    @property
    def name(self) -> str:
        return self._manifest.model

    @property
    def version(self) -> int:
        return self._manifest.version

    @property
    def digest(self) -> str:
        """Digest of all that scores depend on; after deltas it is empty where none of them said it, and payload_digest computes it."""
        return self._position.payload_digest

    @property
    def position(self) -> Position:
        """Where the model is in the chain of its version."""
        return self._position

    def payload_digest(self) -> str:
        """Computes the digest of all that scores depend on. It takes time and memory as writing the version would."""
        from ._delta import payload_digest

        return payload_digest(self)

    @property
    def manifest(self) -> Mapping[str, Any]:
        """All members of manifest.json but its own digest and a gap of a model that was not published, to be read only."""
        return self._manifest.fields

    @property
    def manifest_digest(self) -> str:
        return self._manifest.digest

    @property
    def schema(self) -> Schema:
        return self._manifest.schema

    @property
    def num_outputs(self) -> int:
        return self._manifest.num_outputs

    @property
    def signed_by(self) -> str:
        """Id of the trusted key that signed the version, empty if the reader had no keys."""
        return self._signed_by

    @property
    def created(self) -> Optional[datetime]:
        return self._manifest.created

    @property
    def expires(self) -> Optional[datetime]:
        """Until when the version may be used, by its manifest or by what was known of a renewal when it was loaded; None is for ever."""
        return self._expires

    def fold(self, history: Events, field: str = "", weights: Optional[Sequence[float]] = None, held: int = 0) -> Overlay:
        """Returns the model with the rows that the entities of labelled events get from these, oldest first, at most 1,000. Entities are the names in the
        first of the fields that the version can fold in, or in the field given. Give all of an entity's recent events, some hundred, also those that
        the version has learned from: the first held of them, which make the row that the version has of an entity as certain as it was, and no more. weights
        say how much each event counts, 1 by default. Raises NoFoldInError, or InputError with the place."""
        from ._fold import fold

        return fold(self, history, field, weights, held)

    def __repr__(self) -> str:
        return f"<refitd model {self.name} version {self.version}>"

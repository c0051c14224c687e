"""Deltas: what changed in a model since its version was published, or since the delta before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Iterable, Optional

import numpy as np

from ._arrays import Array, Indexes, frozen
from ._contents import TYPES, tensor_header
from ._errors import ChainError, ContentsError, DigestError, FormatError, SnapshotError
from ._foldin import check_fold_in
from ._framing import FIXED, MAGIC, SIGNED, header, split
from ._json import Fields, loads, sha256, write_name
from ._keys import Keys
from ._manifest import MAX_MODEL_BYTES, TABLES_FILE, File, Manifest
from ._model import Model, Position
from ._tables import Row, decode_row
from ._trees import FILE as TREES_FILE
from ._trees import Trees
from ._trees import decode as decode_trees

@dataclass(frozen=True)
class Delta:
    """What changed; its values are absolute. None is unchanged."""

    model: str
    base: int  #: version that the chain belongs to
    base_digest: str
    sequence: int
    previous: str  #: digest of the delta before; base_digest for the first
    digest: str
    created: Optional[datetime]
    watermark: Optional[datetime]
    added: tuple[tuple[int, str], ...]  #: fields and names, whose columns follow all others
    table_rows: tuple[tuple[int, str, Optional[Row]], ...]  #: of entities: the place of the table, the name, and None for a row that is gone
    trees: Optional[Trees]
    trees_file: Optional[File]  #: of the trees, as the manifest would have it
    columns: Indexes  #: changed rows, ascending; the last ones are those of added
    linear: Array
    basis: Array
    bias: Optional[Array]
    weights: Optional[Array]
    map_weights: Optional[Array]
    losses: Optional[tuple[tuple[float, ...], ...]]  #: of the fields of the fold-in
    payload_digest: str  #: of the model after it; empty where it does not say


def decode(frame: bytes, shape: Model, keys: Optional[Keys]) -> Delta:
    """Reads one frame for models of the shape of a model. Lengths, digests and the signature, unless keys is None, are verified before the payload is parsed.
    Raises FormatError, DigestError or SignatureError."""
    if split(frame, 0) != len(frame):
        raise FormatError(f"delta: {len(frame)} bytes are not one frame")
    begin = FIXED + int.from_bytes(frame[len(MAGIC) : len(MAGIC) + 4], "little")
    f = header(frame[:begin])
    sequence, end = f.whole("sequence"), begin + f.whole("payload_bytes")
    head, payload = frame[FIXED:begin], frame[begin:end]
    if keys is not None:
        keys.verify(f"delta {sequence} of version {f.whole('base')}", f.text("key_id"), SIGNED + head, frame[end:])
    if sha256(payload) != f.text("payload_sha256"):
        raise DigestError(f"payload of delta {sequence}: it was altered: take it from the publisher again")
    if sequence < 1 or f.whole("base") < 0:
        raise FormatError(f"delta {sequence} after version {f.whole('base')}: they count from 1")
    said = Fields("delta: checked", f.value.get("checked") or {})
    if said.value and not (0 <= said.whole("sequence") <= sequence and said.text("payload_digest")):
        raise FormatError(f"delta {sequence}: checked: {dict(said.value)}")
    added, payload = _names(f.whole("added"), payload, shape._manifest)
    table_rows, payload = _table_rows(f.whole("table_rows"), payload, shape)
    trees, trees_file, payload = _trees(f.whole("trees_bytes"), payload, shape)
    numbers = _Numbers(payload, shape, f)
    return Delta(
        model=f.text("model"),
        base=f.whole("base"),
        base_digest=f.text("base_digest"),
        sequence=sequence,
        previous=f.text("previous"),
        digest="sha256:" + sha256(head),
        created=f.time("created"),
        watermark=f.time("event_time_watermark"),
        added=added,
        table_rows=table_rows,
        trees=trees,
        trees_file=trees_file,
        columns=_ascending(sequence, numbers.columns, len(added)),
        linear=numbers.linear,
        basis=numbers.basis,
        bias=numbers.bias,
        weights=numbers.weights,
        map_weights=numbers.map_weights,
        losses=_losses(sequence, f, shape._manifest),
        payload_digest=said.text("payload_digest") if said.whole("sequence") == sequence else "",
    )


def _names(count: int, payload: bytes, manifest: Manifest) -> tuple[tuple[tuple[int, str], ...], bytes]:
    """Reads the names added, and returns what follows them."""
    named, found, at = list(manifest.schema.named), [], 0
    for i in range(count):
        end = payload.find(b"\n", at)
        if end < 0:
            raise FormatError(f"delta: {i} names, want {count}")
        pair = loads("delta: added name", payload[at:end])
        if not isinstance(pair, list) or len(pair) != 2 or pair[0] not in named or not isinstance(pair[1], str) or not pair[1]:
            raise FormatError(f'delta: added name {i}: want ["field","name"] with a field of the vocabulary')
        found.append((named.index(pair[0]), pair[1]))
        at = end + 1
    return tuple(found), payload[at:]



def _table_rows(count: int, payload: bytes, shape: Model) -> tuple[tuple[tuple[int, str, Optional[Row]], ...], bytes]:
    """Reads rows of tables, which ascend by table and name, and returns what follows them."""
    tables = () if shape._contents.known is None else shape._contents.known.tables
    found: list[tuple[int, str, Optional[Row]]] = []
    at = 0
    for i in range(count):
        end = payload.find(b"\n", at)
        if end < 0:
            raise FormatError(f"delta: {i} rows of tables, want {count}")
        row = decode_row(f"delta: row {i} of tables", payload[at:end], tables)
        if found and found[-1][:2] >= row[:2]:
            raise FormatError(f"delta: row {i} of tables is not behind the one before, by table and name")
        found.append(row)
        at = end + 1
    return tuple(found), payload[at:]


def _trees(size: int, payload: bytes, shape: Model) -> tuple[Optional[Trees], Optional[File], bytes]:
    """Reads trees of so many bytes, if there are any, and returns what follows them."""
    if size == 0:
        return None, None, payload
    if size > len(payload) or shape._contents.trees is None:
        raise FormatError(f"delta: {size} bytes of trees in {len(payload)} bytes, of a version without them or too short")
    content = payload[:size]
    return decode_trees(content, shape._manifest.schema, shape._manifest.num_outputs), File(TREES_FILE, size, sha256(content)), payload[size:]


class _Numbers:
    """The numbers of a payload."""

    def __init__(self, payload: bytes, shape: Model, f: Fields):
        c, m, rows = shape._contents, shape._manifest, f.whole("rows")
        kind = TYPES[c.kind]
        width = 0 if c.linear is None else m.num_outputs
        row = np.dtype([("column", "<u4"), ("linear", kind, (width,)), ("basis", kind, (m.num_basis,))])
        mapped = 0 if c.map_weights is None else c.map_weights.size
        sizes = {"bias": m.num_outputs, "weights": m.num_basis * m.num_outputs, "map_weights": mapped}
        want = rows * row.itemsize + kind.itemsize * sum(n for name, n in sizes.items() if f.flag(name))
        if len(payload) != want:
            raise FormatError(f"delta {f.whole('sequence')}: {len(payload)} bytes of numbers for {rows} rows, want {want}")
        table = np.frombuffer(payload, row, rows)
        self.columns: Indexes = table["column"].astype(np.int64)
        self.linear, self.basis = frozen(table["linear"]), frozen(table["basis"])
        at = rows * row.itemsize
        parts: dict[str, Array] = {}
        for name, n in sizes.items():
            if f.flag(name):
                parts[name] = frozen(np.frombuffer(payload, kind, n, at))
                at += n * kind.itemsize
        self.bias, self.weights, self.map_weights = (parts.get(name) for name in sizes)
        for values in (self.linear, self.basis, *parts.values()):
            if not np.isfinite(values).all():
                raise FormatError(f"delta {f.whole('sequence')}: a number is not finite")


def _ascending(sequence: int, columns: Indexes, added: int) -> Indexes:
    known = len(columns) - added
    if np.any(np.diff(columns) <= 0) or np.any(columns > (1 << 31) - 1):
        raise FormatError(f"delta {sequence}: its columns do not ascend")
    if known < 0 or added and columns[-1] - columns[known] != added - 1:
        raise FormatError(f"delta {sequence}: {added} names are added with {len(columns)} rows: the last rows have to be theirs")
    return columns


def _losses(sequence: int, f: Fields, manifest: Manifest) -> Optional[tuple[tuple[float, ...], ...]]:
    if f.value.get("fold_in_losses") is None:
        return None
    losses = tuple(Fields("delta", {"losses": part}).numbers("losses") for part in f.items("fold_in_losses"))
    fields = () if manifest.fold_in is None else manifest.fold_in.fields
    if [len(part) for part in losses] != [len(d.rates) for d in fields]:
        raise FormatError(f"delta {sequence}: losses of the rates of {len(losses)} fields of the fold-in, which the version has otherwise")
    return losses


def apply(model: Model, frames: Iterable[bytes], keys: Optional[Keys]) -> tuple[Model, Optional[SnapshotError]]:
    """Returns the model after the deltas of frames, up to the first one that is refused, and why that is. It takes O(model) once, whatever the number of
    deltas. Refused are deltas out of order or of another chain (ChainError), with rows or names that the model cannot have (ContentsError), and those
    that decode refuses."""
    state, refused = _State(model), None
    for frame in frames:
        try:
            state.take(decode(frame, model, keys))
        except SnapshotError as error:
            refused = error
            break
    return state.result(), refused


class _State:
    """A model to which deltas are applied."""

    def __init__(self, model: Model):
        self._model = model
        self._manifest, self._contents, self._position = model._manifest, model._contents, model._position
        self._rows = len(model._contents.basis)
        self._fresh: set[tuple[int, str]] = set()
        self._deltas: list[Delta] = []

    def take(self, d: Delta) -> None:
        """Checks that a delta follows, and keeps it."""
        at, m, where = self._position, self._manifest, f"delta {d.sequence} of {d.model} version {d.base}"
        if d.model != m.model or d.base != m.version or d.base_digest != m.digest:
            raise ChainError(f"{where} does not belong to {m.model} version {m.version} with manifest {m.digest}: take the deltas of that version")
        if d.sequence != at.sequence + 1:
            raise ChainError(f"{where}: the model is at delta {at.sequence}: take the one after it")
        if d.previous != at.digest:
            raise ChainError(f"{where} follows {d.previous}, the model is at {at.digest}: read the version again, and its deltas from the first")
        known = d.columns[: len(d.columns) - len(d.added)]
        if len(known) and known[-1] >= self._rows or d.added and d.columns[len(known)] != self._rows:
            raise ContentsError(f"{where}: its columns are not those of the model, which has {self._rows}")
        fresh = set(d.added)
        if len(fresh) != len(d.added) or fresh & self._fresh or any(self._model._columns.column(f, name) >= 0 for f, name in fresh):
            raise ContentsError(f"{where}: a name is added that the model has")
        fold_in = m.fold_in
        if d.losses is not None and fold_in is not None:
            fold_in = replace(fold_in, fields=tuple(replace(field, losses=part) for field, part in zip(fold_in.fields, d.losses)))
        c = self._contents
        c = replace(
            c,
            bias=c.bias if d.bias is None else d.bias,
            weights=c.weights if d.weights is None else d.weights.reshape(c.weights.shape),
            map_weights=c.map_weights if d.map_weights is None or c.map_weights is None else d.map_weights.reshape(c.map_weights.shape),
            added=c.added + d.added,
            trees=c.trees if d.trees is None else d.trees,
        )
        rows = self._rows + len(d.added)
        total = rows * (m.num_basis + (0 if c.linear is None else m.num_outputs)) + c.weights.size + c.bias.size
        if total > MAX_MODEL_BYTES // 8:
            raise ContentsError(f"{where}: {total} parameters, the limit is {MAX_MODEL_BYTES // 8}")
        if d.weights is not None and fold_in is not None:
            try:
                check_fold_in(fold_in, m.schema, m.link, m.kernel, m.degree, c.weights)
            except FormatError as error:
                raise ContentsError(f"{where}: {error}") from None
        self._contents, self._manifest, self._rows = c, replace(m, fold_in=fold_in, trees=d.trees_file or m.trees), rows
        self._fresh |= fresh
        self._position = Position(at.version, d.sequence, d.digest, d.payload_digest, d.created, d.watermark or at.watermark)
        self._deltas.append(d)

    def result(self) -> Model:
        """Returns the model after the deltas taken."""
        if not self._deltas:
            return self._model
        c = self._contents
        basis, linear = _grown(c.basis, self._rows), None if c.linear is None else _grown(c.linear, self._rows)
        for d in self._deltas:
            basis[d.columns] = d.basis
            if linear is not None:
                linear[d.columns] = d.linear
        known = None if c.known is None else c.known.changed(row for d in self._deltas for row in d.table_rows)
        contents = replace(c, basis=frozen(basis), linear=None if linear is None else frozen(linear), known=known)
        return Model(self._manifest, contents, self._model._signed_by, self._model._expires, self._model, self._position)


def _grown(rows: Array, count: int) -> Array:
    out = np.zeros((count, rows.shape[1]))
    out[: len(rows)] = rows
    return out


def payload_digest(model: Model) -> str:
    """Returns the digest of the version that a model is: names added stand behind the others of their field."""
    m, c, schema = model._manifest, model._contents, model.schema
    named = [model._columns.candidates(f) for f in range(len(schema.named))]
    extra = np.arange(m.num_features - schema.num_extra, m.num_features)
    order = np.concatenate([*(columns for columns, _ in named), extra]).astype(np.int64)
    tensors = [c.basis[order], c.weights, *([] if c.linear is None else [c.linear[order]]), c.bias]
    if c.map_weights is not None and schema.feature_map is not None:
        tensors += [c.map_weights, *(c.tables[name] for name, _ in schema.feature_map.tables())]
    whole = replace(m, num_features=len(order))
    if c.known is not None:
        tables = c.known.encode()
        whole = replace(whole, tables=File(TABLES_FILE, len(tables), sha256(tables)))
    header, _ = tensor_header(whole, c.linear is not None, c.kind)
    content = header + b"".join(t.astype(TYPES[c.kind]).tobytes() for t in tensors)
    lines = (f"[{write_name(field)},{write_name(name)}]\n" for field, (_, names) in zip(schema.named, named) for name in names)
    return whole.payload_digest_of(sha256(content), sha256("".join(lines).encode()))

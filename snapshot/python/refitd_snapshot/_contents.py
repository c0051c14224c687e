"""The files of a version: parameters, names and golden events."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from ._arrays import Array, frozen
from ._errors import FormatError
from ._foldin import check_fold_in
from ._json import loads
from ._manifest import MAX_MODEL_BYTES, Manifest
from ._tables import Tables
from ._tables import decode as decode_tables
from ._trees import Trees, decode

TYPES: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4")}


@dataclass(frozen=True)
class Contents:
    """The parameters of a model, in doubles whatever type they are stored in, and its names."""

    basis: Array  #: d×k
    weights: Array  #: k×m
    linear: Optional[Array]  #: d×m
    bias: Array  #: m
    map_weights: Optional[Array]  #: D×m
    tables: dict[str, Array] = field(default_factory=dict)  #: the tensors of a feature map
    vocabulary: tuple[tuple[str, ...], ...] = ()  #: names per field of Schema.named, in column order
    added: tuple[tuple[int, str], ...] = ()  #: field and name of columns that deltas added behind all others
    kind: str = "F64"  #: type in which the numbers are stored
    trees: Optional[Trees] = None  #: rules that are added to the outputs
    known: Optional[Tables] = None  #: what is known of entities


def tensor_header(manifest: Manifest, linear: bool, kind: str) -> tuple[bytes, list[tuple[str, tuple[int, ...]]]]:
    """Returns the one header that a shape has, and its tensors in order."""
    d, m, k = manifest.num_features, manifest.num_outputs, manifest.num_basis
    tensors: list[tuple[str, tuple[int, ...]]] = [("basis", (d, k)), ("weights", (k, m))]
    if linear:
        tensors.append(("linear", (d, m)))
    tensors.append(("bias", (m,)))
    feature_map = manifest.schema.feature_map
    if feature_map is not None:
        tensors += [("map_weights", (feature_map.num_columns, m)), *feature_map.tables()]
    total = sum(math.prod(shape) for _, shape in tensors)
    if total > MAX_MODEL_BYTES // 8:
        raise FormatError(f"model.safetensors: {total} parameters, the limit is {MAX_MODEL_BYTES // 8}")
    text, offset = '{"__metadata__":{"format":"refitd 1"}', 0
    for name, shape in tensors:
        end = offset + TYPES[kind].itemsize * math.prod(shape)
        sizes = ",".join(map(str, shape))
        text += f',"{name}":{{"dtype":"{kind}","shape":[{sizes}],"data_offsets":[{offset},{end}]}}'
        offset = end
    text += "}"
    text += " " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text.encode(), tensors


def _decode_tensors(manifest: Manifest, content: bytes) -> tuple[str, dict[str, Array]]:
    """Reads model.safetensors, which has the one header of the shape that the manifest says: there is no offset in it to be trusted."""
    for kind in TYPES:
        for linear in (False, True):
            header, tensors = tensor_header(manifest, linear, kind)
            if not content.startswith(header):
                continue
            dtype, at = TYPES[kind], len(header)
            want = at + dtype.itemsize * sum(math.prod(shape) for _, shape in tensors)
            if len(content) != want:
                raise FormatError(f"model.safetensors: {len(content)} bytes, want {want}")
            found = {}
            for name, shape in tensors:
                size = math.prod(shape)
                found[name] = frozen(np.frombuffer(content, dtype, size, at).reshape(shape))
                if not np.isfinite(found[name]).all():
                    raise FormatError(f"model.safetensors: {name} has a number that is not finite")
                at += size * dtype.itemsize
            return kind, found
    d, m, k = manifest.num_features, manifest.num_outputs, manifest.num_basis
    raise FormatError(f"model.safetensors: the header is not the one of {d} features, {m} outputs and {k} basis vectors in F64 or F32")


def _decode_vocabulary(manifest: Manifest, content: bytes) -> tuple[tuple[str, ...], ...]:
    """Reads the lines ["field","name"], whose fields are in the order of the schema."""
    lines = content.split(b"\n")
    if lines.pop() != b"":
        raise FormatError("vocabulary: the last line has no end")
    pairs: list[Any] = loads("vocabulary", b"[" + b",".join(lines) + b"]")
    names: dict[str, list[str]] = {field: [] for field in manifest.schema.named}
    order = list(names)
    at = 0
    for number, pair in enumerate(pairs, 1):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str) or pair[0] not in names:
            raise FormatError(f'vocabulary, line {number}: want ["field","name"] with a field of the schema')
        while order[at] != pair[0]:
            at += 1
            if at == len(order):
                raise FormatError(f"vocabulary, line {number}: the fields are not in the order of the schema")
        names[pair[0]].append(pair[1])
    if len(pairs) != len(lines):
        raise FormatError(f"vocabulary: {len(pairs)} names on {len(lines)} lines")
    return tuple(map(tuple, names.values()))


def decode_contents(manifest: Manifest, tensors: bytes, names: bytes, trees: Optional[bytes] = None, tables: Optional[bytes] = None) -> Contents:
    """Reads parameters and names, and trees and tables, if there are some. Raises FormatError unless they fit each other and the manifest."""
    manifest.check_shape()
    kind, found = _decode_tensors(manifest, tensors)
    vocabulary = _decode_vocabulary(manifest, names)
    columns = sum(map(len, vocabulary)) + manifest.schema.num_extra
    if columns != manifest.num_features:
        raise FormatError(f"{manifest.num_features} features, but vocabulary and schema have {columns} columns")
    edges = found.get("map_edges")
    if edges is not None and np.any(np.diff(edges, axis=1) < 0):
        raise FormatError("map_edges: an edge is less than the one before")
    for field, list_ in zip(manifest.schema.named, vocabulary):
        if "" in list_ or len(set(list_)) != len(list_):
            raise FormatError(f"vocabulary: field {field!r} has an empty or repeated name")
    rules = None if trees is None else decode(trees, manifest.schema, manifest.num_outputs)
    said = any(np.any(v) for name, v in found.items() if name in ("weights", "linear", "bias", "map_weights"))
    if rules is not None:
        said = said or any(np.any(tree.leaves) for tree in rules.trees)
    if manifest.link != "identity" and not said:
        raise FormatError("all weights, linear terms and biases are zero: the model says nothing")
    if manifest.fold_in is not None:
        check_fold_in(manifest.fold_in, manifest.schema, manifest.link, manifest.kernel, manifest.degree, found["weights"])
    return Contents(
        basis=found.pop("basis"),
        weights=found.pop("weights"),
        linear=found.pop("linear", None),
        bias=found.pop("bias"),
        map_weights=found.pop("map_weights", None),
        tables=found,
        vocabulary=vocabulary,
        kind=kind,
        trees=rules,
        known=None if tables is None else decode_tables(tables, manifest.schema),
    )

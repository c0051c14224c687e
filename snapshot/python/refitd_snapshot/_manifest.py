"""The manifest of a version: what it is, where it comes from, and the digests of its files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Mapping, Optional

import numpy as np

from . import _cochoices, _trees
from ._arrays import Array
from ._errors import DigestError, FormatError
from ._foldin import FoldIn, read_fold_in
from ._json import Fields, loads, sha256, write
from ._schema import MAX_OUTPUTS, Schema, read_schema

FORMAT_VERSION = 8  # the newest version of the format that this build reads
_DEGREE_FORMAT = 5  # of kernels of degree 3
_TREES_FORMAT = 7
_TABLES_FORMAT = 8
TABLES_FILE = "tables"
_MAX_TABLES_BYTES = 1 << 30
MAX_MANIFEST_BYTES = 64 << 10
MAX_MODEL_BYTES = 256 << 20
_MAX_HEADER_BYTES = 1 << 10
_MAX_NAMES_BYTES = 256 << 20
_MAX_GOLDEN_BYTES = 16 << 20
MAX_CUT_BYTES = 32 << 20
_MAX_COLUMNS = (1 << 31) - 1
_TAIL, _END = b'  "manifest_digest": "sha256:', b'"\n}\n'
_TAIL_BYTES = len(_TAIL) + 64 + len(_END)

# The files of a version without its manifest, in the manifest's order, and what they may take.
FILES = {
    "model.safetensors": MAX_MODEL_BYTES + _MAX_HEADER_BYTES,
    "vocabulary": _MAX_NAMES_BYTES,
    "golden.jsonl": _MAX_GOLDEN_BYTES,
}


@dataclass(frozen=True)
class File:
    """One file of a version, as the manifest vouches for it."""

    name: str
    size: int
    sha256: str

    def verify(self, content: bytes) -> None:
        """Raises DigestError unless the content is what was published."""
        found = sha256(content)
        if len(content) != self.size or found != self.sha256:
            raise DigestError(
                f"{self.name}: {len(content)} bytes with SHA-256 {found}, published with {self.size} bytes and {self.sha256}: "
                "restore the file or take another version"
            )


@dataclass(frozen=True)
class Manifest:
    """manifest.json. What scores do not depend on is in fields alone."""

    fields: Mapping[str, Any]  #: all that it has, as JSON; see _settled
    digest: str
    format: int
    model: str
    version: int
    created: Optional[datetime]
    expires: Optional[datetime]  #: readers refuse it from then on; None is never
    watermark: Optional[datetime]  #: newest event time
    kernel: str
    degree: int  #: of the kernel: 2 or 3
    link: str
    num_features: int
    num_outputs: int
    num_basis: int
    output_limit: float  #: largest magnitude of an output; 0 for no limit
    schema: Schema
    fold_in: Optional[FoldIn]
    no_fold_in: str
    files: tuple[File, ...]
    cut_file: Optional[File]
    co_choices: Optional[File]  #: has what lists know of names that are chosen together
    trees: Optional[File]  #: has rules of if and else
    tables: Optional[File]  #: has what is known of entities
    payload_digest: str

    def limited(self, outputs: Array) -> Array:
        """Returns finite outputs, clipped to output_limit."""
        return np.clip(outputs, -self.output_limit, self.output_limit) if self.output_limit > 0 else outputs

    def check_files(self) -> None:
        """Raises FormatError unless the files are those of the format, within its limits."""
        if len(self.files) != len(FILES):
            raise FormatError(f"manifest.json: {len(self.files)} files, want {len(FILES)}")
        for f, (name, most) in zip(self.files, FILES.items()):
            if f.name != name or not 0 <= f.size <= most:
                raise FormatError(f"manifest.json: file {f.name!r} of {f.size} bytes, want {name} of at most {most}")
        for x, name, most in (
            (self.co_choices, _cochoices.FILE, _cochoices.MAX_BYTES),
            (self.trees, _trees.FILE, _trees.MAX_BYTES),
            (self.tables, TABLES_FILE, _MAX_TABLES_BYTES),
        ):
            if x is not None and (x.name != name or not 0 < x.size <= most):
                raise FormatError(f"manifest.json: file {x.name!r} of {x.size} bytes, want {name} of at most {most}")
        c = self.cut_file
        if c is not None and (c.name != "cut.json" or not 0 <= c.size <= MAX_CUT_BYTES):
            raise FormatError(f"manifest.json: file {c.name!r} of {c.size} bytes, want cut.json of at most {MAX_CUT_BYTES}")

    def payload_digest_of(self, tensors: str, names: str) -> str:
        """Returns the digest of all that scores depend on, given those of the two files in hex."""
        head = {
            "kernel": self.kernel,
            "degree": self.degree,
            "link": self.link,
            "features": self.num_features,
            "outputs": self.num_outputs,
            "k": self.num_basis,
            "schema": self.schema.digested,
        }
        text = f"{write(head)}\n{tensors}\n{names}\n"
        if self.trees is not None:
            text += f"{self.trees.sha256}\n"
        if self.tables is not None:
            text += f"tables {self.tables.sha256}\n"
        return "sha256:" + sha256(text.encode("utf-8", "replace"))

    def check_payload(self) -> None:
        """Raises DigestError unless that digest is the one of the fields and files, and FormatError where members of a newer format
        are what is missing."""
        found = self.payload_digest_of(self.files[0].sha256, self.files[1].sha256)
        if found != self.payload_digest and self.schema.unknown:
            raise FormatError(
                f"manifest.json: this build does not know {', '.join(sorted(self.schema.unknown))}, on which scores depend: "
                "the version is of a newer format: use a newer build of this package"
            )
        if found != self.payload_digest:
            raise DigestError(f"manifest.json: payload_digest is {self.payload_digest}, the files have {found}")

    def check_shape(self) -> None:
        """Raises FormatError unless schema, kernel, link and the three sizes belong together."""
        self.schema.check()
        if self.kernel not in ("anova", "homogeneous"):
            raise FormatError(f"manifest.json: kernel {self.kernel!r} is not anova or homogeneous")
        if self.degree not in (2, 3):
            raise FormatError(f"manifest.json: kernel of degree {self.degree}: this build has degrees 2 and 3")
        d, m, k = self.num_features, self.num_outputs, self.num_basis
        if not (0 <= d <= _MAX_COLUMNS and 1 <= m <= MAX_OUTPUTS and 0 <= k <= _MAX_COLUMNS):
            raise FormatError(f"manifest.json: {d} features, {m} outputs, {k} basis vectors: out of range")
        task = self.schema.task
        links = {"binary": ("logistic",), "ordinal": ("ordinal",), "multiclass": ("logistic", "softmax"), "multilabel": ("logistic",)}
        if self.link != "identity" and self.link not in links.get(task, ()):
            raise FormatError(f"manifest.json: link {self.link!r} does not go with task {task}")
        want = 1
        if task in ("multiclass", "multilabel"):
            want = len(self.schema.classes)
        elif self.link == "ordinal":
            want = self.schema.levels - 1
        if m != want:
            raise FormatError(f"manifest.json: {m} outputs, task {task} with link {self.link} has {want}")


def decode_manifest(content: bytes) -> Manifest:
    """Checks the digest of a manifest before it reads it. Unknown fields are passed over: the format may grow."""
    what = "manifest.json"
    cut = len(content) - _TAIL_BYTES
    if cut < 0 or len(content) > MAX_MANIFEST_BYTES:
        raise DigestError(f"{what} of {len(content)} bytes: publish the version again")
    digest = sha256(content[:cut])
    if content[cut:] != _TAIL + digest.encode() + _END:
        raise DigestError(
            f"{what} does not end in the digest of the bytes before it, sha256:{digest}: "
            "take another version or publish again"
        )
    f = Fields(what, loads(what, content))
    version = f.whole("format")
    if version > FORMAT_VERSION:
        raise FormatError(f"{what}: format {version} is newer than this build, which reads 1 to {FORMAT_VERSION}: use a newer build of this package")
    if version < 1:
        raise FormatError(f"{what}: format {version}, this build reads 1 to {FORMAT_VERSION}: publish the version again")
    schema = read_schema(Fields("schema", f.value.get("schema") or {}))
    needs = max(_DEGREE_FORMAT if f.whole("degree") > 2 else 1, schema.format)
    for member, least in (("trees", _TREES_FORMAT), ("tables", _TABLES_FORMAT)):
        needs = needs if f.value.get(member) is None else max(needs, least)
    if version < needs:
        raise FormatError(f"{what}: what the version has is of format {needs}, not {version}: publish it again")
    return Manifest(
        fields=_settled(f.value),
        digest="sha256:" + digest,
        format=version,
        model=f.text("model"),
        version=f.whole("version"),
        created=f.time("created"),
        expires=f.time("expires"),
        watermark=f.time("event_time_watermark"),
        kernel=f.text("kernel"),
        degree=f.whole("degree"),
        link=f.text("link"),
        num_features=f.whole("features"),
        num_outputs=f.whole("outputs"),
        num_basis=f.whole("k"),
        output_limit=f.number("output_limit"),
        schema=schema,
        fold_in=read_fold_in(f),
        no_fold_in=f.text("no_fold_in"),
        files=tuple(map(_file, f.objects("files"))),
        cut_file=None if f.value.get("cut_file") is None else _file(Fields(f"{what}: cut_file", f.value["cut_file"])),
        co_choices=None if f.value.get("co_choices") is None else _file(Fields(f"{what}: co_choices", f.value["co_choices"])),
        trees=None if f.value.get("trees") is None else _file(Fields(f"{what}: trees", f.value["trees"])),
        tables=None if f.value.get("tables") is None else _file(Fields(f"{what}: tables", f.value["tables"])),
        payload_digest=f.text("payload_digest"),
    )


def _settled(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Says the form of a version whose trainer did not (convex, variational or update), and leaves out the gap where that was of the convex stage and the
    model is not."""
    settled = dict(fields)
    kind, solver, sweeps = fields.get("kind"), fields.get("solver"), fields.get("sweeps")
    if not fields.get("form") and kind in ("refit", "update"):
        swept = isinstance(sweeps, int) and sweeps > 0 or isinstance(solver, str) and "variational" in solver
        settled["form"] = "update" if kind == "update" else "variational" if swept else "convex"
    if settled.get("form") in ("variational", "update"):
        for name in ("gap_kind", "gap_limit", "nuclear_norm"):
            settled.pop(name, None)
        settled.update(gap=None, gap_relative=None, basis_gap=None, basis_gap_relative=None)
    return settled


def _file(f: Fields) -> File:
    return File(f.text("name"), f.whole("bytes"), f.text("sha256"))

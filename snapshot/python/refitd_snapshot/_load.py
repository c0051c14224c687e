"""Reads, verifies and tests versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable, Optional

import numpy as np

from . import _cochoices
from ._alias import Pointer
from ._contents import decode_contents
from ._errors import DigestError, ExpiredError, FormatError, GoldenError, InputError, NotFoundError
from ._events import parse_event
from ._json import Fields, loads
from ._keys import Keys
from ._manifest import MAX_MANIFEST_BYTES, File, decode_manifest
from ._model import Model

_MAX_SIGNATURE_BYTES = 512
_TOLERANCE = 1e-9  # of golden outputs, relative to 1 + |want|: sums may be rounded differently

#: Reads a file of one version, of at most so many bytes; None if it is missing.
Read = Callable[[str, int], Optional[bytes]]


def now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True)
class Trust:
    """What a reader asks of a version besides digests and golden events."""

    keys: Optional[Keys] = None  #: versions and aliases have to be signed by one of them; None accepts unsigned ones
    allow_expired: bool = False
    now: Callable[[], datetime] = now

    def load(self, model: str, pointer: Pointer, read: Read) -> Model:
        """Reads, verifies, parses and tests the version that a pointer names, in this order: size of the manifest, signature over its bytes, its digest,
        that it is the version that the pointer names, expiry, sizes and digests of the files; and only then the files are parsed."""
        raw = _present("manifest.json", read("manifest.json", MAX_MANIFEST_BYTES))
        signed_by = ""
        if self.keys is not None:
            signed_by = self.keys.verify_manifest(raw, read("manifest.sig", _MAX_SIGNATURE_BYTES))
        manifest = decode_manifest(raw)
        if manifest.model != model or manifest.version != pointer.version:
            raise DigestError(f"the manifest is that of model {manifest.model} version {manifest.version}: restore the directory")
        if pointer.manifest_digest and pointer.manifest_digest != manifest.digest:
            raise DigestError(
                f"the alias names manifest {pointer.manifest_digest}, version {pointer.version} has {manifest.digest}: set the alias again"
            )
        expires = expiry(pointer, manifest.expires)
        if not self.allow_expired and expires is not None and self.now() >= expires:
            raise ExpiredError(f"version {pointer.version} was valid until {expires.isoformat()}: publish a new one")
        manifest.check_files()
        files = []
        for f in manifest.files:
            content = _present(f.name, read(f.name, f.size))
            f.verify(content)
            files.append(content)
        manifest.check_payload()
        trees = None if manifest.trees is None else _block(read, manifest.trees)
        tables = None if manifest.tables is None else _block(read, manifest.tables)
        contents, together = decode_contents(manifest, files[0], files[1], trees, tables), None
        if manifest.co_choices is not None:
            content = _block(read, manifest.co_choices)
            together = _cochoices.decode(content, manifest.schema, contents.vocabulary)
        loaded = Model(manifest, contents, signed_by, expires, co_choices=together)
        check_golden(loaded, files[2])
        return loaded


def expiry(pointer: Pointer, expires: Optional[datetime]) -> Optional[datetime]:
    """Returns until when a version may be used: what its manifest says, or the renewal if that is later. None is for ever."""
    renewed = pointer.renewal.expires
    return renewed if expires is not None and renewed is not None and renewed > expires else expires


def _block(read: Read, f: File) -> bytes:
    """Returns a file that a version may have, verified."""
    content = _present(f.name, read(f.name, f.size))
    f.verify(content)
    return content


def _present(name: str, content: Optional[bytes]) -> bytes:
    if content is None:
        raise NotFoundError(f"{name}: the version is incomplete or was just pruned")
    return content


def check_golden(model: Model, content: bytes) -> None:
    """Raises GoldenError unless the events of golden.jsonl score as they were published."""
    lines = content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        where = f"golden.jsonl, line {number}"
        f = Fields(where, loads(where, line))
        want = f.numbers("outputs")
        event = Fields(where, f.value.get("event")).value
        try:
            parse_event(model.schema, event)
        except InputError as error:
            raise FormatError(f"{where}: {error}") from None
        try:
            found = model.prediction(event)
        except InputError as error:
            raise GoldenError(f"{where}: {error}") from None
        advice = "use the build of refitd that wrote the version"
        if not _close(found.outputs, want):
            raise GoldenError(f"{where}: outputs {found.outputs}, published with {want}: {advice}")
        label: Any = f.value.get("prediction")
        # Names are not compared: outputs that are equal but for rounding may lie on either side of a tie.
        if isinstance(label, (int, float)) and model.schema.task != "binary" and not _close((found.value,), (float(label),)):
            raise GoldenError(f"{where}: prediction {found.value}, published with {label}: {advice}")
    if not lines:
        raise FormatError("golden.jsonl: no golden events")


def _close(got: tuple[float, ...], want: tuple[float, ...]) -> bool:
    return len(got) == len(want) and bool(np.all(np.abs(np.subtract(got, want)) <= _TOLERANCE * (1 + np.abs(want))))

"""Versions that are read once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Callable, Mapping, Optional

from . import _load
from ._alias import Pointer, check_name
from ._delta import apply
from ._errors import NotFoundError
from ._json import loads
from ._keys import KeysLike, PathLike, keys_of
from ._model import Model
from ._source import Source, source_of

_MAX_REREADS = 100  # of an alias whose version was pruned before it was read


def open(
    store: PathLike,
    model: str,
    version: Optional[int] = None,
    alias: str = "champion",
    keys: KeysLike = None,
    *,
    allow_expired: bool = False,
    headers: Optional[Mapping[str, str]] = None,
    deltas: bool = False,
    now: Callable[[], datetime] = _load.now,
) -> Model:
    """Reads a version of a model: the one that an alias names, or the one of a number.

    store is the directory of a store or the URL of a daemon, to which headers are sent. keys are the public keys that have to have signed versions and
    aliases: a PEM file, several, or Keys; None accepts unsigned ones. Nothing is parsed before its signature, where there are keys, its size and its
    digest are verified, and the model is returned only once its golden events score as published. With deltas, what changed since the version was
    published is applied, as far as it is there. Raises NotFoundError, BadNameError, SignatureError,
    DigestError, FormatError, ExpiredError or GoldenError, and of deltas ChainError or ContentsError, too.
    """
    source, trust = source_of(store, headers), _load.Trust(keys_of(keys), allow_expired, now)
    if version is not None:
        check_name("model", model)
        return _changed(source, trust, _read(source, trust, model, Pointer(version=version)), deltas)
    last = Pointer()
    for _ in range(_MAX_REREADS):
        pointer = source.alias(model, alias)
        pointer.verify(model, alias, trust.keys)
        pointer = replace(pointer, renewal=pointer.verified_renewal(model, alias, trust.keys))
        try:
            return _changed(source, trust, _read(source, trust, model, pointer), deltas)
        except NotFoundError:
            if pointer.same(last):
                raise
        last = pointer  # it may have been pruned since: see whether the alias has moved on
    raise NotFoundError(f"the alias moved {_MAX_REREADS} times while it was read: prune less often")


def _changed(source: Source, trust: _load.Trust, model: Model, deltas: bool) -> Model:
    """Applies the deltas that are there, if it is to."""
    while deltas and (frames := source.deltas(model.name, model.version, model.position.sequence, None)):
        model, refused = apply(model, frames, trust.keys)
        if refused is not None:
            raise refused
    return model


def _read(source: Source, trust: _load.Trust, model: str, pointer: Pointer) -> Model:
    loaded = trust.load(model, pointer, lambda name, most: source.read(model, pointer.version, name, most))
    cut = loaded._manifest.cut_file
    if cut is not None:
        content = source.read(model, pointer.version, cut.name, cut.size)
        if content is None:
            raise NotFoundError(f"{cut.name}: the version is incomplete or was just pruned")
        cut.verify(content)
        loads(cut.name, content)
    return loaded

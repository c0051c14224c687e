"""The newest acceptable model of an alias."""

from __future__ import annotations

import logging
import os
import random
import tempfile
import threading
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Callable, Mapping, Optional

from . import _load
from ._alias import Pointer, Renewal, check_name, read_pointer
from ._delta import apply
from ._errors import ChainError, FormatError, GoldenError, NotFoundError, OlderError, SnapshotError
from ._json import Fields, loads, write
from ._keys import KeysLike, PathLike, keys_of
from ._model import Model, Position
from ._source import DirSource, source_of

_RETRY_MIN, _RETRY_MAX, _RETRY_ABSENT = 0.25, 5.0, 0.5  # seconds after a failure, doubling; and at most while there is no such alias yet
_MAX_ACCEPTED_BYTES = 4 << 10

_log = logging.getLogger("refitd_snapshot")
_log.addHandler(logging.NullHandler())


class _RefusedError(SnapshotError):
    """A refusal by on_load."""


@dataclass(frozen=True)
class Status:
    """The state of a watcher."""

    version: int = 0  #: loaded; 0 is none
    manifest_digest: str = ""
    payload_digest: str = ""
    signed_by: str = ""  #: id of the key; empty is unsigned or not asked for
    created: Optional[datetime] = None  #: of the version, by its publisher's clock
    watermark: Optional[datetime] = None  #: newest event that it knows
    expires: Optional[datetime] = None  #: by its manifest, or the last renewal of the alias if that is later; None is never
    renewed: Optional[datetime] = None  #: when the publisher last confirmed the alias, which it does every few minutes
    expired: bool = False
    loaded_at: Optional[datetime] = None
    checked: Optional[datetime] = None  #: when the source last answered
    loads: int = 0  #: models loaded since the start
    refused: int = 0  #: versions or aliases refused since the start
    error: Optional[Exception] = None  #: why the newest version is not loaded, or why the source does not answer; None if all is well
    position: Optional[Position] = None  #: of the model that is served: the version, and the last delta after it
    deltas_applied: int = 0  #: since the start
    deltas_refused: int = 0  #: since the start
    delta_error: Optional[Exception] = None  #: why no deltas come: the last one was refused, or the source does not answer


class Watcher:
    """Keeps the newest acceptable model of an alias, on a separate thread. Any number of threads may use it. It is a
    context manager, too."""

    def __init__(
        self,
        store: PathLike,
        model: str,
        alias: str,
        keys: KeysLike,
        state_file: Optional[PathLike],
        pin: Optional[int],
        on_load: Optional[Callable[[Model], None]],
        trust: _load.Trust,
        headers: Optional[Mapping[str, str]],
        every: float,
        deltas: bool,
    ):
        check_name("model", model)
        check_name("alias", alias)
        self._source = source_of(store, headers, every)
        self._name, self._alias, self._trust = model, alias, replace(trust, keys=keys_of(keys))
        self._state_file, self._pin, self._on_load, self._deltas = state_file, pin, on_load, deltas
        self._accepted = self._read_accepted()
        self._lock = threading.Lock()  # of what follows
        self._model: Optional[Model] = None
        self._base: Optional[Model] = None  # the same without deltas
        self._status = Status()
        self._stop = threading.Event()
        self._loaded = threading.Event()  # or closed
        self._threads: list[threading.Thread] = []
        self._start(self._run)

    def _start(self, run: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=run, args=args, name=f"refitd {self._name} {self._alias}", daemon=True)
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

    @property
    def model(self) -> Optional[Model]:
        """The model to score with, None before the first one is loaded, and once it has expired unless that is allowed. Take it once for a request and use it
        for the whole of that request."""
        with self._lock:
            return None if self._is_expired() and not self._trust.allow_expired else self._model

    @property
    def status(self) -> Status:
        """The state of the watcher."""
        with self._lock:
            return replace(self._status, expired=self._is_expired())

    def wait(self, timeout: Optional[float] = None) -> Model:
        """Returns the first model as soon as there is one. Raises TimeoutError with the reason if none is loaded in time."""
        self._loaded.wait(timeout)
        with self._lock:
            if self._model is not None:
                return self._model
            raise TimeoutError(f"watch {self._name}: no model yet: {self._status.error}")

    def close(self) -> None:
        """Stops watching. The last model can still score. A request to a daemon that is under way is not cancelled."""
        self._stop.set()
        self._loaded.set()
        while isinstance(self._source, DirSource) and (alive := [t for t in self._threads if t.is_alive()]):
            alive[0].join()  # the first one starts others

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_expired(self) -> bool:
        return self._status.expires is not None and self._trust.now() >= self._status.expires

    def _note(self, **changes: Any) -> None:
        with self._lock:
            self._status = replace(self._status, **changes)

    def _run(self) -> None:
        """Loads what the alias names until it is stopped."""
        seen = Pointer()  # what wait is asked to return a change of: accepted in this run, or refused for good
        failures = 0
        while not self._stop.is_set():
            most = _RETRY_MAX
            try:
                pointer = self._next(seen)
                if self._stop.is_set():
                    return
                self._note(checked=self._trust.now())
                if pointer.unchanged(seen):
                    continue
                if pointer.same(self._accepted) and self._model is not None:  # renewed, or an alias that was refused is back where it was
                    self._renew(pointer)
                else:
                    self._accept(pointer)
                seen, failures = pointer, 0
                continue
            except (OlderError, GoldenError, _RefusedError):  # reading the same bytes again would change nothing
                seen, failures = pointer, 0
                continue
            except NotFoundError as error:
                most = _RETRY_ABSENT
                self._note(error=error)
            except Exception as error:  # what is missing or damaged may still be on its way to a synchronised directory
                self._note(error=error)
            failures += 1
            self._stop.wait(min(_RETRY_MIN * 2 ** min(failures - 1, 10), most) * random.uniform(0.8, 1.2))

    def _next(self, seen: Pointer) -> Pointer:
        """Asks the source, or the operator's pin."""
        if self._pin is None:
            return self._source.wait(self._name, self._alias, seen, self._stop)
        if seen.version == self._pin:
            self._stop.wait()
        return Pointer(version=self._pin)

    def _accept(self, pointer: Pointer) -> None:
        """Verifies, loads and serves what a pointer names."""
        try:
            pointer = replace(pointer, renewal=self._renewal_of(pointer))
            loaded = self._load(pointer)
            if self._pin is None:
                self._write_accepted(pointer)
        except Exception as error:
            self._note(error=error, refused=self._status.refused + 1)
            _log.warning("version refused", extra={"model": self._name, "alias": self._alias, "version": pointer.version, "error": error})
            raise
        state = self._caught_up(loaded)
        self._accepted = pointer
        manifest = loaded._manifest
        with self._lock:
            self._model, self._base = state, loaded
            self._status = Status(
                version=loaded.version,
                manifest_digest=manifest.digest,
                payload_digest=manifest.payload_digest,
                signed_by=loaded.signed_by,
                created=manifest.created,
                watermark=state.position.watermark,
                expires=loaded.expires,
                renewed=pointer.renewed_at(),
                loaded_at=self._trust.now(),
                checked=self._status.checked,
                loads=self._status.loads + 1,
                refused=self._status.refused,
                position=state.position,
                deltas_applied=self._status.deltas_applied + state.position.sequence,
                deltas_refused=self._status.deltas_refused,
            )
        _log.info("version loaded", extra={"model": self._name, "alias": self._alias, "version": loaded.version})
        if self._deltas:
            self._start(self._run_deltas, loaded, state)
        self._loaded.set()

    def _caught_up(self, loaded: Model) -> Model:
        """Returns an update that is about to be served with the deltas that there are of it: readers do not go back in time for a moment. A refit or an
        earlier version, as by a rollback, is served as it is."""
        served, state = self._base, loaded
        if not self._deltas or served is None or loaded._manifest.fields.get("kind") != "update" or loaded.version < served.version:
            return loaded
        try:
            while frames := self._source.deltas(self._name, loaded.version, state.position.sequence, None):
                state, refused = apply(state, frames, self._trust.keys)
                if refused is not None:
                    break
        except Exception:
            pass  # _run_deltas finds and reports again what is wrong with the next delta
        return state

    def _run_deltas(self, base: Model, state: Model) -> None:
        """Applies the deltas of a version while it is served, until it is stopped. One that is refused changes nothing: the last good state is served on, deltas
        are asked for again, and after a break in the chain all of them from the version on."""
        failures = 0
        while not self._stop.is_set() and self._base is base:
            try:
                frames = self._source.deltas(self._name, base.version, state.position.sequence, self._stop)
                state, refused = apply(state, frames, self._trust.keys)
                self._serve(base, state)
                if refused is not None:
                    raise refused
                failures = 0
                continue
            except ChainError as error:
                failure: Exception = error
                state = base
            except Exception as error:
                failure = error
            if self._base is base:
                self._note(delta_error=failure, deltas_refused=self._status.deltas_refused + isinstance(failure, SnapshotError))
            failures += 1
            self._stop.wait(min(_RETRY_MIN * 2 ** min(failures - 1, 10), _RETRY_MAX) * random.uniform(0.8, 1.2))

    def _serve(self, base: Model, state: Model) -> None:
        """Serves a state of a version, if that is served and the state is newer."""
        with self._lock:
            if self._base is not base or self._model is None:
                return
            gained = state.position.sequence - self._model.position.sequence
            if gained > 0:
                self._model = state
                applied, at = self._status.deltas_applied + gained, state.position
                self._status = replace(self._status, position=at, deltas_applied=applied, watermark=at.watermark)
            if gained >= 0:
                self._status = replace(self._status, delta_error=None)

    def _renewal_of(self, pointer: Pointer) -> Renewal:
        """Returns the newer of a pointer's renewal and the one that was accepted of the same move: a copy may bring back an old one."""
        renewal = pointer.verified_renewal(self._name, self._alias, self._trust.keys)
        accepted = self._accepted.renewal
        if pointer.same(self._accepted) and accepted.renewed is not None and (renewal.renewed is None or accepted.renewed > renewal.renewed):
            return accepted
        return renewal

    def _renew(self, pointer: Pointer) -> None:
        """Takes up the renewal of what is being served, if it is one."""
        renewal = self._renewal_of(pointer)
        assert self._model is not None
        if renewal.renewed == self._accepted.renewal.renewed:
            self._note(error=None)
            return
        self._accepted = replace(self._accepted, renewal=renewal)
        expires = _load.expiry(self._accepted, self._model._manifest.expires)
        self._note(expires=expires, renewed=self._accepted.renewed_at(), error=None)
        self._write_accepted(self._accepted)

    def _load(self, pointer: Pointer) -> Model:
        if self._pin is None:
            pointer.verify(self._name, self._alias, self._trust.keys)
            pointer.follow(self._accepted)
        loaded = self._trust.load(self._name, pointer, lambda name, most: self._source.read(self._name, pointer.version, name, most))
        if self._on_load is not None:
            try:
                self._on_load(loaded)
            except Exception as error:
                raise _RefusedError(f"version {pointer.version}: refused by the program: {error}") from error
        return loaded

    def _read_accepted(self) -> Pointer:
        """Returns the pointer that was accepted last, by the state file, if it would be accepted from the source, too."""
        if self._state_file is None:
            return Pointer()
        where = f"state file {os.fspath(self._state_file)}"
        try:
            with open(self._state_file, "rb") as f:
                content = f.read(_MAX_ACCEPTED_BYTES + 1)
        except FileNotFoundError:
            return Pointer()
        if len(content) > _MAX_ACCEPTED_BYTES:
            raise FormatError(f"{where}: more than {_MAX_ACCEPTED_BYTES} bytes")
        state = Fields(where, loads(where, content))
        if state.text("model") != self._name or state.text("alias") != self._alias:
            raise FormatError(f"{where}: it belongs to model {state.text('model')!r} and alias {state.text('alias')!r}: give each watcher its own")
        last = read_pointer(where, Fields(where, state.value.get("last")))
        last.check(self._name, self._alias)
        try:
            last.verify(self._name, self._alias, self._trust.keys)
        except SnapshotError as error:
            _log.warning("what was accepted before counts for nothing", extra={"model": self._name, "alias": self._alias, "error": error})
            return Pointer()
        return replace(last, renewal=last.verified_renewal(self._name, self._alias, self._trust.keys))

    def _write_accepted(self, pointer: Pointer) -> None:
        """Replaces the state file, durably."""
        if self._state_file is None:
            return
        text = write({"model": self._name, "alias": self._alias, "last": pointer.members()}) + "\n"
        directory = os.path.dirname(os.path.abspath(self._state_file))
        fd, path = tempfile.mkstemp(dir=directory, prefix=".refitd-")
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(text.encode())
                f.flush()
                os.fsync(f.fileno())
            os.replace(path, self._state_file)
        except BaseException:
            os.unlink(path)
            raise


def watch(
    store: PathLike,
    model: str,
    alias: str = "champion",
    keys: KeysLike = None,
    *,
    state_file: Optional[PathLike] = None,
    pin: Optional[int] = None,
    on_load: Optional[Callable[[Model], None]] = None,
    allow_expired: bool = False,
    headers: Optional[Mapping[str, str]] = None,
    deltas: bool = True,
    every: float = 0.25,
    now: Callable[[], datetime] = _load.now,
) -> Watcher:
    """Follows an alias: loads the version that it names, verified and self-tested, then waits for the next one, and so on until close. A version that is
    refused changes nothing: the last good one is served on. It does not wait for the first model.

    store, keys and headers are those of open. Versions may be older than the one before, which is how a rollback arrives, but moves of an alias may
    not. state_file keeps what was accepted last, so that a restart does not fall back to something older; the Go library reads the same file. pin is
    a version to serve whatever the alias says. on_load is called with each version before it is served, on the watcher's thread; an exception refuses
    it. With deltas, what changed since the version was published is applied as it comes, each state as a new model.
    every is the mean pause in seconds between two looks at a directory. What happens is logged by the logger "refitd_snapshot".
    """
    return Watcher(store, model, alias, keys, state_file, pin, on_load, _load.Trust(None, allow_expired, now), headers, every, deltas)

"""Where versions come from: a store that this machine can read, or a daemon. Nothing that they say is trusted."""

from __future__ import annotations

import json
import os
import random
import re
import stat
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Mapping, Optional, Protocol

from ._alias import MAX_ALIAS_BYTES, Pointer, check_name, decode_alias, read_pointer, with_renewal
from ._errors import ChainError, DigestError, FormatError, NotFoundError, SnapshotError
from ._framing import split
from ._json import Fields, loads, write_time
from ._keys import PathLike

_MAX_ANSWER_BYTES = 64 << 10
_LONG_POLL = 10  # seconds that a daemon is asked to hold a request that has no news yet
_PATIENCE = 30  # seconds that an answer may take beyond that
_CHUNK = 1 << 20
_SEGMENT = re.compile(r"[0-9]{12}\.seg")
_MAX_DELTAS_BYTES = 512 << 20  # of one answer
_MAX_SEGMENT_BYTES = 128 << 20  # one is begun anew at 16 MiB, and a delta takes 65 MiB at most


class Source(Protocol):
    """Returns what aliases name, and the files of versions."""

    def alias(self, model: str, alias: str) -> Pointer:
        """Returns what an alias says, unverified. Raises NotFoundError."""

    def wait(self, model: str, alias: str, last: Pointer, stop: threading.Event) -> Pointer:
        """Is alias; if that is still last, it waits for a change, and may give up waiting after a while and return last."""

    def read(self, model: str, version: int, name: str, most: int) -> Optional[bytes]:
        """Returns a file of a version, None if it is missing. One of more than so many bytes is a DigestError."""

    def deltas(self, model: str, version: int, after: int, stop: Optional[threading.Event]) -> list[bytes]:
        """Returns frames of deltas of a version that follow the one with sequence after. Until the next one is there it
        waits, unless stop is None, and may give up after a while. Raises ChainError if the next one is missing."""


#: Where a delta begins in the segments of a version, so that a look at them reads what came since the last one: first sequence of the segment,
#: sequence of the delta, offset.
_Place = tuple[int, int, int]


class DirSource:
    """A store, or a synchronised copy of one. Paths do not leave the directory of the model, by ".." or by links."""

    def __init__(self, store: PathLike, every: float = 0.25):
        self._store = Path(store)
        self._every = every  # mean pause between two looks at an alias, in seconds; each is drawn from ±20 %
        self._places: dict[tuple[str, int], _Place] = {}  # of the version that deltas were asked of last

    def alias(self, model: str, alias: str) -> Pointer:
        check_name("alias", alias)
        root = self._root(model)
        content = _read(root, f"aliases/{alias}", MAX_ALIAS_BYTES)
        if content is None:
            raise NotFoundError(f"no alias {alias} of model {model}: promote a version, or choose one by its number")
        pointer = decode_alias(alias, content)
        try:
            return with_renewal(pointer, _read(root, f"renewals/{alias}", MAX_ALIAS_BYTES))
        except (SnapshotError, OSError):
            return pointer  # what is no renewal takes nothing from the alias

    def wait(self, model: str, alias: str, last: Pointer, stop: threading.Event) -> Pointer:
        while True:
            pointer = self.alias(model, alias)
            if not pointer.unchanged(last) or stop.wait(self._every * random.uniform(0.8, 1.2)):
                return pointer

    def read(self, model: str, version: int, name: str, most: int) -> Optional[bytes]:
        root = self._root(model)
        try:
            kind = os.lstat(root / str(version)).st_mode
        except FileNotFoundError:
            raise NotFoundError(f"no version {version}: it was pruned or never published") from None
        if not stat.S_ISDIR(kind):
            raise FormatError(f"version {version} is not a directory")
        return _read(root, f"{version}/{name}", most)

    def deltas(self, model: str, version: int, after: int, stop: Optional[threading.Event]) -> list[bytes]:
        frames = self._frames(model, version, after)
        if frames or stop is None or stop.wait(self._every * random.uniform(0.8, 1.2)):
            return frames
        return self._frames(model, version, after)

    def _frames(self, model: str, version: int, after: int) -> list[bytes]:
        """Returns the whole deltas of one segment after a sequence."""
        root = self._root(model)
        if not (root / str(version)).is_dir():
            raise NotFoundError(f"no version {version}: it was pruned or never published")
        folder = root / str(version) / "deltas"
        names = os.listdir(folder) if folder.is_dir() else []
        segments = sorted(int(name[:-4]) for name in names if _SEGMENT.fullmatch(name))
        before = [s for s in segments if s <= after + 1]
        if not before:
            if after or segments:
                raise ChainError(f"delta {after + 1} of version {version} is not there, and none before it")
            return []
        name = f"{version}/deltas/{before[-1]:012d}.seg"
        segment, sequence, offset = self._places.get((model, version), (0, 0, 0))
        if segment != before[-1] or sequence > after + 1 or offset > os.lstat(root / name).st_size:
            segment, sequence, offset = before[-1], before[-1], 0
        content = _read(root, name, _MAX_SEGMENT_BYTES, offset)
        if content is None:
            return []
        frames, at = [], 0
        while at < len(content) and (end := split(content, at)) >= 0:  # of one that is being written, or whose writer was killed, there is a part
            if sequence > after:
                frames.append(content[at:end])
            else:
                offset += end - at
                sequence += 1
            at = end
        self._places = {(model, version): (segment, sequence, offset)}
        newest = sequence + len(frames) - 1
        if not frames and (newest < after or len(segments) > len(before)):
            raise ChainError(f"delta {after + 1} of version {version} is not there, the newest before it is {newest}")
        return frames

    def _root(self, model: str) -> Path:
        check_name("model", model)
        if not self._store.is_dir():
            raise NotFoundError(f"no store at {self._store}: check the path")
        root = self._store / model
        if not root.is_dir():
            raise NotFoundError(f"no model {model} in {self._store}: check the name, or publish a first version")
        if not _within(root, self._store):
            raise FormatError(f"model {model}: its path leaves the store")
        return root


def _within(path: Path, root: Path) -> bool:
    resolved = os.path.realpath(root)
    return os.path.commonpath([resolved, os.path.realpath(path)]) == resolved


def _read(root: Path, name: str, most: int, offset: int = 0) -> Optional[bytes]:
    """Reads a regular file of at most so many bytes, from an offset on; None if it is missing."""
    path = root / name
    try:
        kind = os.lstat(path).st_mode  # looked at before it is opened: opening a pipe would wait for its writer
        if not stat.S_ISREG(kind):
            raise FormatError(f"{name}: not a regular file")
        if not _within(path, root):
            raise FormatError(f"{name}: its path leaves the directory of the model")
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            if size - offset > most:
                raise DigestError(f"{name}: {size} bytes, at most {most} expected")
            f.seek(offset)
            content = f.read(most + 1)
    except FileNotFoundError:
        return None
    if len(content) > most:
        raise DigestError(f"{name}: more than the {most} bytes expected")
    return content


class HTTPSource:
    """A daemon, by its URL. Headers are sent with each request, for instance Authorization."""

    def __init__(self, url: str, headers: Optional[Mapping[str, str]] = None):
        self._url = url.rstrip("/") + "/v1/models/"
        self._headers = dict(headers or {})

    def alias(self, model: str, alias: str) -> Pointer:
        return self._alias(model, alias, Pointer())

    def wait(self, model: str, alias: str, last: Pointer, stop: threading.Event) -> Pointer:
        return self._alias(model, alias, last)

    def _alias(self, model: str, alias: str, last: Pointer) -> Pointer:
        check_name("model", model)
        check_name("alias", alias)
        query, headers = "", {}
        if last.version:
            query = "?" + urllib.parse.urlencode({"after": last.version, "wait": f"{_LONG_POLL}s", "renewed": write_time(last.renewal.renewed)})
            headers["If-None-Match"] = f'"{last.sequence}-{last.version}-{last.manifest_digest[len("sha256:"):]}"'
        content = self._get(f"{model}/aliases/{alias}{query}", _MAX_ANSWER_BYTES, headers)
        if content is None:
            raise NotFoundError(f"no alias {alias} of model {model} at {self._url}")
        return last if content == b"" else read_pointer(f"alias {alias}", Fields(f"alias {alias}", loads(f"alias {alias}", content)))

    def read(self, model: str, version: int, name: str, most: int) -> Optional[bytes]:
        return self._get(f"{model}/versions/{version}/files/{name}", most, {})

    def deltas(self, model: str, version: int, after: int, stop: Optional[threading.Event]) -> list[bytes]:
        wait = "0s" if stop is None else f"{_LONG_POLL}s"
        content = self._get(f"{model}/deltas?base={version}&after={after}&wait={wait}", _MAX_DELTAS_BYTES, {})
        if content is None:
            raise NotFoundError(f"no deltas of version {version} at {self._url}{model}")
        frames, at = [], 0
        while at < len(content) and (end := split(content, at)) >= 0:
            frames.append(content[at:end])
            at = end
        return frames

    def _get(self, path: str, most: int, headers: Mapping[str, str]) -> Optional[bytes]:
        """Returns what a daemon answers, None for what it does not have, and nothing for what has not changed."""
        request = urllib.request.Request(self._url + path, headers={**self._headers, **headers})
        parts: list[bytes] = []
        got = 0
        try:
            with urllib.request.urlopen(request, timeout=_LONG_POLL + _PATIENCE) as answer:
                while part := answer.read(min(_CHUNK, most + 1 - got)):
                    parts.append(part)
                    got += len(part)
                    if got > most:
                        raise DigestError(f"{path}: more than the {most} bytes expected")
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 304:
                    return b""
                if error.code == 404:
                    return None
                if error.code in (409, 410):
                    raise ChainError(f"GET {request.full_url}: {_reason(error.read(200))}") from None
                raise ConnectionError(f"GET {request.full_url}: status {error.code}: {_reason(error.read(200))}") from None
        return b"".join(parts)


def _reason(body: bytes) -> str:
    try:
        found: Any = json.loads(body)
        return str(found.get("error", found))
    except (ValueError, AttributeError):
        return repr(body)


def source_of(store: PathLike, headers: Optional[Mapping[str, str]], every: float = 0.25) -> Source:
    """Returns the source at a path or a URL."""
    if isinstance(store, str) and store.startswith(("http://", "https://")):
        return HTTPSource(store, headers)
    if headers is not None:
        raise TypeError("headers are for a store behind http:// or https://")
    return DirSource(store, every)

"""What readers see while an update takes the place of a version. The Go test TestPythonTakesDeltas runs this."""

from __future__ import annotations

import threading
import time
import unittest
from types import SimpleNamespace
from typing import Any, Callable, Optional
from unittest import mock

from refitd_snapshot import Position, _load, _watch
from refitd_snapshot._alias import Pointer


def _model(version: int, sequence: int) -> Any:
    manifest = SimpleNamespace(fields={"kind": "update"}, digest="", payload_digest="", created=None, watermark=None, expires=None)
    position = Position(version, sequence, "", "", None, None)
    return SimpleNamespace(version=version, position=position, signed_by="", expires=None, _manifest=manifest)


def _apply(model: Any, frames: list[int], _keys: object) -> tuple[Any, Optional[Exception]]:
    return _model(model.version, frames[-1]), None


class _Daemon:
    """Holds an ask for deltas until there are some, and one of version 1 to the end."""

    def __init__(self) -> None:
        self.named = Pointer(version=1, manifest_digest="1")
        self.written = {1: 3, 2: 5}  # the last delta, by version
        self.held: set[int] = set()  # versions whose next delta is waited for
        self.ended = threading.Event()

    def wait(self, _model: str, _alias: str, last: Pointer, stop: threading.Event) -> Pointer:
        self._until(lambda: not self.named.same(last) or stop.is_set())
        return self.named

    def deltas(self, _model: str, version: int, after: int, stop: Optional[threading.Event]) -> list[int]:
        if stop is not None and self.written[version] <= after:
            self.held.add(version)
            self._until(lambda: version == 2 and self.written[2] > after or self.ended.is_set())
        return list(range(after + 1, self.written[version] + 1))

    def _until(self, reached: Callable[[], bool]) -> None:
        while not reached() and not self.ended.wait(0.001):
            pass


class UpdateTest(unittest.TestCase):
    def until(self, watcher: _watch.Watcher, seen: list[tuple[int, int]], reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not reached():
            self.assertLess(time.monotonic(), deadline, (seen, watcher.status))
            at = watcher.status.position
            if at is not None and (not seen or seen[-1] != (at.version, at.sequence)):
                seen.append((at.version, at.sequence))

    @mock.patch.object(_watch, "apply", _apply)
    @mock.patch.object(_load.Trust, "load", lambda _trust, _name, pointer, _read: _model(pointer.version, 0))
    def test_deltas_before_served(self) -> None:
        daemon = _Daemon()
        self.addCleanup(daemon.ended.set)
        seen: list[tuple[int, int]] = []
        with mock.patch.object(_watch, "source_of", lambda *_: daemon), _watch.watch("", "m") as watcher:
            self.until(watcher, seen, lambda: (1, 3) in seen and 1 in daemon.held)
            daemon.named = Pointer(version=2, manifest_digest="2")
            self.until(watcher, seen, lambda: 2 in daemon.held)
            daemon.written[2] = 6  # while the ask for deltas of version 1 is still held
            self.until(watcher, seen, lambda: seen[-1] == (2, 6))
            self.assertEqual([at for at in seen if at[0] == 2], [(2, 5), (2, 6)])
            self.assertEqual((watcher.status.deltas_applied, watcher.status.delta_error), (9, None))


if __name__ == "__main__":
    unittest.main()

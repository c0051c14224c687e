"""The package asks a daemon. The Go test TestPythonAsksOverHTTP serves and runs this."""

from __future__ import annotations

import os
import time
import unittest
from unittest import mock

import refitd_snapshot

_URL, _KEY = os.environ.get("REFITD_URL", ""), os.environ.get("REFITD_KEY", "")
_HEADERS = {"Authorization": "Bearer secret"}


@unittest.skipUnless(_URL, "REFITD_URL names no server: go test ./snapshot -run Python")
class HTTPTest(unittest.TestCase):
    def test_open(self) -> None:
        model = refitd_snapshot.open(_URL, "m", keys=_KEY, headers=_HEADERS)
        self.assertEqual((model.version, model.position.sequence), (1, 0))
        changed = refitd_snapshot.open(_URL, "m", keys=_KEY, headers=_HEADERS, deltas=True)
        self.assertEqual((changed.version, changed.position.sequence), (1, 9))
        self.assertNotEqual(model.payload_digest(), changed.payload_digest())
        with self.assertRaisesRegex(ConnectionError, "status 401: who are you"):
            refitd_snapshot.open(_URL, "m", keys=_KEY)
        with self.assertRaises(refitd_snapshot.NotFoundError):
            refitd_snapshot.open(_URL, "m", alias="none", headers=_HEADERS)
        with self.assertRaises(refitd_snapshot.NotFoundError):
            refitd_snapshot.open(_URL, "m", version=7, headers=_HEADERS)

    def test_watch(self) -> None:
        with mock.patch("refitd_snapshot._source._LONG_POLL", 0), refitd_snapshot.watch(_URL, "m", keys=_KEY, headers=_HEADERS) as watcher:
            watcher.wait(20)
            deadline = time.monotonic() + 20
            while (model := watcher.model) is None or model.position.sequence < 9:
                self.assertLess(time.monotonic(), deadline, watcher.status)
                time.sleep(0.002)
            asked = watcher.status.checked
            while (now := watcher.status.checked) is None or asked is None or (now - asked).total_seconds() < 0.2:  # answers of no news
                self.assertLess(time.monotonic(), deadline, watcher.status)
                time.sleep(0.002)
            status = watcher.status
            self.assertEqual((status.loads, status.refused, status.error, status.delta_error), (1, 0, None, None))


if __name__ == "__main__":
    unittest.main()

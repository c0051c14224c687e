"""The package takes deltas as the Go library does. The Go test TestPythonTakesDeltas writes the expectations and runs this."""

from __future__ import annotations

import json
import os
import time
import unittest
from typing import Any

import refitd_snapshot
from refitd_snapshot import Model, SnapshotError

from .test_library import SIGNED, Comparison

_PATH = os.environ.get("REFITD_CHAINS")


@unittest.skipUnless(_PATH, "REFITD_CHAINS names no file: go test ./snapshot -run Python")
class DeltasTest(Comparison):
    def test_chains(self) -> None:
        with open(str(_PATH), encoding="utf-8") as f:
            chains = json.load(f)
        errors = set()
        for want in chains:
            where = want["name"]
            if want["keys"] is not None and not SIGNED:
                continue
            try:
                model = refitd_snapshot.open(want["store"], want["model"], version=1, keys=want["keys"], deltas=True)
            except SnapshotError as error:
                self.assertEqual(type(error).__name__, want["error"], (where, want["keys"], error))
                errors.add(want["error"])
                continue
            self.assertEqual("", want["error"], (where, want["keys"]))
            self.compare(model, want)
        self.assertGreaterEqual(len(errors), 4)

    def test_watch(self) -> None:
        with open(str(_PATH), encoding="utf-8") as f:
            want = next(c for c in json.load(f) if c["name"] == "whole" and (c["keys"] is not None) == SIGNED)
        segment = os.path.join(want["store"], "m", "1", "deltas", "000000000001.seg")
        with open(segment, "rb") as source:
            whole = source.read()

        def until(watcher: refitd_snapshot.Watcher, sequence: int, error: str) -> refitd_snapshot.Status:
            deadline = time.monotonic() + 20
            while True:
                s = watcher.status
                if s.position is not None and (s.position.sequence, type(s.delta_error).__name__) == (sequence, error):
                    return s
                self.assertLess(time.monotonic(), deadline, (sequence, error, s))
                time.sleep(0.002)

        def write(content: bytes) -> None:
            with open(segment + ".tmp", "wb") as target:
                target.write(content)
            os.replace(segment + ".tmp", segment)

        write(b"")
        with refitd_snapshot.watch(want["store"], "m", "latest", want["keys"], every=0.002) as watcher:
            watcher.wait(20)
            until(watcher, 0, "NoneType")
            last = 0
            for end in range(0, len(whole), 37):  # a writer that is seen in the middle of a delta
                write(whole[:end])
                model = watcher.model
                assert model is not None
                self.assertGreaterEqual(model.position.sequence, last)
                last = model.position.sequence
            broken = bytearray(whole)
            broken[-100] ^= 1  # of the payload, which a signature follows
            write(bytes(broken))
            refused = until(watcher, 8, "DigestError")
            self.assertGreater(refused.deltas_refused, 0)
            write(whole)
            self.assertEqual(until(watcher, 9, "NoneType").deltas_applied, 9)
            model = watcher.model
            assert model is not None
            self.compare(model, want)
        with refitd_snapshot.watch(want["store"], "m", "latest", want["keys"], every=0.002, deltas=False) as plain:
            self.assertEqual(plain.wait(20).position.sequence, 0)
            time.sleep(0.1)
            self.assertEqual(plain.status.deltas_applied, 0)

    def compare(self, model: Model, want: Any) -> None:
        where = want["name"]
        at = model.position
        self.assertEqual((at.sequence, at.digest), (want["sequence"], want["digest"]), where)
        self.assertEqual(model.payload_digest(), want["payload"], where)
        self.scores(model, want["events"] or (), 1e-12, where)
        self.tops(model, want["tops"] or (), 1e-12, where)
        for w in want["folds"] or ():
            over = model.fold(w["history"], w["field"], w["weights"])
            self.scores(over, w["events"], 1e-9, where)
            self.tops(over, w["tops"], 1e-9, where)
        base = refitd_snapshot.open(want["store"], want["model"], version=1)
        self.assertEqual(base.payload_digest(), base.digest, where)

"""The package says what the Go library says. The Go test TestPythonIsTheLibrary writes the expectations and runs this."""

from __future__ import annotations

import base64
import json
import math
import os
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Callable, Optional

import numpy as np

import refitd_snapshot
from refitd_snapshot import Model, Overlay, SnapshotError

_PATH = os.environ.get("REFITD_EXPECTATIONS")
_SCORE, _FOLD = 1e-12, 1e-9  # tolerances relative to 1 + |want|

try:
    import cryptography

    SIGNED = cryptography is not None
except ImportError:
    SIGNED = False


class Comparison(unittest.TestCase):
    """Compares what a model says with what the library says."""

    def near(self, got: Any, want: Any, tolerance: float, what: Any) -> None:
        self.assertEqual(got is None, want is None, what)
        if want is None:
            return
        self.assertEqual(len(got), len(want), what)
        for g, w in zip(got, want):
            self.assertLessEqual(abs(g - w), tolerance * (1 + abs(w)), what)

    def scores(self, scorer: refitd_snapshot.Model | Overlay, want: Any, tolerance: float, what: str) -> None:
        for w in want:
            where, event = (what, w["event"]), w["event"]
            if w["error"]:
                for call in (scorer.predict, scorer.score):
                    with self.assertRaises(getattr(refitd_snapshot, w["error"]), msg=where):
                        call(event)
                continue
            p = scorer.prediction(event)
            self.near(p.outputs, w["Outputs"], tolerance, where)
            self.near(scorer.score(event), w["Outputs"], tolerance, where)
            self.near(p.probabilities, w["Probabilities"], tolerance, where)
            self.near([p.value], [w["Value"]], tolerance, where)
            self.assertEqual(p.ranked, None if w["ranked"] is None else tuple(w["ranked"]), where)
            self.assertEqual(p.classes, None if w["Classes"] is None else tuple(w["Classes"]), where)
            self.assertEqual((p.unseen, p.absent), (tuple(w["Unseen"] or ()), tuple(w["Absent"] or ())), where)
            label = scorer.predict(event)
            if isinstance(label, float):
                self.near([label], [w["label"]], tolerance, where)
            else:
                self.assertEqual(label, w["label"], where)
        good = [w for w in want if not w["error"]]
        for row, w in zip(scorer.score([w["event"] for w in good]), good):  # all at once
            self.near(row, w["Outputs"], tolerance, (what, w["event"]))

    def tops(self, scorer: Model | Overlay, want: Any, tolerance: float, what: str) -> None:
        for w in want:
            where = (what, w["k"], w["class"], w["where"])

            def ask() -> list[refitd_snapshot.Item]:
                return scorer.topk(w["event"], "item", w["k"], w["exclude"] or (), w["class"], where=w["where"])

            if w["items"] is None:
                with self.assertRaises(refitd_snapshot.InputError, msg=where):
                    ask()
                continue
            self.assertEqual([item.name for item in ask()], [item["Name"] for item in w["items"]], where)
            self.near([item.value for item in ask()], [item["Value"] for item in w["items"]], tolerance, where)


def _passes(known: Any, where: Any) -> bool:
    """Reports, by what a version knows of a name, whether conditions hold."""
    for column, want in where.items():
        has = known.get(column)
        if isinstance(want, dict):
            if has is None or not want.get("min", -math.inf) <= has <= want.get("max", math.inf):
                return False
            continue
        names = {str(name).lower() if isinstance(name, bool) else str(name) for name in (want if isinstance(want, list) else [want])}
        if not names & set(has if isinstance(has, list) else [has] if has else []):
            return False
    return True


@unittest.skipUnless(_PATH, "REFITD_EXPECTATIONS names no file: go test ./snapshot -run Python")
class LibraryTest(Comparison):
    want: Any

    @classmethod
    def setUpClass(cls) -> None:
        with open(str(_PATH), encoding="utf-8") as f:
            cls.want = json.load(f)

    def test_scores(self) -> None:
        self.assertGreater(len(self.want["models"]), 40)
        for want in self.want["models"]:
            name = want["model"]
            model = refitd_snapshot.open(want["store"], name, version=1)
            self.scores(model, want["events"], _SCORE, name)
            self.tops(model, want["tops"], _SCORE, name)
            manifest = model.manifest
            gaps = [manifest.get(key) for key in ("gap", "gap_relative", "basis_gap", "basis_gap_relative")]
            said = [manifest.get(key, "") for key in ("form", "gap_kind", "gap_limit")]
            self.assertEqual((said, gaps), ([want["form"], want["gap_kind"], want["gap_limit"]], want["gaps"]), name)
            for w in want["explained"]:
                terms = model.explain(w["event"]).terms
                # A number and its column of a map have the same name. What cancels may leave something by rounding, or nothing.
                got = sorted((t.features, t.contribution) for t in terms if max(map(abs, t.contribution)) > _SCORE)
                expected = sorted((tuple(t["Features"]), tuple(t["Contribution"])) for t in w["terms"])
                expected = [term for term in expected if max(map(abs, term[1])) > _SCORE]
                self.assertEqual(len(got), len(expected), name)
                for (features, share), (wanted, contribution) in zip(got, expected):
                    self.assertEqual(features, wanted, name)
                    self.near(share, contribution, _SCORE, (name, features))

    def test_conditions_filter_the_whole_list(self) -> None:
        lists = 0
        for want in self.want["models"]:
            asked = [w for w in want["tops"] or () if w["where"] and w["items"] is not None]
            if not want["known"] or not asked:
                continue
            model = refitd_snapshot.open(want["store"], want["model"], version=1)
            for w in asked:
                exclude = w["exclude"] or ()
                everything = model.topk(w["event"], "item", 1000, exclude, w["class"])
                passing = [item for item in everything if _passes(want["known"].get(item.name, {}), w["where"])]
                self.assertEqual(model.topk(w["event"], "item", w["k"], exclude, w["class"], where=w["where"]), passing[: w["k"]], w)
                lists += bool(passing)
        self.assertGreater(lists, 100)

    def test_whole_numbers_are_names(self) -> None:
        want = next(w for w in self.want["models"] if w["model"] == "numbered")
        model = refitd_snapshot.open(want["store"], "numbered", version=1)
        event = {"user": "5", "age": 30.0, "tags": ["7", "a"]}
        same = {"user": np.int64(5), "age": np.float64(30), "tags": (np.str_("a"), 7)}
        self.assertEqual(model.score({**same, "item": 1006}).tolist(), model.score({**event, "item": "1006"}).tolist())
        self.assertEqual(model.prediction({**same, "item": 1006}).unseen, ())
        self.assertEqual(model.prediction({**event, "item": "a\ud83d", "tags": ["\ud83d\ude00"]}).unseen, ("item=a\ufffd", "tags=\U0001f600"))
        self.assertEqual(len(model.topk(event, "item")), 2)
        given: list[Any] = [["1006"], [1006], (1006,), {1006}, {"1006": True}.keys(), np.array([1006]), np.array(["1006"]), iter([1006]), "1006", 1006]
        for exclude in given:
            self.assertEqual([item.name for item in model.topk(same, "item", np.int64(3), exclude)], ["7"], repr(exclude))  # type: ignore[arg-type]
        self.assertEqual(len(model.topk(event, "item", exclude=None)), 2)  # type: ignore[arg-type]
        bad: list[Any] = [b"1006", [b"1006"], np.array([b"1006"]), bytearray(b"7"), [1006.0], np.array(1006), 1006.0, [np.float32(7)], [True], True, [None], {"7": 1}, [["7"]]]
        bad += [np.array([["1006"]]), type("Frame", (list,), {"columns": ["1006"]})(["1006"])]  # a table gives the names of its columns
        for exclude in bad:
            with self.assertRaisesRegex(refitd_snapshot.InputError, "exclude takes.* not ", msg=repr(exclude)):
                model.topk(event, "item", exclude=exclude)

    def test_binary_names(self) -> None:
        stores = {w["model"]: w["store"] for w in self.want["models"]}
        event = {"user": "u1", "item": "i1", "age": 30.0, "tags": ["a"]}
        for name, names in (("named", ("DOWN", "UP")), ("half-named", ("not 2", "2"))):
            p = refitd_snapshot.open(stores[name], name, version=1).prediction(event)
            self.assertEqual((p.names, p.label), (names, names[int(p.value)]))
            assert p.probabilities is not None
            self.assertEqual(p.label, names[int(p.probabilities[1] > 0.5)])
        model = refitd_snapshot.open(stores["half-named"], "half-named", version=1)
        score = {y: model.fold([{**event, "y": y}]).score(event).tolist() for y in ("2", "other", 2, 1, 0)}
        self.assertEqual((score["2"], score["2"], score["other"]), (score[2], score[1], score[0]))
        self.assertNotEqual(score["2"], score["other"])

    def test_folds(self) -> None:
        folded = 0
        for want in self.want["models"]:
            name = want["model"]
            model = refitd_snapshot.open(want["store"], name, version=1)
            if want["unfolded"]:
                with self.assertRaises(getattr(refitd_snapshot, want["unfolded"]), msg=name):
                    model.fold(want["example"])
            for w in want["folds"] or ():
                folded += 1
                where, history, weights, held = f"{name} by {w['field']}, {w['held']} held", w["history"], w["weights"], w["held"]
                over = model.fold(history, w["field"], weights, held)
                self.assertEqual(over.folded, len(history), where)
                self.scores(over, w["events"], _FOLD, where)
                self.tops(over, w["tops"], _FOLD, where)
                before = model.fold(history[:-1], w["field"], weights[:-1], held)
                known = [before.score(e["event"]) for e in w["events"]]
                self.scores(before.learn(history[-1], weights[-1]), w["events"], _FOLD, where)
                for e, score in zip(w["events"], known):  # learning changed nothing below
                    self.assertEqual(before.score(e["event"]).tolist(), score.tolist(), where)
                for e in w["events"]:
                    x = over.explain(e["event"])
                    total = [sum(t.contribution[o] for t in x.terms) for o in range(model.num_outputs)]
                    limit = model.manifest.get("output_limit", math.inf)
                    self.near([min(max(v, -limit), limit) for v in total], e["Outputs"], _FOLD, where)
                for many in (-1, len(history) + 1):
                    with self.assertRaises(refitd_snapshot.InputError, msg=where):
                        model.fold(history, w["field"], weights, many)
        self.assertGreater(folded, 20)

    def test_refusals(self) -> None:
        seen = set()
        for w in self.want["refusals"]:
            if w["keys"] is not None and not SIGNED:
                continue
            found = ""
            now: Callable[[], datetime] = lambda: datetime.fromisoformat(w["now"].replace("Z", "+00:00"))  # noqa: B023, E731
            try:
                model = refitd_snapshot.open(w["store"], w["model"], w["version"] or None, w["alias"], w["keys"], now=now)
                self.assertEqual(bool(model.signed_by), w["keys"] is not None, w["name"])
            except SnapshotError as error:
                found = type(error).__name__
                self.assertIn(w["says"], str(error))
            self.assertEqual(found, w["error"], w)
            seen.add(found)
        self.assertGreaterEqual(len(seen), 7 if SIGNED else 6)

    def test_keys_are_asked_for(self) -> None:
        if SIGNED:
            self.skipTest("the package cryptography is there")
        with self.assertRaisesRegex(ImportError, "signed"):
            refitd_snapshot.open("nowhere", "m", keys=[])

    @unittest.skipUnless(SIGNED, "the package cryptography is needed")
    def test_watch(self) -> None:
        want = self.want["watch"]
        at = [datetime.fromisoformat(want["now"].replace("Z", "+00:00"))]
        root = os.path.join(want["store"], "m")

        def put(folder: str, content: Optional[str]) -> None:
            path = os.path.join(root, folder, "champion")
            if content is None:
                if os.path.exists(path):
                    os.unlink(path)
                return
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path + ".tmp", "wb") as f:
                f.write(base64.b64decode(content))
            os.replace(path + ".tmp", path)

        def watch() -> refitd_snapshot.Watcher:
            return refitd_snapshot.watch(
                want["store"], "m", keys=want["keys"], state_file=want["state_file"], every=0.002, now=lambda: at[0]
            )

        def until(watcher: refitd_snapshot.Watcher, stage: Any) -> None:
            deadline = time.monotonic() + 20
            while True:
                s = watcher.status
                error = type(s.error).__name__ if s.error else ""
                expires = s.expires.strftime("%Y-%m-%dT%H:%M:%SZ") if s.expires else ""
                if (s.version, error, expires) == (stage["version"], stage["error"], stage["expires"]):
                    return
                if time.monotonic() > deadline:
                    self.fail(f"{stage['name']}: {s}")
                time.sleep(0.002)

        stages = want["stages"]
        put("aliases", None)
        put("renewals", None)
        with watch() as watcher:
            self.assertIsNone(watcher.model)
            with self.assertRaisesRegex(TimeoutError, "no alias"):
                watcher.wait(0.2)
            for stage in stages:
                put("renewals", stage["renewal"])
                put("aliases", stage["alias"])
                until(watcher, stage)
                model = watcher.model
                self.assertEqual(model and model.version, stage["version"], stage["name"])
            self.assertEqual(watcher.status.loads, 3)
            at[0] = datetime.fromisoformat("2100-01-01T00:00:00+00:00")
            self.assertTrue(watcher.status.expired)
            self.assertIsNone(watcher.model)
        at[0] = datetime.fromisoformat(want["now"].replace("Z", "+00:00"))
        put("renewals", None)
        put("aliases", stages[1]["alias"])
        with watch() as again:  # a restart remembers
            until(again, {"name": "an older alias after a restart", "version": 0, "error": "OlderError", "expires": ""})
            put("aliases", stages[-1]["alias"])
            put("renewals", stages[-1]["renewal"])
            until(again, stages[-1])
        refused: list[int] = []

        def refuse(model: Model) -> None:
            refused.append(model.version)
            raise ValueError("not this one")

        with refitd_snapshot.watch(want["store"], "m", pin=2, on_load=refuse, every=0.002) as pinned:
            deadline = time.monotonic() + 20
            while pinned.status.error is None and time.monotonic() < deadline:
                time.sleep(0.002)
            self.assertIn("not this one", str(pinned.status.error))
        self.assertEqual(refused, [2])

    def test_threads(self) -> None:
        want = self.want["models"][0]
        model = refitd_snapshot.open(want["store"], want["model"], version=1)
        good = [w for w in want["events"] if not w["error"]]
        expected = [model.score(w["event"]).tolist() for w in good]
        start = threading.Barrier(4)

        def run(_: int) -> list[Any]:
            start.wait()
            return [model.score(w["event"]).tolist() for w in good]

        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(run, range(4)):
                self.assertEqual(found, expected)


if __name__ == "__main__":
    unittest.main()

"""Many events at once, as lists, columns and tables, are scored as the Go library scores each. TestPythonIsTheLibrary of Go writes the expectations and
runs this; the golden version is that of REFITD_STORE."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import os
import sys
import time
import unittest
import unittest.mock
import warnings
from importlib import import_module
from typing import Any, Callable

import numpy as np

import refitd_snapshot
from refitd_snapshot import InputError, Model, Overlay

from .test_library import Comparison

_PATH, _STORE = os.environ.get("REFITD_EXPECTATIONS"), os.environ.get("REFITD_STORE")
_FIELDS = ("user", "item", "tags")


def optional_module(name: str) -> Any:
    """Returns a module, or None if it is not installed; then a line says so."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the module's own imports
            return import_module(name)
    except ImportError as error:
        print(f"tables of {name} are not checked: {error}")
        return None


pandas, polars, pyarrow = map(optional_module, ("pandas", "polars", "pyarrow"))


class OnlyInterchange:
    """A table of which nothing is known but the interchange protocol of data frames."""

    def __init__(self, table: Any):
        self._table = table

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return self._table.__dataframe__(nan_as_null, allow_copy)


class OnlyArrow:
    """A table of which nothing is known but the Arrow PyCapsule interface."""

    def __init__(self, table: Any):
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def columns_of(events: list[Any]) -> dict[str, list[Any]]:
    names = list(dict.fromkeys(name for event in events for name in event))
    return {name: [event.get(name) for event in events] for name in names}


def texts(column: list[Any]) -> list[Any]:
    return [str(v) if isinstance(v, int) else v for v in column]


def tables_of(columns: dict[str, list[Any]]) -> dict[str, Any]:
    """Returns a table of every package that is installed. Their columns have one type: whole numbers become texts."""
    plain = {name: column for name, column in columns.items() if name != "other"}
    for name in ("user", "item"):
        if name in plain:
            plain[name] = texts(plain[name])
    if "tags" in plain:
        plain["tags"] = [None if v is None else texts(v) for v in plain["tags"]]
    found = {}
    if pandas:
        found["pandas"] = pandas.DataFrame(columns)  # of any type
        found["pandas category"] = pandas.DataFrame(plain).astype({name: "category" for name in ("user", "item") if name in plain})
    if polars:
        frame = polars.DataFrame(plain, strict=False)
        found["polars"] = frame
        if "item" in plain:
            found["polars category"] = frame.with_columns(polars.col("item").cast(polars.Categorical))
    if pyarrow:
        found["pyarrow"] = pyarrow.table(plain)
        found["arrow stream"] = OnlyArrow(found["pyarrow"])
    return found


@unittest.skipUnless(_PATH, "REFITD_EXPECTATIONS names no file: go test ./snapshot -run Python")
class ManyTest(Comparison):
    """What is said of many events is what Go says of each."""

    def many(self, scorer: Model | Overlay, want: Any, tolerance: float, what: str, blocks: bool = False) -> None:
        good = [w for w in want[:120] + want[max(120, len(want) - 20) :] if not w["error"]]  # the odd ones are the last
        events = [w["event"] for w in good]
        columns = columns_of(events)
        given: dict[str, Any] = {"list": events, "generator": iter(events), "columns": columns}
        if blocks:
            given["more than a block"] = events * 40
        given.update(tables_of(columns))
        given["arrays"] = {name: np.array([*column, None], dtype=object)[:-1] for name, column in columns.items()}
        for form, several in given.items():
            where = f"{what}: {form}"
            times = 40 if form.startswith("more") else 1
            kept = list(several) if form == "generator" else several
            scores = scorer.score(iter(kept) if form == "generator" else kept)
            self.assertEqual(scores.shape, (len(good) * times, len(good[0]["Outputs"])), where)
            expected = np.array([w["Outputs"] for w in good] * times)
            self.assertLessEqual(np.max(np.abs(scores - expected) / (1 + np.abs(expected))), tolerance, where)
            if times == 1:
                self.labels(scorer, kept, good, tolerance, where)

    def labels(self, scorer: Model | Overlay, several: Any, good: Any, tolerance: float, where: str) -> None:
        labels = scorer.predict(events=several)
        self.assertIsInstance(labels, np.ndarray)
        self.assertEqual(len(labels), len(good), where)
        if isinstance(good[0]["label"], (int, float)):
            expected = np.array([w["label"] for w in good])
            self.assertLessEqual(np.max(np.abs(labels - expected) / (1 + np.abs(expected))), tolerance, where)
        else:
            self.assertEqual(labels.tolist(), [w["label"] for w in good], where)
        if good[0]["Probabilities"] is None:
            self.assertRaises(refitd_snapshot.NoProbabilitiesError, scorer.predict_proba, several)
        else:
            shares = scorer.predict_proba(several)
            self.assertEqual(shares.shape, (len(good), len(scorer.classes_)), where)
            expected = np.array([w["Probabilities"] for w in good])
            self.assertLessEqual(np.max(np.abs(shares - expected) / (1 + np.abs(expected))), tolerance, where)

    def test_many(self) -> None:
        with open(str(_PATH), encoding="utf-8") as f:
            models = json.load(f)["models"]
        kinds = set()
        for want in models:
            model = refitd_snapshot.open(want["store"], want["model"], version=1)
            kind = model.schema.task, model.manifest["link"], model.manifest["kernel"], model.manifest.get("degree"), model.schema.feature_map is None
            self.many(model, want["events"], 1e-12, want["model"], kind not in kinds)
            kinds.add(kind)
            for w in want["folds"] or ():
                over = model.fold(w["history"], w["field"], w["weights"], w["held"])
                self.many(over, w["events"], 1e-9, f"{want['model']} by {w['field']}")
                first, columns = w["events"][0]["event"], columns_of(w["history"])
                again = [model.fold(columns, w["field"], w["weights"], w["held"])]
                if pandas:
                    frame, weights = pandas.DataFrame(columns), pandas.Series(w["weights"])
                    frame.index = weights.index = pandas.RangeIndex(len(frame), 0, -1)
                    again.append(model.fold(frame, w["field"], weights, w["held"]))
                for other in again:
                    self.assertEqual(other.score(first).tolist(), over.score(first).tolist(), want["model"])
        self.assertGreater(len(kinds), 10)

    def test_predictions(self) -> None:
        with open(str(_PATH), encoding="utf-8") as f:
            models = json.load(f)["models"]
        for want in models:
            model = refitd_snapshot.open(want["store"], want["model"], version=1)
            good = [w for w in want["events"] if not w["error"]]
            for p, w in zip(model.predictions([w["event"] for w in good]), good):
                where = (want["model"], w["event"])
                one = model.prediction(w["event"])
                self.assertEqual((p.unseen, p.absent), (tuple(w["Unseen"] or ()), tuple(w["Absent"] or ())), where)
                self.assertEqual((p.classes, p.names, type(p.label)), (one.classes, one.names, type(one.label)), where)
                self.near(p.outputs, w["Outputs"], 1e-12, where)
                self.near(p.probabilities, w["Probabilities"], 1e-12, where)
                self.near([p.value], [w["Value"]], 1e-12, where)

    def test_what_go_refuses(self) -> None:
        with open(str(_PATH), encoding="utf-8") as f:
            models = json.load(f)["models"]
        refused = 0
        for want in models:
            model = refitd_snapshot.open(want["store"], want["model"], version=1)
            good = next(w["event"] for w in want["events"] if not w["error"])
            for w in want["events"]:
                if w["error"]:
                    refused += 1
                    error = getattr(refitd_snapshot, w["error"])
                    with self.assertRaisesRegex(error, "^event 2: ", msg=(want["model"], w["event"])):
                        model.score([good, good, w["event"], good])
                    with self.assertRaises(error) as one:
                        model.score(w["event"])
                    with self.assertRaises(error) as several:
                        model.score([w["event"]])
                    self.assertEqual(str(several.exception), f"event 0: {one.exception}", want["model"])
        self.assertGreater(refused, 100)

    def test_names_and_classes(self) -> None:
        with open(str(_PATH), encoding="utf-8") as f:
            models = json.load(f)["models"]
        tasks = set()
        for want in models:
            model = refitd_snapshot.open(want["store"], want["model"], version=1)
            tasks.add(model.schema.task)
            if model.schema.task == "regression":
                self.assertFalse(hasattr(model, "classes_"))
            elif model.schema.task == "ordinal":
                self.assertEqual(model.classes_.tolist(), list(range(1, model.schema.levels + 1)))
            elif model.schema.task == "binary":
                self.assertEqual(model.classes_.tolist(), list(model.schema.label_names or (0.0, 1.0)))
            else:
                self.assertEqual(model.classes_.tolist(), list(model.schema.classes))
        self.assertEqual(len(tasks), 5)


@unittest.skipUnless(_STORE, "REFITD_STORE names no store with the golden version")
class GoldenTest(unittest.TestCase):
    """Forms and faults of input, on the golden version: user and item, the number age, the list tags; any may be missing."""

    model: Model
    golden: list[Any]

    @classmethod
    def setUpClass(cls) -> None:
        cls.model = refitd_snapshot.open(str(_STORE), "ratings")
        with open(os.path.join(str(_STORE), "ratings", "1", "golden.jsonl"), encoding="utf-8") as f:
            cls.golden = [json.loads(line) for line in f]

    def refused(self, text: str, given: Any, **named: Any) -> None:
        for call in (self.model.predict, self.model.predict_proba, self.model.score):
            with self.assertRaisesRegex(InputError, text):
                call(given, **named)

    def same(self, given: Any, events: list[Any]) -> None:
        """Compares what is said of events in another form with what is said of each."""
        expected = np.array([self.model.score(event) for event in events])
        np.testing.assert_allclose(self.model.score(given), expected, rtol=1e-13, atol=1e-13)
        labels = self.model.predict(given)
        np.testing.assert_allclose(np.array(labels, dtype=float), [self.model.predict(event) for event in events], rtol=1e-13)

    def test_golden(self) -> None:
        events = [g["event"] for g in self.golden]
        outputs, labels = np.array([g["outputs"] for g in self.golden]), [g["prediction"] for g in self.golden]
        for form, given in {"list": events, "columns": columns_of(events), **tables_of(columns_of(events))}.items():
            np.testing.assert_allclose(self.model.score(given), outputs, rtol=1e-12, atol=1e-12, err_msg=form)
            np.testing.assert_allclose(np.array(self.model.predict(given), dtype=float), labels, rtol=1e-12, err_msg=form)
            shares = self.model.predict_proba(given)
            np.testing.assert_allclose(shares @ self.model.classes_, labels, rtol=1e-12, err_msg=form)
            np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12, err_msg=form)

    def test_one_and_many(self) -> None:
        event = {"user": "u1", "item": "i2", "age": 30.0, "tags": ["new"]}
        m = self.model
        self.assertEqual(m.score(event).shape, (2,))
        self.assertEqual(m.predict_proba(event).shape, (3,))
        self.assertIsInstance(m.predict(event), float)
        self.assertEqual(m.score([event]).shape, (1, 2))
        self.assertEqual(m.score([]).shape, (0, 2))
        self.assertEqual((m.predict([]).shape, m.predict_proba([]).shape, m.predictions([])), ((0,), (0, 3), []))
        self.assertEqual(m.score(event=event).tolist(), m.score(event).tolist())
        self.assertEqual(m.predict(events=[event, event]).shape, (2,))
        self.assertEqual([p.label for p in m.predictions(events=[event])], [m.prediction(event=event).label])
        both: list[dict[str, Any]] = [{}, {"event": event, "events": [event]}]
        for bad in both:
            with self.assertRaises(TypeError):
                m.score(**bad)
        self.assertEqual(tuple(map(len, (refitd_snapshot.__version__.split("."),))), (3,))

    def test_mappings(self) -> None:
        """A mapping is columns where a field of one value has a list."""
        m = self.model
        self.same({"user": ["u1", "u2"]}, [{"user": "u1"}, {"user": "u2"}])
        self.same({"user": ("u1",), "age": np.array([7]), "item": None}, [{"user": "u1", "age": 7}])
        self.same({"tags": [["new"], [], None]}, [{"tags": ["new"]}, {}, {}])
        self.same({"user": np.array(["u1", "u2"]), "tags": [{"new"}, ("old", "new")]}, [{"user": "u1", "tags": ["new"]}, {"user": "u2", "tags": ["new", "old"]}])
        self.assertEqual(m.score({"tags": ["new", "old"]}).shape, (2,))
        self.assertEqual(m.score({"tags": iter(["new", "old"])}).tolist(), m.score({"tags": ["new", "old"]}).tolist())
        self.assertEqual(m.score(events={"tags": [["new"], ["old"]]}).shape, (2, 2))
        self.refused("field 'user' has several values, field 'item' has one", {"user": ["u1"], "item": "i1"})
        self.refused("column 'age' has 1 values, column 'user' has 2", {"user": ["u1", "u2"], "age": [7]})
        self.refused("column 'user' takes a list of values, not str", None, events={"user": "u1"})
        self.refused("no column 'user', but 'name': name it as in training", None, events={"name": ["u1"]})
        self.refused("field 'user' is categorical and takes a text or a whole number, not list", None, event={"user": ["u1"]})

    def test_missing(self) -> None:
        want = self.model.score({"user": "u1"}).tolist()
        for nothing in (None, math.nan, np.nan, np.float32("nan")):
            event = {"user": "u1", "item": nothing, "age": nothing, "tags": nothing}
            self.assertEqual(self.model.score(event).tolist(), want)
            self.assertEqual(self.model.prediction(event).absent, self.model.prediction({"user": "u1"}).absent)
            self.same([event, {"user": "u1"}], [event, event])

    def test_values(self) -> None:
        whole = {"user": 5, "item": np.int32(7), "age": np.float32(1.5), "tags": np.array([1, 2])}
        text = {"user": "5", "item": "7", "age": 1.5, "tags": ["1", "2"]}
        self.assertEqual(self.model.prediction(whole).unseen, self.model.prediction(text).unseen)
        self.assertEqual([p.unseen for p in self.model.predictions([whole, text])], [self.model.prediction(text).unseen] * 2)
        self.same({"user": np.array([5, 6], dtype=np.uint8), "age": np.array([1, 2], dtype=np.int8)}, [{"user": "5", "age": 1}, {"user": "6", "age": 2}])
        self.same([{"age": decimal.Decimal("1.5")}], [{"age": 1.5}])
        self.same(np.array([("u1", 3.0)], dtype=[("user", "U4"), ("age", "f8")]), [{"user": "u1", "age": 3.0}])
        self.same(np.array([{"user": "u1"}, {}], dtype=object), [{"user": "u1"}, {}])

    def test_faults(self) -> None:
        good = {"user": "u1", "age": 3}
        of_field: list[tuple[str, Any, str]] = [
            ("user", 5.0, r"is categorical and takes a text or a whole number, not float 5.0: write it as an int, in pandas a column by .astype\('Int64'\)"),
            ("user", 5.5, "is categorical and takes a text or a whole number, not float 5.5$"),
            ("user", True, "is categorical and takes a text or a whole number, not bool: write it as a text, or as 0 or 1"),
            ("user", np.bool_(True), "is categorical and takes a text or a whole number, not bool_?: write it as a text"),
            ("user", b"u1", "is categorical and takes a text or a whole number, not bytes"),
            ("age", "7", "is numeric and takes a number, not str '7'"),
            ("age", np.bool_(False), "is numeric and takes a number, not bool_?: write it as 0 or 1"),
            ("age", math.inf, "is numeric and takes a finite number, not inf"),
            ("age", 10**400, "is numeric and takes a finite number, not inf"),
            ("age", datetime.date(2026, 1, 1), "is numeric and takes a number, not date"),
            ("age", np.datetime64("2026-01-01"), "is numeric and takes a number, not datetime64"),
            ("tags", "new", "takes a list of texts or whole numbers, not str 'new'"),
            ("tags", [None], "takes a list whose elements are each a text or a whole number, not NoneType"),
            ("tags", [1.5], "takes a list whose elements are each a text or a whole number, not float 1.5"),
        ]
        for field, value, text in of_field:
            bad = {**good, field: value}
            self.refused(f"^field '{field}' {text}", bad)
            self.refused(f"^event 1: field '{field}' {text}", [good, bad])
            if field != "tags":
                self.refused(f"^row 1: field '{field}' {text}", {field: [None, value], "item": ["i1", "i2"]})
        days = np.array(["2026-01-01"], dtype="datetime64[ns]")  # a list of them is of whole numbers
        self.refused("^row 0: field 'age' is numeric and takes a number, not datetime64", {"age": days})
        self.refused("^row 0: field 'user' is categorical and takes a text or a whole number, not datetime64", {"user": days})
        self.refused("^event 1: an output is not finite: a numeric field is too far from its center", [good, {"age": 1e308}])
        self.refused("^event 1: it is no mapping of names and values, but str", [good, "u1"])
        self.refused("events are a list of mappings, columns or a table, not int", 7)
        self.refused("events are a list of mappings, columns or a table, not str", "u1")
        self.refused("an array does not name the fields", np.zeros((2, 2)))

    def test_old_names(self) -> None:
        with self.assertWarnsRegex(DeprecationWarning, "score_batch is removed in 0.3: call score"):
            old = self.model.score_batch(iter([{"user": "u1"}]))
        self.assertEqual(old.tolist(), self.model.score([{"user": "u1"}]).tolist())
        with self.assertWarnsRegex(DeprecationWarning, "rank_by is removed in 0.3: call topk with class_"):
            self.assertEqual(self.model.topk({"user": "u1"}, "item", rank_by="x"), self.model.topk({"user": "u1"}, "item", class_="x"))

    @unittest.skipUnless(pandas, "pandas is not installed")
    def test_pandas(self) -> None:
        frame = pandas.DataFrame({"user": ["u1", None, "u2"], "item": pandas.array([7, None, 8], dtype="Int64"), "age": [1.5, math.nan, 3]})
        events: list[Any] = [{"user": "u1", "item": 7, "age": 1.5}, {}, {"user": "u2", "item": "8", "age": 3}]
        self.same(frame, events)
        self.same(frame.set_index("user", drop=False)[["age", "user", "item"]], events)  # the order of rows and columns, whatever the index
        self.same(frame[frame["age"] > 2], events[2:])
        self.assertEqual((self.model.score(frame.head(0)).shape, self.model.predict(frame.head(0)).shape), ((0, 2), (0,)))
        self.same(frame.to_dict("records"), events)
        self.same(frame.astype({"user": "category", "age": "Float64", "item": "category"}), events)
        self.same(frame.assign(item=frame["item"].astype("Int8"), other=True, age=pandas.array([1.5, None, 3], dtype="Float32")), events)
        self.assertEqual(self.model.score(frame.iloc[0]).tolist(), self.model.score(events[0]).tolist())
        row: Any = frame.iloc[0]
        self.assertEqual(self.model.prediction(row), self.model.prediction(events[0]))
        self.assertEqual(self.model.explain(row), self.model.explain(events[0]))
        self.assertEqual(self.model.topk(row, "item"), self.model.topk(events[0], "item"))
        self.assertEqual(frame.apply(self.model.predict, axis=1).tolist(), [self.model.predict(event) for event in events])
        frame["label"] = self.model.predict(frame)
        self.assertEqual(frame["label"].dtype, np.float64)
        self.same(frame.assign(tags=[["new"], None, np.array(["old", "new"])]), [{**e, **t} for e, t in zip(events, ({"tags": ["new"]}, {}, {"tags": ["old", "new"]}))])
        self.refused("^row 0: field 'user' is categorical .*, not float 5.0: .*Int64", pandas.DataFrame({"user": [5, None]}))
        self.refused("^row 1: field 'age' is numeric and takes a number, not Timestamp", frame.assign(age=pandas.to_datetime([None, "2026-01-01", None])))
        self.refused("^row 0: field 'age' is numeric and takes a number, not bool", frame.assign(age=[True, False, True]))
        self.refused("the table has 2 columns 'user': keep one", pandas.concat([frame, frame[["user"]]], axis=1))
        self.refused("no column 'user', but 'name', 'city': name it as in training", pandas.DataFrame({"name": ["u1"], "city": ["x"]}))
        self.refused("no column 'user', but none: ", pandas.DataFrame())

    @unittest.skipUnless(polars, "polars is not installed")
    def test_polars(self) -> None:
        frame = polars.DataFrame({"user": ["u1", None], "item": [7, None], "age": [1.5, None], "tags": [["new"], None]})
        events: list[Any] = [{"user": "u1", "item": 7, "age": 1.5, "tags": ["new"]}, {}]
        self.same(frame, events)
        self.same(frame.with_columns(polars.col("user").cast(polars.Enum(["u1"])), polars.col("item").cast(polars.UInt8)), events)
        self.refused("LazyFrame is not computed yet: call collect", frame.lazy())
        self.refused("^row 0: field 'age' is numeric and takes a number, not date", frame.with_columns(polars.lit(datetime.date(2026, 1, 1)).alias("age")))

    @unittest.skipUnless(pyarrow, "pyarrow is not installed")
    def test_arrow(self) -> None:
        table = pyarrow.table({"user": ["u1", None], "age": [1, None], "tags": [["new"], None]})
        events: list[Any] = [{"user": "u1", "age": 1, "tags": ["new"]}, {}]
        for given in (table, table.to_batches()[0], OnlyArrow(table)):
            self.same(given, events)
        self.same(table.set_column(0, "user", table["user"].dictionary_encode()), events)
        self.same(OnlyInterchange(table.drop_columns(["tags"])), [{"user": "u1", "age": 1}, {}])
        with unittest.mock.patch.dict(sys.modules, {"pyarrow": None}):
            self.refused("OnlyArrow is read by pyarrow: pip install 'refitd-snapshot\\[arrow\\]', or give a DataFrame", OnlyArrow(table))

    def test_as_fast_as_a_list(self) -> None:
        rows = [{"user": f"u{i % 5}", "item": f"i{i % 7}", "age": float(i % 50), "tags": ["new", "old", "x"][: i % 4]} for i in range(10_000)]
        tables = {"columns": columns_of(rows), **tables_of(columns_of(rows))}
        for form, table in tables.items():
            took, base, one = self.seconds(
                lambda: self.model.score(table),
                lambda: self.model.score(rows),
                lambda: [self.model.score(event) for event in rows[:500]],
            )
            one *= len(rows) / 500
            print(f"{form}: {took / len(rows) * 1e6:.1f} µs a row, a list {base / len(rows) * 1e6:.1f}, one by one {one / len(rows) * 1e6:.1f}")
            if "arrow" not in form:  # whose older versions make lists slowly
                self.assertLess(took, 1.5 * base, form)
            self.assertLess(base, one)

    def seconds(self, *calls: Callable[[], Any]) -> list[float]:
        """Returns the least time of each call of several tries, one after the other: others may use the processor, too."""
        best = [math.inf] * len(calls)
        for _ in range(5):
            for i, call in enumerate(calls):
                begin = time.perf_counter()
                call()
                best[i] = min(best[i], time.perf_counter() - begin)
        return best


if __name__ == "__main__":
    unittest.main()

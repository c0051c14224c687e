"""Scores events with ONNX models and compares the answers with those of the Go library.

Usage: python3 check.py list.json      needs the packages numpy and onnxruntime
"""

import json
import sys

import numpy as np
import onnxruntime

worst = {"float64": 0.0, "float32": 0.0}
models = json.load(open(sys.argv[1], encoding="utf-8"))
for case in models:
    session = onnxruntime.InferenceSession(case["File"], providers=["CPUExecutionProvider"])
    feeds = {name: np.array(values, dtype=object) for name, values in case["Categorical"].items()}
    for name, lists in case["Multi"].items():
        width = max(1, max(len(names) for names in lists))
        feeds[name] = np.array([names + [""] * (width - len(names)) for names in lists], dtype=object)
    for name, values in case["Numeric"].items():
        feeds[name] = np.array([float(v) for v in values])
    assert {i.name for i in session.get_inputs()} == set(feeds), case["Name"]
    answers = dict(zip((o.name.rstrip("_") for o in session.get_outputs()), session.run(None, feeds)))

    if case["Refused"]:
        assert np.isnan(answers["outputs"]).all(), (case["Name"], answers["outputs"])
        continue

    def compare(name, want):
        got, want = np.asarray(answers[name], dtype=np.float64), np.asarray(want, dtype=np.float64)
        assert got.shape == want.shape, (case["Name"], name, got.shape, want.shape)
        error = np.max(np.abs(got - want) / (1 + np.abs(want)))
        assert error <= case["Tolerance"], (case["Name"], name, error)
        kind = case["Name"].split()[-1]
        worst[kind] = max(worst[kind], error)

    compare("outputs", case["Outputs"])
    assert ("probabilities" in answers) == bool(case["Probabilities"]), case["Name"]
    if case["Probabilities"]:
        compare("probabilities", case["Probabilities"])
    outputs = np.asarray(case["Outputs"])
    if case["Task"] in ("regression", "ordinal"):
        compare("prediction", case["Prediction"])
        continue
    # Classes are compared where rounding cannot decide: away from a tie or threshold.
    margin = 1e-3
    for i, want in enumerate(case["Prediction"]):
        o, got = outputs[i], answers["prediction"][i]
        if case["Task"] == "multiclass":
            second, first = np.sort(o)[-2:]
            assert first - second < margin or got == want, (case["Name"], i, got, want)
        elif min(np.abs(o).min(), np.abs(o - 0.5).min()) >= margin:
            if case["Task"] == "multilabel":
                assert int(got.sum()) == len(want), (case["Name"], i, got, want)
            else:
                assert float(got) == want, (case["Name"], i, got, want)
print(f"onnxruntime {onnxruntime.__version__}, Python: {len(models)} models agree, largest error relative to 1+|o|: "
      f"float64 {worst['float64']:.1e}, float32 {worst['float32']:.1e}")

"""Scores the golden events of a snapshot from its files alone: a reference for other languages, and a check of the format.

Usage: python3 score.py <store>/<model>/<version> [events.jsonl]      needs the packages numpy and safetensors

More events to check may be given in a file of the same form as golden.jsonl.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

folder = Path(sys.argv[1])
raw = (folder / "manifest.json").read_bytes()
manifest = json.loads(raw)
signed = raw[: raw.rindex(b'  "manifest_digest"')]
assert manifest["manifest_digest"] == "sha256:" + hashlib.sha256(signed).hexdigest(), "manifest digest"
for file in manifest["files"]:
    content = (folder / file["name"]).read_bytes()
    assert len(content) == file["bytes"] and hashlib.sha256(content).hexdigest() == file["sha256"], file["name"]

schema = manifest["schema"]
tensors = {name: t.astype(np.float64) for name, t in load_file(folder / "model.safetensors").items()}  # F32 scores in double, too
d, m, k = manifest["features"], manifest["outputs"], manifest["k"]
assert tensors["basis"].shape == (d, k) and tensors["weights"].shape == (k, m) and tensors["bias"].shape == (m,)

columns = {}
for line in (folder / "vocabulary").read_text(encoding="utf-8").split("\n")[:-1]:
    columns[tuple(json.loads(line))] = len(columns)


def row(event):
    x = np.zeros(d)
    for field in schema.get("categorical", []):
        if (field, event.get(field)) in columns:
            x[columns[field, event[field]]] = 1
    for parts in schema.get("cross", []):
        names = [event.get(field) or "" for field in parts]
        if all(names) and ("×".join(parts), "×".join(names)) in columns:
            x[columns["×".join(parts), "×".join(names)]] = 1
    for field in schema.get("multi", []):
        names = event.get(field, [])
        for name in set(names):
            if (field, name) in columns:
                x[columns[field, name]] = 1 / len(names)
    for i, field in enumerate(schema.get("numeric", [])):
        if field["name"] in event:
            value = (event[field["name"]] - field["center"]) / field["scale"]
            limit = field.get("clip") or float("inf")
            x[len(columns) + i] = min(max(value, -limit), limit)
    if schema.get("augment"):
        x[d - 1] = 1
    return x


def mapped(event):
    """The columns of the feature map, zero where the event has none of its fields."""
    spec, p = schema["feature_map"], len(schema["numeric"])
    present = [field["name"] in event for field in schema["numeric"]]
    z = np.zeros(p)
    for i, (field, by) in enumerate(zip(schema["numeric"], spec["scaling"])):
        if present[i]:
            z[i] = min(max((event[field["name"]] - by["center"]) / by["scale"], -spec["clip"]), spec["clip"])
    if spec["kind"] == "fourier":
        count = spec["count"]
        phi = 4 * np.sqrt(2 / count) * np.cos(tensors["map_frequencies"] @ z + tensors["map_phases"])
        return phi if any(present) else np.zeros(count)
    if spec["kind"] == "products":
        return np.concatenate([z, np.outer(z, z)[np.tril_indices(p)]])
    phi = np.zeros((p, spec["count"]))
    for i in range(p):
        if present[i]:
            phi[i, np.searchsorted(tensors["map_edges"][i], z[i], side="right")] = 1
    return phi.ravel()


def outputs(event):
    x = row(event)
    a = tensors["basis"] * x[:, None]
    kernel = a.sum(0) ** 2
    if manifest["kernel"] == "anova":
        kernel = (kernel - (a**2).sum(0)) / 2
    o = kernel @ tensors["weights"] + tensors["bias"]
    if "linear" in tensors:
        o = o + x @ tensors["linear"]
    if "feature_map" in schema:
        o = o + mapped(event) @ tensors["map_weights"]
    return o


def predict(o):
    task, link, classes = schema["task"], manifest["link"], schema.get("classes")
    threshold = 0.5 if link == "identity" else 0
    if task == "binary":
        return float(o[0] > threshold)
    if task == "multiclass":
        return classes[int(np.argmax(o))]
    if task == "multilabel":
        return [name for name, v in zip(classes, o) if v > threshold]
    if task == "ordinal":
        if link == "identity":
            return min(max(o[0], 1.0), float(schema["levels"]))
        return schema["levels"] - (1 / (1 + np.exp(-o))).sum()
    return o[0]


files = [folder / "golden.jsonl", *map(Path, sys.argv[2:])]
events = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
scores = np.array([outputs(golden["event"]) for golden in events])
np.testing.assert_allclose(scores, [golden["outputs"] for golden in events], rtol=1e-9, atol=1e-9)
for o, golden in zip(scores, events):
    label, want = predict(o), golden["prediction"]
    if isinstance(label, (str, list)):
        assert label == want, (label, golden)
    else:
        assert abs(label - want) <= 1e-9 * (1 + abs(want)), (label, golden)
print(f"ok: {len(events)} events")

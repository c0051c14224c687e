"""Asks a daemon what a service in Python would, with requests as it comes. Its argument is HOST:PORT."""
import hashlib
import sys

import requests

base = f"http://{sys.argv[1]}"
with requests.Session() as session:
    models = session.get(f"{base}/v1/models").json()["models"]
    assert "ratings" in [m["model"] for m in models], models
    alias = session.get(f"{base}/v1/models/ratings/aliases/champion")
    alias.raise_for_status()
    version, digest = alias.json()["version"], alias.json()["digest"]
    assert session.get(alias.url, headers={"If-None-Match": alias.headers["ETag"]}).status_code == 304

    name = f"{base}/v1/models/ratings/versions/{version}/files/model.safetensors"
    whole, part = session.get(name), session.get(name, headers={"Range": "bytes=8-15"})
    assert whole.status_code == 200 and part.status_code == 206 and part.content == whole.content[8:16]
    manifest = session.get(f"{base}/v1/models/ratings/versions/{version}/files/manifest.json").json()
    assert digest == manifest["payload_digest"], (digest, manifest)
    for file in manifest["files"]:
        content = session.get(f"{base}/v1/models/ratings/versions/{version}/files/{file['name']}").content
        assert file["sha256"].endswith(hashlib.sha256(content).hexdigest()), file

    event = {"user": "u1", "item": "i2", "age": 31, "tags": ["a"]}
    score = session.post(f"{base}/v1/models/ratings/score", json={"events": [event, {**event, "item": "new"}]})
    assert score.headers["X-Model-Version"] == str(version) and score.json()["digest"] == digest
    known, unknown = score.json()["predictions"]
    assert known["unseen"] == [] and unknown["unseen"] == ["item=new"], (known, unknown)
    explained = session.post(f"{base}/v1/models/ratings/explain", json={"event": event}).json()
    for output, value in enumerate(known["outputs"]):
        assert abs(sum(t["contribution"][output] for t in explained["terms"]) - value) < 1e-9, explained
    top = session.post(f"{base}/v1/models/ratings/topk", json={"event": event, "over": "item", "k": 2, "exclude": ["i1"]}).json()["items"]
    assert len(top) == 2 and "i1" not in [i["name"] for i in top] and top[0]["prediction"] >= top[1]["prediction"], top

    for url, body, status in (("ratings/score", {"events": [{"user": "u1"}]}, 400), ("none/score", {"events": []}, 404), ("ratings/score", [], 400)):
        refused = session.post(f"{base}/v1/models/{url}", json=body)
        assert refused.status_code == status and refused.json()["error"], (url, refused.status_code, refused.text)
    assert session.get(f"{base}/openapi.json").json()["openapi"].startswith("3.")
print("requests", requests.__version__, "asked version", version)

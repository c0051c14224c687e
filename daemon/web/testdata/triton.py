"""Asks a daemon everything that the Open Inference Protocol has, with Triton's client as it comes. Its argument is HOST:PORT."""
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

address = sys.argv[1]
answers = {}
for name, kind in (("http", tritonclient.http), ("grpc", tritonclient.grpc)):
    client = kind.InferenceServerClient(address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("ratings") and client.is_model_ready("ratings", "1")
    server, model, index = client.get_server_metadata(), client.get_model_metadata("ratings"), client.get_model_repository_index()
    if name == "grpc":
        assert server.name == "refitd" and "binary_tensor_data" in server.extensions
        assert [t.name for t in model.inputs] == ["user", "item", "age", "tags"] and len(index.models) == 5
    else:
        assert server["name"] == "refitd" and "binary_tensor_data" in server["extensions"]
        assert [t["name"] for t in model["inputs"]] == ["user", "item", "age", "tags"] and len(index) == 5
    inputs = []
    for field, datatype, data in (
        ("user", "BYTES", np.array(["u1", "u9", ""], dtype=object)),
        ("item", "BYTES", np.array([["i2"], ["i3"], ["i1"]], dtype=object)),
        ("age", "FP64", np.array([31, 40, -2.5])),
        ("tags", "BYTES", np.array([["a", ""], ["b", "a"], ["", ""]], dtype=object)),
    ):
        tensor = kind.InferInput(field, list(data.shape), datatype)
        tensor.set_data_from_numpy(data)
        inputs.append(tensor)
    for model in ("ratings", "colours", "labels"):
        result = client.infer(model, inputs, request_id="7")
        few = client.infer(model, inputs, outputs=[kind.InferRequestedOutput("prediction")])
        assert np.array_equal(few.as_numpy("prediction"), result.as_numpy("prediction")) and few.as_numpy("outputs") is None
        answers[name, model] = [result.as_numpy(t) for t in ("outputs", "prediction", "probabilities")]
    try:
        client.infer("none", inputs)
        raise AssertionError("a model that there is not")
    except InferenceServerException as e:
        assert "no such model" in e.message(), e
for (kind, model), got in answers.items():
    assert all(np.array_equal(a, b) for a, b in zip(got, answers["http", model])), (kind, model, got, answers["http", model])
    assert got[0].shape[0] == 3 and got[0].dtype == np.float64
    print(kind, model, got[1].tolist())

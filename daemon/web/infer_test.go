package web

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/tensor"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

type inferAnswer struct {
	ModelName    string `json:"model_name"`
	ModelVersion string `json:"model_version"`
	ID           *string
	Outputs      []struct {
		Name     string
		Datatype string
		Shape    []int
		Data     []any
	}
	identity
}

// rowsBody is an inference request of three rows.
func rowsBody() map[string]any {
	return map[string]any{"id": "42", "parameters": map[string]any{"any": 1}, "inputs": []any{
		map[string]any{"name": "user", "shape": []int{3}, "datatype": "BYTES", "data": []string{"u1", "u9", ""}},
		map[string]any{
			"name":     "item",
			"shape":    []int{3, 1},
			"datatype": "BYTES",
			"data":     [][]string{{"i2"}, {"i3"}, {"i1"}},
		},
		map[string]any{"name": "age", "shape": []int{3}, "datatype": "FP64", "data": []float64{31, 40, -2.5}},
		map[string]any{
			"name":     "tags",
			"shape":    []int{3, 2},
			"datatype": "BYTES",
			"data":     []string{"a", "", "b", "a", "", ""},
		},
	}}
}

// TestInferIsTheLibrary: the tensors have the shapes that the protocol and the metadata say, and the values of the
// library.
func TestInferIsTheLibrary(t *testing.T) {
	b := newBench(t)
	inputs := []*snapshot.Input{input("u1", "i2", 31, "a"), input("u9", "i3", 40, "b", "a"), input("", "i1", -2.5)}
	for name := range tasks {
		m := open(t, b.dir, name, 1)
		for _, form := range []string{"", "/versions/1"} {
			var meta struct {
				Name, Platform string
				Versions       []string
				Inputs         []tensor.TensorMetadata
				Outputs        []tensor.TensorMetadata
			}
			b.want(http.StatusOK, &meta, "GET", "/v2/models/"+name+form, nil)
			if meta.Name != name || !reflect.DeepEqual(meta.Versions, []string{"1"}) || meta.Platform == "" ||
				!reflect.DeepEqual(meta.Inputs,
					tensor.Inputs(m.Schema())) {
				t.Errorf("%s%s: metadata %+v", name, form, meta)
			}
			var got inferAnswer
			w := b.want(http.StatusOK, &got, "POST", "/v2/models/"+name+form+"/infer", rowsBody())
			checkIdentity(t, w.Header(), got.identity, m)
			if got.ModelName != name || got.ModelVersion != "1" || got.ID == nil || *got.ID != "42" ||
				len(got.Outputs) != len(meta.Outputs) {
				t.Fatalf("%s%s: %+v", name, form, got)
			}
			p, err := m.Predict(inputs[0])
			if err != nil {
				t.Fatal(err)
			}
			if has := got.Outputs[len(got.Outputs)-1].Name == tensor.ProbabilitiesTensor; has != (p.Probabilities != nil) {
				t.Errorf("%s%s: a tensor of probabilities: %v, the library has %v", name, form, has, p.Probabilities)
			}
			for o, out := range got.Outputs {
				declared := meta.Outputs[o]
				width := 1
				if len(declared.Shape) == 2 {
					width = declared.Shape[1]
				}
				if out.Name != declared.Name || out.Datatype != declared.Datatype || out.Shape[0] != 3 ||
					len(out.Shape) != len(declared.Shape) ||
					len(out.Data) != 3*width {
					t.Fatalf("%s: output %+v, declared %+v", name, out, declared)
				}
				for i, in := range inputs {
					p, err := m.Predict(in)
					if err != nil {
						t.Fatal(err)
					}
					if want := valuesOf(t, out.Name, m.Schema(), &p); !reflect.DeepEqual(out.Data[i*width:(i+1)*width],
						want) {
						t.Errorf("%s: %s row %d: %v, want %v", name, out.Name, i, out.Data[i*width:(i+1)*width], want)
					}
				}
			}
		}
	}
}

// valuesOf is a row of an output tensor as JSON reads it.
func valuesOf(t *testing.T, name string, s *snapshot.Schema, p *snapshot.Prediction) (row []any) {
	t.Helper()
	var v any = p.Outputs
	switch {
	case name == tensor.ProbabilitiesTensor:
		v = p.Probabilities
	case name == tensor.PredictionTensor && s.Task == format.Multiclass:
		v = p.Classes
	case name == tensor.PredictionTensor && s.Task == format.Multilabel:
		set := make([]bool, len(s.Classes))
		for i, c := range s.Classes {
			set[i] = strings.Contains(" "+strings.Join(p.Classes, " ")+" ", " "+c+" ")
		}
		v = set
	case name == tensor.PredictionTensor:
		v = []float64{p.Value}
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &row)
	}
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// TestInferenceProtocol: health, server metadata, chosen outputs, and answers to requests that do not fit.
func TestInferenceProtocol(t *testing.T) {
	b := newBench(t)
	b.want(http.StatusServiceUnavailable, nil, "GET", "/v2/health/ready", nil)
	b.listen(t)
	within(t, patience, "all champions",
		func() bool { return b.ask("GET", "/v2/health/ready", nil).Code == http.StatusOK })
	var health map[string]bool
	b.want(http.StatusOK, &health, "GET", "/v2/health/live", nil)
	if !health["live"] {
		t.Errorf("live: %v", health)
	}
	var server struct {
		Name, Version string
		Extensions    []string
	}
	if b.want(http.StatusOK, &server, "GET", "/v2", nil); server.Name != "refitd" || server.Version != "test" ||
		server.Extensions == nil {
		t.Errorf("server metadata %+v", server)
	}
	var ready struct {
		Name    string
		Ready   bool
		Model   string
		Version int64
		Digest  string
	}
	if b.want(http.StatusOK, &ready, "GET", "/v2/models/ratings/ready", nil); ready.Name != "ratings" || !ready.Ready ||
		ready.Model != "ratings" || ready.Version != 1 || !strings.HasPrefix(ready.Digest, "sha256:") {
		t.Errorf("ready %+v", ready)
	}
	ready.Version = 0
	if b.want(http.StatusServiceUnavailable, &ready, "GET", "/v2/models/ratings/versions/9/ready", nil); ready.Ready ||
		ready.Version != 0 {
		t.Errorf("a version that does not exist is ready: %+v", ready)
	}
	b.want(http.StatusNotFound, nil, "GET", "/v2/models/none/ready", nil)
	b.want(http.StatusBadRequest, nil, "GET", "/v2/models/ratings/versions/0/ready", nil)

	body := rowsBody()
	body["outputs"] = []any{map[string]any{"name": "prediction"}}
	delete(body, "id")
	var got inferAnswer
	b.want(http.StatusOK, &got, "POST", "/v2/models/ratings/infer", body)
	if len(got.Outputs) != 1 || got.Outputs[0].Name != "prediction" || got.ID != nil {
		t.Errorf("chosen outputs: %+v", got)
	}

	type alter = func(body map[string]any, first map[string]any)
	for text, change := range map[string]alter{
		`the tensor "user" is missing`: func(body, _ map[string]any) { body["inputs"] = body["inputs"].([]any)[1:] },
		`the tensor "user" is there twice`: func(body, first map[string]any) {
			body["inputs"] = append(body["inputs"].([]any),
				first)
		},
		`the model has no tensor "more"`: func(body, first map[string]any) {
			body["inputs"] = append(body["inputs"].([]any), map[string]any{"name": "more"})
		},
		`outputs: the model has no tensor "no"`: func(body,
			_ map[string]any) {
			body["outputs"] = []any{map[string]any{"name": "no"}}
		},
		`the datatype "FP64"`:    func(_, first map[string]any) { first["datatype"] = "FP64" },
		`the shape [2 2]`:        func(_, first map[string]any) { first["shape"] = []int{2, 2} },
		`the shape [-1]`:         func(_, first map[string]any) { first["shape"] = []int{-1} },
		`the shape []`:           func(_, first map[string]any) { first["shape"] = []int{} },
		`has 2 elements`:         func(_, first map[string]any) { first["data"] = []string{"u1", "u2"} },
		`is not a list of BYTES`: func(_, first map[string]any) { first["data"] = []any{1, 2.5, true} },
		`has a null at 1`:        func(_, first map[string]any) { first["data"] = []any{"u1", nil, "u2"} },
		`has an element of 300 bytes`: func(_, first map[string]any) {
			first["data"] = []string{strings.Repeat("u", 300), "",
				""}
		},
		`others have 2`: func(_, first map[string]any) {
			first["shape"], first["data"] = []int{2}, []string{"u1", "u2"}
		},
		`serve.max_events`: func(_, first map[string]any) { first["shape"] = []int{1_000_000_000} },
		`is not known`:     func(body, _ map[string]any) { body["more"] = 1 },
	} {
		body := rowsBody()
		change(body, body["inputs"].([]any)[0].(map[string]any))
		var got request.Failure
		if b.want(http.StatusBadRequest, &got, "POST", "/v2/models/ratings/infer", body); !strings.Contains(got.Error,
			text) {
			t.Errorf("%q, want %q", got.Error, text)
		}
	}
}

package web

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"github.com/refitd/refitd/daemon/web/tensor"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// packed is a BYTES tensor as the binary extension has it.
func packed(names ...string) (b []byte) {
	for _, name := range names {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(name))), name...)
	}
	return b
}

func doubles(values ...float64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func singles(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// binaryBody is rowsBody with the elements behind the JSON object.
func binaryBody() (object map[string]any, tail []byte) {
	object = rowsBody()
	parts := [][]byte{
		packed("u1", "u9", ""),
		packed("i2", "i3", "i1"),
		doubles(31, 40, -2.5),
		packed("a", "", "b", "a", "", ""),
	}
	for i, in := range object["inputs"].([]any) {
		tensor := in.(map[string]any)
		delete(tensor, "data")
		tensor["parameters"] = map[string]any{"binary_data_size": len(parts[i])}
		tail = append(tail, parts[i]...)
	}
	return object, tail
}

// post sends an object and what follows it.
func (b *bench) post(object map[string]any, tail []byte, length string) *httptest.ResponseRecorder {
	b.t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		b.t.Fatal(err)
	}
	if length == "" {
		length = strconv.Itoa(len(text))
	}
	r := httptest.NewRequest("POST", "/v2/models/ratings/infer", bytes.NewReader(append(text, tail...)))
	r.Host = "localhost"
	r.Header.Set(tensor.LengthHeader, length)
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

// TestBinaryTensors: what is sent or answered behind the JSON object is the same to the bit as within it, in every
// mixture of the two.
func TestBinaryTensors(t *testing.T) {
	b := newBench(t)
	var want inferAnswer
	b.want(http.StatusOK, &want, "POST", "/v2/models/ratings/infer", rowsBody())
	object, tail := binaryBody()
	var got inferAnswer
	if w := b.post(object, tail, ""); w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &got) != nil ||
		!reflect.DeepEqual(got, want) {
		t.Fatalf("%d %s, want %+v", w.Code, w.Body, want)
	}
	first := object["inputs"].([]any)[2].(map[string]any) // numbers as FP32
	first["datatype"], first["parameters"] = "FP32", map[string]any{"binary_data_size": 12}
	w := b.post(
		object,
		append(
			append(packed("u1", "u9", "", "i2", "i3", "i1"), singles(31, 40, -2.5)...),
			packed("a", "", "b", "a", "", "")...),
		"",
	)
	if got = (inferAnswer{}); json.Unmarshal(w.Body.Bytes(), &got) != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("FP32: %d %s", w.Code, w.Body)
	}
	chosen := func(binary bool) any {
		return map[string]any{"name": "prediction", "parameters": map[string]any{"binary_data": binary}}
	}
	for _, c := range []struct {
		wholly  bool
		outputs []any
		binary  []string
	}{
		{true, nil, []string{"outputs", "prediction", "probabilities"}},
		{false, []any{chosen(true), map[string]any{"name": "outputs"}}, []string{"prediction"}},
		{true, []any{chosen(false), map[string]any{"name": "outputs"}}, []string{"outputs"}},
	} {
		body := rowsBody()
		body["parameters"] = map[string]any{"binary_data_output": c.wholly}
		if c.outputs != nil {
			body["outputs"] = c.outputs
		}
		w := b.post(body, nil, "")
		n, err := strconv.Atoi(w.Header().Get(tensor.LengthHeader))
		if w.Code != http.StatusOK || err != nil || w.Header().Get("Content-Type") != "application/octet-stream" ||
			w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		var got struct {
			Outputs []struct {
				Name       string
				Data       []any
				Parameters struct {
					Size int `json:"binary_data_size"`
				}
			}
		}
		if err := json.Unmarshal(w.Body.Bytes()[:n], &got); err != nil {
			t.Fatal(err)
		}
		rest, binaries := w.Body.Bytes()[n:], []string(nil)
		for _, out := range got.Outputs {
			var values []any
			for _, o := range want.Outputs {
				if o.Name == out.Name {
					values = o.Data
				}
			}
			if out.Data != nil {
				if !reflect.DeepEqual(out.Data, values) {
					t.Errorf("%s: %v, want %v", out.Name, out.Data, values)
				}
				continue
			}
			binaries = append(binaries, out.Name)
			for i, v := range values { // all of this model are FP64
				if x := math.Float64frombits(binary.LittleEndian.Uint64(rest[8*i:])); x != v.(float64) {
					t.Errorf("%s element %d: %v, want %v", out.Name, i, x, v)
				}
			}
			if out.Parameters.Size != 8*len(values) {
				t.Errorf("%s: %d bytes for %d elements", out.Name, out.Parameters.Size, len(values))
			}
			rest = rest[out.Parameters.Size:]
		}
		if len(rest) > 0 || !reflect.DeepEqual(binaries, c.binary) {
			t.Errorf("%d bytes too many, binary %v, want %v", len(rest), binaries, c.binary)
		}
	}
}

// TestBinaryTensorsRefused: parts that do not fit are refused with the tensor, what was expected and what is there.
func TestBinaryTensorsRefused(t *testing.T) {
	b := newBench(t)
	for text, change := range map[string]func(first map[string]any, tail []byte) ([]byte, string){
		`"x": the length of the JSON`: func(_ map[string]any, tail []byte) ([]byte, string) {
			return tail,
				"x"
		},
		`"1000000": the length of the JSON`: func(_ map[string]any, tail []byte) ([]byte, string) {
			return tail,
				"1000000"
		},
		`1 bytes follow the JSON object that no`: func(_ map[string]any, tail []byte) ([]byte, string) {
			return append(
				tail, 0), ""
		},
		`has binary_data_size 27, and 26 bytes`: func(_ map[string]any, tail []byte) ([]byte,
			string) {
			return tail[:len(tail)-1], ""
		},
		`element 0 of the tensor "user" has 16777218`: func(_ map[string]any, tail []byte) ([]byte,
			string) {
			tail[3] = 1
			return tail, ""
		},
		`element 0 of the tensor "user" is not UTF-8`: func(_ map[string]any, tail []byte) ([]byte,
			string) {
			tail[4] = 0xff
			return tail, ""
		},
		`ends within element`: func(first map[string]any, tail []byte) ([]byte, string) {
			first["parameters"] = map[string]any{"binary_data_size": len(packed("u1", "u9", "")) - 1}
			return append(tail[:15:15], tail[16:]...), ""
		},
		`more elements than the 2`: func(first map[string]any, tail []byte) ([]byte,
			string) {
			first["shape"] = []int{2}
			return tail, ""
		},
		`has 3 elements, its shape [4]`: func(first map[string]any, tail []byte) ([]byte, string) {
			first["shape"] = []int{4}
			return tail, ""
		},
		`has a NaN at 1`: func(_ map[string]any, tail []byte) ([]byte, string) {
			copy(tail[len(packed("u1", "u9", "", "i2", "i3", "i1"))+8:], doubles(math.NaN()))
			return tail, ""
		},
		`has both data and binary`: func(first map[string]any, tail []byte) ([]byte, string) {
			first["data"] = []string{"u1"}
			return tail, ""
		},
		`has binary_data_size -1`: func(first map[string]any, tail []byte) ([]byte, string) {
			first["parameters"] = map[string]any{"binary_data_size": -1}
			return tail, ""
		},
	} {
		object, tail := binaryBody()
		tail, length := change(object["inputs"].([]any)[0].(map[string]any), tail)
		if w := b.post(object, tail, length); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), strings.ReplaceAll(text, `"`, `\"`)) {
			t.Errorf("%d %s, want %s", w.Code, w.Body, text)
		}
	}
}

// TestRepositoryIndex: the models and their champions; models without one are left out where only ready ones are asked
// for.
func TestRepositoryIndex(t *testing.T) {
	b := newBench(t)
	var got []modelIndex
	if b.want(http.StatusOK, &got, "POST", "/v2/repository/index", nil); len(got) != len(tasks) ||
		got[0].State != "UNAVAILABLE" ||
		got[0].Reason == "" {
		t.Errorf("%+v", got)
	}
	if b.want(http.StatusOK, &got, "POST", "/v2/repository/index", `{"ready":true}`); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	b.listen(t)
	within(t, patience, "all champions",
		func() bool { return b.ask("GET", "/v2/health/ready", nil).Code == http.StatusOK })
	if b.want(http.StatusOK, &got, "POST", "/v2/repository/index", `{"ready":true}`); len(got) != len(tasks) ||
		got[0].State != "READY" ||
		got[0].Version != "1" {
		t.Errorf("%+v", got)
	}
	b.want(http.StatusBadRequest, nil, "POST", "/v2/repository/index", `{"more":1}`)
}

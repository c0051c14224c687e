package tensor

import (
	"encoding/binary"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/inference"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// names packs INT64 elements.
func names(list ...int64) (out []byte) {
	for _, n := range list {
		out = binary.LittleEndian.AppendUint64(out, uint64(n))
	}
	return out
}

// TestNumbersAreNames: an INT64 is the name that is its decimal text.
func TestNumbersAreNames(t *testing.T) {
	inputs := []RequestTensor{{Name: "user", Datatype: "INT64", Shape: []int{2}, binary: names(5, 4)},
		{Name: "item", Datatype: "INT64", Shape: []int{2}, binary: names(1006, -7)}}
	for i, want := range [][]string{{"5", "4"}, {"1006", "-7"}} {
		if got, err := elements[string](&inputs[i], 2, nil); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, %v, want %q", inputs[i].Name, got, err, want)
		}
	}
}

// TestFormsAgree: the same tensors are the same rows in JSON, flat and nested, behind the JSON object, and in both
// forms that a message has.
func TestFormsAgree(t *testing.T) {
	schema := &snapshot.Schema{Categorical: []string{"user"}, Numeric: []format.NumericField{{Name: "age"}},
		Multi: []string{"tags"}}
	want := []snapshot.Input{
		{Categorical: []string{"5"}, Numeric: []float64{31}, Multi: [][]string{{"7", "8"}}},
		{Categorical: []string{"-4"}, Numeric: []float64{-2.5}, Multi: [][]string{{"9"}}},
	}
	flat := func(user, age, tags string) []RequestTensor {
		return []RequestTensor{{Name: "user", Datatype: "BYTES", Shape: []int{2}, Data: jsontext.Value(user)},
			{Name: "age", Datatype: "FP64", Shape: []int{2, 1}, Data: jsontext.Value(age)},
			{Name: "tags", Datatype: "BYTES", Shape: []int{2, 2}, Data: jsontext.Value(tags)}}
	}
	message := func() *inference.ModelInferRequest {
		return &inference.ModelInferRequest{Inputs: []*inference.ModelInferRequest_InferInputTensor{
			{Name: "user", Datatype: "INT64", Shape: []int64{2}}, {Name: "age", Datatype: "FP64", Shape: []int64{2}},
			{Name: "tags", Datatype: "INT64", Shape: []int64{2, 2}}}}
	}
	contents := message()
	contents.Inputs[0].Contents = &inference.InferTensorContents{Int64Contents: []int64{5, -4}}
	contents.Inputs[1].Contents = &inference.InferTensorContents{Fp64Contents: []float64{31, -2.5}}
	contents.Inputs[2].Contents = &inference.InferTensorContents{Int64Contents: []int64{8, 7, 9, 9}}
	raw := message()
	raw.RawInputContents = [][]byte{names(5, -4), AppendElements(nil, report.Numbers([]float64{31, -2.5})),
		names(8, 7, 9, 9)}
	forms := map[string][]RequestTensor{
		"flat":   flat(`["5",-4]`, `[31,-2.5]`, `["8","7","9",""]`),
		"nested": flat(`["5","-4"]`, `[[31],[-2.5]]`, `[[7,8],["9","9"]]`),
		"binary": {{Name: "user", Datatype: "INT64", Shape: []int{2}, binary: names(5, -4)},
			{Name: "age", Datatype: "FP64", Shape: []int{2}, binary: AppendElements(nil, report.Numbers([]float64{31, -2.5}))},
			{Name: "tags", Datatype: "BYTES", Shape: []int{2, 2},
				binary: AppendElements(nil, []string{"8", "7", "9", ""})}},
	}
	for name, ask := range map[string]*inference.ModelInferRequest{"contents": contents, "raw": raw} {
		inputs, err := FromMessage(ask)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		forms[name] = inputs
	}
	held := request.InflightOf(httptest.NewRequest("GET", "/", nil))
	for name, inputs := range forms {
		got, err := Rows(schema, inputs, 2, held)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
		if _, err := Rows(schema, inputs, 1, held); err == nil || !strings.Contains(err.Error(), "serve.max_events") {
			t.Errorf("%s: two rows where one is allowed: %v", name, err)
		}
	}
}

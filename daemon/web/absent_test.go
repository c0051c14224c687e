package web

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/tensor"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TestAbsentFields: an event that lacks an optional field is scored without it, as the library does, in every request,
// and the field is named and counted; one that lacks another is refused with its name. A version of before fields could
// be optional is asked as it was.
func TestAbsentFields(t *testing.T) {
	b := newBench(t)
	c := contents(format.Regression, 3)
	c.Schema.Optional = []string{"age", "item", "tags"}
	c.Golden = []format.Golden{
		{
			Input: snapshot.Input{
				Categorical: []string{"u1", ""},
				Numeric:     []float64{math.NaN()},
				Multi:       [][]string{nil},
			},
		},
	}
	b.publish(t, "prices", c)
	b.listen(t)
	m := open(t, b.dir, "prices", 2)
	absent := func() float64 { return testutil.ToFloat64(b.metrics.absent.WithLabelValues("prices")) }
	for _, test := range []struct {
		event string
		in    snapshot.Input
		lacks []string
	}{
		{`{"user":"u1"}`, snapshot.Input{Categorical: []string{"u1", ""}, Numeric: []float64{math.NaN()},
			Multi: [][]string{{}}}, []string{"item", "age", "tags"}},
		{`{"user":"u1","item":null,"age":null,"tags":null}`, snapshot.Input{Categorical: []string{"u1", ""},
			Numeric: []float64{math.NaN()}, Multi: [][]string{{}}},
			[]string{"item", "age", "tags"}},
		{`{"user":"u1","item":"i2","tags":["a"]}`, snapshot.Input{Categorical: []string{"u1", "i2"},
			Numeric: []float64{math.NaN()}, Multi: [][]string{{"a"}}},
			[]string{"age"}},
		{`{"user":"u2","item":"i2","age":0,"tags":["a"]}`, snapshot.Input{Categorical: []string{"u2", "i2"},
			Numeric: []float64{0}, Multi: [][]string{{"a"}}}, nil},
	} {
		want, err := m.Predict(&test.in)
		if err != nil {
			t.Fatal(err)
		}
		before := absent()
		var got struct {
			Predictions []prediction
		}
		b.want(http.StatusOK, &got, "POST", "/v1/models/prices/score", `{"events":[`+test.event+`]}`)
		p := got.Predictions[0]
		if float64(p.Outputs[0]) != want.Outputs[0] || !slices.Equal(p.Absent, test.lacks) {
			t.Errorf("%s: %+v, want %+v", test.event, p, want)
		}
		if got := absent() - before; got != float64(len(test.lacks)) {
			t.Errorf("%s: %g fields counted, want %d", test.event, got, len(test.lacks))
		}
		var explained struct {
			prediction
		}
		b.want(http.StatusOK, &explained, "POST", "/v1/models/prices/explain", `{"event":`+test.event+`}`)
		if float64(explained.Outputs[0]) != want.Outputs[0] || !slices.Equal(explained.Absent, test.lacks) {
			t.Errorf("%s explained: %+v", test.event, explained)
		}
		var top topAnswer
		b.want(http.StatusOK, &top, "POST", "/v1/models/prices/topk",
			`{"event":`+test.event+`,"over":"item","k":2,"query_vector":true}`)
		vectors, err := m.Vectors("item", "")
		if err != nil {
			t.Fatal(err)
		}
		if query, _, err := vectors.Query(nil, &test.in, new(snapshot.Scratch)); err != nil ||
			!slices.Equal(top.QueryVector, query) {
			t.Errorf("%s: query vector %v, want %v: %v", test.event, top.QueryVector, query, err)
		}
		inputs := fmt.Sprintf(`{"name":"user","shape":[1],"datatype":"BYTES","data":[%q]}`, test.in.Categorical[0])
		if test.in.Categorical[1] != "" || test.event == `{"user":"u1"}` { // "" in a tensor, or no tensor
			inputs += fmt.Sprintf(`,{"name":"item","shape":[1],"datatype":"BYTES","data":[%q]}`, test.in.Categorical[1])
		}
		switch v := test.in.Numeric[0]; {
		case !math.IsNaN(v):
			inputs += fmt.Sprintf(`,{"name":"age","shape":[1],"datatype":"FP64","data":[%g]}`, v)
		case test.event == `{"user":"u1"}`:
			inputs += `,{"name":"age","shape":[1],"datatype":"FP64","data":[null]}`
		}
		if list := test.in.Multi[0]; len(list) > 0 {
			inputs += fmt.Sprintf(`,{"name":"tags","shape":[1,1],"datatype":"BYTES","data":[%q]}`, list[0])
		}
		var inferred inferAnswer
		b.want(http.StatusOK, &inferred, "POST", "/v2/models/prices/infer", `{"inputs":[`+inputs+`]}`)
		for _, o := range inferred.Outputs {
			if o.Name == tensor.OutputsTensor && o.Data[0] != want.Outputs[0] {
				t.Errorf("%s inferred: %v, want %v", test.event, o.Data, want.Outputs)
			}
		}
	}
	for path, body := range map[string]string{
		"/v1/models/prices/score":   `{"events":[{"item":"i1"}]}`,
		"/v1/models/prices/explain": `{"event":{"user":null}}`,
		"/v1/models/prices/topk":    `{"event":{"age":1},"over":"item"}`,
		"/v2/models/prices/infer":   `{"inputs":[{"name":"user","shape":[2],"datatype":"BYTES","data":["u1",""]}]}`,
	} {
		var got request.Failure
		if b.want(http.StatusBadRequest, &got, "POST", path, body); got.Reason != "missing_field" ||
			got.Field != "user" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	var got request.Failure
	b.want(http.StatusBadRequest, &got, "POST", "/v2/models/prices/infer",
		`{"inputs":[{"name":"item","shape":[1],"datatype":"BYTES","data":["i1"]}]}`)
	if got.Error != `inputs: the tensor "user" is missing` {
		t.Error(got.Error)
	}
	// Version 1 is of before: HTTP wants its events whole, and its tensors may say "" for a name.
	b.want(http.StatusBadRequest, &got, "POST", "/v1/models/prices/versions/1/score", `{"events":[{"user":"u1"}]}`)
	b.want(
		http.StatusOK,
		nil,
		"POST",
		"/v2/models/prices/versions/1/infer",
		`{"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":[""]},
		{"name":"item","shape":[1],"datatype":"BYTES","data":["i1"]},{"name":"age","shape":[1],"datatype":"FP64","data":[1]},
		{"name":"tags","shape":[1,1],"datatype":"BYTES","data":["a"]}]}`,
	)
}

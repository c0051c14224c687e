package web

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// newNumbered is newBench with a model whose names are whole numbers.
func newNumbered(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	c := contents(format.Multiclass, 3)
	c.Vocabulary = [][]string{{"1", "3", "5"}, {"1006", "7", "8", "9"}, {"7", "a"}}
	c.Schema.Classes = []string{"0", "1", "2"}
	c.Golden = []format.Golden{{Input: snapshot.Input{Categorical: []string{"5", "7"}}}}
	if _, err := b.store.Publish(t.Context(), "ratings", c); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWholeNumbersAreNames: a whole number is a name wherever a request has one, as in events.
func TestWholeNumbersAreNames(t *testing.T) {
	b := newNumbered(t)
	ask := func(status int, path, body string) (answer string) {
		w := b.want(status, nil, "POST", "/v1/models/ratings/versions/2/"+path, body)
		return w.Body.String()
	}
	event := `{"user":"5","age":30,"tags":["7","a"]}`
	for _, exclude := range []string{`["1006","9"]`, `[1006,9]`, `[1006,"9"]`} {
		for _, class := range []string{`"1"`, `1`} {
			var got struct{ Items []struct{ Name string } }
			text := ask(
				http.StatusOK,
				"topk",
				`{"event":`+strings.ReplaceAll(event, `"5"`,
					"5")+`,"over":"item","class":`+class+`,"exclude":`+exclude+`}`,
			)
			if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Items) != 2 ||
				strings.Contains(text, `"1006"`) {
				t.Errorf("exclude %s by class %s: %s", exclude, class, text)
			}
		}
	}
	for _, exclude := range []string{`"1006"`, `1006`, `[1006.0]`, `[1e3]`, `[true]`, `[null]`, `[["7"]]`} {
		ask(http.StatusBadRequest, "topk", `{"event":`+event+`,"over":"item","class":"1","exclude":`+exclude+`}`)
	}
	predictions := func(event string) string {
		_, list, _ := strings.Cut(ask(http.StatusOK, "score", `{"events":[`+event+`]}`), `"predictions"`)
		return list
	}
	if a, b := predictions(`{"user":"5","item":"7","age":30,"tags":["7"]}`), predictions(
		`{"user":5,"item":7,"age":30,"tags":[7]}`); a != b ||
		a == "" {
		t.Errorf("%s\nwith numbers %s", a, b)
	}
}

// TestHalfPairsInRequests: half an emoji in a field that the model does not use, or in one that it does, is no reason
// to refuse a request, and bytes that are not UTF-8 are.
func TestHalfPairsInRequests(t *testing.T) {
	b := newBench(t)
	const event = `{"user":"u1 \ud83d","age":30,"tags":["\udc00"],"comment":"nice \ud83d","more":{"\ud83d":1}}`
	scored := strings.Replace(event, "{", `{"item":"i1",`, 1)
	labelled := strings.Replace(scored, "{", `{"y":3,`, 1)
	for path, body := range map[string]string{
		"score": `{"events":[` + scored + `]}`, "explain": `{"event":` + scored + `}`,
		"topk": `{"event":` + event + `,"over":"item","exclude":["\ud83d"],"history":[` + labelled + `]}`,
	} {
		if path == "topk" { // the model cannot fold a history in
			b.want(http.StatusBadRequest, nil, "POST", "/v1/models/ratings/topk", body)
			body = strings.Replace(body, `,"history":[`+labelled+`]`, "", 1)
		}
		w := b.want(http.StatusOK, nil, "POST", "/v1/models/ratings/"+path, body)
		if path == "score" && !strings.Contains(w.Body.String(), "user=u1 \ufffd") {
			t.Errorf("%s", w.Body)
		}
		b.want(http.StatusBadRequest, nil, "POST", "/v1/models/ratings/"+path, strings.Replace(body, "nice", "\xff", 1))
	}
}

// TestTensorsOfWholeNumbers: a BYTES tensor takes whole numbers in its data, and INT64 is taken in its place, in JSON
// and in binary.
func TestTensorsOfWholeNumbers(t *testing.T) {
	b := newNumbered(t)
	body := func(datatype string, user, item any) map[string]any {
		return map[string]any{"inputs": []any{
			map[string]any{"name": "user", "shape": []int{2}, "datatype": datatype, "data": user},
			map[string]any{"name": "item", "shape": []int{2, 1}, "datatype": datatype, "data": item},
			map[string]any{"name": "age", "shape": []int{2}, "datatype": "FP64", "data": []float64{31, 40}},
			map[string]any{"name": "tags", "shape": []int{2, 1}, "datatype": datatype, "data": []int{7, 8}},
		}}
	}
	const path = "/v2/models/ratings/versions/2/infer"
	var want, got inferAnswer
	b.want(http.StatusOK, &want, "POST", path, body("BYTES", []string{"5", "4"}, [][]string{{"1006"}, {"-7"}}))
	for _, datatype := range []string{"BYTES", "INT64"} {
		got = inferAnswer{}
		b.want(http.StatusOK, &got, "POST", path, body(datatype, []int{5, 4}, [][]int{{1006}, {-7}}))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", datatype, got, want)
		}
	}
	b.want(http.StatusBadRequest, nil, "POST", path, body("BYTES", []float64{5.5, 4}, [][]int{{1006}, {7}}))
}

// TestBinaryNames: a binary label that has names is answered by them, with the names in the order of the probabilities;
// a path that is not served is answered with those that are.
func TestBinaryNames(t *testing.T) {
	b := newBench(t)
	c := contents(format.Binary, 3)
	c.Schema.Positive = "UP"
	if _, err := b.store.Publish(t.Context(), "clicks", c); err != nil {
		t.Fatal(err)
	}
	const event = `{"user":"u1","item":"i1","age":30,"tags":["a"]}`
	for path, body := range map[string]string{"score": `{"events":[` + event + `]}`, "explain": `{"event":` + event +
		`}`} {
		text := b.want(http.StatusOK, nil, "POST", "/v1/models/clicks/versions/2/"+path, body).Body.String()
		if !strings.Contains(text, `"classes":["not UP","UP"]`) ||
			!strings.Contains(text, `"prediction":"UP"`) && !strings.Contains(text, `"prediction":"not UP"`) {
			t.Errorf("%s: %s", path, text)
		}
	}
	if text := b.want(http.StatusNotFound, nil, "GET", "/v1/model", nil).Body.String(); !strings.Contains(text,
		"/v1/models, ") ||
		strings.Contains(text, "/v2/") {
		t.Errorf("%s", text)
	}
}

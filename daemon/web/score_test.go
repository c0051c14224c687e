package web

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// checkIdentity fails the test unless an answer and its header name the version.
func checkIdentity(t *testing.T, header http.Header, got identity, m *snapshot.Model) {
	t.Helper()
	manifest := m.Manifest()
	if got != identityOf(&manifest) || header.Get(versionHeader) != strconv.FormatInt(manifest.Version, 10) {
		t.Errorf("answered as %+v with %s %q, want %+v", got, versionHeader, header.Get(versionHeader),
			identityOf(&manifest))
	}
}

type scoreReply struct {
	identity
	Predictions []struct {
		Prediction    any
		Outputs       []float64
		Probabilities []float64
		Ranked        []string
		Unseen        []string
	}
}

// TestScoreIsTheLibrary: for every task and every form of the path, what HTTP says is what the library says, to the
// last bit.
func TestScoreIsTheLibrary(t *testing.T) {
	b := newBench(t)
	events := []any{
		ratingEvent("u1", "i2", 31, "a"),
		ratingEvent("u9", "i3", 40, "b", "a", "zz"),
		ratingEvent("u3", "i9", 77),
	}
	inputs := []*snapshot.Input{
		input("u1", "i2", 31, "a"),
		input("u9", "i3", 40, "b", "a", "zz"),
		input("u3", "i9", 77),
	}
	for name := range tasks {
		m := open(t, b.dir, name, 1)
		for _, form := range []string{"", "/aliases/champion", "/aliases/latest", "/versions/1"} {
			var got scoreReply
			w := b.want(http.StatusOK, &got, "POST", "/v1/models/"+name+form+"/score", map[string]any{"events": events})
			checkIdentity(t, w.Header(), got.identity, m)
			if len(got.Predictions) != len(events) {
				t.Fatalf("%s%s: %d predictions", name, form, len(got.Predictions))
			}
			for i, g := range got.Predictions {
				want, err := m.Predict(inputs[i])
				if err != nil {
					t.Fatal(err)
				}
				label := want.Label()
				if list, ok := label.([]string); ok {
					label = toAny(list)
				}
				unseen := want.Unseen
				if unseen == nil {
					unseen = []string{}
				}
				if !reflect.DeepEqual(g.Outputs, want.Outputs) ||
					!reflect.DeepEqual(g.Probabilities, want.Probabilities) ||
					!reflect.DeepEqual(g.Prediction, label) ||
					!reflect.DeepEqual(g.Unseen, unseen) {
					t.Errorf("%s%s event %d: %+v, want %+v", name, form, i, g, want)
				}
			}
		}
	}
}

func toAny(list []string) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// TestBadRequests: the answer says what is wrong in {"error": text} and nothing else happens.
func TestBadRequests(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Limits = func(string) Limits { return Limits{MaxEvents: 2, MaxItems: 3} } })
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	one := `{"user":"u1","item":"i1","age":1,"tags":[]}`
	for _, test := range []struct {
		path, body string
		status     int
		text       string
	}{
		{"/v1/models/ratings/score", ``, 400, "not one JSON value"},
		{"/v1/models/ratings/score", `{"events":[` + one + `]} {}`, 400, "not one JSON value"},
		{"/v1/models/ratings/score", `{"events":[` + one + `],"event":1}`, 400, `"/event" is not known`},
		{"/v1/models/ratings/score", `{"events":[],"events":[]}`, 400, "duplicate"},
		{"/v1/models/ratings/score", `{}`, 400, `"events" is missing`},
		{"/v1/models/ratings/score", `{"events":null}`, 400, `"events" is missing`},
		{"/v1/models/ratings/score", `{"events":{}}`, 400, `"/events" has another type`},
		{"/v1/models/ratings/score", `{"events":[` + one + `,` + one + `,` + one + `]}`, 400, "serve.max_events"},
		{"/v1/models/ratings/score", `{"events":[` + one + `,7]}`, 400, `element 1: not_object`},
		{"/v1/models/ratings/score", `{"events":[{"user":"u1"}]}`, 400, `element 0: missing_field`},
		{"/v1/models/ratings/score", `{"events":[{"user":1.5,"item":"i","age":1,"tags":[]}]}`, 400, `element 0: wrong_type`},
		{"/v1/models/ratings/score", `{"events":[{"user":"u","user":"u","item":"i","age":1,"tags":[]}]}`, 400, "duplicate"},
		{"/v1/models/ratings/score", `{"events":[{"x":` + deep + `}]}`, 400, "too_deep"},
		{"/v1/models/ratings/score", `{"events":[{"user":"` + strings.Repeat("u", 300) + `","item":"i","age":1,"tags":[]}]}`,
			400, "id_too_long"},
		{"/v1/models/ratings/score", `{"events":[{"user":"u","item":"i","age":1e300,"tags":[]}]}`, 400, "number_range"},
		{"/v1/models/nothing/score", `{"events":[]}`, 404, "no such model"},
		{"/v1/models/ratings/aliases/none/score", `{"events":[]}`, 404, "no such version"},
		{"/v1/models/ratings/aliases/BAD/score", `{"events":[]}`, 400, "a name has"},
		{"/v1/models/ratings/versions/2/score", `{"events":[]}`, 404, "no such version"},
		{"/v1/models/ratings/versions/01/score", `{"events":[]}`, 400, "whole number"},
		{"/v1/models/ratings/versions/-1/score", `{"events":[]}`, 400, "whole number"},
		{"/v1/models/ratings/versions/99999999999999999999/score", `{"events":[]}`, 400, "whole number"},
	} {
		var got request.Failure
		w := b.want(test.status, &got, "POST", test.path, test.body)
		if !strings.Contains(got.Error, test.text) {
			t.Errorf("%s %.80s: %q, want %q", test.path, test.body, got.Error, test.text)
		}
		if ct := w.Header().Get("Content-Type"); ct != "application/json" {
			t.Errorf("%s: content type %q", test.path, ct)
		}
	}
	for path, body := range map[string]string{"score": `{"events":[{"user":"u1","item":"i1","age":"secret","tags":[]}]}`,
		"explain": `{"event":{"user":"u1","item":"i1","age":"secret","tags":[]}}`,
		"topk":    `{"event":{"user":"u1","age":"secret","tags":[]},"over":"item","k":3}`} {
		var got request.Failure
		b.want(http.StatusBadRequest, &got, "POST", "/v1/models/ratings/"+path, body)
		if got.Reason != "wrong_type" || got.Field != "age" || got.Expected != "a number" || got.Got != "a string" ||
			strings.Contains(got.Error, "secret") {
			t.Errorf("%s: %+v", path, got)
		}
	}
	got := b.ask("POST", "/v1/models/ratings/score", `{"events":["`+strings.Repeat("x", request.MaxBody)+`"]}`)
	if got.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the limit: %d", got.Code)
	}
}

// TestChampionIsSwapped: a promotion is served without a restart, and a version that is damaged is not: the one before
// serves on.
func TestChampionIsSwapped(t *testing.T) {
	b := newBench(t)
	b.listen(t)
	body := map[string]any{"events": []any{ratingEvent("u1", "i1", 40)}}
	version := func() (int64, float64) {
		var got scoreReply
		b.want(http.StatusOK, &got, "POST", "/v1/models/prices/score", body)
		return got.Version, got.Predictions[0].Outputs[0]
	}
	first, value := version()
	b.publish(t, "prices", contents(format.Regression, 2))
	within(t, patience, "the new champion", func() bool { v, _ := version(); return v == first+1 })
	if _, now := version(); math.Abs(now-value) < 1e-12 {
		t.Error("the new champion predicts what the old one did")
	}
	third := b.publish(t, "prices", contents(format.Regression, 3))
	within(t, patience, "the third champion", func() bool { v, _ := version(); return v == third })
	b.promote(t, "prices", first)
	within(t, patience, "the rollback", func() bool { v, now := version(); return v == first && now == value })
	// A store does not promote a version that is damaged, but a copy of one may hold such an alias.
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	damage(t, b.dir, "prices", third)
	if _, err := publish.NewStore(copied).MoveAlias(t.Context(), "prices", publish.Move{Alias: pointer.Champion,
		To: third}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(copied, "prices", "aliases", "champion"), filepath.Join(b.dir, "prices", "aliases",
		"champion")); err != nil {
		t.Fatal(err)
	}
	watcher := b.caches["prices"].watcher.Load()
	within(t, patience, "the refusal", func() bool { return watcher.Status().Refused > 0 })
	if v, now := version(); v != first || now != value {
		t.Errorf("version %d answers after a damaged one became champion", v)
	}
	b.want(http.StatusBadGateway, nil, "POST", fmt.Sprintf("/v1/models/prices/versions/%d/score", third), body)
}

// TestTopKIsTheLibrary: the ranking of a field, without what is excluded, and by the class that was asked for.
func TestTopKIsTheLibrary(t *testing.T) {
	b := newBench(t)
	for name := range tasks {
		m := open(t, b.dir, name, 1)
		class := ""
		if classes := m.Schema().Classes; len(classes) > 0 {
			class = classes[1]
		}
		var scratch snapshot.Scratch
		want, err := m.TopK(
			nil,
			&snapshot.Query{
				Input:   *input("u2", "", 55, "b"),
				Over:    "item",
				K:       3,
				Exclude: []string{"i2", "none"},
				Class:   class,
			},
			&scratch,
		)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range []any{nil, "i1", 7} { // what the event has there does not matter
			ask := map[string]any{"user": "u2", "age": 55, "tags": []string{"b"}}
			if item != nil {
				ask["item"] = item
			}
			var got struct {
				identity
				Items []struct {
					Name       string
					Prediction float64
				}
			}
			body := map[string]any{"event": ask, "over": "item", "k": 3, "exclude": []string{"i2", "none"}}
			if class != "" {
				body["class"] = class
			}
			w := b.want(http.StatusOK, &got, "POST", "/v1/models/"+name+"/topk", body)
			checkIdentity(t, w.Header(), got.identity, m)
			if len(got.Items) != len(want) || len(want) != 3 {
				t.Fatalf("%s: %+v, want %+v", name, got.Items, want)
			}
			for i, g := range got.Items {
				if g.Name != want[i].Name || g.Prediction != want[i].Value {
					t.Errorf("%s: item %d is %+v, want %+v", name, i, g, want[i])
				}
			}
		}
	}
	for body, text := range map[string]string{
		`{"event":{"user":"u1","age":1,"tags":[]},"over":"none"}`:             `"over" is`,
		`{"event":{"user":"u1","age":1,"tags":[]},"over":"age"}`:              `"over" is`,
		`{"event":{"user":"u1","age":1,"tags":[]},"over":"item","k":0}`:       `"k" is 0`,
		`{"event":{"user":"u1","age":1,"tags":[]},"over":"item","k":1001}`:    `serve.max_items`,
		`{"event":{"age":1,"tags":[]},"over":"item"}`:                         `missing_field`,
		`{"event":7,"over":"item"}`:                                           `not an object`,
		`{"over":"item"}`:                                                     `not an object`,
		`{"event":{"user":"u1","age":1,"tags":[]},"over":"item","class":"x"}`: `"class" is "x"`,
	} {
		var got request.Failure
		if b.want(http.StatusBadRequest, &got, "POST", "/v1/models/ratings/topk", body); !strings.Contains(got.Error,
			text) {
			t.Errorf("%s: %q, want %q", body, got.Error, text)
		}
	}
	b.want(http.StatusBadRequest, nil, "POST", "/v1/models/colours/topk",
		`{"event":{"user":"u1","age":1,"tags":[]},"over":"item"}`)
}

// TestExplanationsAddUp: the contributions of the terms are the outputs.
func TestExplanationsAddUp(t *testing.T) {
	b := newBench(t)
	for name := range tasks {
		m := open(t, b.dir, name, 1)
		var got struct {
			identity
			Prediction any
			Outputs    []float64
			Terms      []struct {
				Features     []string
				Contribution []float64
			}
		}
		w := b.want(http.StatusOK, &got, "POST", "/v1/models/"+name+"/explain",
			map[string]any{"event": ratingEvent("u1", "i3", 52, "a")})
		checkIdentity(t, w.Header(), got.identity, m)
		p, err := m.Predict(input("u1", "i3", 52, "a"))
		if err != nil {
			t.Fatal(err)
		}
		sums := make([]float64, m.NumOutputs())
		pairs := 0
		for _, term := range got.Terms {
			for o, v := range term.Contribution {
				sums[o] += v
			}
			if len(term.Features) == 2 {
				pairs++
			}
		}
		for o, sum := range sums {
			if math.Abs(sum-p.Outputs[o]) > 1e-12 || got.Outputs[o] != p.Outputs[o] {
				t.Errorf("%s: terms of output %d add up to %v, the output is %v, the library's %v", name, o, sum,
					got.Outputs[o], p.Outputs[o])
			}
		}
		if pairs != 6 { // of user, item, age and tag
			t.Errorf("%s: %d pairs in %+v", name, pairs, got.Terms)
		}
	}
	b.want(http.StatusBadRequest, nil, "POST", "/v1/models/ratings/explain", `{}`)
	b.want(http.StatusBadRequest, nil, "POST", "/v1/models/ratings/explain", `{"event":{"user":"u1"}}`)
}

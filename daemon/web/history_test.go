package web

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// foldable is contents of an ordinal model with a fold-in of users.
func foldable() *format.Contents {
	c := contents(format.Ordinal, 5)
	for i := range c.Linear {
		c.Linear[i] = c.Linear[i/4*4]
	}
	for i := range c.Weights {
		c.Weights[i] = c.Weights[i/4*4]
	}
	c.FoldIn = &format.FoldIn{
		Likelihood:  format.LogisticLikelihood,
		Shared:      true,
		Coordinates: []int{0, 1, 2},
		Scale:       []float64{1, 1, 1},
		Fields: []format.FoldInField{
			{
				Name:      "user",
				Precision: []float64{1, 2, 2, 2},
				Signs:     []int{1, 1, 1},
				Rates:     []float64{1, 0.9},
				Losses:    []float64{0, 0},
			},
		},
	}
	return c
}

// TestHistoryIsTheLibrary: what HTTP says with a history is what an overlay of the library says.
func TestHistoryIsTheLibrary(t *testing.T) {
	b := newBench(t)
	b.promote(t, "ratings", b.publish(t, "ratings", foldable()))
	m := open(t, b.dir, "ratings", 2)
	var history []map[string]any
	var events []snapshot.LabelledEvent
	for i, item := range []string{"i1", "i2", "i9", "i4"} {
		e := ratingEvent("u9", item, 30, "a")
		e["y"] = i%5 + 1
		history = append(history, e)
		events = append(events, snapshot.LabelledEvent{Input: *input("u9", item, 30, "a"), Label: float64(i%5 + 1)})
	}
	over, err := m.Fold(events)
	if err != nil {
		t.Fatal(err)
	}
	in := input("u9", "i3", 50)
	want, err := over.Predict(in)
	if err != nil {
		t.Fatal(err)
	}
	var score struct {
		Folded      int
		Predictions []struct {
			Prediction float64
			Outputs    []float64
			Unseen     []string
		}
	}
	b.want(http.StatusOK, &score, "POST", "/v1/models/ratings/score",
		map[string]any{"events": []any{ratingEvent("u9", "i3", 50)}, "history": history})
	if p := score.Predictions[0]; p.Prediction != want.Value || score.Folded != 4 || len(p.Unseen) != 0 {
		t.Errorf("scored %+v, the library says %g", score, want.Value)
	}
	plain := b.ask("POST", "/v1/models/ratings/score",
		map[string]any{"events": []any{ratingEvent("u9", "i3", 50)}}).Body.String()
	if strings.Contains(plain, "folded") || !strings.Contains(plain, "user=u9") {
		t.Errorf("without a history: %s", plain)
	}
	var inferred struct {
		inferAnswer
		Folded int
	}
	rows := func(parameters map[string]any) map[string]any {
		return map[string]any{"parameters": parameters, "inputs": []any{
			map[string]any{"name": "user", "shape": []int{1}, "datatype": "BYTES", "data": []string{"u9"}},
			map[string]any{"name": "item", "shape": []int{1}, "datatype": "BYTES", "data": []string{"i3"}},
			map[string]any{"name": "age", "shape": []int{1}, "datatype": "FP64", "data": []float64{50}},
			map[string]any{"name": "tags", "shape": []int{1, 1}, "datatype": "BYTES", "data": []string{""}}}}
	}
	b.want(http.StatusOK, &inferred, "POST", "/v2/models/ratings/infer",
		rows(map[string]any{"history": history, "priority": 1}))
	for _, out := range inferred.Outputs {
		if row := valuesOf(t, out.Name, m.Schema(), &want); !reflect.DeepEqual(out.Data, row) || inferred.Folded != 4 {
			t.Errorf("inferred %s %v of %d events, the library says %v", out.Name, out.Data, inferred.Folded, row)
		}
	}
	plain = b.ask("POST", "/v2/models/ratings/infer", rows(map[string]any{"priority": 1})).Body.String()
	if known, err := m.Predict(in); err != nil || strings.Contains(plain, "folded") ||
		!strings.Contains(plain, fmt.Sprint(known.Outputs[0])) {
		t.Errorf("inferred without a history: %s, %v", plain, err)
	}
	var explained struct {
		Folded     int
		Prediction float64
		Outputs    []float64
		Terms      []struct{ Contribution []float64 }
	}
	b.want(http.StatusOK, &explained, "POST", "/v1/models/ratings/explain",
		map[string]any{"event": ratingEvent("u9", "i3", 50), "history": history})
	sum := 0.0
	for _, term := range explained.Terms {
		sum += term.Contribution[1]
	}
	if explained.Prediction != want.Value || explained.Folded != 4 || math.Abs(sum-want.Outputs[1]) > 1e-9 {
		t.Errorf("explained %+v, want %g of terms that add up to %g", explained, want.Value, want.Outputs[1])
	}
	var top struct {
		Folded int
		Items  []struct {
			Name       string
			Prediction float64
		}
	}
	b.want(http.StatusOK, &top, "POST", "/v1/models/ratings/topk",
		map[string]any{"event": ratingEvent("u9", "-", 50), "over": "item", "k": 4, "history": history})
	if top.Folded != 4 || len(top.Items) != 4 {
		t.Fatalf("top list %+v", top)
	}
	for _, item := range top.Items {
		p, err := over.Predict(input("u9", item.Name, 50))
		if err != nil || math.Abs(p.Value-item.Prediction) > 1e-9 {
			t.Errorf("%s has %g, the library says %g, %v", item.Name, item.Prediction, p.Value, err)
		}
	}
	// Events that the version has learned from say how certain its row is.
	for i := range events {
		history[i]["user"], events[i].Categorical[0], events[i].Held = "u1", "u1", i < 3
	}
	if over, err = m.Fold(events); err != nil {
		t.Fatal(err)
	}
	if want, err = over.Predict(input("u1", "i3", 50)); err != nil {
		t.Fatal(err)
	}
	asked := map[string]any{"events": []any{ratingEvent("u1", "i3", 50)}, "history": history, "history_held": 3}
	if b.want(http.StatusOK, &score, "POST", "/v1/models/ratings/score",
		asked); score.Predictions[0].Prediction != want.Value ||
		score.Folded != 4 {
		t.Errorf("three events held: %+v, the library says %g", score, want.Value)
	}
	of := rows(map[string]any{"history": history, "history_held": 3})
	of["inputs"].([]any)[0].(map[string]any)["data"] = []string{"u1"}
	b.want(http.StatusOK, &inferred, "POST", "/v2/models/ratings/infer", of)
	for _, out := range inferred.Outputs {
		if row := valuesOf(t, out.Name, m.Schema(), &want); !reflect.DeepEqual(out.Data, row) || inferred.Folded != 4 {
			t.Errorf("three events held: inferred %s %v, the library says %v", out.Name, out.Data, row)
		}
	}
	for _, held := range []int{-1, 5} {
		asked["history_held"] = held
		if text := b.ask("POST", "/v1/models/ratings/score", asked).Body.String(); !strings.Contains(text,
			"a whole number from 0 to 4") {
			t.Errorf("%d of four events held: %s", held, text)
		}
	}
	// What the history has is left out on request, and so is what the request names.
	b.want(
		http.StatusOK,
		&top,
		"POST",
		"/v1/models/ratings/topk",
		map[string]any{"event": ratingEvent("u9", "-", 50), "over": "item", "k": 4,
			"history": history[:2], "exclude_history": true},
	)
	if len(top.Items) != 2 ||
		top.Items[0].Name+top.Items[1].Name != "i3i4" && top.Items[0].Name+top.Items[1].Name != "i4i3" {
		t.Errorf("without i1 and i2: %+v", top.Items)
	}
	b.want(
		http.StatusOK,
		&top,
		"POST",
		"/v1/models/ratings/topk",
		map[string]any{"event": ratingEvent("u9", "-", 50), "over": "item", "k": 4,
			"history": history[:2], "exclude_history": true, "exclude": []string{"i4"}},
	)
	if len(top.Items) != 1 || top.Items[0].Name != "i3" {
		t.Errorf("without i1, i2 and i4: %+v", top.Items)
	}
}

func TestHistoryIsRefused(t *testing.T) {
	b := newBench(t)
	b.promote(t, "ratings", b.publish(t, "ratings", foldable()))
	event, good := ratingEvent("u1", "i1", 30), ratingEvent("u1", "i2", 30)
	good["y"] = 3
	with := func(change map[string]any) []any {
		bad := ratingEvent("u1", "i1", 30)
		bad["y"] = 2
		for k, v := range change {
			if bad[k] = v; v == nil {
				delete(bad, k)
			}
		}
		return []any{good, bad}
	}
	long := make([]any, snapshot.MaxHistory+1)
	for i := range long {
		long[i] = good
	}
	for want, history := range map[string]any{
		`"history" element 1: missing_field`:    with(map[string]any{"y": nil}),
		`"history" element 1: label_range`:      with(map[string]any{"y": 9}),
		`"history" element 1: wrong_type`:       with(map[string]any{"user": 1.5}),
		`"history" element 0: not_object`:       []any{7},
		`"history" has more than 1000 elements`: long,
		`"/history" has another type`:           7,
	} {
		for path, ask := range map[string]map[string]any{"score": {"events": []any{event}}, "explain": {"event": event},
			"topk": {"event": event, "over": "item"}} {
			ask["history"] = history
			var got request.Failure
			if b.want(http.StatusBadRequest, &got, "POST", "/v1/models/ratings/"+path, ask); !strings.Contains(
				got.Error, want) {
				t.Errorf("%s: %q, want %q", path, got.Error, want)
			}
		}
		body := rowsBody()
		body["parameters"] = map[string]any{"history": history}
		var got request.Failure
		if b.want(http.StatusBadRequest, &got, "POST", "/v2/models/ratings/infer", body); !strings.Contains(got.Error,
			want) {
			t.Errorf("infer: %q, want %q", got.Error, want)
		}
	}
	var got request.Failure
	body := rowsBody()
	body["parameters"] = 7
	b.want(http.StatusBadRequest, &got, "POST", "/v2/models/ratings/infer", body)
	if !strings.Contains(got.Error, `"parameters": the value has another type`) {
		t.Errorf("parameters that are no object: %q", got.Error)
	}
	b.want(http.StatusBadRequest, &got, "POST", "/v1/models/ratings/topk",
		map[string]any{"event": event, "over": "user", "history": []any{good}})
	if !strings.Contains(got.Error, "whose names the history is of") {
		t.Errorf("ranked over the entities of the history: %q", got.Error)
	}
	b.want(http.StatusBadRequest, &got, "POST", "/v1/models/ratings/versions/1/score",
		map[string]any{"events": []any{event}, "history": []any{good}})
	if !strings.Contains(got.Error, "no fold-in: the version was written by a build without it") {
		t.Errorf("a version without fold-in: %q", got.Error)
	}
}

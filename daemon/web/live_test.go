package web

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	models "github.com/refitd/refitd/snapshot/scorer"
)

// answeredReply is what every answer that a model gives says of it.
type answeredReply struct {
	Model       string
	Version     int64
	Digest      string
	Delta       int64
	DeltaDigest string     `json:"delta_digest"`
	AgeSeconds  float64    `json:"age_seconds"`
	Watermark   *time.Time `json:"event_time_watermark"`
	Live        *struct{ Signed, Gated *bool }

	LiveHeldBack string `json:"live_held_back"`
}

// scored are requests that a model answers, by their paths below a version; %s is that version's path.
var scored = map[string]any{
	"/v1/models/ratings%s/score":   map[string]any{"events": []any{ratingEvent("u1", "i2", 31, "a")}},
	"/v1/models/ratings%s/topk":    map[string]any{"event": ratingEvent("u1", "", 31), "over": "item", "k": 2},
	"/v1/models/ratings%s/explain": map[string]any{"event": ratingEvent("u1", "i2", 31)},
	"/v2/models/ratings%s/infer": map[string]any{"inputs": []any{
		map[string]any{"name": "user", "shape": []int{1}, "datatype": "BYTES", "data": []string{"u1"}},
		map[string]any{"name": "item", "shape": []int{1}, "datatype": "BYTES", "data": []string{"i2"}},
		map[string]any{"name": "age", "shape": []int{1}, "datatype": "FP64", "data": []float64{31}},
		map[string]any{"name": "tags", "shape": []int{1, 1}, "datatype": "BYTES", "data": []string{"a"}}}},
}

// liveModel returns an unpublished model made so long ago.
func liveModel(t *testing.T, seed uint64, age time.Duration) *snapshot.Model {
	t.Helper()
	c := contents(format.Ordinal, seed)
	c.Golden, c.Meta.Created, c.Meta.Watermark = nil, time.Now().Add(-age), time.UnixMilli(1_800_000_000_500)
	m, err := models.NewModel(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLive: version live scores with the current live model, says in every answer that nobody signed or judged it,
// and is no version otherwise.
func TestLive(t *testing.T) {
	var model atomic.Pointer[snapshot.Model]
	var fails error
	b := newBench(t, func(o *Options) {
		for i := range o.Models {
			if o.Models[i].Name == "ratings" {
				o.Models[i].Live = func() (*snapshot.Model, error) { return model.Load(), fails }
			}
		}
	})
	for form, body := range scored {
		w := b.want(http.StatusNotFound, nil, "POST", strings.Replace(form, "%s", "/versions/live", 1), body)
		if !strings.Contains(w.Body.String(), "serve.live: true") {
			t.Errorf("%s where it is off: %s", form, w.Body)
		}
	}
	b.want(http.StatusNotFound, nil, "POST", "/v1/models/clicks/versions/live/score",
		scored["/v1/models/ratings%s/score"])
	fails = snapshot.ErrNotFound
	b.want(http.StatusNotFound, nil, "POST", "/v1/models/ratings/versions/live/score",
		scored["/v1/models/ratings%s/score"])
	fails = nil
	for seed := uint64(5); seed < 7; seed++ {
		m := liveModel(t, seed, 300*time.Millisecond)
		model.Store(m)
		for form, body := range scored {
			var got answeredReply
			w := b.want(http.StatusOK, &got, "POST", strings.Replace(form, "%s", "/versions/live", 1), body)
			if got.Live == nil || got.Live.Signed == nil || *got.Live.Signed || got.Live.Gated == nil || *got.Live.Gated ||
				got.Version != 0 ||
				got.Digest != "" || got.Model != "ratings" || w.Header().Get(versionHeader) != "live" ||
				got.AgeSeconds < 0.3 || got.AgeSeconds > 60 ||
				got.Watermark == nil ||
				got.Watermark.UnixMilli() != 1_800_000_000_500 {
				t.Errorf("%s: %+v with header %q", form, got, w.Header().Get(versionHeader))
			}
		}
		var got scoreReply
		b.want(http.StatusOK, &got, "POST", "/v1/models/ratings/versions/live/score",
			scored["/v1/models/ratings%s/score"])
		want, err := m.Predict(input("u1", "i2", 31, "a"))
		if err != nil || got.Predictions[0].Prediction != want.Value {
			t.Errorf("live model %d: %v, want %v, %v", seed, got.Predictions[0].Prediction, want.Value, err)
		}
	}
	fails = &HeldBackError{Reason: "window"}
	champion := open(t, b.dir, "ratings", 1)
	for form, body := range scored {
		var got answeredReply
		w := b.want(http.StatusOK, &got, "POST", strings.Replace(form, "%s", "/versions/live", 1), body)
		if got.LiveHeldBack != "window" || got.Live != nil || got.Version != 1 ||
			got.Digest != champion.Manifest().PayloadDigest ||
			w.Header().Get(versionHeader) != "1" {
			t.Errorf("%s while live is held back: %+v with header %q", form, got, w.Header().Get(versionHeader))
		}
		got = answeredReply{}
		if b.want(http.StatusOK, &got, "POST", strings.Replace(form, "%s", "", 1), body); got.LiveHeldBack != "" {
			t.Errorf("%s of the champion: %+v", form, got)
		}
	}
	fails = nil
	b.want(http.StatusOK, nil, "GET", "/v2/models/ratings/versions/live/ready", nil)
	b.want(http.StatusOK, nil, "GET", "/v2/models/ratings/versions/live", nil)
	for _, path := range []string{"/v1/models/ratings/versions/live",
		"/v1/models/ratings/versions/live/files/manifest.json"} {
		if w := b.want(http.StatusNotFound, nil, "GET", path, nil); !strings.Contains(w.Body.String(),
			"never published") {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}

// TestFreshness: answers of a version say how old it is and what of it is applied; a version by its number is as it was
// published.
func TestFreshness(t *testing.T) {
	b := newBench(t)
	c := contents(format.Ordinal, 3)
	c.Meta.Watermark = time.UnixMilli(1_700_000_123_000)
	b.publish(t, "ratings", c)
	base := open(t, b.dir, "ratings", 2)
	check := func(what string, got answeredReply, delta int64, digest string, created, watermark time.Time) {
		t.Helper()
		age := time.Since(created).Seconds()
		if got.Version != 2 || got.Digest != base.Manifest().PayloadDigest || got.Delta != delta ||
			got.DeltaDigest != digest || got.Live != nil ||
			got.AgeSeconds < age-60 || got.AgeSeconds > age ||
			got.Watermark == nil ||
			!got.Watermark.Equal(watermark) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	for form, body := range scored {
		var got answeredReply
		b.want(http.StatusOK, &got, "POST", strings.Replace(form, "%s", "", 1), body)
		check(form, got, 0, "", c.Meta.Created, c.Meta.Watermark)
	}
	var entry struct {
		answeredReply
		Version, Delta *int64
	}
	for _, path := range []string{"/v1/models/ratings", "/v1/models/ratings/versions"} {
		b.want(http.StatusOK, &entry, "GET", path, nil)
		entry.answeredReply.Version, entry.answeredReply.Delta = *entry.Version, *entry.Delta
		check(path, entry.answeredReply, 0, "", c.Meta.Created, c.Meta.Watermark)
	}
	d := &format.Delta{
		Model:      "ratings",
		Base:       2,
		BaseDigest: base.Manifest().Digest,
		Sequence:   1,
		Previous:   base.Manifest().Digest,
		Created: time.Now().
			Add(-3 * time.Second),
		Watermark: c.Meta.Watermark.Add(time.Hour),
		Bias:      []float64{1, 2, 3, 4},
	}
	if _, err := d.Encode(base.Shape(), nil); err != nil {
		t.Fatal(err)
	}
	next, err := base.Apply(d)
	if err != nil {
		t.Fatal(err)
	}
	before := newScorer(base, nil)
	after := before.after(next)
	a := after.answered()
	check(
		"a delta",
		answeredReply{
			a.Model,
			a.Version,
			a.Digest,
			a.Delta,
			a.DeltaDigest,
			float64(a.AgeSeconds),
			a.Watermark,
			nil,
			"",
		},
		1,
		d.Digest,
		d.Created,
		d.Watermark,
	)
	if before.answered().Delta != 0 || after.decoders != before.decoders {
		t.Error("the scorer of the version changed, or that of the delta has other decoders")
	}
}

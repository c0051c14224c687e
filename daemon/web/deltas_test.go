package web

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// growing appends deltas to the chain of a version.
type growing struct {
	t      *testing.T
	chain  *publish.Chain
	model  *snapshot.Model // at the newest
	frames [][]byte
}

func (b *bench) grows(t *testing.T, model string, version int64) *growing {
	t.Helper()
	c, err := b.store.OpenChain(t.Context(), model, version)
	if err != nil {
		t.Fatal(err)
	}
	return &growing{t: t, chain: c, model: open(t, b.dir, model, version)}
}

// by appends n deltas, each with another bias and row, and a name that the model did not have.
func (g *growing) by(n int) {
	g.t.Helper()
	for range n {
		at := g.model.Position()
		r := rand.New(rand.NewPCG(uint64(at.Sequence), 3))
		d := &format.Delta{
			Model:      g.model.Manifest().Model,
			Base:       at.Version,
			BaseDigest: g.model.Manifest().Digest,
			Sequence:   at.Sequence + 1,
			Previous:   at.Digest,
			Created:    time.Now(),
			Watermark:  time.UnixMilli(1_700_000_000_000 + at.Sequence),
			Events:     &format.Counts{Applied: 1001 + at.Sequence},
			Columns:    []int32{1, int32(g.model.NumColumns())},
			Added: []format.AddedName{
				{Field: 0, Name: "new" + strconv.FormatInt(100*(at.Version-1)+at.Sequence, 10)},
			},
		}
		for range 2 * g.model.NumOutputs() {
			d.Linear = append(d.Linear, r.NormFloat64())
		}
		for range 2 * 3 {
			d.Basis = append(d.Basis, r.NormFloat64())
		}
		for range g.model.NumOutputs() {
			d.Bias = append(d.Bias, r.NormFloat64())
		}
		frame, err := d.Encode(g.model.Shape(), nil)
		if err == nil {
			err = g.chain.Append(g.t.Context(), frame)
		}
		if err == nil {
			g.model, err = g.model.Apply(d)
		}
		if err != nil {
			g.t.Fatal(err)
		}
		g.frames = append(g.frames, frame)
	}
}

// TestDeltas: the deltas after any of a chain come as they were appended, a wait ends with the next one or with
// nothing, and what does not follow is refused.
func TestDeltas(t *testing.T) {
	b := newBench(t)
	const path = "/v1/models/ratings/deltas?base=1"
	ask := func(status int, query string) []byte {
		t.Helper()
		return b.want(status, nil, "GET", path+query, nil).Body.Bytes()
	}
	if got := ask(http.StatusOK, "&wait=0s"); len(got) > 0 {
		t.Errorf("%d bytes of a version without deltas", len(got))
	}
	g := b.grows(t, "ratings", 1)
	g.by(5)
	for after := range 6 {
		want := bytes.Join(g.frames[after:], nil)
		if got := ask(http.StatusOK, "&wait=0s&after="+strconv.Itoa(after)); !bytes.Equal(got, want) {
			t.Errorf("after %d: %d bytes, want %d", after, len(got), len(want))
		}
	}
	w := b.ask("GET", path+"&after=3&wait=0s", nil)
	if w.Header().Get(versionHeader) != "1" || w.Header().Get("Content-Type") != "application/octet-stream" {
		t.Errorf("headers %v", w.Header())
	}
	if text := string(ask(http.StatusConflict, "&after=6&wait=0s")); !strings.Contains(text,
		"delta 7 does not follow") {
		t.Error(text)
	}
	for _, bad := range []string{"&after=-1", "&after=x", "&wait=61s", "&wait=soon"} {
		ask(http.StatusBadRequest, bad)
	}
	for _, query := range []string{"", "?base=0", "?base=x"} {
		b.want(http.StatusBadRequest, nil, "GET", "/v1/models/ratings/deltas"+query, nil)
	}
	b.want(http.StatusNotFound, nil, "GET", "/v1/models/ratings/deltas?base=2&wait=0s", nil)
	b.want(http.StatusNotFound, nil, "GET", "/v1/models/none/deltas?base=1&wait=0s", nil)

	got := make(chan *httptest.ResponseRecorder)
	go func() { got <- b.ask("GET", path+"&after=5&wait=30s", nil) }()
	within(t, patience, "the wait", func() bool { return len(b.polls) == 1 })
	select {
	case <-got:
		t.Error("the wait ended without news")
	default:
	}
	began := time.Now()
	g.by(1)
	if w := <-got; !bytes.Equal(w.Body.Bytes(), g.frames[5]) || time.Since(began) > 10*time.Second {
		t.Errorf("%d, %d bytes after %v", w.Code, w.Body.Len(), time.Since(began))
	}
	began = time.Now()
	if got := ask(http.StatusOK, "&after=6&wait=1s"); len(got) > 0 || time.Since(began) < time.Second {
		t.Errorf("%d bytes after %v, want none after a second", len(got), time.Since(began))
	}
	for range maxPolls {
		b.polls <- struct{}{}
	}
	ask(http.StatusServiceUnavailable, "&after=0&wait=0s")
	for range maxPolls {
		<-b.polls
	}
	for range maxDownloads {
		b.downloads <- struct{}{}
	}
	ask(http.StatusServiceUnavailable, "&after=0&wait=0s")
	ask(http.StatusOK, "&after=6&wait=0s")
}

// TestDeltasOverHTTP: a watcher over HTTP has every delta and the publisher's state to the bit, and the daemon's own
// answers say where they are.
func TestDeltasOverHTTP(t *testing.T) {
	b := newBench(t)
	addr, _ := b.listen(t)
	w, err := snapshot.Watch(
		snapshot.HTTPSource{URL: "http://" + addr, Client: newClient(t), LongPoll: 2 * time.Second},
		snapshot.WatchOptions{Model: "ratings"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	at := func(g *growing, sequence int64) {
		t.Helper()
		within(t, patience, "delta "+strconv.FormatInt(sequence, 10),
			func() bool { return w.Status().Position.Sequence == sequence && w.Status().DeltaErr == nil })
		want, err := format.PayloadDigest(g.model.Contents())
		got, err2 := format.PayloadDigest(w.Model().Contents())
		if err != nil || err2 != nil || got != want {
			t.Errorf("at delta %d the consumer has %s, the publisher %s, %v %v", sequence, got, want, err, err2)
		}
	}
	g := b.grows(t, "ratings", 1)
	g.by(3)
	at(g, 3)
	g.by(4)
	at(g, 7)
	body := map[string]any{"events": []any{ratingEvent("new3", "i2", 31)}}
	var got struct {
		answeredReply
		Predictions []struct {
			Prediction float64
			Unseen     []string
		}
	}
	within(t, patience, "the daemon's own model", func() bool {
		b.want(http.StatusOK, &got, "POST", "/v1/models/ratings/score", body)
		return got.Delta == 7
	})
	want, err := g.model.Predict(input("new3", "i2", 31))
	if err != nil || got.Predictions[0].Prediction != want.Value || len(got.Predictions[0].Unseen) > 0 ||
		got.DeltaDigest != g.model.Position().Digest ||
		got.Version != 1 ||
		got.Watermark.UnixMilli() != 1_700_000_000_006 {
		t.Errorf("%+v, want %v, %v", got, want, err)
	}
	b.want(http.StatusOK, &got, "POST", "/v1/models/ratings/versions/1/score", body)
	if got.Delta != 0 || len(got.Predictions[0].Unseen) != 1 {
		t.Errorf("the version by its number is not as it was published: %+v", got)
	}
	var entry modelEntry
	b.want(http.StatusOK, &entry, "GET", "/v1/models/ratings", nil)
	if *entry.Delta != 7 || *entry.Version != 1 {
		t.Errorf("%+v", entry)
	}
	b.fake.state = statuspage.Status{
		Now:    time.Now().Add(90 * time.Second),
		Models: []statuspage.ModelStatus{{Name: "ratings", Applied: 1207}, {Name: "clicks"}, {Name: "other"}},
	}
	page := b.want(http.StatusOK, nil, "GET", "/", nil).Body.String()
	for _, want := range []string{"version 1 and 7 deltas, sha256:",
		", made 90 s ago; 200 events applied since; 7 deltas applied and 0 refused since the start"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	version := b.publish(t, "ratings", g.model.Contents())
	within(t, patience, "the next version", func() bool { return w.Status().Version == version })
	g = b.grows(t, "ratings", version)
	g.by(2)
	at(g, 2)
	if s := w.Status(); s.DeltasRefused != 0 || s.DeltasApplied != 9 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

// TestDeltasOfADamagedChain: what cannot be read is said to be damaged.
func TestDeltasOfADamagedChain(t *testing.T) {
	b := newBench(t)
	g := b.grows(t, "ratings", 1)
	g.by(2)
	path := segments(t, b.dir, "ratings", 1)[0]
	overwrite(t, path, func(text []byte) { copy(text[len(g.frames[0]):], "XXXXXXXX") })
	b.want(http.StatusBadGateway, nil, "GET", "/v1/models/ratings/deltas?base=1&after=2&wait=0s", nil)
}

// segments returns the files of the chain of a version.
func segments(t *testing.T, dir, model string, version int64) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, model, strconv.FormatInt(version, 10), "deltas", "*.seg"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	return list
}

// overwrite changes a file.
func overwrite(t *testing.T, path string, change func([]byte)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		change(text)
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

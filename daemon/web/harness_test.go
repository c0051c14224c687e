package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// contents returns a publishable model with random weights: two categorical fields, a number and a list, of the given
// task.
func contents(task string, seed uint64) *format.Contents {
	r := rand.New(rand.NewPCG(seed, 1))
	list := func(n int, scale float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = scale * r.NormFloat64()
		}
		return v
	}
	c := &format.Contents{
		Kernel:     format.ANOVA,
		NumOutputs: 1,
		NumBasis:   3,
		Schema: snapshot.Schema{Task: task, Label: "y",
			Categorical: []string{
				"user",
				"item",
			}, Multi: []string{"tags"}, Numeric: []format.NumericField{{Name: "age", Center: 40, Scale: 10}}},
		Vocabulary:  [][]string{{"u1", "u2", "u3"}, {"i1", "i2", "i3", "i4"}, {"a", "b"}},
		NumFeatures: 10,
	}
	switch c.Link = format.Logistic; task {
	case format.Regression:
		c.Link = format.Identity
	case format.Ordinal:
		c.Schema.Levels, c.NumOutputs, c.Link = 5, 4, format.OrdinalLink
	case format.Multiclass:
		c.Schema.Classes, c.NumOutputs, c.Link = []string{"red", "green", "blue"}, 3, format.Softmax
	case format.Multilabel:
		c.Schema.Classes, c.NumOutputs = []string{"x", "y"}, 2
	}
	c.Basis, c.Weights, c.Linear, c.Bias = list(c.NumFeatures*c.NumBasis, 1), list(c.NumBasis*c.NumOutputs,
		1), list(c.NumFeatures*c.NumOutputs, 0.3),
		list(c.NumOutputs, 0.3)
	c.Meta = format.Meta{Writer: "test", Kind: "refit", Created: time.Unix(1700000000, 0), Decision: "promoted"}
	c.Golden = []format.Golden{{Input: snapshot.Input{Categorical: []string{"u1", "i1"}}}}
	return c
}

// bench is a surface over a store with a model of each task, in which ratings is the ordinal one.
type bench struct {
	*Server
	t     *testing.T
	store *publish.Store
	dir   string
	fake  *fakeDaemon
}

var tasks = map[string]string{"ratings": format.Ordinal, "clicks": format.Binary, "prices": format.Regression,
	"colours": format.Multiclass, "labels": format.Multilabel}

// newBench publishes version 1 of each model as its champion. change may alter the options.
func newBench(t testing.TB, change ...func(*Options)) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir(), fake: &fakeDaemon{}}
	b.t, _ = t.(*testing.T)
	b.store = publish.NewStore(b.dir)
	o := Options{Daemon: b.fake, Registry: prometheus.NewRegistry(), Version: "test", Log: quiet()}
	for name, task := range tasks {
		o.Models = append(o.Models, Model{Name: name, Dir: b.dir, Store: b.store})
		b.publish(t, name, contents(task, 1))
	}
	for _, f := range change {
		f(&o)
	}
	b.Server = New(o)
	return b
}

// publish makes contents the next version of a model and its champion.
func (b *bench) publish(t testing.TB, model string, c *format.Contents) int64 {
	t.Helper()
	m, err := b.store.Publish(t.Context(), model, c, publish.Move{Alias: pointer.Champion})
	if err != nil {
		t.Fatal(err)
	}
	return m.Version
}

// promote lets the champion alias name a version that has been published.
func (b *bench) promote(t testing.TB, model string, version int64) {
	t.Helper()
	if _, err := b.store.MoveAlias(t.Context(), model, publish.Move{Alias: pointer.Champion, To: version}); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request through everything but the network. A body that is not a string is sent as JSON.
func (b *bench) ask(method, target string, body any, headers ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	var in io.Reader
	switch v := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			b.t.Fatal(err)
		}
		in = strings.NewReader(string(text))
	}
	r := httptest.NewRequest(method, target, in)
	r.Host = "127.0.0.1:9464"
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	documented(b.t, r, w)
	return w
}

// get is ask for an answer of a status, decoded into v unless that is nil.
func (b *bench) want(status int, v any, method, target string, body any, headers ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	w := b.ask(method, target, body, headers...)
	if w.Code != status {
		b.t.Fatalf("%s %s: %d %s, want %d", method, target, w.Code, w.Body, status)
	}
	if v != nil {
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			b.t.Fatalf("%s %s: %v in %s", method, target, err, w.Body)
		}
	}
	return w
}

// listen serves over the network until the test ends and returns the address.
func (b *bench) listen(t testing.TB) (addr string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx, l) }()
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// newClient returns a client whose connections end with the test.
func newClient(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// within calls f until it returns true, and fails the test if it does not in time.
func within(t testing.TB, limit time.Duration, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
		<-tick.C
	}
}

// fakeDaemon records what it is asked to do.
type fakeDaemon struct {
	state   statuspage.Status
	reload  error
	reloads int
	refits  []string
}

func (d *fakeDaemon) Status() statuspage.Status { return d.state }
func (d *fakeDaemon) Reload(context.Context) error {
	d.reloads++
	return d.reload
}
func (d *fakeDaemon) Refit(model string) error {
	d.refits = append(d.refits, model)
	return nil
}

// withLifecycle offers what changes something.
func withLifecycle(o *Options) { o.Lifecycle = o.Daemon.(*fakeDaemon) }

// ratingEvent is one that every model takes.
func ratingEvent(user, item string, age float64, tags ...string) map[string]any {
	if tags == nil {
		tags = []string{}
	}
	return map[string]any{"user": user, "item": item, "age": age, "tags": tags}
}

func input(user, item string, age float64, tags ...string) *snapshot.Input {
	return &snapshot.Input{Categorical: []string{user, item}, Numeric: []float64{age}, Multi: [][]string{tags}}
}

func open(t *testing.T, dir, model string, version int64) *snapshot.Model {
	t.Helper()
	m, err := snapshot.Open(dir, model, snapshot.Selector{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func manifestPath(model string, version int64, file string) string {
	return fmt.Sprintf("/v1/models/%s/versions/%d/files/%s", model, version, file)
}

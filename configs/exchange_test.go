package configs_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/publish"
)

// exchange is a request with its answer by a real server, for the documents.
type exchange struct {
	method, path string
	body         string
	header       []string
	status       int
	media        string
	headers      http.Header
	answer       string
}

const exampleTensors = `{"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["u1"]},{"name":"item","shape":[1],"datatype":"BYTES","data":["i2"]}]}`

// exchanges returns an example for each operation by its first form.
func exchanges(t *testing.T) map[string]*exchange {
	const v1, v2 = "/v1/models/ratings", "/v2/models/ratings"
	all := map[string]*exchange{
		"status":       {method: "GET", path: "/"},
		"style":        {method: "GET", path: "/static/style.css"},
		"script":       {method: "GET", path: "/static/page.js"},
		"icon":         {method: "GET", path: "/static/icon.svg"},
		"runbook":      {method: "GET", path: "/runbook/RefitdModelStale"},
		"showStatus":   {method: "GET", path: "/v1/status"},
		"stream":       {method: "GET", path: "/v1/stream?model=ratings&rounds=1"},
		"showState":    {method: "GET", path: v1 + "/state"},
		"showCurves":   {method: "GET", path: v1 + "/curves"},
		"showDiff":     {method: "GET", path: v1 + "/versions/1/diff?with=1"},
		"showBelief":   {method: "GET", path: v1 + "/belief"},
		"showEntity":   {method: "GET", path: v1 + "/entity?field=user&name=u1"},
		"openAPI":      {method: "GET", path: "/openapi.json"},
		"healthy":      {method: "GET", path: "/-/healthy"},
		"ready":        {method: "GET", path: "/-/ready"},
		"reload":       {method: "POST", path: "/-/reload"},
		"refit":        {method: "POST", path: "/-/refit?model=ratings"},
		"scrape":       {method: "GET", path: "/metrics"},
		"listModels":   {method: "GET", path: "/v1/models"},
		"showModel":    {method: "GET", path: v1},
		"listVersions": {method: "GET", path: v1 + "/versions"},
		"showVersion":  {method: "GET", path: v1 + "/versions/1"},
		"showAlias":    {method: "GET", path: v1 + "/aliases/champion?after=0&wait=10s"},
		"moveAlias": {
			method: "PUT",
			path:   v1 + "/aliases/canary",
			body:   `{"version":1,"why":"try it on one host"}`,
		},
		"file": {
			method: "GET",
			path:   v1 + "/aliases/champion/files/vocabulary",
			header: []string{"Range", "bytes=0-15"},
		},
		"deltas": {method: "GET", path: v1 + "/deltas?base=1&after=0&wait=0s"},
		"score": {
			method: "POST",
			path:   v1 + "/score",
			body:   `{"events":[{"user":"u1","item":"i2"},{"user":"u9","item":"i2"}]}`,
		},
		"topk": {
			method: "POST",
			path:   v1 + "/topk",
			body:   `{"event":{"user":"u1"},"over":"item","k":2,"exclude":["i2"]}`,
		},
		"explain":        {method: "POST", path: v1 + "/explain", body: `{"event":{"user":"u1","item":"i2"}}`},
		"serverMetadata": {method: "GET", path: "/v2"},
		"live":           {method: "GET", path: "/v2/health/live"},
		"serverReady":    {method: "GET", path: "/v2/health/ready"},
		"modelMetadata":  {method: "GET", path: v2},
		"modelReady":     {method: "GET", path: v2 + "/ready"},
		"infer":          {method: "POST", path: v2 + "/infer", body: exampleTensors},
	}
	server := exampleServer(t)
	for _, id := range sorted(all) {
		if id != "moveAlias" { // last: the others would see the alias
			all[id].send(t, server)
		}
	}
	all["moveAlias"].send(t, server)
	return all
}

func (e *exchange) send(t *testing.T, server http.Handler) {
	t.Helper()
	r := httptest.NewRequest(e.method, e.path, strings.NewReader(e.body))
	r.Host = "127.0.0.1:9464"
	for i := 0; i+1 < len(e.header); i += 2 {
		r.Header.Set(e.header[i], e.header[i+1])
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	if w.Code >= 300 {
		t.Fatalf("%s %s: %d %s", e.method, e.path, w.Code, w.Body)
	}
	e.status, e.headers = w.Code, w.Header()
	e.media, _, _ = strings.Cut(w.Header().Get("Content-Type"), ";")
	e.answer = stable(strings.TrimSpace(w.Body.String()))
}

var (
	anyHex    = regexp.MustCompile(`[0-9a-f]{64}`)
	anyTime   = regexp.MustCompile(`"20\d\d-\d\d-\d\dT[0-9:.]+Z"`)
	anyAge    = regexp.MustCompile(`("age_seconds": ?)[0-9.e+]+`)
	longFloat = regexp.MustCompile(`-?\d+\.\d{5,}(e[-+]\d+)?`)
)

// stable replaces what depends on the moment or on the processor: times, digests, and the last digits of numbers.
func stable(s string) string {
	s = anyHex.ReplaceAllString(s, "3f1c0a8e5b7d92466c2fe4a1d0b89375e6f7c81a2d3b4c5f60718293a4b5c6d7")
	s = anyTime.ReplaceAllString(s, `"2026-01-02T03:04:05.678Z"`)
	s = anyAge.ReplaceAllString(s, "${1}4.25")
	return longFloat.ReplaceAllStringFunc(s, func(number string) string {
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return number
		}
		return strconv.FormatFloat(v, 'g', 4, 64)
	})
}

// exampleServer serves one model of ratings.
func exampleServer(t *testing.T) http.Handler {
	dir := t.TempDir()
	store := publish.NewStore(dir)
	c := &format.Contents{
		Kernel:      format.ANOVA,
		Link:        format.OrdinalLink,
		NumFeatures: 4,
		NumOutputs:  2,
		NumBasis:    1,
		Schema: snapshot.Schema{
			Task:        format.Ordinal,
			Label:       "rating",
			Levels:      3,
			Categorical: []string{"user", "item"},
		},
		Vocabulary: [][]string{{"u1", "u2"}, {"i1", "i2"}},
		Basis:      []float64{0.5, -0.25, 1, 0.75},
		Weights:    []float64{-0.5, -0.25},
		Linear:     []float64{-0.125, -0.25, 0.25, 0.5, 0, 0, -0.5, -0.25},
		Bias:       []float64{-1, 0.5},
	}
	gap := format.Number(0.0004)
	metrics := format.Metrics{N: 1000}
	c.Meta = format.Meta{
		Writer:          "refitd 0.1.0",
		Kind:            "refit",
		Created:         time.Unix(1_750_000_000, 0),
		Decision:        "promoted",
		Reason:          "first version",
		Status:          "converged",
		Loss:            "binary_logistic",
		Lambda:          0.5,
		Objective:       0.625,
		Gap:             &gap,
		GapRelative:     &gap,
		GapKind:         "certified",
		Solver:          "fista",
		FISTAIterations: 40,
		Rows:            20_000,
		TrainSeconds:    0.75,
		Select:          &metrics,
		Gate:            &metrics,
		Cut:             []format.Cut{{Topic: "ratings", Partition: 0, Next: 25_000}},
		Watermark:       time.Unix(1_749_999_990, 0),
	}
	c.Golden = []format.Golden{{Input: snapshot.Input{Categorical: []string{"u1", "i1"}}}}
	if _, err := store.Publish(t.Context(), "ratings", c, publish.Move{Alias: pointer.Champion}); err != nil {
		t.Fatal(err)
	}
	daemon := exampleDaemon{}
	server := web.New(
		web.Options{Daemon: daemon, Lifecycle: daemon, Registry: prometheus.NewRegistry(), Version: "0.1.0",
			Models: []web.Model{
				{Name: "ratings", Dir: dir, Store: store},
			}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))},
	)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for { // until the champion is loaded
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://localhost/v2/health/ready", nil)
		if server.ServeHTTP(w, r); w.Code == http.StatusOK {
			return server
		}
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// exampleDaemon is ready and does what it is asked for.
type exampleDaemon struct{}

func (exampleDaemon) Status() statuspage.Status {
	return statuspage.Status{Models: []statuspage.ModelStatus{{Name: "ratings", Champion: &report.Version{Version: 1}}}}
}
func (exampleDaemon) Reload(context.Context) error { return nil }
func (exampleDaemon) Refit(string) error           { return nil }

package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot/format"
)

// curvesOf are an hour of a model, with a drift in its middle.
func curvesOf(t testing.TB, end time.Time) *curves.Ring {
	t.Helper()
	r := curves.Open(filepath.Join(t.TempDir(), "curves.json"), quiet())
	for i := range 360 {
		p := curves.Point{
			At:      end.Add(time.Duration(i-359) * 10 * time.Second),
			Events:  int64(2000 * i),
			Lag:     int64(i % 50),
			Losses:  curves.NoLosses(),
			Recalls: curves.Recalls{0.1 + float32(i)/4000, 0.09},
		}
		bump := float32(0)
		if i > 180 && i < 240 {
			bump = 0.2
		}
		p.Losses[0], p.Losses[1], p.Losses[2], p.Losses[3] = 0.95+bump+float32(i%7)/200, 0.93+bump/2+float32(
			i%5)/200, 1.12, 1.03
		r.Add(p)
	}
	r.Mark(end.Add(-58*time.Minute), curves.Promoted, 1, "first version")
	r.Mark(end.Add(-29*time.Minute), curves.Drift, 0, "what was learned of user does not hold any more")
	r.Mark(end.Add(-27*time.Minute), curves.Kept, 2, "gate loss 0.9 is shown to be worse")
	return r
}

// Alerts are those of the rules, each with its section in the runbook, and the night has one of nearly every kind.
func TestAlertsAreThoseOfTheRules(t *testing.T) {
	state := night("<script>alert(1)</script>")
	m := &state.Models[0]
	m.TrainingDisabled, m.GateRejections, m.Events, m.Lag = "died thrice", 4, 100, 90_000
	m.Judged.BasisGapRelative = report.Some(0.2)
	m.Rejections = []statuspage.Rejections{{Reason: "bad_type", Field: "rating", Records: 50}}
	m.AbsentFields = []string{"item (payload.item)"}
	m.RefitFailure = "<script>alert(1)</script>"
	m.TimeUnit, m.TrueTimeUnit = "ms", "s"
	m.Scoring = &statuspage.ScoringStatus{Topic: "scores", Trouble: "no broker"}
	m.Progressive.WindowN = 20_000
	m.Progressive.Window.Live = metricsOf(2)
	state.Memory = statuspage.MemoryStatus{ResidentBytes: 95, BudgetBytes: 100}
	ring := curvesOf(t, state.Now)
	b := newBench(t, func(o *Options) {
		for i := range o.Models {
			if o.Models[i].Name == "ratings" {
				o.Models[i].Curves = ring
			}
		}
	})
	b.fake.state = state
	var o statuspage.Overview
	b.want(http.StatusOK, &o, "GET", "/v1/status", nil)
	found := make(map[string]bool)
	warned := false
	for _, a := range o.Alerts {
		found[a.Name] = true
		if warned = warned || a.Severity == "warning"; warned && a.Severity == "critical" {
			t.Errorf("%s is critical and comes after a warning", a.Name)
		}
		if !strings.Contains(configs.Rules, "- alert: "+a.Name+"\n") {
			t.Errorf("%s is no rule", a.Name)
		}
		if text := b.want(http.StatusOK, nil, "GET", "/runbook/"+a.Name, nil).Body.String(); !strings.Contains(text,
			"**Do**") ||
			strings.Contains(text, "\n## ") {
			t.Errorf("%s in the runbook: %s", a.Name, text)
		}
	}
	for _, name := range []string{"ConfigReloadFailed", "StateNearBudget", "ModelNotReady", "PartitionHalted",
		"TrainingDisabled", "ColdRefitRejected",
		"RefitNotDone", "ScoringStalled", "RejectRatioHigh", "LiveWorseThanBaseline", "PublishedWorseThanBaseline",
		"DriftDetected", "ConsumerLagGrowing",
		"ModelStale", "MappedFieldAbsent", "EventTimesWrongUnit", "TrainingFailing"} {
		if !found["Refitd"+name] {
			t.Errorf("no alert %s among %v", name, o.Alerts)
		}
	}
	b.want(http.StatusNotFound, nil, "GET", "/runbook/RefitdNothing", nil)
	m.Judged.Solver, m.Judged.GapLimit, m.Judged.Cut = report.LineSearchSolver, "weights", []report.Cut{}
	b.looked = time.Time{}
	b.want(http.StatusOK, &o, "GET", "/v1/status", nil)
	for _, a := range o.Alerts {
		if a.Name == "RefitdRefitNotDone" {
			t.Errorf("by line search no refit is to be done: %s", a.Text)
		}
	}
	var of struct{ Judged *report.Version }
	if b.want(http.StatusOK, &of, "GET", "/v1/models/ratings/state", nil); of.Judged == nil ||
		of.Judged.GapLimit != "weights" {
		t.Errorf("the state says of the last refit %+v", of.Judged)
	}
	b.fake.state = statuspage.Status{
		Now: time.Now(),
		Models: []statuspage.ModelStatus{{Name: "ratings", Champion: &report.Version{Version: 1}, Published: time.Now(),
			Events: 80, Rejections: []statuspage.Rejections{{Reason: "removal_request", Records: 20}}}},
	}
	b.looked = time.Time{}
	if b.want(http.StatusOK, &o, "GET", "/v1/status", nil); len(o.Alerts) != 0 {
		t.Errorf("a quiet day: %v", o.Alerts)
	}
}

// TestStatusSaysThatLiveIsHeldBack: the status, the state of the model and the page say why the champion answers those
// who ask for the live model.
func TestStatusSaysThatLiveIsHeldBack(t *testing.T) {
	b := newBench(t)
	for _, why := range []string{"window", ""} {
		b.fake.state = statuspage.Status{Now: time.Now(),
			Models: []statuspage.ModelStatus{{Name: "ratings", LiveHeldBack: why}}}
		b.Server.seen = nil
		var o statuspage.Overview
		var m statuspage.ModelState
		b.want(http.StatusOK, &o, "GET", "/v1/status", nil)
		b.want(http.StatusOK, &m, "GET", "/v1/models/ratings/state", nil)
		if o.Models[0].LiveHeldBack != why || m.LiveHeldBack != why {
			t.Errorf("status %q, state %q, want %q", o.Models[0].LiveHeldBack, m.LiveHeldBack, why)
		}
		page := b.want(http.StatusOK, nil, "GET", "/", nil).Body.String()
		if says := strings.Contains(page, "held back (window): the champion answers"); says != (why != "") {
			t.Errorf("the page says it: %t, want %t", says, why != "")
		}
	}
}

// The stream says the same as the endpoints, continues after what the client has, is bounded in number, and ends with
// the daemon.
func TestStream(t *testing.T) {
	ring := curvesOf(t, time.Now())
	b := newBench(t, func(o *Options) {
		for i := range o.Models {
			o.Models[i].Curves = ring
		}
	})
	b.fake.state = statuspage.Status{Now: time.Now(), Models: []statuspage.ModelStatus{{Name: "ratings"}}}
	all := ring.Since(0)
	after := all.At[len(all.At)-3]
	text := b.want(http.StatusOK, nil, "GET", fmt.Sprintf("/v1/stream?model=ratings&rounds=1&after=%d", after),
		nil).Body.String()
	var past curves.Curves
	for _, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		event, data, _ := strings.Cut(strings.TrimPrefix(part, "event: "), "\ndata: ")
		if event == "curves" {
			if err := json.Unmarshal([]byte(data), &past); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(past.Recall10["published"]) != 2 || len(past.Recall10["popularity"]) != 2 {
		t.Errorf("recall %v", past.Recall10)
	}
	if len(past.At) != 2 || !strings.HasPrefix(text, "event: status\n") ||
		!strings.Contains(text, "\n\nevent: state\n") {
		t.Errorf("%d points in\n%s", len(past.At), text)
	}
	var o statuspage.Overview
	if b.want(http.StatusOK, &o, "GET", "/v1/status", nil); o.Models[0].Heard == nil ||
		o.Models[0].Heard.UnixMilli() != all.At[len(all.At)-1] {
		t.Errorf("heard %v, the last point with new events is at %d", o.Models[0].Heard, all.At[len(all.At)-1])
	}
	b.want(http.StatusNotFound, nil, "GET", "/v1/stream?model=nobody", nil)
	b.want(http.StatusBadRequest, nil, "GET", "/v1/stream?after=-1", nil)

	addr, stop := b.listen(t)
	client := newClient(t)
	var open []*http.Response
	for range maxListeners {
		res, err := client.Get("http://" + addr + "/v1/stream?model=ratings")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || line != "event: status\n" ||
			res.StatusCode != http.StatusOK {
			t.Fatalf("%d, %q, %v", res.StatusCode, line, err)
		}
		open = append(open, res)
	}
	res, err := client.Get("http://" + addr + "/v1/stream")
	if err != nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("one stream more than allowed: %v, %v", res, err)
	}
	res.Body.Close()
	began := time.Now()
	stop()
	if took := time.Since(began); took > closeTimeout {
		t.Errorf("streams held the daemon back for %v", took)
	}
	_ = open
}

// A stream whose client goes away gives its place back.
func TestStreamGivesItsPlaceBack(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * maxListeners {
		r := httptest.NewRequest("GET", "http://localhost/v1/stream", nil).WithContext(ctx)
		w := httptest.NewRecorder()
		if b.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n := len(b.listeners); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

// What the page shows of a version: what it believes, what it knows of a name, how it differs from another, and the
// newest of the list.
func TestBeliefEntityDiffAndList(t *testing.T) {
	b := newBench(t)
	next := contents(format.Ordinal, 2)
	one := int64(1)
	next.Meta.Parent = &one
	b.publish(t, "ratings", next)
	var of belief
	b.want(http.StatusOK, &of, "GET", "/v1/models/ratings/versions/1/belief", nil)
	share := 0.0
	for _, f := range of.Relevance {
		share += float64(f.Share)
	}
	if of.Version != 1 || len(of.Belief.Outputs) != 4 || len(of.Relevance) == 0 || share < 0.999 || share > 1.001 {
		t.Errorf("%+v", of)
	}
	var e entity
	b.want(http.StatusOK, &e, "GET", "/v1/models/ratings/versions/1/entity?field=item&name=i2", nil)
	var x explainAnswer
	b.want(http.StatusOK, &x, "POST", "/v1/models/ratings/versions/1/explain",
		map[string]any{"event": ratingEvent("u1", "i2", 40)})
	explained := false
	for _, term := range x.Terms {
		if len(term.Features) == 2 && term.Features[0] == "user=u1" && term.Features[1] == "item=i2" {
			for _, known := range e.Outputs[0].Interactions {
				if known.Features[1] == "user=u1" {
					explained = nearly(float64(known.Weight), float64(term.Contribution[0]))
				}
			}
		}
		if len(term.Features) == 1 && term.Features[0] == "item=i2" &&
			!nearly(float64(e.Outputs[1].Alone), float64(term.Contribution[1])) {
			t.Errorf("alone %v, explained %v", e.Outputs[1].Alone, term.Contribution[1])
		}
	}
	if !e.Known || !explained {
		t.Errorf("what is known of i2 %+v does not agree with what is explained %+v", e, x.Terms)
	}
	b.want(http.StatusOK, &e, "GET", "/v1/models/ratings/versions/1/entity?field=user&name=u", nil)
	if e.Known || len(e.Similar) != 3 {
		t.Errorf("%+v", e)
	}
	b.want(http.StatusBadRequest, nil, "GET", "/v1/models/ratings/entity?field=age&name=3", nil)
	var d report.DiffSummary
	b.want(http.StatusOK, &d, "GET", "/v1/models/ratings/versions/2/diff", nil)
	if d.A.Version != 1 || d.B.Version != 2 || d.Same || d.Golden.Events != 1 {
		t.Errorf("%+v", d)
	}
	b.want(http.StatusBadRequest, nil, "GET", "/v1/models/ratings/versions/1/diff", nil)
	b.want(http.StatusNotFound, nil, "GET", "/v1/models/ratings/versions/2/diff?with=9", nil)
	var list versionList
	b.want(http.StatusOK, &list, "GET", "/v1/models/ratings/versions?limit=1", nil)
	if len(list.Versions) != 1 || list.Versions[0].Version != 2 || *list.Versions[0].Summary.Parent != 1 ||
		list.Versions[0].Summary.Bytes == 0 {
		t.Errorf("%+v", list.Versions)
	}
	b.want(http.StatusOK, &list, "GET", "/v1/models/ratings/versions?limit=99", nil)
	if len(list.Versions) != 2 {
		t.Errorf("%+v", list.Versions)
	}
}

func nearly(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// The files of the page are kept by browsers until they change, and hold no way from text to markup.
func TestAssets(t *testing.T) {
	b := newBench(t)
	for path, media := range map[string]string{"/static/page.js": "text/javascript", "/static/icon.svg": "image/svg+xml",
		"/static/style.css": "text/css"} {
		w := b.want(http.StatusOK, nil, "GET", path, nil)
		if !strings.HasPrefix(w.Header().Get("Content-Type"), media) {
			t.Errorf("%s: %v", path, w.Header())
		}
		b.want(http.StatusNotModified, nil, "GET", path, nil, "If-None-Match", w.Header().Get("ETag"))
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
			"new Function", "http://", "https://", "url("} {
			if text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", ""); strings.Contains(text,
				bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
}

// TestPageWeight: everything that a browser loads before the data is at most 150 kB, uncompressed.
func TestPageWeight(t *testing.T) {
	b, total := newBench(t), 0
	for _, path := range []string{"/", "/static/page.js", "/static/icon.svg", "/static/style.css"} {
		total += b.want(http.StatusOK, nil, "GET", path, nil).Body.Len()
	}
	if total > 150_000 {
		t.Errorf("the page is %d bytes", total)
	}
}

// TestNames: names that begin alike, in the order of the vocabulary, and no more than asked for.
func TestNames(t *testing.T) {
	b := newBench(t)
	for query, want := range map[string][]string{
		"field=user": {"u1", "u2", "u3"}, "field=user&prefix=u2": {"u2"}, "field=item&prefix=i&limit=2": {"i1", "i2"},
		"field=item&prefix=u": {}, "field=tags": {"a", "b"},
	} {
		var list nameList
		b.want(http.StatusOK, &list, "GET", "/v1/models/ratings/names?"+query, nil)
		if !slices.Equal(list.Names, want) || list.Version != 1 {
			t.Errorf("%s: %+v, want %q", query, list, want)
		}
	}
	for _, query := range []string{"", "field=age", "field=user&limit=101", "field=user&limit=x"} {
		b.want(http.StatusBadRequest, nil, "GET", "/v1/models/ratings/names?"+query, nil)
	}
	b.want(http.StatusNotFound, nil, "GET", "/v1/models/nobody/names?field=user", nil)
}

// TestRejectedRecords: those that the model has kept, and an empty list of a model that keeps none.
func TestRejectedRecords(t *testing.T) {
	one := statuspage.RejectedRecord{Topic: "t", Partition: 1, Offset: 7, Bytes: -1, Reason: "null_value",
		Expected: "a value"}
	b := newBench(t, func(o *Options) {
		for i := range o.Models {
			if o.Models[i].Name == "ratings" {
				o.Models[i].Rejected = func() []statuspage.RejectedRecord { return []statuspage.RejectedRecord{one} }
			}
		}
	})
	var list rejectedList
	b.want(http.StatusOK, &list, "GET", "/v1/models/ratings/rejected", nil)
	if len(list.Records) != 1 || list.Records[0] != one {
		t.Errorf("%+v", list)
	}
	b.want(http.StatusOK, &list, "GET", "/v1/models/clicks/rejected", nil)
	if list.Records == nil || len(list.Records) != 0 {
		t.Errorf("%+v", list)
	}
	b.want(http.StatusNotFound, nil, "GET", "/v1/models/nobody/rejected", nil)
}

// TestHeadline: of rare classes the log loss is what people see, and the best baseline by it.
func TestHeadline(t *testing.T) {
	b := newBench(t)
	of := func(loss, right float64) *report.Metrics {
		return &report.Metrics{N: 100, Loss: report.Some(loss), Accuracy: report.Some(right),
			EntropyNormalised: report.Some(1.0)}
	}
	p := report.Progressive{Window: report.Scores{Published: of(0.4, 0.97), Live: of(0.3, 0.97)}}
	p.Baselines = report.Baselines{Majority: of(0.6, 0.98), Linear: of(0.5, 0.9)}
	b.fake.state = statuspage.Status{Now: time.Now(), Models: []statuspage.ModelStatus{{Name: "clicks", Progressive: p}}}
	var o statuspage.Overview
	b.want(http.StatusOK, &o, "GET", "/v1/status", nil)
	if m := o.Models[0]; m.Metric != "log_loss" || *m.Loss != 0.4 || *m.Live != 0.3 || *m.Baseline != 0.5 ||
		m.Best != "linear" || o.Lifecycle {
		t.Errorf("%+v", m)
	}
}

package web

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// descriptors counts the open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc: " + err.Error())
	}
	return len(list)
}

func metricsOf(rmse float64) *report.Metrics {
	return &report.Metrics{N: 20000, RMSE: report.Some(rmse), MAE: report.Some(0.75)}
}

// night is a daemon with something wrong everywhere, in the words of text.
func night(text string) statuspage.Status {
	now := time.Date(2026, 11, 21, 3, 14, 15, 0, time.UTC)
	one := report.Version{
		Model:         "ratings",
		Version:       41,
		Kind:          "update",
		Decision:      "promoted",
		K:             20,
		Features:      2625,
		Outputs:       4,
		PayloadDigest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
	}
	last := report.Version{
		Version:          42,
		Kind:             "refit",
		Decision:         "kept",
		Reason:           text,
		Status:           "time_budget",
		Rows:             200000,
		Form:             "convex",
		GapRelative:      report.Some(0.0123),
		GapKind:          "certified",
		BasisGapRelative: report.Some(2e-5),
		Gate:             metricsOf(0.97),
	}
	return statuspage.Status{
		Now:     now,
		Started: now.Add(-26 * time.Hour),
		Reload:  statuspage.ReloadStatus{At: now.Add(-time.Hour), Error: "refitd.yaml:3:1: " + text},
		Disks: []statuspage.DiskStatus{
			{Path: "/var/lib/refitd/" + text, FreeBytes: 100 << 20, MinFreeBytes: 512 << 20},
			{Path: "/srv/snapshots", FreeBytes: 80 << 30, MinFreeBytes: 512 << 20},
		},
		Models: []statuspage.ModelStatus{{Name: "ratings", NotReady: []statuspage.Reason{{Cause: "reading", Text: text}},
			Champion: &one, Published: now.Add(-9 * time.Hour), Judged: &last, LastRefit: now.Add(-40 * time.Second),
			Progressive: report.Progressive{
				Window: report.Scores{Published: metricsOf(1.0312), Live: metricsOf(0.9341)},
				Slices: &report.Slices{
					NewEntity: report.Scores{Published: metricsOf(1.2345), Live: &report.Metrics{}},
				},
				Baselines: report.Baselines{
					GlobalMean: metricsOf(1.1201),
					ItemMean:   metricsOf(1.0262),
					SGDBias:    metricsOf(0.9691),
				},
				Drift: []report.Drifted{
					{Group: text, Alarms: 2, EventsAgo: 7311, EventTime: "2026-11-21T02:00:00Z"},
				},
				Parts: []report.Part{
					{Name: "fold_in", Weight: 0.25, Loss: report.Some(0.54321), InVersions: true},
					{Name: "stack", Weight: 0.75},
				},
			},
			Events: 1204331, Lag: 88012, SampleRows: 220000, SampleBytes: 44 << 20,
			Halted: []statuspage.HaltedPartition{{Topic: "ratings", Partition: 3, Offset: 1204331,
				Reason: text}}}, {Name: "clicks", Lag: 5}},
	}
}

// TestStatusPage: F8. Names and errors from outside are shown as text, and the page loads nothing but its own style
// sheet.
func TestStatusPage(t *testing.T) {
	const attack = `<script>alert(1)</script><img src=x onerror=alert(2)>"'&{{.}}`
	b := newBench(t)
	b.fake.state = night(attack)
	w := b.want(http.StatusOK, nil, "GET", "/", nil)
	page := w.Body.String()
	for _, bad := range []string{"<script>", "<img", "style=", "onerror=alert(2)>", "javascript:", "http://", "https://"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if n := strings.Count(page, "<script"); n != 1 ||
		!strings.Contains(page, `<script src="/static/page.js" defer></script>`) {
		t.Errorf("the page has %d scripts, want its own", n)
	}
	if n := strings.Count(page, "&lt;script&gt;alert(1)&lt;/script&gt;"); n != 6 {
		t.Errorf("the text from outside is there %d times, want 6:\n%s", n, page)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if m[1] != "#page" && !strings.HasPrefix(m[1], "/") || strings.HasPrefix(m[1], "//") {
			t.Errorf("the page refers to %q", m[1])
		}
	}
	for _, want := range []string{"Not ready", "version 41 (update), published 9 h ago", "sha256:0123456789ab…",
		`<strong class="kept">kept</strong>`,
		"objective within 1.2 % of the optimum (certified), within less than 0.01 % of the best with these basis vectors",
		"40 s ago", "88012 records", "44.0 MiB", `<td>live</td><td>RMSE 0.9341</td><td>20000</td><td class="better">`,
		`<td>published</td><td>RMSE 1.0312</td><td>20000</td><td class="worse">`, `<td>mae 0.7500</td>`,
		"<td>published, new entities</td><td>RMSE 1.2345</td>", "Halted: ratings partition 3 at offset 1204331",
		"changed 7311 events ago, at event time 2026-11-21T02:00:00Z; 2 alarms in all",
		"<td>fold_in</td><td>0.250</td><td>0.5432</td><td>yes</td>", "<td>stack</td><td>0.750</td><td>–</td><td>no</td>",
		`class="alarm">100.0 MiB free`, "80.0 GiB free", "no version yet", "Configuration not reloaded (60 min ago)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
	if css := b.want(http.StatusOK, nil, "GET", "/static/style.css", nil); !strings.HasPrefix(
		css.Header().Get("Content-Type"), "text/css") ||
		strings.Contains(css.Body.String(), "url(") {
		t.Errorf("style sheet %v", css.Header())
	}
	b.fake.state = statuspage.Status{}
	if page := b.want(http.StatusOK, nil, "GET", "/", nil).Body.String(); !strings.Contains(page, "<h2>Ready</h2>") {
		t.Errorf("a daemon without models:\n%s", page)
	}
}

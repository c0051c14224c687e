package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/refitd/refitd/daemon"
)

// query is one query of the dashboard.
type query struct{ panel, expr string }

// dashboardQueries returns the queries of configs/dashboard.json with the variables set to all there is.
func dashboardQueries(t *testing.T) []query {
	t.Helper()
	b, err := os.ReadFile("../configs/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	all := strings.NewReplacer("$job", "refitd", "$instance", ".*", "$model", ".*")
	var queries []query
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries = append(queries, query{p.Title, all.Replace(target.Expr)})
		}
	}
	if len(queries) < 20 {
		t.Fatalf("%d queries in the dashboard", len(queries))
	}
	return queries
}

// watched starts a daemon that has read, refitted and published, and returns its metrics.
func watched(t *testing.T) (d *daemon.Daemon, metrics string) {
	t.Helper()
	b := daemontest.New(t)
	b.ProduceRatings(15, 3000)
	b.Produce([]byte("nonsense"))
	d, stop := b.Start(b.Configure("board", "every_events: 0", "every_events: 1000"))
	t.Cleanup(stop)
	daemontest.Within(t, daemontest.Patience, "a promotion", func() bool {
		_, metrics = daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_snapshot_info") == 1 &&
			daemontest.Sum(t, metrics, "refitd_watch_version") > 0
	})
	b.ProduceRatings(16, 100) // scored with the first version
	daemontest.Within(t, daemontest.Patience, "a window of the published version", func() bool {
		_, metrics = daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_features_total") > 0 && strings.Contains(metrics, `role="published"`)
	})
	return d, metrics
}

// series returns the labels of every series that a scrape under the job refitd would store.
func series(t *testing.T, metrics string) []model.Metric {
	t.Helper()
	decoder := expfmt.NewDecoder(strings.NewReader(metrics), expfmt.NewFormat(expfmt.TypeTextPlain))
	extract := expfmt.SampleDecoder{Dec: decoder, Opts: &expfmt.DecodeOptions{Timestamp: model.Now()}}
	var all []model.Metric
	var samples model.Vector
	for extract.Decode(&samples) == nil {
		for _, s := range samples {
			s.Metric["job"], s.Metric["instance"] = "refitd", "here"
			all = append(all, s.Metric)
		}
	}
	if len(all) < 100 {
		t.Fatalf("%d series", len(all))
	}
	return all
}

// The selectors of the dashboard; that its queries are PromQL is checked where rules are.
var (
	selectorText = regexp.MustCompile(`\b((?:refitd|process)_\w+)\{(.*?)\}`)
	matcherText  = regexp.MustCompile(`(\w+)(=~?)"(.*?)"(?:,|$)`)
)

// TestDashboardNamesWhatIsThere: every selector of every query of the dashboard matches a series of a running daemon.
func TestDashboardNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	_, metrics := watched(t)
	there := series(t, metrics)
	for _, q := range dashboardQueries(t) {
		selectors := selectorText.FindAllStringSubmatch(q.expr, -1)
		if len(selectors) == 0 {
			t.Errorf("%s: no selector in %s", q.panel, q.expr)
		}
		for _, s := range selectors {
			matchers := matcherText.FindAllStringSubmatch(s[2], -1)
			if !slices.ContainsFunc(there, func(m model.Metric) bool {
				return m[model.MetricNameLabel] == model.LabelValue(s[1]) &&
					!slices.ContainsFunc(matchers, func(want []string) bool {
						value := string(m[model.LabelName(want[1])])
						if want[2] == "=" {
							return value != want[3]
						}
						return !regexp.MustCompile("^(?:" + want[3] + ")$").MatchString(value)
					})
			}) {
				t.Errorf("%s: nothing matches %s of %s", q.panel, s[0], q.expr)
			}
		}
	}
}

// TestRulesAndDashboardInPrometheus: a Prometheus that scrapes a running daemon loads the shipped rules, evaluates all
// of them, and answers every query of the dashboard.
func TestRulesAndDashboardInPrometheus(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skipf("not checked: %v (Debian's package prometheus has it)", err)
	}
	d, _ := watched(t)
	base := startPrometheus(t, path, d.Addr())
	ask := func(path string, into any) error {
		response, err := http.Get(base + path)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		return json.NewDecoder(response.Body).Decode(&struct {
			Data any `json:"data"`
		}{into})
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	daemontest.Within(t, daemontest.Patience, "an evaluation of every rule", func() bool {
		if ask("/api/v1/rules", &rules) != nil || len(rules.Groups) < 2 {
			return false
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				if r.LastError != "" {
					t.Fatalf("%s: %s", r.Name, r.LastError)
				}
				if r.Health != "ok" {
					return false
				}
			}
		}
		return true
	})
	for _, q := range dashboardQueries(t) {
		var answer struct{ Result []json.RawMessage }
		mayBeEmpty := strings.Contains(q.expr, "> 0") // nothing happens while Prometheus looks
		daemontest.Within(t, daemontest.Patience, q.panel+": an answer to "+q.expr, func() bool {
			answer.Result = nil
			return ask("/api/v1/query?query="+url.QueryEscape(q.expr), &answer) == nil &&
				(len(answer.Result) > 0 || mayBeEmpty && answer.Result != nil)
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

// startPrometheus runs a server that scrapes one address every half second with the shipped rules, and returns its URL.
func startPrometheus(t *testing.T, path, target string) string {
	t.Helper()
	rules, err := filepath.Abs("../configs/refitd.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "global: {scrape_interval: 500ms, evaluation_interval: "+
		"1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: refitd, static_configs: [{targets: [%q]}]}]\n", rules, target), 0o644); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	ctx, stop := context.WithCancel(t.Context())
	server := exec.CommandContext(ctx, path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	var log strings.Builder
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = server.Wait() // killed by stop
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return "http://" + address
}

// TestProducersCannotMakeSeries: whatever is in the records, a daemon shows the series it had, and few of them.
func TestProducersCannotMakeSeries(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(17, 200)
	d, stop := b.Start(b.Configure("hostile"))
	defer stop()
	scrape := func() string {
		_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return metrics
	}
	names := func(metrics string) map[string]bool {
		out := make(map[string]bool)
		for _, l := range series(t, metrics) {
			if strings.HasPrefix(string(l[model.MetricNameLabel]), "refitd_") {
				out[l.String()] = true
			}
		}
		return out
	}
	var metrics string
	applied := func(n float64) func() bool {
		return func() bool {
			metrics = scrape()
			return d.Lag() == 0 &&
				daemontest.Sum(t, metrics, "refitd_events_total")+daemontest.Sum(t, metrics,
					"refitd_events_rejected_total") == n
		}
	}
	daemontest.Within(t, daemontest.Patience, "the first events", applied(200))
	// One scrape later: the series are gathered while the batch is counted, not at one moment, and an answer is counted
	// after it is written.
	before := names(scrape())
	var records [][]byte
	for i := range 300 {
		records = append(records, fmt.Appendf(nil, `{"user":"new%d","item":"{le=\"%d\"}","rating":%d,"ts":1}`, i, i, i),
			fmt.Appendf(nil, `{"rating":%d`, i),
			fmt.Appendf(nil, `{"model":"m%d","topic":"t%d","reason":"r%d"}`, i, i, i))
	}
	b.Produce(records...)
	daemontest.Within(t, daemontest.Patience, "the others", applied(1100))
	after := names(metrics)
	for name := range after {
		if !before[name] {
			t.Errorf("new series %s", name)
		}
	}
	if limit := 2000 + 20*4; len(after) > limit {
		t.Errorf("%d series, at most %d", len(after), limit)
	}
	t.Logf("%d series", len(after))
}

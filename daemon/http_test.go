package daemon_test

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/daemon/daemontest"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/refitd/refitd/daemon/report"
)

// freeAddr returns an address of this machine on which nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestReadinessFollowsTheBroker: a broker that cannot be reached makes the daemon not ready, and not ill.
func TestReadinessFollowsTheBroker(t *testing.T) {
	t.Parallel()
	b := &daemontest.Bench{T: t, Dir: t.TempDir(), Addr: freeAddr(t)}
	d, stop := b.Start(b.Configure("h"))
	base := "http://" + d.Addr()
	ready := func(want int) (reasons []string) {
		t.Helper()
		daemontest.Within(t, daemontest.Patience, http.StatusText(want), func() bool {
			if status, _ := daemontest.Get(t, base+"/-/healthy"); status != http.StatusOK {
				t.Fatalf("healthy: %d", status)
			}
			status, body := daemontest.Get(t, base+"/-/ready")
			var answer struct {
				Ready   bool     `json:"ready"`
				Reasons []string `json:"reasons"`
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Ready != (status == http.StatusOK) ||
				answer.Ready != (len(answer.Reasons) == 0) {
				t.Fatalf("%d with %s, error %v", status, body, err)
			}
			reasons = answer.Reasons
			return status == want && (want == http.StatusOK || strings.Contains(body, b.Addr))
		})
		return reasons
	}
	if reasons := ready(http.StatusServiceUnavailable); !strings.HasPrefix(reasons[0],
		"ratings: kafka: cannot reach a broker at ") {
		t.Errorf("reasons %v", reasons)
	}
	for _, path := range []string{"/nothing", "/-/quit", "/debug/pprof/"} {
		if status, _ := daemontest.Get(t, base+path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	b.StartBroker(b.Addr)
	b.ProduceRatings(13, 200)
	ready(http.StatusOK)
	daemontest.Within(t, daemontest.Patience, "all events applied", func() bool {
		_, metrics := daemontest.Get(t, base+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_events_total") == 200
	})
	b.Broker.Close()
	ready(http.StatusServiceUnavailable)
	stop()
}

// contractFamilies are the metrics that the command-line contract names.
var contractFamilies = []string{"refitd_events_total{model,topic}", "refitd_events_rejected_total{field,model,reason}",
	"refitd_consumer_lag_records{partition,topic}", "refitd_snapshot_info{model,version}",
	"refitd_progressive_loss{model,role}"}

// elsewhere are the metrics that a broker without TLS and a model without shards, whose records are JSON, have no
// reason to show. TestRegistryAway has those of schemas, TestTables those of tables, TestLaterLabels
// those of outcomes.
var elsewhere = []string{
	"refitd_consumer_cert_expiry_seconds",
	"refitd_outcome_delay_seconds",
	"refitd_outcome_dropped_events_total",
	"refitd_outcome_keys",
	"refitd_outcome_open_keys",
	"refitd_outcome_rate",
	"refitd_outcome_rows",
	"refitd_outcomes_late",
	"refitd_outcomes_total",
	"refitd_schema_failures_total",
	"refitd_schema_loses_field",
	"refitd_schema_requests_total",
	"refitd_schema_unavailable",
	"refitd_schemas",
	"refitd_table_bytes",
	"refitd_table_coverage",
	"refitd_table_newest_timestamp_seconds",
	"refitd_table_rows",
	"refitd_shard_clock_offset_seconds",
	"refitd_shard_live_heard_timestamp_seconds",
	"refitd_shard_live_missed_offsets_total",
	"refitd_shard_live_share",
	"refitd_trainer_leader",
}

// TestMetrics: what a daemon that reads, refits and publishes shows is well formed, and is what configs/metrics.json
// says, no more and no less.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(14, 3000)
	b.Produce([]byte("nonsense"))
	d, stop := b.Start(
		b.Configure(
			"p",
			"every_events: 0",
			"every_events: 1000",
			"update_every: 0s",
			"update_every: 200ms, expires_after: 1h",
			"start: earliest",
			"start: earliest, dead_letter: {topic: refused}, mapping: {fields: [{name: price, path: price}]}",
			"[user, item]",
			"[user, item], numeric: [{name: price, optional: true}]",
			"gate: {min_rows: 20}}",
			"gate: {min_rows: 20}}\n    score: {topic: scores}",
		),
	)
	defer stop()
	var metrics string
	daemontest.Within(t, daemontest.Patience, "a look at the losses after a promotion", func() bool {
		_, metrics = daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_progressive_loss") > 0 && daemontest.Sum(t, metrics,
			"refitd_snapshot_info") == 1 &&
			daemontest.Sum(t, metrics, "refitd_watch_version") > 0 &&
			strings.Contains(metrics, "refitd_score_lag_records{")
	})
	documented := documentedMetrics(t)
	shown := families(t, metrics)
	for name, labels := range shown {
		want, ok := documented[name]
		if !ok {
			t.Errorf("%s, a %s, is not in configs/metrics.json", name, labels)
		} else if want != labels {
			t.Errorf("%s is a %s, in configs/metrics.json a %s", name, labels, want)
		}
	}
	for name := range documented {
		if _, ok := shown[name]; !ok && !slices.Contains(elsewhere, name) {
			t.Errorf("%s of configs/metrics.json is not shown", name)
		}
	}
	for _, f := range contractFamilies {
		if name, labels, _ := strings.Cut(f, "{"); !strings.HasSuffix(shown[name], "{"+labels) {
			t.Errorf("%s has the labels %s, in the contract %s", name, shown[name], labels)
		}
	}
	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	if err != nil {
		t.Fatalf("metrics cannot be parsed: %v", err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "refitd_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// families returns the type of every refitd metric with its label names, sorted and joined, those of histograms without
// le: gauge{a,b}.
func families(t *testing.T, metrics string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, m := range regexp.MustCompile(
		`(?m)^# TYPE (refitd_\w+) (\w+)\n(refitd_\w+)(?:\{(.*)\})? `).FindAllStringSubmatch(metrics, -1) {
		names := make(map[string]bool)
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[4], -1) {
			names[l[1]] = true
		}
		delete(names, "le")
		out[m[1]] = m[2] + "{" + strings.Join(slices.Sorted(maps.Keys(names)), ",") + "}"
		if !strings.Contains(metrics, "# HELP "+m[1]+" ") {
			t.Errorf("%s has no help", m[1])
		}
	}
	return out
}

// documentedMetrics returns the metrics of configs/metrics.json with their types and label names, as families does.
func documentedMetrics(t *testing.T) map[string]string {
	t.Helper()
	var sections []struct {
		Metrics []struct {
			Name, Type string
			Labels     []string
		}
	}
	if err := json.Unmarshal([]byte(configs.Metrics), &sections); err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, s := range sections {
		for _, m := range s.Metrics {
			slices.Sort(m.Labels)
			out[m.Name] = m.Type + "{" + strings.Join(m.Labels, ",") + "}"
		}
	}
	return out
}

// TestWebConfigIsCheckedAtTheStart: a daemon that nobody could watch does not start.
func TestWebConfigIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	web := filepath.Join(b.Dir, "web.yaml")
	if err := os.WriteFile(web, []byte("tls_server_config: {cert_file: none.pem, key_file: none.key}\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	o := b.Run(b.Configure("w", `"127.0.0.1:0"`, `"127.0.0.1:0", config_file: web.yaml`))
	if report.CodeOf(o.Err) != report.ExitUsage || report.ErrorOf(o.Err).Key != "web.config_file" || len(o.Lines) > 0 {
		t.Errorf("%d lines, error %v", len(o.Lines), o.Err)
	}
}

package configs_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/refitd/refitd/configs"
)

// metric is one of this build.
type metric struct {
	Type   string // counter, gauge or histogram
	Labels []string
}

// metricsByName are the metrics of this build. A histogram has three names.
func metricsByName(t *testing.T) map[string]metric {
	t.Helper()
	var sections []struct {
		Metrics []struct {
			Name string
			metric
		}
	}
	if err := json.Unmarshal([]byte(configs.Metrics), &sections); err != nil {
		t.Fatal(err)
	}
	out := make(map[string]metric)
	for _, s := range sections {
		for _, m := range s.Metrics {
			if m.Type != "histogram" {
				out[m.Name] = m.metric
				continue
			}
			out[m.Name+"_bucket"] = metric{m.Type, append(slices.Clone(m.Labels), "le")}
			out[m.Name+"_sum"], out[m.Name+"_count"] = m.metric, m.metric
		}
	}
	return out
}

// The parts of an expression that this test looks at. promtool checks its syntax, in .ci/rules.
var (
	metricName = regexp.MustCompile(
		`([a-z_]+\()?(refitd[a-z0-9_:]*)(\{[^}]*\})?`,
	) // with a function around it, and matchers
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
)

// ofScrapes are the labels that Prometheus adds, and model, which a consumer has with several models.
var ofScrapes = []string{"job", "instance", "model"}

// forCounters are the functions for what starts again with the process.
var forCounters = []string{"rate(", "irate(", "increase(", "resets(", "changes(", "absent("}

// sinceStart are the counters of what is found at the start: an increase from there is never seen.
var sinceStart = []string{"refitd_state_rollback_offsets_total", "refitd_snapshot_untrusted_total"}

// checkExpression checks that an expression names metrics and labels that this build has, and recorded ones, and that
// it does not compare counters as they are.
func checkExpression(t *testing.T, where, expression string, metrics map[string]metric, recorded []string) {
	t.Helper()
	var labels []string
	for _, m := range metricName.FindAllStringSubmatch(expression, -1) {
		function, name, matchers := m[1], m[2], m[3]
		if slices.Contains(recorded, name) {
			continue
		}
		of, ok := metrics[name]
		if !ok {
			t.Errorf("%s: %s is neither a metric of this build nor recorded", where, name)
			continue
		}
		known := append(slices.Clone(of.Labels), ofScrapes...)
		labels = append(labels, known...)
		for _, label := range matcher.FindAllStringSubmatch(matchers, -1) {
			if !slices.Contains(known, label[1]) {
				t.Errorf("%s: %s has no label %s", where, name, label[1])
			}
		}
		if of.Type == "counter" && !slices.Contains(forCounters, function) && !slices.Contains(sinceStart, name) {
			t.Errorf("%s: %s is a counter, which starts again with the process: use rate or increase", where, name)
		}
	}
	if len(labels) == 0 {
		labels = slices.Clone(ofScrapes) // of recorded names alone, whose labels are those of their rules
		for _, of := range metrics {
			labels = append(labels, of.Labels...)
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			if label = strings.TrimSpace(label); label != "" && !slices.Contains(labels, label) {
				t.Errorf("%s: no metric of %s has a label %s", where, expression, label)
			}
		}
	}
}

// rule is a rule as refitd has them.
type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func shippedRules(t *testing.T) (rules []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.NewDecoder(strings.NewReader(configs.Rules), yaml.Strict()).Decode(&file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// TestRulesNameWhatThereIs: every metric and every label of the rules and of the dashboard is one of this build, or
// recorded.
func TestRulesNameWhatThereIs(t *testing.T) {
	metrics := metricsByName(t)
	var recorded []string
	for _, r := range shippedRules(t) {
		if r.Record != "" {
			recorded = append(recorded, r.Record)
		}
	}
	if len(recorded) < 5 {
		t.Fatalf("%d recording rules", len(recorded))
	}
	for _, r := range shippedRules(t) {
		checkExpression(t, r.Record+r.Alert, r.Expr, metrics, recorded)
	}
	b, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&board); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries++
			checkExpression(t, "dashboard, "+p.Title, target.Expr, metrics, nil)
		}
	}
	if queries < 20 {
		t.Errorf("%d queries of the dashboard", queries)
	}
}

// TestEveryAlertHasItsRunbookAndTest: each alert has a severity, its texts, a section in the runbook under the anchor
// that runbook_url names, and cases in the promtool test for firing and not firing.
func TestEveryAlertHasItsRunbookAndTest(t *testing.T) {
	tests, err := os.ReadFile("refitd.rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := make(map[string]rule)
	for _, r := range shippedRules(t) {
		if r.Alert != "" {
			alerts[r.Alert] = r
		}
	}
	if len(alerts) < 12 {
		t.Fatalf("%d alerts", len(alerts))
	}
	for _, m := range regexp.MustCompile(`(?m)^## (Refitd\w+)`).FindAllStringSubmatch(configs.Runbook, -1) {
		if alerts[m[1]].Alert == "" {
			t.Errorf("the runbook has a section %s without an alert", m[1])
		}
	}
	for name, r := range alerts {
		if !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q: info, warning or critical", name, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" ||
			!strings.HasSuffix(r.Annotations["runbook_url"], "runbook.md#"+strings.ToLower(name)) {
			t.Errorf("%s: annotations %q: summary, description, and runbook_url with its section", name, r.Annotations)
		}
		_, section, found := strings.Cut(configs.Runbook, "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !found || !strings.Contains(section, "**Look at**") || !strings.Contains(section, "**Do**") {
			t.Errorf("runbook.md has no section %s that says what to look at and what to do", name)
		}
		quiet, fires := false, false
		cases := regexp.MustCompile(`(?s)alertname: ` + name + `\n\s+exp_alerts:(.*?\n)`)
		for _, one := range cases.FindAllStringSubmatch(string(tests), -1) {
			if strings.TrimSpace(one[1]) == "[]" {
				quiet = true
			} else {
				fires = true
			}
		}
		if !quiet || !fires {
			t.Errorf("refitd.rules_test.yml: %s fires %t, does not fire %t", name, fires, quiet)
		}
	}
}

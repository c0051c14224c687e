package rules

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/daemon/report"
)

func TestShippedRulesAreSound(t *testing.T) {
	out := Check([]byte(configs.Rules))
	for _, p := range out.Problems {
		t.Error(p)
	}
	if out.Groups != 2 || out.Recordings < 5 || out.Alerts < 12 {
		t.Errorf("%+v", out)
	}
}

func TestDashboardQueriesAreSound(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "configs", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	checked := 0
	v := &vocabulary{metrics: Metrics()}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			checked++
			if problems := v.check(target.Expr); len(problems) > 0 {
				t.Errorf("%s: %q", target.Expr, problems)
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d queries", checked)
	}
}

// Each alert has its section in the runbook under the anchor that runbook_url names, and cases in the promtool test for firing and not
// firing.
func TestEveryAlertHasItsRunbookAndTest(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "configs", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	runbook, tests := read("runbook.md"), read("refitd.rules_test.yml")
	var alerts []string
	for _, m := range regexp.MustCompile(`(?m)alert: (\w+)`).FindAllStringSubmatch(configs.Rules, -1) {
		alerts = append(alerts, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^## (Refitd\w+)`).FindAllStringSubmatch(runbook, -1) {
		if !slices.Contains(alerts, m[1]) {
			t.Errorf("the runbook has a section %s without an alert", m[1])
		}
	}
	for _, name := range alerts {
		_, section, found := strings.Cut(runbook, "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !found || !strings.Contains(section, "**Look at**") || !strings.Contains(section, "**Do**") {
			t.Errorf("runbook.md has no section %s that says what to look at and what to do", name)
		}
		if !strings.Contains(configs.Rules, "runbook.md#"+strings.ToLower(name)) {
			t.Errorf("no runbook_url names the section %s", name)
		}
		quiet, fires := false, false
		for _, one := range regexp.MustCompile(`(?s)alertname: `+name+`\n\s+exp_alerts:(.*?\n)`).FindAllStringSubmatch(tests, -1) {
			if strings.TrimSpace(one[1]) == "[]" {
				quiet = true
			} else {
				fires = true
			}
		}
		if !quiet || !fires {
			t.Errorf("refitd.rules_test.yml: %s fires %t, stays quiet %t", name, fires, quiet)
		}
	}
}

const sound = `
groups:
  - name: g
    rules:
      - record: a:events:rate
        expr: sum without (topic) (rate(refitd_events_total[5m]))
      - alert: Slow
        expr: a:events:rate < 1 and histogram_quantile(0.9, rate(refitd_train_duration_seconds_bucket{le="1"}[5m])) > 2
        for: 1h30m
        labels: {severity: warning}
        annotations: {summary: s, description: d, runbook_url: r}
`

func TestCheckSaysWhatIsWrong(t *testing.T) {
	if out := Check([]byte(sound)); len(out.Problems) > 0 || out.Recordings != 1 || out.Alerts != 1 {
		t.Fatalf("%+v", out)
	}
	for _, c := range []struct{ from, to, want string }{
		{"groups:", "group:", "unknown field"},
		{"expr: a:events:rate < 1", "expr: a:events:rate < < 1", "parse error"},
		{"refitd_events_total", "refitd_event_total", `"refitd_event_total" is neither`},
		{"a:events:rate < 1", "b:events:rate < 1", `"b:events:rate" is neither`},
		{"refitd_train_duration_seconds_bucket", "refitd_train_duration_seconds", "is neither"},
		{`{le="1"}`, `{version="1"}`, `no label "version"`},
		{"rate(refitd_events_total[5m])", "refitd_events_total", "is a counter"},
		{"a:events:rate < 1", "refitd_snapshot_published_timestamp_seconds < 60", "compare time() -"},
		{"for: 1h30m", "for: 90", `for "90" is not a duration`},
		{"severity: warning", "severity: page", "label severity"},
		{"runbook_url: r", "runbook: r", "annotation runbook_url is missing"},
		{"alert: Slow", "alert: Slow-er", "letters, digits"},
		{"record: a:events:rate", "record: events", "has a colon"},
		{"      - alert: Slow", "      - alert: Slow\n        record: x:y", "either record or alert"},
		{"- name: g", "- name: ''", "group names"},
		{"record: a:events:rate\n", "record: a:events:rate\n        for: 1m\n", "belong to alerts"},
	} {
		text := strings.Replace(sound, c.from, c.to, 1)
		if text == sound {
			t.Fatalf("%q is not in the rules", c.from)
		}
		out := Check([]byte(text))
		if !slices.ContainsFunc(out.Problems, func(p report.RuleProblem) bool { return strings.Contains(p.String(), c.want) }) {
			t.Errorf("%q for %q: %v, want %q", c.to, c.from, out.Problems, c.want)
		}
	}
	ratio := strings.Replace(strings.Replace(sound, "a:events:rate\n", "a:x:ratio\n", 1), "a:events:rate < 1", "a:x:ratio > 5", 1)
	if out := Check([]byte(ratio)); len(out.Problems) != 1 || !strings.Contains(out.Problems[0].Message, "ratio between 0 and 1") {
		t.Errorf("%v", out.Problems)
	}
	if out := Check(make([]byte, MaxFileBytes+1)); len(out.Problems) != 1 {
		t.Errorf("%v", out.Problems)
	}
	if out := Check(nil); len(out.Problems) != 1 {
		t.Errorf("%v", out.Problems)
	}
}

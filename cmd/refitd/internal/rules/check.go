package rules

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/refitd/refitd/daemon/report"
)

// MaxFileBytes bounds a file of rules.
const MaxFileBytes = 1 << 20

// file is the form of a Prometheus rule file.
type file struct {
	Groups []group `yaml:"groups"`
}

type group struct {
	Name        string            `yaml:"name"`
	Interval    string            `yaml:"interval"`
	QueryOffset string            `yaml:"query_offset"`
	Limit       int               `yaml:"limit"`
	Labels      map[string]string `yaml:"labels"`
	Rules       []rule            `yaml:"rules"`
}

type rule struct {
	Record        string            `yaml:"record"`
	Alert         string            `yaml:"alert"`
	Expr          string            `yaml:"expr"`
	For           string            `yaml:"for"`
	KeepFiringFor string            `yaml:"keep_firing_for"`
	Labels        map[string]string `yaml:"labels"`
	Annotations   map[string]string `yaml:"annotations"`
}

func (r *rule) name() string {
	if r.Record != "" {
		return r.Record
	}
	return r.Alert
}

// Outcome is what a file of rules holds and what is wrong with it.
type Outcome struct {
	Groups     int
	Recordings int
	Alerts     int
	Problems   []report.RuleProblem
}

var (
	ruleName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	duration = regexp.MustCompile(`^(\d+(ms|[smhdwy]))+$`)
)

// Check checks a file of Prometheus rules: strict YAML, names, durations, PromQL, and that every metric and label is one of this build or
// recorded in the file, that counters are used through rate or increase, ratios compared with numbers in [0, 1] and time stamps with the
// time. An alert has the label severity and the annotations summary, description and runbook_url.
func Check(src []byte) Outcome {
	var f file
	var out Outcome
	if len(src) > MaxFileBytes {
		out.Problems = []report.RuleProblem{{Message: fmt.Sprintf("the file is larger than %d bytes", MaxFileBytes)}}
		return out
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff")) // the byte order mark that some editors write
	if err := yaml.NewDecoder(bytes.NewReader(src), yaml.Strict()).Decode(&f); err != nil {
		out.Problems = []report.RuleProblem{{Message: strings.TrimSpace(yaml.FormatError(err, false, true))}}
		return out
	}
	v := &vocabulary{metrics: Metrics()}
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				v.recorded = append(v.recorded, r.Record)
			}
		}
	}
	seen := make(map[string]bool)
	for _, g := range f.Groups {
		out.Groups++
		add := func(r *rule, format string, values ...any) {
			p := report.RuleProblem{Group: g.Name, Message: fmt.Sprintf(format, values...)}
			if r != nil {
				p.Rule = r.name()
			}
			out.Problems = append(out.Problems, p)
		}
		if g.Name == "" || seen[g.Name] {
			add(nil, "group names have to be there and differ: %q", g.Name)
		}
		if seen[g.Name] = true; g.Interval != "" && !duration.MatchString(g.Interval) {
			add(nil, "interval %q is not a duration such as 30s", g.Interval)
		}
		for i := range g.Rules {
			r := &g.Rules[i]
			if r.Record != "" {
				out.Recordings++
			} else {
				out.Alerts++
			}
			for _, text := range r.check() {
				add(r, "%s", text)
			}
			for _, text := range v.check(r.Expr) {
				add(r, "%s", text)
			}
		}
	}
	if out.Groups == 0 {
		out.Problems = append(out.Problems, report.RuleProblem{Message: "no groups: a file of rules begins with groups:"})
	}
	return out
}

// check checks everything but the expression.
func (r *rule) check() []string {
	var problems []string
	add := func(format string, values ...any) { problems = append(problems, fmt.Sprintf(format, values...)) }
	switch {
	case (r.Record == "") == (r.Alert == ""):
		add("a rule has either record or alert")
		return problems
	case !ruleName.MatchString(r.name()):
		add("name %q: letters, digits, _ and :", r.name())
	case r.Record != "" && !strings.Contains(r.Record, ":"):
		add("a recorded name has a colon, so that it is not taken for a metric: level:metric:operation")
	}
	if r.Record != "" {
		if r.For != "" || r.KeepFiringFor != "" || r.Annotations != nil {
			add("for, keep_firing_for and annotations belong to alerts")
		}
		return problems
	}
	for _, d := range []struct{ key, value string }{{"for", r.For}, {"keep_firing_for", r.KeepFiringFor}} {
		if d.value != "" && !duration.MatchString(d.value) {
			add("%s %q is not a duration such as 15m", d.key, d.value)
		}
	}
	if !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) {
		add("label severity is %q: info, warning or critical", r.Labels["severity"])
	}
	for _, key := range []string{"summary", "description", "runbook_url"} {
		if strings.TrimSpace(r.Annotations[key]) == "" {
			add("annotation %s is missing: it is what the person on call reads", key)
		}
	}
	return problems
}

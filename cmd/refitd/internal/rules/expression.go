package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/refitd/refitd/cmd/refitd/internal/rules/promql"
)

// scrapeLabels are what Prometheus adds to every series. model is among them because consumer series have it with several models.
var scrapeLabels = []string{model.MetricNameLabel, "job", "instance", "model"}

// sinceStart are the counters of what is found at the start: an increase from there is never seen.
var sinceStart = []string{"refitd_state_rollback_offsets_total", "refitd_snapshot_untrusted_total"}

// foreign are the metrics that a scrape of refitd has beside its own, by prefix or name.
var foreign = []string{"up", "scrape_", "process_", "go_", "promhttp_", "ALERTS"}

// vocabulary is what expressions may name.
type vocabulary struct {
	metrics  map[string]Metric
	recorded []string // names of recording rules
}

// check returns what is wrong with a PromQL expression, nil if nothing is.
func (v *vocabulary) check(text string) []string {
	expr, err := promql.Parse(text)
	if err != nil {
		return []string{"expr: " + err.Error()}
	}
	var problems []string
	expr.Walk(func(e *promql.Expr, above []*promql.Expr) {
		switch {
		case e.Type == promql.Selector:
			problems = append(problems, v.selector(e, above)...)
		case e.Compares():
			if text := threshold(e); text != "" {
				problems = append(problems, text)
			}
		}
	})
	return problems
}

// selector checks the name and the labels of a selector, and that a counter is used as one.
func (v *vocabulary) selector(e *promql.Expr, above []*promql.Expr) []string {
	name := e.Name
	if slices.Contains(v.recorded, name) || slices.ContainsFunc(foreign, func(f string) bool { return strings.HasPrefix(name, f) }) {
		return nil
	}
	metric, ok := v.find(name)
	if !ok {
		return []string{fmt.Sprintf("metric %q is neither one of this build nor recorded in the file; the metrics are listed in configs/metrics.md", name)}
	}
	var problems []string
	for _, m := range e.Matchers {
		if !slices.Contains(metric.Labels, m.Label) && !slices.Contains(scrapeLabels, m.Label) && !(m.Label == "le" && metric.Type == "histogram") {
			problems = append(problems, fmt.Sprintf("%s has no label %q: it has %s", name, m.Label, strings.Join(metric.Labels, ", ")))
		}
	}
	if metric.Type == "counter" && !underRate(above) && !slices.Contains(sinceStart, name) {
		problems = append(problems, fmt.Sprintf("%s is a counter, which starts again with the process: use rate or increase", name))
	}
	return problems
}

// find returns the metric of a series name: a histogram has three.
func (v *vocabulary) find(name string) (Metric, bool) {
	if m, ok := v.metrics[name]; ok {
		return m, m.Type != "histogram"
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && v.metrics[base].Type == "histogram" {
			return v.metrics[base], true
		}
	}
	return Metric{}, false
}

// underRate reports whether a selector with these nodes above it is the argument of a function for counters.
func underRate(above []*promql.Expr) bool {
	return slices.ContainsFunc(above, func(e *promql.Expr) bool {
		return e.Type == promql.Call && slices.Contains([]string{"rate", "irate", "increase", "resets", "changes", "absent", "absent_over_time"}, e.Name)
	})
}

// threshold says what is wrong with a comparison with a number: a ratio outside [0, 1], or a time stamp that no time was taken from.
func threshold(e *promql.Expr) string {
	left, right := e.Args[0], e.Args[1]
	switch name, number := left.Name, right.Value; {
	case left.Type != promql.Selector || right.Type != promql.Number:
	case strings.Contains(name, ":ratio") && (number < 0 || number > 1):
		return fmt.Sprintf("%s is a ratio between 0 and 1, compared with %g", name, number)
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return fmt.Sprintf("%s is a time stamp, compared with %g: compare time() - %s", name, number, name)
	}
	return ""
}

package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// scrapeLabels are what Prometheus adds to every series. model is among them because consumer series have it with several models.
var scrapeLabels = []string{labels.MetricName, "job", "instance", "model"}

// sinceStart is the one counter that is set once, at the start: an increase of it is never seen.
const sinceStart = "refitd_state_rollback_offsets_total"

// foreign are the metrics that a scrape of refitd has beside its own, by prefix or name.
var foreign = []string{"up", "scrape_", "process_", "go_", "promhttp_", "ALERTS"}

// vocabulary is what expressions may name.
type vocabulary struct {
	metrics  map[string]Metric
	recorded []string // names of recording rules
}

// check returns what is wrong with a PromQL expression, nil if nothing is.
func (v *vocabulary) check(text string) []string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return []string{"expr: " + err.Error()}
	}
	var problems []string
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			problems = append(problems, v.selector(n, path)...)
		case *parser.BinaryExpr:
			if text := threshold(n); text != "" {
				problems = append(problems, text)
			}
		}
		return nil
	})
	return problems
}

// selector checks the name and the labels of a selector, and that a counter is used as one.
func (v *vocabulary) selector(n *parser.VectorSelector, path []parser.Node) []string {
	name := n.Name
	for _, m := range n.LabelMatchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			name = m.Value
		}
	}
	if slices.Contains(v.recorded, name) || slices.ContainsFunc(foreign, func(f string) bool { return strings.HasPrefix(name, f) }) {
		return nil
	}
	metric, ok := v.find(name)
	if !ok {
		return []string{fmt.Sprintf("metric %q is neither one of this build nor recorded in the file; the metrics are listed in configs/metrics.md", name)}
	}
	var problems []string
	for _, m := range n.LabelMatchers {
		if !slices.Contains(metric.Labels, m.Name) && !slices.Contains(scrapeLabels, m.Name) && !(m.Name == "le" && metric.Type == "histogram") {
			problems = append(problems, fmt.Sprintf("%s has no label %q: it has %s", name, m.Name, strings.Join(metric.Labels, ", ")))
		}
	}
	if metric.Type == "counter" && !underRate(path) && name != sinceStart {
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

// underRate reports whether a selector is the argument of a function for counters.
func underRate(path []parser.Node) bool {
	for _, node := range path {
		if call, ok := node.(*parser.Call); ok && slices.Contains([]string{"rate", "irate", "increase", "resets", "changes", "absent", "absent_over_time"}, call.Func.Name) {
			return true
		}
	}
	return false
}

// threshold says what is wrong with a comparison with a number: a ratio outside [0, 1], or a time stamp that no time was taken from.
func threshold(n *parser.BinaryExpr) string {
	number, ok := n.RHS.(*parser.NumberLiteral)
	if !n.Op.IsComparisonOperator() || !ok {
		return ""
	}
	selector, ok := n.LHS.(*parser.VectorSelector)
	if !ok {
		return ""
	}
	switch name := selector.Name; {
	case strings.Contains(name, ":ratio") && (number.Val < 0 || number.Val > 1):
		return fmt.Sprintf("%s is a ratio between 0 and 1, compared with %g", name, number.Val)
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return fmt.Sprintf("%s is a time stamp, compared with %g: compare time() - %s", name, number.Val, name)
	}
	return ""
}

package evaluate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/refitd/refitd/daemon/report"
)

// recallOf begins the name of the metric of one class: recall_per_class.spam.
const recallOf = "recall_per_class."

var countField = report.MetricField{
	Name:  "n",
	Value: func(m *report.Metrics) *report.Number { return report.Some(float64(m.N)) },
}

// metricOf returns the metric of a name.
func metricOf(name string) (report.MetricField, bool) {
	if class, ok := strings.CutPrefix(name, recallOf); ok {
		return report.MetricField{Name: name, Value: func(m *report.Metrics) *report.Number {
			if v, ok := m.RecallPerClass[class]; ok {
				return &v
			}
			return nil
		}}, true
	}
	if name == countField.Name {
		return countField, true
	}
	for _, m := range report.MetricFields {
		if m.Name == name {
			return m, true
		}
	}
	return report.MetricField{}, false
}

// metricNames returns the names of the metrics that are there, of all for nil.
func metricNames(m *report.Metrics) []string {
	names := []string{countField.Name}
	for _, c := range report.MetricFields {
		if m == nil || c.Value(m) != nil {
			names = append(names, c.Name)
		}
	}
	if m == nil {
		return append(names, recallOf+"CLASS")
	}
	for _, class := range m.RecallClasses() {
		names = append(names, recallOf+class)
	}
	return names
}

// A Requirement is a bound on one metric, such as rmse<=0.95.
type Requirement struct {
	metric report.MetricField
	op     string // <=, >=, < or >
	bound  float64
}

// UnmarshalText parses a requirement.
func (r *Requirement) UnmarshalText(text []byte) error {
	s := string(text)
	at := strings.IndexAny(s, "<>")
	if at < 0 {
		return fmt.Errorf("requirement %q has no <=, >=, < or >: write, for example, rmse<=0.95", s)
	}
	end := at + 1
	if strings.HasPrefix(s[end:], "=") {
		end++
	}
	name := strings.TrimSpace(s[:at])
	r.op = s[at:end]
	bound, err := strconv.ParseFloat(strings.TrimSpace(s[end:]), 64)
	if err != nil || math.IsNaN(bound) {
		return fmt.Errorf("requirement %q does not end in a number: write, for example, rmse<=0.95", s)
	}
	r.bound = bound
	var ok bool
	if r.metric, ok = metricOf(name); ok {
		return nil
	}
	return fmt.Errorf("requirement %q: unknown metric %q: the metrics are %s", s, name,
		strings.Join(metricNames(nil), ", "))
}

// String returns the form that UnmarshalText reads.
func (r Requirement) String() string {
	return r.metric.Name + r.op + strconv.FormatFloat(r.bound, 'g', -1, 64)
}

// isMetBy reports whether a value meets the requirement; one that is not a number meets none.
func (r Requirement) isMetBy(v float64) bool {
	switch r.op {
	case "<=":
		return v <= r.bound
	case ">=":
		return v >= r.bound
	case "<":
		return v < r.bound
	}
	return v > r.bound
}

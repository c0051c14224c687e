package rules

import (
	"regexp"
	"strings"

	"github.com/refitd/refitd/configs"
)

// Metric is one that this build has.
type Metric struct {
	Name   string
	Type   string // counter, gauge or histogram
	Labels []string
}

var metricRow = regexp.MustCompile("(?m)^\\| `(refitd_\\w+)(?:\\{(.*?)\\})?` \\| (\\w+) \\|")

// Metrics returns the metrics of this build by name.
func Metrics() map[string]Metric {
	out := make(map[string]Metric)
	for _, row := range metricRow.FindAllStringSubmatch(configs.Metrics, -1) {
		m := Metric{Name: row[1], Type: row[3]}
		if row[2] != "" {
			m.Labels = strings.Split(row[2], ",")
		}
		out[m.Name] = m
	}
	return out
}

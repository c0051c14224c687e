package rules

import (
	"encoding/json"

	"github.com/refitd/refitd/configs"
)

// Metric is one that this build has.
type Metric struct {
	Name   string
	Type   string // counter, gauge or histogram
	Labels []string
}

// Metrics returns the metrics of this build by name.
func Metrics() map[string]Metric {
	var sections []struct{ Metrics []Metric }
	if err := json.Unmarshal([]byte(configs.Metrics), &sections); err != nil {
		panic("rules: configs/metrics.json: " + err.Error()) // it is part of this program
	}
	out := make(map[string]Metric)
	for _, s := range sections {
		for _, m := range s.Metrics {
			out[m.Name] = m
		}
	}
	return out
}

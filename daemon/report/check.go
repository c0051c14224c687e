package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// CheckSummary ends check config.
type CheckSummary struct {
	OK         bool     `json:"ok"`                    // the file has no mistake
	Models     []string `json:"models"`                // names, in the order of the file
	ConfigHash string   `json:"config_hash,omitempty"` // absent if the file has mistakes
	// that the configuration may use; null if the file has mistakes
	Memory *config.Memory       `json:"memory"`
	Shards []ShardPlan          `json:"shards,omitempty"` // of each model, with --rate
	Errors []strictyaml.Problem `json:"errors"`           // in the order of the file
}

// ShardPlan is what a rate of input wants of the shards of a model, at half a processor of 2.25 GHz for each.
type ShardPlan struct {
	Model           string  `json:"model"`             // its name
	EventsPerSecond float64 `json:"events_per_second"` // that come in
	Shards          int     `json:"shards"`            // shard.count; the topics need as many partitions
	Processors      float64 `json:"processors"`        // that events keep busy in each
	RowsFirstDay    int64   `json:"rows_first_day"`    // in the merge topic: k·(1 + ln(n/k)), and what a half-life adds
	HeadsPerSecond  float64 `json:"heads_per_second"`  // in the merge topic, of all shards; each process reads all
}

// WriteText prints the hash, the models and the memory by part. The mistakes of a bad file are its error text, not part
// of this.
func (s CheckSummary) WriteText(w io.Writer) error {
	if !s.OK {
		return nil
	}
	fmt.Fprintf(w, "ok: models %s, %s\n", strings.Join(s.Models, ", "), s.ConfigHash)
	rows := make([][]string, 0, len(s.Memory.Parts)+2)
	for _, part := range slices.Sorted(maps.Keys(s.Memory.Parts)) {
		rows = append(rows, []string{part, mebibytes(s.Memory.Parts[part])})
	}
	budget := "no memory_budget"
	if s.Memory.BudgetBytes > 0 {
		budget = "memory_budget " + mebibytes(s.Memory.BudgetBytes)
	}
	rows = append(rows, []string{"memory at most", mebibytes(s.Memory.TotalBytes), "(" + budget + ")"},
		[]string{"typically", mebibytes(s.Memory.TypicalBytes), "(short names, lists and rows)"})
	if err := table(w, rows); err != nil {
		return err
	}
	for _, p := range s.Shards {
		one := "one process reads it (role: all)"
		if p.Shards > 1 {
			one = fmt.Sprintf("%d shards at %.2f processors each, over as many partitions or more", p.Shards,
				p.Processors)
		}
		fmt.Fprintf(w, "%s, %.6g events a second: %s; merge topic: %d rows on the first day, %.3g heads a second\n",
			p.Model, p.EventsPerSecond, one, p.RowsFirstDay, p.HeadsPerSecond)
	}
	return nil
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Memory is the memory a configuration may use, by named part. Package memory computes it: this one does not know what
// holds things.
type Memory struct {
	BudgetBytes  int64            `json:"budget_bytes"`  // memory_budget; 0 without one
	TotalBytes   int64            `json:"total_bytes"`   // sum of the parts
	TypicalBytes int64            `json:"typical_bytes"` // what it takes as a rule, of short names, lists and rows
	Parts        map[string]int64 `json:"parts"`         // keys are <model>.<part>, and process
}

// HeapBytes returns what of the total is the heap of the Go runtime: not the tables that Badger maps, nor the program,
// nor what a goal that the collector only tends to is passed by (a peak of 20 million new names was 1 % above the total
// without that).
func (m *Memory) HeapBytes() int64 {
	const passed = 32
	heap := m.TotalBytes - m.TotalBytes/passed - m.Parts[ProcessPart]/2
	for part, bytes := range m.Parts {
		if strings.HasSuffix(part, ".badger") {
			heap -= bytes / 2
		}
	}
	return heap
}

// ProcessPart is the part that belongs to no model.
const ProcessPart = "process"

// VariationalBasis returns how many basis vectors the variational refit may use on n rows: variational_basis, or,
// where that is auto, at most max_basis of what the rows support. The stage sets its own regularisation, so a few too
// many do no harm but cost time: 6 at 4,500 rows, 10 at 70,000, 13 at 600,000.
func (t *Train) VariationalBasis(n int) int {
	if t.Variational > 0 {
		return int(t.Variational)
	}
	return min(t.MaxBasis, max(2, 4+int(math.Log2(max(1, float64(n)/1000)))))
}

// memoryKeys names the keys that make a part smaller.
var memoryKeys = map[string]string{
	"sample_index":   "sample.size",
	"training_rows":  "sample.max_bytes",
	"held_out_rows":  "sample.holdout.size and sample.max_bytes",
	"vocabulary":     "train.max_features, sample.max_bytes and input.max_id_bytes",
	"models":         "train.max_features and train.max_basis",
	"refit":          "sample.size and train.max_basis",
	"fetch":          "kafka.max_partition_fetch_bytes",
	"badger":         "sample.size",
	"feature_map":    "train.feature_map and sample.size",
	"fold_in":        "train.fold_in.max_rows and input.max_id_bytes",
	"numbers":        "train.fold_in.max_rows and input.max_id_bytes",
	"names":          "train.fold_in.max_rows",
	"mixture":        "train.fold_in.max_rows and input.max_id_bytes",
	"garbage":        "sample.size",
	"dead_letters":   "input.dead_letter.max_rows",
	"kept_sample":    "publish.keep_sample",
	"bodies":         "web.max_inflight_bytes",
	"connections":    "web.max_connections",
	"scores":         "score.topic",
	"notices":        "notify.url",
	"dual_variables": "sample.size",
	"waiting_rows":   "shard.count and sample.max_bytes",
	"forwarded":      "shard.live_topic",
	"deltas":         "publish.deltas.every",
	"derived_fields": "schema.derived",
	"tables":         "tables[].max_rows and tables[].max_bytes",
	"choices":        "sample.size",
	"outcomes":       "sample.size",
	"schemas":        "input.format",
	"progressive":    "evaluate.window",
	"variational":    "train.max_features, train.max_basis and train.variational_basis",
}

// MemoryKey returns the keys that make a part of Memory.Parts smaller, "" if none does.
func MemoryKey(part string) string { return memoryKeys[part[strings.LastIndexByte(part, '.')+1:]] }

// memory reports a total over the budget, with the three largest parts and the keys they follow from.
func (v *validator) memory(m Memory) {
	if m.BudgetBytes == 0 || m.TotalBytes <= m.BudgetBytes {
		return
	}
	largest := slices.SortedFunc(maps.Keys(m.Parts), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.Parts[b], m.Parts[a]), cmp.Compare(a, b))
	})
	largest = slices.DeleteFunc(largest, func(part string) bool { return part == ProcessPart })
	var text []string
	for _, part := range largest[:min(3, len(largest))] {
		of := part + " " + mebibytes(m.Parts[part])
		if key := MemoryKey(part); key != "" {
			of += " (" + key + ")"
		}
		text = append(text, of)
	}
	v.bad("memory_budget", Size(m.BudgetBytes), fmt.Sprintf("at least %s, or make the largest parts smaller: %s",
		mebibytes(m.TotalBytes), strings.Join(text, ", ")))
}

// mebibytes rounds up to a whole number of MiB, which memory_budget accepts unchanged.
func mebibytes(bytes int64) string { return fmt.Sprintf("%dMiB", (bytes+1<<20-1)>>20) }

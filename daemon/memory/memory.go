// Package memory sums the footprints of what a configuration makes: the packages that hold something say what one of it takes.
package memory

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// connectionBytes is a connection of the HTTP surface: two stacks, two buffers, TLS, and headers.
const connectionBytes = 64 << 10

const (
	multiNames = 8 // names in a multi field
	models     = 4 // champion, live, the one in training, and its gradient or best so far
	posteriors = 4 // the champion's, the one in training, its best so far, and what partners see of it
)

// Of returns the memory that a resolved configuration may use.
func Of(c *config.Config) config.Memory {
	out := config.Memory{BudgetBytes: int64(c.MemoryBudget), Parts: map[string]int64{
		"web.bodies":      5 * int64(c.Web.MaxInflightBytes) / 2, // those that were answered are garbage until the collector has run
		"web.connections": connectionBytes * int64(c.Web.MaxConnections),
	}}
	out.TotalBytes = out.Parts["web.bodies"] + out.Parts["web.connections"]
	for i := range c.Models {
		for part, bytes := range parts(&c.Models[i], int(c.Kafka.MaxPartitionFetchBytes)) {
			out.Parts[c.Models[i].Name+"."+part] = bytes
			out.TotalBytes += bytes
		}
	}
	return out
}

// parts returns the upper bound in bytes of each part of a model: n rows of some entries, d features, k basis vectors, and outputs, with names
// of ordinary length.
func parts(m *config.Model, maxPartitionFetch int) map[string]int64 {
	n, h := m.Sample.Size, m.Sample.Holdout.Size
	names, numbers := len(m.Schema.Categorical)+multiNames*len(m.Schema.Multi), len(m.Schema.Numeric)
	entries := names + numbers
	if m.Train.Augment.On() {
		entries++
	}
	d := min(m.Train.MaxFeatures, n*names) + numbers + 1
	k, outputs := m.Train.MaxBasis, max(1, m.Schema.Outputs())
	basis := k // that a solve may find
	if m.Train.Refit == "variational" {
		basis = config.VariationalBasis(n, k)
	}
	separate := event.Task(m.Schema.Task).HasClasses() // linear weights, see posterior.State
	payload := cycle.PayloadFootprint(names, numbers)
	model := solver.ModelFootprint(d, k, outputs, m.Train.Linear > 0)
	rows := func(n int) int64 {
		return cycle.RowsFootprint(n, names, numbers) + solver.RowsFootprint(n, entries, outputs)
	}
	parts := map[string]int64{
		"sample_index":  sketch.IndexFootprint(n+h, m.Sample.Cap.By != ""),
		"training_rows": rows(n),
		"held_out_rows": rows(h),
		"vocabulary":    cycle.VocabularyFootprint(d),
		"models":        models * model,
		"refit":         solver.SolveFootprint(n, d, basis, outputs),
		"fetch":         ingest.FetchFootprint(maxPartitionFetch),
		"badger":        sketch.DiskFootprint(n+h, payload),
	}
	if m.Input.DeadLetter.Topic != "" {
		parts["dead_letters"] = sketch.OutboxFootprint(m.Input.DeadLetter.MaxRows)
	}
	if m.Train.FoldIn.Enabled && names > 0 {
		parts["fold_in"] = posterior.FoldInFootprint(m.Train.FoldIn.MaxRows, len(posterior.DefaultRates), k, outputs, separate)
	}
	var state int64
	if m.Train.Refit == "variational" {
		state = posterior.Footprint(d, basis, outputs, separate)
		parts["variational"] = posteriors*state + posterior.SweepFootprint(n, entries, outputs, separate)
	}
	if m.Publish.KeepSample { // the rows and the start of a refit, compressed, until they are written
		parts["kept_sample"] = sketch.StoredFootprint(n+h, payload)/2 + state + model
	}
	// The collector lets the heap grow to twice what is live before it runs; Badger's tables and the fetch buffers are not heap garbage.
	for _, part := range []string{"training_rows", "held_out_rows", "refit", "variational"} {
		parts["garbage"] += parts[part] / 2
	}
	return parts
}

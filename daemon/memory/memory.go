// Package memory sums the footprints of what a configuration makes: the packages that hold something say what one of it takes.
package memory

import (
	"maps"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/notify"
	"github.com/refitd/refitd/daemon/scoring"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
	"github.com/refitd/refitd/solver/margin"
	"github.com/refitd/refitd/solver/posterior"
)

// connectionBytes is a connection of the HTTP surface: two stacks, two buffers, TLS, and headers.
const connectionBytes = 64 << 10

const (
	models       = 5        // champion, live, the one in training, its gradient or best so far, and the one that is written or served
	posteriors   = 7        // the champion's and its clean one, the challenger's, three of the stage over all rows, and what partners see of one
	processBytes = 48 << 20 // the program itself, its goroutines and metrics
)

// unlearned are the parts of a shard, which learns nothing.
var unlearned = []string{"sample_index", "fetch", "badger", "dead_letters", "curves", "notices", "progressive",
	"forwarded", waitingPart}

// waitingPart are the rows of shards that wait for the heads they belong to.
const waitingPart = "waiting_rows"

// Waiting bounds the bytes of the rows of one shard that wait for its head: those of its sample and of the sample of a
// run before, and as many that were taken out, which have no payload.
func Waiting(m *config.Model) int64 {
	n := m.Sample.Size + m.Sample.Holdout.Size
	payloads := int64(float64(m.Sample.MaxBytes) * float64(n) / float64(max(1, m.Sample.Size)))
	return shard.WaitingFootprint(4*n, 2*payloads)
}

// waitsFor returns of how many shards rows may wait at a time: those that a trainer merges, those of another number
// that a shard takes its partitions up from, and the one whose place a process of a group takes.
func waitsFor(s *config.Shard) int {
	switch {
	case s.IsTrainer():
		return s.Count
	case s.IsShard() && s.From.Topic != "":
		return max(1, s.From.Count)
	case s.IsGiven():
		return 1
	}
	return 0
}

// Of returns the memory that a resolved configuration may use.
func Of(c *config.Config) config.Memory {
	out := config.Memory{BudgetBytes: int64(c.MemoryBudget), Parts: map[string]int64{
		config.ProcessPart: processBytes,
		"web.bodies":       5 * int64(c.Web.MaxInflightBytes) / 2, // those that were answered are garbage until the collector has run
		"web.connections":  connectionBytes * int64(c.Web.MaxConnections),
	}}
	if c.Role == config.RoleShard {
		out.Parts["shard.batches"] = shard.PackerBytes
	}
	for _, bytes := range out.Parts {
		out.TotalBytes += bytes
	}
	shards := int64(1)
	if c.Shard.Group != "" && c.Role == config.RoleShard { // the last process of a group has all of them
		shards = int64(c.Shard.Count)
	}
	for i := range c.Models {
		for part, bytes := range parts(&c.Models[i], int(c.Kafka.MaxPartitionFetchBytes)) {
			bytes *= shards
			out.Parts[c.Models[i].Name+"."+part] = bytes
			out.TotalBytes += bytes
		}
	}
	return out
}

// parts returns the upper bound in bytes of each part of a model: n rows of what sample.max_bytes allows, d features, k basis vectors, and outputs.
func parts(m *config.Model, maxPartitionFetch int) map[string]int64 {
	size, n, h := m.Sample.Size+m.Sample.Holdout.Size, m.Sample.Size*m.Rows(), m.Sample.Holdout.Size*m.Rows()
	maxBytes := int64(m.Sample.MaxBytes) * int64(m.Rows())
	heldOut := int64(float64(maxBytes) * float64(h) / float64(n))
	names, numbers := len(m.Schema.Names())+m.Input.MaxListNames*len(m.Schema.Multi), len(m.Schema.Numeric)
	if m.Train.Augment.On() {
		numbers++
	}
	allNames := min(int64(n)*int64(names), cycle.Entries(maxBytes))
	entries := int((allNames-1)/int64(n)) + 1 + numbers // of a row, in the mean
	d := int(min(int64(m.Train.MaxFeatures), allNames)) + numbers + 1
	k, outputs := m.Train.MaxBasis, max(1, m.Schema.Outputs())
	basis := k // that a solve may find
	if m.Train.Refit == "variational" {
		basis = m.Train.VariationalBasis(n)
	}
	separate := m.Schema.Learned().HasClasses()                           // linear weights, see posterior.State
	grouped := len(m.Schema.Names())+len(m.Schema.Multi) > 2 && !separate // fields may form groups: two vectors for one of two, 1 + MaxGroups of more
	vectors := k
	if grouped {
		vectors = 2 * k
		if len(m.Schema.Names())+len(m.Schema.Multi) > 3 { // two that are functions of another, and a third
			vectors = (1 + cycle.MaxGroups) * k
		}
	}
	model := solver.ModelFootprint(d, vectors, outputs, m.Train.Linear > 0)
	maxName := int(m.Input.MaxIDBytes)
	parts := map[string]int64{
		"sample_index":  sketch.IndexFootprint(size, m.Sample.Cap.By != ""),
		"training_rows": maxBytes + solver.RowsFootprint(n, numbers, outputs), // the entries of names are in maxBytes
		"held_out_rows": heldOut + solver.RowsFootprint(h, numbers, outputs),
		"vocabulary":    cycle.VocabularyFootprint(n, d, maxName, maxBytes),
		"models":        models * model,
		"refit":         fitFootprint(m, n, entries, d, basis, outputs),
		"fetch":         ingest.FetchFootprint(maxPartitionFetch),
		"badger":        sketch.DiskFootprint(size, 0), // the payloads are in maxBytes
		"fold_in":       cycle.LiveFootprint(m) + cycle.CapFootprint(m, maxName),
	}
	if m.Train.KernelDegree() == 3 {
		parts["refit"] += solver.CubicFootprint(d, outputs)
	}
	if columns := m.Train.FeatureMap.NumColumns(len(m.Schema.Numeric)); columns > 0 && m.Train.Refit != "variational" {
		parts["feature_map"] = cycle.MapFootprint(n, len(m.Schema.Numeric), columns, outputs)
	}
	if len(m.Schema.Derived) > 0 {
		parts["derived_fields"] = ingest.PastsFootprint(m)
	}
	if bytes := ingest.ChoicesFootprint(m); bytes > 0 {
		parts["choices"] = bytes
	}
	if forms := cycle.OtherForms(m); forms > 0 { // an update in its other forms, and one as it is built
		parts["models"] += int64(forms+1)*model + cycle.BlendFootprint(m, model)
		parts["vocabulary"] += int64(forms) * cycle.OtherVocabularyFootprint(d)
	}
	if m.Serve.Live { // a copy that is served, and the next one
		parts["models"] += 2 * model
		parts["vocabulary"] += 2 * cycle.OtherVocabularyFootprint(d)
	}
	if m.Publish.Deltas.Every > 0 {
		parts["deltas"] = cycle.DeltasFootprint(m, model, d)
	}
	if m.Score.Topic != "" {
		parts["scores"] = scoring.Footprint()
	}
	if m.Input.DeadLetter.Topic != "" {
		parts["dead_letters"] = sketch.OutboxFootprint(m.Input.DeadLetter.MaxRows)
	}
	var foldIns int64 // those on the last refit
	if m.Train.FoldIn.Enabled && names > 0 {
		foldIns = posterior.FoldInFootprint(m.Train.FoldIn.MaxRows, len(posterior.DefaultRates), k, outputs, separate)
	}
	if cycle.HasGaussian(m) {
		parts["fold_in"] += cycle.SlotsFootprint(m.Train.FoldIn.MaxRows, maxName)
		foldIns += posterior.FoldInFootprint(m.Train.FoldIn.MaxRows, len(posterior.DefaultRates), k, 1, false)
	}
	parts["fold_in"] += foldIns
	if m.Shard.IsShard() && m.Shard.LiveTopic != "" {
		parts["forwarded"] = shard.ForwarderBytes
	}
	if m.Train.FoldIn.Enabled && names > 0 && m.Train.Refit == "variational" { // the one that goes on after names have changed
		of, apart := outputs, separate
		if cycle.HasGaussian(m) {
			of, apart = 1, false
		}
		parts["fold_in"] += cycle.SlotsFootprint(m.Train.FoldIn.MaxRows, maxName) +
			posterior.FoldInFootprint(m.Train.FoldIn.MaxRows, len(posterior.DefaultRates), k, of, apart)
	}
	parts["guard"] = cycle.GuardFootprint
	parts["progressive"] = cycle.ProgressiveFootprint(m.Evaluate.Window, outputs, m.Schema.Learned())
	if numbers := len(m.Schema.Numeric); numbers > 0 && m.Train.FoldIn.Enabled {
		parts["numbers"] = cycle.NumbersFootprint(numbers, len(m.Schema.Categorical)+len(m.Schema.Multi), outputs, m.Train.FoldIn.MaxRows, maxName)
	}
	if bytes := cycle.NamesFootprint(m); bytes > 0 {
		parts["names"] = bytes
	}
	parts["curves"] = curves.Footprint()
	if m.Notify.URL != "" {
		parts["notices"] = notify.Footprint()
	}
	parts["mixture"] = cycle.MixtureFootprint(m.Train.FoldIn.MaxRows, outputs, maxName)
	var state int64
	if m.Train.Refit == "variational" {
		state = posterior.Footprint(d, basis, outputs, separate)
		parts["variational"] = posteriors*state + posterior.SweepFootprint(n+h, entries, basis, outputs, separate) + cycle.AllRowsFootprint(n+h, entries, outputs)
		if outputs == 1 && m.Schema.Task != "regression" {
			parts["variational"] += state // what a sweep of a binary label that lowers the evidence goes back to
		}
		stages := int64(1)
		if cycle.HasGaussian(m) { // alike, but for the last; over all rows both sweep at once
			parts["variational"] += (posteriors-1)*posterior.Footprint(d, basis, 1, false) + posterior.SweepFootprint(n+h, entries, basis, 1, false)
			stages = 2
		}
		if grouped {
			parts["variational"] += stages * posterior.UnitsFootprint(n+h, entries, basis)
		}
	}
	if m.Train.Algorithm == config.FrankWolfeSVM {
		parts["dual_variables"] = cycle.DualFootprint(n, outputs)
	}
	if m.Publish.KeepSample { // the rows and the start of a refit, compressed, until they are written
		parts["kept_sample"] = (sketch.StoredFootprint(n+h, 0)+(maxBytes+heldOut)/3)/2 + state + model + parts["dual_variables"]/4
	}
	if shards := waitsFor(&m.Shard); shards > 0 {
		parts[waitingPart] = int64(shards) * Waiting(m)
	}
	if m.Shard.IsShard() { // it learns nothing, and has no rows in memory
		maps.DeleteFunc(parts, func(part string, _ int64) bool { return !slices.Contains(unlearned, part) })
	}
	// The collector lets the heap grow to twice what is live before it runs, as far as the limit allows that the daemon sets (Memory.HeapBytes).
	for _, part := range []string{"refit", "variational", "feature_map"} {
		if bytes := parts[part] / 2; bytes > 0 {
			parts["garbage"] += bytes
		}
	}
	return parts
}

// fitFootprint returns the bytes that the algorithm of a model takes for a fit beside the rows.
func fitFootprint(m *config.Model, n, entries, d, basis, outputs int) int64 {
	bytes := solver.SolveFootprint(n, d, basis, outputs) // other algorithms begin with a step or a λ of it
	a, err := m.Algorithm()
	if err != nil {
		return bytes
	}
	switch a := a.(type) {
	case solver.ConvexFM:
		return bytes + solver.FactorsFootprint(n, entries, d, m.Train.MaxBasis)
	case coordinate.Descent:
		return max(bytes, a.Footprint(n, entries, d, m.Train.MaxBasis, outputs))
	case margin.SVM:
		over := 0
		if m.Train.Features == config.BasisFeatures {
			over = m.Train.MaxBasis
		}
		return max(bytes, margin.Footprint(n, entries+over, d+over, outputs))
	}
	return bytes
}

// Package memory sums the footprints of what a configuration makes: the packages that hold something say what one of it
// takes.
package memory

import (
	"maps"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/notify"
	"github.com/refitd/refitd/daemon/scoring"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
	"github.com/refitd/refitd/solver/margin"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
	"github.com/refitd/refitd/solver/posterior/sweep"
)

// connectionBytes is a connection of the HTTP surface: two stacks, two buffers, TLS, and headers.
const connectionBytes = 64 << 10

const (
	// champion, live, the one in training, its gradient or best so far, and the one that is written or served
	models = 5
	// the champion's and its clean one, the challenger's, three of the stage over all rows, and what partners see of
	// one
	posteriors   = 7
	processBytes = 48 << 20 // the program itself, its goroutines and metrics
)

// unlearned are the parts of a shard, which learns nothing.
var unlearned = []string{"sample_index", "fetch", "badger", "dead_letters", "curves", "notices", "progressive",
	"forwarded", "outcomes", "schemas", waitingPart}

// waitingPart are the rows of shards that wait for the heads they belong to.
const waitingPart = "waiting_rows"

// Waiting bounds the bytes of the rows of one shard that wait for its head: those of its sample and of the sample of a
// run before, and as many that were taken out, which have no payload.
func Waiting(m *config.Model) int64 {
	n := m.Sample.Size + m.Sample.Holdout.Size
	payloads := int64(float64(m.Sample.MaxBytes) * float64(n) / float64(max(1, m.Sample.Size)))
	stubs := int64(0)
	if m.Schema.LabelLater {
		stubs = 2 * sketch.StubsFootprint(n)
	}
	return shard.WaitingFootprint(4*n, 2*payloads+stubs)
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

// Of returns the memory that a resolved configuration may use, and what it takes as a rule.
func Of(c *config.Config) config.Memory {
	out, usual := bound(c), bound(usually(c))
	out.TypicalBytes = min(usual.TotalBytes, out.TotalBytes)
	return out
}

// bound returns the memory that a resolved configuration may use.
func bound(c *config.Config) config.Memory {
	out := config.Memory{BudgetBytes: int64(c.MemoryBudget), Parts: map[string]int64{
		config.ProcessPart: processBytes,
		"web.bodies": 5 * int64(
			c.Web.MaxInflightBytes,
		) / 2, // those that were answered are garbage until the collector has run
		"web.connections": connectionBytes * int64(c.Web.MaxConnections),
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

// parts returns the upper bound in bytes of each part of a model: n rows of what sample.max_bytes allows, d features, k
// basis vectors, and outputs.
func parts(m *config.Model, maxPartitionFetch int) map[string]int64 {
	e := extentOf(m)
	parts := map[string]int64{
		"sample_index": sketch.IndexFootprint(e.size, m.Sample.Cap.By != ""),
		"training_rows": e.maxBytes + solver.RowsFootprint(
			e.n,
			e.numbers,
			e.outputs,
		), // the entries of names are in maxBytes
		"held_out_rows": e.heldOut + solver.RowsFootprint(e.h, e.numbers, e.outputs),
		"vocabulary":    cycle.VocabularyFootprint(e.n, e.d, e.maxName, e.maxBytes),
		"models":        models * e.model,
		"refit":         fitFootprint(m, e.n, e.entries, e.d, e.basis, e.outputs),
		"fetch":         ingest.FetchFootprint(maxPartitionFetch),
		"badger":        sketch.DiskFootprint(e.size, 0), // the payloads are in maxBytes
		"guard":         guard.Footprint,
		"progressive":   cycle.ProgressiveFootprint(m.Evaluate.Window, e.outputs, m.Schema.Learned()),
		"curves":        curves.Footprint(),
		"fold_in":       e.foldIn(m),
	}
	cycle.AddExperts(parts, m)
	e.addFields(parts, m)
	e.addUpdates(parts, m)
	addTopics(parts, m)
	if m.Schema.LabelLater {
		parts["outcomes"] = sketch.StubsFootprint(e.size)
		if m.Shard.Role == config.RoleAll || m.Shard.Role == "" { // a team learns by refits alone
			parts["outcomes"] += ingest.OpenFootprint(m)
		}
	}
	e.addFit(parts, m)
	if shards := waitsFor(&m.Shard); shards > 0 {
		parts[waitingPart] = int64(shards) * Waiting(m)
	}
	if m.Shard.IsShard() { // it learns nothing, and has no rows in memory
		maps.DeleteFunc(parts, func(part string, _ int64) bool { return !slices.Contains(unlearned, part) })
	}
	// The collector lets the heap grow to twice what is live before it runs, as far as the limit allows that the daemon
	// sets (Memory.HeapBytes).
	for _, part := range []string{"refit", "variational", "feature_map"} {
		if bytes := parts[part] / 2; bytes > 0 {
			parts["garbage"] += bytes
		}
	}
	return parts
}

// extent says how large the sample of a model and what is fitted to it may be.
type extent struct {
	size, n, h        int   // events of the sample, rows to train on, and held-out rows
	maxBytes, heldOut int64 // of the rows to train on, and of the others
	maxName           int   // bytes of the longest name
	names, numbers    int   // of a row, at most
	entries           int   // of a row, in the mean
	d, k, outputs     int
	basis             int   // vectors that a solve may find
	separate          bool  // linear weights, see posterior.State
	grouped           bool  // fields may form groups
	model             int64 // bytes of a model
}

func extentOf(m *config.Model) extent {
	e := extent{
		size:     m.Sample.Size + m.Sample.Holdout.Size,
		n:        m.Sample.Size * m.Rows(),
		h:        m.Sample.Holdout.Size * m.Rows(),
		maxBytes: int64(m.Sample.MaxBytes) * int64(m.Rows()),
		maxName:  int(m.Input.MaxIDBytes),
		k:        m.Train.MaxBasis,
		outputs:  max(1, m.Schema.Outputs()),
		separate: m.Schema.Learned().HasClasses(),
	}
	e.heldOut = int64(float64(e.maxBytes) * float64(e.h) / float64(e.n))
	e.names, e.numbers = len(m.Schema.Names())+m.Input.MaxListNames*len(m.Schema.Multi), len(m.Schema.Numeric)
	if m.Train.Augment.On() {
		e.numbers++
	}
	allNames := min(int64(e.n)*int64(e.names), cycle.Entries(e.maxBytes))
	e.entries = int((allNames-1)/int64(e.n)) + 1 + e.numbers
	e.d = int(min(int64(m.Train.MaxFeatures), allNames)) + e.numbers + 1
	e.basis = e.k
	if m.Train.Refit == "variational" {
		e.basis = m.Train.VariationalBasis(e.n)
	}
	fields, vectors := len(m.Schema.Names())+len(m.Schema.Multi), e.k
	if e.grouped = fields > 2 && !e.separate; e.grouped { // two vectors for one of two, 1 + MaxGroups of more
		vectors = 2 * e.k
		if fields > 3 { // two that are functions of another, and a third
			vectors = (1 + variational.MaxGroups) * e.k
		}
	}
	e.model = solver.ModelFootprint(e.d, vectors, e.outputs, m.Train.Linear > 0)
	return e
}

// foldIn returns the bytes of the fold-in on the last refit.
func (e *extent) foldIn(m *config.Model) int64 {
	bytes := cycle.LiveFootprint(m) + cycle.CapFootprint(m, e.maxName)
	if m.Train.FoldIn.Enabled && e.names > 0 {
		bytes += online.Footprint(m.Train.FoldIn.MaxRows, len(online.DefaultRates), e.k, e.outputs, e.separate)
	}
	return bytes
}

// addFields adds what single kinds of fields take.
func (e *extent) addFields(parts map[string]int64, m *config.Model) {
	numbers := len(m.Schema.Numeric)
	if columns := m.Train.FeatureMap.NumColumns(numbers); columns > 0 && m.Train.Refit != "variational" {
		parts["feature_map"] = cycle.MapFootprint(e.n, numbers, columns, e.outputs)
	}
	if len(m.Schema.Derived) > 0 {
		parts["derived_fields"] = ingest.PastsFootprint(m)
	}
	if bytes := ingest.TablesFootprint(m); bytes > 0 {
		parts["tables"] = bytes
	}
	if bytes := ingest.ChoicesFootprint(m); bytes > 0 {
		parts["choices"] = bytes
	}
	if bytes := ingest.SchemasFootprint(m); bytes > 0 {
		parts["schemas"] = bytes
	}
}

// addUpdates adds what updates, deltas and the live model take, other than the versions of each model.
func (e *extent) addUpdates(parts map[string]int64, m *config.Model) {
	if forms := cycle.NumVariants(m); forms > 0 { // an update in its other forms, and one as it is built
		parts["models"] += int64(forms+1)*e.model + cycle.StackedFootprint(m, e.model)
		parts["vocabulary"] += int64(forms) * cycle.OtherVocabularyFootprint(e.d)
	}
	if m.Serve.Live { // a copy that is served, and the next one
		parts["models"] += 2 * e.model
		parts["vocabulary"] += 2 * cycle.OtherVocabularyFootprint(e.d)
	}
	if m.Publish.Vectors.To != "" && !m.Shard.IsShard() { // what the table has
		parts["models"] += e.model
		parts["vocabulary"] += cycle.OtherVocabularyFootprint(e.d)
	}
	if m.Publish.Deltas.Every > 0 {
		parts["deltas"] = cycle.DeltasFootprint(m, e.model, e.d)
	}
}

// addTopics adds what waits to be written to topics and to the address of notices.
func addTopics(parts map[string]int64, m *config.Model) {
	if m.Score.Topic != "" {
		parts["scores"] = scoring.Footprint()
	}
	if m.Input.DeadLetter.Topic != "" {
		parts["dead_letters"] = sketch.OutboxFootprint(m.Input.DeadLetter.MaxRows)
	}
	if m.Shard.IsShard() && m.Shard.LiveTopic != "" {
		parts["forwarded"] = shard.ForwarderBytes
	}
	if m.Notify.URL != "" {
		parts["notices"] = notify.Footprint()
	}
}

// addFit adds what a refit takes for single algorithms and stages, and its rows where they are kept.
func (e *extent) addFit(parts map[string]int64, m *config.Model) {
	if m.Train.KernelDegree() == 3 {
		parts["refit"] += solver.CubicFootprint(e.d, e.outputs)
	}
	var state int64
	if m.Train.Refit == "variational" {
		state = posterior.Footprint(e.d, e.basis, e.outputs, e.separate)
		parts["variational"] = e.variational(m, state)
	}
	if m.Train.Algorithm == config.FrankWolfeSVM {
		parts["dual_variables"] = cycle.DualFootprint(e.n, e.outputs)
	}
	if m.Publish.KeepSample { // the rows and the start of a refit, compressed, until they are written
		rows := sketch.StoredFootprint(e.n+e.h, 0) + (e.maxBytes+e.heldOut)/3
		parts["kept_sample"] = rows/2 + state + e.model + parts["dual_variables"]/4
	}
}

// variational returns the bytes of the variational stage, whose posterior takes state.
func (e *extent) variational(m *config.Model, state int64) int64 {
	rows := e.n + e.h
	bytes := posteriors*state + sweep.Footprint(rows, e.entries, e.basis, e.outputs, e.separate) +
		cycle.AllRowsFootprint(rows, e.entries, e.outputs)
	if e.outputs == 1 && m.Schema.Task != "regression" {
		bytes += state // what a sweep of a binary label that lowers the evidence goes back to
	}
	stages := int64(1)
	if experts.HasGaussian(m) { // alike, but for the last; over all rows both sweep at once
		bytes += (posteriors-1)*posterior.Footprint(e.d, e.basis, 1, false) +
			sweep.Footprint(rows, e.entries, e.basis, 1, false)
		stages = 2
	}
	if e.grouped {
		bytes += stages * sweep.UnitsFootprint(rows, e.entries, e.basis)
	}
	return bytes
}

// fitFootprint returns the bytes that the algorithm of a model takes for a fit, apart from the rows.
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

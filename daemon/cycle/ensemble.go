package cycle

import (
	"sync/atomic"

	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// ensemble is the live model: the fold-in, the experts next to it, and the mixture of their predictions. It is guarded
// by Cycle.mu. It is one type: an event goes through all its fields, under one lock.
type ensemble struct {
	*common

	learner   experts.FoldInLearner
	experts   []*experts.Expert
	numbers   *encode.NumberScale // what labels are limited by; experts that see numbers have their copies
	weights   *encode.WeightScale // nil where events have no weights
	mixture   *mixture.Mixture    // nil if what is live is the fold-in alone
	levels    *mixture.OrdinalMixture
	stacked   *mixture.StackedUpdate // nil where versions hold no sums
	pooled    *mixture.PooledUpdate  // the same of sums of variants
	sgd       *experts.SGDBias       // a part of the mixture; nil for classes
	linear    *experts.Expert        // the baseline of classes, which is no part; nil for numbers
	popular   *fitted.Popularity     // of choices; nil of events with labels
	cap       *admission.EntityCap
	admitted  [pipelineMost]rows.Counted // of the events of a chunk
	pool      rows.Interner              // names of relearned events
	evicted   atomic.Int64               // names that the fold-in gave up for others
	pipeline  pipeline
	predicted [][]float64 // outputs of the experts for an event
	outputs   []float64   // of the mixture
	targets   []float64
	sleep     sleepState
	value     []float64 // of a baseline
}

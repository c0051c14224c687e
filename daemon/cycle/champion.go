package cycle

import (
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// Champion is a trained model with what is needed to score, to go on from and to publish it. It is read-only once built and safe for
// concurrent use.
type Champion struct {
	Model      *solver.Model
	Vocabulary *Vocabulary
	Target     *Target
	Version    report.Version // Version, Parent, decision and digest are filled in as they become known
	Lambda     float64        // absolute λ of the convex stage
	Watermark  int64          // newest event time of the sample, milliseconds since 1970
	Sample     string         // digest of the sample
	Lineage    string         // of the sample
	Events     *snapshot.Counts
	Golden     []event.Event
	Cause      Cause     // of the gate's decision
	GateBegan  time.Time // when the gate began to judge it
	GateEnded  time.Time
	CutShort   *snapshot.CutShort
	Kept       []byte // Record of the refit, compressed, with publish.keep_sample; whoever has stored it sets it to nil

	Observed *report.Progressive // when this was published; nil if nobody reads it
	Chosen   bool                // by an operator, not by the gate

	posterior  *posterior.State // of the variational stage; nil without one
	gaussian   *posterior.State // of gaussianTarget; nil without one
	clean      *clean           // of these before they learned from held-out rows; nil if they have not
	convex     *solver.Model    // of the convex stage, beside a posterior
	heldOut    heldOutNames     // that clean has not learned from, and the published model only if there is a clean one
	link       *levelLink       // for gaussian; nil without
	dual       *rowDual         // of an algorithm that keeps one; nil without
	scale      float64          // what calibration multiplied the outputs with; 0 without
	folded     *posterior.State // of an update: the live posterior whose mean it is; nil of a refit and where the model is none
	means      *means
	holdout    guardSet // by which updates are guarded; empty where it is not known
	horizon    int      // in horizons, of its refit
	precisions precisionChoice
	again      bool // of an update: it is the last refit
	// What versions say of the live fold-in, for fold-in where they are used.
	rateLosses  [][]float64      // FoldIn.RateLosses
	labelRange  []float64        // lowest and highest label that counts; nil for no limit
	told        *snapshot.FoldIn // of an update that was followed by deltas: what it says of fold-in; else it is made of folded
	untold      string           // why told is nil
	popular     *popularWeights  // that versions add to Model; nil for none
	popularOnly bool             // lists of popularity alone are as good as those of Model: versions hold nothing else
	mapRidge    float64          // that its model's weights on the feature map were fitted with; 0 without
}

// Cause is the kind of reason for a decision of the gate: the text of Version.Reason without its numbers.
type Cause string

// promoted is the decision to let a challenger become champion.
const promoted = "promoted"

// Causes are all there are, with the decision that each leads to.
var Causes = map[Cause]string{"first_version": "promoted", "not_worse": "promoted", "not_worse_in_window": "promoted",
	"worse": "kept", "worse_than_baseline": "kept", "worse_in_window": "kept",
	"not_finite": "kept", "degenerate": "kept", "incomparable": "kept", "chosen": "kept", "overtaken": "kept"}

// scorer predicts with one model and its vocabulary; it holds the buffers, so it belongs to one goroutine.
type scorer struct {
	frozen
	index   []int32
	value   []float64
	work    []float64
	phi     []float64 // columns of the feature map
	scratch snapshot.Scratch
	unseen  int     // of a model with deltas: names of the event that was scored last that it does not know
	limit   float64 // of outputs, as readers of versions keep it; 0 for none
}

func newScorer(model *solver.Model, vocab *Vocabulary) *scorer {
	return newFrozenScorer(&frozen{model: model, vocab: vocab})
}

func newFrozenScorer(of *frozen) *scorer {
	return &scorer{frozen: *of, work: make([]float64, 2*of.model.NumBasis)}
}

// outputs stores the m outputs of an event in dst.
func (s *scorer) outputs(dst []float64, ev *event.Event) {
	if s.after != nil {
		in := InputOf(s.vocab.schema, ev)
		if s.unseen = s.after.Score(dst, &in, &s.scratch); s.popular != nil {
			dst[0] -= s.popular.within(s.after, ev)
		}
		return // after keeps the limit
	}
	s.index, s.value = s.vocab.Encode(s.index[:0], s.value[:0], ev)
	s.model.Predict(dst, s.work, s.index, s.value)
	s.phi = s.vocab.addMapped(dst, s.model, ev.Numeric, s.phi)
	snapshot.Limit(dst, s.limit)
}

// names counts those of the event that was scored last, but for crosses: a new pair of names that are known is no surprise.
func (s *scorer) names(ev *event.Event) (n NameCounts) {
	schema := s.vocab.schema
	for _, name := range ev.Categorical[:schema.NumGiven()] {
		if name != "" { // absent
			n.Total++
		}
	}
	for _, names := range ev.Multi {
		n.Total += int64(len(names))
	}
	if s.after != nil {
		n.Unseen = int64(s.unseen)
		return n
	}
	n.Unseen = n.Total
	for _, j := range s.index {
		if j < s.vocab.numNames() && !schema.IsCross(int(s.vocab.field[j])) {
			n.Unseen--
		}
	}
	return n
}

// knows reports whether the model knows a name.
func (f *frozen) knows(field int, name string) bool {
	if f.after != nil {
		_, ok := f.after.Column(field, name)
		return ok
	}
	return f.vocab.Column(field, name) >= 0
}

package fitted

import (
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/cycle/vectors"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// Fitted is a trained model with what is needed to score and publish it and to start the next refit. It is read-only
// once built and safe for concurrent use. It is one type: what a refit hands on, and a record of it has, is one value.
type Fitted struct {
	Model      *solver.Model
	Vocabulary *encode.Vocabulary
	Target     *encode.Target
	Version    report.Version // Version, Parent, decision and digest are filled in as they become known
	Lambda     float64        // absolute λ of the convex stage
	Watermark  int64          // newest event time of the sample, milliseconds since 1970
	Sample     string         // digest of the sample
	Lineage    string         // of the sample
	Events     *format.Counts
	Golden     []event.Event
	Tables     *tables.Set      // what versions say of entities; nil without tables
	Vectors    []*vectors.Prior // where rows of names with vectors begin
	Properties []*format.Table  // of names, as events of the sample said them: see encode.Observed
	Cause      Cause            // of the gate's decision
	GateBegan  time.Time        // when the gate began to judge it
	GateEnded  time.Time
	CutShort   *format.CutShort
	Kept       []byte // Record of the refit, compressed, with publish.keep_sample; set to nil once it is stored

	Observed *report.Progressive // when this was published; nil if nobody reads it
	Chosen   bool                // by an operator, not by the gate

	Posterior      *posterior.State // of the variational stage; nil without one
	Gaussian       *posterior.State // of GaussianTarget; nil without one
	WithoutHoldout *WithoutHoldout  // of these before they learned from held-out rows; nil if they have not
	Convex         *solver.Model    // of the convex stage, in addition to a posterior
	// that clean has not learned from, and the published model only if there is a clean one
	HeldOut HeldOutNames
	Link    *encode.LevelLink // for gaussian; nil without
	Dual    *RowDual          // of an algorithm that keeps one; nil without
	Scale   float64           // what calibration multiplied the outputs with; 0 without
	Factor  float64           // what temperature scaling did, with those of the map; 0 without
	// of an update: the live posterior whose mean it is; nil of a refit and where the model is none
	Folded     *posterior.State
	Means      *BaselineMeans
	Holdout    HoldoutSet // by which updates are guarded; empty where it is not known
	Horizon    int        // in horizons, of its refit
	Precisions PrecisionChoice
	Again      bool // of an update: it is the last refit
	// What versions say of the live fold-in, for fold-in where they are used.
	RateLosses [][]float64 // FoldIn.RateLosses
	LabelRange []float64   // lowest and highest label that counts; nil for no limit
	// of an update that was followed by deltas: what it says of fold-in; else it is made of folded
	FoldIn      *format.FoldIn
	NoFoldIn    string          // why FoldIn is nil
	Popular     *PopularWeights // that versions add to Model; nil for none
	PopularOnly bool            // lists of popularity alone are as good as those of Model: versions hold nothing else
	MapRidge    float64         // that its model's weights on the feature map were fitted with; 0 without
}

// Cause is the kind of reason for a decision of the gate: the text of Version.Reason without its numbers.
type Cause string

// Promoted is the decision to let a challenger become champion.
const Promoted = "promoted"

// Causes are all there are, with the decision that each leads to.
var Causes = map[Cause]string{"first_version": "promoted", "not_worse": "promoted", "not_worse_in_window": "promoted",
	"worse": "kept", "worse_than_baseline": "kept", "worse_in_window": "kept",
	"not_finite": "kept", "degenerate": "kept", "incomparable": "kept", "chosen": "kept", "overtaken": "kept"}

// Scorer predicts with one model and its vocabulary; it holds the buffers, so it belongs to one goroutine.
type Scorer struct {
	FixedModel
	index   []int32
	value   []float64
	work    []float64
	phi     []float64 // columns of the feature map
	scratch snapshot.Scratch
	unseen  int     // of a model with deltas: names of the event that was scored last that it does not know
	Limit   float64 // of outputs, as readers of versions keep it; 0 for none
}

func NewScorer(model *solver.Model, vocab *encode.Vocabulary) *Scorer {
	return NewFrozenScorer(&FixedModel{Model: model, Vocab: vocab})
}

func NewFrozenScorer(of *FixedModel) *Scorer {
	return &Scorer{FixedModel: *of, work: make([]float64, 2*of.Model.NumBasis)}
}

// Outputs stores the m outputs of an event in dst.
func (s *Scorer) Outputs(dst []float64, ev *event.Event) {
	if s.After != nil {
		in := InputOf(s.Vocab.Schema, ev)
		if s.unseen = s.After.Score(dst, &in, &s.scratch); s.Popular != nil {
			dst[0] -= s.Popular.within(s.After, ev)
		}
		return // after keeps the limit
	}
	s.index, s.value = s.Vocab.Encode(s.index[:0], s.value[:0], ev)
	s.Model.Predict(dst, s.work, s.index, s.value)
	s.phi = s.Vocab.AddMapped(dst, s.Model, ev.Numeric, s.phi)
	s.Vocab.AddTrees(dst, ev)
	format.Limit(dst, s.Limit)
}

// Names counts those of the event that was scored last, but for crosses: a new pair of names that are known is no
// surprise.
func (s *Scorer) Names(ev *event.Event) (n evaluate.NameCounts) {
	schema := s.Vocab.Schema
	for _, name := range ev.Categorical[:schema.NumGiven()] {
		if name != "" { // absent
			n.Total++
		}
	}
	for _, names := range ev.Multi {
		n.Total += int64(len(names))
	}
	if s.After != nil {
		n.Unseen = int64(s.unseen)
		return n
	}
	n.Unseen = n.Total
	for _, j := range s.index {
		if j < s.Vocab.NumNames() && !schema.IsCross(int(s.Vocab.Field[j])) {
			n.Unseen--
		}
	}
	return n
}

// Knows reports whether the model knows a name.
func (f *FixedModel) Knows(field int, name string) bool {
	if f.After != nil {
		_, ok := f.After.Column(field, name)
		return ok
	}
	return f.Vocab.Column(field, name) >= 0
}

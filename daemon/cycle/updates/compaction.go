package updates

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// Compaction makes a whole version of the newest update and its deltas. That takes as long as copying the model a few
// times. Make and the publication may therefore run concurrently with the goroutine that updates, which keeps taking
// and publishing deltas of the update. PublishUpdate then lets deltas follow the new version, first those that were
// taken since BeginCompaction.
type Compaction struct {
	Update   fitted.Fitted   // its model is made by Make
	Model    *snapshot.Model // what consumers had when it began
	Reason   string          // what versions of the variant say in addition
	Follower *DeltaEncoder   // of the update, then, in Make, of the new version
	Settings *config.Model
	Schema   *event.Schema
	Made     *fitted.Fitted

	since    []keptDelta // taken since it began, oldest first
	sinceRow int         // bytes of their rows and trees
}

// keptDelta is a delta with what it is made of, to be numbered as the columns of another version are.
type keptDelta struct {
	delta   *format.Delta
	changes []RowChange
}

// MaxSinceBytes bounds the rows of the deltas that are kept while a whole version is made: about as much as a large one
// has itself. Chosen by hand.
const MaxSinceBytes = 4 * DeltaRowBytes

// Make makes the version. O(columns).
func (x *Compaction) Make() (*fitted.Fitted, error) {
	u, contents := &x.Update, x.Model.Contents()
	v, _ := encode.VocabularyOf(x.Schema, contents)
	u.CutShort, u.Vocabulary, u.Tables = nil, v, fitted.TablesOf(x.Settings, contents)
	holds(u, &contents.Meta)
	u.Model = &solver.Model{
		Kernel:      u.Model.Kernel,
		NumFeatures: contents.NumFeatures,
		NumOutputs:  contents.NumOutputs,
		NumBasis:    contents.NumBasis,
		Basis:       contents.Basis,
		Weights:     contents.Weights,
		Linear:      contents.Linear,
		Bias:        contents.Bias,
		Map:         contents.MapWeights,
	}
	u.FoldIn, u.NoFoldIn = contents.FoldIn, contents.NoFoldIn
	y := &u.Version
	convex.AsUpdate(y)
	y.K, y.Features, y.FeatureMap = contents.NumBasis, contents.NumFeatures, encode.MapText(v.Map)
	y.Decision, y.Reason = fitted.Promoted, "the update before with its deltas, which predicts no worse than the last "+
		"refit"+x.Reason
	if err := x.Follower.start(u, x.Settings); err != nil {
		return nil, err
	}
	x.Made = u
	return u, nil
}

// holds makes cut and watermark those of a version with its deltas; what became of the records before the cut is not
// known then.
func holds(ch *fitted.Fitted, m *format.Meta) {
	cut := make([]report.Cut, 0, len(m.Cut))
	for _, p := range m.Cut {
		cut = append(cut, report.Cut(p))
	}
	if !slices.Equal(cut, ch.Version.Cut) {
		ch.Events = nil
	}
	if ch.Version.Cut = cut; !m.Watermark.IsZero() {
		ch.Watermark = m.Watermark.UnixMilli()
	}
}

// Keep keeps a delta that was taken while the version is made, given what was placed in it.
func (x *Compaction) Keep(d *format.Delta, placed []RowChange) {
	x.since = append(x.since, keptDelta{d, slices.Clone(placed)})
	x.sinceRow += bytesOf(d)
}

func (x *Compaction) IsFull() bool { return len(x.since) >= MaxQueued || x.sinceRow > MaxSinceBytes }

// Deltas applies to the version what was taken since it began, and returns that as deltas of it.
func (x *Compaction) Deltas() ([]*format.Delta, []*snapshot.Model, error) {
	f := x.Follower
	deltas, models := make([]*format.Delta, len(x.since)), make([]*snapshot.Model, len(x.since))
	for i, kept := range x.since {
		d := *kept.delta
		d.Sequence, d.Columns, d.Linear, d.Basis, d.Added = int64(i+1), nil, nil, nil, nil
		f.Changes = kept.changes
		for j := range f.Changes {
			f.Place(&f.Changes[j])
		}
		f.Fill(&d)
		next, err := f.Model.Apply(&d)
		if err != nil {
			return nil, nil, err
		}
		f.Model, deltas[i], models[i] = next, &d, next
	}
	f.Changes = nil
	return deltas, models, nil
}

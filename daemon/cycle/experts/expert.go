package experts

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// Expert is a learner in addition to the fold-in. What it predicts is a part of the mixture; updates are made of some
// (FormParts). It belongs to one goroutine at a time.
type Expert struct {
	Name    string
	Target  *encode.Target // whose outputs the learner gives
	Learner Learner
	Lasting bool                 // no refit replaces it
	Asleep  bool                 // a Sleeper that predicts nothing
	Recent  *encode.RecentLevels // of an ordinal label learned as a number; nil without
	Link    *encode.LevelLink    // that the newest update has, by recent; nil for the champion's
	Next    *encode.LevelLink    // that an update which is being made has
	numbers *encode.NumberScale  // of the learner alone, so that experts learn side by side; nil without numbers

	Outputs []float64
	targets []float64
}

// NewExpert returns an expert of a target. It is not Lasting.
func NewExpert(name string, target *encode.Target, l Learner) *Expert {
	return &Expert{
		Name:    name,
		Target:  target,
		Learner: l,
		Outputs: make([]float64, target.Outputs()),
		targets: make([]float64, target.Outputs()),
	}
}

// Take takes up the numbers of an event, before Predict or Correct.
func (c *Expert) Take(ev *event.Event) {
	if c.numbers != nil {
		c.numbers.Take(ev)
	}
}

// LearnNumbers adds the numbers that were taken up last to their scale, with the label of the event.
func (c *Expert) LearnNumbers(label float64) {
	if c.numbers != nil {
		c.numbers.Learn(label)
	}
}

// HasScalesOf reports whether numbers have the scales of a champion, nil for none, where the learner is based on a
// version: updates are sums over one scale.
func (c *Expert) HasScalesOf(ch *fitted.Fitted) bool {
	l, ok := c.Learner.(*FoldIn)
	return !ok || ch == nil || l.Vocab == nil || slices.Equal(l.Vocab.Numeric, ch.Vocabulary.Numeric)
}

// Predict takes up an event and returns the outputs for it.
func (c *Expert) Predict(ev *event.Event) []float64 {
	c.Learner.Outputs(c.Outputs, ev)
	return c.Outputs
}

// Learn folds in what counts of the event that was taken up last.
func (c *Expert) Learn(ev *event.Event, counts *rows.Counted) {
	if c.Target.Encode(c.targets, ev) {
		LearnPart(c.Learner, ev, c.targets, counts)
	}
}

// Note keeps what was predicted for an event, before it is learned.
func (c *Expert) Note(ev *event.Event) {
	if c.Recent != nil {
		c.Recent.Add(c.Outputs[0], ev.Label)
	}
}

// The names of experts that other parts of a cycle know.
const (
	PartGaussian   = "fold_in_gaussian"
	PartBefore     = "fold_in_before"
	PartAdagrad    = "adagrad"
	PartRecent     = "adagrad_recent_labels"
	PartNewton     = "newton_fourier"
	PartNeighbours = "neighbours"
	PartBoosted    = "boosted_trees"
	PartNames      = "name_pairs"
	PartBayes      = "naive_bayes"
	PartBlend      = "blend" // a sum of parts: no expert
)

// ExpertOf returns the expert of a name, nil if there is no such expert.
func ExpertOf(all []*Expert, name string) *Expert {
	if at := slices.IndexFunc(all, func(b *Expert) bool { return b.Name == name }); at >= 0 {
		return all[at]
	}
	return nil
}

// Correct has the expert take up a correction.
func (c *Expert) Correct(of admission.Correction) {
	if of.From, of.To = nil, nil; of.Encode(c.Target) {
		c.Learner.Correct(&of)
	}
}

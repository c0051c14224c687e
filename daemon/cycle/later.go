package cycle

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// A Stage is how far an event is whose label comes later. Each is a separate observation.
type Stage uint8

// The stages. Events that come with their label are observed once, in the first.
const (
	Whole  Stage = iota // predicted, judged and learned
	Shown               // no label yet: predicted, and what was said is kept in Said
	Joined              // an outcome came: learned, or corrected where it was learned before
	Final               // no other outcome will count: judged by Said, and learned if Learn
)

// Said is what the predictors said of an event when it was shown. Losses count once its label is final, by these
// predictions: those of a later model would flatter it, which may have learned the label. The weights of the mixture
// follow these losses, too: labels that are learned earlier may be provisional.
type Said struct {
	values   []float64 // outputs or numbers of those that has says, in the order of the roles
	parts    []float64 // of the mixture
	compared []float64 // updates.Score.Candidates; empty without
	stacked  []float64 // inputs and steps of the stacked update; empty without
	refit    []float64 // outputs of the last refit, of levels
	chances  []float64 // of levels, of what is live; nil of other tasks
	has      [evaluate.NumRoles]bool
	slice    evaluate.Slice
	isFilled bool
}

// SaidBytes bounds what one takes.
func (c *Cycle) SaidBytes() int64 {
	m := c.target.Outputs()
	values := m * (evaluate.NumRoles + 2 + 2 + int(mixture.NumForms))
	if c.ensemble.mixture != nil {
		values += m * len(c.ensemble.mixture.Parts)
	}
	if b := c.ensemble.stacked; b != nil {
		values += len(b.Inputs) + len(b.Steps)
	}
	return saidBytes + 8*int64(values)
}

// saidBytes is a Said without its values. Derived from the type.
const saidBytes = 176

// isPredicted reports whether learners predict an event: all but those that are judged alone.
func (o *Observation) isPredicted() bool { return o.Stage != Final || o.Learn }

// say keeps what was said of an event, whose predictions o are.
func (c *Cycle) say(of *Observation, i int, o *[evaluate.NumRoles]evaluate.EventOutcome, prescored *updates.Score) {
	s := of.Said
	if s == nil {
		return
	}
	*s = Said{isFilled: true, values: make([]float64, 0, c.target.Outputs()*int(evaluate.NumRoles))}
	folded := c.ensemble.pipeline.folded[i].outputs
	keep := func(role int, values ...float64) {
		if o[role].Present {
			s.has[role], s.values = true, append(s.values, values...)
		}
	}
	if o[evaluate.Published].Present {
		s.slice = prescored.Slice
		keep(evaluate.Published, prescored.Outputs...)
	}
	switch {
	case c.ensemble.mixture == nil:
		keep(evaluate.Live, folded...)
	case c.target.IsNumeric():
		keep(evaluate.Live, c.ensemble.mixture.Value())
	default:
		keep(evaluate.Live, c.ensemble.outputs...)
	}
	if c.ensemble.levels != nil {
		s.chances = c.ensemble.levels.Chances()
	}
	if c.target.IsNumeric() {
		for role := evaluate.Baseline0; role <= evaluate.Baseline2; role++ {
			keep(role, float64(o[role].Score))
		}
	} else if l := c.ensemble.linear; l != nil {
		keep(evaluate.Baseline2, l.Outputs...)
	}
	keep(evaluate.FoldIn, folded...)
	if c.ensemble.mixture != nil {
		s.parts = c.ensemble.mixture.Keep(nil)
	}
	if b := c.ensemble.stacked; b != nil && b.Ready {
		s.stacked = slices.Concat(b.Inputs, b.Steps)
	}
	if !o[evaluate.Published].Present {
		return
	}
	if c.ensemble.levels != nil {
		s.refit = slices.Clone(c.publisher.refitOutputs(prescored))
	}
	if prescored.Compared {
		s.compared = slices.Clone(prescored.Candidates)
	}
}

// judge counts what was said of an event whose label is final. Events from before a restart, of which nothing was
// kept, are not judged. Of classes the baselines that count labels say what they say now, which is more than they knew.
func (c *Cycle) judge(of *Observation) {
	s, ev, t := of.Said, of.Event, c.target
	if s == nil || !s.isFilled {
		return
	}
	versus := c.progress.progressive.Compare(c.ensemble.targets)
	if versus.Slice = s.slice; !versus.Known {
		versus.Base = ev.Label
	}
	var o [evaluate.NumRoles]evaluate.EventOutcome
	rest := s.values
	next := func(n int) (of []float64) {
		of, rest = rest[:n], rest[n:]
		return of
	}
	isMixed := c.ensemble.mixture != nil
	for role := range o {
		switch isNumber := role != evaluate.Published && role != evaluate.FoldIn && t.IsNumeric() &&
			(role != evaluate.Live || isMixed); {
		case !s.has[role]:
		case isNumber:
			o[role] = evaluate.NumberOutcome(t, ev, next(1)[0], c.ensemble.value, c.ensemble.targets)
		default:
			o[role] = evaluate.Outcome(t, ev, next(t.Outputs()), c.ensemble.targets)
		}
	}
	if live := &o[evaluate.Live]; live.Present && !live.Lossy {
		if live.Lossy, live.Loss = true, o[evaluate.FoldIn].Loss; s.chances != nil {
			live.Loss = evaluate.BoundedError(mixture.LossOfChances(s.chances, c.ensemble.targets))
		}
	}
	if !t.IsNumeric() {
		if served := c.publisher.published.Load(); served != nil && served.Means != nil {
			o[evaluate.Baseline0] = served.Means.Outcome(t, ev, c.ensemble.targets)
		}
		if isMixed && c.ensemble.sgd == nil {
			o[evaluate.Baseline1] = c.ensemble.lastLabel(versus)
		}
	}
	c.report(&o, versus, of)
	if versus.Beyond {
		return
	}
	c.publisher.guard.Observe(ev, &o[evaluate.Published])
	refit := math.NaN()
	if o[evaluate.Published].Present {
		refit = o[evaluate.Published].Judged(t.IsNumeric())
	}
	if len(s.compared) > 0 {
		refit = c.compareSaid(s, ev, &o[evaluate.Published])
	}
	if !c.config.Train.FoldIn.Enabled {
		return
	}
	for _, a := range c.watch.drift.Learned(nil, o[evaluate.Live].Judged(t.IsNumeric()), refit) {
		c.alarmed(a, ev)
	}
	if isMixed {
		c.judgeParts(s, ev)
	}
}

// compareSaid is compareUpdates of what was said, given what consumers had, and returns the loss of the last refit.
func (c *Cycle) compareSaid(s *Said, ev *event.Event, published *evaluate.EventOutcome) (refit float64) {
	m, is := c.target.Outputs(), updates.Score{Compared: true, Published: *published}
	loss := func(i int) float64 {
		outputs := s.compared[i*m : i*m+m]
		if math.IsNaN(outputs[0]) {
			return math.NaN()
		}
		o := evaluate.Outcome(c.target, ev, outputs, c.ensemble.targets)
		return o.Judged(c.target.IsNumeric())
	}
	is.Refit, is.Update, is.Candidates = loss(0), loss(1), s.compared
	for f := range is.Forms {
		is.Forms[f] = loss(2 + f)
	}
	c.compareUpdates(&is, ev)
	return is.Refit
}

// judgeParts has the weights of the mixture, of levels and of the stacked update follow what was said.
func (c *Cycle) judgeParts(s *Said, ev *event.Event) {
	e := &c.ensemble
	e.mixture.Recombine(ev, s.parts)
	if e.levels != nil {
		var link *encode.LevelLink
		if e.champion != nil {
			link = e.champion.Link
		}
		e.levels.Predict(s.values[len(s.values)-c.target.Outputs():], s.refit, e.mixture.Value(), link)
	}
	if b := e.stacked; b != nil {
		if b.Ready = len(s.stacked) == len(b.Inputs)+len(b.Steps); b.Ready {
			copy(b.Steps, s.stacked[copy(b.Inputs, s.stacked):])
		}
	}
	e.mixture.Judge(ev, e.targets, true)
	e.judgeMixed(ev)
}

// report adds what predictors made of an event to the figures that are reported.
func (c *Cycle) report(o *[evaluate.NumRoles]evaluate.EventOutcome, versus evaluate.Compared, of *Observation) {
	versus.Beyond = !of.counts.IsShared()
	c.progress.progressive.Add(o, versus)
	if c.progress.interval == nil {
		return
	}
	parts := c.ensemble.mixture
	if of.Stage == Final { // what its parts said was not kept
		parts = nil
	}
	c.progress.interval.Add(o, versus, parts, of.Event, c.ensemble.targets)
}

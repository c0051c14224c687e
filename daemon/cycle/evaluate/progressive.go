package evaluate

import (
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
)

// The predictors whose errors are kept.
const (
	Published = iota
	Live
	Baseline0 // global_mean or majority
	Baseline1 // item_mean or last_label
	Baseline2 // sgd_bias or linear
	FoldIn    // the fold-in alone, which updates publish
	NumRoles
)

// RoleNames returns the names of the predictors, which the state and curves have: empty for one that there is not. They
// are not to be changed.
func RoleNames(numeric bool) [NumRoles]string {
	if numeric {
		return [NumRoles]string{Published: "published", Live: "live", Baseline0: "global_mean", Baseline1: "item_mean",
			Baseline2: "sgd_bias", FoldIn: "fold_in"}
	}
	return [NumRoles]string{Published: "published", Live: "live", Baseline0: "majority", Baseline1: "last_label",
		Baseline2: "linear", FoldIn: "fold_in"}
}

// Slice is a part of the events by what the version that consumers have knows of their entities.
type Slice uint8

const (
	Unsliced Slice = iota // no version, or a schema without entities
	NewEntity
	KnownEntity
	NumSlices
)

// Progressive keeps the errors of predictions made before the event was learned from: over all events, over a window of
// the last ones that count in full (EntityCap), and over a tail that the caller starts. Its sums over all events
// survive restarts; the window starts again.
type Progressive struct {
	target *encode.Target
	sliced bool                       // events have entities
	Sums   progressiveSums            // over all events; kept with the state
	All    [NumReported]*distribution // over all events, nil for labels without classes
	Ring   []observed                 // the window, a ring; at is the oldest once it is full
	// of WindowBlock outcomes of the ring each; that of the next outcome holds what came since it was begun
	blocks  [][NumRoles]Tally
	at      int
	filled  int
	tail    *interval // nil until StartTail
	Invalid int64     // losses below 0
	unknown []string  // what the stored sums have that this build does not know
}

// observed is what became of one event.
type observed struct {
	Compared
	outcomes [NumRoles]EventOutcome
}

type progressiveSums struct {
	N         int64
	NoModel   int64 // events for which consumers had no version
	All       [NumRoles]Tally
	Reference *reference // of classes
	Drift     []drifted  // in the order of the first alarms
}

// drifted is what the drift detector has found in a group.
type drifted struct {
	Group  string `json:"group"`
	Alarms int64  `json:"alarms"`
	Event  int64  `json:"event"` // N at the last alarm
	Time   int64  `json:"time"`  // of the event that raised it, in milliseconds since 1970
}

// NumReported is the number of predictors that are reported over all events and in slices: published and live. Derived
// from the roles.
const NumReported = Live + 1

// NewProgressive keeps a window of so many events. sliced says that events have entities.
func NewProgressive(t *encode.Target, window int, sliced bool) *Progressive {
	window = max(window, 1)
	p := &Progressive{
		target: t,
		sliced: sliced,
		Ring:   make([]observed, window),
		blocks: make([][NumRoles]Tally, (window-1)/WindowBlock+1),
	}
	for r := range p.All {
		p.All[r] = newDistribution(t)
	}
	if !t.IsNumeric() {
		p.Sums.Reference = NewReference(t)
	}
	return p
}

// Compare returns what to compare the predictions of the next event with. Call it once for each event, before add.
func (p *Progressive) Compare(targets []float64) Compared {
	if p.Sums.Reference == nil {
		return Compared{}
	}
	return p.Sums.Reference.Next(targets)
}

// Alarmed notes an alarm of the drift detector on the event that was added last, whose time is in milliseconds since
// 1970.
func (p *Progressive) Alarmed(group string, time int64) {
	at := slices.IndexFunc(p.Sums.Drift, func(d drifted) bool { return d.Group == group })
	if at < 0 {
		at = len(p.Sums.Drift)
		p.Sums.Drift = append(p.Sums.Drift, drifted{Group: group})
	}
	d := &p.Sums.Drift[at]
	d.Alarms, d.Event, d.Time = d.Alarms+1, p.Sums.N, time
}

// drift returns what alarms there were.
func (p *Progressive) drift() (list []report.Drifted) {
	for _, d := range p.Sums.Drift {
		out := report.Drifted{Group: d.Group, Alarms: d.Alarms, EventsAgo: p.Sums.N - d.Event}
		if d.Time > 0 {
			out.EventTime = report.Time(time.UnixMilli(d.Time))
		}
		list = append(list, out)
	}
	return list
}

// WindowBlock is how many outcomes of the window are summed in advance. Chosen by hand; no result depends on it.
const WindowBlock = 1024

// leastLoss is the lowest loss that rounding explains; none of the losses can be below 0. Chosen by hand.
const leastLoss = -1e-9

// Add takes up what all predictors made of one event, and what to compare that with. O(roles).
func (p *Progressive) Add(o *[NumRoles]EventOutcome, c Compared) {
	p.Sums.N++
	if !o[Published].Present {
		p.Sums.NoModel++
	}
	e := observed{c, *o}
	for r := range e.outcomes {
		of := &e.outcomes[r]
		// A loss below 0 is a fault of the loss: it is counted, and does not flatter the sums.
		if of.Loss < 0 {
			if of.Loss < leastLoss {
				p.Invalid++
			}
			of.Loss = 0
		}
		p.Sums.All[r].Add(of, c)
	}
	for r := range p.All {
		p.All[r].add(p.target, &e.outcomes[r], c)
	}
	if p.tail != nil {
		p.tail.add(p.target, &e)
	}
	// Events beyond the cap of their entity count in the sums over all, but not in the window, by which the live model
	// is judged.
	if !c.Beyond {
		p.addToWindow(&e)
	}
}

func (p *Progressive) addToWindow(e *observed) {
	block := &p.blocks[p.at/WindowBlock]
	if p.at%WindowBlock == 0 {
		*block = [NumRoles]Tally{}
	}
	p.Ring[p.at] = *e
	for r := range e.outcomes {
		block[r].Add(&e.outcomes[r], e.Compared)
	}
	if p.at++; p.at == len(p.Ring) {
		p.at = 0
	}
	p.filled = min(p.filled+1, len(p.Ring))
}

// Window returns the sums over the last events. They are added up from the events themselves: a difference of running
// sums would keep the rounding error of the largest that ever was in the window.
func (p *Progressive) Window() (w [NumRoles]Tally) {
	for b := range p.blocks {
		for r := range w {
			w[r].merge(&p.blocks[b][r])
		}
	}
	for i := p.at; i < len(p.Ring) && i%WindowBlock != 0; i++ { // what is left of the block that is being replaced
		e := &p.Ring[i]
		for r := range w {
			w[r].Add(&e.outcomes[r], e.Compared)
		}
	}
	return w
}

// Paired returns the judged losses of two predictors on those of the last events that both have predicted, oldest
// first.
func (p *Progressive) Paired(a, b int) (losses [][2]float64) {
	numeric := p.target.IsNumeric()
	for i := range p.filled {
		e := &p.Ring[(p.at-p.filled+i+len(p.Ring))%len(p.Ring)]
		if x, y := &e.outcomes[a], &e.outcomes[b]; x.Present && y.Present {
			losses = append(losses, [2]float64{x.Judged(numeric), y.Judged(numeric)})
		}
	}
	return losses
}

// WindowLosses returns the headline of each predictor over the last events, by its name in report.Progressive.Roles,
// and which one that is.
func (p *Progressive) WindowLosses() (metric string, losses map[string]float64) {
	s := &interval{}
	for r, sums := range p.Window() {
		s.roles[r].Tally = sums
	}
	losses = make(map[string]float64)
	short := report.Progressive{Window: s.scores(p.target), Baselines: s.baselines(p.target)}
	headline := quality.HeadlineOf(short.Window.Published, short.Window.Live)
	for _, r := range short.Roles() {
		if loss, ok := headline.Of(r.Metrics); ok {
			losses[r.Name] = loss
		}
	}
	return headline.Name, losses
}

// WindowInterval returns the account of the last events: the sums of window, and what else there is from the events one
// by one. O(window).
func (p *Progressive) WindowInterval() *interval {
	s := newInterval(p.target)
	if p.sliced || s.roles[Live].distribution != nil {
		for i := range p.filled {
			s.add(p.target, &p.Ring[i])
		}
	}
	for r, sums := range p.Window() {
		s.roles[r].Tally = sums
	}
	return s
}

// StartTail begins the tallies that Tail returns.
func (p *Progressive) StartTail() { p.tail = newInterval(p.target) }

// Tail returns the metrics since StartTail.
func (p *Progressive) Tail() report.LastTenth {
	if p.tail == nil {
		p.StartTail()
	}
	s := p.tail.scores(p.target)
	return report.LastTenth{
		Published: s.Published,
		Live:      s.Live,
		Baselines: p.tail.baselines(p.target),
		Slices:    p.slices(p.tail),
	}
}

// Report returns PROGRESSIVE of the contract.
func (p *Progressive) Report() report.Progressive {
	w := p.WindowInterval()
	of := func(r int) *report.Metrics {
		a := account{p.Sums.All[r], p.All[r]}
		return a.metrics(p.target, false)
	}
	return report.Progressive{
		N: p.Sums.N, NoModel: p.Sums.NoModel, WindowN: int64(p.filled), All: report.Scores{Published: of(Published), Live: of(
			Live)},
		Window: w.scores(p.target), Baselines: w.baselines(p.target), Slices: p.slices(w), Drift: p.drift(),
	}
}

func (p *Progressive) slices(s *interval) *report.Slices {
	if !p.sliced {
		return nil
	}
	of := func(k Slice) report.Scores {
		a := &s.slices[k]
		return report.Scores{Published: a[Published].metrics(p.target, false), Live: a[Live].metrics(p.target, false)}
	}
	return &report.Slices{NewEntity: of(NewEntity), KnownEntity: of(KnownEntity)}
}

// interval is the account of some of the events.
type interval struct {
	roles  [NumRoles]account
	slices [NumSlices][NumReported]account
}

func newInterval(t *encode.Target) *interval {
	s := &interval{}
	for r := range s.roles {
		if r != FoldIn { // which is not reported
			s.roles[r].distribution = newDistribution(t)
		}
	}
	for k := NewEntity; k < NumSlices; k++ {
		for r := range s.slices[k] {
			s.slices[k][r].distribution = newDistribution(t)
		}
	}
	return s
}

func (s *interval) add(t *encode.Target, e *observed) {
	for r := range e.outcomes {
		s.roles[r].add(t, &e.outcomes[r], e.Compared)
	}
	if e.Slice == Unsliced {
		return
	}
	for r := range NumReported {
		s.slices[e.Slice][r].add(t, &e.outcomes[r], e.Compared)
	}
}

func (s *interval) scores(t *encode.Target) report.Scores {
	return report.Scores{Published: s.roles[Published].metrics(t, false), Live: s.roles[Live].metrics(t, false)}
}

func (s *interval) baselines(t *encode.Target) report.Baselines {
	b := func(role int) *report.Metrics { return s.roles[role].metrics(t, true) }
	if t.IsNumeric() {
		return report.Baselines{GlobalMean: b(Baseline0), ItemMean: b(Baseline1), SGDBias: b(Baseline2)}
	}
	out := report.Baselines{Majority: b(Baseline0), LastLabel: b(Baseline1)}
	if s.roles[Baseline2].N > 0 { // outputs without probabilities have none
		out.Linear = b(Baseline2)
	}
	return out
}

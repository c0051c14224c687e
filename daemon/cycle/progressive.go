package cycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
)

// The predictors whose errors are kept. Numeric labels have three baselines, classes two.
const (
	published = iota
	live
	baseline0 // global_mean or majority
	baseline1 // item_mean or last_label
	baseline2 // sgd_bias
	foldIn    // the fold-in alone, which updates publish
	numRoles
)

// slice is a part of the events by what the version that consumers have knows of their entities.
type slice uint8

const (
	unsliced slice = iota // no version, or a schema without entities
	newEntity
	knownEntity
	numSlices
)

// Progressive keeps the errors of predictions made before the event was learned from: over all events, over a window of the last ones that count in full
// (entityCap), and over a tail that the caller starts. Its sums over all events survive restarts; the window starts again.
type Progressive struct {
	target  *Target
	sliced  bool // events have entities
	sums    progressiveSums
	all     [told]*distribution
	ring    []observed
	blocks  [][numRoles]tally // of windowBlock outcomes of the ring each; that of the next outcome holds what came since it was begun
	at      int
	filled  int
	tail    *stretch // nil until StartTail
	invalid int64    // losses below 0
}

// observed is what became of one event.
type observed struct {
	compared
	outcomes [numRoles]outcome
}

type progressiveSums struct {
	N             int64           `json:"n"`
	NoModel       int64           `json:"no_model"`
	All           [numRoles]tally `json:"all"`
	Distributions [][]byte        `json:"distributions,omitempty"` // of published and live, while they are stored
	Reference     *reference      `json:"reference,omitempty"`     // of classes
	Drift         []drifted       `json:"drift,omitempty"`         // in the order of the first alarms
}

// drifted is what the drift detector has found in a group.
type drifted struct {
	Group  string `json:"group"`
	Alarms int64  `json:"alarms"`
	Event  int64  `json:"event"` // N at the last alarm
	Time   int64  `json:"time"`  // of the event that raised it, in milliseconds since 1970
}

// told is the number of predictors that are told over all events and in slices: published and live.
const told = live + 1

// newProgressive keeps a window of so many events. sliced says that events have entities.
func newProgressive(t *Target, window int, sliced bool) *Progressive {
	window = max(window, 1)
	p := &Progressive{target: t, sliced: sliced, ring: make([]observed, window), blocks: make([][numRoles]tally, (window-1)/windowBlock+1)}
	for r := range p.all {
		p.all[r] = newDistribution(t)
	}
	if !t.IsNumeric() {
		p.sums.Reference = newReference(t)
	}
	return p
}

// compare returns what to compare the predictions of the next event with. Call it once for each event, before add.
func (p *Progressive) compare(targets []float64) compared {
	if p.sums.Reference == nil {
		return compared{}
	}
	return p.sums.Reference.next(targets)
}

// alarmed notes an alarm of the drift detector on the event that was added last, whose time is in milliseconds since 1970.
func (p *Progressive) alarmed(group string, time int64) {
	at := slices.IndexFunc(p.sums.Drift, func(d drifted) bool { return d.Group == group })
	if at < 0 {
		at = len(p.sums.Drift)
		p.sums.Drift = append(p.sums.Drift, drifted{Group: group})
	}
	d := &p.sums.Drift[at]
	d.Alarms, d.Event, d.Time = d.Alarms+1, p.sums.N, time
}

// drift returns what alarms there were.
func (p *Progressive) drift() (list []report.Drifted) {
	for _, d := range p.sums.Drift {
		out := report.Drifted{Group: d.Group, Alarms: d.Alarms, EventsAgo: p.sums.N - d.Event}
		if d.Time > 0 {
			out.EventTime = report.Time(time.UnixMilli(d.Time))
		}
		list = append(list, out)
	}
	return list
}

// windowBlock is how many outcomes of the window are summed in advance.
const windowBlock = 1024

// leastLoss is the lowest loss that rounding explains; none of the losses can be below 0.
const leastLoss = -1e-9

func (p *Progressive) add(o *[numRoles]outcome, c compared) {
	p.sums.N++
	if !o[published].present {
		p.sums.NoModel++
	}
	e := observed{c, *o}
	for r := range e.outcomes {
		of := &e.outcomes[r]
		if of.loss < 0 {
			if of.loss < leastLoss {
				p.invalid++
			}
			of.loss = 0
		}
		p.sums.All[r].add(of, c)
	}
	for r := range p.all {
		p.all[r].add(p.target, &e.outcomes[r], c)
	}
	if p.tail != nil {
		p.tail.add(p.target, &e)
	}
	if !c.beyond {
		p.addToWindow(&e)
	}
}

func (p *Progressive) addToWindow(e *observed) {
	block := &p.blocks[p.at/windowBlock]
	if p.at%windowBlock == 0 {
		*block = [numRoles]tally{}
	}
	p.ring[p.at] = *e
	for r := range e.outcomes {
		block[r].add(&e.outcomes[r], e.compared)
	}
	if p.at++; p.at == len(p.ring) {
		p.at = 0
	}
	p.filled = min(p.filled+1, len(p.ring))
}

// window returns the sums over the last events. They are added up from the events themselves: a difference of running sums would keep the
// rounding error of the largest that ever was in the window.
func (p *Progressive) window() (w [numRoles]tally) {
	for b := range p.blocks {
		for r := range w {
			w[r].merge(&p.blocks[b][r])
		}
	}
	for i := p.at; i < len(p.ring) && i%windowBlock != 0; i++ { // what is left of the block that is being replaced
		e := &p.ring[i]
		for r := range w {
			w[r].add(&e.outcomes[r], e.compared)
		}
	}
	return w
}

// paired returns the judged losses of two predictors on those of the last events that both have predicted, oldest first.
func (p *Progressive) paired(a, b int) (losses [][2]float64) {
	numeric := p.target.IsNumeric()
	for i := range p.filled {
		e := &p.ring[(p.at-p.filled+i+len(p.ring))%len(p.ring)]
		if x, y := &e.outcomes[a], &e.outcomes[b]; x.present && y.present {
			losses = append(losses, [2]float64{x.judged(numeric), y.judged(numeric)})
		}
	}
	return losses
}

// windowLosses returns the loss of each predictor over the last events, by its name in report.Progressive.Roles.
func (p *Progressive) windowLosses() map[string]float64 {
	s := &stretch{}
	for r, sums := range p.window() {
		s.roles[r].tally = sums
	}
	losses := make(map[string]float64)
	short := report.Progressive{Window: s.scores(p.target), Baselines: s.baselines(p.target)}
	for _, r := range short.Roles() {
		if loss, ok := quality.Loss(r.Metrics); ok {
			losses[r.Name] = loss
		}
	}
	return losses
}

// windowStretch returns the account of the last events: the sums of window, and what else there is from the events one by one. O(window).
func (p *Progressive) windowStretch() *stretch {
	s := newStretch(p.target)
	if p.sliced || s.roles[live].distribution != nil {
		for i := range p.filled {
			s.add(p.target, &p.ring[i])
		}
	}
	for r, sums := range p.window() {
		s.roles[r].tally = sums
	}
	return s
}

// StartTail begins the tallies that Tail returns.
func (p *Progressive) StartTail() { p.tail = newStretch(p.target) }

// Tail returns the metrics since StartTail.
func (p *Progressive) Tail() report.LastTenth {
	if p.tail == nil {
		p.StartTail()
	}
	s := p.tail.scores(p.target)
	return report.LastTenth{Published: s.Published, Live: s.Live, Baselines: p.tail.baselines(p.target), Slices: p.slices(p.tail)}
}

// Report returns PROGRESSIVE of the contract.
func (p *Progressive) Report() report.Progressive {
	w := p.windowStretch()
	of := func(r int) *report.Metrics {
		a := account{p.sums.All[r], p.all[r]}
		return a.metrics(p.target, false)
	}
	return report.Progressive{
		N: p.sums.N, NoModel: p.sums.NoModel, WindowN: int64(p.filled), All: report.Scores{Published: of(published), Live: of(live)},
		Window: w.scores(p.target), Baselines: w.baselines(p.target), Slices: p.slices(w), Drift: p.drift(),
	}
}

func (p *Progressive) slices(s *stretch) *report.Slices {
	if !p.sliced {
		return nil
	}
	of := func(k slice) report.Scores {
		a := &s.slices[k]
		return report.Scores{Published: a[published].metrics(p.target, false), Live: a[live].metrics(p.target, false)}
	}
	return &report.Slices{NewEntity: of(newEntity), KnownEntity: of(knownEntity)}
}

// MarshalBinary returns the sums over all events, for the state.
func (p *Progressive) MarshalBinary() ([]byte, error) {
	s := p.sums
	for _, d := range p.all {
		if d != nil {
			s.Distributions = append(s.Distributions, d.appendBinary(nil))
		}
	}
	return json.Marshal(s)
}

// UnmarshalBinary restores what MarshalBinary returned. Nothing at all is a fresh start.
func (p *Progressive) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s := progressiveSums{Reference: p.sums.Reference}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if p.sums.Reference == nil {
		s.Reference = nil
	} else if r := s.Reference; r == nil || len(r.Counts) != p.target.Outputs() {
		return fmt.Errorf("cycle: progressive sums that are not of %d outputs", p.target.Outputs())
	}
	for r, text := range s.Distributions[:min(told, len(s.Distributions))] {
		if p.all[r] == nil {
			continue
		}
		if err := p.all[r].UnmarshalBinary(text); err != nil {
			return err
		}
	}
	s.Distributions = nil
	p.sums = s
	return nil
}

// stretch is the account of some of the events.
type stretch struct {
	roles  [numRoles]account
	slices [numSlices][told]account
}

func newStretch(t *Target) *stretch {
	s := &stretch{}
	for r := range s.roles {
		if r != foldIn { // which is not reported
			s.roles[r].distribution = newDistribution(t)
		}
	}
	for k := newEntity; k < numSlices; k++ {
		for r := range s.slices[k] {
			s.slices[k][r].distribution = newDistribution(t)
		}
	}
	return s
}

func (s *stretch) add(t *Target, e *observed) {
	for r := range e.outcomes {
		s.roles[r].add(t, &e.outcomes[r], e.compared)
	}
	if e.slice == unsliced {
		return
	}
	for r := range told {
		s.slices[e.slice][r].add(t, &e.outcomes[r], e.compared)
	}
}

func (s *stretch) scores(t *Target) report.Scores {
	return report.Scores{Published: s.roles[published].metrics(t, false), Live: s.roles[live].metrics(t, false)}
}

func (s *stretch) baselines(t *Target) report.Baselines {
	b := func(role int) *report.Metrics { return s.roles[role].metrics(t, true) }
	if t.IsNumeric() {
		return report.Baselines{GlobalMean: b(baseline0), ItemMean: b(baseline1), SGDBias: b(baseline2)}
	}
	return report.Baselines{Majority: b(baseline0), LastLabel: b(baseline1)}
}

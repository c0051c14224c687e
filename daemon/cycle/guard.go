package cycle

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// How updates are guarded against the refit that they start from. guardMargin and guardWindow were chosen by hand on streams of ratings, rings and clicks.
// They were checked on other seeds of these, MovieLens 100k in order of time, electricity, purchases and rules that change: 15,000 events each, an update
// each 250, a refit each 4,000. Against no guard the published loss was 5.1 % lower on electricity and 0.1 % lower on rules, with 3 and 6 updates held back.
// On rings, whose centre jumps, 5 or 6 of 28 or 29 were, and the loss was 0.06, 0.31 and 0.41 % higher with three seeds. Elsewhere none was held back.
const (
	guardSize     = 512       // rows of a reservoir: a mean loss is known to some 4 % by so many
	guardOfEntity = 5         // rows of one entity at most, 1 % of a reservoir, where there are entities enough to fill it
	guardLatest   = guardSize // events that the latest ones are: with twice as many, updates follow a change too late
	guardRowBytes = 1 << 10   // of one row, so that all reservoirs stay below 6 MiB
	guardLeast    = 30        // rows below which a reservoir decides nothing
	guardErrors   = 2         // standard errors that a difference has to exceed
	guardMargin   = 0.15      // of their loss that held-out rows may lose, and that the latest events gain after a change
	guardWindow   = 0.1       // of their loss that recent events may lose: updates differ by so much without a fault
	guardShare    = 0.005     // of the loss of the label frequencies, below which a difference is of no use to anybody
	guardAlike    = 0.25      // total variation of two label distributions that count as the same
)

// GuardFootprint bounds the bytes of the rows of a guard: six reservoirs, of which the held-out ones are there twice while they are
// replaced.
const GuardFootprint = 8 * guardSize * (guardRowBytes + 256)

// HeldBack is why an update was not published. It is a value of the label reason of refitd_updates_held_back_total.
type HeldBack string

// The reasons why updates are held back.
const (
	HeldBackWindow  HeldBack = "window"   // worse than its refit on recent events
	HeldBackHoldout HeldBack = "held_out" // worse than its refit on held-out rows
	HeldBackOutputs HeldBack = "outputs"  // beyond the outputs that the rows of its refit support
)

// text says what is wrong with an update.
func (h HeldBack) text() string {
	switch h {
	case HeldBackWindow:
		return "worse on recent events"
	case HeldBackHoldout:
		return "worse on held-out rows"
	}
	return "beyond the outputs that the rows of the last refit support"
}

// HeldBackReasons are all reasons.
var HeldBackReasons = []HeldBack{HeldBackWindow, HeldBackHoldout, HeldBackOutputs}

// A guard decides whether consumers may have an update in place of the refit that it starts from, and of what they have. It keeps three sets of rows:
// held-out rows of the last refit, which do not change until the next one, recent events spread over the window, and the latest events. All are capped
// by entity, so that neither a stuck producer nor one entity fills them. Binary labels have a reservoir each, so that rare ones are judged by enough
// rows. Losses are bounded by what the rows of the refit support, so that one of them neither decides nor hides behind a large standard error.
//
// An update that is worse on the first or second set is held back, unless what labels mean has changed: the latest events then gain by it, and their labels
// are distributed as in the held-out rows. It belongs to who holds the lock of the cycle.
type guard struct {
	target  *Target
	by      int // categorical field of entities, or -1
	window  int // events that the recent rows are spread over
	held    guardSet
	recent  guardSet
	latest  guardSet
	limit   float64 // of one loss: the bound of outcome.loss
	outputs float64 // largest magnitude of an output that the refit's rows support; 0 is not known
	names   interner
}

// guardSet is a stratified sample of rows: a reservoir for either binary label, one for all rows of other labels.
type guardSet [2]reservoir

// reservoir keeps rows of at most guardOfEntity for each entity. The zero value is empty.
type reservoir struct {
	rows   []guardRow
	places []int          // of rows, among all that were added
	added  int            // rows so far
	count  map[string]int // rows by entity
	seen   float64        // rows that were offered, which weigh the strata; halved with the window
	skip   int            // rows that pass until the next one is kept
}

// guardRow is a row with its losses under what updates are compared with.
type guardRow struct {
	entity  string
	payload []byte
	label   float64
	unseen  rowLoss // before anything had learned the row: of the refit for held-out rows, of the version that consumers had for others
	current rowLoss // of what consumers have
	of      frozen  // that current is of
}

// rowLoss is a loss and a squared error, as outcome has them.
type rowLoss struct{ loss, square float64 }

func newGuard(t *Target, by, window int) guard {
	return guard{target: t, by: by, window: max(window, guardSize), names: make(interner)}
}

// stratum returns the reservoir that an event belongs to.
func (g *guard) stratum(ev *event.Event) int {
	if g.target.Task == event.Binary && ev.Label > 0 {
		return 1
	}
	return 0
}

// label returns what labels are compared by: the number, or the place of the first class.
func (g *guard) label(ev *event.Event) float64 {
	if g.target.Task.HasClasses() && len(ev.Classes) > 0 {
		return float64(slices.Index(g.target.Classes, ev.Classes[0]))
	}
	return ev.Label
}

// entity returns the name by which rows of an event are capped, "" for no cap.
func (g *guard) entity(ev *event.Event) string {
	if g.by < 0 {
		return ""
	}
	return ev.Categorical[g.by]
}

// observe takes up an event that nothing has learned yet, with the outcome of the version that consumers have. Without one it is left out.
func (g *guard) observe(ev *event.Event, published *outcome) {
	if !published.present {
		return
	}
	at := g.stratum(ev)
	latest, recent := g.latest.takes(at, guardLatest), g.recent.takes(at, g.window)
	if !latest && !recent {
		return
	}
	row := guardRow{entity: g.entity(ev), label: g.label(ev), payload: AppendEvent(nil, ev), unseen: rowLoss{published.loss, published.square}}
	if latest {
		g.latest[at].add(row)
	}
	if recent {
		g.recent[at].add(row)
	}
}

// takes reports whether an event of a stratum is kept: so few are that a full reservoir spans a window of all events.
func (set *guardSet) takes(at, window int) bool {
	r := &set[at]
	r.seen++
	if total := set.seen(); total > float64(window) {
		set[0].seen, set[1].seen = set[0].seen/2, set[1].seen/2
	}
	if r.skip--; r.skip > 0 {
		return false
	}
	r.skip = int(r.seen / set.seen() * float64(window) / guardSize)
	return true
}

// seen returns how many rows were offered.
func (set *guardSet) seen() float64 { return set[0].seen + set[1].seen }

// holdout returns held-out rows by which updates of a refit are guarded, with its losses before it learns them. Of many rows it takes some. It
// leaves out those that are older than the half-life of the training rows, where ages are known.
func (g *guard) holdout(ch *Champion, payloads [][]byte, ages []float64, halfLife float64) (held guardSet) {
	s := newScorer(ch.Model, ch.Vocabulary)
	names, targets, outputs := make(interner), make([]float64, ch.Target.Outputs()), make([]float64, ch.Target.Outputs())
	var ev event.Event
	step := max(1, len(payloads)/(4*guardSize)) // reservoirs are full by then
	for i := 0; i < len(payloads); i += step {
		if i < len(ages) && ages[i] > halfLife || DecodeEvent(&ev, payloads[i], names) != nil || !ch.Target.Encode(targets, &ev) {
			continue
		}
		s.outputs(outputs, &ev)
		o := ch.Target.outcome(&ev, outputs, targets)
		r := &held[g.stratum(&ev)]
		r.seen++
		r.add(guardRow{entity: g.entity(&ev), label: g.label(&ev), payload: payloads[i], unseen: rowLoss{o.loss, o.square}})
	}
	return held
}

// add keeps a row. It takes the place of the oldest, or of the oldest of its entity where that has its share.
func (r *reservoir) add(row guardRow) {
	if len(row.payload) > guardRowBytes {
		return
	}
	if r.count == nil {
		r.count = make(map[string]int)
	}
	r.added++
	own := row.entity != "" && r.count[row.entity] >= max(guardOfEntity, guardSize/max(len(r.count), 1))
	if !own && len(r.rows) < guardSize {
		r.rows, r.places = append(r.rows, row), append(r.places, r.added)
		r.count[row.entity]++
		return
	}
	oldest, least := 0, math.MaxInt
	for i, place := range r.places {
		if place < least && (!own || r.rows[i].entity == row.entity) {
			oldest, least = i, place
		}
	}
	old := &r.rows[oldest]
	r.count[row.entity]++
	if r.count[old.entity]--; r.count[old.entity] == 0 {
		delete(r.count, old.entity)
	}
	*old, r.places[oldest] = row, r.added
}

// support bounds losses and outputs by what the rows of a refit say.
func (g *guard) support(v *report.Version) {
	if v.HorizonEvents > 0 {
		g.window = max(min(g.window, int(v.HorizonEvents)), guardSize)
	}
	g.limit, g.outputs = hingeLimit, 0
	if v.OutputLimit != nil {
		g.limit, g.outputs = supportedLogOdds(v.Rows)*float64(g.target.Outputs()), float64(*v.OutputLimit)
	}
}

// supportedLogOdds returns the log odds that n rows support at most: they leave a class that never came a chance of 1 in 2n+1 (Krichevsky and
// Trofimov 1981).
func supportedLogOdds(rows int64) float64 { return math.Log(2*float64(max(rows, 1)) + 1) }

// outputLimit returns the limit of the outputs of versions on the champion, 0 for none.
func (ch *Champion) outputLimit() float64 {
	if limit := ch.Version.OutputLimit; limit != nil {
		return float64(*limit)
	}
	return 0
}

// outputLimit returns the largest magnitude of an output that versions on a refit may have, given rows that it was judged on; nil where outputs are
// not log odds.
func outputLimit(ch *Champion, parts ...[][]byte) *report.Number {
	if ch.Target.Link == snapshot.Identity {
		return nil
	}
	most, outputs, s := supportedLogOdds(ch.Version.Rows), make([]float64, ch.Target.Outputs()), newScorer(ch.withPopularity(), ch.Vocabulary)
	var ev event.Event
	names := make(interner)
	for _, payloads := range parts {
		for i := 0; i < len(payloads); i += max(1, len(payloads)/(4*guardSize)) {
			if DecodeEvent(&ev, payloads[i], names) != nil {
				continue
			}
			s.outputs(outputs, &ev)
			for _, o := range outputs {
				most = max(most, math.Abs(o))
			}
		}
	}
	return some(guardOutputs * most)
}

// guardOutputs is how many times the largest output of a refit on its own rows, or what so many rows support, an output of its updates may be.
// hingeLimit bounds losses of margins, of which an output of 0 has 1.
const (
	guardOutputs = 2
	hingeLimit   = 8
)

// difference is the mean of paired differences of bounded losses: an update's less those that it is compared with.
type difference struct {
	mean     float64
	variance float64 // of the mean
	against  float64 // mean of what it is compared with
}

// isWorse reports whether the update loses more than a share of what it is compared with, or of the loss of label frequencies, by guardErrors standard
// errors.
func (d *difference) isWorse(margin, frequencies float64) bool {
	return d.mean > margin*d.against+guardShare*frequencies+guardErrors*math.Sqrt(d.variance)
}

// isBetter reports whether the update gains more than a share of what it is compared with, by guardErrors standard errors.
func (d *difference) isBetter(margin float64) bool {
	return d.mean < -margin*d.against-guardErrors*math.Sqrt(d.variance)
}

// rowDifferences are those over a set of rows: against the losses before the rows were learned, and against what consumers have. An update has to be
// worse by both. By the first alone a change of the stream would count against it, by the second that a refit has learned its held-out rows.
type rowDifferences struct {
	n               int
	unseen, current difference
	beyond          bool // an output is beyond the support
}

func (d *rowDifferences) isWorse(margin, frequencies float64) bool {
	return d.n >= guardLeast && d.unseen.isWorse(margin, frequencies) && d.current.isWorse(0, frequencies)
}

// lossDifferences are those of losses, where the task has any, and of squares, where labels are numbers.
type lossDifferences struct{ losses, squares rowDifferences }

// judge compares an update with what consumers have and with the losses that rows had before anything learned them. It returns "" where consumers may
// have the update. O(guardSize) scores of either model.
func (g *guard) judge(update, current *frozen) HeldBack {
	if *current == *update {
		return ""
	}
	p := &guardPass{guard: g, squares: g.squareBound(), update: newFrozenScorer(update), current: newFrozenScorer(current)}
	held, recent, latest := p.compare(&g.held), p.compare(&g.recent), p.compare(&g.latest)
	clear(g.names) // those of other rows would be kept for ever
	same := g.sameLabels()
	return cmp.Or(verdict(&held.losses, &recent.losses, &latest.losses, g.frequencyLoss(), same),
		verdict(&held.squares, &recent.squares, &latest.squares, g.variance(), same))
}

// guardDelta returns why the chain of deltas ends that f follows: the model after the delta at hand is worse than the refit. Consumers get that again
// unless the next update is better. c.mu is held.
func (c *Cycle) guardDelta(f *following) (whole string) {
	of := c.published.forms[f.form]
	of.popular = f.popular
	if !f.of.popularOnly {
		of.after = f.forms[f.form].model
	}
	why := c.judgeUpdate(&of, &frozen{model: f.of.Model, vocab: f.of.Vocabulary, popular: f.of.popular})
	if why == "" {
		return ""
	}
	c.turned, c.heldBack = true, append(c.heldBack, why)
	return "held back: the delta is " + why.text()
}

// verdict decides by one kind of loss.
func verdict(held, recent, latest *rowDifferences, frequencies float64, sameLabels bool) HeldBack {
	gain := latest.unseen.mean + max(held.unseen.mean, recent.unseen.mean)
	changed := latest.n >= guardLeast && sameLabels && latest.current.isBetter(0) && (gain < 0 || latest.unseen.isBetter(guardMargin))
	switch {
	case held.beyond || recent.beyond || latest.beyond:
		return HeldBackOutputs
	case latest.isWorse(guardWindow, frequencies) || recent.isWorse(guardWindow, frequencies) && !changed:
		return HeldBackWindow
	case held.isWorse(guardMargin, frequencies) && !changed:
		return HeldBackHoldout
	}
	return ""
}

// guardPass is one comparison.
type guardPass struct {
	guard           *guard
	squares         float64 // bound of squares
	update, current *scorer
}

// compare scores the rows of a set with both models. The strata weigh as in the held-out rows, where there are any: of a flood with one label, most
// events have that label, and the other one would not count.
func (p *guardPass) compare(set *guardSet) (of lossDifferences) {
	weights := &p.guard.held
	if weights.seen() == 0 {
		weights = set
	}
	for s := range set {
		rows := set[s].rows
		if len(rows) == 0 {
			continue
		}
		var losses, squares pairedLosses
		for i := range rows {
			beyond := p.score(&rows[i], &losses, &squares)
			of.losses.beyond = of.losses.beyond || beyond
		}
		share := weights[s].seen / weights.seen()
		losses.addTo(&of.losses, share)
		squares.addTo(&of.squares, share)
	}
	return of
}

// pairedLosses are those of the rows of a stratum.
type pairedLosses struct{ update, unseen, current []float64 }

func (l *pairedLosses) add(update, unseen, current, limit float64) {
	l.update, l.unseen, l.current = append(l.update, min(update, limit)), append(l.unseen, min(unseen, limit)), append(l.current, min(current, limit))
}

// addTo adds a stratum of a share of all rows.
func (l *pairedLosses) addTo(of *rowDifferences, share float64) {
	if of.n += len(l.update); len(l.update) == 0 {
		return
	}
	paired := make([]float64, len(l.update))
	for _, d := range []struct {
		of      *difference
		against []float64
	}{{&of.unseen, l.unseen}, {&of.current, l.current}} {
		floats.SubTo(paired, l.update, d.against)
		d.of.mean += share * stat.Mean(paired, nil)
		d.of.variance += share * share * stat.PopVariance(paired, nil) / float64(len(paired))
		d.of.against += share * stat.Mean(d.against, nil)
	}
}

// score adds the losses on a row, and reports whether an output of the update is beyond the support.
func (p *guardPass) score(row *guardRow, losses, squares *pairedLosses) (beyond bool) {
	var ev event.Event
	g := p.guard
	targets, outputs := make([]float64, g.target.Outputs()), make([]float64, g.target.Outputs())
	if DecodeEvent(&ev, row.payload, g.names) != nil || !g.target.Encode(targets, &ev) {
		return false
	}
	lossOf := func(s *scorer) rowLoss {
		s.outputs(outputs, &ev)
		o := g.target.outcome(&ev, outputs, targets)
		return rowLoss{o.loss, o.square}
	}
	if row.of != p.current.frozen {
		row.of, row.current = p.current.frozen, lossOf(p.current)
	}
	own := lossOf(p.update)
	for _, v := range outputs {
		beyond = beyond || math.IsNaN(v) || g.outputs > 0 && math.Abs(v) >= g.outputs // a model with deltas keeps the limit
	}
	if !g.target.IsNumeric() || g.target.Link != snapshot.Identity {
		losses.add(own.loss, row.unseen.loss, row.current.loss, g.limit)
	}
	if g.target.IsNumeric() {
		squares.add(own.square, row.unseen.square, row.current.square, p.squares)
	}
	return beyond
}

// labels returns the labels of the rows of a set.
func (set *guardSet) labels() (labels []float64) {
	for s := range set {
		for i := range set[s].rows {
			labels = append(labels, set[s].rows[i].label)
		}
	}
	return labels
}

// squareBound bounds one squared error: by the square of three times the range of nine in ten labels. +Inf without labels that differ.
func (g *guard) squareBound() float64 {
	labels := append(g.held.labels(), g.recent.labels()...)
	if len(labels) == 0 {
		return math.Inf(1)
	}
	slices.Sort(labels)
	width := stat.Quantile(0.95, stat.Empirical, labels, nil) - stat.Quantile(0.05, stat.Empirical, labels, nil)
	if width == 0 {
		width = labels[len(labels)-1] - labels[0]
	}
	if width == 0 {
		return math.Inf(1)
	}
	return 9 * width * width
}

// variance returns that of numeric labels within the bound of squares.
func (g *guard) variance() float64 {
	labels := g.held.labels()
	if len(labels) < 2 || !g.target.IsNumeric() {
		return 0
	}
	return min(stat.Variance(labels, nil), g.squareBound())
}

// frequencyLoss returns the loss of a prediction by label frequencies alone: their entropy for a binary label, else that of equally likely labels.
func (g *guard) frequencyLoss() float64 {
	if g.target.Task != event.Binary {
		return math.Log(float64(g.target.Outputs() + 1))
	}
	if total := g.held.seen(); total > 0 {
		p := g.held[1].seen / total
		return stat.Entropy([]float64{p, 1 - p})
	}
	return 0
}

// sameLabels reports whether the latest events have labels as the held-out rows do: numbers by quarters of these, others by class.
func (g *guard) sameLabels() bool {
	var share [2][4]float64
	quarters := g.held.labels()
	slices.Sort(quarters)
	for i, set := range []*guardSet{&g.held, &g.latest} {
		total := set.seen()
		if total == 0 {
			return false
		}
		if g.target.Task == event.Binary {
			share[i][0], share[i][1] = set[0].seen/total, set[1].seen/total
			continue
		}
		labels := set.labels()
		for _, label := range labels {
			at, _ := slices.BinarySearch(quarters, label)
			share[i][min(4*at/len(quarters), 3)] += 1 / float64(len(labels))
		}
	}
	distance := 0.0
	for k := range share[0] {
		distance += math.Abs(share[0][k]-share[1][k]) / 2
	}
	return distance < guardAlike
}

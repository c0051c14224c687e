package guard

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// How updates are guarded against the refit that they start from. guardMargin and GuardWindow were chosen by hand on
// streams of ratings, rings and clicks. They were checked on other seeds of these, MovieLens 100k in order of time,
// electricity, purchases and rules that change: an update each 250 events, a refit each 4,000. Over 12,000 events of
// rings, whose centre jumps, clicks and drift, with three seeds each, no update is held back. Of three parts of
// electricity 3, 0 and 1 are, and the published loss is 6.8 % and 4.6 % lower than without a guard.
const (
	GuardSize     = 512       // rows of a reservoir: a mean loss is known to some 4 % by so many
	guardOfEntity = 5         // rows of one entity at most, 1 % of a reservoir, where there are entities enough to fill it
	guardLatest   = GuardSize // events that the latest ones are: with twice as many, updates follow a change too late
	guardRowBytes = 1 << 10   // of one row, so that all reservoirs stay below 6 MiB
	GuardLeast    = 30        // rows below which a reservoir decides nothing
	GuardErrors   = 2         // standard errors that a difference has to exceed
	guardMargin   = 0.15      // of their loss that held-out rows may lose
	GuardWindow   = 0.1       // of their loss that recent events may lose: updates differ by so much without a fault
	guardShare    = 0.005     // of the loss of the label frequencies, below which a difference is of no use to anybody
)

// Footprint bounds the bytes of the rows of a guard: six reservoirs, of which the held-out ones are there twice while
// they are replaced. Derived from the sizes above.
const Footprint = 8 * GuardSize * (guardRowBytes + 256)

// HeldBack is why an update was not published. It is a value of the label reason of refitd_updates_held_back_total.
type HeldBack string

// The reasons why updates are held back.
const (
	HeldBackWindow  HeldBack = "window"   // worse than its refit on recent events
	HeldBackHoldout HeldBack = "held_out" // worse than its refit on held-out rows
	HeldBackOutputs HeldBack = "outputs"  // beyond the outputs that the rows of its refit support
)

// Text says what is wrong with an update.
func (h HeldBack) Text() string {
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

// A Guard decides whether consumers may have an update in place of the refit that it starts from, and of what they
// have. It keeps three sets of rows: held-out rows of the last refit, which do not change until the next one, recent
// events spread over the window, and the latest events. All are capped by entity, so that neither a stuck producer nor
// one entity fills them. Binary labels have a reservoir each, so that rare ones are judged by enough rows. Losses are
// bounded by what the rows of the refit support, so that one of them neither decides nor hides behind a large standard
// error.
//
// An update that is worse on the first or second set is held back, unless what labels mean has changed: the latest
// events then gain by it against its refit, those of no label lose, and their labels are distributed as in the held-out
// rows. It belongs to who holds the lock of the cycle.
type Guard struct {
	target  *encode.Target
	by      int // categorical field of entities, or -1
	window  int // events that the recent rows are spread over
	Held    fitted.HoldoutSet
	recent  fitted.HoldoutSet
	latest  fitted.HoldoutSet
	Limit   float64 // of one loss: the bound of outcome.loss
	outputs float64 // largest magnitude of an output that the refit's rows support; 0 is not known
	last    lastKeys
	names   rows.Interner
	Tables  *tables.Set // joined to the rows, as they are now; nil without tables
	Flooded func() bool // whether copies are left out, which Observe does not see; nil for never
}

func New(t *encode.Target, by, window int) Guard {
	return Guard{target: t, by: by, window: max(window, GuardSize), names: make(rows.Interner),
		last: lastKeys{seed: maphash.MakeSeed()}}
}

// stratum returns the reservoir that an event belongs to.
func (g *Guard) stratum(ev *event.Event) int {
	if g.target.Task == event.Binary && ev.Label > 0 {
		return 1
	}
	return 0
}

// label returns what labels are compared by: the number, or the place of the first class.
func (g *Guard) label(ev *event.Event) float64 {
	if g.target.Task.HasClasses() && len(ev.Classes) > 0 {
		return float64(slices.Index(g.target.Classes, ev.Classes[0]))
	}
	return ev.Label
}

// entity returns the name by which rows of an event are capped, "" for no cap.
func (g *Guard) entity(ev *event.Event) string {
	if g.by < 0 {
		return ""
	}
	return ev.Categorical[g.by]
}

// Observe takes up an event that nothing has learned yet, with the outcome of the version that consumers have. Without
// one it is left out.
func (g *Guard) Observe(ev *event.Event, published *evaluate.EventOutcome) {
	if !published.Present {
		return
	}
	g.last.add(ev)
	at := g.stratum(ev)
	latest, recent := takes(&g.latest, at, guardLatest), takes(&g.recent, at, g.window)
	if !latest && !recent {
		return
	}
	row := fitted.GuardRow{
		Entity:  g.entity(ev),
		Label:   g.label(ev),
		Payload: rows.AppendEvent(nil, ev),
		Unseen:  fitted.RowLoss{Loss: published.Loss, Square: published.Square},
	}
	if latest {
		add(&g.latest[at], row, guardLatest/g.strata())
	}
	if recent {
		add(&g.recent[at], row, GuardSize)
	}
}

// strata returns how many reservoirs of a set are in use.
func (g *Guard) strata() int {
	if g.target.Task == event.Binary {
		return 2
	}
	return 1
}

// takes reports whether an event of a stratum is kept: so few are that a full reservoir spans a window of all events.
func takes(set *fitted.HoldoutSet, at, window int) bool {
	r := &set[at]
	r.Seen++
	if total := Seen(set); total > float64(window) {
		set[0].Seen, set[1].Seen = set[0].Seen/2, set[1].Seen/2
	}
	if r.Skip--; r.Skip > 0 {
		return false
	}
	r.Skip = int(r.Seen / Seen(set) * float64(window) / GuardSize)
	return true
}

// Seen returns how many rows were offered.
func Seen(set *fitted.HoldoutSet) float64 { return set[0].Seen + set[1].Seen }

// Holdout returns held-out rows by which updates of a refit are guarded, with its losses before it learns them. Of many
// rows it takes some. It leaves out those that are older than the half-life of the training rows, where ages are known.
func (g *Guard) Holdout(ch *fitted.Fitted, payloads [][]byte, ages []float64,
	halfLife float64) (held fitted.HoldoutSet) {
	s := fitted.NewScorer(ch.Model, ch.Vocabulary)
	names, targets, outputs := make(rows.Interner), make([]float64,
		ch.Target.Outputs()), make([]float64, ch.Target.Outputs())
	var ev event.Event
	step := max(1, len(payloads)/(4*GuardSize)) // reservoirs are full by then
	for i := 0; i < len(payloads); i += step {
		if i < len(ages) && ages[i] > halfLife || rows.DecodeEvent(&ev, payloads[i], names) != nil ||
			!ch.Target.Encode(targets, &ev) {
			continue
		}
		ch.Tables.Join(&ev)
		s.Outputs(outputs, &ev)
		o := evaluate.Outcome(ch.Target, &ev, outputs, targets)
		r := &held[g.stratum(&ev)]
		r.Seen++
		add(
			r,
			fitted.GuardRow{
				Entity:  g.entity(&ev),
				Label:   g.label(&ev),
				Payload: payloads[i],
				Unseen:  fitted.RowLoss{Loss: o.Loss, Square: o.Square},
			},
			GuardSize,
		)
	}
	return held
}

// add keeps a row, of so many at most. It takes the place of the oldest, or of the oldest of its entity where that has
// its share.
func add(r *fitted.Reservoir, row fitted.GuardRow, most int) {
	if len(row.Payload) > guardRowBytes {
		return
	}
	if r.Count == nil {
		r.Count = make(map[string]int)
	}
	own := row.Entity != "" && r.Count[row.Entity] >= max(guardOfEntity, most/max(len(r.Count), 1))
	if !own && len(r.Rows) < most {
		r.Append(row)
		r.Count[row.Entity]++
		return
	}
	oldest := r.Oldest(row.Entity, own)
	old := &r.Rows[oldest]
	r.Count[row.Entity]++
	if r.Count[old.Entity]--; r.Count[old.Entity] == 0 {
		delete(r.Count, old.Entity)
	}
	r.Replace(oldest, row)
}

// Support bounds losses and outputs by what the rows of a refit say.
func (g *Guard) Support(v *report.Version) {
	if v.HorizonEvents > 0 {
		g.window = max(min(g.window, int(v.HorizonEvents)), GuardSize)
	}
	g.Limit, g.outputs = hingeLimit, 0
	if v.OutputLimit != nil {
		g.Limit, g.outputs = SupportedLogOdds(v.Rows)*float64(g.target.Outputs()), float64(*v.OutputLimit)
	}
}

// SupportedLogOdds returns the log odds that n rows support at most: they leave a class that never came a chance of 1
// in 2n+1 (Krichevsky and Trofimov 1981).
func SupportedLogOdds(rows int64) float64 { return math.Log(2*float64(max(rows, 1)) + 1) }

// GuardOutputs is how many times the largest output of a refit on its own rows, or what so many rows support, an output
// of its updates may be.
// hingeLimit bounds losses of margins, of which an output of 0 has 1. Chosen by hand.
const (
	GuardOutputs = 2
	hingeLimit   = 8
)

// Difference is the mean of paired differences of bounded losses: an update's less those that it is compared with.
type Difference struct {
	Mean     float64
	Variance float64 // of the mean
	Against  float64 // mean of what it is compared with
}

// isWorse reports whether the update loses more than a share of what it is compared with, or of the loss of label
// frequencies, by GuardErrors standard errors.
func (d *Difference) isWorse(margin, frequencies float64) bool {
	return d.Mean > margin*d.Against+guardShare*frequencies+GuardErrors*math.Sqrt(d.Variance)
}

// exceeds reports whether the update loses more than a share of what it is compared with, shown or not.
func (d *Difference) exceeds(margin float64) bool { return d.Mean > margin*d.Against }

// isBetter reports whether the update gains more than a share of what it is compared with, by GuardErrors standard
// errors.
func (d *Difference) isBetter(margin float64) bool {
	return d.Mean < -margin*d.Against-GuardErrors*math.Sqrt(d.Variance)
}

// RowDifferences are those over a set of rows: against the losses before the rows were learned, and against what
// consumers have. An update has to be worse by both. By the first alone a change of the stream would count against it,
// by the second that a refit has learned its held-out rows.
type RowDifferences struct {
	N               int
	Unseen, Current Difference
	beyond          bool // an output is beyond the support

	// Against the last refit: of so many rows. Among the latest events copies count as in the held-out rows.
	Refit   Difference
	Counted int
	labels  [labelParts]labelDifference // the same by label
}

// labelDifference is that of so many rows of a part of the labels.
type labelDifference struct {
	n int
	Difference
}

// losesLabel reports whether the update is worse than its refit on the latest events of a part of the labels. A flood
// of one label gains much on this label, and loses the others.
func (d *RowDifferences) losesLabel(frequencies float64) bool {
	return slices.ContainsFunc(d.labels[:], func(of labelDifference) bool {
		return of.n >= GuardLeast && of.isWorse(GuardWindow, frequencies)
	})
}

func (d *RowDifferences) isWorse(margin, frequencies float64) bool {
	return d.N >= GuardLeast && d.Unseen.isWorse(margin, frequencies) && d.Current.isWorse(0, frequencies)
}

// lossDifferences are those of losses, where the task has any, and of squares, where labels are numbers.
type lossDifferences struct{ losses, squares RowDifferences }

// Judge compares an update with what consumers have, with the refit that it starts from and with the losses that rows
// had before anything learned them. It returns "" where consumers may have the update. O(GuardSize) scores of each
// model.
func (g *Guard) Judge(update, current, refit *fitted.FixedModel) HeldBack {
	if *current == *update {
		return ""
	}
	p := &guardPass{
		guard:   g,
		labels:  g.heldLabels(),
		squares: g.squareBound(),
		update:  fitted.NewFrozenScorer(update),
		current: fitted.NewFrozenScorer(current),
		refit:   fitted.NewFrozenScorer(refit),
		most:    math.MaxInt,
	}
	held := p.compare(&g.Held)
	flood := g.findFlood(p.labels)
	p.most = flood.copies
	latest := p.compare(&g.latest)
	p.refit = nil
	recent := p.compare(&g.recent)
	clear(g.names) // those of other rows would be kept for ever
	return cmp.Or(verdict(&held.losses, &recent.losses, &latest.losses, g.frequencyLoss(), flood),
		verdict(&held.squares, &recent.squares, &latest.squares, g.variance(), flood))
}

// verdict decides by one kind of loss. Rows that came before the latest ones say nothing where what labels mean has
// changed: the latest events gain by the update against its refit. What consumers have is not asked, which may have
// followed the change already: each update that follows it further gains less by the last one, and loses more on what
// was.
func verdict(held, recent, latest *RowDifferences, frequencies float64, of flood) HeldBack {
	changed := latest.Counted >= GuardLeast && !of.labels && !of.name && !of.stuck &&
		latest.Refit.isBetter(0) && !latest.losesLabel(frequencies)
	// Each step that follows a flood may be too small to be shown on the held-out rows alone. Against their losses before
	// they were learned it may lose all that the refit knows of them, and against the refit all that was learned since.
	flooded := of.name || of.stuck || of.labels && of.gone || latest.losesLabel(frequencies)
	lost := held.Unseen.exceeds(guardMargin) || held.Refit.exceeds(guardMargin) || held.Current.exceeds(guardMargin)
	switch {
	case held.beyond || recent.beyond || latest.beyond:
		return HeldBackOutputs
	case latest.isWorse(GuardWindow, frequencies) || recent.isWorse(GuardWindow, frequencies) && !changed:
		return HeldBackWindow
	case held.isWorse(guardMargin, frequencies) && !changed,
		flooded && held.N >= GuardLeast && lost:
		return HeldBackHoldout
	}
	return ""
}

// guardPass is one comparison.
type guardPass struct {
	guard           *Guard
	labels          []float64 // of the held-out rows, sorted
	squares         float64   // bound of squares
	update, current *fitted.Scorer
	refit           *fitted.Scorer // of the held-out rows and the latest events; nil of others
	most            int            // copies of one row that count
	copies          map[uint64]int
}

// compare scores the rows of a set with both models. The strata weigh as in the held-out rows, where there are any: of
// a flood with one label, most events have that label, and the other one would not count.
func (p *guardPass) compare(set *fitted.HoldoutSet) (of lossDifferences) {
	p.copies = make(map[uint64]int)
	weights := &p.guard.Held
	if Seen(weights) == 0 {
		weights = set
	}
	for s := range set {
		rows := set[s].Rows
		if len(rows) == 0 {
			continue
		}
		var losses, squares PairedLosses
		for i := range rows {
			beyond := p.score(&rows[i], &losses, &squares)
			of.losses.beyond = of.losses.beyond || beyond
		}
		share := weights[s].Seen / Seen(weights)
		losses.AddTo(&of.losses, share)
		squares.AddTo(&of.squares, share)
	}
	return of
}

// PairedLosses are those of the rows of a stratum.
type PairedLosses struct {
	update, unseen, current []float64
	counted, refit          []float64
	parts                   []int // of the labels of counted
}

func (l *PairedLosses) Add(update, unseen, current, limit float64) {
	l.update, l.unseen = append(l.update, min(update, limit)), append(l.unseen, min(unseen, limit))
	l.current = append(l.current, min(current, limit))
}

// count adds a row that the update is compared with its refit on.
func (l *PairedLosses) count(update, refit, limit float64, part int) {
	l.counted, l.refit = append(l.counted, min(update, limit)), append(l.refit, min(refit, limit))
	l.parts = append(l.parts, part)
}

// AddTo adds a stratum of a share of all rows.
func (l *PairedLosses) AddTo(of *RowDifferences, share float64) {
	if of.N += len(l.update); len(l.update) == 0 {
		return
	}
	of.Counted += len(l.counted)
	for _, d := range []struct {
		of              *Difference
		update, against []float64
	}{{&of.Unseen, l.update, l.unseen}, {&of.Current, l.update, l.current}, {&of.Refit, l.counted, l.refit}} {
		if len(d.update) == 0 {
			continue
		}
		paired := make([]float64, len(d.update))
		floats.SubTo(paired, d.update, d.against)
		d.of.Mean += share * stat.Mean(paired, nil)
		d.of.Variance += share * share * stat.PopVariance(paired, nil) / float64(len(paired))
		d.of.Against += share * stat.Mean(d.against, nil)
	}
	var paired, against [labelParts][]float64
	for i, part := range l.parts {
		paired[part] = append(paired[part], l.counted[i]-l.refit[i])
		against[part] = append(against[part], l.refit[i])
	}
	for part, d := range paired {
		if len(d) > 0 {
			of.labels[part] = labelDifference{len(d), Difference{Mean: stat.Mean(d, nil),
				Variance: stat.PopVariance(d, nil) / float64(len(d)), Against: stat.Mean(against[part], nil)}}
		}
	}
}

// score adds the losses on a row, and reports whether an output of the update is beyond the support.
func (p *guardPass) score(row *fitted.GuardRow, losses, squares *PairedLosses) (beyond bool) {
	var ev event.Event
	g := p.guard
	targets, outputs := make([]float64, g.target.Outputs()), make([]float64, g.target.Outputs())
	if rows.DecodeEvent(&ev, row.Payload, g.names) != nil || !g.target.Encode(targets, &ev) {
		return false
	}
	g.Tables.Join(&ev)
	lossOf := func(s *fitted.Scorer) fitted.RowLoss {
		s.Outputs(outputs, &ev)
		o := evaluate.Outcome(g.target, &ev, outputs, targets)
		return fitted.RowLoss{Loss: o.Loss, Square: o.Square}
	}
	if row.Of != p.current.FixedModel {
		row.Of, row.Current = p.current.FixedModel, lossOf(p.current)
	}
	counts := false
	if p.refit != nil {
		key := g.last.of(&ev)
		p.copies[key]++
		counts = p.copies[key] <= p.most
		if row.OfRefit != p.refit.FixedModel {
			row.OfRefit, row.Refit = p.refit.FixedModel, lossOf(p.refit)
		}
	}
	own := lossOf(p.update)
	for _, v := range outputs {
		beyond = beyond || math.IsNaN(v) ||
			g.outputs > 0 && math.Abs(v) >= g.outputs // a model with deltas keeps the limit
	}
	if !g.target.IsNumeric() || g.target.Link != format.Identity {
		losses.Add(own.Loss, row.Unseen.Loss, row.Current.Loss, g.Limit)
		if counts {
			losses.count(own.Loss, row.Refit.Loss, g.Limit, g.part(p.labels, row.Label))
		}
	}
	if g.target.IsNumeric() {
		squares.Add(own.Square, row.Unseen.Square, row.Current.Square, p.squares)
		if counts {
			squares.count(own.Square, row.Refit.Square, p.squares, g.part(p.labels, row.Label))
		}
	}
	return beyond
}

// squareBound bounds one squared error: by the square of three times the range of nine in ten labels. +Inf without
// labels that differ.
func (g *Guard) squareBound() float64 {
	labels := append(labels(&g.Held), labels(&g.recent)...)
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
func (g *Guard) variance() float64 {
	labels := labels(&g.Held)
	if len(labels) < 2 || !g.target.IsNumeric() {
		return 0
	}
	return min(stat.Variance(labels, nil), g.squareBound())
}

// frequencyLoss returns the loss of a prediction by label frequencies alone: their entropy for a binary label, else
// that of equally likely labels.
func (g *Guard) frequencyLoss() float64 {
	if g.target.Task != event.Binary {
		return math.Log(float64(g.target.Outputs() + 1))
	}
	if total := Seen(&g.Held); total > 0 {
		p := g.Held[1].Seen / total
		return stat.Entropy([]float64{p, 1 - p})
	}
	return 0
}

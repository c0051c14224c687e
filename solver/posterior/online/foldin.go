package online

import (
	"math"
	"slices"

	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
)

// DefaultRates are the shares of its evidence that an entity keeps at each of its events, one posterior each; their
// mean is mixed by recent loss, for each field separately. On two rating streams the mix beat the best single rate.
// Chosen by hand.
var DefaultRates = []float64{1, 0.97, 0.9}

// FurtherRates are those of fields beyond the first that forgets: one, so that learning takes half as long again and no
// longer. Chosen by hand.
var FurtherRates = []float64{1, 0.95}

// How fast the losses that decide the mix fade: over all events and over the entity's own. Chosen by hand.
const (
	lossFade       = 0.999
	lossGain       = 0.02
	entityLossFade = 0.99
	// of one event, five deviations of a Gaussian label: one outlier does not decide the mix for thousands of events
	mixLossMax = 25
)

// FoldIn is the live posterior between refits: rows of features that events have touched since the last refit, on top
// of a frozen State. A row of a forgetting field keeps one posterior per rate and its value is their mean, weighted
// by recent loss; a mean of rows is a row, so the live model is an ordinary model. The caller numbers the rows
// (slots) and decides which features have one. Not safe for concurrent use.
type FoldIn struct {
	Frozen *posterior.State // of the last refit; read, never written, and shared with who made it
	rates  [][]float64      // per field, the shares of evidence kept at an event; 1 keeps everything
	Rows   []LiveRow        // by slot
	Loss   [][]float64      // per field and rate, over all events

	widened []float64 // per field, the share of the refit's evidence that forgetting versions begin with
	// per field, the shares to which Widen has taken its rows back; each row takes them up when it is asked for next
	widening  [][]float64
	ColdStart *coldStart // before the first refit: learns θ and scale from labels; nil after it

	Event  event  // the event in hand, as Gather left it
	Layout layout // the algebra of shared or separate outputs, over Frozen

	// What mix computed last is good until what it follows from changes: changes counts the changes of rows and of
	// their losses.
	mixed   []mixedRow
	Changes int64 // also moved on by callers that write Rows or Loss themselves

	Zero      []float64   // q zeros: the mean of a row that nothing is known of
	prior     [][]float64 // per field, prior covariance
	increment []float64   // evidence and right side of one event
	gradient  []float64   // q, scratch of agree
	Events    int64       // learned
	Agreement []Agreement // of the last event
}

// Agreement measures how far the gradient of an event's loss by the row of a name agrees with those of the name's
// events before: its length along their sum. While the model is right its mean is 0, however skewed labels are, for
// what is wrong with a prediction does not follow from what was; where a name has changed it is above. A cosine has
// no such mean: where labels are rare, nearly all events pull a right model the same way, by little.
type Agreement struct {
	Field     int32
	Along     float64
	Deviation float64 // that the model gives Along, of one binary label; 0 of others
}

// How agreement is taken: gradients of a row fade at each of its events, a row has some before it is asked, and is
// asked once in trendGap events at most, so that one entity with many events in a row, as in a session, does not
// decide. Chosen by hand.
const (
	trendFade = 0.9
	trendSeen = 3
	trendGap  = 200
)

// Agreements returns those of the event that was learned last, for as many of its rows as have one. They are good until
// the next.
func (f *FoldIn) Agreements() []Agreement { return f.Agreement }

// deviate returns the deviation of the gradient of an event with one binary label, in units of its length:
// √p(1−p)/|y−p|.
// It is 0 for other labels.
func (f *FoldIn) deviate(target []float64) float64 {
	if !f.Frozen.IsBinary() {
		return 0
	}
	// √p(1−p)/|y−p| is e^{z/2} for y = 1 and e^{−z/2} for y = 0, with p = 1/(1+e^{−z}).
	var out [1]float64
	f.Layout.outputs(out[:])
	if target[0] > 0 {
		return math.Exp(min(out[0], mostLogOdds) / 2)
	}
	return math.Exp(min(-out[0], mostLogOdds) / 2)
}

// mostLogOdds keeps deviations finite. Chosen by hand.
const mostLogOdds = 40

// agree notes the agreement of the entry that was entered, of the event as it found the mixed rows. Its deviation is
// that of deviate.
func (f *FoldIn) agree(row *LiveRow, deviation float64) {
	f.Layout.gradient(f.gradient)
	// A gradient that is no number must not enter the trend: it would stay there.
	g := norm(f.gradient)
	if row.seen >= trendSeen && (row.asked == 0 || f.Events-row.asked >= trendGap) {
		if along := floats.Dot(f.gradient, row.trend) / norm(row.trend); !math.IsNaN(along) && !math.IsInf(along, 0) {
			row.asked = f.Events
			f.Agreement = append(f.Agreement, Agreement{row.field, along, deviation * math.Abs(along)})
		}
	}
	if math.IsNaN(g) || math.IsInf(g, 0) {
		return
	}
	// The event joins the trend after it was compared with it, never before.
	trend := row.trend[:len(f.gradient)]
	for a, v := range f.gradient {
		trend[a] = trendFade*trend[a] + v
	}
	row.seen++
}

// norm returns the Euclidean norm: the root of the sum of squares, unless that leaves the range of numbers, since a
// division for each number, as floats.Norm has it, costs more than what it is a part of.
func norm(v []float64) float64 {
	square := 0.0
	for _, x := range v {
		square += x * x
	}
	if square > 1e-290 && square < 1e290 {
		return math.Sqrt(square)
	}
	return floats.Norm(v, 2)
}

// event is the example that a fold-in works on: its values, and per entry the mean row, the covariance and, with
// groups, the group; alone as in RowView.
type event struct {
	value []float64
	Mean  [][]float64
	cov   [][]float64
	group []int32
	alone []bool
}

// rowMath is what a fold-in asks of the form of the model: sharedRows or outputRows.
type layout interface {
	// rebias is called when θ has changed.
	rebias()
	// evidenceSize is the length of a row's evidence.
	evidenceSize() int
	// Predict takes up the event.
	Predict(ev *event)
	// outputs stores the outputs of the event in dst (length m).
	outputs(dst []float64)
	// Observe sets the pseudo-observation of the event's label at the current rows.
	Observe(target []float64, weight float64)
	// correct sets it to what a label in place of another one adds.
	correct(from, to []float64, weight float64)
	// accumulate adds it to the zeroed evidence and right side of entry e.
	accumulate(evidence, right []float64, e int)
	// enter takes up entry e of the event, which gradient and LossWith then refer to.
	enter(e int)
	// LossWith is the mixing loss of the event if the entry had the given mean row, or as it is for nil, which needs no
	// entry.
	LossWith(target []float64, mean []float64) float64
	// gradient stores the gradient of the log-likelihood of the event by the row of the entry, at its mean.
	gradient(dst []float64)
	// solve stores the posterior mean that follows from prior precisions and evidence, and the covariance unless it is
	// nil.
	solve(evidence, right, prior, mean, cov []float64)
	// solvePair is solve for two rows without covariances.
	solvePair(evidence, right [2][]float64, prior []float64, mean [2][]float64)
	// restore is its inverse. A covariance at the edge of rounding carries no usable evidence: it leaves zeros.
	restore(evidence, right, prior, mean, cov []float64)
}

// mixedRow is the mean row of an entry of the event, mixed from its versions.
type mixedRow struct {
	mean    []float64
	weights []float64 // of the versions
	slot    int32
	changes int64
}

// Feature names one feature of an event: Row is the slot of its live row or -1, Base its column in the refit's state or
// -1.
type Feature struct {
	Field, Row, Base int32 // Field: an index of the schema's categorical and numeric fields
}

type LiveRow struct {
	field int32
	// versions × (packed + q): without the prior's precision, which is added when solving, and the right side
	evidence []float64
	Mean     []float64 // versions × q
	cov      []float64 // packed covariance of the middle version
	Loss     []float64 // versions: the entity's own recent loss, per rate
	trend    []float64 // q, of forgetting rows: the gradients of their events, fading
	seen     int32     // events in trend
	widened  int32     // how many of the field's widenings it has taken up
	asked    int64     // events of the fold-in when its agreement was last reported
	numbers  []float64 // all of these, in one slice: an event brings as few pieces of memory into the caches as may be
}

// NewFoldIn starts from the posterior of the last refit, or from New with no features before there is one. rates has
// the rates of each field at which its entities forget, the slowest first; fields with less than two keep everything.
func NewFoldIn(base *posterior.State, rates [][]float64) *FoldIn {
	q := base.RowSize()
	f := &FoldIn{
		Frozen: base, rates: rates, Loss: make([][]float64, base.NumFields), Layout: newSharedRows(base),
		Zero: make([]float64, q), prior: make([][]float64, base.NumFields), widened: make([]float64, base.NumFields),
		widening: make([][]float64, base.NumFields),
	}
	if base.Separate {
		f.Layout = newOutputRows(base)
	}
	for i := range f.widened {
		f.widened[i] = 1
		if len(rates[i]) > 1 {
			f.Loss[i] = make([]float64, len(rates[i]))
		}
	}
	f.increment, f.gradient = make([]float64, f.Layout.evidenceSize()+q), make([]float64, q)
	f.spreadPrior()
	if len(base.Field) == 0 {
		f.ColdStart = newColdStart(base)
	}
	return f
}

// spreadPrior keeps the prior covariances in step with the prior precisions.
func (f *FoldIn) spreadPrior() {
	for i := range f.prior {
		f.prior[i] = make([]float64, f.Frozen.CovarianceSize())
		for a, d := range f.Frozen.PrecisionOf(i)[:f.Frozen.Free(i)] {
			f.prior[i][f.Frozen.Variance(a)] = 1 / d
		}
	}
}

// Base returns the state that the live posterior is based on.
func (f *FoldIn) Base() *posterior.State { return f.Frozen }

// InheritLosses takes over what the rates have earned so far, so that a refit does not forget which rate suits the
// stream.
func (f *FoldIn) InheritLosses(old *FoldIn) {
	if old == nil || len(old.Loss) != len(f.Loss) {
		return
	}
	for i, loss := range old.Loss {
		copy(f.Loss[i], loss)
	}
	f.Changes++
}

// RateLosses returns, for each field, what each of its rates has lost of late over all events: they decide between
// the rates, in addition to an entity's own losses. Fields that keep everything have none.
func (f *FoldIn) RateLosses() [][]float64 {
	losses := make([][]float64, len(f.Loss))
	for i, l := range f.Loss {
		losses[i] = slices.Clone(l)
	}
	return losses
}

// Predict stores the outputs of an event under the mixed rows in dst (length m). Features without a live row count with
// the refit's row, or not at all. O(nnz·q), with separate outputs O(nnz·(m + k) + m·k).
func (f *FoldIn) Predict(dst []float64, features []Feature, values []float64) {
	f.Gather(features, values, nil)
	f.Layout.Predict(&f.Event)
	f.Layout.outputs(dst)
}

// Gather fills the event with its rows: mixed, but the first version alone of those of the steady fields, nil for none.
func (f *FoldIn) Gather(features []Feature, values []float64, steady []bool) {
	v := &f.Event
	v.value, v.Mean, v.cov, v.group, v.alone = values, v.Mean[:0], v.cov[:0], v.group[:0], v.alone[:0]
	for len(f.mixed) < len(features) {
		f.mixed = append(f.mixed, mixedRow{mean: make([]float64, len(f.Zero)), slot: -1})
	}
	for e, feature := range features {
		if f.Frozen.Group != nil {
			v.group = append(v.group, f.Frozen.Group[feature.Field])
		}
		if f.Frozen.MainOnly != nil {
			v.alone = append(v.alone, f.Frozen.MainOnly[feature.Field])
		}
		switch {
		case feature.Row >= 0:
			row := &f.Rows[feature.Row]
			// Before the row is read: widening is put off until somebody asks.
			f.widen(row)
			mean := row.Mean[:len(f.Zero)]
			if len(row.Loss) > 0 && (steady == nil || !steady[feature.Field]) {
				mean = f.mix(&f.mixed[e], feature.Row)
			}
			v.Mean, v.cov = append(v.Mean, mean), append(v.cov, row.cov)
		case feature.Base >= 0:
			m, c := f.Frozen.Row(int(feature.Base))
			v.Mean, v.cov = append(v.Mean, m), append(v.cov, c)
		default:
			v.Mean, v.cov = append(v.Mean, f.Zero), append(v.cov, f.prior[feature.Field])
		}
	}
}

// mix returns the mean of the versions of the row in a slot, weighted by recent loss. It is kept in to, and computed
// again only if something changed.
func (f *FoldIn) mix(to *mixedRow, slot int32) []float64 {
	if to.slot != slot || to.changes != f.Changes {
		to.slot, to.changes = slot, f.Changes
		f.weigh(to)
		f.average(to)
	}
	return to.mean
}

// weigh sets the weights of the versions from their losses.
func (f *FoldIn) weigh(to *mixedRow) {
	row := &f.Rows[to.slot]
	all := f.Loss[row.field]
	own := row.Loss[:len(all)]
	if cap(to.weights) < len(all) {
		to.weights = make([]float64, len(all))
	}
	weights := to.weights[:len(all)]
	least := math.Inf(1)
	for g, l := range all {
		weights[g] = l + own[g] // the losses over all events are a prior for the entity's own
		least = min(least, weights[g])
	}
	total := 0.0
	for g, l := range weights {
		w := 1.0
		// exp(−½ loss) relative to the best, so that the largest weight is 1 and none overflows. An infinite least
		// leaves equal weights: l − least is NaN then, and w stays 1.
		if more := l - least; more > 0 {
			w = math.Exp(-0.5 * more)
		}
		weights[g] = w
		total += w
	}
	for g := range weights {
		weights[g] /= total
	}
	to.weights = weights
}

// average sets the mean from the weights and the versions.
func (f *FoldIn) average(to *mixedRow) {
	row, q := &f.Rows[to.slot], len(to.mean)
	clear(to.mean)
	for g, w := range to.weights {
		mean := to.mean
		for a, m := range row.Mean[g*q : g*q+q][:len(mean)] {
			mean[a] += w * m
		}
	}
}

// Place starts the live row in the given slot (at most one past the last) for a feature, from its refit's row or its
// field's prior.
// Whatever the slot held is gone.
func (f *FoldIn) Place(slot int32, feature Feature) {
	if int(slot) == len(f.Rows) {
		f.Rows = append(f.Rows, LiveRow{})
	}
	f.initialise(&f.Rows[slot], feature)
	f.Changes++
}

// Begin lets the live row in the given slot, which Place has started from its field's prior, begin at a mean: the prior
// is around it.
func (f *FoldIn) Begin(slot int32, mean []float64) {
	row := &f.Rows[slot]
	q, p := len(f.Zero), len(f.increment)-len(f.Zero)
	precision := f.Frozen.PrecisionOf(int(row.field))
	for g := range len(row.Mean) / q {
		copy(row.Mean[g*q:(g+1)*q], mean)
		right := row.evidence[g*(p+q)+p : (g+1)*(p+q)]
		for a, d := range precision[:f.Frozen.Free(int(row.field))] {
			right[a] = d * mean[a]
		}
	}
	f.Changes++
}

// initialise turns the refit's row, or the field's prior, into evidence: A − D and A·mean.
func (f *FoldIn) initialise(row *LiveRow, feature Feature) {
	q, p := len(f.Zero), len(f.increment)-len(f.Zero)
	// One slice holds loss, versions × (mean, evidence, right side), the covariance and the trend; below it is cut up.
	losses := len(f.Loss[feature.Field])
	versions := max(1, losses)
	row.field = feature.Field
	c := f.Frozen.CovarianceSize()
	trend := min(losses, 1) * q
	size := losses + versions*(p+2*q) + c + trend
	// A slot that held a row of the same shape keeps its memory: places of evicted names are taken again all the time.
	if len(row.numbers) != size {
		row.numbers = make([]float64, size)
	}
	clear(row.numbers)
	rest := row.numbers
	part := func(n int) []float64 {
		out := rest[:n:n]
		rest = rest[n:]
		return out
	}
	row.Loss, row.Mean, row.cov, row.evidence = part(losses), part(versions*q), part(c), part(versions*(p+q))
	row.trend, row.seen, row.asked, row.widened = part(trend), 0, 0, int32(len(f.widening[feature.Field]))
	if feature.Base < 0 {
		copy(row.cov, f.prior[feature.Field])
		return
	}
	mean, cov := f.Frozen.Row(int(feature.Base))
	copy(row.cov, cov)
	if f.Frozen.IsMainOnly(int(feature.Field)) {
		row.evidence[0], row.evidence[p] = 1/cov[0]-f.Frozen.PrecisionOf(int(feature.Field))[0], mean[0]/cov[0]
	} else {
		f.Layout.restore(row.evidence[:p], row.evidence[p:p+q], f.Frozen.PrecisionOf(int(feature.Field)), mean, cov)
	}
	// All versions begin alike: they differ by what they forget from here on.
	for g := range versions {
		copy(row.evidence[g*(p+q):], row.evidence[:p+q])
		copy(row.Mean[g*q:], mean)
	}
	if share := f.widened[feature.Field]; share < 1 && versions > 1 {
		f.widenTo(row, share)
	}
}

// Row appends the mean row of a feature to dst as State has it: 1 linear weight, with separate outputs m, then NumBasis
// coordinates.
func (f *FoldIn) Row(dst []float64, feature Feature, steady []bool) []float64 {
	f.Gather([]Feature{feature}, []float64{1}, steady)
	return append(dst, f.Event.Mean[0]...)
}

// State returns the live posterior over the given features, one column each: what a refit continues from. Rows are
// mixed as for the next event, but those of steady fields (nil: none), which are as they are at the slowest rate.
// Covariances are those of the middle rate.
func (f *FoldIn) State(features []Feature, steady []bool) *posterior.State {
	s := f.shared()
	s.Covariance = make([]float64, len(features)*s.CovarianceSize())
	f.fill(s, features, steady)
	return s
}

// Means is State without covariances, which are nearly all of it: what an update publishes.
func (f *FoldIn) Means(features []Feature, steady []bool) *posterior.State {
	s := f.shared()
	f.fill(s, features, steady)
	return s
}

// shared returns a state without rows that is otherwise a copy of the base.
func (f *FoldIn) shared() *posterior.State {
	// The rows are left out before the copy, not after it: they are nearly all of a state.
	s := *f.Frozen
	s.Field, s.Mean, s.Covariance = nil, nil, nil
	return s.Clone()
}

// fill gives a state rows, with covariances if it has room for them.
func (f *FoldIn) fill(s *posterior.State, features []Feature, steady []bool) {
	q, one := s.RowSize(), []float64{1}
	s.Field, s.Mean = make([]int32, len(features)), make([]float64, len(features)*q)
	for j := range features {
		s.Field[j] = features[j].Field
		f.Gather(features[j:j+1], one, steady)
		copy(s.Mean[j*q:], f.Event.Mean[0])
		if s.Covariance != nil {
			_, c := s.Row(j)
			copy(c, f.Event.cov[0])
		}
	}
}

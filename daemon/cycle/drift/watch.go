package drift

import (
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
)

// Detectors are the tests that there are. To add one, write its value in a file of this package and its row here.
var Detectors = []Kind{
	gradientsKind,
	lossesKind,
}

// Kind is what there is to say of a detector. A Watch, and the labels of metrics, know detectors by Detectors alone.
type Kind struct {
	// Name is that in configs/docs/components.md.
	Name string
	// Doc says what it tests.
	Doc string
	// Applies reports whether a model has it.
	Applies func(m *config.Model) bool
	// Groups returns the groups that a model can have alarms of: values of a label of metrics, which no other detector of
	// the model has.
	Groups func(m *config.Model) []string
	// New returns it, for categorical fields of those names.
	New func(names []string) Detector
}

// Detector is a test with a bound on false alarms. O(1) an event, in bounded memory. It belongs to one goroutine at a
// time.
type Detector interface {
	// Add takes up an event, and returns the alarms that it raises. The test then begins anew.
	Add(o *Observed) []Alarm
}

// Observed is an event that was learned.
type Observed struct {
	Event  int64           // how many were learned since the start, with this one
	FoldIn *experts.FoldIn // that learned it; nil where that is not in closed form, or the label came later
	// losses of what was live and of the last refit, NaN without one. They are not numbers where FoldIn is not nil.
	Live, Refit float64
}

// What an alarm of a field does: what the forgetting versions of its names know is reduced to a share. The fold-in is
// kept in addition to those of the next refits, whose rows are mostly from before the change. Derived: driftTogether.
// The others are chosen by hand.
const (
	DriftWiden    = 0.01
	driftLasts    = 50_000
	driftTogether = LossBlock << (lossLengths - 1) // events between alarms of losses and of their excess, of one change
	// Events after a start, or an alarm, in which nothing is tested: a young model fits badly, which looks like a
	// change.
	driftRest = 20_000
)

// Watch has the detectors of a model.
type Watch struct {
	Detectors []Detector
	Events    int64 // learned
	Alarm     int64 // events at the last alarm, 0 without one
	observed  Observed
}

// NewWatch returns the detectors of a model, with categorical fields of those names.
func NewWatch(m *config.Model, names []string) (w Watch) {
	for _, k := range Detectors {
		if k.Applies(m) {
			w.Detectors = append(w.Detectors, k.New(names))
		}
	}
	return w
}

// DriftGroups returns the groups that a model can have alarms of.
func DriftGroups(m *config.Model) (groups []string) {
	for _, k := range Detectors {
		if k.Applies(m) {
			groups = append(groups, k.Groups(m)...)
		}
	}
	return groups
}

// DriftAlarm is an alarm of the drift detector.
type DriftAlarm struct {
	Event int64  // how many had been learned since the start
	Group string // one of DriftGroups
}

// MaxAlarms bounds the alarms that wait to be taken. Chosen by hand.
const MaxAlarms = 1000

// Alarm is a DriftAlarm with the categorical field that it is of, -1 for none.
type Alarm struct {
	DriftAlarm
	Field int32
}

// Learned takes up an event that was learned by foldIn, nil for another learner, and returns the alarms. live and refit
// are what the live model and the last refit lost, NaN without one.
func (w *Watch) Learned(foldIn *experts.FoldIn, live, refit float64) (alarms []Alarm) {
	w.Events++
	w.observed = Observed{Event: w.Events, FoldIn: foldIn, Live: live, Refit: refit}
	for _, d := range w.Detectors {
		alarms = append(alarms, d.Add(&w.observed)...)
	}
	if len(alarms) > 0 {
		w.Alarm = w.Events
	}
	return alarms
}

// Lasts reports whether a change is so recent that most rows of a refit are older.
func (w *Watch) Lasts() bool { return w.Alarm > 0 && w.Events-w.Alarm < driftLasts }

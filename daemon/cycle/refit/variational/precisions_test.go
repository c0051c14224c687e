package variational

import (
	"math"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// TestPrecisionsThatPredictBetter: a stage begins with what the last refit chose, unless the other way predicts the
// select rows better by more than chance; one that the clock cut short does not count, and where they are not compared
// there is one stage.
func TestPrecisionsThatPredictBetter(t *testing.T) {
	t.Parallel()
	models := map[fitted.PrecisionStart]*solver.Model{PrecisionsAnew: {}, PrecisionsCarried: {}}
	prior := posterior.Prior{Linear: 2, Basis: 3, Cap: 5, Noise: 1}
	run := func(last fitted.PrecisionStart, both, cut bool, anew, carried []float64) (fit *task.VariationalFit,
		began fitted.PrecisionStart, compared bool, stages int) {
		state := posterior.New(posterior.Gaussian, 1, 1, []int32{0}, 1, prior)
		state.Precision[1] = 0.25 // learned by the last stage
		c := &task.Continuation{State: state, Prior: prior, Last: last, Both: both, Budget: &task.Budget{}}
		c.Sweep = func(s *posterior.State, b *task.Budget) (*task.VariationalFit, error) {
			stages++
			at := PrecisionsCarried
			if s.Precision[1] == prior.Cap {
				at = PrecisionsAnew
			} else if s.Precision[1] != 0.25 {
				t.Errorf("sweeps begin with a precision of %g", s.Precision[1])
			}
			if cut && stages == 2 {
				b.Cut = &format.CutShort{}
			}
			return &task.VariationalFit{Model: models[at]}, nil
		}
		c.Losses = func(m *solver.Model) []float64 {
			if m == models[PrecisionsAnew] {
				return anew
			}
			return carried
		}
		fit, began, compared, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		if fit.Model != models[began] {
			t.Errorf("%s is said to have begun, the stage is of the other", began)
		}
		return fit, began, compared, stages
	}
	low, high, equal := []float64{1, 1.1, 1, 1.1}, []float64{2, 2, 2.1, 2.1}, []float64{.5, 1.6, .5, 1.5}
	for _, test := range []struct {
		last          fitted.PrecisionStart
		both, cut     bool
		anew, carried []float64
		want          fitted.PrecisionStart
	}{
		{"", true, false, low, high, PrecisionsAnew},
		{"", true, false, high, low, PrecisionsCarried},
		{PrecisionsCarried, true, false, low, high, PrecisionsAnew},
		{PrecisionsCarried, true, false, low, equal, PrecisionsCarried}, // it may be chance
		{PrecisionsAnew, true, false, equal, low, PrecisionsAnew},
		{PrecisionsAnew, true, true, high, low, PrecisionsAnew},
		{PrecisionsAnew, false, false, high, low, PrecisionsAnew},
		{PrecisionsCarried, false, false, low, high, PrecisionsCarried},
		{PrecisionsCarried, true, false, nil, nil, PrecisionsCarried},
	} {
		_, began, compared, stages := run(test.last, test.both, test.cut, test.anew, test.carried)
		want := 1
		if test.both {
			want = 2
		}
		if began != test.want || compared != (test.both && !test.cut) || stages != want {
			t.Errorf("%+v: %s in %d stages, compared %t", test, began, stages, compared)
		}
	}
}

// TestEvidenceDecidesWhereRowsDoNot: of select rows with next to none of a label, those that a stage says least of
// count for nothing.
func TestEvidenceDecidesWhereRowsDoNot(t *testing.T) {
	t.Parallel()
	sure, right := &task.VariationalFit{Model: &solver.Model{}, Evidence: -50}, &task.VariationalFit{Evidence: -40}
	c := &task.Continuation{Losses: func(m *solver.Model) []float64 {
		if m == sure.Model {
			return []float64{0, 0, 0}
		}
		return []float64{0.1, 0.1, 0.1}
	}}
	if !isBetter(c, sure, right) {
		t.Error("less loss is not better")
	}
	if c.ByEvidence = true; isBetter(c, sure, right) || !isBetter(c, right, sure) {
		t.Error("less evidence is better")
	}
}

// TestWhenPrecisionsAreCompared: at the first refit that can carry any, at every fourth after one that compared them,
// at one after another was kept back, and after an alarm since the champion's cut, unless the convex stage was better
// than what there is to carry.
func TestWhenPrecisionsAreCompared(t *testing.T) {
	t.Parallel()
	at := func(last fitted.PrecisionChoice, rejections int, alarmAge float64, sweeps int) (fitted.PrecisionChoice, bool) {
		j := &task.Task{
			Process: task.Process{Budget: new(task.Budget)},
			Start: task.Start{Rejections: rejections, Champion: &fitted.Fitted{
				Events:     &format.Counts{Applied: 1000},
				Version:    report.Version{Sweeps: sweeps},
				Precisions: last,
			}},
			Model: new(config.Model),
			Criteria: task.Criteria{
				AlarmAge: alarmAge,
			},
			Rows: task.Rows{
				Sample: &encode.Sample{Events: format.Counts{Applied: 5000}},
			},
		}
		return lastPrecisions(j)
	}
	never := math.Inf(1)
	for _, test := range []struct {
		last       fitted.PrecisionChoice
		rejections int
		alarmAge   float64
		want       bool
	}{
		{fitted.PrecisionChoice{}, 0, never, true},
		{fitted.PrecisionChoice{Stage: PrecisionsAnew}, 0, never, false},
		{fitted.PrecisionChoice{Stage: PrecisionsCarried, Refits: PrecisionRefits - 2}, 0, never, false},
		{fitted.PrecisionChoice{Stage: PrecisionsCarried, Refits: PrecisionRefits - 1}, 0, never, true},
		{fitted.PrecisionChoice{Stage: PrecisionsAnew}, 1, never, true},
		{fitted.PrecisionChoice{Stage: PrecisionsAnew}, 0, 3999, true},
		{fitted.PrecisionChoice{Stage: PrecisionsAnew}, 0, 4001, false},
	} {
		if got, both := at(test.last, test.rejections, test.alarmAge, 2); got != test.last || both != test.want {
			t.Errorf("%+v: %+v, compared %t", test, got, both)
		}
		got, both := at(test.last, test.rejections, test.alarmAge, 0)
		if _, next := at(got, 0, never, 2); both || got.Stage != "" || got.Gaussian != "" || !next {
			t.Errorf("%+v: %+v after a stage that was not published, compared %t and next time %t", test, got, both,
				next)
		}
	}
}

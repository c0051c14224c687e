package choose

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// TestSweepsMadeBefore: a stage takes up the sweeps by which the horizon was chosen where they began as it does, and
// they are its own to the bit.
func TestSweepsMadeBefore(t *testing.T) {
	const users, items, n = 30, 20, 800
	r := rand.New(rand.NewPCG(17, 1))
	p := &solver.Problem{
		X:         solver.NewRows(users+items, n, 2*n),
		Outputs:   1,
		Loss:      solver.BinaryLogistic{},
		Field:     make([]int32, users+items),
		NumFields: 2,
	}
	for j := users; j < users+items; j++ {
		p.Field[j] = 1
	}
	for range n {
		p.X.Append([]int32{int32(r.IntN(users)), int32(users + r.IntN(items))}, []float64{1, 1})
		p.Targets = append(p.Targets, float64(2*r.IntN(2)-1))
	}
	prior := posterior.PriorFor(posterior.Logistic, 1)
	state := posterior.New(posterior.Logistic, 1, 2, p.Field, p.NumFields, prior)
	for i := range state.Mean {
		state.Mean[i] = r.NormFloat64() / 4
	}
	by := &task.Sweeping{Problem: p, Prior: prior, Budget: &task.Budget{}}
	j := &task.Task{
		Process: task.Process{Budget: new(task.Budget), Workers: 1},
		Rows: task.Rows{
			Problem: p,
		}}
	made := func(s *posterior.State) *task.Sweeper {
		run, err := variational.NewSweeper(j, s.Clone(), p, prior.Cap, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if err := variational.MakeAhead(run, t.Context(), horizonSweeps); err != nil ||
			len(run.Ahead) != horizonSweeps {
			t.Fatalf("%d sweeps made, error %v", len(run.Ahead), err)
		}
		if reflect.DeepEqual(run.Ahead[0].State, run.State) ||
			!reflect.DeepEqual(run.Ahead[horizonSweeps-1].State, run.State) {
			t.Error("the sweeps made are not one after the other")
		}
		return run
	}
	other := state.Clone()
	other.Bias[0]++
	for _, test := range []struct {
		name  string
		began *posterior.State
		taken bool
	}{{"the same state", state, true}, {"another state", other, false}} {
		before := made(test.began)
		j.Stages.Ahead = before
		run, err := variational.SweeperFor(j, state.Clone(), by)
		if err != nil {
			t.Fatal(err)
		}
		if taken := before.Refit == nil; taken != test.taken || taken && len(run.Ahead) != horizonSweeps {
			t.Errorf("%s: sweeps made before are taken: %t", test.name, taken)
		}
		plain, err := variational.NewSweeper(j, state.Clone(), p, prior.Cap, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range horizonSweeps + 2 {
			got, err := variational.Next(run, t.Context())
			want, failed := variational.Next(plain, t.Context())
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if got.Evidence != want.Evidence || !slices.Equal(got.State.Mean, want.State.Mean) ||
				!slices.Equal(got.State.Covariance, want.State.Covariance) {
				t.Errorf("%s, sweep %d: evidence %.15g, one after the other %.15g", test.name, n+1, got.Evidence,
					want.Evidence)
			}
		}
	}
}

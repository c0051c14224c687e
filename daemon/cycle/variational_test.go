package cycle

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// TestSweepsMadeBefore: a stage takes up the sweeps by which the horizon was chosen where they began as it does, and they are its own to the bit.
func TestSweepsMadeBefore(t *testing.T) {
	const users, items, n = 30, 20, 800
	r := rand.New(rand.NewPCG(17, 1))
	p := &solver.Problem{X: solver.NewRows(users+items, n, 2*n), Outputs: 1, Loss: solver.BinaryLogistic{}, Field: make([]int32, users+items), NumFields: 2}
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
	by := &sweeping{problem: p, prior: prior, budget: &budget{}}
	j := &refitJob{problem: p, workers: 1}
	made := func(s *posterior.State) *sweeper {
		run, err := j.newSweeper(s.Clone(), p, prior.Cap, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if err := run.makeAhead(t.Context(), horizonSweeps); err != nil || len(run.ahead) != horizonSweeps {
			t.Fatalf("%d sweeps made, error %v", len(run.ahead), err)
		}
		if reflect.DeepEqual(run.ahead[0].state, run.state) || !reflect.DeepEqual(run.ahead[horizonSweeps-1].state, run.state) {
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
		j.ahead = before
		run, err := j.sweeperFor(state.Clone(), by)
		if err != nil {
			t.Fatal(err)
		}
		if taken := run == before; taken != test.taken || taken && j.ahead != nil {
			t.Errorf("%s: sweeps made before are taken: %t", test.name, taken)
		}
		plain, err := j.newSweeper(state.Clone(), p, prior.Cap, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range horizonSweeps + 2 {
			got, err := run.next(t.Context())
			want, failed := plain.next(t.Context())
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if got.evidence != want.evidence || !slices.Equal(got.state.Mean, want.state.Mean) || !slices.Equal(got.state.Covariance, want.state.Covariance) {
				t.Errorf("%s, sweep %d: evidence %.15g, one after the other %.15g", test.name, n+1, got.evidence, want.evidence)
			}
		}
	}
}

// TestVectorsThatAreNamed: the variational stage has as many basis vectors as train.variational_basis says, whatever the rows, in cold refits and warm ones,
// and so have updates of it; without, their number goes by the rows.
func TestVectorsThatAreNamed(t *testing.T) {
	for vectors, want := range map[config.Vectors]int{0: 4, 9: 9} {
		m := ratingsModel(func(m *config.Model) { m.Train.MaxBasis, m.Train.Variational = 12, vectors })
		c := newCycle(t, m)
		events := stream(5, 1200)
		for round := range 2 {
			observeAll(c, events)
			ch := refit(t, c, sampleOf(events))
			if ch.posterior == nil {
				t.Fatalf("%d named: refit %d has no variational stage", vectors, round)
			}
			if ch.posterior.NumBasis != want {
				t.Errorf("%d named: %d vectors in refit %d, want %d", vectors, ch.posterior.NumBasis, round, want)
			}
			c.Install(ch)
		}
	}
}

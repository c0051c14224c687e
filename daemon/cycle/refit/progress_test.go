package refit

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestFitProgress: the stages of an offline fit begin at nothing, count up and never pass what they say is the most.
func TestFitProgress(t *testing.T) {
	tier.NotUnderRace(t)
	for _, algorithm := range []string{config.ConditionalGradient, "coordinate_descent"} {
		m := cycletest.RatingsModel(func(m *config.Model) { m.Train.MaxBasis = 2 })
		if algorithm != config.ConditionalGradient {
			m = cycletest.By(m, algorithm, 2)
		}
		events := cycletest.Stream(1, 450)
		var stages []string
		last := 0
		_, err := Fit(
			t.Context(),
			task.FitInput{
				Model:   m,
				Train:   events[:300],
				Valid:   events[300:],
				Workers: 2,
				OnProgress: func(stage, unit string, done, most int) {
					if unit == "" { // how far that is nobody knows
						stages, last = append(stages, stage), 0
						return
					}
					if done == 0 {
						stages, last = append(stages, stage+", "+unit), 0
					}
					if len(stages) == 0 || done < last || most > 0 && done > most || most == 0 {
						t.Errorf("%s: %s: %d of %d %s after %d, stages %v", algorithm, stage, done, most, unit, last,
							stages)
					}
					last = done
				},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		want := "path over λ, basis vectors"
		if algorithm != config.ConditionalGradient {
			want = "path over λ, strengths"
		}
		if len(stages) < 2 || stages[0] != "strengths of the penalty" || stages[1] != want || last == 0 {
			t.Errorf("%s: stages %v, the last at %d; want strengths and %s first", algorithm, stages, last, want)
		}
		if algorithm == config.ConditionalGradient && !slices.Contains(stages, "variational stage, sweeps") {
			t.Errorf("stages %v without the variational one", stages)
		}
	}
}

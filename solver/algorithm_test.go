package solver

import (
	"context"
	"errors"
	"testing"
)

// another is an algorithm that is not ConditionalGradient, but does the same; it fails at a λ.
type another struct {
	ConditionalGradient
	fails float64
	warm  *[]int // basis vectors of what each fit started from, -1 for nothing
}

var errAnother = errors.New("another error")

func (a another) Fit(ctx context.Context, p *Problem, warm *Warm, s Settings) (*Result, error) {
	k := -1
	if warm != nil {
		k = warm.Model.NumBasis
	}
	*a.warm = append(*a.warm, k)
	if s.Lambda == a.fails {
		return nil, errAnother
	}
	return a.ConditionalGradient.Fit(ctx, p, warm, s)
}

// TestPathOfAnotherAlgorithm checks that each λ starts from the one before, that patience ends the path and that an
// error is returned.
func TestPathOfAnotherAlgorithm(t *testing.T) {
	train := plantedRatings(51, 300, 8, 9)
	s := smallSettings()
	s.MaxBasis, s.Tolerance = 3, 1e-2
	lambdas, err := ConditionalGradient{}.Strengths(t.Context(), train, s)
	if err != nil {
		t.Fatal(err)
	}
	var warm []int
	worse := 0.0
	judge := func(*Model) float64 { worse++; return worse }
	points, best, err := Path(t.Context(), train, lambdas, s,
		PathOptions{Algorithm: another{warm: &warm}, Judge: judge, Patience: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(points) != 3 || best != 0 || len(warm) != 3 || warm[0] != -1 {
		t.Fatalf("%d points, best %d, fits from %v; expected the first and two that are worse", len(points), best, warm)
	}
	o := PathOptions{Patience: 2}
	if !o.Ended(points, len(lambdas)) || o.Ended(points[:2], len(lambdas)) || !o.Ended(points[:2], 2) ||
		(PathOptions{}).Ended(points, len(lambdas)) {
		t.Error("a path ends with its last λ or by patience, and not where the clock ends it")
	}
	for i, point := range points[1:] {
		if k := points[i].Result.Model.NumBasis; warm[i+1] != k {
			t.Errorf("fit %d started from %d basis vectors, not the %d of the one before", i+1, warm[i+1], k)
		}
		if point.Lambda != lambdas[i+1] {
			t.Errorf("point %d has λ %g of %g", i+1, point.Lambda, lambdas[i+1])
		}
	}
	if _, _, err := Path(t.Context(), train, lambdas, s, PathOptions{Algorithm: another{warm: &warm,
		fails: lambdas[1]}}); !errors.Is(err, errAnother) {
		t.Errorf("error %v", err)
	}
}

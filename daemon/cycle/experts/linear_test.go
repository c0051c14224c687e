package experts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// linearSetting is of a binary label by user and item.
func linearSetting(t *testing.T) *Setting {
	t.Helper()
	s, err := SettingOf(cycletest.RatingsModel(func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "binary", 0 }))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLinearByDefinition: the linear baseline is logistic regression by AdaGrad, one step of 0.1 for each event.
func TestLinearByDefinition(t *testing.T) {
	l := linearSetting(t).NewLinear()
	bias, weights, squares := 0.0, map[string]float64{}, map[string]float64{}
	r := rand.New(rand.NewPCG(3, 1))
	for i := range 500 {
		user, item := fmt.Sprint("u", r.IntN(9)), fmt.Sprint("i", r.IntN(7))
		ev := &event.Event{Weight: 1, Categorical: []string{user, item}, Label: float64(r.IntN(2))}
		out := bias + weights[user] + weights[item]
		if got := l.Predict(ev)[0]; math.Abs(got-out) > 1e-9 {
			t.Fatalf("event %d: output %.12g, by definition %.12g", i, got, out)
		}
		l.Learn(ev, nil)
		residual := ev.Label - 1/(1+math.Exp(-out))
		bias += 0.1 * residual
		for _, name := range []string{user, item} {
			squares[name] += residual * residual
			weights[name] += 0.1 * residual / math.Sqrt(squares[name]+LeastSquare)
		}
	}
}

// TestLinearIsOfClasses: numbers have other baselines, and its memory is counted where it is.
func TestLinearIsOfClasses(t *testing.T) {
	if s := linearSetting(t); s.LinearFootprint() <= 0 {
		t.Errorf("%d bytes", s.LinearFootprint())
	}
	s, err := SettingOf(cycletest.RatingsModel(nil))
	if err != nil {
		t.Fatal(err)
	}
	if s.NewLinear() != nil || s.LinearFootprint() != 0 {
		t.Errorf("a linear baseline of levels, of %d bytes", s.LinearFootprint())
	}
}

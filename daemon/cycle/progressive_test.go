package cycle

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
)

// TestProgressiveWindow compares the running sums with sums over the outcomes themselves.
func TestProgressiveWindow(t *testing.T) {
	target := newCycle(t, cycletest.RatingsModel(nil)).target
	p := evaluate.NewProgressive(target, 7, true)
	r := rand.New(rand.NewPCG(2, 2))
	var all [][evaluate.NumRoles]evaluate.EventOutcome
	for n := range 100 {
		var o [evaluate.NumRoles]evaluate.EventOutcome
		for i := range o {
			if i != evaluate.Published || n >= 20 {
				o[i].Number(r.NormFloat64())
			}
		}
		all = append(all, o)
		p.Add(&o, evaluate.Compared{})
		last := all[max(0, len(all)-7):]
		for role := range evaluate.NumRoles {
			count, square := int64(0), 0.0
			for _, o := range last {
				if o[role].Present {
					count++
					square += o[role].Square
				}
			}
			if w := p.Window()[role]; w.N != count || math.Abs(w.Square-square) > 1e-9 {
				t.Fatalf("event %d role %d: window %d, %g; by definition %d, %g", n, role, w.N, w.Square, count, square)
			}
		}
	}
	if p.Sums.NoModel != 20 || p.Sums.N != 100 {
		t.Errorf("%d of %d events without a model", p.Sums.NoModel, p.Sums.N)
	}
	b, err := p.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	again := evaluate.NewProgressive(target, 7, true)
	if err := again.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(again.Sums, p.Sums) {
		t.Errorf("sums %+v came back as %+v, error %v", p.Sums, again.Sums, err)
	}
}

// TestWholeLabelsAreKeys: a label has the key that it is written as, whether that was written before or not.
func TestWholeLabelsAreKeys(t *testing.T) {
	target := newCycle(t, cycletest.RatingsModel(nil)).target
	for _, label := range []float64{0, math.Copysign(0, -1), 1, 3, 31, 32, 1000, -1, 2.5, 0.04, 31.5, math.Inf(1),
		math.NaN()} {
		if got, want := experts.LabelKey(target, &event.Event{Label: label}), strconv.FormatFloat(label, 'g',
			experts.LabelDigits, 64); got != want {
			t.Errorf("%g: key %q, want %q", label, got, want)
		}
	}
}

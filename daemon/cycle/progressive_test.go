package cycle

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
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
		if got, want := baselines.LabelKey(target, &event.Event{Label: label}), strconv.FormatFloat(label, 'g',
			baselines.LabelDigits, 64); got != want {
			t.Errorf("%g: key %q, want %q", label, got, want)
		}
	}
}

// TestSumsOfAnotherBuild: predictors of stored sums go by name, whatever their order, and those of the layout by
// position that earlier builds wrote are found. What this build does not know is left out and named.
func TestSumsOfAnotherBuild(t *testing.T) {
	tally := func(n int, square string) string {
		return `{"n":` + strconv.Itoa(n) + `,"loss":0,"square":` + square + `,"abs":0,"correct":0}`
	}
	named := func(name string, n int, square string) string {
		return `{"name":"` + name + `",` + tally(n, square)[1:]
	}
	for name, test := range map[string]struct {
		stored  string
		n       int64
		live    float64
		sgd     int64
		unknown []string
	}{
		"by position": {
			`{"n":30,"no_model":9,"all":[` + tally(21, "5") + `,` + tally(30, "120") + `,` + tally(0, "0") + `,` +
				tally(0, "0") + `,` + tally(29, "8") + `,` + tally(30, "3") + `]}`, 30, 2, 29, nil,
		},
		"by a seventh position": {
			`{"n":30,"no_model":30,"all":[` + tally(0, "0") + `,` + tally(30, "120") + `,` + tally(0, "0") + `,` +
				tally(0, "0") + `,` + tally(29, "8") + `,` + tally(0, "0") + `,` + tally(7, "3") + `]}`, 30, 2, 29,
			[]string{"position 6"},
		},
		"in another order": {
			`{"format":2,"n":30,"no_model":9,"predictors":[` + named("sgd_bias", 29, "8") + `,` +
				named("live", 30, "120") + `]}`, 30, 2, 29, nil,
		},
		"of another predictor": {
			`{"format":2,"n":30,"no_model":9,"predictors":[` + named("forest", 30, "7") + `,` +
				named("live", 30, "120") + `,` + named("", 3, "1") + `]}`, 30, 2, 0, []string{"forest", ""},
		},
		"of a later format": {`{"format":3,"n":30,"live":[1,2]}`, 0, math.NaN(), 0, []string{"format 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCycle(t, cycletest.RatingsModel(nil))
			if err := c.Restore([]byte(test.stored)); err != nil {
				t.Fatal(err)
			}
			p := c.Progressive()
			if live := p.All.Live.RMSE; p.N != test.n || (live == nil) != math.IsNaN(test.live) ||
				live != nil && float64(*live) != test.live {
				t.Errorf("%d events, live %v, want %d and %g", p.N, live, test.n, test.live)
			}
			if n := c.progress.progressive.Sums.All[evaluate.Baseline2].N; n != test.sgd {
				t.Errorf("%d events of sgd_bias, want %d", n, test.sgd)
			}
			if got := c.Unknown(); !slices.Equal(got, test.unknown) {
				t.Errorf("left out %q, want %q", got, test.unknown)
			}
			again, err := c.progress.Sums()
			if err != nil {
				t.Fatal(err)
			}
			next := newCycle(t, cycletest.RatingsModel(nil))
			if err := next.Restore(again); err != nil || next.Unknown() != nil {
				t.Fatalf("%s: %v, left out %q", again, err, next.Unknown())
			}
			if !reflect.DeepEqual(next.progress.progressive.Sums, c.progress.progressive.Sums) {
				t.Errorf("%s came back as %+v", again, next.progress.progressive.Sums)
			}
		})
	}
}

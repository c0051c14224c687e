package experts

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/snapshot/format"
)

// TestResidualsAreGradients: residuals are minus the gradient of the loss, by differences, and no curvature of a class
// is above the largest there is.
func TestResidualsAreGradients(t *testing.T) {
	for _, link := range []string{format.Softmax, format.Logistic, format.Identity} {
		r := residuals{link: link, Noise: evaluate.Fading{Rate: NoiseFade}}
		outputs, targets, got, scratch := []float64{
			0.3,
			-1.2,
			2,
		}, []float64{
			-1,
			1,
			-1,
		}, make([]float64, 3), make([]float64, 3)
		if link == format.Softmax {
			targets = []float64{0, 1, 0}
		}
		if link == format.Identity {
			outputs, targets, got, scratch = outputs[:1], targets[:1], got[:1], scratch[:1]
			r.add(0.5)
		}
		_, curvature := r.of(got, outputs, targets)
		if !(curvature > 0) || link != format.Identity && curvature > 0.5 {
			t.Errorf("%s: curvature %g", link, curvature)
		}
		for c := range outputs {
			const h = 1e-5
			ends := [2]float64{}
			for i, d := range []float64{-h, h} {
				moved := slices.Clone(outputs)
				moved[c] += d
				ends[i], _ = r.of(scratch, moved, targets)
			}
			want := -(ends[1] - ends[0]) / (2 * h)
			if link == format.Identity {
				want *= r.variance()
			}
			if math.Abs(want-got[c]) > 1e-6 {
				t.Errorf("%s, output %d: residual %g, by differences %g", link, c, got[c], want)
			}
		}
	}
}

// TestNeighboursByDefinition compares the nearest neighbours of either window with a sort of all of them by distance,
// around the end of the ring, too.
func TestNeighboursByDefinition(t *testing.T) {
	m := cycletest.NumericModel(5, 3)
	m.Schema.Categorical = []string{"kind"}
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 9))
	n := encode.NewNumberScale(5, target)
	l := newNeighbours(n, target, 1)
	l.window = 2100 // shorter than its slices
	type row struct {
		z     []float64
		name  string
		class int
	}
	var rows []row
	for e := range 2*l.window + 300 {
		for f := range n.Z {
			n.Z[f] = r.NormFloat64()
		}
		ev := &event.Event{Categorical: []string{fmt.Sprint("k", r.IntN(3))}}
		l.Gather(ev)
		if e%400 == 399 {
			for w, size := range []int{shortWindow, l.window} {
				last := rows[max(0, len(rows)-size):]
				order := make([]float64, len(last))
				for i, row := range last {
					for f, z := range row.z {
						order[i] += cycletest.Squared(z - n.Z[f])
					}
					if row.name != ev.Categorical[0] {
						order[i] += nameDistance
					}
				}
				by := make([]int, len(last))
				for i := range by {
					by[i] = i
				}
				slices.SortFunc(by, func(a, b int) int { return cmp.Compare(order[a], order[b]) })
				want, total := make([]float64, 3), neighbourPrior
				for c := range want {
					want[c] = neighbourPrior * l.rates[c]
				}
				for _, i := range by[:neighbourCount] {
					weight := 1 / (neighbourNear + order[i]/order[by[neighbourCount-1]])
					want[last[i].class] += weight
					total += weight
				}
				for c := range want {
					if math.Abs(want[c]/total-l.each[w][c]) > 1e-4 {
						t.Fatalf("event %d, window %d, class %d: %.6f, by definition %.6f", e, size, c, l.each[w][c],
							want[c]/total)
					}
				}
			}
		}
		class := r.IntN(3)
		targets := make([]float64, 3)
		targets[class] = 1
		l.Learn(ev, targets, 1)
		rows = append(rows, row{slices.Clone(n.Z), ev.Categorical[0], class})
	}
}

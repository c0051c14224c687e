package plot

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// axis is the range of the values of a panel.
type axis struct {
	label    string
	log      bool
	min, max float64
}

// settle gives an axis without values, or with a single one, a range that can be drawn.
func (a *axis) settle() {
	switch {
	case a.min > a.max && a.log:
		a.min, a.max = 1, 10
	case a.min > a.max:
		a.min, a.max = 0, 1
	case a.min == a.max && a.log:
		a.min, a.max = a.min/2, a.max*2
	case a.min == a.max:
		pad := max(0.5, 0.05*math.Abs(a.min))
		a.min, a.max = a.min-pad, a.max+pad
	}
}

// maxTicks is the largest number of steps between the values written at an axis.
const maxTicks = 8

// ticks returns what is marked at an axis: small ones where nothing is written.
func (a *axis) ticks() []plot.Tick {
	if a.log {
		if ticks := a.decades(); ticks != nil {
			return ticks
		}
	}
	step, parts := math.Pow(10, math.Floor(math.Log10((a.max-a.min)/maxTicks))), 5.0
	for _, next := range [][2]float64{{2, 4}, {2.5, 5}, {2, 5}} { // after 1: 2 in four parts, 5 and 10 in five
		if (a.max-a.min)/step > maxTicks {
			step, parts = step*next[0], next[1]
		}
	}
	digits := max(6, 2+int(math.Log10(max(math.Abs(a.min), math.Abs(a.max))/step)))
	var ticks []plot.Tick
	for i := math.Ceil(a.min*parts/step - 1e-6); i*step/parts <= a.max+1e-6*step; i++ {
		t := plot.Tick{Value: i * step / parts}
		if math.Mod(i, parts) == 0 {
			t.Label = strconv.FormatFloat(t.Value+0, 'g', digits, 64) // not -0
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// decades returns the ticks of a logarithmic axis, with powers of ten written, if there are few of them also twice and
// five times as much; none if that is fewer than two.
func (a *axis) decades() (ticks []plot.Tick) {
	first, last := math.Floor(math.Log10(a.min)), math.Ceil(math.Log10(a.max))
	every, written := math.Ceil((last-first)/maxTicks), 0
	for e := first; e <= last; e++ {
		for m := 1; m < 10; m++ {
			t := plot.Tick{Label: fmt.Sprintf("%de%g", m, e)}
			t.Value, _ = strconv.ParseFloat(t.Label, 64)
			if t.Value < a.min*(1-1e-9) || t.Value > a.max*(1+1e-9) || m > 1 && every > 1 {
				continue
			}
			t.Label = ""
			if m == 1 && math.Mod(e-first, every) == 0 || last-first <= 2 && (m == 2 || m == 5) {
				t.Label = strconv.FormatFloat(t.Value, 'g', 6, 64)
				written++
			}
			ticks = append(ticks, t)
		}
	}
	if written < 2 {
		return nil
	}
	return ticks
}

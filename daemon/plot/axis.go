package plot

import (
	"fmt"
	"math"
	"strconv"
)

// axis maps the values of a panel to [0, 1].
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

func (a *axis) at(v float64) float64 {
	if a.log {
		return math.Log(v/a.min) / math.Log(a.max/a.min)
	}
	return (v - a.min) / (a.max - a.min)
}

// maxTicks is the largest number of steps between the values written at an axis.
const maxTicks = 8

// tick is a mark at an axis, a small one if nothing is written at it.
type tick struct {
	at    float64
	label string
}

func (a *axis) ticks() []tick {
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
	var ticks []tick
	for i := math.Ceil(a.min*parts/step - 1e-6); i*step/parts <= a.max+1e-6*step; i++ {
		t := tick{at: i * step / parts}
		if math.Mod(i, parts) == 0 {
			t.label = strconv.FormatFloat(t.at+0, 'g', digits, 64) // not -0
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// decades returns the ticks of a logarithmic axis, with powers of ten written, if there are few of them also twice and five times as much; none
// if that is fewer than two.
func (a *axis) decades() (ticks []tick) {
	first, last := math.Floor(math.Log10(a.min)), math.Ceil(math.Log10(a.max))
	every, written := math.Ceil((last-first)/maxTicks), 0
	for e := first; e <= last; e++ {
		for m := 1; m < 10; m++ {
			t := tick{label: fmt.Sprintf("%de%g", m, e)}
			t.at, _ = strconv.ParseFloat(t.label, 64)
			if t.at < a.min*(1-1e-9) || t.at > a.max*(1+1e-9) || m > 1 && every > 1 {
				continue
			}
			t.label = ""
			if m == 1 && math.Mod(e-first, every) == 0 || last-first <= 2 && (m == 2 || m == 5) {
				t.label = strconv.FormatFloat(t.at, 'g', 6, 64)
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

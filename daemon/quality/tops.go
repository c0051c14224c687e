package quality

import "github.com/refitd/refitd/daemon/report"

// tops are the numbers of classes that a decision may be among.
var tops = [3]int{3, 5, 10}

// LeastTop is the number of classes up to which Tops says nothing: among as many every class is.
const LeastTop = 3

// Tops counts events whose class is not among the first 3, 5 or 10 of a ranking of the classes. The zero value is
// empty.
type Tops struct {
	N      int64    `json:"n"`      // events with a ranking
	Missed [3]int64 `json:"missed"` // of these, those whose class is not among the first 3, 5 and 10
}

// Place returns the place of a class, from 1, when classes are ranked by their outputs, the largest first and of equal
// ones the first. Behind what is no number there is nothing, so such an output is never counted as right.
func Place(outputs []float64, class int) int {
	place, own := 1, outputs[class]
	for c, o := range outputs {
		if c != class && !(o < own || o == own && c > class) {
			place++
		}
	}
	return place
}

// Add adds an event whose class has a place.
func (t *Tops) Add(place int) {
	t.N++
	for i, top := range tops {
		if place > top {
			t.Missed[i]++
		}
	}
}

// Merge adds what another one has counted.
func (t *Tops) Merge(o *Tops) {
	t.N += o.N
	for i, n := range o.Missed {
		t.Missed[i] += n
	}
}

// AddTo stores the shares in m that say something of so many classes, if all events of m had a ranking.
func (t *Tops) AddTo(m *report.Metrics, classes int) {
	if t.N == 0 || t.N != m.N {
		return
	}
	for i, to := range []**report.Number{&m.Top3Error, &m.Top5Error, &m.Top10Error} {
		if classes > tops[i] {
			*to = report.Some(float64(t.Missed[i]) / float64(t.N))
		}
	}
}

package margin

import (
	"fmt"
	"slices"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/dense"
	"gonum.org/v1/gonum/floats"
)

// Kind names a loss, in configuration, flags and manifests.
type Kind string

const (
	// MaxHinge is max_c (o_c − o_y + [c ≠ y]), of Crammer and Singer; eq. (2.2).
	MaxHinge Kind = "max_hinge"
	// Structured is max_c (o_c − o_y + Cost[y][c]); eq. (2.4).
	Structured Kind = "structured"
	// TopK is the mean of the K largest margins o_c − o_y + [c ≠ y], or 0 if that is negative; eq. (2.5).
	TopK Kind = "top_k"
	// WeightedTopK weighs the margins, the largest first, by Weights: Σ_j ρ_j margin_(j), or 0 if that is negative;
	// eq. (2.7).
	WeightedTopK Kind = "weighted_top_k"
	// Usunier is the mean of the K largest margins, each 0 if negative; eq. (2.6).
	Usunier Kind = "usunier"
	// WeightedUsunier is Σ_j ρ_j max(0, margin_(j)); eq. (2.8).
	WeightedUsunier Kind = "weighted_usunier"
)

// Kinds returns all there are.
func Kinds() []Kind {
	return []Kind{MaxHinge, Structured, TopK, WeightedTopK, Usunier, WeightedUsunier}
}

// paperWeights is the number of classes that the weights of the paper's experiments reach: ρ_j = max(0, 6 − j)/15.
const paperWeights = 5

// Loss is a loss of the paper's family, "max dot over simplex", or its Moreau envelope. The target is one-hot. Values
// are read-only and safe for concurrent use. It is a solver.Loss.
type Loss struct {
	Kind Kind
	// K ≥ 1 is how many classes TopK and Usunier look at. Where there are no more than K classes it counts as one less
	// than those: the true class is not among its rivals.
	K int
	// Weights are ρ of WeightedTopK and WeightedUsunier: at least 0, not all 0, none larger than the one before. The
	// first m − 1 count for m classes, and those left out are 0. Nil takes those of the paper's experiments, 5/15,
	// 4/15, … 1/15.
	Weights []float64
	// Cost is Δ of Structured, m×m: what it costs to answer column c where row y is true. At least 0, with zeros on
	// the diagonal. See ReadCost.
	Cost [][]float64
	// Moreau is γ of the envelope, 0 for the loss itself. It is 1/γ-smooth, and at most γ‖v‖²/2 ≤ γR² below
	// the loss, where R is the sum of the weights.
	Moreau float64
}

var _ solver.Loss = Loss{}

// Name returns the kind.
func (l Loss) Name() string { return string(l.Kind) }

// Curvature returns 1/Moreau, and +Inf without an envelope: the loss then has corners, and no algorithm that follows
// gradients may take it.
func (l Loss) Curvature(int) float64 { return 1 / l.Moreau }

// maxMoreau and maxCost keep squares finite; the least envelope keeps 1/γ so.
const (
	minMoreau = 1e-12
	maxMoreau = 1e6
	maxCost   = 1e6
)

// Validate returns an error that says which parameter is wrong for m classes, and where.
func (l Loss) Validate(m int) error {
	switch {
	case !slices.Contains(Kinds(), l.Kind):
		return fmt.Errorf("margin: no loss %q: use one of %v", l.Kind, Kinds())
	case m < 2:
		return fmt.Errorf("margin: %s for %d classes: it takes at least two", l.Kind, m)
	case (l.Kind == TopK || l.Kind == Usunier) && l.K < 1:
		return fmt.Errorf("margin: %s of the %d largest margins: K is at least 1", l.Kind, l.K)
	case l.Moreau != 0 && !(l.Moreau >= minMoreau && l.Moreau <= maxMoreau):
		return fmt.Errorf("margin: Moreau is %g: 0 for no envelope, or from %g to %g", l.Moreau, minMoreau, maxMoreau)
	case l.Kind == Structured && l.Cost == nil:
		return fmt.Errorf("margin: %s has no cost matrix", l.Kind)
	case l.Kind == Structured && len(l.Cost) != m:
		return fmt.Errorf("margin: cost matrix of %d rows for %d classes", len(l.Cost), m)
	case l.Kind == Structured:
		return checkCost(l.Cost)
	case l.Kind == WeightedTopK || l.Kind == WeightedUsunier:
		return checkWeights(l.Weights)
	}
	return nil
}

// checkWeights returns an error unless weights are nil, or finite, at least 0, not rising and led by one that is
// positive.
func checkWeights(weights []float64) error {
	if weights == nil {
		return nil
	}
	last := maxCost
	for j, rho := range weights {
		if !(rho >= 0 && rho <= last) {
			return fmt.Errorf(
				"margin: weight %d is %g: weights are from 0 to %g and none is larger than the one before", j+1, rho,
				maxCost)
		}
		last = rho
	}
	if len(weights) == 0 || weights[0] == 0 {
		return fmt.Errorf("margin: the first weight is not positive: the loss would be 0")
	}
	return nil
}

// Eval returns the loss, or its envelope, at m outputs and stores a subgradient, of the envelope the gradient, in grad.
// Of several subgradients it is the one that takes classes with equal margins in their order. It costs O(m log m).
func (l Loss) Eval(grad, pred, target []float64) float64 {
	r := l.rule(len(pred))
	y := floats.MaxIdx(target[:len(pred)])
	s := newScratch(len(pred))
	value := r.eval(s.v, pred, y, s)
	if grad != nil {
		copy(grad, s.v)
	}
	return value
}

// rule is a loss for m classes: Φ(o; y) = max over β of ⟨β, a⟩ with a_c = Δ_c + o_c − o_y. The m−1 rivals of y get
// the weights ρ by size of a. With each, a rival whose a is negative gets none; without, y with a = 0 is in the order
// too, and all get none if the sum is negative.
type rule struct {
	m      int
	rho    []float64 // m, the last 0
	ranked int       // of rivals up to the last whose ρ is not 0
	total  float64   // Σρ
	each   bool
	single bool // only ρ_1 is not 0
	cost   [][]float64
	gamma  float64
	plain  bool // without costs and envelope
}

func (l Loss) rule(m int) *rule {
	r := &rule{m: m, rho: make([]float64, m), each: true, gamma: l.Moreau}
	rivals := r.rho[:m-1]
	switch l.Kind {
	case TopK, Usunier:
		k := max(min(l.K, m-1), 1)
		for j := range min(k, m-1) {
			rivals[j] = 1 / float64(k)
		}
	case WeightedTopK, WeightedUsunier:
		copy(rivals, l.Weights)
		if l.Weights == nil {
			for j := range min(paperWeights, m-1) {
				rivals[j] = float64(paperWeights-j) / 15
			}
		}
	default:
		if m > 1 {
			rivals[0] = 1
		}
		if l.Kind == Structured {
			r.cost = l.Cost
		}
	}
	r.single = true
	for j, rho := range rivals {
		r.total += rho
		r.single = r.single && (j == 0 || rho == 0)
		if rho != 0 {
			r.ranked = j + 1
		}
	}
	r.plain = r.cost == nil && r.gamma == 0
	r.each = r.single || l.Kind == Usunier || l.Kind == WeightedUsunier
	return r
}

// delta returns Δ_y[c].
func (r *rule) delta(y, c int) float64 {
	switch {
	case c == y:
		return 0
	case r.cost == nil:
		return 1
	}
	return r.cost[y][c]
}

// eval returns Φ, or its envelope, at scores o and stores the subgradient in v, which may be o.
func (r *rule) eval(v, o []float64, y int, s *scratch) float64 {
	if r.gamma > 0 {
		return r.envelope(v, o, nil, 0, y, r.gamma, s)
	}
	return r.vertex(v, o, y, s)
}

// maxRanked is the number of margins up to which Φ of many rows at a time is the fastest: it takes as many passes over
// their scores.
const maxRanked = 8

// values replaces the scores of n rows by class, m×n, of which own are those of the rows' classes, by numbers of
// which the first n are Φ. It is for few margins, without costs and envelope.
func (r *rule) values(o, own []float64, class []int32) {
	n := len(class)
	for i, y := range class {
		o[int(y)*n+i] = own[i] - 1 // the margin of y is 0
	}
	for j := range r.ranked {
		for c := j + 1; c < r.m; c++ {
			exchange(o[j*n:(j+1)*n], o[c*n:(c+1)*n])
		}
	}
	for i, y := range own {
		value := 0.0
		for j, rho := range r.rho[:r.ranked] {
			a := o[j*n+i] - y + 1
			if r.each && a <= 0 {
				break
			}
			value += rho * a
		}
		o[i] = max(value, 0)
	}
}

// exchange puts the larger of x[i] and y[i] into x and the smaller one into y, element by element; both get y[i] if
// either is NaN, or if both are 0. A column exchanged with each of some others in turn holds the largest of every row,
// and a second one then the next. x and y must not overlap.
func exchange(x, y []float64) {
	for i, p := range x {
		q := y[i]
		larger, smaller := q, q
		if p > q {
			larger = p
		}
		if p < q {
			smaller = p
		}
		x[i], y[i] = larger, smaller
	}
}

// vertex returns Φ at scores o and stores in v, which may be o, the subgradient β − (1'β) e_y of a vertex β of
// the polytope.
func (r *rule) vertex(v, o []float64, y int, s *scratch) float64 {
	r.margins(s.a, o, nil, 0, y)
	clear(v)
	value, sum := 0.0, 0.0
	if r.single {
		top := 0
		for c, a := range s.a {
			if a > s.a[top] {
				top = c
			}
		}
		if s.a[top] > 0 {
			value, sum, v[top] = r.rho[0]*s.a[top], r.rho[0], r.rho[0]
		}
	} else {
		for j, c := range s.order[:s.lead(r.ranked, -1)] {
			if r.each && s.a[c] <= 0 {
				break
			}
			value += r.rho[j] * s.a[c]
			sum += r.rho[j]
			v[c] = r.rho[j]
		}
		if value <= 0 {
			value, sum = 0, 0
			clear(v)
		}
	}
	v[y] -= sum
	return value
}

// margins stores Δ_c + o_c − o_y in a, with q·α added to the scores o if α is not nil: a_y is 0.
func (r *rule) margins(a, o, alpha []float64, q float64, y int) {
	base := o[y]
	if r.cost == nil {
		for c, x := range o {
			a[c] = x - base + 1
		}
	} else {
		for c, delta := range r.cost[y] {
			a[c] = o[c] - base + delta
		}
	}
	if alpha != nil {
		base := alpha[y]
		for c, x := range alpha {
			a[c] += q * (x - base)
		}
	}
	a[y] = 0
}

// linear returns ⟨Δ_y, α⟩.
func (r *rule) linear(alpha []float64, y int) float64 {
	if r.cost == nil {
		return -alpha[y] // they sum to 0
	}
	sum := 0.0
	for c, delta := range r.cost[y] {
		sum += delta * alpha[c]
	}
	return sum
}

// conjugate returns that of Φ, or of its envelope, at −α. It is short enough for the compiler to do without the call.
func (r *rule) conjugate(alpha []float64, y int) float64 {
	if r.plain {
		return -alpha[y]
	}
	return r.curved(alpha, y)
}

// curved is conjugate of a loss with costs or an envelope.
func (r *rule) curved(alpha []float64, y int) float64 {
	return r.linear(alpha, y) + 0.5*r.gamma*dense.Dot(alpha, alpha)
}

// scratch is memory for one row at a time. It belongs to one goroutine.
type scratch struct {
	visits int       // calls of fit.scores
	a      []float64 // margins
	v      []float64
	d      []float64 // in order
	w      []float64 // averages of pools
	part   []float64 // what is above them
	order  []int32
	sum    []float64
	size   []int32
	scores []float64
	parts  [][]float64 // rows of W that a row of the problem meets
	block  []float64   // scores of scoreBatch rows, row by row
	batch  []float64   // the same by class
	class  []int32     // their classes
	own    []float64   // those of their classes
	inner  []float64   // their products with the dual variables
}

func newScratch(m int) *scratch {
	f := make([]float64, (7+2*scoreBatch)*m+2*scoreBatch)
	i := make([]int32, 2*m+scoreBatch)
	return &scratch{
		a:      f[:m],
		v:      f[m : 2*m],
		d:      f[2*m : 3*m],
		w:      f[3*m : 4*m],
		sum:    f[4*m : 5*m],
		scores: f[5*m : 6*m],
		part:   f[6*m : 7*m],
		block:  f[7*m:][:scoreBatch*m],
		batch:  f[(7+scoreBatch)*m:][:scoreBatch*m],
		own:    f[(7+2*scoreBatch)*m:][:scoreBatch],
		inner:  f[(7+2*scoreBatch)*m+scoreBatch:],
		order:  i[:m],
		size:   i[m : 2*m],
		class:  i[2*m:],
	}
}

// sortByInsertion is the number of classes up to which that is fastest.
const sortByInsertion = 40

// sort orders the classes but for one by falling margin, those with equal ones as they are, and returns how many there
// are. Without is −1 for none.
func (s *scratch) sort(without int) int {
	order := s.order[:0]
	for c := range s.a {
		if c != without {
			order = append(order, int32(c))
		}
	}
	if len(order) > sortByInsertion {
		slices.SortFunc(order, func(x, y int32) int {
			switch a, b := s.a[x], s.a[y]; {
			case a > b:
				return -1
			case a < b:
				return 1
			}
			return int(x - y)
		})
		return len(order)
	}
	for i := 1; i < len(order); i++ {
		c, j := order[i], i
		for a := s.a[c]; j > 0 && s.a[order[j-1]] < a; j-- {
			order[j] = order[j-1]
		}
		order[j] = c
	}
	return len(order)
}

// lead puts the k classes of largest margin but for one first in order, as sort has them, and returns how many there
// are.
func (s *scratch) lead(k, without int) int {
	if k > sortByInsertion {
		return min(k, s.sort(without))
	}
	order := s.order[:0]
	for c, a := range s.a {
		j := len(order)
		switch {
		case c == without:
			continue
		case j < k:
			order = append(order, 0)
		case k == 0 || s.a[order[k-1]] >= a:
			continue
		default:
			j--
		}
		for ; j > 0 && s.a[order[j-1]] < a; j-- {
			order[j] = order[j-1]
		}
		order[j] = int32(c)
	}
	return len(order)
}

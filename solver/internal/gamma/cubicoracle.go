package gamma

import (
	"math/rand/v2"

	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/penalty"
)

// cubicSearch bounds a selection of degree 3: among how many starts it chooses and how far the best of them are
// refined.
type cubicSearch struct {
	contractions int // matrices, for all outputs together, whose eigenvectors are starts
	Starts       int // starts that are refined
	rounds       int
	tolerance    float64 // as in OracleSearch
}

// On random tensors the quick search reaches 0.98 to 1 of the maximum in the mean and the careful one 0.99 to 1 of
// each: TestCubicSelection. A careful search is made where a solve is about to end.
var (
	quickCubic = cubicSearch{contractions: 4, Starts: 12, rounds: 40, tolerance: 1e-3}
	FineCubic  = cubicSearch{contractions: 16, Starts: 24, rounds: 200, tolerance: 1e-7}
)

const (
	// ContractionSteps is the number of Krylov vectors of a contraction: its eigenvectors need not be accurate.
	ContractionSteps = 10
	// MaxEndOutputs is the number of outputs up to which starts come from both ends of each spectrum.
	MaxEndOutputs = 8
)

// selectCubic climbs the criterion over unit vectors for a kernel of degree 3, where |T_c(h, h, h)| has many local
// maxima and finding the greatest is NP-hard (Hillar and Lim 2013). It climbs from several starts by iteration (6),
// which for one output is the symmetric higher-order power method with a line search (De Lathauwer et al. 2000; Kolda
// and Mayo 2011), and takes the best. Starts are eigenvectors of the matrices T_c(g, ·, ·) with random g (Anandkumar
// et al. 2014, section 5.1) and, if last is not nil, that vector. How far the best start is from the maximum is not
// known: factor is 0.
func (g *Gamma) selectCubic(penalty penalty.Penalty, last []float64, search OracleSearch, seed uint64) Found {
	d, m := g.X.NumColumns, g.Outputs
	cubic := quickCubic
	if search.Eigen.Tolerance <= FineSearch.Tolerance {
		cubic = FineCubic
	}
	best := &starts{g: g, penalty: penalty, most: cubic.Starts}
	switch search.selection {
	case RandomStart, RandomOnly:
		best.add(RandomUnit(d, seed))
	case BestData:
		best.add(g.bestData(penalty))
	default:
		if last != nil {
			best.add(last)
		}
		rng := rand.New(rand.NewPCG(seed, 0x636f6e7472616374)) // "contract": apart from other uses of the seed
		for range (cubic.contractions + m - 1) / m {
			best.add(g.contract(rng)...)
		}
	}
	search.rounds, search.tolerance = cubic.rounds, cubic.tolerance
	r := refinement{g: g, penalty: penalty, search: search}
	r.start(best.block, best.q, best.count, best.order())
	if search.selection.refines() {
		r.run()
	}
	return Found{Basis: r.best, Gradient: r.bestGradient, Criterion: r.bestValue, Eigen: Ritz{Vectors: r.best}}
}

// starts are the unit vectors of largest criterion of all that were added, at most most.
type starts struct {
	g       *Gamma
	penalty penalty.Penalty
	most    int
	count   int
	block   []float64 // d×count
	q       []float64 // count×m
}

// order returns the places of the vectors, the best first; ties keep their order.
func (s *starts) order() []int {
	order := make([]int, s.count)
	for t := range order {
		order[t] = t
	}
	sortByDual(order, s.q, s.g.Outputs, s.penalty)
	return order
}

// add takes further vectors into account.
func (s *starts) add(vectors ...[]float64) {
	d, m, all := s.g.X.NumColumns, s.g.Outputs, s.count+len(vectors)
	block, q := make([]float64, d*all), make([]float64, all*m)
	for j := range d {
		copy(block[j*all:], s.block[j*s.count:(j+1)*s.count])
		for t, h := range vectors {
			block[j*all+s.count+t] = h[j]
		}
	}
	s.g.QuadraticTo(q, block, all)
	s.block, s.q, s.count = block, q, all
	if all <= s.most {
		return
	}
	kept := refinement{g: s.g, penalty: s.penalty}
	kept.start(block, q, all, s.order()[:s.most])
	s.block, s.q, s.count = kept.h, kept.q, kept.columns
}

// contract returns the Ritz vectors at both ends of the spectra of T_c(g, ·, ·), with a random g for each output, or of
// many outputs only the dominant ones.
func (g *Gamma) contract(rng *rand.Rand) (vectors [][]float64) {
	d, m := g.X.NumColumns, g.Outputs
	random := func() []float64 {
		block := make([]float64, d*m)
		for i := range block {
			block[i] = rng.NormFloat64()
		}
		eigen.NormalizeColumns(block, m)
		return block
	}
	by, start := random(), random()
	k := newKrylov(g.Workers, d, m, min(ContractionSteps, d),
		func(dst, h []float64) { g.TrilinearTo(dst, h, by, m, nil) })
	if k.used = k.iterate(start, func(int) bool { return false }); !g.Workers.Cancelled() {
		for c := range m {
			if m <= MaxEndOutputs {
				vectors = append(vectors, k.outer(c)...)
			}
		}
		if m > MaxEndOutputs {
			start = k.top()
		}
	}
	for c := 0; c < m && (m > MaxEndOutputs || len(vectors) == 0); c++ { // or there was no decomposition
		vectors = append(vectors, ColumnOf(start, m, c))
	}
	return vectors
}

// ColumnOf returns a copy of column t of a block of s columns.
func ColumnOf(block []float64, s, t int) []float64 {
	column := make([]float64, len(block)/s)
	for j := range column {
		column[j] = block[j*s+t]
	}
	return column
}

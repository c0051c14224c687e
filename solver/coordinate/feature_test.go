package coordinate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/columns"
)

// TestRestOfRows compares derivatives of rows whose others are kept with each entry with those of rows looked up, to
// the bit, in rows of three and four entries; of two, and of unlike numbers, nothing is kept.
func TestRestOfRows(t *testing.T) {
	for _, kernel := range []solver.Kernel{solver.ANOVA, solver.ANOVA3} {
		for entries := 2; entries <= 5; entries++ {
			f := form{"", kernel, Descent{}, solver.Squared{}, 1}
			p, s := f.problem(31, 200, 9, min(entries, 4)), f.settings()
			if entries == 5 { // of unlike numbers
				p.X.Append([]int32{1, 2, 3}, []float64{1, 2, 3})
				p.Targets = append(p.Targets, 1)
			}
			group := func(keep bool) *group {
				x := columns.New(p.X.NumColumns, p.X.Start, p.X.Index, p.X.Value)
				if keep {
					x.KeepRest(p.X.Start, p.X.Index, p.X.Value)
				}
				g := newGroup(f.d, p, x, s, &pace{ctx: t.Context(), left: quantum}, 0, 1)
				random := rand.New(rand.NewPCG(32, 1))
				for i := range g.h {
					g.h[i] = random.NormFloat64()
				}
				return g
			}
			kept, looked := group(true), group(false)
			if got := kept.x.Others; got != map[int]int{3: 2, 4: 3}[entries] || looked.x.Others != 0 {
				t.Errorf("%v, rows of %d entries: %d others kept", kernel, entries, got)
			}
			for j := range p.X.NumColumns {
				rows, _ := kept.x.Column(j)
				a, b := make([]float64, len(rows)*kept.k), make([]float64, len(rows)*kept.k)
				kept.restTo(a, j, 0, kept.k)
				looked.restTo(b, j, 0, kept.k)
				if !slices.Equal(a, b) {
					t.Fatalf("%v, rows of %d entries, column %d: derivatives %v, looked up %v", kernel, entries, j, a,
						b)
				}
			}
		}
	}
}

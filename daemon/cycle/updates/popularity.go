package updates

import (
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/snapshot/format"
)

// PopularRows are those of versions of popularity alone, to which the popularity of names is added.
type PopularRows struct{}

func (PopularRows) Stale() string { return "" }

func (PopularRows) Row(_, _ []float64, _ int, _ string) (exists, whole bool) { return true, true }

func (PopularRows) Rest(d *format.Delta, _ func(RowChange)) { d.Bias = make([]float64, 1) }

// MovedPopularity is what a delta has of popularity; nil where versions have none.
type MovedPopularity struct {
	Before, Now *fitted.PopularWeights
	Names       []string // whose weights are others now
}

// AddTo adds the popularity of a name to its row.
func (p *MovedPopularity) AddTo(change *RowChange) {
	if p != nil && change.Field == p.Now.Field {
		change.Linear[0] += p.Now.Name(change.Name)
	}
}

// AddMoved adds the rows of names of which nothing has moved but their popularity: as they were published, or of a new
// name nothing but that.
func (f *DeltaEncoder) AddMoved(p *MovedPopularity) {
	if p == nil || len(p.Names) == 0 {
		return
	}
	there := make(map[string]struct{})
	for i := range f.Changes {
		if x := &f.Changes[i]; x.Field == p.Now.Field {
			there[x.Name] = struct{}{}
		}
	}
	for _, name := range p.Names {
		if _, ok := there[name]; ok {
			continue
		}
		change := RowChange{
			Field:  p.Now.Field,
			Name:   name,
			Linear: make([]float64, f.Model.NumOutputs()),
			Basis:  make([]float64, f.Basis),
		}
		if f.Place(&change); change.Column >= 0 {
			basis, linear := f.Model.Row(change.Column)
			copy(change.Basis, basis)
			copy(change.Linear, linear)
			change.Linear[0] -= p.Before.Name(name)
		}
		p.AddTo(&change)
		f.Changes = append(f.Changes, change)
	}
}

package reservoir

import (
	"slices"
	"time"

	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
)

// Samples are the reservoirs of a store: one for each role, then those of the classes with a quota. Train is then of
// the other classes. Where outcomes are joined to the rows there is one more for each role, of the keys of outcomes.
type Samples struct {
	All     []*Reservoir
	classes map[policy.Identity]*Reservoir // by the hash of the class; nil without quotas
}

// NewSamples makes the empty samples. lookUp says that entries are found by identity even where nothing in the settings
// needs that.
func NewSamples(s *policy.Settings, lookUp bool) Samples {
	var w Samples
	add := func(role ledger.Role, halfLife time.Duration, class string) *Reservoir {
		r := &Reservoir{Rule: policy.NewRule(s, halfLife), Role: role, Index: len(w.All), Class: class}
		if s.Identity != "" || s.CapBy != "" || lookUp {
			r.positions = map[policy.Identity]int32{}
		}
		if s.CapBy != "" {
			r.groups, r.owners = map[policy.Identity]*groupRows{}, map[policy.Identity]*groupRows{}
		}
		w.All = append(w.All, r)
		return r
	}
	add(ledger.Train, s.HalfLife, "")
	add(ledger.Select, s.HoldoutHalfLife, "")
	add(ledger.Gate, s.HoldoutHalfLife, "")
	draw := policy.NewDrawer(s.Seed, 0)
	for _, q := range s.Quotas {
		sum := draw.ByBytes(policy.DomainGroup, []byte(q.Class))
		if w.classes == nil {
			w.classes = map[policy.Identity]*Reservoir{}
		}
		w.classes[policy.Identity(sum[:16])] = add(ledger.Train, s.HalfLife, q.Class)
	}
	for role := ledger.Role(0); role < ledger.NumRoles && s.Joined(); role++ {
		add(role, 0, "")
		w.All[len(w.All)-1].Stubs = true
	}
	w.Resize(s)
	return w
}

// StubsOf returns the keys of the outcomes of a role, nil where no outcomes are joined.
func (w *Samples) StubsOf(role ledger.Role) *Reservoir {
	if r := w.All[len(w.All)-int(ledger.NumRoles)+int(role)]; r.Stubs {
		return r
	}
	return nil
}

// Of returns the sample that an event of a role and group is for.
func (w *Samples) Of(role ledger.Role, group policy.Identity) *Reservoir {
	if role == ledger.Train && w.classes != nil {
		if r, ok := w.classes[group]; ok {
			return r
		}
	}
	return w.All[role]
}

// AreOver reports whether the entries of one of the samples cost more than they may.
func (w *Samples) AreOver() bool { return slices.ContainsFunc(w.All, (*Reservoir).IsOver) }

// Seal seals all of them.
func (w *Samples) Seal() {
	for _, r := range w.All {
		r.seal()
	}
}

// Resize sets the capacities, caps and costs by the settings, and reports whether one of them has room for more rows
// than before. The rows without a quota may have even when Size shrinks: those with one are rounded up, which may leave
// 0 of 10 rows but 1 of 9 to them. Select has one row more than Gate where HoldoutSize is odd.
func (w *Samples) Resize(s *policy.Settings) (grows bool) {
	all := w.All
	was, cost := make([]int, len(all)), make([]int64, len(all))
	for i, r := range all {
		was[i], cost[i] = r.Capacity, r.MaxCost
	}
	all[ledger.Train].Capacity = s.Size
	all[ledger.Select].Capacity, all[ledger.Gate].Capacity = s.HoldoutSize-s.HoldoutSize/2, s.HoldoutSize/2
	for i, q := range s.Quotas {
		n := policy.ShareOf(q.Share, s.Size)
		all[int(ledger.NumRoles)+i].Capacity = n
		all[ledger.Train].Capacity = max(0, all[ledger.Train].Capacity-n)
	}
	for _, r := range all[ledger.NumRoles:] {
		if r.Stubs { // with as many, each row may have an outcome
			r.Capacity = all[r.Role].Capacity
		}
	}
	for _, r := range all {
		if s.CapBy != "" {
			r.PerGroup = max(1, policy.ShareOf(s.CapShare, r.Capacity))
		}
	}
	for i, r := range all {
		r.MaxCost = 0
		if s.MaxCost > 0 && s.Identity == "" && s.CapBy == "" {
			r.MaxCost = max(1, int64(float64(s.MaxCost)*float64(r.Capacity)/float64(s.Size)))
		}
		lighter := cost[i] > 0 && (r.MaxCost == 0 || r.MaxCost > cost[i])
		grows = grows || r.Capacity > was[i] || lighter && r.Evicted && len(r.Entries) < was[i]
	}
	return grows
}

package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/vectors"
)

// Has reports whether the events of a name are held out.
func Has(h fitted.HeldOutNames, field int, name string) bool {
	if field >= len(h) {
		return false
	}
	_, found := slices.BinarySearch(h[field], name)
	return found
}

// Any reports whether an event is of an entity that is held out.
func Any(h fitted.HeldOutNames, ev *event.Event) bool {
	for f := range h {
		if Has(h, f, ev.Categorical[f]) {
			return true
		}
	}
	return false
}

// JudgedFields returns the fields whose entities the gate divides into new and known: the first that the fold-in
// forgets by and that of the baseline. For ratings these are the user and the item.
func JudgedFields(m *config.Model, schema *event.Schema) (fields []int) {
	for _, name := range append(slices.Clone(m.Train.FoldIn.By[:min(1, len(m.Train.FoldIn.By))]), m.Evaluate.BaselineBy) {
		if f := slices.Index(schema.Categorical, name); f >= 0 && !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
	}
	return fields
}

// HoldOutEntities takes the events of a share of the entities from the training rows, which may be given up, and
// appends them to the gate's, so that the gate has events of entities that neither the challenger nor what it is
// compared with has learned from. It returns the names of these entities as well. Weights and ages of the sample, which
// is the refit's own, move with the events.
func HoldOutEntities(j *task.Task, train, gate []event.Event) (rest, judged []event.Event, out fitted.HeldOutNames) {
	if j.Repeats != nil {
		out = j.Repeats.HeldOut
	} else {
		out = drawEntities(j, train)
	}
	if len(out) == 0 {
		return train, gate, out
	}
	s, n := j.Rows.Sample, len(train)
	weighted, aged := len(s.Weights) == n, len(s.TrainAge) == n
	kept := 0
	for i := range train {
		held := Any(out, &train[i])
		if held {
			gate = append(gate, train[i])
		}
		if weighted && held {
			s.HeldOutWeights = append(s.HeldOutWeights, s.Weights[i])
		}
		if aged && held {
			s.GateAge = append(s.GateAge, s.TrainAge[i])
		}
		if held {
			continue
		}
		train[kept] = train[i]
		if weighted {
			s.Weights[kept] = s.Weights[i]
		}
		if aged {
			s.TrainAge[kept] = s.TrainAge[i]
		}
		kept++
	}
	if weighted {
		s.Weights = s.Weights[:kept]
	}
	if aged {
		s.TrainAge = s.TrainAge[:kept]
	}
	clear(train[kept:])
	return train[:kept], gate, out
}

// drawEntities returns the names whose keyed hash is in the share of sample.holdout.entities, least hash first while
// their rows are no more than that share of all, so that no field of few names and no frequent name is held out. It
// leaves names that what the challenger is compared with knows, and all of them where nothing learns from held-out rows
// after the gate, or where labels come later: of training rows they need not be final.
func drawEntities(j *task.Task, train []event.Event) fitted.HeldOutNames {
	h := &j.Model.Sample.Holdout
	if !(h.Entities > 0) || h.Fraction == 0 || j.Model.Train.Refit != "variational" ||
		j.Model.Schema.LabelLater {
		return nil
	}
	type drawn struct {
		name string
		hash uint64
		rows int
	}
	var out fitted.HeldOutNames
	limit := int(h.Entities * float64(len(train)))
	for _, f := range JudgedFields(j.Model, j.Schema) {
		if j.Schema.Categorical[f] == h.By { // held out whole already
			continue
		}
		rows := make(map[string]int)
		for i := range train {
			if name := train[i].Categorical[f]; name != "" { // absent
				rows[name]++
			}
		}
		var chosen []drawn
		for name, n := range rows {
			if d := (drawn{name, entityHash(j, f, name), n}); float64(d.hash) < h.Entities*math.MaxUint64 &&
				!isKnown(j, f, name) {
				chosen = append(chosen, d)
			}
		}
		slices.SortFunc(chosen, func(a, b drawn) int {
			return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.name, b.name))
		})
		taken := 0
		var names []string
		for _, d := range chosen {
			if taken+d.rows <= limit {
				taken += d.rows
				names = append(names, d.name)
			}
		}
		if len(names) == 0 {
			continue
		}
		if out == nil {
			out = make(fitted.HeldOutNames, len(j.Schema.Categorical))
		}
		slices.Sort(names)
		out[f] = names
	}
	return out
}

// entityHash is uniform over names, and the same for a name in every refit.
func entityHash(j *task.Task, field int, name string) uint64 {
	b := binary.BigEndian.AppendUint64([]byte("entity"), j.Model.Train.Seed)
	b = append(b, j.Schema.Categorical[field]...)
	b = append(b, 0)
	sum := sha256.Sum256(append(b, name...))
	return binary.BigEndian.Uint64(sum[:8])
}

// isKnown reports whether the model that the challenger is compared with may have learned from events of a name.
func isKnown(j *task.Task, field int, name string) bool {
	ch := j.Champion
	if ch == nil && j.Fallback != nil {
		ch = j.Fallback.Version
	}
	if ch == nil || Has(ch.HeldOut, field, name) {
		return false
	}
	column := ch.Vocabulary.Column(field, name)
	// Names have columns by their vectors, too.
	isBegun := column >= 0 && ch.Vectors != nil && ch.Posterior != nil && !vectors.IsLearned(ch.Posterior, column)
	return column >= 0 && !isBegun
}

package sketch

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/sketch/internal/audit"
	"github.com/refitd/refitd/sketch/internal/reservoir"
)

// check compares a store with the oracle in everything that can be seen.
func (w *oracle) check(s *Store) error {
	if err := s.Check(); err != nil {
		return err
	}
	state, err := s.State()
	if err != nil {
		return err
	}
	v := w.view()
	reasons := map[string]int64{}
	var current, archived []LedgerRow
	for _, p := range w.partitions {
		l, checkpoints := w.account(p, reasons, s.checkpointEvery)
		for _, rows := range v.kept {
			for _, r := range rows {
				if r.p == p {
					l.Rows[r.role]++
				}
			}
		}
		if p.over {
			archived = append(archived, l)
			continue
		}
		current = append(current, l)
		got, err := s.Checkpoints(p.topic, p.number)
		if err != nil {
			return err
		}
		if !slices.Equal(got, checkpoints) {
			return fmt.Errorf("%s/%d: checkpoints\n%+v, want\n%+v", p.topic, p.number, got, checkpoints)
		}
	}
	order := func(a, b LedgerRow) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Incarnation, b.Incarnation))
	}
	slices.SortFunc(current, order)
	slices.SortFunc(archived, order)
	switch {
	case !slices.Equal(state.Partitions, current):
		return fmt.Errorf("ledger\n%+v, want\n%+v", state.Partitions, current)
	case !slices.Equal(state.Archived, archived):
		return fmt.Errorf("archived\n%+v, want\n%+v", state.Archived, archived)
	case !slices.Equal(s.Ledger(), current):
		return fmt.Errorf("ledger in memory\n%+v, want\n%+v", s.Ledger(), current)
	case fmt.Sprint(state.RejectedByReason) != fmt.Sprint(reasons):
		return fmt.Errorf("reasons %v, want %v", state.RejectedByReason, reasons)
	case !bytes.Equal(s.Aux(), w.aux):
		return fmt.Errorf("aux %q, want %q", s.Aux(), w.aux)
	}
	if rows, bytes := s.Size(); rows != state.Rows || bytes != state.SampleBytes {
		return fmt.Errorf("Size is %d rows, %d bytes, of State %d, %d", rows, bytes, state.Rows, state.SampleBytes)
	}
	short := false
	for sample, capacity := range w.samples() {
		short = short || len(v.kept[sample]) < capacity
	}
	if state.UnderFilled != (w.partial && short) {
		return fmt.Errorf("under-filled: %t, decided %t, short of rows %t", state.UnderFilled, w.partial, short)
	}
	for _, r := range s.samples.All {
		if err := w.checkThreshold(r, v.threshold[sampleOf(r)]); err != nil {
			return fmt.Errorf("%s: %w", sampleOf(r), err)
		}
	}
	return w.checkRows(s, state, &v)
}

// sample is the oracle's name of a sample.
func sampleOf(r *reservoir.Reservoir) string {
	if r.Class != "" {
		return "train of " + r.Class
	}
	return r.Role.String()
}

// checkRows compares the samples row by row, and with them the cut and the probabilities.
func (w *oracle) checkRows(s *Store, state *audit.State, v *view) error {
	sample, err := s.Sample()
	if err != nil {
		return err
	}
	if state.SampleDigest != sample.Digest {
		return fmt.Errorf("digest of State %v, of Sample %v", state.SampleDigest, sample.Digest)
	}
	for _, p := range w.partitions {
		at := Position{Topic: p.topic, Partition: p.number, Incarnation: p.incarnation, Next: p.next()}
		if !p.over && !slices.Contains(sample.Cut, at) {
			return fmt.Errorf("cut %v without %v", sample.Cut, at)
		}
	}
	for role, rows := range [NumRoles][]Row{sample.Train, sample.Select, sample.Gate} {
		var want []oracleRow
		for name, kept := range v.kept {
			if name[:2] == Role(role).String()[:2] {
				want = append(want, kept...)
			}
		}
		slices.SortFunc(want, func(a, b oracleRow) int { return slices.Compare(a.id[:], b.id[:]) })
		if state.Rows[role] != len(rows) || len(rows) != len(want) {
			return fmt.Errorf("%s: %d rows, State says %d, want %d", Role(role), len(rows), state.Rows[role], len(want))
		}
		for i := range rows {
			got, want := &rows[i], &want[i]
			if got.Topic != want.p.topic || got.Partition != want.p.number || got.Offset != want.record.Offset ||
				!bytes.Equal(got.Payload,
					want.record.Payload) || got.Time != want.record.Time || got.Weight != want.record.Weight {
				return fmt.Errorf("%s row %d is %+v, want %+v", Role(role), i, got, want)
			}
			p, ok := sample.Inclusion(got)
			if q := w.inclusion(want, v.threshold[want.sample]); ok != (w.o.CapBy == "") ||
				ok && math.Abs(p-q) > 1e-6*q {
				return fmt.Errorf("%s row %d is included with probability %g (%t), want %g", Role(role), i, p, ok, q)
			}
		}
	}
	return nil
}

// keyOf is the exponential key of a rank.
func keyOf(rank uint64) float64 {
	if rank>>63 != 0 {
		return math.Float64frombits(rank &^ (1 << 63))
	}
	return math.Float64frombits(^rank)
}

func (w *oracle) checkThreshold(r *reservoir.Reservoir, want float64) error {
	got := math.Inf(-1)
	if r.Evicted {
		got = -float64(^r.Threshold)
		if r.Keyed {
			got = keyOf(r.Threshold)
		}
	}
	if r.PerGroup > 0 { // depends on the order, but whether there is one does not
		got, want = min(got, 0), min(want, 0)
		if math.IsInf(got, -1) == math.IsInf(want, -1) {
			return nil
		}
	}
	if got != want && !(math.Abs(got-want) <= 1e-9*(1+math.Abs(want))) {
		return fmt.Errorf("threshold %g, want %g", got, want)
	}
	return nil
}

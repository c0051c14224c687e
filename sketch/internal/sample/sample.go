package sample

import (
	"context"
	"math"
	"slices"

	"github.com/refitd/refitd/sketch/internal/audit"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/stub"
)

// A Row is an event of the sample.
type Row struct {
	Topic       string
	Partition   int32
	Incarnation uint32 // of the topic, from 0
	Offset      int64
	Time        int64 // event time, milliseconds
	Weight      float64
	Payload     []byte         // as it was applied
	Outcomes    []stub.Outcome // what came of it, in their order
	ID          policy.Identity

	lnInclusion float64 // of the probability that the row's priority is above the threshold
}

// A Sample is a private copy of the state after one commit. Rows are in the order of their identity hashes, which is
// random but reproducible.
type Sample struct {
	Cut                 []ledger.Position // by topic and partition: the rows are of the records before these offsets
	Ledger              []ledger.Row      // the accounts of the cut, those of earlier incarnations of a topic included
	Train, Select, Gate []Row
	Watermark           int64 // newest event time applied, milliseconds; NoTime if none
	Digest              ledger.Digest
	Lineage             string
	Unmatched           int // identities with outcomes whose event is not in the sample

	rule     policy.Rule // of the training rows
	weighted bool        // whether training rows count differently
	unequal  bool        // in inclusion too
	capped   bool

	heaviest float64 // what the weight of a row counts as at most, 0 for no limit
}

// LimitWeights has rows count in TrainWeights and HeldOutWeights with a weight of at most limit, 0 for no limit. It
// returns how many have more. Which rows the sample has, and how probably, does not change: a weight that is limited is
// an importance weight that is cut, over the same π.
func (s *Sample) LimitWeights(limit float64) (limited int) {
	if s.heaviest = limit; limit == 0 {
		return 0
	}
	for _, rows := range [][]Row{s.Train, s.Select, s.Gate} {
		for i := range rows {
			if rows[i].Weight > limit {
				limited++
			}
		}
	}
	return limited
}

// Inclusion returns the probability, in (0, 1], that the event of a row is in the sample of its role: 1 while none was
// put out. A sum over the rows, each divided by it, estimates the sum over all events of the role without bias (Horvitz
// and Thompson 1952; with the threshold taken for given, Duffield, Lund and Thorup 2007). ok is false under an entity
// cap, where it is not known.
func (s *Sample) Inclusion(r *Row) (p float64, ok bool) { return math.Exp(r.lnInclusion), !s.capped }

// Read copies a cut. rows are about how many there are by role.
func Read(f *audit.Frame, c storage.Cut, rows [ledger.NumRoles]int) (*Sample, error) {
	train := f.Samples.All[ledger.Train].Rule // rules never change
	quotas := len(f.Settings.Quotas) > 0
	out := &Sample{Watermark: ledger.NoTime, rule: train, capped: f.Settings.CapBy != "",
		weighted: train.HalfLife > 0 || quotas || f.Settings.Weighted, unequal: train.Keyed || quotas}
	out.Train, out.Select, out.Gate = make([]Row, 0, rows[ledger.Train]), make([]Row, 0, rows[ledger.Select]),
		make([]Row, 0, rows[ledger.Gate])
	digest := audit.NewDigest()
	outcomes, err := outcomesOf(f, c)
	if err != nil {
		return nil, err
	}
	topic, topics := "", map[string]string{}
	var slab []byte
	samples := [ledger.NumRoles][]int32{} // of the rows
	acc, err := f.Scan(context.Background(), c, func(row *audit.Scanned) error {
		digest.Add(row)
		if topic != string(row.Topic) {
			known, ok := topics[string(row.Topic)]
			if topic = known; !ok {
				topic = string(row.Topic)
				topics[topic] = topic
			}
		}
		if n := len(row.Payload); cap(slab)-len(slab) < n {
			slab = make([]byte, 0, max(n, min(256<<10, 2*cap(slab)+4<<10)))
		}
		start := len(slab)
		slab = append(slab, row.Payload...)
		rows := [...]*[]Row{&out.Train, &out.Select, &out.Gate}[row.Role]
		*rows = append(
			*rows,
			Row{
				Topic:       topic,
				Partition:   row.Partition,
				Incarnation: row.Incarnation,
				Offset:      row.Offset,
				Time:        row.Time,
				Weight:      row.Weight,
				Payload:     slab[start:len(slab):len(slab)],
				Outcomes:    outcomes.of(row.Role, row.ID),
				ID:          row.ID,
			},
		)
		samples[row.Role] = append(samples[row.Role], int32(row.Sample))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range acc.Ledger {
		l := &acc.Ledger[i]
		out.Ledger = append(out.Ledger, l.Row)
		if i < acc.Current {
			out.Cut = append(out.Cut, l.Position())
		}
		out.Watermark = max(out.Watermark, l.Watermark)
	}
	err = f.ScanStubs(c, acc, func(_ ledger.Role, _ policy.Identity, of *stub.Stub, key []byte) error {
		digest.AddStub(key, of)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Digest, out.Lineage, out.Unmatched = digest.Sum(), acc.Settings.Lineage, len(outcomes)
	for role, rows := range [ledger.NumRoles][]Row{out.Train, out.Select, out.Gate} {
		for i := range rows {
			rows[i].lnInclusion = lnInclusion(f, acc, int(samples[role][i]), &rows[i])
		}
	}
	return out, nil
}

// lnInclusion is that of a row of a sample; see Sample.Inclusion.
func lnInclusion(f *audit.Frame, acc *audit.Accounts, sample int, row *Row) float64 {
	evicted, threshold := acc.Of(sample)
	if stubs := f.Samples.StubsOf(f.Samples.All[sample].Role); stubs != nil { // either side has put events out
		if also, least := acc.Of(stubs.Index); also {
			evicted, threshold = true, max(threshold, least)
		}
	}
	if !evicted {
		return 0
	}
	if r := f.Samples.All[sample]; r.PerGroup > 0 && acc.Found[sample] >= int64(r.Capacity) {
		threshold = acc.Least[sample] // the set's; the threshold of a cap is the order's
	}
	return f.Samples.All[sample].LnInclusion(row.Weight, row.Time, threshold)
}

// TrainWeights returns what each training row counts, w·2^(-age/halfLife)/π scaled to mean 1, or nil for a uniform
// sample, where each counts 1. The probability π that a row was kept is 1 while none was put out; without it
// forgetting would do nothing before the sample is full, and count twice after. Rows by identity were all kept with the
// same probability. Under an entity cap π is that of passing the threshold:
// an entity counts for no more than the rows that the cap leaves it.
func (s *Sample) TrainWeights() []float64 {
	return s.weights(s.Train)
}

// HeldOutWeights returns what each select row, then each gate row counts, in units of TrainWeights; nil where that is.
func (s *Sample) HeldOutWeights() []float64 {
	if !s.weighted {
		return nil
	}
	return s.weights(slices.Concat(s.Select, s.Gate))
}

// weights returns those of some rows, scaled so that those of the training rows have mean 1.
func (s *Sample) weights(of []Row) []float64 {
	if !s.weighted || len(s.Train) == 0 {
		return nil
	}
	newest := int64(math.MinInt64)
	for i := range s.Train {
		newest = max(newest, s.Train[i].Time)
	}
	ln := func(r *Row) float64 {
		w := math.Log(r.Weight)
		if s.heaviest > 0 {
			w = math.Log(min(r.Weight, s.heaviest))
		}
		if s.rule.HalfLife > 0 {
			w -= float64(newest-r.Time) * math.Ln2 / s.rule.HalfLife
		}
		if s.unequal {
			w -= r.lnInclusion
		}
		return w
	}
	top := math.Inf(-1)
	for i := range s.Train {
		top = max(top, ln(&s.Train[i]))
	}
	var sum float64
	for i := range s.Train {
		sum += math.Exp(ln(&s.Train[i]) - top)
	}
	weights := make([]float64, len(of))
	for i := range of {
		weights[i] = math.Exp(ln(&of[i])-top) * (float64(len(s.Train)) / sum)
	}
	return weights
}

// outcomes are those of a cut, by the place that a row of their identity has.
type outcomes map[place][]stub.Outcome

type place struct {
	role ledger.Role
	id   policy.Identity
}

// outcomesOf reads the outcomes of a cut.
func outcomesOf(f *audit.Frame, c storage.Cut) (outcomes, error) {
	out := make(outcomes)
	err := f.ScanStubs(c, nil, func(role ledger.Role, id policy.Identity, of *stub.Stub, _ []byte) error {
		if list := of.Outcomes(); len(list) > 0 {
			out[place{role, id}] = list
		}
		return nil
	})
	return out, err
}

// of takes out what came of the event of an identity.
func (o outcomes) of(role ledger.Role, id policy.Identity) []stub.Outcome {
	list := o[place{role, id}]
	delete(o, place{role, id})
	return list
}

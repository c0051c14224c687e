package sketch

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
)

// A Row is an event of the sample.
type Row struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      int64 // event time, milliseconds
	Weight    float64
	Payload   []byte // as it was applied
}

// A Sample is a private copy of the state as of one commit. Rows are in the order of their identity hashes, which is random but reproducible.
type Sample struct {
	Cut                 []Position // by topic and partition: the rows are of the records before these offsets
	Train, Select, Gate []Row
	Watermark           int64 // newest event time applied, milliseconds; NoTime if none
	Digest              Digest
	Lineage             string

	rule      rule // of the training rows
	weighted  bool // whether training rows count differently
	evicted   bool
	threshold uint64
}

// Sample copies a consistent cut. It takes about 1 µs and the payload's memory plus 80 bytes for a row; Apply goes on meanwhile.
func (s *Store) Sample() (*Sample, error) {
	train := s.reservoirs[Train].rule // rules never change
	out := &Sample{Watermark: NoTime, Lineage: s.settings.Lineage, rule: train, weighted: s.settings.Weighted || train.halfLife > 0}
	s.mu.Lock()
	out.Train = make([]Row, 0, len(s.reservoirs[Train].heap))
	out.Select = make([]Row, 0, len(s.reservoirs[Select].heap))
	out.Gate = make([]Row, 0, len(s.reservoirs[Gate].heap))
	s.mu.Unlock()
	err := s.backend.view(func(c cut) error {
		digest := newRowDigest()
		topics := map[string]string{}
		var slab []byte
		acc, err := s.scan(context.Background(), c, func(row *scanned) error {
			digest.add(row)
			topic, ok := topics[string(row.topic)]
			if !ok {
				topic = string(row.topic)
				topics[topic] = topic
			}
			if n := len(row.payload); cap(slab)-len(slab) < n {
				slab = make([]byte, 0, max(n, min(256<<10, 2*cap(slab)+4<<10)))
			}
			start := len(slab)
			slab = append(slab, row.payload...)
			rows := [...]*[]Row{&out.Train, &out.Select, &out.Gate}[row.role]
			*rows = append(*rows, Row{Topic: topic, Partition: row.partition, Offset: row.offset, Time: row.time, Weight: row.weight,
				Payload: slab[start:len(slab):len(slab)]})
			return nil
		})
		if err != nil {
			return err
		}
		for i := range acc.ledger {
			l := &acc.ledger[i]
			out.Cut = append(out.Cut, Position{Topic: l.Topic, Partition: l.Partition, Next: l.Next})
			out.Watermark = max(out.Watermark, l.Watermark)
		}
		out.Digest = digest.sum()
		out.evicted, out.threshold = acc.evicted[Train], acc.threshold[Train]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// TrainWeights returns what each training row counts, w·2^(-age/halfLife)/π scaled to mean 1, or nil for a uniform sample, where each counts 1.
// The probability π that a row was kept is 1 while none was put out; without it forgetting would do nothing before the sample is full,
// and count twice after. Rows by identity were all kept with the same probability.
func (s *Sample) TrainWeights() []float64 {
	if !s.weighted || len(s.Train) == 0 {
		return nil
	}
	weights := make([]float64, len(s.Train))
	newest := int64(math.MinInt64)
	for i := range s.Train {
		newest = max(newest, s.Train[i].Time)
	}
	top := math.Inf(-1)
	for i := range s.Train {
		r := &s.Train[i]
		w := math.Log(r.Weight)
		if s.rule.halfLife > 0 {
			w -= float64(newest-r.Time) * math.Ln2 / s.rule.halfLife
		}
		if s.rule.keyed && s.evicted {
			w -= s.rule.lnInclusion(r.Weight, r.Time, unordered(s.threshold))
		}
		weights[i] = w
		top = max(top, w)
	}
	var sum float64
	for i, w := range weights {
		weights[i] = math.Exp(w - top)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] *= float64(len(weights)) / sum
	}
	return weights
}

// A rowDigest is the SHA-256 over the rows in the order of role and identity: a function of the set of rows.
type rowDigest struct {
	hash  hash.Hash
	size  [4]byte
	rows  [NumRoles]int
	bytes int64
}

func newRowDigest() *rowDigest { return &rowDigest{hash: sha256.New()} }

func (d *rowDigest) add(row *scanned) {
	d.hash.Write(row.key)
	binary.BigEndian.PutUint32(d.size[:], uint32(len(row.value)))
	d.hash.Write(d.size[:])
	d.hash.Write(row.value)
	d.rows[row.role]++
	d.bytes += int64(len(row.key) + len(row.value))
}

func (d *rowDigest) sum() (sum Digest) {
	d.hash.Sum(sum[:0])
	return sum
}

package sketch

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		applyForever(dir)
	}
	if dir := os.Getenv(probeDir); dir != "" {
		probe(dir)
		os.Exit(0)
	}
	if verb := os.Getenv(helperVerb); verb != "" {
		help(verb, os.Getenv("SKETCH_HELPER_DIR"))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// The oracle is the slow twin of the store: it remembers what became of every offset and computes the state from that, by sorting.
type oracle struct {
	o          Options
	partitions []*oraclePartition
	aux        []byte
}

type oraclePartition struct {
	topic  string
	number int32
	start  int64
	got    []outcome // of the offsets from start on
}

func (p *oraclePartition) next() int64 { return p.start + int64(len(p.got)) }

// An outcome is what an offset was when it was first applied: a record, or else a hole, a declared gap, or a loss nobody declared.
type outcome struct {
	record         *Record
	hole, gap, bad bool
}

// An oracleRow is an applied record with its key.
type oracleRow struct {
	topic     string
	partition int32
	record    *Record
	role      Role
	id        [16]byte
	key       float64 // larger is better; of uniform samples -h
}

func (w *oracle) hash(parts ...any) [32]byte {
	var b []byte
	b = binary.BigEndian.AppendUint64(b, w.o.Seed)
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		default:
			b, _ = binary.Append(b, binary.BigEndian, p)
		}
	}
	return sha256.Sum256(b)
}

func (w *oracle) row(p *oraclePartition, r *Record) oracleRow {
	sum := w.hash(byte(0), uint32(0), p.number, r.Offset, p.topic)
	if w.o.Identity != "" {
		sum = w.hash(byte(1), r.Identity)
	}
	row := oracleRow{topic: p.topic, partition: p.number, record: r, id: [16]byte(sum[:16])}
	if w.o.HoldoutBy != "" {
		sum = w.hash(byte(2), r.HoldoutKey)
	}
	bits := binary.BigEndian.Uint64(sum[16:])
	halfLife := w.o.HalfLife
	if float64(bits>>1) < w.o.HoldoutFraction*(1<<63) {
		row.role = Select + Role(bits&1)
		if w.o.HoldoutHalfLife != 0 {
			halfLife = w.o.HoldoutHalfLife
		}
	}
	h := binary.BigEndian.Uint64(row.id[:])
	row.key = -float64(h)
	if w.o.Identity == "" && (w.o.Weighted || halfLife > 0) {
		e := -math.Log1p(-math.Min((float64(h)+0.5)*math.Pow(2, -64), 1-0x1p-53))
		row.key = math.Log(r.Weight) - math.Log(e)
		if halfLife > 0 {
			row.key += float64(r.Time) * math.Ln2 / (halfLife.Seconds() * 1000)
		}
	}
	return row
}

// rows returns the rows of each role, ordered by identity hash, and the largest key that was left out (-Inf if none was).
func (w *oracle) rows() (kept [NumRoles][]oracleRow, threshold [NumRoles]float64) {
	for _, p := range w.partitions {
		for _, g := range p.got {
			if g.record != nil && g.record.Fate == Applied {
				row := w.row(p, g.record)
				kept[row.role] = append(kept[row.role], row)
			}
		}
	}
	sizes := [NumRoles]int{w.o.Size, w.o.HoldoutSize - w.o.HoldoutSize/2, w.o.HoldoutSize / 2}
	for role, rows := range kept {
		if w.o.Identity != "" {
			rows = newest(rows)
		}
		slices.SortFunc(rows, func(a, b oracleRow) int { return cmp.Compare(b.key, a.key) })
		threshold[role] = math.Inf(-1)
		if len(rows) > sizes[role] {
			threshold[role] = rows[sizes[role]].key
			rows = rows[:sizes[role]]
		}
		slices.SortFunc(rows, func(a, b oracleRow) int { return slices.Compare(a.id[:], b.id[:]) })
		kept[role] = rows
	}
	return kept, threshold
}

// newest keeps one row of each identity.
func newest(rows []oracleRow) (out []oracleRow) {
	best := map[[16]byte]oracleRow{}
	for _, r := range rows {
		old, ok := best[r.id]
		c := cmp.Or(cmp.Compare(r.record.time(), old.record.time()), cmp.Compare(r.topic, old.topic),
			cmp.Compare(r.partition, old.partition), cmp.Compare(r.record.offset(), old.record.offset()))
		if !ok || c > 0 {
			best[r.id] = r
		}
	}
	for _, r := range best {
		out = append(out, r)
	}
	return out
}

func (r *Record) time() int64 {
	if r == nil {
		return math.MinInt64
	}
	return r.Time
}

func (r *Record) offset() int64 {
	if r == nil {
		return math.MinInt64
	}
	return r.Offset
}

// account returns the ledger row, but for Rows.
func (w *oracle) account(p *oraclePartition, reasons map[string]int64) LedgerRow {
	l := LedgerRow{Topic: p.topic, Partition: p.number, Start: p.start, Next: p.next(), LastOffset: -1, Watermark: NoTime}
	b, _ := binary.Append([]byte("refitd ledger 1\x00"+p.topic), binary.BigEndian, []uint32{0, uint32(p.number)})
	l.Digest = sha256.Sum256(b)
	for _, g := range p.got {
		r := g.record
		switch {
		case g.hole:
			l.Holes++
			continue
		case g.gap:
			l.Gap++
			continue
		case g.bad:
			continue
		case r.Fate == Control:
			l.Control++
			continue
		case r.Fate == Aborted:
			l.Aborted++
			continue
		case r.Fate == Rejected:
			l.Rejected++
			reasons[r.Reason]++
		default:
			l.Applied++
			l.Eligible[w.row(p, r).role]++
			l.Watermark = max(l.Watermark, r.Time)
		}
		b := append([]byte(nil), l.Digest[:]...)
		b, _ = binary.Append(b, binary.BigEndian, r.Offset)
		b, _ = binary.Append(b, binary.BigEndian, r.CRC)
		l.Digest = sha256.Sum256(append(b, byte(r.Fate)))
		l.LastOffset, l.LastCRC = r.Offset, r.CRC
	}
	return l
}

// check compares a store with the oracle in everything that can be seen.
func (w *oracle) check(s *Store) error {
	if err := s.Check(); err != nil {
		return err
	}
	state, err := s.State()
	if err != nil {
		return err
	}
	sample, err := s.Sample()
	if err != nil {
		return err
	}
	kept, threshold := w.rows()
	reasons := map[string]int64{}
	var want []LedgerRow
	for _, p := range w.partitions {
		l := w.account(p, reasons)
		for role, rows := range kept {
			for _, r := range rows {
				if r.topic == p.topic && r.partition == p.number {
					l.Rows[role]++
				}
			}
		}
		want = append(want, l)
	}
	if !slices.Equal(state.Partitions, want) {
		return fmt.Errorf("ledger\n%+v, want\n%+v", state.Partitions, want)
	}
	if !slices.Equal(s.Ledger(), want) {
		return fmt.Errorf("ledger in memory\n%+v, want\n%+v", s.Ledger(), want)
	}
	if fmt.Sprint(state.RejectedByReason) != fmt.Sprint(reasons) {
		return fmt.Errorf("reasons %v, want %v", state.RejectedByReason, reasons)
	}
	if string(s.Aux()) != string(w.aux) {
		return fmt.Errorf("aux %q, want %q", s.Aux(), w.aux)
	}
	if state.SampleDigest != sample.Digest {
		return fmt.Errorf("digest of State %v, of Sample %v", state.SampleDigest, sample.Digest)
	}
	if rows, bytes := s.Size(); rows != state.Rows || bytes != state.SampleBytes {
		return fmt.Errorf("Size is %d rows, %d bytes, of State %d, %d", rows, bytes, state.Rows, state.SampleBytes)
	}
	for role, rows := range [NumRoles][]Row{sample.Train, sample.Select, sample.Gate} {
		if state.Rows[role] != len(rows) || len(rows) != len(kept[role]) {
			return fmt.Errorf("%s: %d rows, State says %d, want %d", Role(role), len(rows), state.Rows[role], len(kept[role]))
		}
		for i, got := range rows {
			want := kept[role][i]
			if got.Topic != want.topic || got.Partition != want.partition || got.Offset != want.record.Offset ||
				string(got.Payload) != string(want.record.Payload) || got.Time != want.record.Time || got.Weight != want.record.Weight {
				return fmt.Errorf("%s row %d is %+v, want %+v", Role(role), i, got, want)
			}
		}
		if err := checkThreshold(s.all[role], threshold[role]); err != nil {
			return fmt.Errorf("%s: %w", Role(role), err)
		}
	}
	return nil
}

func checkThreshold(r *reservoir, want float64) error {
	got := math.Inf(-1)
	if r.evicted {
		got = -float64(^r.threshold)
		if r.keyed {
			got = unordered(r.threshold)
		}
	}
	if got != want && !(math.Abs(got-want) <= 1e-9*(1+math.Abs(want))) {
		return fmt.Errorf("threshold %g, want %g", got, want)
	}
	return nil
}

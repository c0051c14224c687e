package sketch

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
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
		return
	}
	if verb := os.Getenv(helperVerb); verb != "" {
		help(verb, os.Getenv("SKETCH_HELPER_DIR"))
		return
	}
	goleak.VerifyTestMain(m)
}

// The oracle is the slow twin of the store: it remembers what became of every offset and computes the state from that,
// by sorting.
type oracle struct {
	*life
	partitions []*oraclePartition // those of topics that were made again too, which have an older incarnation
	aux        []byte
}

// A life is what was decided about the samples up to a lineage. It is never changed: decisions make new ones.
type life struct {
	o       Options
	erased  []erasure
	stay    map[eventKey]bool  // the rows at the last decision
	gone    map[eventKey]bool  // the other events up to then: they do not come back
	floor   map[string]float64 // by sample: later events must be above it
	partial bool
}

// An erasure keeps the events of a user out that are before the offsets.
type erasure struct {
	user string
	cut  map[*oraclePartition]int64
}

type eventKey struct {
	p      *oraclePartition
	offset int64
}

type oraclePartition struct {
	topic       string
	number      int32
	incarnation uint32
	start       int64
	over        bool      // the topic was made again
	got         []outcome // of the offsets from start on
}

func (p *oraclePartition) next() int64 { return p.start + int64(len(p.got)) }

// An outcome is what an offset was when it was first applied: a record, or else a hole, a declared gap, or a loss
// nobody declared.
type outcome struct {
	record         *logRecord
	hole, gap, bad bool
}

// An oracleRow is an applied record with its key.
type oracleRow struct {
	eventKey
	record *logRecord
	role   Role
	sample string // role, and class if it has a quota
	id     [16]byte
	key    float64 // larger is better; of uniform samples -h
	base   float64 // what of it is not chance
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

func (w *oracle) isKeyed(halfLife float64) bool {
	return w.o.Identity == "" && (w.o.Weighted || halfLife > 0)
}

func (w *oracle) row(p *oraclePartition, r *logRecord) oracleRow {
	sum := w.hash(byte(0), p.incarnation, p.number, r.Offset, p.topic)
	if w.o.Identity != "" {
		sum = w.hash(byte(1), r.Identity)
	}
	row := oracleRow{eventKey: eventKey{p, r.Offset}, record: r, id: [16]byte(sum[:16])}
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
	row.sample = row.role.String()
	for _, q := range w.o.Quotas {
		if row.role == Train && q.Class == string(r.Group) {
			row.sample = "train of " + q.Class
		}
	}
	h := binary.BigEndian.Uint64(row.id[:])
	row.key = -float64(h)
	if w.isKeyed(float64(halfLife)) {
		e := -math.Log1p(-math.Min((float64(h)+0.5)*math.Pow(2, -64), 1-0x1p-53))
		row.base = math.Log(r.Weight)
		if halfLife > 0 {
			row.base += float64(r.Time) * math.Ln2 / (halfLife.Seconds() * 1000)
		}
		row.key = row.base - math.Log(e)
	}
	return row
}

// inclusion is the probability that a row's key exceeds a threshold.
func (w *oracle) inclusion(row *oracleRow, threshold float64) float64 {
	halfLife := w.o.HalfLife
	if row.role != Train {
		halfLife = cmp.Or(w.o.HoldoutHalfLife, halfLife)
	}
	switch {
	case math.IsInf(threshold, -1):
		return 1
	case w.isKeyed(float64(halfLife)):
		return -math.Expm1(-math.Exp(row.base - threshold))
	}
	return -threshold * math.Pow(2, -64)
}

// samples returns the capacities by name.
func (w *oracle) samples() map[string]int {
	ceil := func(x float64) int { return int(math.Ceil(x)) }
	out := map[string]int{"select": w.o.HoldoutSize - w.o.HoldoutSize/2, "gate": w.o.HoldoutSize / 2, "train": w.o.Size}
	for _, q := range w.o.Quotas {
		n := ceil(q.Share * float64(w.o.Size))
		out["train of "+q.Class] = n
		out["train"] = max(0, out["train"]-n)
	}
	return out
}

// isErased reports whether an event was forgotten.
func (l *life) isErased(p *oraclePartition, r *logRecord) bool {
	return slices.ContainsFunc(l.erased, func(e erasure) bool { return e.user == r.user && r.Offset < e.cut[p] })
}

// A view is what the samples must be.
type view struct {
	kept      map[string][]oracleRow // by sample, ordered by identity hash
	threshold map[string]float64     // the largest key that was left out, -Inf if none was
	eligible  map[string]int
}

func (w *oracle) view() view {
	v := view{map[string][]oracleRow{}, map[string]float64{}, map[string]int{}}
	var all map[string][]oracleRow = map[string][]oracleRow{}
	for _, p := range w.partitions {
		for _, g := range p.got {
			if g.record == nil || g.record.Fate != Applied {
				continue
			}
			row := w.row(p, g.record)
			v.eligible[row.sample]++
			floor, cut := w.floor[row.sample]
			if w.gone[row.eventKey] || w.isErased(p, g.record) || cut && !w.stay[row.eventKey] && row.key <= floor {
				continue
			}
			all[row.sample] = append(all[row.sample], row)
		}
	}
	for sample, capacity := range w.samples() {
		rows := all[sample]
		if w.o.Identity != "" {
			rows = newest(rows)
		}
		slices.SortFunc(rows, func(a, b oracleRow) int { return cmp.Compare(b.key, a.key) })
		if w.o.CapBy != "" {
			most, seen := max(1, int(math.Ceil(w.o.CapShare*float64(capacity)))), map[string]int{}
			rows = slices.DeleteFunc(rows, func(r oracleRow) bool {
				seen[string(r.record.Group)]++
				return seen[string(r.record.Group)] > most
			})
		}
		v.threshold[sample] = math.Inf(-1)
		if floor, cut := w.floor[sample]; cut {
			v.threshold[sample] = floor
		}
		if len(rows) > capacity {
			v.threshold[sample] = max(v.threshold[sample], rows[capacity].key)
		}
		if w.o.CapBy != "" && capacity > 0 && len(rows) >= capacity && !math.IsInf(v.threshold[sample], -1) {
			v.threshold[sample] = rows[capacity-1].key // of a full sample under a cap the set knows no other
		}
		rows = rows[:min(len(rows), capacity)]
		slices.SortFunc(rows, func(a, b oracleRow) int { return slices.Compare(a.id[:], b.id[:]) })
		v.kept[sample] = rows
	}
	return v
}

// decide returns the life after a decision about the samples as they are now.
func (w *oracle) decide(change func(*life)) *life {
	v, next := w.view(), *w.life
	next.stay, next.gone, next.floor = map[eventKey]bool{}, map[eventKey]bool{}, map[string]float64{}
	next.erased = slices.Clone(w.erased)
	for _, rows := range v.kept {
		for _, row := range rows {
			next.stay[row.eventKey] = true
		}
	}
	for _, p := range w.partitions {
		for _, g := range p.got {
			if g.record != nil {
				if key := (eventKey{p, g.record.Offset}); !next.stay[key] {
					next.gone[key] = true
				}
			}
		}
	}
	for sample, threshold := range v.threshold {
		if !math.IsInf(threshold, -1) {
			next.floor[sample] = threshold
		}
	}
	change(&next)
	return &next
}

// newest keeps one row of each identity.
func newest(rows []oracleRow) []oracleRow {
	best := map[[16]byte]oracleRow{}
	for _, r := range rows {
		old, ok := best[r.id]
		if !ok || cmp.Or(cmp.Compare(r.record.Time, old.record.Time), cmp.Compare(r.p.topic, old.p.topic),
			cmp.Compare(r.p.number, old.p.number), cmp.Compare(r.offset, old.offset)) > 0 {
			best[r.id] = r
		}
	}
	return slices.Collect(maps.Values(best))
}

// account returns the ledger row, but for Rows, and what of the accounts after each every records and after each gap is
// kept.
func (w *oracle) account(p *oraclePartition, reasons map[string]int64,
	every int64) (l LedgerRow, checkpoints []LedgerRow) {
	l = LedgerRow{
		Topic:       p.topic,
		Partition:   p.number,
		Incarnation: p.incarnation,
		Start:       p.start,
		Next:        p.start,
		LastOffset:  -1,
		Watermark:   NoTime,
	}
	b, _ := binary.Append([]byte("refitd ledger 1\x00"+p.topic), binary.BigEndian,
		[]uint32{p.incarnation, uint32(p.number)})
	l.Digest = sha256.Sum256(b)
	records, byNumber := int64(0), map[int64]LedgerRow{}
	for _, g := range p.got {
		l.Next++
		r := g.record
		switch {
		case g.hole:
			l.Holes++
			continue
		case g.gap:
			l.Gap++
			byNumber[records/every] = l
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
		if records++; records%every == 0 {
			byNumber[records/every] = l
		}
	}
	return l, thinned(byNumber)
}

// thinned is what is kept of checkpoints.
func thinned(byNumber map[int64]LedgerRow) (out []LedgerRow) {
	numbers := slices.Sorted(maps.Keys(byNumber))
	for _, n := range numbers {
		step, age := int64(1), numbers[len(numbers)-1]-n
		for a := age; a >= 16; a /= 2 {
			step *= 2
		}
		if n%step == 0 && age < 1024 {
			out = append(out, byNumber[n])
		}
	}
	return out
}

package sketch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/stub"
)

// A joined history is a log of events and one of outcomes, delivered in any interleaving. What the state has to be is
// computed from the records applied so far, by sorting.
type joinedHistory struct {
	rng   *rand.Rand
	o     Options
	j     *journal
	store *Store
	logs  []*joinedLog
}

// A joinedLog is a partition of either side.
type joinedLog struct {
	topic    string
	number   int32
	outcomes bool
	records  []Record // those that are left of the log; offsets between them are holes
	end      int64
	next     int64 // as the state has it
}

// newJoined draws a history.
func newJoined(seed uint64) *joinedHistory {
	h := &joinedHistory{rng: rand.New(rand.NewPCG(seed, 5)), j: &journal{Backend: storage.NewMemory(), until: -1}}
	h.o = Options{Size: 1 + h.rng.IntN(12), HoldoutSize: 2 + h.rng.IntN(7), Seed: h.rng.Uint64(), Identity: "id",
		HoldoutFraction: []float64{0, 0.3}[h.rng.IntN(2)], Outcomes: []Order{Earliest, Latest}[h.rng.IntN(2)],
		HalfLife: time.Duration(h.rng.IntN(2)) * time.Second, CheckpointEvery: 5}
	ids, length, sides := 60, 50, 3
	switch h.rng.IntN(6) {
	case 0: // many outcomes of few events
		ids, length = 3, 250
	case 1: // in many partitions
		ids, sides = 5, MaxJoinedPartitions+3
	case 2: // of events that never come
		ids = 400
	}
	for i := range 2 + sides {
		l := &joinedLog{topic: "a", number: int32(i)}
		if l.outcomes = i >= 2; l.outcomes {
			l.topic, l.number = []string{"c", "d"}[i%2], int32(i/2)
		}
		for range h.rng.IntN(length) {
			r := Record{Offset: l.end, Fate: Applied, CRC: h.rng.Uint32(), Weight: 1, Time: int64(h.rng.IntN(4000))}
			l.end++
			r.Identity = strconv.AppendInt([]byte{}, int64(h.rng.IntN(ids)), 10)
			switch {
			case h.rng.IntN(10) == 0: // compacted away
				continue
			case h.rng.IntN(10) == 0:
				r = Record{Offset: r.Offset, CRC: r.CRC, Fate: Rejected, Reason: "not_json"}
			case h.rng.IntN(10) == 0:
				r = Record{Offset: r.Offset, Fate: Control}
			case l.outcomes:
				r.Value, r.TakesBack = float64(h.rng.IntN(5)), h.rng.IntN(9) == 0
			default:
				r.Payload = fmt.Appendf(nil, "%s@%d", r.Identity, r.Offset)
			}
			l.records = append(l.records, r)
		}
		h.logs = append(h.logs, l)
	}
	return h
}

// open opens the state as it is.
func (h *joinedHistory) open() error {
	h.j.until = -1
	s, err := load(context.Background(), h.j, &h.o, h.o.choose)
	if err != nil {
		return err
	}
	h.store = s
	for _, l := range h.logs {
		if err := s.Begin(l.topic, l.number, 0); err != nil {
			return err
		}
		l.next, _ = s.Position(l.topic, l.number)
	}
	return nil
}

// part returns a stretch of a log.
func (l *joinedLog) part(from, to int64) *Part {
	p := &Part{Topic: l.topic, Partition: l.number, Base: from, Next: to, Outcomes: l.outcomes}
	for _, r := range l.records {
		if r.Offset >= from && r.Offset < to {
			p.Records = append(p.Records, r)
		}
	}
	return p
}

// step does something, and takes up what became of it.
func (h *joinedHistory) step() error {
	l := h.logs[h.rng.IntN(len(h.logs))]
	deliver := func() error {
		from := l.next
		if h.rng.IntN(3) == 0 {
			from = h.rng.Int64N(l.next + 1)
		}
		to := min(l.end, from+int64(h.rng.IntN(30)))
		return h.store.Apply(l.part(from, to), nil)
	}
	switch h.rng.IntN(12) {
	case 0:
		return h.open()
	case 1, 2:
		h.j.until, h.j.durable = h.rng.IntN(6), h.rng.IntN(2) == 0
		if err := deliver(); err != nil && !errors.Is(err, errCrash) {
			return err
		}
		return h.open()
	case 3:
		h.j.lose(1 + h.rng.IntN(6))
		return h.open()
	case 4:
		if h.rng.IntN(3) > 0 {
			return nil
		}
		h.o.Size, h.o.HoldoutSize = 1+h.rng.IntN(h.o.Size), 2+h.rng.IntN(h.o.HoldoutSize-1)
		return h.open()
	}
	err := deliver()
	l.next, _ = h.store.Position(l.topic, l.number)
	return err
}

// joinedRow is what the sample must have of an event.
type joinedRow struct {
	payload  string
	outcomes []Outcome
}

// want returns the rows of each role by identity hash, with what came of them, and the identities with outcomes alone.
func (h *joinedHistory) want() (rows [NumRoles]map[policy.Identity]joinedRow, stubs [NumRoles]map[policy.Identity]int) {
	w := &oracle{life: &life{o: h.o}}
	type side struct {
		role Role
		id   policy.Identity
	}
	placeOf := func(r *Record) side {
		sum := w.hash(byte(1), r.Identity)
		s := side{id: policy.Identity(sum[:16])}
		if bits := binary.BigEndian.Uint64(sum[16:]); float64(bits>>1) < h.o.HoldoutFraction*(1<<63) {
			s.role = Select + Role(bits&1)
		}
		return s
	}
	type newestRow struct {
		time   int64
		at     int
		offset int64
		joinedRow
	}
	events, lists := map[side]newestRow{}, map[side]map[int][]Outcome{}
	for at, l := range h.logs {
		for i := range l.records {
			r := &l.records[i]
			if r.Offset >= l.next || r.Fate != Applied {
				continue
			}
			s := placeOf(r)
			if !l.outcomes {
				e := newestRow{r.Time, at, r.Offset, joinedRow{payload: string(r.Payload)}}
				if old, ok := events[s]; !ok || cmp.Or(cmp.Compare(e.time, old.time), cmp.Compare(e.at, old.at),
					cmp.Compare(e.offset, old.offset)) > 0 {
					events[s] = e
				}
				continue
			}
			switch {
			case !r.TakesBack:
				if lists[s] == nil {
					lists[s] = map[int][]Outcome{}
				}
				lists[s][at] = append(lists[s][at], Outcome{Topic: l.topic, Partition: l.number, Offset: r.Offset, Time: r.Time,
					Value: r.Value})
			case lists[s] != nil && lists[s][at] != nil:
				lists[s][at] = []Outcome{}
			}
		}
	}
	capacity := [NumRoles]int{h.o.Size, h.o.HoldoutSize - h.o.HoldoutSize/2, h.o.HoldoutSize / 2}
	for role := range NumRoles {
		rows[role], stubs[role] = map[policy.Identity]joinedRow{}, map[policy.Identity]int{}
		var ofEvents, ofOutcomes []policy.Identity
		for s := range events {
			if s.role == role {
				ofEvents = append(ofEvents, s.id)
			}
		}
		for s := range lists {
			if s.role == role {
				ofOutcomes = append(ofOutcomes, s.id)
			}
		}
		cut := policy.Identity(slices.Repeat([]byte{255}, 16)) // smaller hashes are better
		for _, ids := range [][]policy.Identity{ofEvents, ofOutcomes} {
			slices.SortFunc(ids, func(a, b policy.Identity) int { return slices.Compare(a[:], b[:]) })
			if len(ids) > capacity[role] && slices.Compare(ids[capacity[role]][:], cut[:]) < 0 {
				cut = ids[capacity[role]]
			}
		}
		for _, id := range ofEvents {
			if slices.Compare(id[:], cut[:]) < 0 {
				rows[role][id] = joinedRow{events[side{role, id}].payload, h.outcomesOf(lists[side{role, id}])}
			}
		}
		for _, id := range ofOutcomes {
			if slices.Compare(id[:], cut[:]) < 0 {
				stubs[role][id] = len(h.outcomesOf(lists[side{role, id}]))
			}
		}
	}
	return rows, stubs
}

// outcomesOf returns what is kept of the lists of an event, by log.
func (h *joinedHistory) outcomesOf(lists map[int][]Outcome) (out []Outcome) {
	var places []int
	for at := range lists {
		places = append(places, at)
	}
	slices.SortFunc(places, func(a, b int) int {
		return cmp.Or(cmp.Compare(h.logs[a].topic, h.logs[b].topic), cmp.Compare(h.logs[a].number, h.logs[b].number))
	})
	for _, at := range places[:min(len(places), MaxJoinedPartitions)] {
		list := slices.Clone(lists[at])
		slices.SortFunc(list, func(a, b Outcome) int {
			return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Offset, b.Offset))
		})
		if n := len(list) - MaxOutcomes; n > 0 && h.o.Outcomes == Latest {
			list = list[n:]
		} else if n > 0 {
			list = list[:MaxOutcomes]
		}
		out = append(out, list...)
	}
	slices.SortStableFunc(out, func(a, b Outcome) int { return cmp.Compare(a.Time, b.Time) })
	return out
}

// MaxJoinedPartitions is stub.MaxPartitions, where the histories draw how many there are.
const MaxJoinedPartitions = stub.MaxPartitions

// check compares the state with the records that were applied.
func (h *joinedHistory) check() error {
	if err := h.store.Check(); err != nil {
		return err
	}
	sample, err := h.store.Sample()
	if err != nil {
		return err
	}
	state, err := h.store.State()
	if err != nil {
		return err
	}
	if state.SampleDigest != sample.Digest {
		return fmt.Errorf("digest of the state %v, of the sample %v", state.SampleDigest, sample.Digest)
	}
	rows, stubs := h.want()
	joined, all := 0, 0
	for role, got := range [][]Row{sample.Train, sample.Select, sample.Gate} {
		have := map[string]joinedRow{}
		for i := range got {
			have[string(got[i].Payload)] = joinedRow{string(got[i].Payload), got[i].Outcomes}
			if len(got[i].Outcomes) > 0 {
				joined++
			}
		}
		for id, want := range rows[role] {
			if of, ok := have[want.payload]; !ok || !reflect.DeepEqual(of, want) {
				return fmt.Errorf("%s: row %x is %v, want %v", Role(role), id, of, want)
			}
		}
		if len(have) != len(rows[role]) {
			return fmt.Errorf("%s: %d rows, want %d", Role(role), len(have), len(rows[role]))
		}
		r := h.store.samples.StubsOf(Role(role))
		for id, n := range stubs[role] {
			if r.Find(id) == nil {
				return fmt.Errorf("%s: stub %x is not there", Role(role), id)
			}
			if n > 0 {
				all++
			}
		}
		if len(r.Entries) != len(stubs[role]) {
			return fmt.Errorf("%s: %d stubs, want %d", Role(role), len(r.Entries), len(stubs[role]))
		}
	}
	if state.Joined != joined || state.Stubs != all || sample.Unmatched != all-joined {
		return fmt.Errorf("state has %d joined of %d stubs, the sample %d unmatched, want %d of %d", state.Joined,
			state.Stubs, sample.Unmatched, joined, all)
	}
	return nil
}

// playOutcomes plays a history, delivers what is left, and compares the result with that of another order.
func playOutcomes(seed uint64) error {
	h := newJoined(seed)
	if err := h.open(); err != nil {
		return err
	}
	for i := range 40 {
		if err := h.step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if err := h.check(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	for _, l := range h.logs {
		if err := h.store.Apply(l.part(l.next, l.end), nil); err != nil {
			return err
		}
		l.next = l.end
	}
	if err := h.check(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	again, err := NewMemory(h.o)
	if err != nil {
		return err
	}
	logs := slices.Clone(h.logs)
	h.rng.Shuffle(len(logs), func(i, k int) { logs[i], logs[k] = logs[k], logs[i] })
	for _, l := range logs {
		if err := errors.Join(again.Begin(l.topic, l.number, 0), again.Apply(l.part(0, l.end), nil)); err != nil {
			return err
		}
	}
	a, err := h.store.State()
	if err != nil {
		return err
	}
	b, err := again.State()
	if err != nil {
		return err
	}
	if a.SampleDigest != b.SampleDigest || !reflect.DeepEqual(a.Partitions, b.Partitions) {
		return fmt.Errorf("another order gives another state: %+v, %+v", a, b)
	}
	return nil
}

// TestOutcomes: whatever the interleaving of events and outcomes, and whatever is delivered twice, lost with the end of
// the state, or cut off by a crash, the sample is that of the join of what was applied.
func TestOutcomes(t *testing.T) {
	for seed := range tier.Size(300, 10_000) {
		if err := playOutcomes(uint64(seed)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestManyOutcomes: however many outcomes come without an event, so many identities are kept as rows, and no more.
func TestManyOutcomes(t *testing.T) {
	const size, n = 2000, 50_000
	store, err := NewMemory(Options{Size: size, Seed: 1, Identity: "id", Outcomes: Earliest})
	must(t, err, store.Begin("c", 0, 0))
	for base := int64(0); base < n; base += 5000 {
		p := &Part{Topic: "c", Base: base, Next: base + 5000, Outcomes: true}
		for i := range int64(5000) {
			p.Records = append(p.Records, Record{Offset: base + i, Fate: Applied, Weight: 1, Value: 1,
				Identity: strconv.AppendInt(nil, base+i, 10)})
		}
		must(t, store.Apply(p, nil))
	}
	s, err := store.Sample()
	must(t, err)
	if kept, bytes := store.Stubs(); kept != size || s.Unmatched != size || bytes > 100*size {
		t.Errorf("%d keys of %d bytes, %d unmatched, want %d", kept, bytes, s.Unmatched, size)
	}
	must(t, store.Check(), store.Close())
}

// TestOutcomesOnDisk: a state on disk with rows and outcomes is the same after it was opened again, and after a backup
// was put in its place; what a forgotten identity had is gone on both sides.
func TestOutcomesOnDisk(t *testing.T) {
	h := newJoined(1)
	h.o.Size = 100
	o := h.o
	o.Dir = t.TempDir()
	s, err := Open(t.Context(), o)
	must(t, err)
	for _, l := range h.logs {
		must(t, s.Begin(l.topic, l.number, 0), s.Apply(l.part(0, l.end), nil))
		l.next = l.end
	}
	h.store = s
	must(t, h.check())
	before, err := s.State()
	must(t, err)
	if before.Joined == 0 {
		t.Fatalf("nothing is joined: %+v", before)
	}
	var copied bytes.Buffer
	_, err = s.Backup(&copied)
	must(t, err, s.Close())
	s, err = Open(t.Context(), o)
	must(t, err)
	h.store = s
	must(t, h.check())
	again, err := s.State()
	must(t, err, s.Close())
	dir := t.TempDir() + "/restored"
	_, err = Restore(t.Context(), dir, bytes.NewReader(copied.Bytes()), nil)
	must(t, err)
	s, err = OpenExisting(t.Context(), dir, nil)
	must(t, err)
	restored, err := s.State()
	must(t, err)
	if again.SampleDigest != before.SampleDigest || restored.SampleDigest != before.SampleDigest ||
		restored.Joined != before.Joined || restored.Stubs != before.Stubs {
		t.Errorf("%+v opened again, %+v restored, want %+v", again, restored, before)
	}
	sample, err := s.Sample()
	must(t, err)
	var id []byte
	for _, list := range [][]Row{sample.Train, sample.Select, sample.Gate} {
		for _, r := range list {
			if len(r.Outcomes) > 0 {
				id, _, _ = bytes.Cut(r.Payload, []byte("@"))
			}
		}
	}
	_, err = s.ForgetSubject("id", id)
	must(t, err)
	rows, err := s.Erase(t.Context(), userOf)
	must(t, err, s.Check())
	after, err := s.State()
	must(t, err, s.Close())
	if rows != 1 || after.Stubs != before.Stubs-1 || after.Joined != before.Joined-1 {
		t.Errorf("%d rows of %s erased, %+v left of %+v", rows, id, after, before)
	}
}

package sketch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

var errCrash = errors.New("the machine went down")

// A journal is a backend that can crash at a commit and lose the last commits. Over Badger it can only crash.
type journal struct {
	backend
	commits [][]op
	until   int  // commits until the crash; negative = no crash
	durable bool // whether the crashing commit is durable all the same

	torn, withoutLedger, withoutRows bool // mutants
}

func (j *journal) commit(ops []op) error {
	crash := j.until == 0
	j.until--
	if crash && !j.durable && !j.torn {
		return errCrash
	}
	var kept []op
	for i, o := range ops {
		if j.withoutLedger && o.key[0] == prefixLedger || j.withoutRows && o.key[0] == prefixRow || crash && j.torn && i > len(ops)/2 {
			continue
		}
		kept = append(kept, op{key: bytes.Clone(o.key), value: bytes.Clone(o.value), skip: o.skip})
	}
	if err := j.backend.commit(kept); err != nil {
		return err
	}
	j.commits = append(j.commits, kept)
	if crash {
		return errCrash
	}
	return nil
}

// limits are small, so that most parts take several transactions.
func (j *journal) limits() (entries, bytes int64) { return 60, 1 << 20 }

// lose forgets the last n commits, but for the first, which is the settings.
func (j *journal) lose(n int) {
	j.commits = j.commits[:max(1, len(j.commits)-n)]
	m := newMemory()
	for _, ops := range j.commits {
		m.commit(ops)
	}
	j.backend = m
}

// A logRecord is an offset of a partition's log.
type logRecord struct {
	Record
	compacted bool
}

type history struct {
	rng    *rand.Rand
	oracle *oracle
	o      Options
	reopen func() (backend, error) // nil: in memory
	j      *journal
	store  *Store
	logs   [][]logRecord // of the oracle's partitions, by offset
	starts []int64       // log starts
	resume []bool        // whether the next read is the first since opening
	mutant mutant
}

// settingsOf draws the options of a history.
func settingsOf(rng *rand.Rand) Options {
	o := Options{Size: 1 + rng.IntN(20), HoldoutSize: 2 + rng.IntN(9), Seed: rng.Uint64(), HoldoutFraction: []float64{0, 0.2, 0.5}[rng.IntN(3)]}
	if rng.IntN(2) == 0 {
		o.HalfLife = time.Duration(1+rng.IntN(2000)) * time.Millisecond
		o.HoldoutHalfLife = o.HalfLife / time.Duration(1+rng.IntN(2))
		o.HoldoutHalfLife = max(o.HoldoutHalfLife, time.Millisecond)
	}
	o.Weighted = rng.IntN(3) == 0
	if rng.IntN(3) == 0 {
		o.Identity = "id"
	}
	if rng.IntN(3) == 0 {
		o.HoldoutBy = "user"
	}
	return o
}

// run plays a history of the seed and returns the first violation.
func run(seed uint64, steps int, m mutant, reopen func(Options) (backend, error)) (err error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := &history{rng: rng, o: settingsOf(rng), mutant: m}
	h.oracle = &oracle{o: h.o}
	h.j = &journal{backend: newMemory()}
	if reopen != nil {
		h.reopen = func() (backend, error) { return reopen(h.o) }
		if h.j.backend, err = h.reopen(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.j.close()) }()
	}
	if err := h.open(); err != nil {
		return err
	}
	for i, topic := range []string{"a", "a", "b"} {
		start := int64(rng.IntN(2) * rng.IntN(20))
		h.oracle.partitions = append(h.oracle.partitions, &oraclePartition{topic: topic, number: int32(i % 2), start: start})
		h.logs, h.starts, h.resume = append(h.logs, nil), append(h.starts, start), append(h.resume, false)
		for range start {
			h.logs[i] = append(h.logs[i], logRecord{compacted: true})
		}
		if err := h.begin(i); err != nil {
			return err
		}
	}
	for step := range steps {
		op, err := h.step()
		if err == nil {
			err = h.oracle.check(h.store)
		}
		if err != nil {
			return fmt.Errorf("seed %d, step %d, %s: %w", seed, step, op, err)
		}
	}
	return nil
}

func (h *history) begin(i int) error {
	p := h.oracle.partitions[i]
	return h.store.Begin(p.topic, p.number, p.start)
}

func (h *history) open() error {
	h.j.until, h.j.torn, h.j.withoutLedger, h.j.withoutRows = -1, h.mutant.torn, h.mutant.withoutLedger, h.mutant.withoutRows
	s, err := load(context.Background(), h.j, &h.o, func(stored *settings) (settings, error) {
		want := h.o.settings()
		if stored != nil {
			return stored.succeed(want, false)
		}
		return want, nil
	})
	if err != nil {
		return err
	}
	h.store = s

	for i := range h.resume {
		h.resume[i] = true
	}
	return nil
}

// restart opens the state again and cuts the oracle back to where it is. What was acknowledged must be there, but for a lost suffix of
// the whole state, or for what a crash cut off of a part of one partition from offset low on.
func (h *history) restart(lost bool, cut *oraclePartition, low int64) error {
	if h.reopen != nil {
		if err := h.j.close(); err != nil {
			return err
		}
		b, err := h.reopen()
		if err != nil {
			return err
		}
		h.j.backend = b
	}
	if err := h.open(); err != nil {
		return err
	}
	for i, p := range h.oracle.partitions {
		next, ok := h.store.Position(p.topic, p.number)
		if !ok && lost {
			next = p.start
			if err := h.begin(i); err != nil {
				return err
			}
		}
		floor := p.next()
		if lost {
			floor = p.start
		} else if p == cut {
			floor = low
		}
		if next < floor || next > p.next() {
			return fmt.Errorf("%s/%d opens at %d, want %d to %d", p.topic, p.number, next, floor, p.next())
		}
		p.got = p.got[:next-p.start]
	}
	if lost {
		h.oracle.aux = h.store.Aux() // any older one
	}
	return nil
}

func (h *history) step() (string, error) {
	i := h.rng.IntN(len(h.logs))
	switch k := h.rng.IntN(20); {
	case k < 4:
		h.produce(i)
		return "produce", nil
	case k < 5:
		h.compact(i)
		return "compact", nil
	case k < 6 && !h.mutant.noTruncation:
		h.starts[i] += int64(h.rng.IntN(len(h.logs[i]) - int(h.starts[i]) + 1))
		return "truncate", nil
	case k < 8:
		return "reopen", h.restart(false, nil, 0)
	case k < 9 && h.reopen == nil:
		h.j.lose(1 + h.rng.IntN(6))
		return "lose suffix", h.restart(true, nil, 0)
	case k < 12:
		h.j.until, h.j.durable = h.rng.IntN(4), h.rng.IntN(2) == 0
		err := h.deliver(i)
		h.j.until = -1
		return "deliver and crash", err
	default:
		return "deliver", h.deliver(i)
	}
}

// produce appends records, sometimes a transaction that is aborted.
func (h *history) produce(i int) {
	transaction := h.rng.IntN(3)
	for range 1 + h.rng.IntN(20) {
		offset := int64(len(h.logs[i]))
		r := Record{Offset: offset, Fate: Applied, CRC: h.rng.Uint32(), Time: int64(h.rng.IntN(4000)) - 1000, Weight: 1,
			Payload: fmt.Appendf(nil, "%d@%d", offset, i)}
		if h.o.Weighted {
			r.Weight = 0.1 + h.rng.ExpFloat64()
		}
		if h.o.Identity != "" {
			r.Identity = strconv.AppendInt([]byte{}, int64(h.rng.IntN(40)), 10)
		}
		if h.o.HoldoutBy != "" {
			r.HoldoutKey = strconv.AppendInt([]byte{}, int64(h.rng.IntN(15)), 10)
		}
		switch {
		case transaction == 1:
			r.Fate = Aborted
		case h.rng.IntN(8) == 0:
			r.Fate, r.Reason = Rejected, []string{"not_json", "wrong_type", "label_range"}[h.rng.IntN(3)]
		}
		h.logs[i] = append(h.logs[i], logRecord{Record: r})
	}
	if transaction != 0 {
		h.logs[i] = append(h.logs[i], logRecord{Record: Record{Offset: int64(len(h.logs[i])), Fate: Control, CRC: h.rng.Uint32(), Weight: 1,
			Identity: h.orNil(h.o.Identity), HoldoutKey: h.orNil(h.o.HoldoutBy)}})
	}
}

func (h *history) orNil(field string) []byte {
	if field == "" {
		return nil
	}
	return []byte("marker")
}

func (h *history) compact(i int) {
	for k := range h.logs[i] {
		if h.rng.IntN(5) == 0 {
			h.logs[i][k].compacted = true
		}
	}
}

// deliver reads from any offset up to next, any length, and applies it.
func (h *history) deliver(i int) error {
	p, log, start := h.oracle.partitions[i], h.logs[i], h.starts[i]
	next := p.next()
	from := next
	if h.rng.IntN(3) == 0 {
		from = p.start + h.rng.Int64N(next-p.start+1)
	}
	from = max(from, start)
	to := min(int64(len(log)), from+int64(h.rng.IntN(40)))
	to = max(to, from)
	part := &Part{Topic: p.topic, Partition: p.number, LogStart: start, Base: from, Next: to}
	for k := from; k < to; k++ {
		r := log[k].Record
		switch {
		case log[k].compacted:
			continue
		case h.mutant.skipAtResume && h.resume[i] && k == next:
			continue
		case h.mutant.controlApplied && r.Fate == Control, h.mutant.abortedApplied && r.Fate == Aborted:
			r.Fate = Applied
		}
		part.Records = append(part.Records, r)
	}
	h.resume[i] = false
	if h.rng.IntN(2) == 0 {
		h.store.Classify(part)
	}
	var aux []byte
	if h.rng.IntN(2) == 0 {
		aux = strconv.AppendUint(nil, h.rng.Uint64(), 16)
	}
	err := h.store.Apply(part, aux)
	var gap *GapError
	switch {
	case errors.As(err, &gap):
		if start <= next || gap.Next != next || gap.LogStart != start {
			return err
		}
		if h.rng.IntN(2) == 0 {
			return nil // halted; perhaps accepted next time
		}
		h.j.until = -1
		for k := next; k < start; k++ {
			p.got = append(p.got, outcome{gap: true})
		}
		return h.store.AcceptGap(p.topic, p.number, start)
	case err != nil && !errors.Is(err, errCrash):
		return err
	}
	// What should have been applied, whatever was.
	for k := next; k < to; k++ {
		switch {
		case k < start:
			p.got = append(p.got, outcome{bad: true})
		case log[k].compacted:
			p.got = append(p.got, outcome{hole: true})
		default:
			r := log[k].Record
			p.got = append(p.got, outcome{record: &r})
		}
	}
	if err == nil {
		if aux != nil {
			h.oracle.aux = aux
		}
		return nil
	}
	if again := h.store.Apply(part, aux); !errors.Is(again, errCrash) {
		return fmt.Errorf("a store that failed answered %v", again)
	}
	// Any number of pieces may be durable, aux with the last alone.
	if err := h.restart(false, p, next); err != nil {
		return err
	}
	if aux != nil && p.next() == max(next, to) && bytes.Equal(h.store.Aux(), aux) {
		h.oracle.aux = aux
	}
	return nil
}

// histories returns how many histories to play: SKETCH_HISTORIES, or n.
func histories(n int) int {
	if v, err := strconv.Atoi(os.Getenv("SKETCH_HISTORIES")); err == nil {
		return v
	}
	return n
}

// TestHistories: whatever is delivered, lost, repeated, compacted or truncated, in any order, the state is that of a log prefix.
func TestHistories(t *testing.T) {
	for seed := range uint64(histories(200)) {
		if err := run(seed, 60, mutant{}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHistoriesOnDisk plays a few on Badger.
func TestHistoriesOnDisk(t *testing.T) {
	for seed := range uint64(8) {
		dir := t.TempDir()
		reopen := func(o Options) (backend, error) { return openDisk(dir, DefaultMemTableBytes, discard) }
		if err := run(seed, 40, mutant{}, reopen); err != nil {
			t.Fatal(err)
		}
	}
}

var discard = slog.New(slog.DiscardHandler)

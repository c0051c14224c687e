package sketch

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// A plan is a history to be: the settings follow from the seed, and so does what each step does in detail.
type plan struct {
	Seed  uint64
	Steps []step
}

type step struct {
	Kind string
	Seed uint64
}

// kinds are what can happen, as often as they are named.
var kinds = []string{
	"produce", "produce", "produce", "produce", "abort", "compact", "truncate",
	"deliver", "deliver", "deliver", "deliver", "deliver", "crash before commit", "crash after commit",
	"crash after commit",
	"reopen", "lose suffix", "copy", "join", "stale batch", "resize", "forget", "recreate", "rebuild", "train",
}

// plans generates histories.
var plans = rapid.Custom(func(t *rapid.T) plan {
	one := rapid.Custom(func(t *rapid.T) step {
		return step{rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.Uint64().Draw(t, "seed")}
	})
	return plan{rapid.Uint64().Draw(t, "seed"), rapid.SliceOfN(one, 10, 60).Draw(t, "steps")}
})

// A logRecord is an offset of a partition's log.
type logRecord struct {
	Record
	user      string
	compacted bool
}

// A history is a log with a store that reads it, and the oracle.
type history struct {
	*oracle
	rng    *rand.Rand
	reopen func() (storage.Backend, error) // nil: in memory
	j      *journal
	store  *Store
	logs   map[*oraclePartition]*partitionLog
	lives  map[string]*life // by lineage
	next   *life            // of the decision under way
	copied *copied
	cut    []Position // of the last training
	broken driver
}

type partitionLog struct {
	records   []logRecord
	start     int64
	committed int64 // what the group shows
	resume    bool  // the next read is the first since opening
	stale     *Part // a batch fetched once
}

// settingsOf draws the options of a history.
func settingsOf(rng *rand.Rand) Options {
	o := Options{
		Size:            1 + rng.IntN(20),
		HoldoutSize:     2 + rng.IntN(9),
		Seed:            rng.Uint64(),
		HoldoutFraction: []float64{0, 0.2, 0.5}[rng.IntN(3)],
		CheckpointEvery: int64(1 + rng.IntN(9)),
	}
	if rng.IntN(2) == 0 {
		o.HalfLife = time.Duration(1+rng.IntN(2000)) * time.Millisecond
		o.HoldoutHalfLife = max(o.HalfLife/time.Duration(1+rng.IntN(2)), time.Millisecond)
	}
	o.Weighted = rng.IntN(3) == 0
	if rng.IntN(3) == 0 {
		o.HoldoutBy = "user"
	}
	switch rng.IntN(6) {
	case 0, 1:
		o.Identity = "id"
	case 2:
		o.Quotas = []Quota{{Class: "c1", Share: 0.1 + 0.3*rng.Float64()},
			{Class: "c2", Share: 0.6 * rng.Float64()}}[:1+rng.IntN(2)]
	case 3:
		o.CapBy, o.CapShare = "user", 0.05+0.5*rng.Float64()
	}
	return o
}

// run plays a history and returns the first violation.
func run(p plan, broken driver, reopen func(Options) (storage.Backend, error)) (err error) {
	rng := rand.New(rand.NewPCG(p.Seed, 1))
	o := settingsOf(rng)
	h := &history{
		rng:    rng,
		broken: broken,
		logs:   map[*oraclePartition]*partitionLog{},
		lives:  map[string]*life{},
		j:      &journal{Backend: storage.NewMemory()},
	}
	h.oracle = &oracle{life: &life{o: o}}
	if reopen != nil {
		h.reopen = func() (storage.Backend, error) { return reopen(o) }
		if h.j.Backend, err = h.reopen(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.j.Close()) }()
	}
	h.next = h.life
	if err := h.open(o); err != nil {
		return err
	}
	for i, topic := range []string{"a", "a", "b"} {
		if err := h.add(topic, int32(i%2), 0, int64(rng.IntN(2)*rng.IntN(20))); err != nil {
			return err
		}
	}
	for i, step := range p.Steps {
		h.rng = rand.New(rand.NewPCG(step.Seed, 2))
		err := h.step(step.Kind)
		if err == nil {
			err = h.oracle.check(h.store)
		}
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", i, step.Kind, err)
		}
	}
	return nil
}

// add makes a partition whose log starts at an offset.
func (h *history) add(topic string, number int32, incarnation uint32, start int64) error {
	p := &oraclePartition{topic: topic, number: number, incarnation: incarnation, start: start}
	log := &partitionLog{start: start, committed: start}
	for range start {
		log.records = append(log.records, logRecord{compacted: true})
	}
	h.partitions = append(h.partitions, p)
	h.logs[p] = log
	return h.store.Begin(topic, number, start)
}

// current returns the partitions that are read.
func (h *history) current() (out []*oraclePartition) {
	for _, p := range h.partitions {
		if !p.over {
			out = append(out, p)
		}
	}
	return out
}

// open opens the state as it is, and takes up its life: the one that was decided last, or an older one if the decision
// was lost.
func (h *history) open(o Options) error {
	h.j.until, h.j.broken = -1, h.broken
	s, err := load(context.Background(), h.j, &o, func(stored *policy.Settings) (policy.Settings, error) {
		if stored == nil {
			return o.settings(), nil
		}
		return *stored, nil
	})
	if err != nil {
		return err
	}
	h.store = s
	life, ok := h.lives[s.Lineage()]
	if !ok {
		if life = h.next; life == nil {
			return fmt.Errorf("lineage %s without a decision", s.Lineage())
		}
		h.lives[s.Lineage()] = life
	}
	h.life = life
	for _, log := range h.logs {
		log.resume = true
	}
	_, err = s.Erase(context.Background(), userOf)
	return err
}

// userOf is what the payloads say of users.
func userOf(field string, payload []byte) [][]byte {
	if field != "user" {
		return nil
	}
	user, _, _ := bytes.Cut(payload, []byte(" "))
	return [][]byte{user}
}

// restart opens the state again and cuts the oracle back to where it is. What was acknowledged must be there, but for a
// lost suffix of the whole state, or for what a crash cut off of a part of one partition from offset low on.
func (h *history) restart(lost bool, cut *oraclePartition, low int64) error {
	if h.reopen != nil {
		if err := h.j.Close(); err != nil {
			return err
		}
		b, err := h.reopen()
		if err != nil {
			return err
		}
		h.j.Backend = b
	}
	if err := h.open(h.o); err != nil {
		return err
	}
	if lost {
		h.oracle.aux = h.store.Aux() // any older one
		h.cut = nil
		if err := h.recreateAgain(); err != nil {
			return err
		}
	}
	for _, p := range h.current() {
		next, ok := h.store.Position(p.topic, p.number)
		if !ok && lost {
			next = p.start
			if err := h.store.Begin(p.topic, p.number, p.start); err != nil {
				return err
			}
		}
		if h.broken.brokerOffset {
			if err := h.trustGroup(p); err != nil {
				return err
			}
			next, _ = h.store.Position(p.topic, p.number)
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
	return nil
}

// play plays a history on a backend in memory. Lanes with the same draws play different ones.
func play(t *rapid.T, lane uint64) {
	p := plans.Draw(t, "history")
	p.Seed += lane
	if err := run(p, driver{}, nil); err != nil {
		t.Fatalf("seed %#x: %v", p.Seed, err)
	}
}

// TestHistories: whatever is delivered, lost, repeated, compacted, truncated, forgotten or resized, in any order, the
// state is that of a log prefix. A history that fails is printed, shrunk, with the seed that finds it again
// (-rapid.seed). SKETCH_SEED is the seed of the first, drawn if it is not set.
func TestHistories(t *testing.T) {
	n := tier.Size(1000, 20_000)
	const lanes = 2
	// A seed finds a history again: files are not left behind.
	values := map[string]string{"rapid.checks": strconv.Itoa(max(1, n/lanes)), "rapid.nofailfile": "true"}
	if seed := os.Getenv("SKETCH_SEED"); seed != "" {
		values["rapid.seed"] = seed
	}
	for name, value := range values {
		f := flag.Lookup(name)
		was := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		defer f.Value.Set(was)
	}
	t.Run("lanes", func(t *testing.T) {
		for i := range lanes {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) { play(t, uint64(i)) })
			})
		}
	})
}

// TestHistoriesOnDisk plays some on Badger.
func TestHistoriesOnDisk(t *testing.T) {
	for seed := range tier.Size(5, 300) {
		dir := t.TempDir()
		reopen := func(Options) (storage.Backend, error) { return storage.OpenDisk(dir, DefaultMemTableBytes, discard) }
		if err := run(plans.Example(seed), driver{}, reopen); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

var discard = slog.New(slog.DiscardHandler)

// among returns one of several.
func among[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

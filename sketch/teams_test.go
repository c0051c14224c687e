package sketch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// TestTeams: whatever shards are read in which order, cut short, sent twice, started again or put back to a copy, the
// trainer ends with the rows, the accounts and the thresholds of one store that applied everything, and so does one
// that begins with what compaction left of the topic: the rows of the shards, no more.
// So does, too, a team of another number of shards that took the partitions up from the topic.
func TestTeams(t *testing.T) {
	n := tier.Size(150, 1500)
	if tier.Asked(tier.Long) && tier.Asked(tier.Load) {
		n = 20_000 // minutes
	}
	for seed := range uint64(n) {
		if err := runTeam(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func runTeam(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	team, err := newTeam(rng)
	for range 20 + rng.IntN(100) {
		if err == nil {
			err = team.step()
		}
	}
	if err == nil {
		err = team.settle()
	}
	if err == nil {
		err = team.check()
	}
	if err != nil || len(team.whole.ForgottenFields()) > 0 {
		return err
	}
	team.compact()
	live, rows := 0, 0
	for _, m := range team.topic {
		for _, p := range m.pairs {
			if p.Value != nil && (p.Key[0] == codec.PrefixRow || p.Key[0] == codec.PrefixStub) {
				live++
			}
		}
	}
	for _, sh := range team.shards {
		for _, n := range sh.rows() {
			rows += n
		}
		stubs, _ := sh.store.Stubs()
		rows += stubs
	}
	if live != rows && !team.putBack {
		return fmt.Errorf("the topic has %d rows, the shards %d", live, rows)
	}
	team.trainer = &teamTrainer{backend: storage.NewMemory()}
	if err = team.restartTrainer(); err == nil {
		err = team.settle()
	}
	if err == nil {
		err = team.check()
	}
	if err != nil {
		return fmt.Errorf("made anew: %w", err)
	}
	if len(team.o.Quotas) > 0 || team.putBack {
		return nil
	}
	if err = team.reshard(); err == nil {
		err = team.settle()
	}
	if err == nil {
		err = team.check()
	}
	for range rng.IntN(40) {
		if err == nil {
			err = team.step()
		}
	}
	if err == nil {
		err = team.settle()
	}
	if err == nil {
		err = team.check()
	}
	if err != nil {
		return fmt.Errorf("with other shards: %w", err)
	}
	return nil
}

// TestTakeoverOfOpenRows: a process that takes the place of a shard with 100,000 events without an outcome has its rows
// and outcomes, and what comes then is joined in both alike.
func TestTakeoverOfOpenRows(t *testing.T) {
	const n = 100_000
	o := Options{Size: 2 * n, Seed: 1, Identity: "id", Outcomes: Earliest, Mirror: true}
	open := func(mirror, merges bool) *Store {
		o := o
		o.Mirror, o.Merges = mirror, merges
		s, err := load(t.Context(), storage.NewMemory(), &o, o.choose)
		must(t, err)
		return s
	}
	apply := func(s *Store, topic string, from, to, step int) {
		p := &Part{Topic: topic, Base: int64(from), Next: int64(to), Outcomes: topic == "c"}
		for i := from; i < to; i++ {
			r := Record{Offset: int64(i), Fate: Applied, Weight: 1, Time: int64(i), Identity: fmt.Appendf(nil, "e%d", i*step)}
			if p.Outcomes {
				r.Value = 1
			} else {
				r.Payload = []byte("x")
			}
			p.Records = append(p.Records, r)
		}
		must(t, s.Apply(p, nil))
	}
	shard := open(true, false)
	must(t, shard.Begin("a", 0, 0), shard.Begin("c", 0, 0))
	apply(shard, "a", 0, n, 1)
	apply(shard, "c", 0, n/20, 20)
	taken := open(true, true)
	for share, after := new(Share), (*Excerpt)(nil); share.Head == nil; {
		e, err := shard.Excerpt(1<<20, after, true)
		must(t, err)
		share.Pairs, share.Head, after = append(share.Pairs, e.Pairs...), e.Head, e
		if e.Head != nil {
			_, err = taken.Merge(share)
			must(t, err)
		}
	}
	must(t, taken.Taken())
	for _, s := range []*Store{shard, taken} {
		apply(s, "c", n/20, n/10, 7)
	}
	want, err := shard.State()
	must(t, err)
	got, err := taken.State()
	must(t, err, taken.Check())
	if got.SampleDigest != want.SampleDigest || got.Stubs != want.Stubs || got.Joined != want.Joined ||
		want.Joined < n/20 || want.Joined > n/5 {
		t.Errorf("%+v, the shard has %+v", got, want)
	}
}

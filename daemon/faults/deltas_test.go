package faults_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
)

// watchStore watches the champion in the store of a child, until the test ends.
func watchStore(t *testing.T, config string, check bool) *snapshot.Watcher {
	t.Helper()
	w, err := snapshot.Watch(snapshot.DirSource{Dir: storePath(config)}, snapshot.WatchOptions{Model: "ratings", CheckDeltas: check})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// watchCut looks at what events the model knows that a consumer has.
func watchCut(t *testing.T, w *snapshot.Watcher, partitions int, every time.Duration) *gauge {
	t.Helper()
	return look(t, partitions, every, func(_ *gauge, next []int64) bool {
		if m := w.Model(); m != nil {
			for _, c := range m.Position().Cut {
				next[c.Partition] = c.Next
			}
		}
		return true
	})
}

// TestFreshConsumer (L7): how long it takes from the acknowledgement of an event to a consumer's model that knows it, with a delta every second, and what
// the deltas cost the daemon. The long form is of a million names.
func TestFreshConsumer(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	const partitions = 4
	makeTopic(t, admin(t, addr), "fresh", partitions, 1)
	users, items := tier.Size(18_000, 900_000), tier.Size(2_000, 100_000)
	rate, length := tier.Size(2_000, 10_000), tier.Size(10*time.Second, 2*time.Minute)
	p := newProducer(t, addr, "fresh")
	r := rand.New(rand.NewPCG(7, 0))
	value := func(user, item int) []byte {
		return fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":%d}`, user, item, 1+(user%3+item%3+r.IntN(2))%5, time.Now().UnixMilli())
	}
	p.fill(users, func(i int) []byte { return value(i, i%items) })
	train := fmt.Sprintf("every: 0s, every_events: %d, max_basis: 20, max_features: %d, lambda: 3, refit: output, fold_in: {max_rows: %d}", users, 2*users,
		2*users)
	config := configure(t, "fresh", settings{brokers: addr, topics: []string{"fresh"}, size: users, train: train,
		publish: "update_every: 60s, deltas: {every: 1s}"})
	w := watchStore(t, config, false)
	c := run(t, refitd, config, nil)
	c.ready(20 * time.Second)
	within(t, 10*time.Minute, func() error {
		if w.Model() == nil {
			return fmt.Errorf("no version: %v", w.Status().Err)
		}
		return nil
	})
	p.every = 50
	started := time.Now()
	p.load(rate, func(int) []byte { return value(r.IntN(users)*r.IntN(users)/users, r.IntN(items)) })
	within(t, 5*time.Minute, func() error { // the first update is only compared, the one after it has deltas
		if s := w.Status(); s.DeltasApplied < 3 {
			return fmt.Errorf("%d deltas applied: %v", s.DeltasApplied, s.DeltaErr)
		}
		return nil
	})
	g, from := watchCut(t, w, partitions, 2*time.Millisecond), time.Now()
	applied, rows := w.Status().DeltasApplied, metricOf(t, c, "refitd_delta_rows_total")
	pause(t, length)
	until := time.Now()
	p.stop()
	pause(t, 3*time.Second)
	var marks []mark
	for _, m := range p.acked {
		if m.at.After(from) && m.at.Before(until) {
			marks = append(marks, m)
		}
	}
	waits := g.latencies(marks)
	s := w.Status()
	deltas := s.DeltasApplied - applied
	rows = metricOf(t, c, "refitd_delta_rows_total") - rows
	c.stopClean()
	proved(t, config)
	t.Logf("L7 on %s: %d names, %d events/s, first delta after %v; %d deltas of %.0f rows in the mean; %d of %d events seen in a consumer's model: "+
		"p50 %v (1.2s) p99 %v (2s)", kind, w.Model().NumColumns(), rate, from.Sub(started).Round(time.Second), deltas, rows/float64(max(deltas, 1)), len(waits),
		len(marks), percentile(waits, 50), percentile(waits, 99))
	if s.DeltasRefused > 0 || deltas == 0 || len(waits) < len(marks)*9/10 || tier.Asked(tier.Long) && percentile(waits, 99) > 2*time.Second ||
		percentile(waits, 50) > 20*time.Second {
		t.Errorf("the targets in brackets are missed: %+v", s)
	}
}

func metricOf(t *testing.T, c *child, name string) float64 {
	t.Helper()
	v, err := c.metric(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

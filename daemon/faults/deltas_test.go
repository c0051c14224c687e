package faults_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
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

// freshLoad is a stream whose events touch some 8,000 rows a second where there are 10,000 of them: users and items come in waves.
type freshLoad struct {
	users, items int
	random       *rand.Rand
}

// The first users rate many of the first items, by as many independent tastes as there are basis vectors: so a refit has vectors for all names.
const (
	tastes      = 20
	knownUsers  = 2000
	knownItems  = 400
	wavingUsers = 6000 // of which 10,000 draws are 4,900
	wavingItems = 3500 // 3,300
)

// event has a rating of which half is the user's own level, which an update knows of users that the refit did not, and a third their taste.
func (l *freshLoad) event(user, item int) []byte {
	hash := uint32(user) * 2654435761
	rating := 1 + 2*int(hash>>31)
	if hash>>(8+item%tastes)&1 == 0 {
		rating++
	}
	rating += l.random.IntN(2)
	return fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":%d}`, user, item, rating, time.Now().UnixMilli())
}

// first is an event of the backlog: many of the known names, and one of each other user, evenly spread: a change would hasten the first refit.
func (l *freshLoad) first(i int) []byte {
	if user := i * l.users / l.backlog(); user < (i+1)*l.users/l.backlog() {
		return l.event(user, user%l.items)
	}
	return l.event(l.random.IntN(knownUsers), l.random.IntN(knownItems))
}

func (l *freshLoad) backlog() int { return l.users + 200*knownUsers }

// next is one of the stream.
func (l *freshLoad) next(second int) []byte {
	user, item := second*wavingUsers+l.random.IntN(wavingUsers), second*wavingItems+l.random.IntN(wavingItems)
	return l.event(user%l.users, item%l.items)
}

// TestFreshConsumer (L7): how long it takes from the acknowledgement of an event to a consumer's model that knows it, with a delta every second and with
// whole versions as fast as they come, and what either costs the daemon beside what it takes without. The long form is of a million names.
func TestFreshConsumer(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	const partitions = 4
	makeTopic(t, admin(t, addr), "fresh", partitions, 1)
	l := &freshLoad{users: tier.Size(18_000, 900_000), items: tier.Size(2_000, 100_000), random: rand.New(rand.NewPCG(7, 0))}
	rate, length := tier.Size(2_000, 10_000), tier.Size(10*time.Second, time.Minute+30*time.Second)
	p := newProducer(t, addr, "fresh")
	backlog := l.backlog()
	p.fill(backlog, l.first)
	dir := t.TempDir()
	configured := func(refitAt int, publish string) string {
		return configureIn(t, dir, "fresh", settings{brokers: addr, topics: []string{"fresh"}, size: backlog, group: "fresh", publish: publish,
			train: fmt.Sprintf("every: 0s, every_events: %d, max_basis: %d, max_features: %d, fold_in: {max_rows: %d}", refitAt, tastes, 2*l.users, 2*l.users)})
	}
	config := configured(backlog, "update_every: 0s")
	w := watchStore(t, config, false)
	c := run(t, refitd, config, nil)
	within(t, 30*time.Minute, func() error {
		if s := w.Status(); s.Version == 0 {
			return fmt.Errorf("no version: %v", s.Err)
		}
		return nil
	})
	p.every = 50
	for _, way := range []struct {
		name, publish string
		begun         func(s snapshot.Status) bool
	}{
		{"neither", "update_every: 0s", func(s snapshot.Status) bool { return s.Version > 0 }},
		{"whole versions", "update_every: 1s", func(s snapshot.Status) bool { return s.Loads > 2 }},
		{"deltas", "update_every: " + tier.Size("5s", "60s") + ", deltas: {every: 1s}", func(s snapshot.Status) bool { return s.DeltasApplied > 2 }},
	} {
		configured(0, way.publish)
		if err := c.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		second := time.Now()
		p.load(rate, func(int) []byte { return l.next(int(time.Since(second).Seconds())) })
		within(t, tier.Size(2*time.Minute, 10*time.Minute), func() error {
			if s := w.Status(); !way.begun(s) {
				return fmt.Errorf("%d versions loaded, %d deltas applied: %v %v", s.Loads, s.DeltasApplied, s.Err, s.DeltaErr)
			}
			return nil
		})
		g, from, before := watchCut(t, w, partitions, 2*time.Millisecond), time.Now(), usedBy(t, c)
		s := w.Status()
		pause(t, length)
		until, used := time.Now(), usedBy(t, c)
		pause(t, 3*time.Second) // the last ones arrive
		p.stop()
		var marks []mark
		for _, m := range p.acked {
			if m.at.After(from) && m.at.Before(until) {
				marks = append(marks, m)
			}
		}
		waits, now := g.latencies(marks), w.Status()
		rows := used.rows - before.rows
		t.Logf("L7 on %s, %s: %d names, k %d, %d events/s: %.2f processors; %d versions and %d deltas in %v, of %.0f rows each, of %.0f bytes a row", kind,
			way.name, w.Model().NumColumns(), w.Model().Manifest().NumBasis, rate, (used.processor-before.processor)/until.Sub(from).Seconds(), now.Loads-s.Loads,
			now.DeltasApplied-s.DeltasApplied, length, rows/max(1, used.deltas-before.deltas), (used.bytes-before.bytes)/max(1, rows))
		if way.name != "neither" {
			t.Logf("%d of %d events seen in a consumer's model: p50 %v (1.2s) p99 %v (2s) max %v", len(waits), len(marks), percentile(waits, 50),
				percentile(waits, 99), slices.Max(waits).Round(time.Millisecond))
		}
		if way.name == "deltas" && (now.DeltasRefused > 0 || len(waits) < len(marks)*99/100 || percentile(waits, 50) > 10*time.Second ||
			tier.Asked(tier.Long) && (percentile(waits, 50) > 1200*time.Millisecond || percentile(waits, 99) > 2*time.Second)) {
			t.Errorf("the targets in brackets are missed: %+v", now)
		}
	}
	c.stopClean()
	proved(t, config)
}

// usage is what a daemon has used and written since its start.
type usage struct{ processor, deltas, rows, bytes float64 }

func usedBy(t *testing.T, c *child) usage {
	t.Helper()
	code, body, err := c.get("/metrics")
	if err != nil || code != http.StatusOK {
		t.Fatalf("metrics: %d %v", code, err)
	}
	return usage{metricIn(body, "process_cpu_seconds_total"), metricIn(body, `refitd_deltas_published_total{model="ratings",result="success"}`),
		metricIn(body, "refitd_delta_rows_total"), metricIn(body, "refitd_delta_bytes_total")}
}

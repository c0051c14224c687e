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
	w, err := snapshot.Watch(snapshot.DirSource{Dir: storePath(config)},
		snapshot.WatchOptions{Model: "ratings", CheckDeltas: check})
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

// freshLoad is a stream whose events touch some 8,000 rows a second where there are 10,000 of them: users and items
// come and go in waves.
type freshLoad struct {
	users, items int
	random       *rand.Rand
}

// The first users rate many of the first items, by as many independent tastes as the model is to have vectors; names
// that come later have coordinates by the fold-in.
const (
	tastes      = 20
	knownUsers  = 1000
	knownItems  = 400
	knownRows   = 160 * knownUsers
	wavingUsers = 3700 // with so many that come new in a second, 10,000 draws of a second are of 4,850
	wavingItems = 2100 // 3,350
)

// event has a rating of which nearly half is the user's own level, which an update knows of users that the refit did
// not, and as much their taste.
func (l *freshLoad) event(user, item int) []byte {
	hash := uint32(user) * 2654435761
	hash = (hash ^ hash>>15) * 2246822519
	hash ^= hash >> 13
	rating := 1 + 2*int(hash>>31)
	if hash>>(8+item%tastes)&1 == 0 {
		rating += 2
	}
	rating += l.random.IntN(2)
	return fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":%d}`, user, item, rating,
		time.Now().UnixMilli())
}

// known is an event of the names that the refit knows.
func (l *freshLoad) known(int) []byte {
	return l.event(l.random.IntN(knownUsers), l.random.IntN(knownItems))
}

// first is an event of each other name.
func (l *freshLoad) first(user int) []byte { return l.event(user, user%l.items) }

// next is one of the stream, so many seconds after it began.
func (l *freshLoad) next(seconds float64) []byte {
	user, item := int(seconds*wavingUsers)+l.random.IntN(wavingUsers), int(seconds*wavingItems)+l.random.IntN(
		wavingItems)
	return l.event(user%l.users, item%l.items)
}

// TestFreshConsumer (L7) measures the time from the acknowledgement of an event to a consumer's model that knows it:
// with a delta every second, also where deltas become a whole version, and with whole versions as fast as they come.
// It also measures what either costs the daemon compared with neither. The long form is of a million names, of which
// the refit knows a few thousand: the fold-in has the others.
func TestFreshConsumer(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	const partitions = 4
	makeTopic(t, admin(t, addr), "fresh", partitions, 1)
	l := &freshLoad{
		users:  tier.Size(18_000, 900_000),
		items:  tier.Size(2_000, 100_000),
		random: rand.New(rand.NewPCG(7, 0)),
	}
	rate, length := tier.Size(2_000, 10_000), tier.Size(5*time.Second, 50*time.Second)
	p := newProducer(t, addr, "fresh")
	p.fill(knownRows, l.known)
	dir := t.TempDir()
	configured := func(refitAt int, publish string) string {
		return configureIn(
			t,
			dir,
			"fresh",
			settings{brokers: addr, topics: []string{"fresh"}, size: knownRows, group: "fresh", publish: publish,
				schema: "task: regression, label: rating, label_min: 1, label_max: 6",
				train: fmt.Sprintf(
					"every: 0s, every_events: %d, variational_basis: %d, max_features: %d, fold_in: {max_rows: %d}",
					refitAt, tastes, 2*l.users, 2*l.users)},
		)
	}
	config := configured(knownRows, "update_every: 0s")
	w := watchStore(t, config, false)
	c := run(
		t,
		refitd,
		config,
		tier.Size([]string(nil), []string{"GOMEMLIMIT=18GiB"}),
	) // the fold-in of a million names is 9 GiB
	begun := func(limit time.Duration, what func(s snapshot.Status) bool) {
		t.Helper()
		within(t, limit, func() error {
			if s := w.Status(); !what(s) {
				return fmt.Errorf("%d versions loaded, %d deltas applied: %v %v", s.Loads, s.DeltasApplied, s.Err,
					s.DeltaErr)
			}
			return nil
		})
	}
	reload := func(publish string) {
		t.Helper()
		configured(0, publish)
		if err := c.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	compacting := "update_every: " + tier.Size("3s", "40s") + ", deltas: {every: 1s}"
	began := time.Now()
	begun(5*time.Minute, func(s snapshot.Status) bool { return s.Version > 0 })
	refitted := time.Now()
	reload("update_every: 0s")
	p.fill(l.users, l.first)
	c.caughtUp(10*time.Minute, "fresh", p.ends())
	t.Logf("a refit of %d ratings after %v, %d names in %v more", knownRows, refitted.Sub(began).Round(time.Second),
		l.users+l.items, time.Since(refitted).Round(time.Second))
	p.every = 50
	for _, way := range []struct {
		name, begin, publish string
		begun                func(s, from snapshot.Status) bool
	}{
		{"neither", "update_every: 0s", "update_every: 0s", func(_, _ snapshot.Status) bool { return true }},
		{"deltas", "update_every: 1s, deltas: {every: 500ms}", "update_every: 10m, deltas: {every: 1s}",
			func(s, from snapshot.Status) bool { return s.DeltasApplied > from.DeltasApplied+2 }},
		{"deltas and a whole version", compacting, compacting,
			func(_, _ snapshot.Status) bool { return true }},
		{"whole versions", "update_every: 1s", "update_every: 1s", func(s,
			from snapshot.Status) bool {
			return s.Loads > from.Loads+1
		}},
	} {
		s := w.Status()
		p.load(rate, func(int) []byte { return l.next(time.Since(began).Seconds()) })
		reload(way.begin)
		begun(5*time.Minute, func(now snapshot.Status) bool { return way.begun(now, s) })
		reload(way.publish)
		if way.name != "whole versions" { // which may never catch up
			within(t, 5*time.Minute, func() error {
				if lag, err := c.metric("refitd_consumer_lag_records"); err != nil || lag > float64(rate)/2 {
					return fmt.Errorf("%.0f events behind: %v", lag, err)
				}
				if at := w.Status().Position; way.name == "deltas" &&
					at.Sequence < 15 { // no version is being written any more
					return fmt.Errorf("%d deltas after version %d", at.Sequence, at.Version)
				}
				return nil
			})
		}
		g, from, before := watchCut(t, w, partitions, 2*time.Millisecond), time.Now(), usedBy(t, c)
		s = w.Status()
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
		t.Logf(
			"L7 on %s, %s: %d names, k %d, %d events/s: %.2f processors; %d versions and %d deltas in %v, of %.0f rows each, "+
				"of %.0f bytes a row",
			kind,
			way.name,
			w.Model().NumColumns(),
			w.Model().Manifest().NumBasis,
			rate,
			(used.processor-before.processor)/until.Sub(from).Seconds(),
			now.Loads-s.Loads,
			now.DeltasApplied-s.DeltasApplied,
			length,
			rows/max(1, used.deltas-before.deltas),
			(used.bytes-before.bytes)/max(1, rows),
		)
		if way.name != "neither" {
			t.Logf("%d of %d events seen in a consumer's model: p50 %v (1.2s) p99 %v (2s) max %v", len(waits),
				len(marks), percentile(waits, 50), percentile(waits, 99), slices.Max(waits).Round(time.Millisecond))
		}
		if way.name == "deltas" &&
			(now.DeltasRefused > 0 || len(waits) < len(marks)*99/100 || percentile(waits, 50) > 10*time.Second ||
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
	return usage{
		metricIn(body, "process_cpu_seconds_total"),
		metricIn(body, `refitd_deltas_published_total{model="ratings",result="success"}`),
		metricIn(body, "refitd_delta_rows_total"),
		metricIn(body, "refitd_delta_bytes_total"),
	}
}

package faults_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// loadBrokers returns the brokers of a load test and what they are: a real Kafka where there can be one.
func loadBrokers(t *testing.T) (addr []string, kind string) {
	t.Helper()
	if haveKafka() == nil {
		return sharedKafka(t).addr(), "Apache Kafka"
	}
	return embedded(t), "the embedded broker"
}

// gauge watches a child: where it is in a topic, how far behind, how much memory it has.
type gauge struct {
	seen   []sighting
	maxRSS float64
	done   chan struct{}
	stop   context.CancelFunc
}

// sighting is the next offset of each partition at a time.
type sighting struct {
	at   time.Time
	next []int64
}

// watch looks at a child's metrics at an interval, which bounds the resolution of latencies.
func watch(t *testing.T, c *child, topic string, partitions int, every time.Duration) *gauge {
	t.Helper()
	return look(t, partitions, every, func(g *gauge, next []int64) bool {
		code, body, err := c.get("/metrics")
		if err != nil || code != http.StatusOK {
			return false
		}
		for p := range next {
			next[p] = position(body, topic, int32(p))
		}
		g.maxRSS = max(g.maxRSS, metricIn(body, "process_resident_memory_bytes"))
		return true
	})
}

// look asks at, once an interval, for the next offset of each partition, until the gauge is stopped.
func look(t *testing.T, partitions int, every time.Duration, at func(g *gauge, next []int64) bool) *gauge {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	g := &gauge{done: make(chan struct{}), stop: stop}
	go func() {
		defer close(g.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			if next := make([]int64, partitions); at(g, next) {
				g.seen = append(g.seen, sighting{time.Now(), next})
			}
			<-tick.C
		}
	}()
	return g
}

// latencies returns, for each mark, the time from acknowledgement to the first look that saw it applied. Two gauges
// make a position, and a look between their updates may see too much: what a later look takes back counts as not yet
// applied.
func (g *gauge) latencies(marks []mark) (out []time.Duration) {
	g.stop()
	<-g.done
	for i := len(g.seen) - 2; i >= 0; i-- {
		for p := range g.seen[i].next {
			g.seen[i].next[p] = min(g.seen[i].next[p], g.seen[i+1].next[p])
		}
	}
	for _, m := range marks {
		i, _ := slices.BinarySearchFunc(g.seen, m, func(s sighting, m mark) int {
			if s.next[m.partition] <= m.offset {
				return -1
			}
			return 1
		})
		if i < len(g.seen) {
			out = append(out, max(0, g.seen[i].at.Sub(m.at)))
		}
	}
	return out
}

// badIn makes one value in so many no event.
func badIn(n int, seed uint64, size int) func(int) []byte {
	value := ratings(seed, size)
	return func(i int) []byte {
		b := value(i)
		if i%n == n-1 {
			return b[:len(b)/2]
		}
		return b
	}
}

// TestSteadyLoad (L1): 50,000 events a second over 8 partitions, 200 bytes, one in a hundred bad, refits back to back.
func TestSteadyLoad(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	makeTopic(t, admin(t, addr), "steady", 8, 1)
	p := newProducer(t, addr, "steady")
	p.every = 50
	config := configure(
		t,
		"steady",
		settings{
			brokers: addr,
			topics:  []string{"steady"},
			size:    100_000,
			train:   "every: 1s",
			publish: "update_every: 2s",
		},
	)
	c := run(t, refitd, config, nil)
	c.ready(20 * time.Second)
	g := watch(t, c, "steady", 8, 20*time.Millisecond)
	rate, length := tier.Size(50_000, 50_000), tier.Size(8*time.Second, 5*time.Minute)
	p.load(rate, badIn(100, 1, 200))
	pause(t, length)
	p.stop()
	drain := time.Now()
	c.caughtUp(60*time.Second, "steady", p.ends())
	lag := time.Since(drain)
	refits, err := c.metric("refitd_train_duration_seconds_count")
	if err != nil {
		t.Fatal(err)
	}
	waits := g.latencies(p.acked) // before the daemon has metrics without partitions
	p.accountedFor(c.stopClean())
	proved(t, config)
	if len(waits) == 0 {
		t.Fatal("no record was seen to be applied")
	}
	longest := slices.Max(waits)
	t.Logf(
		"L1 on %s: %d events/s asked for, %d acknowledged in %v, %g refits: "+
			"apply latency p50 %v (60ms) p99 %v (500ms) max %v (3s); caught up %v after the end (2s); resident %.0f MiB "+
			"(1536); lost 0, double 0",
		kind,
		rate,
		p.total(),
		length,
		refits,
		percentile(waits, 50),
		percentile(waits, 99),
		longest.Round(time.Millisecond),
		lag.Round(time.Millisecond),
		g.maxRSS/(1<<20),
	)
	missed := percentile(waits, 50) > 60*time.Millisecond || percentile(waits, 99) > 500*time.Millisecond ||
		longest > 3*time.Second ||
		lag > 2*time.Second
	if tier.Asked(tier.Long) && missed ||
		longest > 20*time.Second || g.maxRSS > 1536<<20 {
		t.Error("the targets in brackets are missed")
	}
}

// counting is the sink of a reader that does nothing with what it reads.
type counting struct{ records atomic.Int64 }

func (s *counting) Apply(_ context.Context, b *consumer.Batch) error {
	s.records.Add(int64(len(b.Records)))
	return nil
}

// bareRate reads a topic to its end with the fetch loop alone and returns records per second and processor time per
// record: what the path behind it is measured by. Processor time is what a busy machine does not change.
func bareRate(t *testing.T, addr []string, topic string) (rate float64, cost time.Duration) {
	t.Helper()
	o := consumer.DefaultOptions()
	o.Brokers, o.Topics, o.ClientID = addr, []string{topic}, "bare"
	o.StartPolicy, o.MaxPartitionBytes = consumer.StartPolicy("earliest"), 1<<20
	o.Logger, o.Registerer = slog.New(slog.NewTextHandler(io.Discard, nil)), prometheus.NewRegistry()
	sink := new(counting)
	c, err := consumer.New(o, sink)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := c.Ends(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began, used := time.Now(), processorTime(t)
	if err := c.RunUntil(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
	n := sink.records.Load()
	return float64(n) / time.Since(began).Seconds(), (processorTime(t) - used) / time.Duration(n)
}

// processorTime returns what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestCatchUp (L2): a backlog of 100-byte events in 8 partitions is read with everything on: into a sample that is full
// after the first part of it, into one that takes everything, and with forgetting. Each rate is also logged as a share
// of the bare fetch rate. The full form adds ten million events into 200,000 rows, through several refits.
func TestCatchUp(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	a := admin(t, addr)
	backlog, filling, long := tier.Size(200_000, 1_000_000), tier.Size(50_000, 500_000), tier.Size(0, 10_000_000)
	for topic, n := range map[string]int{"backlog": backlog, "filling": filling, "long": long} {
		if n == 0 {
			continue
		}
		makeTopic(t, a, topic, 8, 1)
		p := newProducer(t, addr, topic)
		p.fill(n, ratings(1, 100))
		if p.total() != int64(n) {
			t.Fatalf("%d of %d records acknowledged", p.total(), n)
		}
	}
	bare, cost := bareRate(t, addr, "backlog")
	t.Logf("L2 on %s: %d events of 100 bytes, bare fetch rate %.0f/s, %v of processor time each", kind, backlog, bare,
		cost)
	for i, test := range []struct {
		name, topic, sample string
		events, size        int
		asked               float64
	}{
		{"full uniform sample", "backlog", "", backlog, tier.Size(20_000, 20_000), 300_000},
		{"filling sample", "filling", "", filling, filling, 150_000},
		{"full sample with decay", "backlog", "half_life: 1h", backlog, tier.Size(20_000, 20_000), 0},
		{"long backlog", "long", "", long, 200_000, 150_000},
	} {
		if test.events == 0 {
			continue
		}
		config := configure(
			t,
			fmt.Sprint("catchup-", i),
			settings{brokers: addr, topics: []string{test.topic}, size: test.size, sample: test.sample,
				train: "every: 5s", publish: "update_every: 10s", kafka: ""},
		)
		c := run(t, refitd, config, nil, "--until", "end")
		g := watch(t, c, test.topic, 8, 200*time.Millisecond) // a scrape takes processor time, too
		if code := c.wait(20 * time.Minute); code != report.ExitDone {
			t.Fatalf("exit code %d, %+v", code, c.failure)
		}
		g.latencies(nil)
		s := c.summary
		rate := float64(s.EventsPerSecond)
		proved(t, config)
		var next int64
		for _, l := range s.Models[0].State.Partitions {
			next += l.Next
		}
		if next != int64(test.events) {
			t.Errorf("%s: %d of %d records are accounted for", test.name, next, test.events)
		}
		// Refits are part of it: they run in parallel with the reading.
		each := (c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()) / time.Duration(test.events)
		t.Logf("L2 %s (%d rows): %.0f events/s (asked %.0f), %.3f of the bare fetch rate; "+
			"%v of processor time each, refits included; resident %.0f MiB at most (1536); lost 0, double 0",
			test.name, test.size, rate, test.asked, rate/bare, each, g.maxRSS/(1<<20))
		if g.maxRSS > 1536<<20 || tier.Asked(tier.Long) && rate < test.asked {
			t.Errorf("%s misses its targets", test.name)
		}
	}
}

// TestHostileLoad (L6): half of the records are no events, every id of the rest is new, and one partition gets batches
// that decompress to more than may be. The good half is applied exactly once; log, memory and disk stay small; only the
// partition with the bombs halts.
func TestHostileLoad(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	a := admin(t, addr)
	const bombed = 4
	makeTopic(t, a, "hostile", bombed, 1)
	makeTopic(t, a, "bombs", 1, 1)
	p := newProducer(t, addr, "hostile")
	config := configure(
		t,
		"hostile",
		settings{
			brokers: addr,
			topics:  []string{"hostile", "bombs"},
			size:    20_000,
			train:   "every: 2s, max_features: 20000",
			publish: "update_every: 2s",
		},
	)
	c := run(t, refitd, config, nil)
	g := watch(t, c, "hostile", bombed, 100*time.Millisecond)
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(3, 4))
	var good atomic.Int64
	value := func(i int) []byte {
		mu.Lock()
		defer mu.Unlock()
		if i%2 == 0 {
			good.Add(1)
			return fmt.Appendf(nil, `{"user":"u%x","item":"i%x","rating":%d,"ts":%d}`, r.Uint64(), r.Uint64(),
				1+r.IntN(5), 1700000000000+int64(i))
		}
		return hostile(r, i)
	}
	rate, length := tier.Size(20_000, 20_000), tier.Size(8*time.Second, 3*time.Minute)
	p.load(rate, value)
	bomb(t, addr, "bombs")
	pause(t, length)
	p.stop()
	c.caughtUp(60*time.Second, "hostile", p.ends())
	h := c.halted(10 * time.Second)
	if h.Topic != "bombs" || h.Offset != 0 {
		t.Errorf("halt %+v", h)
	}
	code, s := c.stop()
	if code != report.ExitHalted || s == nil {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	g.latencies(nil)
	state := s.Models[0].State
	p.accountedFor(state)
	var applied int64
	for _, l := range state.Partitions {
		applied += l.Applied
	}
	if applied != good.Load() {
		t.Errorf("%d events applied, %d good ones sent", applied, good.Load())
	}
	proved(t, config)
	log, err := os.Stat(c.log)
	if err != nil {
		t.Fatal(err)
	}
	disk := bytesBelow(t, statePath(config))
	t.Logf(
		"L6 on %s: %d records at %d/s, half of them bad (%v): %d applied once; log %d KiB, resident %.0f MiB at most, "+
			"state %.0f MiB; the bombs: %s",
		kind,
		p.total(),
		rate,
		state.RejectedByReason,
		applied,
		log.Size()>>10,
		g.maxRSS/(1<<20),
		float64(disk)/(1<<20),
		h.Reason,
	)
	// 10 log lines a second of at most 1 KiB; three times the live rows and two memory tables of 16 MiB, which Badger
	// maps twice as large.
	if log.Size() > int64(20+length.Seconds())*10<<10 || g.maxRSS > 1536<<20 || disk > 3*state.SampleBytes+128<<20 {
		t.Error("log, memory or disk is not bounded")
	}
}

// hostile returns a value that is no event.
func hostile(r *rand.Rand, i int) []byte {
	switch i / 2 % 6 {
	case 0:
		return []byte("\xff\xfe\x00 not JSON")
	case 1:
		return []byte(`{"user":"u1","item":"i1","rating":1e999}`)
	case 2:
		return []byte(`{"user":"u1","user":"u2","item":"i1","rating":3}`)
	case 3:
		return slices.Repeat([]byte("["), 10_000)
	case 4:
		return fmt.Appendf(nil, `{"user":"%s","item":"i1","rating":3,"ts":1}`, slices.Repeat([]byte("a\\n"), 300))
	}
	return fmt.Appendf(nil, `{"user":"u%d","item":"i1","rating":%d,"ts":1}`, r.IntN(9), 6+r.IntN(1000))
}

// bytesBelow adds up what files below a directory occupy: Badger's are sparse.
func bytesBelow(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n, err := occupied(path)
		total += n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

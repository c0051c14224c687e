package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// TestProcessorQuota (G11): with a fifth of a processor the daemon becomes ready, applies what comes, trains, answers
// scrapes, shows its place to the group, and stops on SIGTERM with everything accounted for.
func TestProcessorQuota(t *testing.T) {
	tier.Need(t, tier.Kills)
	const share, rate, partitions = 0.2, 2000, 4
	g := processorGroup(t, share)
	addr := embedded(t)
	a := admin(t, addr)
	makeTopic(t, a, "quota", partitions, 1)
	p := newProducer(t, addr, "quota")
	config := configure(
		t,
		"quota",
		settings{
			brokers: addr,
			topics:  []string{"quota"},
			group:   "quota",
			size:    20_000,
			train:   "every: 2s, " + quickTraining,
			publish: "update_every: 1s",
		},
	)
	p.fill(5000, ratings(1, 0))
	c := runAfter(t, g.enter(), refitd, config, nil)
	ready := c.ready(30 * time.Second)
	length := tier.Size(7*time.Second, 2*time.Minute)
	p.load(rate, ratings(2, 0))
	var slowest time.Duration
	for began := time.Now(); time.Since(began) < length; {
		pause(t, 500*time.Millisecond)
		asked := time.Now()
		if code, body, err := c.get("/metrics"); code != http.StatusOK {
			t.Fatalf("/metrics: %d %s %v", code, body, err)
		}
		slowest = max(slowest, time.Since(asked))
	}
	within(t, 20*time.Second, func() error { // its place, under the load
		shown, err := a.FetchOffsets(t.Context(), "quota")
		if err == nil && len(shown["quota"]) < partitions {
			err = fmt.Errorf("the group shows %v", shown)
		}
		return err
	})
	p.stop()
	drain := time.Now()
	c.caughtUp(60*time.Second, "quota", p.ends())
	lag := time.Since(drain)
	_, body, err := c.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	used, took := metricIn(body, "process_cpu_seconds_total"), time.Since(c.began)
	refits := metricIn(body, "refitd_train_duration_seconds_count")
	stalls, failed := metricIn(body, "refitd_consumer_stalls_total"), metricIn(body,
		"refitd_consumer_fetch_errors_total")
	asked := time.Now()
	s := c.stopClean()
	stop := time.Since(asked)
	p.accountedFor(s)
	shown, err := a.FetchOffsets(t.Context(), "quota")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range s.Partitions {
		if o, ok := shown.Lookup("quota", l.Partition); !ok || o.At != l.Next {
			t.Errorf("partition %d: the group shows %d, the ledger's next is %d", l.Partition, o.At, l.Next)
		}
	}
	proved(t, config)
	held := g.count("nr_throttled", "cpu.stat")
	t.Logf(
		"%.2f of a processor used (of %g), held back in %d periods: "+
			"ready after %v, %d events at %d/s, %g refits, caught up %v after the end, slowest scrape %v, stop %v",
		used/took.Seconds(),
		share,
		held,
		ready.Round(time.Millisecond),
		p.total(),
		rate,
		refits,
		lag.Round(time.Millisecond),
		slowest.Round(time.Millisecond),
		stop.Round(time.Millisecond),
	)
	if held == 0 || used > 1.5*share*took.Seconds() {
		t.Error("the quota had no effect: nothing is tested")
	}
	if stalls+failed > 0 || refits == 0 || stop > 10*time.Second {
		t.Errorf("%g stalls, %g fetches failed, %g refits, a stop of %v", stalls, failed, refits, stop)
	}
}

// TestKernelKill (A11): with a limit that its memory does not fit into, and settings of the collector that know nothing
// of it, the kernel kills the daemon again and again, while it reads and while it trains; with the limit gone nothing
// is lost or double.
func TestKernelKill(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "large", 4, 1)
	p := newProducer(t, addr, "large")
	p.fill(tier.Size(50_000, 200_000), ratings(1, 0))
	p.load(5000, ratings(2, 0))
	config := configure(t, "large",
		settings{brokers: addr, topics: []string{"large"}, size: 50_000, train: trainOften, publish: publishOften})
	for i := range tier.Size(3, 12) {
		limit := (160 + 32*(i%4)) << 20
		g := memoryGroup(t, limit)
		trainAnyway(t, config)
		c := runAfter(t, g.enter(), refitd, config, []string{"GOGC=off", "GOMEMLIMIT=8GiB"})
		dies(t, c, syscall.SIGKILL)
		if g.count("oom_kill", "memory.oom_control", "memory.events") == 0 {
			t.Fatal("it was not the kernel that killed")
		}
		s := inspect(t, config)
		balanced(t, s)
		var next int64
		for _, l := range s.Partitions {
			next += l.Next
		}
		t.Logf("limit %d: killed after %v, %d of %d events in the state, %d versions", limit,
			time.Since(c.began).Round(time.Millisecond), next, p.total(), len(c.versions))
	}
	p.stop()
	trainAnyway(t, config)
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	p.accountedFor(inspect(t, config))
	proved(t, config)
	validStore(t, config)
}

// TestFewFiles (B22): with too low a limit on open files the daemon does not start, says so, and touches nothing;
// with a better one it continues where it was.
func TestFewFiles(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "files", 4, 1)
	p := newProducer(t, addr, "files")
	config := configure(t, "files", settings{brokers: addr, topics: []string{"files"}})
	for range 2 { // without a state, and with one
		p.fill(2000, ratings(1, 0))
		for _, limit := range []int{12, 16, 20, 64} {
			c := runAfter(t, fmt.Sprint("ulimit -n ", limit), refitd, config, nil)
			if code := c.wait(20 * time.Second); code != report.ExitState || c.failure == nil ||
				!strings.Contains(c.failure.Message, "files") ||
				strings.Contains(c.failure.Message, "damaged") {
				t.Errorf("limit %d: exit code %d, %+v", limit, code, c.failure)
			} else {
				t.Logf("limit %d: %s", limit, c.failure.Message)
			}
		}
		if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
			t.Fatalf("exit code %d, %+v", code, c.failure)
		}
		p.accountedFor(inspect(t, config))
		proved(t, config)
	}
}

// TestNoInodes (B22): when the file system of the state runs out of inodes reading pauses, which /-/ready says, and
// continues without a restart when there are some again. Stopped or killed during the pause the daemon ends at once,
// and does not start; nothing is lost.
func TestNoInodes(t *testing.T) {
	tier.Need(t, tier.Kills)
	needRoot(t, "a separate file system")
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "inodes", 4, 1)
	p := newProducer(t, addr, "inodes")
	config := configure(t, "inodes", settings{brokers: addr, topics: []string{"inodes"}, size: 20_000})
	dir := mounted(t, "tmpfs", "tmpfs", "size=1g,nr_inodes=300")
	if err := os.Symlink(dir, statePath(config)); err != nil {
		t.Fatal(err)
	}
	var fillers []string
	fill := func() {
		for i := 0; ; i++ {
			name := filepath.Join(dir, fmt.Sprint("filler-", i))
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				return
			}
			fillers = append(fillers, name)
		}
	}
	free := func() {
		for _, name := range fillers {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		fillers = nil
	}
	p.load(2000, ratings(1, 0))
	defer p.stop()
	c := run(t, refitd, config, nil)
	c.ready(20 * time.Second)
	fill()
	c.unready(20*time.Second, "more files (inodes)")
	free()
	c.ready(20 * time.Second)

	fill()
	c.unready(20*time.Second, "more files (inodes)")
	asked := time.Now()
	code, _ := c.stop()
	t.Logf("stopped after %v with exit code %d: %+v", time.Since(asked).Round(time.Millisecond), code, c.failure)
	refused := run(t, refitd, config, nil)
	if code := refused.wait(20 * time.Second); code != report.ExitState || refused.failure == nil ||
		!strings.Contains(refused.failure.Message, "more files (inodes)") {
		t.Errorf("without inodes: exit code %d, %+v", code, refused.failure)
	}
	free()

	c = run(t, refitd, config, nil)
	c.ready(20 * time.Second)
	fill()
	c.unready(20*time.Second, "more files (inodes)")
	c.kill()
	free()
	p.stop()
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	p.accountedFor(inspect(t, config))
	proved(t, config)
}

// TestThrottled (C31): a real broker throttles the daemon to a fraction of what it would read. It waits as long as
// the broker says, without an error and without connections made anew, stays ready with its lag in the metrics, and
// its place comes to the group, also when it is stopped. Without the quota it reads the rest.
func TestThrottled(t *testing.T) {
	tier.Need(t, tier.Broker)
	const rate, size, partitions = 100_000, 200, 4
	k := sharedKafka(t)
	a := admin(t, k.addr())
	makeTopic(t, a, "throttled", partitions, 1)
	p := newProducer(t, k.addr(), "throttled", kgo.ProducerBatchCompression(kgo.NoCompression()))
	p.fill(20_000, ratings(1, size))
	quota := func(remove bool) {
		t.Helper()
		answer, err := a.AlterClientQuotas(context.WithoutCancel(t.Context()), []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id"}}, // of every client
			Ops:    []kadm.AlterClientQuotaOp{{Key: "consumer_byte_rate", Value: rate, Remove: remove}}}})
		if err == nil {
			err = answer[0].Err
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { quota(true) })
	quota(false)
	config := configure(
		t,
		"throttled",
		settings{
			brokers: k.addr(),
			topics:  []string{"throttled"},
			group:   "throttled",
			kafka:   "max_partition_fetch_bytes: 64KiB",
		},
	)
	c := run(t, refitd, config, nil)
	c.ready(20 * time.Second)
	applied := func() (n float64) {
		t.Helper()
		code, body, err := c.get("/-/ready")
		if err != nil || code != http.StatusOK {
			t.Fatalf("/-/ready: %d %s %v", code, body, err)
		}
		_, body, err = c.get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if lag := metricIn(body, "refitd_consumer_lag_records"); lag == 0 {
			t.Fatal("caught up: the quota had no effect")
		}
		return metricIn(body, "refitd_events_total")
	}
	length := tier.Size(8*time.Second, time.Minute)
	for began := time.Now(); time.Since(began) < length; {
		pause(t, 250*time.Millisecond)
		applied()
	}
	n, took := applied(), time.Since(c.began)
	_, body, err := c.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	commits, failures := metricIn(body, "refitd_consumer_commits_total"), metricIn(body,
		"refitd_consumer_commit_errors_total")
	stalls, errors := metricIn(body, "refitd_consumer_stalls_total"), metricIn(body,
		"refitd_consumer_fetch_errors_total")
	fetches := metricIn(body, "refitd_consumer_fetches_total")
	asked := time.Now()
	s := c.stopClean()
	stop := time.Since(asked)
	shown, err := a.FetchOffsets(t.Context(), "throttled")
	if err != nil {
		t.Fatal(err)
	}
	behind := int64(0)
	for _, l := range s.Partitions {
		o, _ := shown.Lookup("throttled", l.Partition)
		behind += l.Next - o.At
	}
	t.Logf(
		"%.0f of %d events in %v at %d bytes/s, %g fetches; %g commits, %g failed; %g stalls, %g errors; stopped after "+
			"%v, the group %d behind",
		n,
		p.total(),
		took.Round(time.Millisecond),
		rate,
		fetches,
		commits,
		failures,
		stalls,
		errors,
		stop.Round(time.Millisecond),
		behind,
	)
	if n == 0 || commits == 0 || stalls+errors+failures > 0 || behind != 0 || stop > 10*time.Second ||
		fetches > 20*took.Seconds() {
		t.Error("the quota did harm")
	}
	quota(true)
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	p.accountedFor(inspect(t, config))
	proved(t, config)
}

package faults_test

import (
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// TestBusyProcessors (C24, G2): refits that take every processor, one after the other, cost latency and nothing else:
// the daemon stays ready, no connection is given up, the lag goes back, and nothing is lost or double.
func TestBusyProcessors(t *testing.T) {
	tier.Need(t, tier.Load)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "busy", 8, 1)
	p := newProducer(t, addr, "busy")
	p.every = 20
	config := configure(t, "busy", settings{brokers: addr, topics: []string{"busy"}, size: 20_000,
		train: "every: 10ms, threads: 8, max_basis: 60, sweeps: 60, time_budget: 20s"})
	c := run(t, refitd, config, nil)
	c.ready(20 * time.Second)
	p.fill(20_000, ratings(1, 0)) // something to train on from the start
	c.caughtUp(20*time.Second, "busy", p.ends())
	g := watch(t, c, "busy", 8, 100*time.Millisecond)
	rate, length := tier.Size(5000, 50_000), tier.Size(6*time.Second, 5*time.Minute)
	p.load(rate, ratings(2, 0))
	looks, late := 0, 0
	for began := time.Now(); time.Since(began) < length; looks++ {
		pause(t, 50*time.Millisecond)
		if code, body, err := c.get("/-/ready"); err == nil && code != http.StatusOK {
			t.Fatalf("/-/ready: %d %s", code, body)
		} else if err != nil {
			late++
		}
	}
	p.stop()
	drain := time.Now()
	c.caughtUp(60*time.Second, "busy", p.ends())
	lag := time.Since(drain)
	used, _ := c.metric("process_cpu_seconds_total")
	refits, _ := c.metric("refitd_train_duration_seconds_count")
	stalls, err := c.metric("refitd_consumer_stalls_total")
	failed, errorsErr := c.metric("refitd_consumer_fetch_errors_total")
	if err != nil || errorsErr != nil {
		t.Fatal(err, errorsErr)
	}
	waits := g.latencies(p.acked)
	p.accountedFor(c.stopClean())
	proved(t, config)
	longest := slices.Max(waits)
	t.Logf(
		"%d events/s for %v with refits back to back (%g ended, %.1f processor seconds in all): "+
			"apply latency p50 %v p99 %v max %v (lag of 5s), caught up %v after the end; %d of %d looks without an answer",
		rate,
		length,
		refits,
		used,
		percentile(waits, 50),
		percentile(waits, 99),
		longest.Round(time.Millisecond),
		lag.Round(time.Millisecond),
		late,
		looks,
	)
	if stalls+failed > 0 || late > 0 || tier.Asked(tier.Long) && longest > 5*time.Second || longest > 20*time.Second {
		t.Errorf("%g stalls, %g fetches failed, %d looks without an answer, longest wait %v", stalls, failed, late,
			longest)
	}
}

// TestSmallMemory (G3): with the limit that the daemon sets itself in a control group of 512 MiB, the default sample
// fills and is trained on within those 512 MiB.
func TestSmallMemory(t *testing.T) {
	tier.Need(t, tier.Kills)
	const group = 512 << 20
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "small", 8, 1)
	p := newProducer(t, addr, "small")
	p.fill(tier.Size(300_000, 2_000_000), ratings(1, 0))
	config := configure(
		t,
		"small",
		settings{brokers: addr, topics: []string{"small"}, size: 200_000, train: "every: 1s, max_basis: 10, sweeps: 1",
			publish: "update_every: 1s"},
	)
	c := run(t, refitd, config, []string{"GOMEMLIMIT=410MiB"}, "--until", "end")
	if code := c.wait(5 * time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	peak := c.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	p.accountedFor(inspect(t, config))
	proved(t, config)
	t.Logf("%d events, %d versions: peak %d MiB (of %d)", p.total(), len(c.versions), peak>>20, group>>20)
	if peak > group || len(c.versions) == 0 {
		t.Errorf("peak memory %d MiB of %d, %d versions", peak>>20, group>>20, len(c.versions))
	}
}

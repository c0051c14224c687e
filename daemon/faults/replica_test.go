package faults_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// frozen stops a child with SIGSTOP while f runs.
func frozen(t *testing.T, c *child, f func()) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// TestSameGroup (C15): a second daemon of the same group id comes and goes under load. Each reads all partitions:
// neither takes anything from the other, and at equal positions their states are identical.
func TestSameGroup(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	makeTopic(t, admin(t, k.addr()), "group", 4, 1)
	p := newProducer(t, k.addr(), "group")
	s := settings{brokers: k.addr(), topics: []string{"group"}, group: "same"}
	// The second finds offsets of the group but has no state: --start-fresh says that this is no accident.
	first, second := configure(t, "first", s), configure(t, "second", s)
	d := run(t, refitd, first, nil)
	d.ready(20 * time.Second)
	p.load(tier.Size(5000, 5000), ratings(1, 0))
	var longest time.Duration
	for i := range tier.Size(5, 50) {
		e := run(t, refitd, second, nil, "--start-fresh")
		e.ready(20 * time.Second)
		longest = max(longest, advances(t, d, p))
		if i%2 == 0 {
			e.kill()
		} else {
			e.stopClean()
		}
		longest = max(longest, advances(t, d, p))
	}
	p.stop()
	d.caughtUp(30*time.Second, "group", p.ends())
	a := d.stopClean()
	if code, e := toTheEnd(t, second, time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, e.failure)
	}
	identical(t, a, inspect(t, second))
	p.accountedFor(a)
	proved(t, first)
	proved(t, second)
	t.Logf("longest wait for the first daemon's progress: %v (of 5s)", longest.Round(time.Millisecond))
}

// advances waits until a child has applied what is acknowledged now, at most 5 s.
func advances(t *testing.T, c *child, p *producer) time.Duration {
	t.Helper()
	began := time.Now()
	c.caughtUp(5*time.Second, p.topic, p.ends())
	return time.Since(began)
}

// identical wants equal states in everything but their lineage.
func identical(t *testing.T, a, b report.State) {
	t.Helper()
	if a.SampleDigest != b.SampleDigest || len(a.Partitions) != len(b.Partitions) || a.Rows != b.Rows {
		t.Errorf("the states differ:\n%+v\n%+v", a, b)
		return
	}
	for i := range a.Partitions {
		x, y := a.Partitions[i], b.Partitions[i]
		x.Halted, y.Halted = nil, nil
		if x != y {
			t.Errorf("the accounts differ:\n%+v\n%+v", x, y)
		}
	}
}

// TestHalfAppliedBatch (C16): daemons of one group are ended, by SIGTERM and by kill -9, while a batch waits inside its
// transaction: it is committed whole or not at all.
func TestHalfAppliedBatch(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	makeTopic(t, admin(t, k.addr()), "half", 4, 1)
	p := newProducer(t, k.addr(), "half")
	s := settings{brokers: k.addr(), topics: []string{"half"}, group: "half"}
	configs := []string{configure(t, "first", s), configure(t, "second", s)}
	p.load(tier.Size(3000, 3000), ratings(1, 0))
	for i := range tier.Size(4, 20) {
		config := configs[i%2]
		site := []string{"sketch.commit", "sketch.committed", "consumer.between"}[i%3]
		d := run(t, refitdFailing, config, []string{fmt.Sprintf("FAIL=%s=sleep:300,0.5,%d", site, i)}, "--start-fresh")
		within(t, 20*time.Second, func() error {
			_, body, err := d.get("/metrics")
			if err == nil && metricIn(body, "refitd_events_total") == 0 {
				err = fmt.Errorf("nothing is applied")
			}
			return err
		})
		pause(t, 150*time.Millisecond)
		if i/2%2 == 0 {
			d.stopClean()
		} else {
			d.kill()
		}
	}
	p.stop()
	var states []report.State
	for _, config := range configs {
		if code, e := toTheEnd(t, config, time.Minute); code != report.ExitDone {
			t.Fatalf("exit code %d, %+v", code, e.failure)
		}
		states = append(states, inspect(t, config))
		p.accountedFor(states[len(states)-1])
		proved(t, config)
	}
	identical(t, states[0], states[1])
}

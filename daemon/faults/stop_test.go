package faults_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// TestStopUnderLoad (A3): SIGTERM under load ends the daemon with code 0 within 10 s. What was applied is in the
// ledger, the group shows it, and a successor continues at once.
func TestStopUnderLoad(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	a := admin(t, addr)
	makeTopic(t, a, "stop", 8, 1)
	p := newProducer(t, addr, "stop")
	config := configure(
		t,
		"stop",
		settings{
			brokers: addr,
			topics:  []string{"stop"},
			group:   "stop",
			size:    20_000,
			train:   trainOften,
			publish: publishOften,
		},
	)
	p.load(tier.Size(20_000, 20_000), ratings(1, 0))
	var longest time.Duration
	for range tier.Size(3, 20) {
		c := run(t, refitd, config, nil)
		c.ready(readyLimit)
		pause(t, time.Second)
		stopped := time.Now()
		s := c.stopClean()
		longest = max(longest, time.Since(stopped))
		balanced(t, s)
		shown, err := a.FetchOffsets(t.Context(), "stop")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range s.Partitions {
			if o, ok := shown.Lookup("stop", l.Partition); !ok || o.At != l.Next {
				t.Errorf("partition %d: the group shows %d, the ledger's next is %d", l.Partition, o.At, l.Next)
			}
		}
	}
	if longest > 10*time.Second {
		t.Errorf("a stop took %v", longest)
	}
	p.stop()
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	p.accountedFor(inspect(t, config))
	proved(t, config)
	t.Logf("longest stop %v (of 10s)", longest.Round(time.Millisecond))
}

// TestStopWhileTraining (A4): SIGTERM during a refit abandons it: exit within 10 s, nothing is published. A second
// SIGTERM ends the process within 2 s.
func TestStopWhileTraining(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "training", 4, 1)
	p := newProducer(t, addr, "training")
	p.fill(tier.Size(100_000, 200_000), ratings(1, 0))
	for name, signals := range map[string]int{"once": 1, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			config := configure(t, name, settings{brokers: addr, topics: []string{"training"}, size: 200_000,
				train: "every: 0s, every_events: " + tier.Size("90000", "190000") + ", max_basis: 60"})
			c := run(t, refitd, config, nil)
			c.caughtUp(60*time.Second, "training", p.ends())
			pause(t, 300*time.Millisecond) // the trainer copies its sample
			n, err := c.metric("refitd_train_duration_seconds_count")
			if err != nil {
				t.Fatal(err)
			}
			if n != 0 {
				t.Fatal("the refit was over before the signal: give it more to do")
			}
			stopped := time.Now()
			limit := 10 * time.Second
			for i := range signals {
				if i > 0 {
					limit = 2 * time.Second
					stopped = time.Now()
				}
				if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
			}
			code := c.wait(limit)
			t.Logf("ended after %v (of %v) with code %d", time.Since(stopped).Round(time.Millisecond), limit, code)
			if signals == 1 && code != report.ExitDone {
				t.Errorf("exit code %d, %+v", code, c.failure)
			}
			if len(c.versions) > 0 {
				t.Errorf("published after the signal: %+v", c.versions)
			}
			if names, err := filepath.Glob(filepath.Join(storePath(config), "ratings", "[0-9]*")); err != nil ||
				len(names) > 0 {
				t.Errorf("the store holds %v %v", names, err)
			}
			p.accountedFor(inspect(t, config))
			proved(t, config)
		})
	}
}

// TestSecondDaemon (A9, A10): a second daemon on the same state is refused within 2 s while the first runs, also while
// the first is stopped, and the first is unharmed; the lock of a killed one is no obstacle.
func TestSecondDaemon(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "second", 2, 1)
	p := newProducer(t, addr, "second")
	p.load(1000, ratings(1, 0))
	config := configure(t, "second", settings{brokers: addr, topics: []string{"second"}})
	first := run(t, refitd, config, nil)
	first.ready(readyLimit)
	refused := func() {
		t.Helper()
		second := run(t, refitd, config, nil)
		if code := second.wait(10 * time.Second); code != report.ExitState || second.failure == nil ||
			time.Since(second.began) > 2*time.Second {
			t.Errorf("the second daemon: exit code %d after %v, %+v", code, time.Since(second.began), second.failure)
		}
	}
	refused()
	frozen(t, first, refused)
	first.ready(readyLimit)
	first.kill()
	again := run(t, refitd, config, nil)
	again.ready(readyLimit)
	p.stop()
	again.caughtUp(20*time.Second, "second", p.ends())
	p.accountedFor(again.stopClean())
	proved(t, config)
}

package faults_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// in returns a file of the model's state directory.
func in(config, name string) string { return filepath.Join(statePath(config), "ratings", name) }

// dies wants a signal to end a child.
func dies(t *testing.T, c *child, signal syscall.Signal) {
	t.Helper()
	c.wait(30 * time.Second)
	if status := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != signal {
		t.Fatalf("the child ended with %v", c.cmd.ProcessState)
	}
}

// TestCrashLoop (A8): a record that ends the process without a word is read by three of them. The fourth quarantines
// its partition at that very offset, and the others continue, also over a clean stop. An operator passes the record, or
// has it tried again.
func TestCrashLoop(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	const partition, offset = 1, 1234
	for _, c := range []struct {
		name, action string
		signal       syscall.Signal
		decide       func(t *testing.T, config string) (gap int64)
	}{
		{"passed", "kill", syscall.SIGKILL, func(t *testing.T, config string) int64 {
			if _, code := command(t, "state", "accept-gap", "--config.file", config, "--model", "ratings", "--topic", "passed",
				"--partition", fmt.Sprint(partition),
				"--to", fmt.Sprint(offset+1), "--why", "it ends the process", "--json"); code != 0 {
				t.Errorf("accept-gap: exit code %d", code)
			}
			return 1
		}},
		{"retried", "fault", syscall.SIGABRT, func(t *testing.T, config string) int64 {
			if err := os.Remove(in(config, "deaths.json")); err != nil {
				t.Error(err)
			}
			return 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			makeTopic(t, admin(t, addr), c.name, 3, 1)
			p := newProducer(t, addr, c.name)
			p.fill(9000, ratings(1, 0))
			config := configure(t, c.name, settings{brokers: addr, topics: []string{c.name}})
			// The environment of the shipped unit: without it a fatal fault is exit code 2, which is a wrong
			// configuration's.
			fail := []string{
				fmt.Sprintf("FAIL=%s=%s@%d/%d", failpoint.IngestRecord, c.action, partition, offset),
				"GOTRACEBACK=crash",
			}
			for range 3 {
				died := run(t, refitdFailing, config, fail)
				dies(t, died, c.signal)
				if len(died.halts) > 0 {
					t.Fatalf("halted too early: %+v", died.halts)
				}
				verifyOffline(t, config)
			}
			fourth := run(t, refitdFailing, config, fail)
			h := fourth.halted(20 * time.Second)
			for _, want := range []string{"quarantined", c.name + "/1", "1234", "accept-gap", "--to 1235", in(config,
				"deaths.json")} {
				if !strings.Contains(h.Reason, want) {
					t.Errorf("the halt does not say %q: %s", want, h.Reason)
				}
			}
			if h.Partition != partition || h.Offset != offset {
				t.Errorf("halt %+v, want partition %d at offset %d", h, partition, offset)
			}
			p.fill(3000, ratings(2, 0))
			ends := p.ends()
			delete(ends, partition)
			fourth.caughtUp(20*time.Second, c.name, ends)
			fourth.ready(readyLimit)
			fourth.oneHalted()
			if code, s := fourth.stop(); code != report.ExitHalted || s == nil ||
				s.Models[0].State.Partitions[partition].Next != offset {
				t.Fatalf("exit code %d, summary %+v", code, s)
			}
			fifth := run(t, refitd, config, nil) // a clean stop and another build decide nothing
			if h := fifth.halted(20 * time.Second); h.Offset != offset || !strings.Contains(h.Reason, "quarantined") {
				t.Errorf("halt %+v", h)
			}
			fifth.stop()
			proved(t, config)

			gap := c.decide(t, config)
			if code, ended := toTheEnd(t, config, time.Minute); code != report.ExitDone {
				t.Fatalf("exit code %d, %+v", code, ended.failure)
			}
			state := inspect(t, config)
			balanced(t, state)
			for _, l := range state.Partitions {
				want := int64(0)
				if l.Partition == partition {
					want = gap
				}
				if l.Gap != want || l.Next != p.ends()[l.Partition] || l.Applied != l.Next-want || l.Halted != nil {
					t.Errorf("partition %d: %+v", l.Partition, l)
				}
			}
			if gap == 0 {
				proved(t, config)
			} else {
				verifyOffline(t, config)
			}
		})
	}
}

// disabled waits until a child says that it does not train, in its metrics, on its status page and in its log.
func disabled(t *testing.T, c *child) {
	t.Helper()
	within(t, readyLimit, func() error {
		n, err := c.metric("refitd_train_disabled")
		if err == nil && n != 1 {
			err = fmt.Errorf("refitd_train_disabled is %g", n)
		}
		return err
	})
	if _, page, err := c.get("/"); err != nil || !strings.Contains(page, "training disabled until") {
		t.Errorf("the status page does not say that training is disabled: %v", err)
	}
	if !strings.Contains(c.logTail(), "training disabled") {
		t.Error("the log does not say that training is disabled")
	}
}

// TestKilledWhileTraining (G4): a process that is killed in two refits in a row is started again without training: it
// reads, and folds in. It trains again when an operator asks, and a refit that ends ends it all.
func TestKilledWhileTraining(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "fatal", 2, 1)
	p := newProducer(t, addr, "fatal")
	config := configure(t, "fatal",
		settings{brokers: addr, topics: []string{"fatal"}, train: trainOften, publish: publishOften})
	fail := []string{"FAIL=" + failpoint.TrainFit + "=kill"}
	for i := range 2 {
		p.fill(1000, ratings(uint64(i)+10, 0)) // a refit wants new events
		dies(t, run(t, refitdFailing, config, fail), syscall.SIGKILL)
	}
	deadOfTraining(t, config, fail, p)

	asked := run(t, refitd, config, nil, "--web.enable-lifecycle")
	asked.ready(readyLimit)
	disabled(t, asked)
	asked.mu.Lock()
	web := asked.web
	asked.mu.Unlock()
	res, err := http.Post("http://"+web+"/-/refit", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	refits := func(c *child) {
		t.Helper()
		within(t, 20*time.Second, func() error {
			n, err := c.metric("refitd_train_duration_seconds_count")
			off, offErr := c.metric("refitd_train_disabled")
			c.mu.Lock()
			versions := len(c.versions)
			c.mu.Unlock()
			if err = errors.Join(err, offErr); err == nil && (n == 0 || off != 0 || versions == 0) {
				err = fmt.Errorf("%g refits, %d versions, refitd_train_disabled %g", n, versions, off)
			}
			return err
		})
	}
	refits(asked)
	asked.kill()
	again := run(t, refitd, config, nil)
	p.fill(100, ratings(3, 0))
	refits(again)
	again.stopClean()
	p.accountedFor(inspect(t, config))
	proved(t, config)
	validStore(t, config)
}

// deadOfTraining starts a child that would die in a refit, and wants it to read on instead, over two more starts.
func deadOfTraining(t *testing.T, config string, fail []string, p *producer) {
	t.Helper()
	for i := range 2 {
		c := run(t, refitdFailing, config, fail)
		c.ready(readyLimit)
		disabled(t, c)
		p.fill(1000, ratings(uint64(i)+2, 0))
		c.caughtUp(20*time.Second, p.topic, p.ends())
		pause(t, time.Second) // three times as long as until a refit would be due
		p.accountedFor(c.stopClean())
		proved(t, config)
	}
}

// TestStopIsNoDeath (G4, A4): a refit that a signal interrupts does not count, not even if a second signal ends the
// process within it.
func TestStopIsNoDeath(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "stopped", 2, 1)
	p := newProducer(t, addr, "stopped")
	config := configure(t, "stopped", settings{brokers: addr, topics: []string{"stopped"}, train: trainOften})
	for i := range 2 {
		p.fill(1000, ratings(uint64(i), 0))
		c := run(t, refitdFailing, config, []string{"FAIL=" + failpoint.TrainFit + "=sleep:60000"})
		training := func(want bool) {
			t.Helper()
			within(t, 20*time.Second, func() error {
				_, err := os.Stat(in(config, "in-training"))
				if there := err == nil; there != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("in-training is there: %t, %v", there, err)
				}
				return nil
			})
		}
		training(true)
		for _, there := range []bool{false, false} {
			if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			training(there)
		}
		c.wait(5 * time.Second)
	}
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone || len(c.versions) == 0 {
		t.Fatalf("exit code %d, %d versions, %+v", code, len(c.versions), c.failure)
	}
	p.accountedFor(inspect(t, config))
	proved(t, config)
}

// TestOutOfMemoryWhileTraining (G4): the same of a real control group, whose kernel kills the process.
func TestOutOfMemoryWhileTraining(t *testing.T) {
	tier.Need(t, tier.Kills)
	g := memoryGroup(t, 400<<20)
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "memory", 2, 1)
	p := newProducer(t, addr, "memory")
	config := configure(
		t,
		"memory",
		settings{
			brokers: addr,
			topics:  []string{"memory"},
			train:   "every: 1s, " + quickTraining,
			publish: publishOften,
		},
	)
	fail := []string{"FAIL=" + failpoint.TrainFit + "=fill:1000"}
	for i := range 2 {
		p.fill(1000, ratings(uint64(i)+10, 0))
		dies(t, runAfter(t, g.enter(), refitdFailing, config, fail), syscall.SIGKILL)
	}
	deadOfTraining(t, config, fail, p)
}

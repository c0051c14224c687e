package shard_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/published"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

// process is a trainer that runs as a separate process.
type process struct {
	*exec.Cmd
	web string
}

func startProcess(t *testing.T, path string) *process {
	t.Helper()
	cmd, web := daemontest.Endless(t, path)
	return &process{cmd, web}
}

// leads reports whether a process says that it trains.
func (p *process) leads(t *testing.T) bool {
	_, metrics, err := daemontest.TryGet(p.web + "/metrics")
	return err == nil && daemontest.Sum(t, metrics, "refitd_trainer_leader") == 1
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = p.Wait() // it was killed
}

// TestStandbyProcesses: of two trainers as processes the one that trains is killed, and stopped and resumed, in turn.
// Each time the other one publishes within 15 s; no version number is used twice or left out, no alias goes back, and
// in the end both have the sample of one process.
func TestStandbyProcesses(t *testing.T) {
	tier.Need(t, tier.Kills)
	rounds := 4
	if tier.Asked(tier.Long) {
		rounds = 30
	}
	b := daemontest.New(t)
	whole := configure(b, "whole", "")
	names, paths, processes := [2]string{"t1", "t2"}, [2]string{}, [2]*process{}
	for i, name := range names {
		paths[i] = b.Configure(
			name,
			append(
				[]string{
					"group_id: g-" + name,
					"group_id: g-t",
					"size: 20000",
					"size: 300",
					"every: 0s",
					"every: 200ms",
					"store-" + name,
					"store-trainers",
					"models:",
					"role: trainer\nshard: {count: 1, topic: merge, standby: 6s}\nmodels:",
				},
				daemontest.Simple...)...)
	}
	b.ProduceRatings(1, 2000)
	_, stopShard := b.Start(configure(b, "shard0", "role: shard, count: 1, index: 0"))
	for i := range processes {
		processes[i] = startProcess(t, paths[i])
	}
	t.Cleanup(func() {
		for _, p := range processes {
			if p != nil && p.ProcessState == nil {
				p.kill(t)
			}
		}
	})
	store := publish.NewStore(filepath.Join(b.Dir, "store-trainers"))
	newest := func() (m snapshot.Manifest) {
		if latest, err := store.Alias("ratings", snapshot.Latest); err == nil {
			m, _ = store.Manifest("ratings", latest.Version)
		}
		return m
	}
	daemontest.Within(t, daemontest.Patience, "a version", func() bool { return newest().Version > 0 })
	longest := time.Duration(0)
	for round := range rounds {
		leader := -1
		daemontest.Within(t, daemontest.Patience, "one that trains", func() bool {
			a, b := processes[0].leads(t), processes[1].leads(t)
			if leader = 0; b {
				leader = 1
			}
			return a != b
		})
		other := processes[1-leader]
		daemontest.Within(t, daemontest.Patience, "the other to be on standby, and ready", func() bool {
			status, body := daemontest.Get(t, other.web+"/-/ready")
			return status == 200 && strings.Contains(body, "standby: ") && strings.Contains(body, " trains")
		})
		b.ProduceRatings(uint64(round+2), 200)
		before, stops := newest(), round%2 == 1
		began := time.Now()
		if stops {
			if err := processes[leader].Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		} else {
			processes[leader].kill(t)
		}
		daemontest.Within(t, daemontest.Patience, "a version of the other",
			func() bool { return newest().Epoch > before.Epoch })
		took := time.Since(began)
		t.Logf("round %d: %s published %v after the other was %s", round, names[1-leader],
			took.Round(100*time.Millisecond), map[bool]string{true: "stopped", false: "killed"}[stops])
		longest = max(longest, took)
		if stops {
			if err := processes[leader].Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		} else {
			processes[leader] = startProcess(t, paths[leader])
		}
		b.ProduceRatings(uint64(round+2000), 100)
		daemontest.Within(t, daemontest.Patience, "the other to train on",
			func() bool { return other.leads(t) && !processes[leader].leads(t) })
	}
	if longest > 15*time.Second {
		t.Errorf("a takeover took %v", longest)
	}
	for _, p := range processes {
		p.kill(t)
	}
	stopShard()
	published.Forward(t, store, "ratings")
	one := b.Run(whole)
	for i, path := range paths {
		out := b.Run(path)
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		compare(t, names[i], out, one)
	}
}

//go:build failpoint && simulation

package simulation

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

var (
	first = flag.Uint64("first", 1, "seed of the first history")
	count = flag.Int("histories", 6,
		"how many histories are played of a daemon; of a team two thirds as many, of a group a third")
	long  = flag.Int("steps", 40, "how many steps a history has at most; half as many at least")
	which = flag.String("kinds", "", "which kinds of steps happen, divided by commas; all if it is empty")
	small = flag.Bool("shrink", true, "leave steps out of a history that fails, as long as it does")
)

// A plan is a history to be: everything in it follows from its seeds.
type plan struct {
	seed      uint64
	shards    int // 0: of a daemon that is whole
	processes int // to which a group gives the shards; 0: each shard is one
	steps     []step
}

type step struct {
	kind string
	seed uint64
}

// kindOf is whose lives are played.
type kindOf int

const (
	ofDaemon kindOf = iota
	ofTeam
	ofGroup
)

func newPlan(seed uint64, kind kindOf) plan {
	rng := rand.New(rand.NewPCG(seed, 2))
	p, of := plan{seed: seed}, kinds
	switch kind {
	case ofTeam:
		p.shards, of = 2+rng.IntN(3), slices.Concat(kinds, kindsOfTeam)
	case ofGroup:
		p.shards, p.processes, of = 3+rng.IntN(4), 2+rng.IntN(3), slices.Concat(kinds, kindsOfGroup)
		// what topic and log have lost is lost: a state left behind is not asked
		spared := [][]string{{"retention", "log gone"}, {"lost tail"}}[seed%2]
		of = slices.DeleteFunc(of, func(kind string) bool { return slices.Contains(spared, kind) })
	}
	if *which != "" {
		of = strings.Split(*which, ",")
	}
	for range *long/2 + rng.IntN(*long/2+1) {
		p.steps = append(p.steps, step{of[rng.IntN(len(of))], rng.Uint64()})
	}
	return p
}

// play plays a history and returns the simulated time that its processes lived, and the first violation.
func (p plan) play(t *testing.T) (lived time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := newWorld(t, p.seed, p.shards, p.processes)
		defer w.close()
		for i, s := range p.steps {
			w.rng = rand.New(rand.NewPCG(s.seed, 3))
			if err = w.step(s.kind); err != nil {
				err = fmt.Errorf("step %d, %s, at %v: %w", i, s.kind, time.Since(began), err)
				break
			}
		}
		if err == nil {
			err = w.finish()
		}
		lived = w.lived
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, w.log.Bytes()[max(0, w.log.Len()-6000):])
		}
	})
	return lived, err
}

// finish heals everything, lets who lives catch up, and compares what there is with what a daemon has that read the
// same records without a fault.
func (w *world) finish() error {
	for _, m := range w.members {
		if m.dieAfter, m.away = -1, false; m.process != nil {
			m.process.steps.Store(-1)
			m.process.failing.Store(0)
		}
	}
	for i := range 3 { // who was dying begins again
		if i == 2 && w.isTeam() {
			if err := w.leaveNothing(w.members[w.rng.IntN(len(w.members)-1)]); err != nil {
				return err
			}
		}
		if err := w.startAll(); err != nil {
			return err
		}
		if i == 0 {
			if err := w.produce(10, true); err != nil {
				return err
			}
		}
		if err := w.sleepOrDie([]time.Duration{20 * time.Minute, 10 * time.Minute, 5 * time.Minute}[i]); err != nil {
			return err
		}
	}
	if bytes.Contains(w.log.Bytes(), []byte(snapshot.ErrChain.Error())) {
		return errors.New("a daemon has made a delta that did not follow its own")
	}
	if !w.losing && bytes.Contains(w.log.Bytes(), []byte("the merge topic has lost rows")) {
		return errors.New("rows were sent again that the merge topic had not lost")
	}
	p := w.publisher.process
	for _, m := range w.members {
		if m.process == nil {
			return fmt.Errorf("%s has ended after the last fault", m.name)
		}
		if lag := m.process.daemon.Lag(); lag != 0 {
			return fmt.Errorf("minutes after the last fault %s has not applied %d records", m.name, lag)
		}
	}
	for _, m := range w.members { // the publisher is the last
		if err := w.stop(m); err != nil {
			return err
		}
	}
	got := daemontest.Parse(w.t, p.out.Bytes(), p.err)
	want, err := w.undisturbed()
	if err != nil {
		return err
	}
	has, wants := got.State(w.t), want.State(w.t)
	applied := int64(0)
	for _, partition := range has.Partitions {
		applied += partition.Applied
	}
	if w.version == 0 && applied > 150 {
		return fmt.Errorf("no version of %d events", applied)
	}
	if w.isTeam() {
		return compareTeam(has, wants)
	}
	if n := got.Summary.Models[0].Progressive.N; int64(n) != applied {
		return fmt.Errorf("%d predictions were counted, of %d events", n, applied)
	}
	if !reflect.DeepEqual(has, wants) {
		return fmt.Errorf("STATE differs from that without faults:\n%+v\n%+v", has, wants)
	}
	return nil
}

// undisturbed is a run of one daemon over the twin, from the beginning to the end, with a separate state.
func (w *world) undisturbed() (*daemontest.Outcome, error) {
	conf, err := config.Load(filepath.Join(w.dir, undisturbed))
	if err != nil {
		return nil, err
	}
	conf.Kafka.Dial = w.twins.DialContext
	var out bytes.Buffer
	d, err := daemon.New(
		context.Background(),
		daemon.Options{Config: conf, UntilEnd: true, Out: report.NewEmitter(&out, true),
			Log: daemontest.Quiet(), Listen: w.listen},
	)
	if err == nil {
		err = d.Run(context.Background())
	}
	o := daemontest.Parse(w.t, out.Bytes(), err)
	return &o, err
}

// shrunk leaves out steps as long as the history still fails.
func (p plan) shrunk(t *testing.T, why error) (plan, error) {
	for n := len(p.steps) / 2; n > 0; n /= 2 {
		for at := 0; at < len(p.steps); {
			less := plan{
				p.seed,
				p.shards,
				p.processes,
				slices.Delete(slices.Clone(p.steps), at, min(at+n, len(p.steps))),
			}
			if _, err := less.play(t); err != nil {
				p, why = less, err
			} else {
				at += n
			}
		}
	}
	return p, why
}

// TestHistories plays random lives of a daemon.
func TestHistories(t *testing.T) { playAll(t, ofDaemon) }

// TestTeams plays random lives of shards with a trainer: it has to have the sample and the accounts of one daemon.
func TestTeams(t *testing.T) { playAll(t, ofTeam) }

// TestGroups plays random lives of processes to which a group gives the shards of a team.
func TestGroups(t *testing.T) { playAll(t, ofGroup) }

func playAll(t *testing.T, kind kindOf) {
	began, number := time.Now(), *count
	switch kind { // lives of several processes take longer
	case ofTeam:
		number = (2*number + 2) / 3
	case ofGroup:
		number = (number + 2) / 3
	}
	var lived atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for i := range number {
			seed := *first + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				took, err := newPlan(seed, kind).play(t)
				if lived.Add(int64(took)); err != nil {
					newPlan(seed, kind).report(t, err)
				}
			})
		}
	})
	hours, minutes := time.Duration(lived.Load()).Hours(), time.Since(began).Minutes()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	took := time.Duration(used.Utime.Nano() + used.Stime.Nano()) // of the tests before, too
	t.Logf("%d histories, %.0f hours of daemons in %.1f minutes, %.1f of processor time so far", number, hours, minutes,
		took.Minutes())
}

// report says what a history fails with, and with which steps alone.
func (p plan) report(t *testing.T, err error) {
	t.Errorf("seed %d: %v", p.seed, err)
	if *small {
		p, err = p.shrunk(t, err)
		t.Logf("with these steps alone: %v", err)
	}
	for _, s := range p.steps {
		t.Logf("{%q, %d}", s.kind, s.seed)
	}
}

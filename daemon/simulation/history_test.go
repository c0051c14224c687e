//go:build failpoint && simulation

package simulation

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
)

var (
	first = flag.Uint64("first", 1, "seed of the first history")
	count = flag.Int("histories", 6, "how many histories are played")
	small = flag.Bool("shrink", true, "leave steps out of a history that fails, as long as it does")
)

// A plan is a history to be: everything in it follows from its seeds.
type plan struct {
	seed  uint64
	steps []step
}

type step struct {
	kind string
	seed uint64
}

func newPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 2))
	p := plan{seed: seed}
	for range 20 + rng.IntN(40) {
		p.steps = append(p.steps, step{kinds[rng.IntN(len(kinds))], rng.Uint64()})
	}
	return p
}

// play plays a history and returns the simulated time that it took, and the first violation.
func (p plan) play(t *testing.T) (took time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := newWorld(t, p.seed)
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
		took = time.Since(began)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, w.log.Bytes()[max(0, w.log.Len()-6000):])
		}
	})
	return took, err
}

// finish heals everything, lets the daemon catch up, and compares what it has with what a daemon has that read the same records without a fault.
func (w *world) finish() error {
	if w.process == nil {
		w.dieAfter = -1
		if err := w.start(); err != nil {
			return err
		}
	}
	w.process.steps.Store(-1)
	if err := w.produce(10, true); err != nil {
		return err
	}
	if err := w.sleepOrDie(15 * time.Minute); err != nil {
		return err
	}
	if w.process == nil {
		if err := w.start(); err != nil {
			return err
		}
		if err := w.sleepOrDie(15 * time.Minute); err != nil {
			return err
		}
	}
	if lag := w.process.daemon.Lag(); lag != 0 {
		return fmt.Errorf("a quarter of an hour after the last fault %d records are not applied", lag)
	}
	p := w.process
	if err := w.stop(); err != nil {
		return err
	}
	got := daemontest.Parse(w.t, p.out.Bytes(), p.err)
	want, err := w.undisturbed()
	if err != nil {
		return err
	}
	applied := int64(0)
	for _, partition := range got.State(w.t).Partitions {
		applied += partition.Applied
	}
	if n := got.Summary.Models[0].Progressive.N; int64(n) != applied {
		return fmt.Errorf("%d predictions were counted, of %d events", n, applied)
	}
	if w.version == 0 && applied > 150 {
		return fmt.Errorf("no version of %d events", applied)
	}
	if got, want := got.State(w.t), want.State(w.t); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("STATE differs from that without faults:\n%+v\n%+v", got, want)
	}
	return nil
}

// undisturbed is a run over the twin, from the beginning to the end, with a state of its own.
func (w *world) undisturbed() (*daemontest.Outcome, error) {
	conf, err := config.Load(w.config)
	if err != nil {
		return nil, err
	}
	conf.Kafka.Dial = w.twins.DialContext
	conf.Storage.Path += "-undisturbed"
	for i := range conf.Models {
		conf.Models[i].Publish.Store += "-undisturbed"
	}
	var out bytes.Buffer
	d, err := daemon.New(context.Background(), daemon.Options{Config: conf, UntilEnd: true, Out: report.NewEmitter(&out, true),
		Log: daemontest.Quiet(), Listen: w.listen})
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
			less := plan{p.seed, slices.Delete(slices.Clone(p.steps), at, min(at+n, len(p.steps)))}
			if _, err := less.play(t); err != nil {
				p, why = less, err
			} else {
				at += n
			}
		}
	}
	return p, why
}

// TestHistories plays random lives of a daemon. A seed that has failed stays in the table.
func TestHistories(t *testing.T) {
	began, hours := time.Now(), 0.0
	for i := range *count {
		p := newPlan(*first + uint64(i))
		took, err := p.play(t)
		hours += took.Hours()
		if err == nil {
			continue
		}
		t.Errorf("seed %d: %v", p.seed, err)
		if *small {
			p, err = p.shrunk(t, err)
			t.Logf("with these steps alone: %v", err)
		}
		for _, s := range p.steps {
			t.Logf("{%q, %d}", s.kind, s.seed)
		}
		return
	}
	t.Logf("%d histories, %.0f hours of a daemon in %v", *count, hours, time.Since(began).Round(time.Second))
}

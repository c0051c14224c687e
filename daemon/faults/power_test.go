package faults_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// volumeBytes is room for a state with its logs twice over; the image is sparse.
const volumeBytes = 1 << 30

// powered is a daemon under load with state and store on a file system whose power is cut again and again.
type powered struct {
	t      *testing.T
	volume *volume
	load   *producer
	config string
	random *rand.Rand
}

func newPowered(t *testing.T) *powered {
	t.Helper()
	p := &powered{t: t, volume: newVolume(t, volumeBytes)}
	addr := embedded(t)
	makeTopic(t, admin(t, addr), "power", 4, 1)
	p.load = newProducer(t, addr, "power")
	p.config = configure(t, "power",
		settings{brokers: addr, topics: []string{"power"}, size: 20_000, train: trainOften, publish: publishOften})
	p.volume.keep(p.config)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p.random = rand.New(rand.NewPCG(seed, 0))
	p.load.load(tier.Size(5000, 5000), ratings(seed, 0))
	return p
}

// cut lets the daemon run for a while, cuts the power, and starts the machine again. It returns how long the daemon
// took to be ready, how many offsets it had lost at its start, and how many events it had applied from there to the
// cut.
func (p *powered) cut(binary string, environment ...string) (ready time.Duration, lost, applied int64) {
	p.t.Helper()
	c := run(p.t, binary, p.config, environment)
	ready = c.ready(readyLimit)
	pause(p.t, 500*time.Millisecond+time.Duration(p.random.Int64N(int64(time.Second))))
	_, body, err := c.get("/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	p.volume.cut()
	c.kill()
	p.volume.restore()
	return ready, int64(
		metricIn(body, "refitd_state_rollback_offsets_total")), int64(metricIn(body, "refitd_events_total"))
}

// finish reads the rest and proves the whole.
func (p *powered) finish() {
	p.t.Helper()
	p.load.stop()
	if code, c := toTheEnd(p.t, p.config, time.Minute); code != report.ExitDone {
		p.t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	p.load.accountedFor(inspect(p.t, p.config))
	proved(p.t, p.config)
	validStore(p.t, p.config)
}

// TestPowerCut (A12): the power of the disk is cut under load: what the file system has not written is gone. What the
// daemon had said to be applied is there after each, the store holds whole versions only, and nothing is lost or
// double.
func TestPowerCut(t *testing.T) {
	tier.Need(t, tier.Kills)
	p := newPowered(t)
	cuts := tier.Size(3, 20)
	var waits []time.Duration
	var had int64
	for range cuts {
		ready, lost, applied := p.cut(refitd)
		waits = append(waits, ready)
		s := inspect(t, p.config)
		balanced(t, s)
		var have int64
		for _, l := range s.Partitions {
			have += l.Applied
		}
		if lost != 0 || applied == 0 || have < had+applied {
			t.Errorf(
				"%d events are in the state after the cut: %d were before the start, at which %d offsets were lost, and %d were "+
					"applied",
				have,
				had,
				lost,
				applied,
			)
		}
		had = have
		validStore(t, p.config)
	}
	p.finish()
	t.Logf("%d cuts, %d records acknowledged: lost 0, double 0; ready after at most %v", cuts, p.load.total(),
		slices.Max(waits).Round(time.Millisecond))
}

// TestPowerCutWithoutSync (A12): the same with commits that are not synchronised, which only a build with failpoints
// can be made to do: the end of the state is gone then, which TestPowerCut would notice. The witness does, the daemon
// says so, and reads again what it has to.
func TestPowerCutWithoutSync(t *testing.T) {
	tier.Need(t, tier.Kills)
	p := newPowered(t)
	_, _, applied := p.cut(refitdFailing, "FAIL=sketch.sync=error")
	_, lost, _ := p.cut(refitdFailing, "FAIL=sketch.sync=error")
	if lost == 0 {
		t.Errorf("%d events were applied before the cut, and no rollback was noticed", applied)
	}
	p.finish()
	t.Logf(
		"%d events applied before the cut; the next start found %d offsets less than its witness, and read them again: "+
			"lost 0, double 0",
		applied,
		lost,
	)
}

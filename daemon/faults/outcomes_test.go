package faults_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// shown is an event without a label, and clicked the outcome of one in twenty of them, half a minute later.
func shown(seed uint64) func(int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(i int) []byte {
		return fmt.Appendf(nil, `{"id":"e%d-%d","user":"u%d","item":"i%d","ts":%d}`, seed, i, r.IntN(600), r.IntN(400),
			1_700_000_000_000+int64(i))
	}
}

func clicked(seed uint64) func(int) []byte {
	return func(i int) []byte {
		return fmt.Appendf(nil, `{"of":"e%d-%d","ts":%d}`, seed, 20*i, 1_700_000_030_000+int64(20*i))
	}
}

// TestKillsOfOutcomes: a backlog of events in six partitions and of their outcomes in four, and of more of both,
// is read by a daemon that is killed again and again. Nothing is lost and nothing counts twice, and the other client
// proves the join. The full form measures how fast a long backlog is read.
func TestKillsOfOutcomes(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr, kind := loadBrokers(t)
	n, kills, rate := tier.Size(60_000, 2_000_000), tier.Size(4, 12), tier.Size(5000, 20_000)
	makeTopic(t, admin(t, addr), "shown", 6, 1)
	makeTopic(t, admin(t, addr), "clicked", 4, 1)
	p, q := newProducer(t, addr, "shown"), newProducer(t, addr, "clicked")
	p.fill(n, shown(1))
	q.fill(n/20, clicked(1))
	config := configure(t, "outcomes", settings{brokers: addr, topics: []string{"shown"}, size: 20_000, train: trainOften,
		schema: "task: binary, label: clicked",
		input:  "outcomes: {topics: [clicked], key: {impression: id, outcome: of}, window: 1m}"})
	p.load(rate, shown(2))
	q.load(rate/20, clicked(2))
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for range kills {
		trainAnyway(t, config)
		c := run(t, refitd, config, nil)
		c.ready(time.Minute)
		pause(t, time.Duration(100+r.IntN(600))*time.Millisecond)
		c.kill()
	}
	p.stop()
	q.stop()
	trainAnyway(t, config)
	code, c := toTheEnd(t, config, 10*time.Minute)
	if code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	s := inspect(t, config)
	p.accountedFor(s)
	q.accountedFor(s)
	result := proved(t, config)
	of := s.Outcomes
	if of == nil || of.Joined < 100 || float64(of.Joined) > 0.1*float64(of.Joined+of.Open) && of.Open > 1000 {
		t.Errorf("%+v", of)
	}
	t.Logf("%d kills on %s, %d events and %d outcomes: lost %d, double %d; the rest was read at %.0f/s; %+v", kills, kind,
		p.total(), q.total(), result.summary.Lost, result.summary.Double, float64(c.summary.EventsPerSecond), *of)
}

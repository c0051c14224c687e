package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// groupShards is how many shards the processes of a group share.
const groupShards = 12

// shardGroup is processes to which a Kafka group gives the shards of a team.
type shardGroup struct {
	*team
	configs []string // of all there ever were
	living  []*child
	seed    uint64
	kind    string // of the brokers
}

// newShardGroup makes a topic with a partition for each shard, and the group that reads it. The brokers are Apache
// Kafka's with GROUP_BROKERS=kafka.
func newShardGroup(t *testing.T, topic string) *shardGroup {
	t.Helper()
	addr, kind := embedded(t), "the embedded broker"
	if os.Getenv("GROUP_BROKERS") == "kafka" {
		addr, kind = loadBrokers(t)
	}
	makeTopic(t, admin(t, addr), topic, groupShards, 1)
	g := &shardGroup{team: newTeam(t, addr, topic, 0, trainOften), kind: kind, seed: uint64(time.Now().UnixNano())}
	g.trainer = configure(
		t,
		topic+"-trainer",
		settings{brokers: addr, topics: []string{topic}, size: 10_000, train: trainOften,
			team: fmt.Sprintf("role: trainer\nshard: {group: %s-shards, topic: %s}", topic, g.merge())},
	)
	t.Logf("seed %d", g.seed)
	return g
}

// resize starts or stops processes until there are n.
func (g *shardGroup) resize(n int) {
	g.t.Helper()
	for len(g.configs) < n {
		g.configs = append(
			g.configs,
			configure(
				g.t,
				fmt.Sprint(g.topic, "-process", len(g.configs)),
				settings{brokers: g.addr, topics: []string{g.topic},
					size: 10_000, team: fmt.Sprintf("role: shard\nshard: {group: %s-shards, topic: %s}", g.topic, g.merge())},
			),
		)
	}
	for len(g.living) > n {
		g.leave()
	}
	for len(g.living) < n {
		g.living = append(g.living, run(g.t, refitd, g.configs[len(g.living)], nil))
	}
}

// leave stops the last process, which perhaps has not been given a shard, and returns how long it took to end.
func (g *shardGroup) leave() time.Duration {
	g.t.Helper()
	last := g.living[len(g.living)-1]
	within(g.t, readyLimit, func() error { // else it knows no signal yet
		_, _, err := last.get("/-/healthy")
		return err
	})
	began := time.Now()
	if code, summary := last.stop(); code != report.ExitDone || summary == nil {
		g.t.Fatalf("exit code %d, summary %v, error %+v", code, summary, last.failure)
	}
	g.living = g.living[:len(g.living)-1]
	return time.Since(began)
}

// kill kills the last process.
func (g *shardGroup) kill() {
	g.living[len(g.living)-1].kill()
	g.living = g.living[:len(g.living)-1]
}

// whole waits until all shards are held and ready, and returns how long that took.
func (g *shardGroup) whole(limit time.Duration) time.Duration {
	g.t.Helper()
	began := time.Now()
	within(g.t, limit, func() error {
		held := 0.0
		for _, l := range g.living {
			l.ready(limit)
			n, err := l.metric("refitd_shards_held")
			if err != nil {
				return err
			}
			held += n
		}
		if held != groupShards {
			return fmt.Errorf("%v shards are held of %d", held, groupShards)
		}
		return nil
	})
	return time.Since(began)
}

// TestGroupKills: processes that a group gives the shards of a team come and go, are killed and stopped for a while,
// under load: from four to three, to six and to four again, each with a separate state that it finds again. Nothing is
// lost, nothing counts twice, and in the end the trainer has what one process has.
func TestGroupKills(t *testing.T) {
	tier.Need(t, tier.Kills)
	kills, rate, pauses := tier.Size(8, 200), 5000, tier.Size(8*time.Second, 30*time.Second)
	g := newShardGroup(t, "groupkills")
	p := newProducer(t, g.addr, g.topic)
	r := rand.New(rand.NewPCG(g.seed, 0))
	p.load(rate, ratings(g.seed, 0))
	trainer := run(t, refitd, g.trainer, nil)
	stopped := 0
	for phase, n := range []int{4, 3, 6, 4} {
		g.resize(n)
		for i := range kills / 4 {
			pause(t, time.Duration(300+r.IntN(4000))*time.Millisecond)
			victim := r.IntN(len(g.living))
			if i == phase%max(1, kills/4) {
				frozen(t, g.living[victim], func() { pause(t, pauses) })
				stopped++
				continue
			}
			g.living[victim].kill()
			pause(t, time.Duration(r.IntN(9000))*time.Millisecond) // others may have its shards by then, or not
			g.living[victim] = run(t, refitd, g.configs[victim], nil)
		}
	}
	g.whole(time.Minute)
	g.leave()
	t.Logf("the shards of a process that was stopped are held and ready elsewhere after %v",
		g.whole(time.Minute).Round(time.Millisecond))
	g.kill()
	t.Logf("those of one that was killed after %v, of which the session is 6 s",
		g.whole(time.Minute).Round(time.Millisecond))
	p.stop()
	began := time.Now()
	for len(g.living) > 0 {
		g.leave()
	}
	code, last := toTheEnd(t, g.configs[0], 5*time.Minute)
	if code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, last.failure)
	}
	t.Logf("%d shards in one process: %d MiB resident", len(last.summary.Models), last.summary.RSSBytes>>20)
	t.Logf("given up, taken up and read to the end within %v", time.Since(began).Round(time.Millisecond))
	trainer.stopClean()
	g.end(g.trainer, 5*time.Minute)
	g.compare(5 * time.Minute)
	p.accountedFor(inspect(t, g.trainer))
	t.Logf("%s: %d kills and %d stops of %v at %d events/s, %d records acknowledged: lost 0, double 0", g.kind,
		kills-stopped, stopped, pauses, rate, p.total())
}

// TestGroupMoves: how long it takes until the shards of a process are held and ready elsewhere, of one that is killed
// and of one that is stopped, under load.
// Of a process that is stopped the time counts from the signal.
func TestGroupMoves(t *testing.T) {
	tier.Need(t, tier.Kills)
	g := newShardGroup(t, "groupmoves")
	p := newProducer(t, g.addr, g.topic)
	p.load(5000, ratings(g.seed, 0))
	trainer := run(t, refitd, g.trainer, nil)
	g.resize(4)
	g.whole(time.Minute)
	var killed, stopped []time.Duration
	for range tier.Size(2, 10) {
		pause(t, 2*time.Second)
		g.kill()
		killed = append(killed, g.whole(time.Minute).Round(time.Millisecond))
		g.resize(4)
		g.whole(time.Minute)
		pause(t, 2*time.Second)
		began := time.Now()
		g.leave()
		g.whole(time.Minute)
		stopped = append(stopped, time.Since(began).Round(time.Millisecond))
		g.resize(4)
		g.whole(time.Minute)
	}
	t.Logf(
		"%s: the shards of a process are held and ready elsewhere after %v where it was killed, with sessions of 6 s, and "+
			"after %v where it was stopped",
		g.kind,
		killed,
		stopped,
	)
	p.stop()
	for len(g.living) > 0 {
		g.leave()
	}
	trainer.stopClean()
	g.end(g.configs[0], 5*time.Minute)
	g.end(g.trainer, 5*time.Minute)
	g.compare(5 * time.Minute)
	p.accountedFor(inspect(t, g.trainer))
}

package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// team is shards and a trainer, each a process with a separate configuration, and one process that reads everything.
type team struct {
	t       *testing.T
	addr    []string
	topic   string
	shards  []string // configurations
	trainer string
	whole   string
}

func newTeam(t *testing.T, addr []string, topic string, shards int, train string) *team {
	t.Helper()
	c := &team{t: t, addr: addr, topic: topic}
	member := func(name, keys string) string {
		return configure(t, fmt.Sprintf("%s-%s", topic, name),
			settings{brokers: addr, topics: []string{topic}, size: 10_000, train: train, team: keys})
	}
	for i := range shards {
		c.shards = append(
			c.shards,
			member(fmt.Sprint("shard", i),
				fmt.Sprintf("role: shard\nshard: {count: %d, index: %d, topic: %s}", shards, i, c.merge())),
		)
	}
	c.trainer = member("trainer", fmt.Sprintf("role: trainer\nshard: {count: %d, topic: %s}", shards, c.merge()))
	c.whole = member("whole", "")
	return c
}

func (c *team) merge() string { return c.topic + "-merge" }

// read has all shards read to the end in parallel with a trainer, which then merges what is left, each process with a
// share of a processor. It returns the time of processors that the shards took, and the time until the last one had
// ended.
func (c *team) read(limit time.Duration, share float64) (used, lasted time.Duration) {
	c.t.Helper()
	held := func(config string, args ...string) *child {
		return runAfter(c.t, processorGroup(c.t, share).enter(), refitd, config, nil, args...)
	}
	trainer := held(c.trainer)
	var all []*child
	began := time.Now()
	for _, config := range c.shards {
		all = append(all, held(config, "--until", "end"))
	}
	for i, s := range all {
		if code := s.wait(limit); code != report.ExitDone {
			c.t.Fatalf("shard %d: exit code %d, %+v", i, code, s.failure)
		}
		used += s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
	}
	lasted = time.Since(began)
	trainer.stopClean()
	c.end(c.trainer, limit)
	return used, lasted
}

func (c *team) end(config string, limit time.Duration) {
	c.t.Helper()
	if code, e := toTheEnd(c.t, config, limit); code != report.ExitDone {
		c.t.Fatalf("%s: exit code %d, %+v", filepath.Base(config), code, e.failure)
	}
}

// compare wants the trainer to have what one process has that reads everything, and verify to prove both.
func (c *team) compare(limit time.Duration) {
	c.t.Helper()
	c.end(c.whole, limit)
	got, want := inspect(c.t, c.trainer), inspect(c.t, c.whole)
	identical(c.t, got, want)
	proved(c.t, c.trainer)
	c.t.Logf("sample digest of the trainer %s, of one process %s; rows %+v", got.SampleDigest, want.SampleDigest,
		got.Rows)
}

// bytesOf returns what the brokers keep of a topic.
func (c *team) bytesOf(topic string) (n int64) {
	c.t.Helper()
	dirs, err := admin(c.t, c.addr).DescribeAllLogDirs(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	dirs.Each(func(d kadm.DescribedLogDir) {
		for _, p := range d.Topics[topic] {
			n += p.Size
		}
	})
	return n
}

// TestTeamOfProcesses: four shards and a trainer, as processes, have the sample, the accounts and the held-out rows of
// one process, byte for byte, and the topic between them is a small part of the input.
func TestTeamOfProcesses(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	n := tier.Size(150_000, 10_000_000)
	if text := os.Getenv("TEAM_EVENTS"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
	}
	makeTopic(t, admin(t, addr), "team", 8, 1)
	p := newProducer(t, addr, "team")
	p.fill(n, ratings(1, 100))
	c := newTeam(t, addr, "team", 4, "")
	used, lasted := c.read(20*time.Minute, .4)
	c.compare(20 * time.Minute)
	p.accountedFor(inspect(t, c.trainer))
	merged, input := c.bytesOf(c.merge()), c.bytesOf("team")
	t.Logf(
		"%d events on %s, 4 shards and a trainer of .4 processor each: read within %v, %.2f µs of processor time an "+
			"event; merge topic %d bytes, "+
			"input %d: %.2f %%",
		n,
		kind,
		lasted.Round(time.Millisecond),
		float64(used.Microseconds())/float64(n),
		merged,
		input,
		100*float64(merged)/float64(input),
	)
}

// TestShardsScale: shards with a fixed share of a processor each, a fifth, read about as many times the events of one
// as there are. What an event costs in processor time does not grow with their number.
func TestShardsScale(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	each := tier.Size(50_000, 1_000_000)
	var one, alone float64
	for _, count := range tier.Size([]int{1, 4}, []int{1, 2, 4, 8}) {
		topic := fmt.Sprint("scale-", count)
		makeTopic(t, admin(t, addr), topic, 8, 1)
		newProducer(t, addr, topic).fill(each*count, ratings(1, 100))
		c := newTeam(t, addr, topic, count, "")
		used, lasted := c.read(20*time.Minute, .2)
		cost, rate := float64(used.Nanoseconds())/float64(each*count), float64(each*count)/lasted.Seconds()
		if one == 0 {
			one, alone = cost, rate
		}
		t.Logf(
			"%d shards of .2 processor each on %s, %d events: %.0f a second, %.2f of linear; %.2f µs of processor time an "+
				"event, %.2f of that of one",
			count,
			kind,
			each*count,
			rate,
			rate/alone/float64(count),
			cost/1000,
			cost/one,
		)
	}
}

// TestTeamKills: members of a team are killed, and stopped for a while as by SIGSTOP, under load: nothing is lost,
// nothing counts twice, and in the end the trainer has what one process has.
func TestTeamKills(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr := embedded(t)
	kills, rate, pauses := tier.Size(12, 200), 5000, tier.Size(2*time.Second, 30*time.Second)
	makeTopic(t, admin(t, addr), "teamkills", 8, 1)
	p := newProducer(t, addr, "teamkills")
	c := newTeam(t, addr, "teamkills", 4, trainOften)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p.load(rate, ratings(seed, 0))
	configs := append([]string{c.trainer}, c.shards...)
	running := make([]*child, len(configs))
	start := func(i int) { running[i] = run(t, refitd, configs[i], nil) }
	for i := range configs {
		start(i)
	}
	stopped := 0
	for i := range kills {
		pause(t, time.Duration(300+r.IntN(1000))*time.Millisecond)
		victim := r.IntN(len(configs))
		if i%6 == 5 {
			frozen(t, running[victim], func() { pause(t, pauses) })
			stopped++
			continue
		}
		running[victim].kill()
		if victim == 0 {
			trainAnyway(t, c.trainer)
		}
		start(victim)
	}
	p.stop()
	for i := len(configs) - 1; i >= 0; i-- { // the trainer last
		running[i].ready(readyLimit * 4)
		running[i].stopClean()
		c.end(configs[i], 5*time.Minute)
	}
	c.compare(5 * time.Minute)
	p.accountedFor(inspect(t, c.trainer))
	t.Logf("%d kills and %d stops of %v at %d events/s, %d records acknowledged: lost 0, double 0", kills-stopped,
		stopped, pauses, rate, p.total())
}

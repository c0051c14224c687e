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

// team is shards and a trainer, each a process with a configuration of its own, and one process that reads everything.
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
		return configure(t, fmt.Sprintf("%s-%s", topic, name), settings{brokers: addr, topics: []string{topic}, size: 10_000, train: train, team: keys})
	}
	for i := range shards {
		c.shards = append(c.shards, member(fmt.Sprint("shard", i), fmt.Sprintf("role: shard\nshard: {count: %d, index: %d, topic: %s}", shards, i, c.merge())))
	}
	c.trainer = member("trainer", fmt.Sprintf("role: trainer\nshard: {count: %d, topic: %s}", shards, c.merge()))
	c.whole = member("whole", "")
	return c
}

func (c *team) merge() string { return c.topic + "-merge" }

// read has all shards read to the end beside a trainer, which then merges what is left, each process with a share of a processor, and returns the time of
// processors that the shards took, and the time until the last one had ended.
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
	c.t.Logf("sample digest of the trainer %s, of one process %s; rows %+v", got.SampleDigest, want.SampleDigest, got.Rows)
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

// TestTeamOfProcesses: four shards and a trainer, as processes, have the sample, the accounts and the held-out rows of one process, byte for byte, and the
// topic between them is a small part of the input.
func TestTeamOfProcesses(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	n := tier.Size(300_000, 10_000_000)
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
	t.Logf("%d events on %s, 4 shards and a trainer of .4 processor each: read within %v, %.2f µs of processor time an event; merge topic %d bytes, "+
		"input %d: %.2f %%", n, kind, lasted.Round(time.Millisecond), float64(used.Microseconds())/float64(n), merged, input, 100*float64(merged)/float64(input))
}

// TestShardsScale: shards with a fixed share of a processor each, a fifth, read about as many times the events of one as there are. What an event costs in
// processor time does not grow with their number.
func TestShardsScale(t *testing.T) {
	tier.Need(t, tier.Load)
	addr, kind := loadBrokers(t)
	each := tier.Size(100_000, 1_000_000)
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
		t.Logf("%d shards of .2 processor each on %s, %d events: %.0f a second, %.2f of linear; %.2f µs of processor time an event, %.2f of that of one", count,
			kind, each*count, rate, rate/alone/float64(count), cost/1000, cost/one)
	}
}

// TestTeamKills: members of a team are killed, and stopped for a while as by SIGSTOP, under load: nothing is lost, nothing counts twice, and in the end the
// trainer has what one process has.
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
	t.Logf("%d kills and %d stops of %v at %d events/s, %d records acknowledged: lost 0, double 0", kills-stopped, stopped, pauses, rate, p.total())
}

// TestGroupKills: processes that a group gives the shards of a team come and go, are killed and stopped for a while, under load: from four to three, to six and
// to four again, each with a state of its own that it finds again. Nothing is lost, nothing counts twice, and in the end the trainer has what one process has.
func TestGroupKills(t *testing.T) {
	tier.Need(t, tier.Kills)
	addr, kind := embedded(t), "the embedded broker"
	if os.Getenv("GROUP_BROKERS") == "kafka" {
		addr, kind = loadBrokers(t)
	}
	kills, rate, pauses := tier.Size(8, 200), 5000, tier.Size(8*time.Second, 30*time.Second)
	makeTopic(t, admin(t, addr), "groupkills", 12, 1)
	p := newProducer(t, addr, "groupkills")
	c := newTeam(t, addr, "groupkills", 0, trainOften)
	member := func(i int) string {
		return configure(t, fmt.Sprint("groupkills-process", i), settings{brokers: addr, topics: []string{"groupkills"}, size: 10_000,
			team: "role: shard\nshard: {group: shards, session: 3s, topic: groupkills-merge}"})
	}
	c.trainer = configure(t, "groupkills-trainer", settings{brokers: addr, topics: []string{"groupkills"}, size: 10_000, train: trainOften,
		team: "role: trainer\nshard: {group: shards, topic: groupkills-merge}"})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p.load(rate, ratings(seed, 0))
	trainer := run(t, refitd, c.trainer, nil)
	configs, living := []string{}, []*child{}
	leave := func() { // perhaps without having been given a shard
		last := living[len(living)-1]
		within(t, readyLimit, func() error { // else it knows no signal yet
			_, _, err := last.get("/-/healthy")
			return err
		})
		if code, summary := last.stop(); code != report.ExitDone || summary == nil {
			t.Fatalf("exit code %d, summary %v, error %+v", code, summary, last.failure)
		}
		living = living[:len(living)-1]
	}
	resize := func(n int) {
		for len(configs) < n {
			configs = append(configs, member(len(configs)))
		}
		for len(living) > n {
			leave()
		}
		for len(living) < n {
			living = append(living, run(t, refitd, configs[len(living)], nil))
		}
	}
	stopped := 0
	for phase, n := range []int{4, 3, 6, 4} {
		resize(n)
		for i := range kills / 4 {
			pause(t, time.Duration(300+r.IntN(4000))*time.Millisecond)
			victim := r.IntN(len(living))
			if i == phase%max(1, kills/4) {
				frozen(t, living[victim], func() { pause(t, pauses) })
				stopped++
				continue
			}
			living[victim].kill()
			pause(t, time.Duration(r.IntN(9000))*time.Millisecond) // others may have its shards by then, or not
			living[victim] = run(t, refitd, configs[victim], nil)
		}
	}
	whole := func(limit time.Duration) time.Duration { // all shards are held and ready
		began := time.Now()
		within(t, limit, func() error {
			held := 0.0
			for _, l := range living {
				l.ready(limit)
				n, err := l.metric("refitd_shards_held")
				if err != nil {
					return err
				}
				held += n
			}
			if held != 12 {
				return fmt.Errorf("%v shards are held of 12", held)
			}
			return nil
		})
		return time.Since(began)
	}
	whole(time.Minute)
	leave()
	t.Logf("the shards of a process that was stopped are held and ready elsewhere after %v", whole(time.Minute).Round(time.Millisecond))
	living[len(living)-1].kill()
	living = living[:len(living)-1]
	t.Logf("those of one that was killed after %v, of which the session is 3 s", whole(time.Minute).Round(time.Millisecond))
	p.stop()
	began := time.Now()
	for len(living) > 0 {
		leave()
	}
	code, last := toTheEnd(t, configs[0], 5*time.Minute)
	if code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, last.failure)
	}
	t.Logf("%d shards in one process: %d MiB resident", len(last.summary.Models), last.summary.RSSBytes>>20)
	t.Logf("given up, taken up and read to the end within %v", time.Since(began).Round(time.Millisecond))
	trainer.stopClean()
	c.end(c.trainer, 5*time.Minute)
	c.compare(5 * time.Minute)
	p.accountedFor(inspect(t, c.trainer))
	t.Logf("%s: %d kills and %d stops of %v at %d events/s, %d records acknowledged: lost 0, double 0", kind, kills-stopped, stopped, pauses, rate,
		p.total())
}

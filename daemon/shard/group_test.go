package shard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// A groupMember is a process to which the group gives shards.
type groupMember struct {
	config string
	daemon *daemon.Daemon
	stop   func()
}

func (g *groupMember) start(b *daemontest.Bench) { g.daemon, g.stop = b.Start(g.config) }

// held returns how many shards it has, as its metrics say.
func (g *groupMember) held(t *testing.T) int {
	t.Helper()
	_, body := daemontest.Get(t, "http://"+g.daemon.Addr()+"/metrics")
	return int(daemontest.Sum(t, body, "refitd_shards_held"))
}

// spread waits until each process has so many shards, and has read what there is.
func spread(t *testing.T, want ...any) {
	t.Helper()
	daemontest.Within(t, daemontest.Patience, fmt.Sprint("shards are spread as ", want), func() bool {
		for i := 0; i < len(want); i += 2 {
			m, n := want[i].(*groupMember), want[i+1].(int)
			if status, _ := daemontest.Get(t, "http://"+m.daemon.Addr()+"/-/ready"); m.held(t) != n ||
				m.daemon.Lag() != 0 ||
				status != http.StatusOK {
				return false
			}
		}
		return true
	})
}

// TestGroup: processes that a group gives its shards have, in all, the sample and the accounts of one process, while
// they come and go: with states that are new, and with one that is behind because another process has had the shards
// since. Quotas are counted by whole shards.
func TestGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, sample string }{{"plain", ""}, {"quotas",
		", quotas: [{class: 1, share: 0.1}, {class: 5, share: 0.5}]"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.New(t)
			edit := []string{"start: earliest", "start: earliest, dead_letter: {topic: dead}"}
			member := func(name string) *groupMember {
				return &groupMember{
					config: b.Configure(
						name,
						append([]string{"group_id: g-" + name, "group_id: g-r", "size: 20000", "size: 300" + c.sample,
							"models:", "role: shard\nshard: {group: shards, count: 6, session: 6s, topic: merge}\nmodels:"}, append(edit,
							daemontest.Simple...)...)...),
				}
			}
			trainer := b.Configure("trainer", append([]string{"size: 20000", "size: 300" + c.sample, "models:",
				"role: trainer\nshard: {group: shards, count: 6, topic: merge}\nmodels:"},
				daemontest.Simple...)...)
			whole := b.Configure(
				"whole",
				append([]string{"size: 20000", "size: 300" + c.sample}, daemontest.Simple...)...)
			check := func(what string) { // what shards have read they send within a second
				t.Helper()
				var merged daemontest.Outcome
				one := b.Run(whole)
				daemontest.Within(t, daemontest.Patience, what+": the trainer has merged what there is", func() bool {
					if merged = b.Run(trainer); merged.Err != nil || one.Err != nil {
						t.Fatalf("%s: %v, %v", what, merged.Err, one.Err)
					}
					return reflect.DeepEqual(merged.State(t).Partitions, one.State(t).Partitions)
				})
				compare(t, what, merged, one)
			}
			first, second, third := member("first"), member("second"), member("third")
			bad := [][]byte{[]byte("no event"), []byte(`{"user":"u1","item":"i1","rating":9,"ts":1}`)}
			b.ProduceRatings(1, 1500)
			b.Produce(bad...)
			first.start(b)
			spread(t, first, 6)
			second.start(b)
			spread(t, first, 3, second, 3)
			b.ProduceRatings(2, 700)
			b.Produce(bad...)
			spread(t, first, 3, second, 3)
			first.stop()
			spread(t, second, 6)
			check("one has left")
			b.ProduceRatings(3, 700)
			third.start(b)
			spread(t, second, 3, third, 3)
			first.start(b) // behind by now
			spread(t, first, 2, second, 2, third, 2)
			b.ProduceRatings(4, 400)
			b.Produce(bad...)
			spread(t, first, 2, second, 2, third, 2)
			for _, m := range []*groupMember{third, first, second} {
				m.stop()
			}
			check("all have ended")
			b.ProduceRatings(5, 300)
			if out := b.Run(third.config); out.Err != nil || len(out.State(t).Partitions) == 0 {
				t.Fatalf("to the end: %v", out.Err)
			}
			check("read to the end by one")
			if dead := records(t, b, "dead"); dead < 6 {
				t.Errorf("%d dead letters of 6", dead)
			}
		})
	}
}

// TestStaticMember: a static member has its shards back when it is started again within a session, and nobody else
// has had them.
func TestStaticMember(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(1, 400)
	member := func(name string) *groupMember {
		return &groupMember{config: b.Configure(name, append([]string{"models:",
			"role: shard\nshard: {group: shards, count: 4, session: 15s, instance_id: " + name + ", topic: merge}\nmodels:"},
			daemontest.Simple...)...)}
	}
	first, second := member("first"), member("second")
	first.start(b)
	second.start(b)
	spread(t, first, 2, second, 2)
	moves := func() float64 {
		_, body := daemontest.Get(t, "http://"+second.daemon.Addr()+"/metrics")
		return daemontest.Sum(t, body, "refitd_shard_moves_total")
	}
	before := moves()
	first.stop()
	b.ProduceRatings(2, 400)
	daemontest.Throughout(
		t,
		6*time.Second,
		func() { // two heartbeats: the group of a member that has left has divided its shards by then
			if n := moves() - before; n != 0 {
				t.Fatalf("%v shards moved while a static member was away", n)
			}
		},
	)
	first.start(b)
	spread(t, first, 2, second, 2)
	if n := moves() - before; n != 0 {
		t.Errorf("%v shards moved when it was back", n)
	}
	first.stop()
	second.stop()
}

// TestStateLookedAtOnce: another process tries out the state of a shard once, and not again when this one, which has
// closed it in order, is given it back.
func TestStateLookedAtOnce(t *testing.T) {
	b := daemontest.New(t)
	member := func(name string) *groupMember {
		return &groupMember{
			config: b.Configure(
				name,
				append(
					[]string{
						"models:",
						"role: shard\nshard: {group: shards, count: 3, session: 6s, topic: merge}\nmodels:",
					},
					daemontest.Simple...)...),
		}
	}
	first, second := member("first"), member("second")
	conf, err := config.Load(first.config)
	if err != nil {
		t.Fatal(err)
	}
	var looked atomic.Int64
	if first.daemon, err = daemon.New(t.Context(), daemon.Options{Config: conf, Out: report.NewEmitter(io.Discard, true),
		Log: daemontest.Quiet(),
		CheckState: func(context.Context, string) error {
			looked.Add(1)
			return nil
		}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- first.daemon.Run(ctx) }()
	b.ProduceRatings(1, 300)
	spread(t, first, 3)
	second.start(b)
	spread(t, first, 2, second, 1)
	second.stop()
	spread(t, first, 3)
	stop()
	if err := <-ended; err != nil || looked.Load() != 3 {
		t.Errorf("states of 3 shards were looked at %d times, %v", looked.Load(), err)
	}
}

// TestGroupLearns: shards that a group gives out learn between refits as others do, also when another process has them.
func TestGroupLearns(t *testing.T) {
	tier.NotUnderRace(t)
	l := &liveTeam{Bench: daemontest.New(t)}
	path := func(name string) string {
		return l.path(name, "role: shard\nshard: {group: shards, count: 3, session: 6s")
	}
	l.trainer, l.stopTrainer = l.Start(l.path("trainer", "role: trainer\nshard: {count: 3"))
	defer func() { l.stopTrainer() }()
	l.watch(t)
	first, second := &groupMember{config: path("first")}, &groupMember{config: path("second")}
	first.start(l.Bench)
	l.ratings(1, 2500)
	l.wait("a version", func() bool { return l.consumer.Model() != nil })
	l.rate("early", 5, 8)
	l.wait("early", l.knows("early"))
	second.start(l.Bench)
	l.wait("the second to have some", func() bool { return second.held(t) > 0 })
	l.rate("between", 5, 8)
	l.wait("between", l.knows("between"))
	first.stop()
	l.wait("the second to have all", func() bool { return second.held(t) == 3 })
	l.rate("late", 5, 8)
	l.wait("late", l.knows("late"))
	_, body := daemontest.Get(t, "http://"+l.trainer.Addr()+"/metrics")
	if missed := daemontest.Sum(t, body, "refitd_shard_live_missed_offsets_total"); missed != 0 {
		t.Errorf("of %v offsets nothing was sent", missed)
	}
	second.stop()
}

// records returns how many records a topic of one partition has.
func records(t *testing.T, b *daemontest.Bench, topic string) int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	return end.Offset
}

// TestHeadAfterLetters: where another process may continue from a head, it is written once the dead letters of the
// records that it counts are sent; later ones do not hold it up.
func TestHeadAfterLetters(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s := store(t, sketch.Options{Seed: 7, Mirror: true, OutboxRows: 10})
	reject := func(offset int64) {
		t.Helper()
		if err := s.Begin("a", 0, 0); err != nil {
			t.Fatal(err)
		}
		record := sketch.Record{Offset: offset, Fate: sketch.Rejected, Reason: "not_json"}
		if err := s.Apply(&sketch.Part{Topic: "a", Base: offset, Next: offset + 1, Records: []sketch.Record{record}},
			nil); err != nil {
			t.Fatal(err)
		}
	}
	reject(0)
	sent, done, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	begun := sync.OnceFunc(func() { close(sent) })
	sender := r.sender(0, s, func(o *shard.SenderOptions) { o.Moves, o.OnSent = true, func(int, int64) { begun() } })
	if err := sender.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- sender.Run(t.Context(), done) }()
	select {
	case <-sent:
		t.Fatal("a head was written whose dead letter waits")
	case <-time.After(time.Second):
	}
	letters, err := s.DeadLetters(1)
	if err != nil {
		t.Fatal(err)
	}
	reject(1)
	if err := s.Forget(letters); err != nil {
		t.Fatal(err)
	}
	daemontest.Within(t, daemontest.Patience, "a head", func() bool {
		select {
		case <-sent:
			return true
		default:
			return false
		}
	})
	if letters, err = s.DeadLetters(1); err != nil || len(letters) != 1 {
		t.Fatalf("%d letters, %v", len(letters), err)
	}
	if err := s.Forget(letters); err != nil {
		t.Fatal(err)
	}
	close(done)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestGroupRefused: a topic of a group with another number of partitions, and a member whose name another one has, are
// refused.
func TestGroupRefused(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	group := func(count int) *shard.Group {
		return shard.NewGroup(
			shard.GroupOptions{
				Kafka:    r.kafka(),
				Name:     "g",
				Count:    count,
				Session:  6 * time.Second,
				Instance: "same",
				Log:      daemontest.Quiet(),
				Given:    func([]int) {},
				Taken:    func([]int, bool) {},
			},
		)
	}
	first, ended := group(3), make(chan error, 1)
	go func() { ended <- first.Run(t.Context()) }()
	daemontest.Within(t, daemontest.Patience, "a member", first.Joined)
	if err := group(4).Run(t.Context()); !errors.Is(err, shard.ErrGroup) ||
		!strings.Contains(err.Error(), "3 partitions, shard.count is 4") {
		t.Errorf("another number: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	second, last := group(3), make(chan error, 1)
	go func() { last <- second.Run(ctx) }()
	if err := <-ended; !errors.Is(err, shard.ErrGroup) || !strings.Contains(err.Error(), "shard.instance_id") {
		t.Errorf("the same name: %v", err)
	}
	stop()
	if err := <-last; err != nil {
		t.Error(err)
	}
}

// TestEndWhileGiven: shards that the group is just giving to a process that ends are taken from it before it has ended.
func TestEndWhileGiven(t *testing.T) {
	b := daemontest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := make(chan string, 10)
	g := shard.NewGroup(
		shard.GroupOptions{
			Kafka:   []kgo.Opt{kgo.SeedBrokers(b.Addr)},
			Name:    "shards",
			Count:   2,
			Session: 6 * time.Second,
			Log:     daemontest.Quiet(),
			Given: func(shards []int) {
				cancel()
				time.Sleep(200 * time.Millisecond) // for what has not to come
				calls <- fmt.Sprint("given ", shards)
			},
			Taken: func(shards []int, lost bool) { calls <- fmt.Sprint("taken ", shards, lost) },
		},
	)
	if err := g.Run(ctx); err != nil {
		t.Fatal(err)
	}
	close(calls)
	var got []string
	for call := range calls {
		got = append(got, call)
	}
	if want := []string{"given [0 1]", "taken [0 1] false"}; !slices.Equal(got, want) {
		t.Errorf("the group called %q, want %q", got, want)
	}
}

// joins counts the times that a member asks to join.
type joins struct{ n atomic.Int64 }

func (j *joins) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == kmsg.JoinGroup.Int16() && err == nil {
		j.n.Add(1)
	}
}

// TestLeaveWhileOthersAreAwaited: a member that is stopped leaves the group also while a rebalance waits for one that
// has died, so that nobody waits for both.
func TestLeaveWhileOthersAreAwaited(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	var asked joins
	group := shard.NewGroup(
		shard.GroupOptions{Kafka: append(r.kafka(), kgo.WithHooks(&asked)), Name: "g", Count: 3, Session: time.Minute,
			Log: daemontest.Quiet(), Given: func([]int) {}, Taken: func([]int, bool) {}},
	)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	daemontest.Within(t, daemontest.Patience, "a member", group.Joined)
	client, err := kgo.NewClient(r.kafka()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	seen := func(state string, members int) {
		t.Helper()
		daemontest.Within(t, daemontest.Patience, fmt.Sprintf("%d members and state %s", members, state), func() bool {
			all, err := kadm.NewClient(client).DescribeGroups(t.Context(), "g")
			if err != nil {
				t.Fatal(err)
			}
			return all["g"].State == state && len(all["g"].Members) == members
		})
	}
	other := func(ctx context.Context) {
		member, err := kgo.NewClient(
			append(r.kafka(), kgo.WithContext(ctx), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("g"),
				kgo.DisableAutoCommit(), kgo.Balancers(kgo.CooperativeStickyBalancer()),
				kgo.SessionTimeout(time.Minute), kgo.RebalanceTimeout(time.Minute))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(member.Close)
	}
	dying, dies := context.WithCancel(t.Context())
	other(dying)
	seen("Stable", 2)
	dies()
	before := asked.n.Load()
	other(t.Context())
	daemontest.Within(t, daemontest.Patience, "the member to join again",
		func() bool { return asked.n.Load() > before })
	seen("PreparingRebalance", 3)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	seen("PreparingRebalance", 2)
}

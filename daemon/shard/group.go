package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	// bounds how long a process may take to give shards up before the brokers remove it: what it has read is sent by
	// then
	handOver   = 20 * time.Second
	heartbeats = 12 // of a member in a session: the answer to the next one says that shards are to be divided anew

	// leastSession is the least that brokers take unless group.min.session.timeout.ms is lower.
	leastSession = 6 * time.Second
)

// ErrGroup: the topic of the group is not what it has to be, or its members have not the same settings, which only an
// operator can change.
var ErrGroup = errors.New("the group of the shards cannot be used")

// GroupOptions are those of a Group. All but Instance are required.
type GroupOptions struct {
	Kafka    []kgo.Opt     // brokers, encryption, sign-in
	Name     string        // of the group, and of its topic
	Count    int           // shards there are
	Session  time.Duration // for which a process may be silent before the others have its shards; leastSession at least
	Instance string        // name of a static member; empty for a dynamic one
	Log      *slog.Logger
	// Given is called with the shards that are this process's from now on, Taken with those that are not any more:
	// another process may have them when it returns. With lost another may have had them before. Both are called in
	// turn.
	Given func(shards []int)
	Taken func(shards []int, lost bool)
}

// A Group divides shards over processes: each is a member of a Kafka group that has a topic with a partition for each
// shard. The topic has no records, and the brokers find out which process has died. No offset is committed.
// Assignment is cooperative: a shard that stays with its process is read without a pause. Make it with NewGroup, call
// Run once; its other methods are safe for concurrent use.
type Group struct {
	GroupOptions
	// calls is taken while Given or Taken runs: giving everything up in the end is not one of the brokers' changes,
	// which come in turn. Those take seconds: a mutex would stop the clock of a simulation.
	calls chan struct{}

	mu      sync.Mutex   // guards what follows
	held    map[int]bool // shards of this process, between Given and Taken
	joined  bool         // the group has answered, if only with nothing
	over    bool         // nothing is taken up any more
	failing outage       // since when it does not
}

// NewGroup returns a group. Nothing is connected before Run.
func NewGroup(o GroupOptions) *Group {
	if o.Session < leastSession {
		o.Log.Warn("shard.session is less than brokers take",
			"note", "it counts as the least that they do", "group", o.Name,
			"session", o.Session, "least", leastSession)
		o.Session = leastSession
	}
	return &Group{GroupOptions: o, calls: make(chan struct{}, 1), held: map[int]bool{}}
}

// Run is a member of the group until ctx is done, and then gives up what it has and, unless it is static, leaves. The
// error wraps ErrGroup.
func (g *Group) Run(ctx context.Context) error {
	if err := g.prepare(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	refused := make(chan error, 1)
	// The client outlives ctx: giving shards up takes requests.
	clientCtx, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	o := append(
		[]kgo.Opt{
			kgo.WithContext(clientCtx),
			kgo.ConsumerGroup(g.Name),
			kgo.ConsumeTopics(g.Name),
			kgo.DisableAutoCommit(),
			kgo.Balancers(kgo.CooperativeStickyBalancer()),
			kgo.SessionTimeout(g.Session),
			kgo.RebalanceTimeout(handOver),
			kgo.HeartbeatInterval(g.Session / heartbeats),
			kgo.MetadataMinAge(250 * time.Millisecond),
			kgo.OnPartitionsAssigned(
				func(_ context.Context, _ *kgo.Client, all map[string][]int32) { g.given(all[g.Name]) }),
			kgo.OnPartitionsRevoked(
				func(_ context.Context, _ *kgo.Client, all map[string][]int32) { g.taken(all[g.Name], false) }),
			kgo.OnPartitionsLost(
				func(_ context.Context, _ *kgo.Client, all map[string][]int32) { g.taken(all[g.Name], true) }),
			kgo.WithHooks(&groupErrors{g, refused}),
		},
		g.Kafka...)
	if g.Instance != "" {
		o = append(o, kgo.InstanceID(g.Instance))
	}
	client, err := kgo.NewClient(o...)
	if err != nil {
		return fmt.Errorf("shard: group %s: %w", g.Name, err)
	}
	// The topic has no records: membership is all that is wanted.
	client.PauseFetchTopics(g.Name)
	select {
	case <-ctx.Done():
	case err = <-refused:
	}
	g.release()
	if leaveErr := leaveGroup(ctx, client, cut, g.Name, g.Instance, g.Kafka); leaveErr != nil && err == nil {
		g.Log.Warn("group of the shards not left", "note", "the others wait for shard.session", "group", g.Name, "error",
			leaveErr)
	}
	return err
}

// prepare makes the topic of the group, or looks whether the one there is has a partition for each shard, until it can
// or ctx is done.
func (g *Group) prepare(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := g.check(ctx)
		switch {
		case ctx.Err() != nil: // a stop is no trouble
			return nil
		case err == nil, errors.Is(err, ErrGroup):
			return err
		}
		g.fails(err)
		_ = backoff.Sleep(ctx, backoff.Doubled(failures, retryMin, retryMax))
	}
}

func (g *Group) check(ctx context.Context) error {
	client, err := produce.NewClient(g.Kafka...)
	if err != nil {
		return err
	}
	defer client.Close()
	created, err := produce.Ensure(ctx, client, g.Name, int32(g.Count), nil)
	if err != nil {
		return fmt.Errorf("topic %s (shard.group): %w", g.Name, err)
	}
	if created {
		g.Log.Info("topic created", "topic", g.Name, "partitions", g.Count)
		return nil
	}
	found, err := kadm.NewClient(client).ListTopics(ctx, g.Name)
	if err == nil {
		err = found.Error()
	}
	if err != nil { // another process may be making it just now
		return fmt.Errorf("topic %s (shard.group): %w", g.Name, err)
	}
	if n := len(found[g.Name].Partitions); n != g.Count {
		return fmt.Errorf(
			"topic %s (shard.group) has %d partitions, shard.count is %d: all processes have to have the same, and another "+
				"number another group: %w",
			g.Name,
			n,
			g.Count,
			ErrGroup,
		)
	}
	return nil
}

func (g *Group) given(partitions []int32) {
	g.calls <- struct{}{}
	defer func() { <-g.calls }()
	g.mu.Lock()
	// Shards that come while the process ends are not begun: release has gone over the others already.
	g.joined, g.failing = true, outage{}
	var shards []int
	if !g.over {
		shards = g.shards(partitions)
	}
	for _, n := range shards {
		g.held[n] = true
	}
	g.mu.Unlock()
	if len(shards) > 0 {
		g.Log.Info("shards given", "group", g.Name, "shards", shards)
		g.Given(shards)
	}
}

func (g *Group) taken(partitions []int32, lost bool) {
	g.calls <- struct{}{}
	defer func() { <-g.calls }()
	g.mu.Lock()
	// Only what was given: with over some never were.
	shards := slices.DeleteFunc(g.shards(partitions), func(n int) bool { return !g.held[n] })
	for _, n := range shards {
		delete(g.held, n)
	}
	g.mu.Unlock()
	if len(shards) > 0 {
		began := time.Now()
		g.Taken(shards, lost)
		g.Log.Info("shards given up", "group", g.Name, "shards", shards, "lost", lost, "seconds",
			time.Since(began).Seconds())
	}
}

// release gives up everything.
func (g *Group) release() {
	g.mu.Lock()
	g.over = true
	var all []int32
	for n := range g.held {
		all = append(all, int32(n))
	}
	g.mu.Unlock()
	g.taken(all, false)
}

// shards returns partitions as shards, in order.
func (g *Group) shards(partitions []int32) (list []int) {
	for _, p := range partitions {
		list = append(list, int(p))
	}
	slices.Sort(list)
	return list
}

// Joined reports whether the group has answered.
func (g *Group) Joined() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.joined
}

// Trouble says why the group has not given this process a place for a session, or "".
func (g *Group) Trouble() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failing.lasting(g.Session)
}

// fails notes why the group cannot be joined.
func (g *Group) fails(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failing.note(g.Log, g.Name, err)
}

// groupErrors hears why a member is not one.
type groupErrors struct {
	*Group
	refused chan<- error // errors that no retry mends
}

// OnGroupManageError implements kgo.HookGroupManageError.
func (g *groupErrors) OnGroupManageError(err error) {
	g.fails(err)
	if errors.Is(err, kerr.FencedInstanceID) {
		select {
		case g.refused <- fmt.Errorf("another process is member %s of group %s (shard.instance_id), and joined later: %w",
			g.Instance, g.Name, ErrGroup):
		default:
		}
	}
}

package shard_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/twmb/franz-go/pkg/kgo"
)

// liveTeam is a team on a broker that learns between refits, with a consumer of what it publishes.
type liveTeam struct {
	*daemontest.Bench
	shards      []*daemon.Daemon
	stops       []func()
	trainer     *daemon.Daemon
	stopTrainer func()
	consumer    *snapshot.Watcher
	produced    int64
}

func (l *liveTeam) path(name, role string) string {
	const store = "store-team"
	keys := "update_every: 2s, deltas: {every: 100ms}"
	edit := []string{
		"group_id: g-" + name,
		"group_id: g",
		"models:",
		role + ", topic: merge, live_topic: live}\nmodels:",
		"store: store-" + name,
		"store: " + store,
		"min_rows: 20",
		"min_rows: 20, tolerance: 0.5",
		"update_every: 0s",
		keys,
		"every_events: 0",
		"every_events: 2000",
	}
	return l.Configure(name, append(edit, daemontest.Simple...)...)
}

func (l *liveTeam) startShard(i int) {
	path := l.path(fmt.Sprint("shard", i), fmt.Sprintf("role: shard\nshard: {count: %d, index: %d", len(l.shards), i))
	l.shards[i], l.stops[i] = l.Start(path)
}

func (l *liveTeam) startTrainer() {
	l.trainer, l.stopTrainer = l.Start(
		l.path("trainer", fmt.Sprintf("role: trainer\nshard: {count: %d", len(l.shards))))
}

func startTeam(t *testing.T, n int) *liveTeam {
	l := &liveTeam{Bench: daemontest.New(t), shards: make([]*daemon.Daemon, n), stops: make([]func(), n)}
	for i := range n {
		l.startShard(i)
	}
	l.startTrainer()
	t.Cleanup(func() {
		l.stopTrainer()
		for _, stop := range l.stops {
			stop()
		}
	})
	l.watch(t)
	return l
}

// watch has a consumer follow what is published.
func (l *liveTeam) watch(t *testing.T) {
	t.Helper()
	var err error
	l.consumer, err = snapshot.Watch(snapshot.DirSource{Dir: filepath.Join(l.Dir, "store-team")},
		snapshot.WatchOptions{Model: "ratings", Log: daemontest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.consumer.Close() })
}

// wait waits until it is so, and returns after how long.
func (l *liveTeam) wait(what string, is func() bool) time.Duration {
	l.T.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if is() {
			return time.Since(began)
		}
		if time.Since(began) > time.Minute {
			l.T.Fatalf("not within a minute: %s; %d of %d events", what, l.trainer.Progressive().N, l.produced)
		}
	}
}

func (l *liveTeam) ratings(seed uint64, n int) {
	l.ProduceRatings(seed, n)
	l.produced += int64(n)
}

// rate lets a user rate so many items.
func (l *liveTeam) rate(user string, level, n int) {
	for i := range n {
		l.rateItem(user, i, level)
	}
}

func (l *liveTeam) rateItem(user string, item, level int) {
	record := &kgo.Record{Topic: daemontest.Topic, Partition: int32(item % 4),
		Value: fmt.Appendf(nil, `{"user":%q,"item":"i%d","rating":%d,"ts":%d}`, user, item, min(max(level, 1), 5),
			1700000000000+item)}
	if err := l.Kafka.ProduceSync(l.T.Context(), record).FirstErr(); err != nil {
		l.T.Fatal(err)
	}
	l.produced++
}

func (l *liveTeam) knows(user string) func() bool {
	return func() bool {
		m := l.consumer.Model()
		if m == nil {
			return false
		}
		_, ok := m.Column(0, user)
		return ok
	}
}

// TestTeamLearnsBetweenRefits: what one shard reads is in the model of a consumer, and in the losses of the trainer,
// within seconds; so it is after shards and the trainer were started again, and nothing counts twice.
func TestTeamLearnsBetweenRefits(t *testing.T) {
	tier.NotUnderRace(t)
	l := startTeam(t, 2)
	l.ratings(1, 2500)
	l.wait("a version", func() bool { return l.consumer.Model() != nil })
	var worst time.Duration
	for i := range 5 {
		user := fmt.Sprint("new", i)
		l.rate(user, 5, 8)
		worst = max(worst, l.wait(user, l.knows(user)))
	}
	t.Logf("the slowest of 5 users is known after %v", worst)
	l.wait("all losses", func() bool { return l.trainer.Progressive().N == l.produced })
	if p := l.trainer.Progressive(); p.Window.Live == nil || p.Window.Live.N == 0 || p.WindowN != p.Window.Live.N {
		t.Errorf("window of %d events: %+v", p.WindowN, p.Window.Live)
	}

	l.wait("the page to have batches of both shards", func() bool {
		shards := l.shown()
		return len(shards) == 2 && !slices.ContainsFunc(shards, func(s statuspage.ShardStatus) bool {
			return s.Host == "" || s.Merged == nil || s.Learned == nil || s.Refused != "" ||
				time.Since(*s.Merged) > time.Minute
		})
	})

	level := l.liked("new4")
	l.stops[1]()
	l.rate("away", 1, 8)
	l.startShard(1)
	l.wait("away", l.knows("away"))
	l.stopTrainer()
	l.rate("later", 5, 8)
	l.startTrainer()
	l.wait("later", l.knows("later"))
	l.wait("all losses", func() bool { return l.trainer.Progressive().N == l.produced })
	if again := l.liked("new4"); math.Abs(again-level) > 0.3 {
		t.Errorf("a user without new events rates %.3f, before %.3f", again, level)
	}
	l.wait("predictions for who rates all 5 exceed those for who rates all 1",
		func() bool { return l.liked("later") > l.liked("away")+0.2 })

	before := l.refits()
	// of more events that come at once it may be that updates predict worse, and consumers get none
	if err := l.trainer.Refit("ratings"); err != nil {
		t.Fatal(err)
	}
	l.wait("another refit", func() bool { return len(l.refits()) > len(before) })
	l.rate("last", 5, 8)
	l.wait("last", l.knows("last"))
	l.wait("all losses", func() bool { return l.trainer.Progressive().N == l.produced })
}

// TestLossesMove: each event counts once in the losses, also those that the process which takes a shard up forwards
// again.
func TestLossesMove(t *testing.T) {
	tier.NotUnderRace(t)
	l := &liveTeam{Bench: daemontest.New(t)}
	const group = "shard: {group: shards, count: 2, session: 6s"
	_, stop := l.Start(l.path("first", "role: shard\n"+group))
	l.trainer, l.stopTrainer = l.Start(l.path("trainer", "role: trainer\n"+group))
	defer func() { l.stopTrainer() }()
	whole := func() bool { return l.trainer.Progressive().N == l.produced }
	l.ratings(1, 1000)
	l.wait("all losses", whole)
	stop()
	_, stop = l.Start(l.path("second", "role: shard\n"+group))
	defer func() { stop() }()
	l.ratings(2, 500)
	l.wait("the losses of both", whole)
}

// shown returns what the page of the trainer has of its shards.
func (l *liveTeam) shown() []statuspage.ShardStatus {
	l.T.Helper()
	answer, err := http.Get("http://" + l.trainer.Addr() + "/v1/models/ratings/state")
	if err != nil {
		l.T.Fatal(err)
	}
	defer answer.Body.Close()
	var state struct {
		Shards []statuspage.ShardStatus `json:"shards"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&state); err != nil || answer.StatusCode != http.StatusOK {
		l.T.Fatalf("status %d, %v", answer.StatusCode, err)
	}
	return state.Shards
}

// refits returns the versions that are promoted refits.
func (l *liveTeam) refits() (list []int64) {
	store := publish.NewStore(filepath.Join(l.Dir, "store-team"))
	versions, err := store.Versions("ratings")
	if err != nil {
		l.T.Fatal(err)
	}
	for _, v := range versions {
		if m, err := store.Manifest("ratings", v); err == nil && m.Kind == "refit" && m.Decision == "promoted" {
			list = append(list, v)
		}
	}
	return list
}

// liked returns what the consumer predicts of a user, on average over the items.
func (l *liveTeam) liked(user string) float64 {
	l.T.Helper()
	m, sum := l.consumer.Model(), 0.0
	for i := range 8 {
		in, err := m.Schema().InputFromMap(map[string]any{"user": user, "item": fmt.Sprint("i", i)})
		if err != nil {
			l.T.Fatal(err)
		}
		p, err := m.Predict(&in)
		if err != nil {
			l.T.Fatal(err)
		}
		sum += p.Value
	}
	return sum / 8
}

// TestLiveLatency: of 200 users who come while other events do, the slowest but two are in a consumer's model within 3
// s, with four shards.
func TestLiveLatency(t *testing.T) {
	tier.Need(t, tier.Long)
	l := startTeam(t, 4)
	l.ratings(1, 2500)
	l.wait("a version", func() bool { return l.consumer.Model() != nil })
	began := make(map[string]time.Time)
	var took []time.Duration
	for i := 0; len(took) < 200; i++ {
		if i < 200 {
			user := fmt.Sprint("new", i)
			began[user] = time.Now()
			trait := func(n int) float64 { return float64(n%7)/3 - 1 } // as daemontest.Rating
			for v := range 4 {
				l.rateItem(user, v, 3+int(2.4*trait(i)*trait(v*3)))
			}
			l.ratings(uint64(i), 20)
		}
		for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			for user, at := range began {
				if l.knows(user)() {
					took = append(took, time.Since(at))
					delete(began, user)
				}
			}
		}
		if i > 350 {
			t.Fatalf("%d users are not known: %v", len(began), began)
		}
	}
	slices.Sort(took)
	t.Logf("half within %v, 99 %% within %v, the slowest after %v", took[100], took[197], took[199])
	if took[197] > 3*time.Second {
		t.Errorf("99 %% within %v, asked: 3s", took[197])
	}
}

package backtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/schedule"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// teamPlay plays a file to one process, or to shards that forward their events to a trainer, which has the sample of
// all.
type teamPlay struct {
	model    *config.Model
	examples []dataset.Example
	shards   int // 0 for one process
	spread   spreading
	every    int // events between two batches of each shard; 0 for a tenth of a second of the time of events
}

// spreading is how events come to partitions.
type spreading string

const (
	byUser spreading = "keyed by user"
	// as Kafka's producers do it: each writes 16 KiB to a partition before it takes another
	byProducer spreading = "not keyed"
	byTurns    spreading = "by turns" // one after the other
)

// Producers of byProducer, of which one gets what a user does within a second, and how many events are 16 KiB.
const (
	teamProducers = 8
	teamBatch     = 250
)

// partitions returns the function that gives the partition of an event.
func (s spreading) partitions() func(i int, e *dataset.Example) int32 {
	hash := func(n uint32, texts ...string) uint32 {
		h := fnv.New32a()
		for _, text := range texts {
			h.Write([]byte(text))
		}
		return h.Sum32() % n
	}
	r := rand.New(rand.NewPCG(20, 5))
	var written [teamProducers]int
	var to [teamProducers]int32
	return func(i int, e *dataset.Example) int32 {
		switch s {
		case byUser:
			return int32(hash(teamPartitions, e.Categorical[0]))
		case byProducer:
			p := hash(teamProducers, e.Categorical[0], fmt.Sprint(e.Time/1000))
			if written[p]%teamBatch == 0 {
				to[p] = r.Int32N(teamPartitions)
			}
			written[p]++
			return to[p]
		default:
			return int32(i % teamPartitions)
		}
	}
}

// partitions of the topic, whatever the number of shards: the sample depends on them.
const teamPartitions = 4

// teamOutcome is the RMSE over all events of what is live, of what consumers have, and of the fold-in alone.
type teamOutcome struct{ live, published, foldIn float64 }

func (p *teamPlay) run(t *testing.T) (out teamOutcome) {
	t.Helper()
	store, err := sketch.NewMemory(ingest.StoreOptions(p.model))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	timeless := *p.model
	timeless.Train.TimeBudget = 0
	c, err := cycle.New(&timeless, offlinetest.Clock)
	if err != nil {
		t.Fatal(err)
	}
	c.Forwarded = p.shards > 0
	for partition := range int32(teamPartitions) {
		if err := store.Begin(backtestTopic, partition, 0); err != nil {
			t.Fatal(err)
		}
	}
	learns := ingest.New(p.model, store, c)
	reads := learns
	if p.shards > 0 {
		reads = ingest.New(p.model, store, nil)
	}
	versions, err := publish.New(p.model, "", offlinetest.Clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	partitionOf := p.spread.partitions()
	offsets, waiting, forwarded := make([]int64, teamPartitions), make([][]sketch.Part, p.shards), int64(0)
	clock, schedule := offline.Simulated{}, schedule.New(p.model, time.Unix(0, 0))
	for i := range p.examples {
		e := &p.examples[i]
		now := clock.At(i, e)
		if p.every > 0 && i%p.every == 0 || p.every == 0 && e.Time-forwarded >= 100 {
			learnForwarded(t, learns, c, waiting)
			forwarded = e.Time
		}
		if schedule.RefitDue(&p.model.Train, now, int64(i)) {
			schedule.RefitBegun(int64(i))
			if refitTeam(t, p.model, c, store, versions) {
				schedule.Promoted()
			}
			schedule.RefitEnded(now)
		}
		if schedule.UpdateDue(&p.model.Publish, now, int64(i)) {
			schedule.Updated(now, int64(i))
			u, reason := c.NextUpdate()
			if u != nil {
				c.PublishUpdate(u)
			} else if reason == updates.FirstUpdate {
				schedule.UpdateAgain()
			}
		}
		partition := partitionOf(i, e)
		if p.shards > 0 {
			s := int(partition) % p.shards
			waiting[s] = append(
				waiting[s],
				sketch.Part{Topic: backtestTopic, Partition: partition, Base: offsets[partition],
					Next: offsets[partition] + 1, Records: []sketch.Record{{Offset: offsets[partition], Fate: sketch.Applied,
						Payload: rows.AppendEvent(nil, &e.Event)}}},
			)
		}
		ev := e.Event
		if err := reads.Feed(backtestTopic, partition, offsets[partition], &ev); err != nil {
			t.Fatal(err)
		}
		offsets[partition]++
	}
	learnForwarded(t, learns, c, waiting)
	r := c.Progressive()
	out.live, out.published, out.foldIn = float64(*r.All.Live.RMSE), float64(*r.All.Published.RMSE), foldInRMSE(t, c)
	if n := int64(len(p.examples)); r.N != n {
		t.Errorf("%d of %d events are scored", r.N, n)
	}
	return out
}

// learnForwarded lets the trainer learn what waits at each shard in turn.
func learnForwarded(t *testing.T, learns *ingest.Ingest, c *cycle.Cycle, waiting [][]sketch.Part) {
	t.Helper()
	for s := range waiting {
		for i := range waiting[s] {
			part := &waiting[s][i]
			if unlearned, err := learns.Learn(part, time.Now()); err != nil || unlearned > 0 {
				t.Fatalf("%d not learned, %v", unlearned, err)
			}
			c.Reach([]report.Cut{{Topic: part.Topic, Partition: part.Partition, Next: part.Next}}, part.Records[0].Time)
		}
		waiting[s] = waiting[s][:0]
	}
}

// refitTeam makes a champion of the sample, and reports whether there is a new one.
func refitTeam(t *testing.T, m *config.Model, c *cycle.Cycle, store *sketch.Store, versions *publish.Publisher) bool {
	t.Helper()
	sample, err := ingest.TakeSample(m, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := c.Refit(t.Context(), sample)
	if errors.Is(err, encode.ErrNoRows) {
		return false
	}
	if err := errors.Join(err, versions.Publish(t.Context(), ch)); err != nil {
		t.Fatal(err)
	}
	if ch.Version.Decision != publish.Promoted {
		return false
	}
	c.Install(ch)
	return true
}

// foldInRMSE returns that of the fold-in alone, which is not reported.
func foldInRMSE(t *testing.T, c *cycle.Cycle) float64 {
	t.Helper()
	var sums struct {
		Predictors []struct {
			Name      string
			N, Square float64
		}
	}
	b, err := c.Sums()
	if err := errors.Join(err, json.Unmarshal(b, &sums)); err != nil {
		t.Fatal(err)
	}
	for _, of := range sums.Predictors {
		if of.Name == evaluate.RoleNames(true)[evaluate.FoldIn] {
			return math.Sqrt(of.Square / of.N)
		}
	}
	t.Fatalf("the fold-in is not among %v", sums.Predictors)
	return 0
}

// teamDrift draws ratings of 1 to 5 by users of items: at 4/9 all items become others, and from 6/9 to 7.5/9 all users
// do, one by one.
func teamDrift(n, users, items int) []dataset.Example {
	const factors = 4
	r := rand.New(rand.NewPCG(20, 4))
	normal := func(scale float64, k int) []float64 {
		v := make([]float64, k)
		for i := range v {
			v[i] = scale * r.NormFloat64()
		}
		return v
	}
	var user, item [][]float64 // a bias, then factors
	draw := func() []float64 { return append(normal(.4, 1), normal(.55, factors)...) }
	for range users {
		user = append(user, draw())
	}
	for range items {
		item = append(item, draw())
	}
	examples := make([]dataset.Example, n)
	changed := 0
	for t := range examples {
		if t == n*4/9 {
			for i := range item {
				item[i] = draw()
			}
		}
		for ; changed < users && float64(changed) < float64(users)*(float64(t)/float64(n)*9-6)/1.5; changed++ {
			user[changed] = draw()
		}
		u, i := int(float64(users)*math.Pow(r.Float64(), 2)), int(float64(items)*math.Pow(r.Float64(), 2))
		level := 3.4 + user[u][0] + item[i][0] + 0.5*r.NormFloat64()
		for k := 1; k <= factors; k++ {
			level += user[u][k] * item[i][k]
		}
		examples[t].Event = event.Event{
			Label:       math.Round(min(max(level, 1), 5)),
			Weight:      1,
			Time:        1_700_000_000_000 + int64(t)*1000,
			Categorical: []string{fmt.Sprint("u", u), fmt.Sprint("i", i)},
		}
	}
	return examples
}

// TestTeamLearnsAsOne: a trainer that learns from what four shards forward, a batch of each in turn, predicts as one
// process with all of their events does: the fold-in, what is live, and updates for consumers. All that differs is the
// order of events that come in one batch, and that a refit may have some of them before.
func TestTeamLearnsAsOne(t *testing.T) {
	tier.NotUnderRace(t)
	c, err := config.Load(filepath.Join("..", "..", "..", "configs", "ratings.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const within = 0.002 // of RMSE, for each of the three
	compare := func(name string, m *config.Model, examples []dataset.Example, every int, spread spreading,
		within float64) {
		one := teamPlay{model: m, examples: examples, every: every, spread: spread}
		team := one
		team.shards = 4
		a, b := one.run(t), team.run(t)
		t.Logf("%s, %s, forwarded every %d events: one process %+v, four shards %+v", name, spread, every, a, b)
		if b.foldIn > a.foldIn+within || b.live > a.live+within || b.published > a.published+within {
			t.Errorf("%s, %s: fold-in %.4f, one process %.4f; live %.4f, one process %.4f; consumers' %.4f, %.4f; "+
				"at most %g more", name, spread, b.foldIn, a.foldIn, b.live, a.live, b.published, a.published, within)
		}
	}
	m := c.Models[0]
	if !tier.Asked(tier.Long) {
		m.Train.EveryEvents, m.Train.MaxBasis = 1000, 4
		// a tenth of the events of each refit come after it
		compare("drift", &m, teamDrift(6000, 300, 80), 100, byUser, 0.005)
		return
	}
	compare("drift", &m, teamDrift(40_000, 1500, 400), 100, byUser, within)
	compare("drift", &m, teamDrift(40_000, 1500, 400), 100, byTurns, within)
	data := tier.Shared(t, "data", "ml-100k", "u.data.gz")
	set, err := offline.ReadEvents(&m, data, dataset.MovieLens, offline.TableOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Arrange(dataset.TimeOrder, 1, 40_000); err != nil {
		t.Fatal(err)
	}
	compare("ml-100k", &m, set.Examples, 10, byUser, within)
	compare("ml-100k", &m, set.Examples, 100, byUser, within)
	compare("ml-100k", &m, set.Examples, 0, byProducer, within)
	compare("ml-100k", &m, set.Examples, 10, byTurns, within)
}

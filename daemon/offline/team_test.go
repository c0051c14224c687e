package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/sketch"
)

// teamPlay plays a file to one process, or to shards that tell each other what they learn, with a trainer that has the sample of all.
type teamPlay struct {
	model    *config.Model
	examples []dataset.Example
	shards   int // 0 for one process
	spread   spreading
	every    int // events between two exchanges
}

// spreading is how events come to partitions.
type spreading string

const (
	byUser     spreading = "keyed by user"
	byProducer spreading = "not keyed" // as Kafka's producers do it: each writes 16 KiB to a partition before it takes another
	byTurns    spreading = "by turns"  // one after the other
)

// Producers of byProducer, of which one gets what a user does within a second, and how many events are 16 KiB.
const (
	teamProducers = 8
	teamBatch     = 250
)

// partitions returns what tells the partition of an event.
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

type teamMember struct {
	cycle  *cycle.Cycle
	ingest *ingest.Ingest
	store  *sketch.Store
}

func (p *teamPlay) member(t *testing.T, learns, shares bool) *teamMember {
	t.Helper()
	m := &teamMember{}
	var err error
	if m.store, err = sketch.NewMemory(ingest.StoreOptions(p.model)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.store.Close() })
	timeless := *p.model
	timeless.Train.TimeBudget = 0
	if m.cycle, err = cycle.New(&timeless, clock); err != nil {
		t.Fatal(err)
	}
	m.cycle.Shares = shares
	for partition := range int32(teamPartitions) {
		if err := m.store.Begin(backtestTopic, partition, 0); err != nil {
			t.Fatal(err)
		}
	}
	if learns {
		m.ingest = ingest.New(p.model, m.store, m.cycle)
	} else {
		m.ingest = ingest.New(p.model, m.store, nil)
	}
	return m
}

// teamOutcome is the RMSE over all events of what is live, of what consumers have, and of the fold-in alone, and how many rows were told.
type teamOutcome struct {
	live, published, foldIn float64
	rows                    int
}

func (p *teamPlay) run(t *testing.T) (out teamOutcome) {
	t.Helper()
	trainer := p.member(t, p.shards == 0, p.shards > 0)
	learners := []*teamMember{trainer}
	if p.shards > 0 {
		learners = nil
		for range p.shards {
			learners = append(learners, p.member(t, true, true))
		}
	}
	versions, err := publish.New(p.model, "", clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	partitionOf := p.spread.partitions()
	offsets, told := make([]int64, teamPartitions), int64(0)
	clock, schedule := simulated{}, cycle.NewSchedule(time.Unix(0, 0))
	for i := range p.examples {
		e := &p.examples[i]
		now := clock.at(i, e)
		if p.shards > 0 && (p.every > 0 && i%p.every == 0 || p.every == 0 && e.Time-told >= 1000) {
			out.rows += exchange(t, trainer, learners)
			told = e.Time
		}
		if schedule.RefitDue(&p.model.Train, now, int64(i)) {
			schedule.RefitBegun(int64(i))
			if p.refit(t, versions, trainer, learners) {
				schedule.Promoted()
			}
			schedule.RefitEnded(now)
		}
		if schedule.UpdateDue(&p.model.Publish, now, int64(i)) {
			schedule.Updated(now, int64(i))
			for _, m := range learners {
				u, reason := m.cycle.NextUpdate()
				if u != nil {
					m.cycle.PublishUpdate(u)
				} else if reason == cycle.FirstUpdate {
					schedule.UpdateAgain()
				}
			}
		}
		partition := partitionOf(i, e)
		readers := []*teamMember{learners[int(partition)%len(learners)]}
		if p.shards > 0 {
			readers = append(readers, trainer)
		}
		for _, m := range readers {
			ev := e.Event
			if err := m.ingest.Feed(backtestTopic, partition, offsets[partition], &ev); err != nil {
				t.Fatal(err)
			}
		}
		offsets[partition]++
	}
	for s, m := range learners {
		if text, err := m.cycle.Tell(); p.shards > 0 {
			if err := errors.Join(err, trainer.cycle.Hear(s, text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := trainer.cycle.Progressive()
	out.live, out.published, out.foldIn = float64(*r.All.Live.RMSE), float64(*r.All.Published.RMSE), foldInRMSE(t, trainer.cycle)
	return out
}

// refit makes a champion of the sample that the trainer has, for all members, and reports whether there is a new one.
func (p *teamPlay) refit(t *testing.T, versions *publish.Publisher, trainer *teamMember, learners []*teamMember) bool {
	t.Helper()
	sample, err := ingest.TakeSample(p.model, trainer.store)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := trainer.cycle.Refit(t.Context(), sample)
	if errors.Is(err, cycle.ErrNoRows) {
		return false
	}
	if err := errors.Join(err, versions.Publish(t.Context(), ch)); err != nil {
		t.Fatal(err)
	}
	if ch.Version.Decision != publish.Promoted {
		return false
	}
	trainer.cycle.Install(ch)
	for _, m := range learners {
		if m != trainer {
			m.cycle.Install(ch)
		}
	}
	return true
}

// exchange lets all members learn what each shard has learned, and returns how many rows that are.
func exchange(t *testing.T, trainer *teamMember, shards []*teamMember) (rows int) {
	t.Helper()
	for _, from := range shards {
		l, _ := from.cycle.TakeLearned(1<<20, 1<<20)
		if l == nil {
			continue
		}
		head, told, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		rows += len(told)
		for _, to := range append([]*teamMember{trainer}, shards...) {
			if to == from {
				continue
			}
			l, err := cycle.DecodeLearned(head, told)
			if err != nil {
				t.Fatal(err)
			}
			if missed, err := to.cycle.Apply(l); err != nil || missed != 0 {
				t.Fatalf("%d missed, %v", missed, err)
			}
		}
	}
	return rows
}

// foldInRMSE returns that of the fold-in alone, which is the last of the predictors and not reported.
func foldInRMSE(t *testing.T, c *cycle.Cycle) float64 {
	t.Helper()
	var sums struct {
		All []struct{ N, Square float64 }
	}
	b, err := c.Sums()
	if err := errors.Join(err, json.Unmarshal(b, &sums)); err != nil {
		t.Fatal(err)
	}
	of := sums.All[len(sums.All)-1]
	return math.Sqrt(of.Square / of.N)
}

// teamDrift draws ratings of 1 to 5 by users of items: at 4/9 all items become others, and from 6/9 to 7.5/9 all users do, one by one.
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
		examples[t].Event = event.Event{Label: math.Round(min(max(level, 1), 5)), Weight: 1, Time: 1_700_000_000_000 + int64(t)*1000,
			Categorical: []string{fmt.Sprint("u", u), fmt.Sprint("i", i)}}
	}
	return examples
}

// TestTeamLearnsAsOne: four shards that tell each other what they learn, once in every 100 events or in every second of the time of events, predict about as
// one process with all of their events: the fold-in, what is live, and updates for consumers. Where partitions take turns, so that a user's events of one
// second come to all shards, that costs more, and nothing else does: told after each event there is next to no difference.
func TestTeamLearnsAsOne(t *testing.T) {
	tier.NotUnderRace(t)
	c, err := config.Load(filepath.Join("..", "..", "configs", "ratings.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	compare := func(name string, m *config.Model, examples []dataset.Example, every int, spread spreading, foldIn, live, published float64) {
		one := teamPlay{model: m, examples: examples, every: every, spread: spread}
		team := one
		team.shards = 4
		a, b := one.run(t), team.run(t)
		t.Logf("%s, %s, told every %d events: one process %+v, four shards %+v", name, spread, every, a, b)
		if b.foldIn > a.foldIn+foldIn || b.live > a.live+live || b.published > a.published+published {
			t.Errorf("%s, %s: fold-in %.4f, one process %.4f, at most %g more; live %.4f, one process %.4f, at most %g more; consumers' %.4f, %.4f, %g more",
				name, spread, b.foldIn, a.foldIn, foldIn, b.live, a.live, live, b.published, a.published, published)
		}
	}
	m := c.Models[0]
	if !tier.Asked(tier.Long) {
		m.Train.EveryEvents, m.Train.MaxBasis = 1000, 4
		compare("drift", &m, teamDrift(6000, 300, 80), 100, byUser, 0.006, 0.006, 0.025)
		return
	}
	compare("drift", &m, teamDrift(40_000, 1500, 400), 100, byUser, 0.002, 0.002, 0.005)
	compare("drift", &m, teamDrift(40_000, 1500, 400), 100, byTurns, 0.005, 0.005, 0.005)
	data := filepath.Join("..", "..", "..", "shared", "data", "ml-100k", "u.data.gz")
	if _, err := os.Stat(data); err != nil {
		t.Skip(err)
	}
	set, err := ReadEvents(&m, data, dataset.MovieLens, TableOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Arrange(dataset.TimeOrder, 1, 40_000); err != nil {
		t.Fatal(err)
	}
	compare("ml-100k", &m, set.Examples, 100, byUser, 0.002, 0.002, 0.005)
	compare("ml-100k", &m, set.Examples, 0, byProducer, 0.005, 0.005, 0.005)
	compare("ml-100k", &m, set.Examples, 0, byTurns, 0.008, 0.012, 0.005)
	compare("ml-100k", &m, set.Examples, 1, byTurns, 0.002, 0.002, 0.005)
}

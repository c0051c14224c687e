package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// deltaCase is a model whose updates are of one of the variants, with its events.
type deltaCase struct {
	name   string
	model  *config.Model
	events []event.Event
	form   mixture.Variant
	force  func(c *Cycle) // makes updates have the form
	ticks  int            // events between deltas
	// after each delta; may return what the consumer has from then on. Nil for nothing
	next func(c *Cycle, consumer *snapshot.Model) *snapshot.Model
}

// groupedModel is a regression of users and items with side fields that are functions of them, and a list.
func groupedModel() *config.Model {
	m := cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels = "regression", 0
		m.Schema.Categorical, m.Schema.Multi = []string{"user", "item", "age"}, []string{"genre"}
		m.Train.FoldIn.By = []string{"user", "item"}
	})
	return m
}

func sided(n int) []event.Event {
	events := cycletest.Stream(3, n)
	for i := range events {
		ev := &events[i]
		var user, item int
		fmt.Sscanf(ev.Categorical[0], "u%d", &user)
		fmt.Sscanf(ev.Categorical[1], "i%d", &item)
		ev.Categorical = append(ev.Categorical, fmt.Sprint("a", user%5))
		ev.Multi = [][]string{{fmt.Sprint("g", item%7), fmt.Sprint("g", item%3)}}
	}
	return events
}

// fresh gives events after the first new users.
func fresh(events []event.Event, after int) []event.Event {
	for i := after; i < len(events); i++ {
		if i%3 == 0 {
			events[i].Categorical = slices.Clone(events[i].Categorical)
			events[i].Categorical[0] = fmt.Sprint("new", i/40)
		}
	}
	return events
}

func deltaCases() map[string]deltaCase {
	regression := chessModel("none")
	regression.Schema.Task, regression.Schema.Classes, regression.Train.Loss, regression.Train.Kernel = "regression", nil,
		config.Auto, config.Auto
	regression.Schema.Optional = nil
	regression.Resolve()
	waves := chess(6, 4000, 1, false)
	for i := range waves {
		ev := &waves[i]
		if math.IsNaN(ev.Numeric[1]) {
			ev.Numeric[1] = 100
		}
		ev.Label, ev.Classes = 50+20*math.Sin(2*ev.Numeric[0])*math.Cos(2*(ev.Numeric[1]-100)), nil
	}
	clicks := clicksModel(0)
	clicks.Schema.Cross = [][]string{{"user", "item"}, {"item", "hour"}}
	clicks.Train.Loss = config.Auto
	clicks.Resolve()
	schema := clicks.Schema.Event()
	crossed := clicked(12_000, 0, 1, 4)
	for i := range crossed {
		schema.Complete(&crossed[i])
	}
	classes := switchModel()
	pooledRules := ruledModel(2)
	for _, m := range []*config.Model{pooledRules, classes, regression} { // deltas have the trees of the update
		m.Without = append(m.Without, experts.PartBoosted)
	}
	named := cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels, m.Schema.Label, m.Train.Refit = "binary", 0, "on", "output"
		m.Schema.Numeric = []string{"a"}
	})
	r := rand.New(rand.NewPCG(1, 8))
	labelled := fresh(cycletest.Stream(2, 4000), 3000)
	for i := range labelled {
		ev := &labelled[i]
		ev.Numeric = []float64{r.NormFloat64()}
		ev.Label = 0
		if r.NormFloat64() < ev.Numeric[0] {
			ev.Label = 1
		}
	}
	single := cycletest.RatingsModel(func(m *config.Model) { m.Publish.Tensors = "f32" })
	cases := map[string]deltaCase{
		"ordinal": {
			model:  cycletest.RatingsModel(nil),
			events: fresh(cycletest.Stream(1, 4000), 2000),
			form:   mixture.FormFoldIn,
			ticks:  7,
			force:  prefer(mixture.FormFoldIn),
		},
		"of numbers": {
			model:  cycletest.RatingsModel(nil),
			events: fresh(cycletest.Stream(1, 4000), 2000),
			form:   mixture.FormNumbers,
			ticks:  7,
			force:  prefer(mixture.FormNumbers),
		},
		"f32": {
			model:  single,
			events: fresh(cycletest.Stream(1, 4000), 2000),
			form:   mixture.FormFoldIn,
			ticks:  7,
			force:  prefer(mixture.FormFoldIn),
		},
		"groups, lists": {
			model:  groupedModel(),
			events: fresh(sided(4000), 2000),
			form:   mixture.FormFoldIn,
			ticks:  11,
		},
		"steady": {
			model:  steadyModel(),
			events: inRuns(4000, false),
			form:   mixture.FormNumbers,
			ticks:  9,
			force:  prefer(mixture.FormNumbers),
		},
		"mixed": {
			model:  steadyModel(),
			events: inRuns(4000, false),
			form:   mixture.FormMixed,
			ticks:  9,
			force:  prefer(mixture.FormMixed),
		},
		"blend": {
			model:  cycletest.RatingsModel(nil),
			events: fresh(cycletest.Stream(1, 8000), 5000),
			form:   mixture.FormBlend,
			ticks:  9,
			force:  blended,
		},
		"blend of numbers": {
			model:  groupedModel(),
			events: fresh(sided(8000), 5000),
			form:   mixture.FormBlend,
			ticks:  9,
			force:  blended,
		},
		"names": {
			model:  clicks,
			events: crossed,
			form:   mixture.FormNames,
			ticks:  50,
			force:  prefer(mixture.FormNames),
		},
		"pairs of names": {
			model:  clicksModel(0),
			events: clicked(24_000, 0, 1, 4),
			form:   mixture.FormNames,
			ticks:  50,
			force:  prefer(mixture.FormNames),
		},
		"newton": {
			model:  regression,
			events: waves,
			form:   mixture.FormNewton,
			ticks:  5,
			force:  prefer(mixture.FormNewton),
		},
		"adagrad": {
			model:  ruledModel(2),
			events: fresh(ruled(1, 4000, 2), 2500),
			form:   mixture.FormAdaGrad,
			ticks:  5,
			force:  prefer(mixture.FormAdaGrad),
		},
		"pool": {
			model:  pooledRules,
			events: fresh(ruled(1, 4000, 2), 2500),
			form:   mixture.FormPool,
			ticks:  5,
			force:  pooled,
		},
		"pool of classes": {
			model:  classes,
			events: cycletest.Numbers(1, 4000),
			form:   mixture.FormPool,
			ticks:  5,
			force:  pooled,
		},
		"pool of numbers": {
			model:  regression,
			events: waves,
			form:   mixture.FormPool,
			ticks:  5,
			force:  pooled,
		},
		"naive bayes": {
			model:  moodsModel(),
			events: fresh(moods(2, 4000), 2500),
			form:   mixture.FormBayes,
			ticks:  9,
			force:  prefer(mixture.FormBayes),
		},
		"gradient": {
			model:  classes,
			events: cycletest.Numbers(1, 4000),
			form:   mixture.FormFoldIn,
			ticks:  5,
			force:  prefer(mixture.FormFoldIn),
		},
		"gradient on name": {
			model:  named,
			events: labelled,
			form:   mixture.FormFoldIn,
			ticks:  9,
			force:  prefer(mixture.FormFoldIn),
		},
	}
	for name, c := range cases {
		c.name = name
		cases[name] = c
	}
	return cases
}

// fewDeltaCases are the cases of tests that ask something else of deltas than their rows: the plain form has one case
// of each way in which rows are made. TestDeltasAreTheLiveModel has all.
func fewDeltaCases() map[string]deltaCase {
	cases := deltaCases()
	if !tier.Asked(tier.Long) {
		for _, alike := range []string{"f32", "of numbers", "blend of numbers", "pairs of names", "gradient on name",
			"pool of classes", "pool of numbers"} {
			delete(cases, alike)
		}
	}
	return cases
}

// blended makes updates blends, as if these had predicted better than each part and weights had not moved since.
func blended(c *Cycle) {
	prefer(mixture.FormBlend)(c)
	c.ensemble.stacked.Squares, c.ensemble.stacked.Advances = evaluate.Fading{Rate: mixture.MixtureFade, N: 1},
		c.ensemble.stacked.Advances[:0]
}

// pooled makes updates sums whose weights are as they were at the first.
func pooled(c *Cycle) {
	prefer(mixture.FormPool)(c)
	m, r := c.target.Outputs(), rand.New(rand.NewPCG(1, 9))
	outputs, targets := make([]float64, int(mixture.NumForms)*m), make([]float64, m)
	for i := 0; i < 200 && c.ensemble.pooled.Used == nil; i++ {
		for j := range outputs {
			outputs[j] = r.NormFloat64()
		}
		clear(targets)
		targets[i%m] = 1
		c.ensemble.pooled.Learn(outputs, r.NormFloat64(), targets)
	}
}

// prefer makes updates those of a form, whatever the guard says of it.
func prefer(form mixture.Variant) func(c *Cycle) {
	return func(c *Cycle) {
		c.publisher.race, c.publisher.behind = updates.NewVariantSelector(), updates.Behind{}
		c.publisher.race.Chosen, c.publisher.guard = form, guard.New(c.target, -1, guard.GuardSize)
	}
}

// end is the event after the last one that is played: after the refit there are 20 deltas or more.
func (f *deltaCase) end() int { return min(len(f.events)/2+max(500, 20*f.ticks), len(f.events)) }

// follows plays the daemon and a consumer on the events: a refit on the first half, updates and deltas after it. It
// calls check after each delta, with the model that consumers have and the events since the delta before, and returns
// the cycle.
func (f *deltaCase) play(t *testing.T, check func(c *Cycle, consumer *snapshot.Model, since []event.Event)) *Cycle {
	t.Helper()
	m := f.model
	m.Publish.Deltas = config.Deltas{Every: config.Duration(time.Second), MaxRows: 1000}
	c := newCycle(t, m)
	half := len(f.events) / 2
	observeAll(c, f.events[:half])
	c.Install(refitOnce(t, fmt.Sprint("deltas, ", f.name, ", ", m.Train.MaxFeatures), c, sampleOf(f.events[:half])))
	var consumer *snapshot.Model
	update := func(at int) {
		if f.force != nil {
			f.force(c)
		}
		c.publisher.comparison,
			c.publisher.updates = updates.UpdateComparison{Scale: evaluate.Fading{Rate: updates.UpdateFade}}, true
		u, reason := c.NextUpdate()
		if u == nil && reason == updates.FirstUpdate {
			c.publisher.comparison.N = 1
			u, reason = c.NextUpdate()
		}
		if u == nil {
			t.Fatalf("event %d: no update: %s", at, reason)
		}
		c.publisher.PublishUpdate(u)
		contents := u.Contents(m)
		contents.Tensors = map[string]string{"f32": format.F32}[m.Publish.Tensors]
		var err error
		if consumer, err = scorer.NewModel(contents); err != nil {
			t.Fatal(err)
		}
	}
	update(half)
	if own := c.publisher.deltas.Of.Vocabulary.Own; (own > 0) != (f.form == mixture.FormNames && len(
		m.Schema.Cross) == 0) {
		t.Fatalf("%d crosses of the update's own", own)
	}
	if c.publisher.deltas.Form != f.form {
		t.Fatalf("updates are of form %d, want %d", c.publisher.deltas.Form, f.form)
	}
	since, deltas := half, 0
	for i := half; i < f.end(); i++ {
		c.Observe(&f.events[i], true, rows.Position{Topic: "t", Offset: int64(i)}, rows.AppendEvent(nil, &f.events[i]),
			nil)
		if (i+1)%f.ticks != 0 {
			continue
		}
		if f.force != nil {
			f.force(c)
		}
		if whole := c.TakeDelta(time.UnixMilli(int64(i))); whole != "" {
			update(i)
			since = i + 1
			continue
		}
		for d := c.publisher.Delta(); d != nil; d = c.publisher.Delta() {
			if d.Cut[0].Next != int64(i+1) {
				t.Fatalf("event %d: the delta is cut at %d", i, d.Cut[0].Next)
			}
			sent := *d
			frame, err := sent.Encode(consumer.Shape(), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := format.DecodeDelta(frame, consumer.Shape(), nil)
			if err != nil {
				t.Fatal(err)
			}
			got.Previous = consumer.Position().Digest
			if consumer, err = consumer.Apply(got); err != nil {
				t.Fatal(err)
			}
			c.publisher.PublishDelta()
			deltas++
		}
		check(c, consumer, f.events[since:i+1])
		if f.next != nil {
			if next := f.next(c, consumer); next != nil {
				consumer = next
			}
		}
		since = i + 1
	}
	if want := (f.end() - half) / f.ticks / 2; deltas < want {
		t.Fatalf("%d deltas, want %d or more", deltas, want)
	}
	return c
}

// sameAsLive wants events all of whose names were touched since the last delta to be scored by the consumer as by the
// live model.
func (f *deltaCase) sameAsLive(t *testing.T, c *Cycle, consumer *snapshot.Model, since []event.Event) {
	t.Helper()
	u := c.Update()
	// The feature map is that of the update.
	if f.form == mixture.FormNewton || f.form == mixture.FormAdaGrad || f.form == mixture.FormPool {
		v := *u.Vocabulary
		v.Map = c.publisher.deltas.Of.Vocabulary.Map
		u.Vocabulary = &v
	}
	contents := u.Contents(c.config)
	contents.Golden = nil
	live, err := scorer.NewModel(contents)
	if err != nil {
		t.Fatal(err)
	}
	tolerance := 1e-9
	if c.config.Publish.Tensors == "f32" {
		tolerance = 1e-5
	}
	if u.Vocabulary.Trees != nil { // which stay until they are fitted anew, or their factor has moved by a share
		tolerance = 0.05
	}
	m := c.target.Outputs()
	want, got, own := make([]float64, m), make([]float64, m), make([]float64, m)
	var s snapshot.Scratch
	p := c.NewBatchScorer()
	p.Refresh()
	var score updates.Score
	for i := range since {
		in := fitted.InputOf(&c.schema, &since[i])
		live.Score(want, &in, &s)
		consumer.Score(got, &in, &s)
		c.publisher.deltas.Forms[f.form].Model.Score(own, &in, &s)
		p.Score(&score, &since[i])
		for o := range want {
			if math.Abs(got[o]-want[o]) > tolerance*(1+math.Abs(want[o])) {
				t.Fatalf("output %d is %.12g by deltas, %.12g by the live model", o, got[o], want[o])
			}
			if got[o] != own[o] || got[o] != score.Outputs[o] {
				t.Fatalf("output %d is %g at the consumer, %g of Live, %g as losses are taken", o, got[o], own[o],
					score.Outputs[o])
			}
		}
	}
}

// TestDeltasAreTheLiveModel: a consumer of the update and its deltas scores events all of whose names were touched
// since the last one as the live model in full does, in every variant of updates, and has bit for bit what the
// cycle takes the losses of consumers with. The next update is, bit for bit, the previous one with its deltas, and
// deltas continue from it. Where there is no room for names, or the variant changes, it is made of the live model.
func TestDeltasAreTheLiveModel(t *testing.T) {
	tier.NotUnderRace(t)
	cases := deltaCases()
	cases["pool with trees"] = deltaCase{name: "pool with trees", model: branchedModel(false),
		events: branched(1, 4000, false), form: mixture.FormPool, ticks: 5, force: pooled}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			compared := 0
			var last *snapshot.Model
			c := test.play(t, func(c *Cycle, consumer *snapshot.Model, since []event.Event) {
				test.sameAsLive(t, c, consumer, since)
				compared, last = compared+len(since), consumer
			})
			if compared == 0 {
				t.Fatal("nothing was compared")
			}
			for i := range 50 { // events since the last delta: not in the update
				ev := &test.events[len(test.events)-1-i]
				c.Observe(ev, true, rows.Position{Topic: "t", Offset: int64(5000 + i)}, rows.AppendEvent(nil, ev), nil)
			}
			if test.force != nil {
				test.force(c)
			}
			c.publisher.comparison, c.publisher.updates = updates.UpdateComparison{
				Scale: evaluate.Fading{Rate: updates.UpdateFade},
				N:     1,
			}, true
			before := c.publisher.Following()
			u, reason := c.NextUpdate()
			if u == nil || before == nil {
				t.Fatalf("no update (%s) after %v", reason, before)
			}
			contents := u.Contents(c.config)
			contents.Tensors = map[string]string{"f32": format.F32}[c.config.Publish.Tensors]
			want := last.Contents()
			got, err := format.PayloadDigest(contents)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := format.PayloadDigest(want)
			if err != nil || got != whole {
				t.Errorf("the update is %s, consumers have %s: %v", got, whole, err)
			}
			if len(contents.Golden) == 0 || contents.Golden[0].Outputs == nil {
				t.Error("no golden pairs of the trainer")
			}
			c.publisher.PublishUpdate(u)
			if c.TakeDelta(time.UnixMilli(9000)) != "" || c.publisher.Delta() == nil ||
				len(c.publisher.Delta().Columns)+len(c.publisher.Delta().Bias) == 0 {
				t.Error("no delta of the events before the update and after the last delta")
			}
		})
	}
}

// TestNoRoomForNames: names beyond train.max_features are in no delta, and the next update is made of the newest ones.
func TestNoRoomForNames(t *testing.T) {
	test := deltaCases()["ordinal"]
	test.model.Train.MaxFeatures = 105
	most := 0
	c := test.play(t,
		func(_ *Cycle, consumer *snapshot.Model, _ []event.Event) { most = max(most, consumer.NumColumns()) })
	if most != 105 {
		t.Errorf("%d columns, want 105", most)
	}
	c.publisher.comparison,
		c.publisher.updates = updates.UpdateComparison{Scale: evaluate.Fading{Rate: updates.UpdateFade}, N: 1}, true
	u, reason := c.NextUpdate()
	if u == nil || u.FoldIn != nil || u.Vocabulary.NumColumns() != 105 {
		t.Fatalf("update %v of the deltas (%s)", u, reason)
	}
	if newest := u.Vocabulary.Column(0, test.events[test.end()-1].Categorical[0]); newest < 0 {
		t.Error("the newest name is not in it")
	}
}

// TestDeltasEnd: where updates predict worse than the refit at the lag of deltas, where the fold-in begins anew, after
// an alarm of drift and where a store takes no deltas, a whole version has to come; nothing is listed without deltas.
func TestDeltasEnd(t *testing.T) {
	tier.NotUnderRace(t)
	test := deltaCases()["ordinal"]
	begin := func() *Cycle {
		c := test.play(t, func(*Cycle, *snapshot.Model, []event.Event) {})
		c.publisher.comparison,
			c.publisher.updates = updates.UpdateComparison{Scale: evaluate.Fading{Rate: updates.UpdateFade}}, true
		return c
	}
	c := begin()
	c.publisher.comparison = updates.UpdateComparison{
		N:       1000,
		Sum:     1000,
		Squares: 1000,
		Scale:   evaluate.Fading{Rate: updates.UpdateFade},
	}
	if whole := c.TakeDelta(time.UnixMilli(1)); whole == "" || c.publisher.Following() != nil {
		t.Error("deltas of updates that lose")
	}
	if u, _ := c.NextUpdate(); u == nil || !u.Again {
		t.Errorf("update %v, want the refit again", u)
	}
	c = begin()
	c.ensemble.learner = c.ensemble.newLearner(c.champion, nil)
	if whole := c.TakeDelta(time.UnixMilli(1)); whole == "" {
		t.Error("deltas of a fold-in that began anew")
	}
	c = begin()
	c.alarmed(drift.Alarm{DriftAlarm: drift.DriftAlarm{Event: 1, Group: "item"}, Field: 1}, &test.events[0])
	if whole := c.TakeDelta(time.UnixMilli(1)); !strings.Contains(whole, "item") || c.publisher.deltas != nil {
		t.Errorf("deltas continue after an alarm, though they bring only touched rows: %q", whole)
	}
	c = begin()
	whole := ""
	for i := 0; whole == "" && i <= updates.MaxQueued; i++ {
		ev := &test.events[3000+i]
		c.Observe(ev, true, rows.Position{Topic: "t", Offset: int64(5000 + i)}, rows.AppendEvent(nil, ev), nil)
		whole = c.TakeDelta(time.UnixMilli(int64(i)))
	}
	if whole == "" {
		t.Errorf("%d deltas wait", len(c.publisher.deltas.Queue))
	}
	c = begin()
	c.publisher.deltas.Queue = append(c.publisher.deltas.Queue,
		updates.TakenDelta{Delta: &format.Delta{Basis: make([]float64, updates.DeltaRowBytes/8+1)}})
	if c.TakeDelta(time.UnixMilli(1)) == "" {
		t.Error("deltas wait for a store that takes none, without a bound to their bytes")
	}
	test.model.Publish.Deltas.Every = 0
	if u, _ := c.NextUpdate(); u == nil || c.publisher.deltas != nil ||
		len(c.ensemble.learner.(*experts.FoldIn).Slots.Touched) > 0 {
		t.Error("names are listed without deltas")
	}
}

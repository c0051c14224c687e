package ingest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// written is a record of a topic, of partition 0.
func written(topic string, offset int64, key, value string) *consumer.Batch {
	b := &consumer.Batch{Topic: topic, Base: offset, Next: offset + 1}
	r := consumer.Record{Offset: offset, Timestamp: 1_700_000_000_000, CRC: uint32(offset)}
	if key != "" {
		r.Key = []byte(key)
	}
	if value != "" {
		r.Value = []byte(value)
	}
	b.Records = append(b.Records, r)
	return b
}

func joinedStore(t *testing.T, m *config.Model) (*Ingest, *sketch.Store) {
	t.Helper()
	store, err := sketch.NewMemory(StoreOptions(m))
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range m.AllTopics() {
		if err := store.Begin(topic, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	return New(m, store, nil), store
}

// TestOutcomesAreJoined: in every interleaving events have the labels that their outcomes make, a tombstone takes
// outcomes back, and what is no outcome is rejected with its reason.
func TestOutcomesAreJoined(t *testing.T) {
	m := ingesttest.Clicks(1000)
	var events, outcomes []*consumer.Batch
	at := int64(1_700_000_000_000)
	for i := range int64(20) {
		events = append(events, written("seen", i, "", fmt.Sprintf(`{"id":"e%d","user":"u","item":"i","ts":%d}`, i, at+i)))
	}
	for i, r := range []struct{ key, value string }{
		{"", fmt.Sprintf(`{"of":"e1","ts":%d}`, at+500)},
		{"", fmt.Sprintf(`{"of":"e2","ts":%d}`, at+20_000)}, // too late
		{"", fmt.Sprintf(`{"of":"e3","ts":%d}`, at+700)},    // taken back
		{"", fmt.Sprintf(`{"of":"never","ts":%d}`, at+700)}, // of no event
		{"e3", ""},              // takes back
		{`"e1"`, `{"of":"e1"}`}, // no time
		{"", `{"ts":1}`},        // no key
		{"", ""},                // tombstone without a key
		{"", fmt.Sprintf(`{"of":"e4","ts":%d}`, at+30)},      //
		{"", fmt.Sprintf(`{"of":"e4","ts":%d}`, at+40_000)},  // and one too late
		{"", fmt.Sprintf(`{"of":"far","ts":%d}`, at+15_000)}, // moves the clock
	} {
		outcomes = append(outcomes, written("clicked", int64(i), r.key, r.value))
	}
	events = append(events, written("seen", 20, "", fmt.Sprintf(`{"id":"e20","user":"u","item":"i","ts":%d}`, at+10_005)))
	var digest sketch.Digest
	for seed := range uint64(20) {
		g, store := joinedStore(t, m)
		r := rand.New(rand.NewPCG(seed, 3))
		for e, o := 0, 0; e < len(events) || o < len(outcomes); {
			from, next := events, &e
			if e == len(events) || o < len(outcomes) && r.IntN(3) == 0 {
				from, next = outcomes, &o
			}
			if err := g.Apply(t.Context(), from[*next]); err != nil {
				t.Fatal(err)
			}
			*next++
		}
		state, err := store.State()
		if err != nil {
			t.Fatal(err)
		}
		if digest == (sketch.Digest{}) {
			digest = state.SampleDigest
		}
		if state.SampleDigest != digest {
			t.Fatalf("seed %d: another digest", seed)
		}
		if state.RejectedByReason["missing_field"] != 2 || state.RejectedByReason["null_value"] != 1 {
			t.Errorf("rejected %v", state.RejectedByReason)
		}
		s, err := TakeSample(m, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		if j := s.Outcomes(); j.Joined != 2 || j.Stubs != 5 || j.Unmatched != 2 || j.Late != 2 || s.Events.Applied != 21 {
			t.Errorf("%+v of %d events", j, s.Events.Applied)
		}
		labels := map[int64]float64{}
		var ev event.Event
		for _, list := range [][][]byte{s.Train, s.Select, s.Gate} {
			for _, payload := range list {
				if err := rows.DecodeEvent(&ev, payload, rows.Interner{}); err != nil {
					t.Fatal(err)
				}
				labels[ev.Time-at] = ev.Label
			}
		}
		for i, label := range labels {
			want := 0.0
			if i == 1 || i == 4 {
				want = 1
			}
			if label != want {
				t.Errorf("label of event %d is %g", i, label)
			}
		}
		if err := store.Check(); err != nil {
			t.Error(err)
		}
		store.Close()
	}
}

// TestLabelOf: each way to make a label of several outcomes, by the window, whatever the order in which they came.
func TestLabelOf(t *testing.T) {
	m := ingesttest.Clicks(10)
	m.Schema.Task = "regression"
	outcomes := []sketch.Outcome{{Time: 90, Value: 3}, {Time: 200, Value: -1}, {Time: 300, Value: 7},
		{Time: 10_101, Value: 50}}
	for reward, want := range map[string]float64{config.RewardFirst: 3, config.RewardLast: 7, config.RewardSum: 9,
		config.RewardMax: 7, config.RewardMin: -1} {
		m.Input.Outcomes.Reward = reward
		if l := LabelOf(m, 100, outcomes); l.Value != want || l.Counted != 3 || l.Late != 1 || l.Delay != 0 {
			t.Errorf("%s: %+v, want %g", reward, l, want)
		}
	}
	m.Schema.LabelMin, m.Schema.LabelMax = 0, 5
	m.Input.Outcomes.Reward = config.RewardSum
	if l := LabelOf(m, 100, outcomes); l.Value != 5 {
		t.Errorf("beyond the largest label: %+v", l)
	}
	m.Input.Outcomes.Default = 2
	if l := LabelOf(m, 100, outcomes[3:]); l.Value != 2 || l.Counted != 0 || l.Late != 1 {
		t.Errorf("without an outcome: %+v", l)
	}
	day := int64(24 * time.Hour / time.Millisecond)
	if l := LabelOf(m, 100+day, outcomes); l.Value != 2 || l.Counted != 0 || l.Late != 4 {
		t.Errorf("of an event that had the key a day before: %+v", l)
	}
	m.Schema.Task = "binary"
	if l := LabelOf(m, 100, outcomes[1:2]); l.Value != 0 || l.Counted != 1 {
		t.Errorf("a binary reward below 0: %+v", l)
	}
}

// TestDelays: the distribution of delays is found from those that are seen, which are shorter than the age of their
// event, and with it the share of events that will have an outcome.
func TestDelays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const window, rate, n = 100.0, 0.3, 40_000
	var d delays
	var all, ages []float64
	d.window = window
	seen := 0
	for range n {
		delay, age := math.Exp(2+r.NormFloat64()), window*r.Float64()*1.5
		age = min(age, window)
		ages = append(ages, age)
		if delay > window || r.Float64() > rate {
			continue
		}
		all = append(all, delay)
		if delay <= age {
			d.add(delay, age)
			seen++
		}
	}
	d.fit()
	slices.Sort(all)
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
		at := all[int(q*float64(len(all)))]
		if got := d.come(at); math.Abs(got-q) > 0.02 {
			t.Errorf("%.3f of the delays are up to %.1f, want %.2f", got, at, q)
		}
		if got := d.quantile(q); math.Abs(d.come(got)-q) > 0.02 {
			t.Errorf("quantile %.2f is %.2f, up to which %.3f come", q, got, d.come(got))
		}
	}
	expected, weight := 0.0, 0.0
	for _, a := range ages {
		expected += d.come(a)
	}
	got, want := float64(seen)/expected, float64(len(all))/n
	if math.Abs(got-want) > 0.01 {
		t.Errorf("rate %.3f, want %.3f", got, want)
	}
	// The rows with their weights have the right rate; as negatives, open rows do not.
	for _, a := range ages {
		weight += (1 - want*d.come(a)) * encode.OpenWeight(d.come(a), want)
	}
	if got := float64(seen) / (float64(seen) + weight); math.Abs(got-want) > 0.01 {
		t.Errorf("weighted rate %.3f, want %.3f", got, want)
	}
	if got := float64(seen) / n; math.Abs(got-want) < 0.02 {
		t.Errorf("open rows as negatives are not seen to fail: %.3f", got)
	}
	var none delays
	none.window = window
	none.fit()
	if none.come(25) != 0.25 || none.come(window) != 1 || none.quantile(0.5) != 0 {
		t.Error("without delays")
	}
	var one delays
	one.window = window
	one.add(50, 50)
	one.fit()
	if f := one.come(10); f != 0 {
		t.Errorf("before the only delay: %g", f)
	}
	if f := one.come(60); f != 1 {
		t.Errorf("after the only delay: %g", f)
	}
}

// TestOutcomesWithoutModel: the JSON form of a model without outcomes is what it was.
func TestOutcomesWithoutModel(t *testing.T) {
	b, err := json.Marshal(ingesttest.Ratings(10))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(b); strings.Contains(s, "outcomes") || strings.Contains(s, "label_later") {
		t.Error(s)
	}
}

// TestOutcomesOfOtherKeys: where no outcome names an event, nothing is trained: as written, no event had one.
func TestOutcomesOfOtherKeys(t *testing.T) {
	m := ingesttest.Clicks(100)
	g, store := joinedStore(t, m)
	at := int64(1_700_000_000_000)
	rows := func() int {
		s, err := TakeSample(m, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(s.Train)
	}
	for i := range int64(40) {
		for _, b := range []*consumer.Batch{
			written("seen", i, "", fmt.Sprintf(`{"id":%d,"user":"u","item":"i","ts":%d}`, i, at+i*1000)),
			written("clicked", i, "", fmt.Sprintf(`{"of":"%d.0","ts":%d}`, i, at+i*1000)),
		} {
			if err := g.Apply(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := rows(); n != 0 {
		t.Errorf("%d rows are trained on", n)
	}
	if err := g.Apply(t.Context(), written("clicked", 40, "", fmt.Sprintf(`{"of":1,"ts":%d}`, at+1500))); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n == 0 {
		t.Error("nothing is trained on once an outcome has met its event")
	}
}

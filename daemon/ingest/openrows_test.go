package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/daemon/report"
)

// planted is a log of impressions with the probability of a click of each, and the clicks with their delays.
type planted struct {
	users, items []float64
	rng          *rand.Rand
}

func newPlanted() *planted { return plantedBy(3) }

func plantedBy(seed uint64) *planted {
	p := &planted{rng: rand.New(rand.NewPCG(seed, 4))}
	for range 30 {
		p.users = append(p.users, 0.8*p.rng.NormFloat64())
	}
	for range 20 {
		p.items = append(p.items, 0.8*p.rng.NormFloat64())
	}
	return p
}

func (p *planted) draw() (user, item int, click float64) {
	user, item = p.rng.IntN(len(p.users)), p.rng.IntN(len(p.items))
	return user, item, 1 / (1 + math.Exp(1-p.users[user]-p.items[item]))
}

// TestRefitOfOpenRows: with half of the clicks still to come, a refit that counts events without one by the probability
// that it would have come is about as good as one that knows every label; with them as negatives it is not calibrated.
// Of 12 streams the ECE is 0.0091 in the mean, and up to 0.0175; with every label 0.0068, and up to 0.0136.
func TestRefitOfOpenRows(t *testing.T) {
	var ece, bestECE, more float64 // means
	n := tier.Size(1, 12)
	for seed := range uint64(n) {
		open, whole := refitOfOpenRows(t, 3+seed)
		ece, bestECE = ece+open.ece/float64(n), bestECE+whole.ece/float64(n)
		more += (open.loss/whole.loss - 1) / float64(n)
	}
	t.Logf("means of %d streams: ECE %.4f, %.4f with every label, log loss %.4f above that", n, ece, bestECE, more)
	if limit := tier.Size(0.02, 0.01); !(ece <= limit) || !(more <= 0.005) {
		t.Errorf("ECE %.4f, log loss %.4f above that with every label", ece, more)
	}
}

// fit is how good a model is, by the planted probabilities of events that it has not seen.
type fit struct{ ece, loss float64 }

// refitOfOpenRows returns how good a refit with open rows is, and one that knows every label.
func refitOfOpenRows(t *testing.T, seed uint64) (open, best fit) {
	const n, spacing, window = 24_000, int64(1000), int64(18_000_000)
	m := ingesttest.Clicks(n)
	m.Input.Outcomes.Window = config.Duration(time.Duration(window) * time.Millisecond)
	m.Sample.Size, m.Sample.MaxBytes, m.Sample.Holdout.Size = n, 0, 4000
	m.Train.MaxBasis, m.Train.FoldIn.Enabled = 2, false
	p := plantedBy(seed)
	g, store := joinedStore(t, m)
	defer store.Close()
	events := &consumer.Batch{Topic: "seen"}
	outcomes := &consumer.Batch{Topic: "clicked"}
	at, end := int64(1_600_000_000_000), int64(1_600_000_000_000)+n*spacing
	add := func(b *consumer.Batch, at int64, value string) {
		b.Records = append(b.Records, consumer.Record{Offset: b.Next, Timestamp: at, Value: []byte(value)})
		b.Next++
	}
	late, all := 0, 0 // of the clicks, those that are still to come
	truth := map[int64]float64{}
	for i := range int64(n) {
		user, item, click := p.draw()
		add(events, at+i*spacing, fmt.Sprintf(`{"id":"e%d","user":"u%d","item":"i%d","ts":%d}`, i, user, item, at+i*spacing))
		if p.rng.Float64() >= click {
			continue
		}
		truth[at+i*spacing] = 1
		// Log-normal: the median is about half of what a refit has to look back on.
		delay := int64(11_800_000 * math.Exp(0.6*p.rng.NormFloat64()))
		if delay = min(delay, window-1); at+i*spacing+delay < end {
			add(outcomes, at+i*spacing+delay, fmt.Sprintf(`{"of":"e%d","ts":%d}`, i, at+i*spacing+delay))
		} else {
			late++
		}
		all++
	}
	add(outcomes, end, fmt.Sprintf(`{"of":"clock","ts":%d}`, end))
	for _, b := range []*consumer.Batch{outcomes, events} {
		if err := g.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	share := float64(late) / float64(all)
	t.Logf("%.2f of the clicks are still to come", share)
	if share < 0.48 || share > 0.55 {
		t.Fatalf("%.2f of the clicks are still to come", share)
	}
	take := func() *encode.Sample {
		s, err := TakeSample(m, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	judge := func(samples ...*encode.Sample) (of fit) {
		c, err := cycle.New(m, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		c.Workers = 2
		var ch *fitted.Fitted
		for i, s := range samples {
			if ch, err = c.Refit(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			ch.Version.Version = int64(i + 1)
			c.Install(ch)
		}
		q := plantedBy(seed)
		q.rng = rand.New(rand.NewPCG(9, 9))
		target, err := encode.NewTarget(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		var unseen []event.Event
		var probability []float64
		for range 20_000 {
			user, item, click := q.draw()
			unseen = append(unseen, event.Event{Weight: 1, Categorical: []string{fmt.Sprint("u", user), fmt.Sprint("i", item)}})
			probability = append(probability, click)
		}
		e, _ := encode.Encode(ch.Vocabulary, target, unseen, nil)
		var bins [15][3]float64
		e.Each(target, ch.Model, func(i int, outputs, _ []float64) {
			said := 1 / (1 + math.Exp(-outputs[0]))
			of.loss -= probability[i]*math.Log(said) + (1-probability[i])*math.Log(1-said)
			b := &bins[min(14, int(said*15))]
			b[0], b[1], b[2] = b[0]+1, b[1]+said, b[2]+probability[i]
		})
		for _, b := range bins {
			of.ece += math.Abs(b[1]-b[2]) / float64(len(unseen))
		}
		of.loss /= float64(len(unseen))
		return of
	}
	whole := take()
	whole.SetOutcomes(nil, nil)
	var ev event.Event
	for _, list := range [][][]byte{whole.Train, whole.Select, whole.Gate} {
		for _, payload := range list {
			if err := rows.DecodeEvent(&ev, payload, rows.Interner{}); err != nil {
				t.Fatal(err)
			}
			rows.SetLabel(payload, truth[ev.Time])
		}
	}
	best = judge(whole)
	naive := take()
	naive.SetOutcomes(nil, nil)
	asNone, first := judge(naive), judge(take())
	open = judge(take(), take(), take())
	t.Logf("seed %d: log loss %.4f with every label, %.4f with open rows, %.4f with open rows as negatives; ECE %.4f, "+
		"%.4f (first refit %.4f), %.4f", seed, best.loss, open.loss, asNone.loss, best.ece, open.ece, first.ece, asNone.ece)
	if open.ece > 0.02 || open.loss > 1.01*best.loss {
		t.Errorf("%+v, with every label %+v", open, best)
	}
	if asNone.ece < 0.03 {
		t.Errorf("open rows as negatives are not seen to fail: ECE %.4f", asNone.ece)
	}
	return open, best
}

// TestOutcomesThatWait: while outcomes wait in one partition for hours, events of that time are neither final nor
// judged, and what other partitions say of them counts no more than what was not read. A partition that is read to its
// end and silent holds nothing back.
func TestOutcomesThatWait(t *testing.T) {
	m := ingesttest.Clicks(1000)
	m.Sample.Holdout.Fraction = 0
	m.Input.Outcomes.Window = config.Duration(time.Hour)
	const minute, n = int64(60_000), int64(300)
	g, store, _ := observing(t, m)
	defer store.Close()
	final := map[int64]float64{} // labels, by minute
	observe := g.observe
	g.observe = func(events []cycle.Observation, panicked func(int, any)) {
		for _, o := range events {
			if o.Stage == cycle.Final {
				final[o.Event.Time/minute] = o.Event.Label
			}
		}
		observe(events, panicked)
	}
	if err := store.Begin("clicked", 1, 0); err != nil {
		t.Fatal(err)
	}
	apply := func(b *consumer.Batch, partition int32, end int64) {
		b.Partition, b.HighWatermark, b.LastStable = partition, end, end
		if err := g.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	click := func(partition int32, offset, end, i int64) {
		apply(written("clicked", offset, "", fmt.Sprintf(`{"of":"e%d","ts":%d}`, i, i*minute+1)), partition, end)
	}
	// Each minute has an event with a click: the first in partition 0, the next one in 1, where only two are read.
	var offset int64
	for i := range n {
		apply(written("seen", i, "", fmt.Sprintf(`{"id":"e%d","user":"u","item":"i","ts":%d}`, i, i*minute)), 0, i+1)
		switch {
		case i%2 == 0:
			click(0, i/2, i/2+1, i)
		case i < 4:
			click(1, offset, n/2, i)
			offset++
		}
	}
	if len(final) != 0 {
		t.Errorf("%v are final while their outcomes wait", final)
	}
	take := func(behind Behind) *report.Outcomes {
		s, err := TakeSample(m, store, behind)
		if err != nil {
			t.Fatal(err)
		}
		return s.Outcomes()
	}
	waits := func(_ string, partition int32) bool { return partition == 1 }
	if of := take(waits); of.Joined != 4 || of.Open != int(n)-4 {
		t.Errorf("%+v while outcomes wait", of)
	}
	if of := take(nil); of.Joined != int(n)/2+2 || of.Open != 31 {
		t.Errorf("%+v where none waits", of)
	}
	for i := int64(5); i < n; i += 2 {
		click(1, offset, n/2, i)
		offset++
	}
	for i := range n - 63 {
		if label, known := final[i]; !known || label != 1 {
			t.Fatalf("event %d has the label %g, final: %t", i, label, known)
		}
	}
	if of := take(nil); of.Joined != int(n) || of.Open != 0 {
		t.Errorf("%+v once all are read", of)
	}
	// Partition 1 is silent from now on.
	for i := n; i < n+120; i++ {
		apply(written("seen", i, "", fmt.Sprintf(`{"id":"e%d","user":"u","item":"i","ts":%d}`, i, i*minute)), 0, i+1)
		if i%10 == 0 {
			click(0, n/2+(i-n)/10, n/2+(i-n)/10+1, i)
		}
	}
	if label, known := final[n+40]; !known || label != 1 {
		t.Errorf("a silent partition holds events back: label %g, final: %t", label, known)
	}
}

package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// joinedBench has a topic of events and two of outcomes, as a broker and as the daemon reads them.
type joinedBench struct {
	*bench
	client  *kgo.Client
	records map[string][]consumer.Record
}

func newJoinedBench(t *testing.T) *joinedBench {
	b := &joinedBench{bench: &bench{t: t, broker: startBroker(t, kfake.SeedTopics(1, "clicks", "buys")),
		dir: t.TempDir()}, records: map[string][]consumer.Record{}}
	text := fmt.Sprintf(`
kafka: {bootstrap_servers: [%q], group_id: g}
storage: {path: state}
models:
  - name: m
    input:
      topics: [%s]
      outcomes: {topics: [clicks, buys], values: [{topic: buys, value: 5}], key: {impression: id, outcome: of},
        reward: sum, window: 1h}
    schema: {task: regression, label: worth, time: ts, time_unit: ms, categorical: [user, item]}
    sample: {size: 100, holdout: {fraction: 0.2, size: 20}}
    train: {fold_in: {enabled: false}}
    publish: {store: snapshots, update_every: 0s}
`, b.broker.ListenAddrs()[0], topic)
	conf, err := config.Parse(filepath.Join(b.dir, "refitd.yaml"), []byte(text),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	b.conf, b.model, b.client = conf, &conf.Models[0], b.producer()
	now := int64(1_700_000_000_000)
	add := func(topic string, key, value string) { b.add(topic, now, key, value) }
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 300 {
		at := 1_700_000_000_000 + int64(i)*60_000
		now = at
		add(topic, "", fmt.Sprintf(`{"id":"e%d","user":"u%d","item":"i%d","ts":%d}`, i, i%9, i%13, at))
		of := fmt.Sprintf("e%d", max(0, i-rng.IntN(90)+5))
		if i%15 == 0 {
			add("buys", "", fmt.Sprintf(`{"of":"never%d","ts":%d}`, i, at))
		}
		if rng.IntN(3) == 0 {
			add([]string{"clicks", "buys"}[rng.IntN(2)], "", fmt.Sprintf(`{"of":%q,"ts":%d}`, of, at))
		} else if rng.IntN(9) == 0 {
			add("clicks", of, "")
		} else if rng.IntN(9) == 0 {
			add("buys", "", `{"of":""}`)
		}
	}
	return b
}

// add writes a record, which has no key or no value where these are empty.
func (b *joinedBench) add(topic string, at int64, key, value string) {
	b.t.Helper()
	r := &kgo.Record{Topic: topic, Timestamp: time.UnixMilli(at)}
	if value != "" {
		r.Value = []byte(value)
	}
	if key != "" {
		r.Key = []byte(key)
	}
	if err := b.client.ProduceSync(b.context(), r).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	b.records[topic] = append(b.records[topic], consumer.Record{Offset: r.Offset, Timestamp: at, Key: r.Key,
		Value: r.Value, CRC: crc(r.Key, r.Value, at)})
}

// take stores what was written to a topic up to a share of it.
func (b *joinedBench) take(topic string, share float64) {
	b.t.Helper()
	b.withStore(func(s *sketch.Store) {
		all := b.records[topic]
		if err := s.Begin(topic, 0, 0); err != nil {
			b.t.Fatal(err)
		}
		next, _ := s.Position(topic, 0)
		batch := &consumer.Batch{Topic: topic, Base: next, Next: int64(share * float64(len(all)))}
		batch.Records = all[batch.Base:batch.Next]
		if err := ingest.New(b.model, s, nil).Apply(context.Background(), batch); err != nil {
			b.t.Fatal(err)
		}
	})
}

// state returns what is shown of the state.
func (b *joinedBench) state() (out *sketch.State, outcomes *report.Outcomes) {
	b.t.Helper()
	b.withStore(func(s *sketch.Store) {
		var err error
		if out, err = s.State(); err != nil {
			b.t.Fatal(err)
		}
		if outcomes, err = ingest.OutcomesOf(b.model, s, nil); err != nil {
			b.t.Fatal(err)
		}
	})
	return out, outcomes
}

// TestOutcomes: the join is proved, whichever side was read further, and what is wrong with it is noticed.
func TestOutcomes(t *testing.T) {
	b := newJoinedBench(t)
	b.take("clicks", 1)
	b.take(topic, 0.4)
	b.verifyOK()
	b.take("buys", 0.5)
	b.take(topic, 1)
	b.take("buys", 1)
	b.verifyOK()
	state, of := b.state()
	if of.Joined == 0 || of.Open == 0 || of.Unmatched == 0 || of.Late == 0 || state.Rows[sketch.Train] == 0 {
		t.Errorf("%+v: not everything happens", of)
	}
	// A subject by the key of its events is gone on both sides; another by a field of theirs.
	for _, subject := range [][2]string{{"id", "e299"}, {"user", "u3"}} {
		b.withStore(func(s *sketch.Store) {
			if _, err := s.ForgetSubject(subject[0], []byte(subject[1])); err != nil {
				t.Fatal(err)
			}
			if _, err := ingest.Erase(context.Background(), b.model, s); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
		if r := b.verify(); !r.Summary.OK || r.Summary.RecomputedDigest == nil {
			t.Errorf("%s forgotten: %+v", subject, r)
		}
	}
	// An outcome that the topic does not have.
	for i, r := range b.records["clicks"] {
		if strings.Contains(string(r.Value), "of") {
			b.records["clicks"][i].Value = []byte(strings.Replace(string(r.Value), `"ts":17`, `"ts":16`, 1))
		}
	}
	b.conf.Storage.Path = filepath.Join(b.dir, "other")
	b.take("clicks", 1)
	b.take("buys", 1)
	b.take(topic, 1)
	if r := b.verify(); r.Summary.OK {
		t.Error("outcomes of another time are not noticed")
	}
}

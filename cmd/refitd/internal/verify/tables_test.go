package verify

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
)

// newTablesBench has a topic of events and a compacted one of items, of which a state keeps at most so many. as is
// empty, or says that the table is joined at the event's time.
func newTablesBench(t *testing.T, maxRows int, as string) *joinedBench {
	b := &joinedBench{bench: &bench{t: t, broker: startBroker(t, kfake.SeedTopics(1, "clicks")), dir: t.TempDir()},
		records: map[string][]consumer.Record{}}
	conf, err := config.Parse(filepath.Join(b.dir, "refitd.yaml"), fmt.Appendf(nil, `
kafka: {bootstrap_servers: [%q], group_id: g}
storage: {path: state}
models:
  - name: m
    input: {topics: [%s]}
    schema: {task: regression, label: y, time: ts, time_unit: ms, categorical: [user, item]}
    tables: [{name: items, topics: [items], of: item, key: "record:key", categorical: [genre], max_rows: %d%s}]
    sample: {size: 100, holdout: {fraction: 0.2, size: 20}}
    publish: {store: snapshots, update_every: 0s}
`, b.broker.ListenAddrs()[0], topic, maxRows, as), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	b.conf, b.model, b.client = conf, &conf.Models[0], b.producer()
	compact, forever, always := "compact", "-1", "0.01"
	b.recreate(map[string]*string{"retention.ms": &forever})
	if _, err := kadm.NewClient(b.client).CreateTopics(b.context(), 1, 1, map[string]*string{"cleanup.policy": &compact,
		"retention.ms": &forever, "min.cleanable.dirty.ratio": &always}, "items"); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	b.add("items", 1_700_000_000_000, "first", `{"genre":"g"}`) // the embedded broker would move the start of the log
	for i := range 200 {
		at := 1_700_000_000_000 + int64(i)*60_000
		b.add(topic, at, "", fmt.Sprintf(`{"user":"u%d","item":"i%d","y":%d,"ts":%d}`, i%9, i%13, i%5, at))
		name, value := fmt.Sprint("i", rng.IntN(20)), fmt.Sprintf(`{"genre":"g%d"}`, rng.IntN(4))
		switch rng.IntN(9) {
		case 0:
			value = ""
		case 1:
			value = `{"genre":[]}`
		}
		if as != "" {
			at -= 60_000 * rng.Int64N(30) // late
		}
		b.add("items", at, name, value)
	}
	return b
}

// TestTables: accounts and rows of a table are proved, whichever side was read further, and also once compaction took
// out records that later ones of their keys made void.
func TestTables(t *testing.T) {
	for _, x := range []struct {
		limit int
		as    string
	}{{7, ""}, {1000, ""}, {7, ", as_of: event"}, {1000, ", as_of: event, history: 3"}} {
		b := newTablesBench(t, x.limit, x.as)
		b.take("items", 0.3)
		b.take(topic, 0.6)
		b.verifyOK()
		b.take("items", 1)
		b.take(topic, 1)
		b.verifyOK()
		b.broker.Compact()
		r := b.verify()
		items := r.Partitions[0]
		if items.Topic != "items" || items.Digest != digestOK || items.Unverifiable == 0 || !r.Summary.OK ||
			r.Summary.RecomputedDigest == nil {
			t.Errorf("compacted, %+v: %+v, %+v", x, items, r.Summary)
		}
	}
}

// TestTableThatBeginsAHistory: rows of a state that was written before the table had as_of: event are proved.
func TestTableThatBeginsAHistory(t *testing.T) {
	b := newTablesBench(t, 1000, ", as_of: event, history: 5")
	b.model.Tables[0].AsOf, b.model.Tables[0].History = "", 0
	b.take("items", 0.5)
	b.take(topic, 1)
	b.model.Tables[0].AsOf, b.model.Tables[0].History = "event", 5
	b.take("items", 1)
	if r := b.verify(); !r.Summary.OK || r.Partitions[0].Digest != digestOK {
		t.Errorf("%+v", r)
	}
}

// TestTablesDiffer: a row that the topic does not have, one that it has and the state lacks, and one of another
// offset are noticed, also in a topic that was compacted.
func TestTablesDiffer(t *testing.T) {
	for name, change := range map[string]func(all []consumer.Record) []consumer.Record{
		"another value": func(all []consumer.Record) []consumer.Record {
			for i := len(all) - 1; ; i-- {
				if v := string(all[i].Value); strings.Contains(v, "g2") {
					all[i].Value = []byte(strings.Replace(v, "g2", "g3", 1))
					return all
				}
			}
		},
		"a row gone": func(all []consumer.Record) []consumer.Record {
			for i := len(all) - 1; ; i-- {
				if strings.Contains(string(all[i].Value), "g2") {
					all[i].Value = nil
					return all
				}
			}
		},
		"a row that was taken away": func(all []consumer.Record) []consumer.Record {
			seen := map[string]bool{}
			for i := len(all) - 1; ; i-- {
				if all[i].Value == nil && !seen[string(all[i].Key)] {
					all[i].Value = []byte(`{"genre":"g1"}`)
					return all
				}
				seen[string(all[i].Key)] = true
			}
		},
	} {
		for i, as := range []string{"", "", ", as_of: event", ", as_of: event"} {
			compacted := i%2 == 1
			b := newTablesBench(t, 1000, as)
			b.records["items"] = change(b.records["items"])
			b.take("items", 1)
			b.take(topic, 1)
			if compacted {
				b.broker.Compact()
			}
			if r := b.verify(); r.Summary.OK || r.Partitions[0].Digest != digestMismatch || r.Partitions[1].Digest != digestOK {
				t.Errorf("%s, compacted %t%s: %+v", name, compacted, as, r)
			}
		}
	}
}

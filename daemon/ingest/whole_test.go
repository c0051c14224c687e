package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/broker"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// wholeEvents is the backlog of BenchmarkIngest: enough for a catch-up, and for a sample that is full for most of it.
const wholeEvents = 300_000

// wholeOutcomes is one of how many events has an outcome.
const wholeOutcomes = 20

// fillTopics starts a broker in this process and writes events of about 100 bytes to 8 partitions, and their outcomes
// to 4.
func fillTopics(b *testing.B) (addr string) {
	b.Helper()
	server, err := broker.Start(broker.Options{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	for topic, partitions := range map[string]int{"t": 8, "clicked": 4} {
		if err := server.CreateTopic(b.Context(), topic, partitions, 0); err != nil {
			b.Fatal(err)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(server.Addr()), kgo.DefaultProduceTopic("t"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(10*time.Millisecond), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range wholeEvents {
		value := fmt.Appendf(nil,
			`{"user":"user-%06d","item":"item-%05d","rating":%d,"ts":%d,"source":"web","page":"start","id":"e-%06d"}`,
			int(60000*r.Float64()*r.Float64()), int(9000*r.Float64()*r.Float64()), 1+r.IntN(5), 1700000000000+int64(i), i)
		cl.Produce(b.Context(), &kgo.Record{Partition: int32(i % 8), Value: value}, nil)
		if i%wholeOutcomes == 0 {
			value = fmt.Appendf(nil, `{"of":"e-%06d","ts":%d}`, i, 1700000000000+int64(i+100))
			cl.Produce(b.Context(), &kgo.Record{Topic: "clicked", Partition: int32(i / wholeOutcomes % 4), Value: value}, nil)
		}
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return server.Addr()
}

// readWhole reads topics to their end into a sink and returns how long that takes, by the clock and by the processor.
func readWhole(b *testing.B, addr string, topics []string, sink consumer.Sink,
	begin func(topic string, partition int32, at int64) error) (wall, used time.Duration) {
	b.Helper()
	o := consumer.DefaultOptions()
	o.Brokers, o.Topics, o.Begin = []string{addr}, topics, begin
	o.Logger, o.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	c, err := consumer.New(o, sink)
	if err != nil {
		b.Fatal(err)
	}
	ends, err := c.Ends(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	began, before := time.Now(), processorTime(b)
	if err := c.RunUntil(b.Context(), ends); err != nil {
		b.Fatal(err)
	}
	return time.Since(began), processorTime(b) - before
}

// BenchmarkIngest is the path of a backlog from a broker in this process to a state on disk. In addition to events a
// second it reports the processor time of an event by stage: broker and fetching; decoding and storing; learning from
// all, or from the share of a catch-up with what it learns in the end. Labels come with the events, or later.
func BenchmarkIngest(b *testing.B) {
	addr := fillTopics(b)
	later := ingesttest.Clicks(20_000)
	later.Input.Topics, later.Sample.Holdout.Fraction = []string{"t"}, 0.1
	for _, of := range []struct {
		name  string
		model *config.Model
		bound config.CatchUp
	}{
		{"catch_up", ingesttest.Ratings(20_000), config.CatchUp(time.Second)},
		{"learn_all", ingesttest.Ratings(20_000), 0},
		{"outcomes", later, config.CatchUp(time.Second)},
		{"outcomes_learn_all", later, 0},
	} {
		b.Run(of.name, func(b *testing.B) {
			m := *of.model
			m.Train.CatchUp = of.bound
			topics := m.AllTopics()
			var wall time.Duration
			var used [3]time.Duration // to fetch; and store; and learn
			for b.Loop() {
				_, fetch := readWhole(b, addr, topics, new(emptySink), nil)
				used[0] += fetch
				for stage := 1; stage < len(used); stage++ {
					took, cpu := ingestWhole(b, addr, &m, stage == 2)
					if used[stage] += cpu; stage == 2 {
						wall += took
					}
				}
			}
			events := float64(b.N) * wholeEvents
			each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / events }
			b.ReportMetric(events/wall.Seconds(), "events/s")
			b.ReportMetric(each(used[0]), "fetch-µs/event")
			b.ReportMetric(each(used[1]-used[0]), "store-µs/event")
			b.ReportMetric(each(used[2]-used[1]), "learn-µs/event")
			b.ReportMetric(each(used[2]), "µs/event")
		})
	}
}

// ingestWhole reads the topics of a model into a new state, and learns, or does not.
func ingestWhole(b *testing.B, addr string, m *config.Model, learns bool) (wall, used time.Duration) {
	o := StoreOptions(m)
	o.Dir = b.TempDir()
	store, err := sketch.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	var c *cycle.Cycle
	if learns {
		if c, err = cycle.New(m, time.Now); err != nil {
			b.Fatal(err)
		}
	}
	wall, used = readWhole(b, addr, m.AllTopics(), New(m, store, c), store.Begin)
	if got := Stored(m, store).Events.Applied; got != wholeEvents {
		b.Fatalf("%d of %d events are stored", got, wholeEvents)
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	return wall, used
}

// emptySink takes what comes and keeps nothing.
type emptySink struct{}

func (*emptySink) Apply(context.Context, *consumer.Batch) error { return nil }

package verify

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/sketch"
)

type discard struct{}

func (discard) Apply(context.Context, *consumer.Batch) error { return nil }

// BenchmarkVerify proves a state of 200,000 events, and reads them without proving anything, with the broker in the
// same process.
func BenchmarkVerify(b *testing.B) {
	const n = 200_000
	r := newBench(b)
	r.configure("{size: 20000, holdout: {fraction: 0.1, size: 2000}}")
	client := r.producer()
	for part := range slices.Chunk(events(0, n), 5000) {
		r.produce(client, 0, part...)
	}
	r.withStore(func(s *sketch.Store) {
		if err := s.Begin(topic, 0, 0); err != nil {
			b.Fatal(err)
		}
		sink := ingest.New(r.model, s, nil)
		for part := range slices.Chunk(r.written[0], 4000) {
			batch := consumer.Batch{
				Topic:   topic,
				Base:    part[0].Offset,
				Next:    part[len(part)-1].Offset + 1,
				Records: part,
			}
			if err := sink.Apply(b.Context(), &batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	for b.Loop() {
		began := time.Now()
		if result, err := Run(b.Context(), r.options()); err != nil || !result.Summary.OK {
			b.Fatalf("%+v, %v", result, err)
		}
		proved := time.Since(began)
		began = time.Now()
		reader, err := newReader(b.Context(), &r.conf.Kafka, []string{topic})
		if err != nil {
			b.Fatal(err)
		}
		if err := reader.read(b.Context(), topic, 0, 0, n, 0, discard{}); err != nil {
			b.Fatal(err)
		}
		reader.close()
		b.ReportMetric(n/proved.Seconds(), "proved/s")
		b.ReportMetric(n/time.Since(began).Seconds(), "read/s")
	}
}

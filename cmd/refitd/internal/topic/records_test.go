package topic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/broker"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// TestNewest: the newest records of each partition come, as many of each, and no more than were asked for; an empty
// topic and a missing one give different answers.
func TestNewest(t *testing.T) {
	b, err := broker.Start(
		broker.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, name := range []string{"full", "empty"} {
		if err := b.CreateTopic(t.Context(), name, 2, 0); err != nil {
			t.Fatal(err)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 100 {
		r := &kgo.Record{Topic: "full", Partition: int32(i % 2), Value: fmt.Appendf(nil, "%d", i)}
		if i == 99 {
			r.Value = nil
		}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	k := &config.Kafka{BootstrapServers: []string{b.Addr()}, ClientID: "test"}
	values, read, err := newest(t.Context(), k, "full", 20)
	if err != nil || read != 20 || len(values) != 19 {
		t.Fatalf("%d values of %d records, %v", len(values), read, err)
	}
	seen := make(map[string]bool)
	for _, r := range values {
		seen[string(r.Value)] = true
		if want := fmt.Sprint(2*r.Offset + int64(r.Partition)); string(r.Value) != want {
			t.Errorf("the record at %d/%d is %s, want %s", r.Partition, r.Offset, r.Value, want)
		}
	}
	for i := 80; i < 99; i++ {
		if !seen[fmt.Sprint(i)] {
			t.Errorf("record %d of 80 to 99 is not among them", i)
		}
	}
	if values, read, err := newest(t.Context(), k, "empty", 20); err != nil || read != 0 || len(values) != 0 {
		t.Errorf("an empty topic has %d values of %d records, %v", len(values), read, err)
	}
	_, _, err = Newest(context.Background(), k, "none")
	if e, ok := errors.AsType[*report.ExitError](err); !ok || e.Code != report.ExitBroker || e.Topic != "none" {
		t.Errorf("a topic that is not there: %v", err)
	}
}

// TestNewestBomb: a batch of few bytes that decompresses to more than events may is an error, and takes no memory for
// them.
func TestNewestBomb(t *testing.T) {
	b, err := broker.Start(
		broker.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.CreateTopic(t.Context(), "bomb", 1, 0); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ProducerBatchCompression(kgo.GzipCompression()),
		kgo.ProducerBatchMaxBytes(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "bomb", Value: make([]byte,
		maxBatch)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	_, _, err = Newest(t.Context(), &config.Kafka{BootstrapServers: []string{b.Addr()}, ClientID: "test"}, "bomb")
	_, tooLarge := errors.AsType[*kgo.ErrDecompressTooLarge](err)
	if e, ok := errors.AsType[*report.ExitError](err); !ok || e.Code != report.ExitBroker || !tooLarge {
		t.Error(err)
	}
}

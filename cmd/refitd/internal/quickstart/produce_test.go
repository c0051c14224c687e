package quickstart

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/refitd/refitd/daemon/daemontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProduce(t *testing.T) {
	const (
		partitions = 4
		rate       = 2000
		driftAfter = 700
	)
	b := daemontest.StartBroker(t, t.TempDir(), "")
	if err := b.CreateTopic(t.Context(), "ratings", partitions, 0); err != nil {
		t.Fatal(err)
	}
	client := daemontest.Client(t, b.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type outcome struct {
		counts ProduceCounts
		err    error
	}
	ended := make(chan outcome, 1)
	drifts := 0
	start := time.Now()
	go func() {
		counts, err := Produce(ctx, NewGenerator(7), ProduceOptions{
			Addr: b.Addr(), Topic: "ratings", Rate: rate, DriftAfter: driftAfter, OnDrift: func() { drifts++ },
		})
		ended <- outcome{counts, err}
	}()
	daemontest.Within(t, daemontest.Patience, "2,000 records", func() bool {
		_, end := daemontest.LogRange(t, client, "ratings", partitions)
		return daemontest.Total(end) >= 2000
	})
	cancel()
	got := <-ended
	elapsed := time.Since(start)
	if got.err != nil {
		t.Fatal(got.err)
	}
	_, end := daemontest.LogRange(t, client, "ratings", partitions)
	if n := daemontest.Total(end); got.counts.Sent != n || got.counts.Acknowledged != n {
		t.Errorf("counts %+v, the topic has %d records", got.counts, n)
	}
	if most := elapsed.Seconds() * rate; float64(got.counts.Sent) > most {
		t.Errorf("%d events in %v are more than %d/s", got.counts.Sent, elapsed, rate)
	}
	if drifts != 1 {
		t.Errorf("OnDrift was called %d times, want 1", drifts)
	}
	checkTopic(t, client, start, end, driftAfter)
}

// checkTopic replays the generator and compares the topic: each partition holds, in order, the ratings of the users
// that murmur2 gives it.
func checkTopic(t *testing.T, client *kafka.Client, start time.Time, end []int64, driftAfter int64) {
	t.Helper()
	stored := make([][]*kgo.Record, len(end))
	for p := range end {
		stored[p] = readPartition(t, client.Addr.String(), p, end[p])
	}
	g := NewGenerator(7)
	next := make([]int, len(end))
	for n := range daemontest.Total(end) {
		if n == driftAfter {
			g.Drift()
		}
		r := g.Next(0)
		p := int(murmur2(r.User)&0x7fffffff) % len(end)
		if next[p] == len(stored[p]) {
			t.Fatalf("event %d %+v is missing in partition %d", n, r, p)
		}
		rec := stored[p][next[p]]
		next[p]++
		key, value := rec.Key, rec.Value
		var e struct {
			User, Item string
			Rating     int
			TS         int64
		}
		dec := json.NewDecoder(bytes.NewReader(value))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			t.Fatalf("event %d %s: %v", n, value, err)
		}
		if string(key) != r.User || e.User != r.User || e.Item != r.Item || e.Rating != r.Level {
			t.Fatalf("event %d: key %s value %s, want %+v", n, key, value, r)
		}
		if at := time.UnixMilli(e.TS); at.Before(start.Truncate(time.Millisecond)) || at.After(time.Now()) {
			t.Fatalf("event %d: ts %v is not between the start and now", n, at)
		}
	}
}

// readPartition reads with franz-go: the consumer in this process registers its own Fetch response, which kafka-go's
// client cannot take.
func readPartition(t *testing.T, addr string, partition int, end int64) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"ratings": {int32(partition): kgo.NewOffset().At(0)}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for int64(len(records)) < end {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// murmur2 is the hash of the Java client, written from its definition (Appleby 2008, 32 bit, seed 0x9747b28c).
func murmur2(key string) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(key))
	b := []byte(key)
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		h = h*m ^ (k^k>>24)*m
	}
	for i := len(b) - 1; i >= 0; i-- {
		h ^= uint32(b[i]) << (8 * i)
	}
	if len(b) > 0 {
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

func TestProduceErrors(t *testing.T) {
	b := daemontest.StartBroker(t, t.TempDir(), "")
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := Produce(t.Context(), NewGenerator(1), ProduceOptions{Addr: b.Addr(), Topic: "none",
			Rate: rate}); err == nil ||
			!strings.Contains(err.Error(), "--rate") {
			t.Errorf("rate %v: error %v, want one that names --rate", rate, err)
		}
	}
	counts, err := Produce(t.Context(), NewGenerator(1), ProduceOptions{Addr: b.Addr(), Topic: "none", Rate: 100})
	if err == nil || !strings.Contains(err.Error(), `"none"`) || len(err.Error()) > 500 {
		t.Errorf("a topic that does not exist: error %v, want a short one that names it", err)
	}
	if counts.Sent == 0 || counts.Acknowledged != 0 {
		t.Errorf("counts %+v, want some sent and none acknowledged", counts)
	}
}

func TestProduceCountsWhatWasRefused(t *testing.T) {
	b := daemontest.StartBroker(t, t.TempDir(), "")
	if err := b.CreateTopic(t.Context(), "ratings", 2, 0); err != nil {
		t.Fatal(err)
	}
	b.Cluster().
		Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "ratings", Partitions: []int32{0},
			Err: kerr.TopicAuthorizationFailed, Count: -1})
	counts, err := Produce(t.Context(), NewGenerator(1), ProduceOptions{Addr: b.Addr(), Topic: "ratings", Rate: 20_000})
	if !errors.Is(err, kerr.TopicAuthorizationFailed) || len(err.Error()) > 500 {
		t.Errorf("error %v, want a short one that wraps TopicAuthorizationFailed", err)
	}
	first, end := daemontest.LogRange(t, daemontest.Client(t, b.Addr()), "ratings", 2)
	if n := end[1] - first[1]; n == 0 || end[0] != 0 || counts.Acknowledged != n || counts.Sent <= n {
		t.Errorf("counts %+v, want %d acknowledged, as many as the topic has, and more sent; log ends %v", counts, n,
			end)
	}
}

func TestProduceWhenTheBrokerGoes(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		b := daemontest.StartBroker(t, t.TempDir(), "")
		if err := b.CreateTopic(t.Context(), "ratings", 2, 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// The change of taste is the moment: events before it are in the topic, those after it meet no broker.
		_, err := Produce(
			ctx,
			NewGenerator(1),
			ProduceOptions{Addr: b.Addr(), Topic: "ratings", Rate: 2000, DriftAfter: 500, OnDrift: func() {
				b.Close()
				if stopped {
					cancel()
				}
			}},
		)
		if stopped && err != nil || !stopped && err == nil {
			t.Errorf("context done: %v; error %v, want one exactly if it is not done", stopped, err)
		}
	}
}

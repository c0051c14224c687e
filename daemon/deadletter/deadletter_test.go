package deadletter

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/sketch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	source = "ratings"
	topic  = "rejected"
)

// rig is a store, a broker and a sender between them.
type rig struct {
	*Sender
	t      *testing.T
	broker *kfake.Cluster
	log    *locked.Buffer
	next   int64

	registry *prometheus.Registry
}

func newRig(t *testing.T, rows int, opts ...kfake.Opt) *rig {
	t.Helper()
	broker, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	store, err := sketch.NewMemory(sketch.Options{Size: 10, OutboxRows: rows})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Begin(source, 3, 0); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, broker: broker, log: new(locked.Buffer), registry: prometheus.NewRegistry()}
	if r.Sender, err = New(Options{Store: store, Model: "m", Topic: topic,
		Kafka:   &config.Kafka{BootstrapServers: broker.ListenAddrs(), ClientID: "c"},
		Metrics: NewMetrics(r.registry), Log: slog.New(slog.NewTextHandler(r.log, nil))}); err != nil {
		t.Fatal(err)
	}
	return r
}

// reject stores n rejected records.
func (r *rig) reject(n int) {
	r.t.Helper()
	p := &sketch.Part{Topic: source, Partition: 3, Base: r.next, Next: r.next + int64(n)}
	for range n {
		value := fmt.Appendf(nil, "value %d", r.next)
		p.Records = append(
			p.Records,
			sketch.Record{Offset: r.next, Fate: sketch.Rejected, Reason: "not_json", Time: 1000 + r.next,
				Detail: &sketch.Detail{
					Field:    "user",
					Expected: "a number",
					Got:      "a list",
					Key:      []byte("a\x00"),
					KeySize:  2000,
					Headers:  framing.AppendHeaders(nil, framing.Header{Name: "model", Value: []byte("\x01\xff")}),
				}, Size: len(value), Payload: value},
		)
		r.next++
	}
	if err := r.Store.Apply(p, nil); err != nil {
		r.t.Fatal(err)
	}
	r.Wake()
}

// run starts the sender; the returned function stops it.
func (r *rig) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// received reads n records of the dead-letter topic, by key, and how many more there are of each.
func (r *rig) received(n int) map[string][]*kgo.Record {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.ListenAddrs()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	out := make(map[string][]*kgo.Record)
	for got := 0; got < n; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			r.t.Fatalf("%d of %d dead letters", got, n)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			out[string(rec.Key)] = append(out[string(rec.Key)], rec)
			got++
		})
	}
	return out
}

func (r *rig) pending() float64 { return r.metric("refitd_dead_letters_pending") }
func (r *rig) sent() float64    { return r.metric("refitd_dead_letters_sent_total") }
func (r *rig) failed() float64  { return r.metric("refitd_dead_letter_failures_total") }

func (r *rig) metric(name string) (sum float64) {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("timed out waiting for %s", what)
		case <-tick.C:
		}
	}
}

func TestEveryLetterArrives(t *testing.T) {
	r := newRig(t, 10_000, kfake.SeedTopics(2, topic))
	r.reject(2500) // several attempts
	stop := r.run()
	within(t, "an empty outbox", func() bool { return r.Store.OutboxLen() == 0 })
	r.reject(3)
	within(t, "an empty outbox", func() bool { return r.Store.OutboxLen() == 0 })
	r.reject(4)
	stop() // sends what is left
	records := r.received(2507)
	if len(records) != 2507 || r.sent() != 2507 || r.pending() != 0 || r.failed() != 0 {
		t.Errorf("%d keys, %g sent, %g pending, %g failures", len(records), r.sent(), r.pending(), r.failed())
	}
	rec := records["ratings/3/7"][0]
	if codec := rec.Attrs.CompressionType(); codec != 1 {
		t.Errorf("compressed with codec %d, want gzip: not every client can read others", codec)
	}
	headers := map[string]string{}
	for _, h := range rec.Headers {
		headers[h.Key] = string(h.Value)
	}
	want := map[string]string{
		"model":       "m",
		"topic":       "ratings",
		"partition":   "3",
		"offset":      "7",
		"incarnation": "0",
		"reason":      "not_json",
		"timestamp":   "1007",
		"size":        "7",
		"field":       "user",
		"expected":    "a number",
		"got":         "a list",

		"key":          "a\x00",
		"key_size":     "2000",
		"headers":      "1",
		"header.model": "\x01\xff",
	}
	if !maps.Equal(headers, want) || string(rec.Value) != "value 7" || time.Since(rec.Timestamp) > time.Minute {
		t.Errorf("record %s at %v with headers %v", rec.Value, rec.Timestamp, headers)
	}
}

// TestTopicTroubles: whatever the brokers answer, letters wait, in words; they are sent when the trouble is over, and
// none is lost.
func TestTopicTroubles(t *testing.T) {
	for name, c := range map[string]struct {
		code int16
		text string
	}{
		"not allowed": {kerr.TopicAuthorizationFailed.Code, "ACL operations Write and Describe on topic rejected"},
		"disk full":   {kerr.KafkaStorageError.Code, "does not acknowledge"},
		"too large":   {kerr.MessageTooLarge.Code, "max.message.bytes"},
		"policy":      {kerr.PolicyViolation.Code, "POLICY_VIOLATION"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 100, kfake.SeedTopics(1, topic))
			var mu sync.Mutex
			broken := true
			r.broker.ControlKey(kmsg.Produce.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
				r.broker.KeepControl()
				mu.Lock()
				defer mu.Unlock()
				if !broken {
					return nil, nil, false
				}
				answer := req.ResponseKind().(*kmsg.ProduceResponse)
				for _, rt := range req.(*kmsg.ProduceRequest).Topics {
					st := kmsg.NewProduceResponseTopic()
					st.Topic, st.TopicID = rt.Topic, rt.TopicID
					for _, rp := range rt.Partitions {
						sp := kmsg.NewProduceResponseTopicPartition()
						sp.Partition, sp.ErrorCode = rp.Partition, c.code
						st.Partitions = append(st.Partitions, sp)
					}
					answer.Topics = append(answer.Topics, st)
				}
				return answer, nil, true
			})
			r.timeout = 2 * time.Second
			r.reject(20)
			r.run()
			within(t, "the trouble in words", func() bool { return strings.Contains(r.Trouble(), c.text) })
			if r.pending() != 20 || r.Store.OutboxLen() != 20 || r.failed() == 0 {
				t.Errorf("%g pending, %g failures", r.pending(), r.failed())
			}
			mu.Lock()
			broken = false
			mu.Unlock()
			within(t, "an empty outbox", func() bool { return r.Store.OutboxLen() == 0 })
			within(t, "the end of the trouble", func() bool { return r.Trouble() == "" })
			if n := len(r.received(20)); n != 20 {
				t.Errorf("%d keys", n)
			}
			if n := strings.Count(r.log.String(), "dead letters cannot be sent"); n != 1 {
				t.Errorf("the trouble was logged %d times:\n%s", n, r.log)
			}
		})
	}
}

// TestTopicIsMade: a topic that is missing, or deleted later, is created.
func TestTopicIsMade(t *testing.T) {
	r := newRig(t, 100)
	r.reject(5)
	stop := r.run()
	within(t, "an empty outbox", func() bool { return r.Store.OutboxLen() == 0 })
	if n := len(r.received(5)); n != 5 || strings.Count(r.log.String(), "topic created") != 1 || r.failed() != 0 {
		t.Errorf("%d keys, %g failures, log\n%s", n, r.failed(), r.log)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	r.reject(3)
	within(t, "an empty outbox", func() bool { return r.Store.OutboxLen() == 0 })
	stop()
	if n := len(r.received(3)); n != 3 {
		t.Errorf("%d keys after the topic was made again", n)
	}
}

// TestTopicIsMissing: without a topic and the right to make one letters wait, in words.
func TestTopicIsMissing(t *testing.T) {
	r := newRig(t, 100)
	r.broker.ControlKey(kmsg.CreateTopics.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.broker.KeepControl()
		if req := req.(*kmsg.CreateTopicsRequest); req.Topics[0].ReplicationFactor > 0 {
			return nil, nil, false // the operator
		}
		answer := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		refused := kmsg.NewCreateTopicsResponseTopic()
		refused.Topic, refused.ErrorCode = topic, kerr.TopicAuthorizationFailed.Code
		answer.Topics = append(answer.Topics, refused)
		return answer, nil, true
	})
	r.reject(5)
	stop := r.run()
	within(t, "the trouble in words",
		func() bool { return strings.Contains(r.Trouble(), "the cluster has no topic rejected: create it") })
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	within(t, "an empty outbox", func() bool { return r.Store.OutboxLen() == 0 })
	stop()
	r.received(5)
}

// TestBrokersAreGone: a stop does not wait for brokers that do not answer, and the letters stay.
func TestBrokersAreGone(t *testing.T) {
	r := newRig(t, 100, kfake.SeedTopics(1, topic))
	r.broker.Close()
	r.grace = time.Second
	r.reject(5)
	stop := r.run()
	began := time.Now()
	stop()
	if took := time.Since(began); took > r.grace+20*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if r.Store.OutboxLen() != 5 || !strings.Contains(r.log.String(), "dead letters wait for the next start") {
		t.Errorf("%d letters, log\n%s", r.Store.OutboxLen(), r.log)
	}
}

// TestCrashBeforeForget: what was acknowledged but not yet forgotten when the machine went down is sent again, under
// the same key.
func TestCrashBeforeForget(t *testing.T) {
	r := newRig(t, 100, kfake.SeedTopics(1, topic))
	r.reject(10)
	letters, err := r.Store.DeadLetters(4)
	if err != nil {
		t.Fatal(err)
	}
	p := producer{Options: &r.Options, connect: r.connect, timeout: r.timeout}
	acknowledged, err := p.send(t.Context(), letters)
	p.close()
	if err != nil || len(acknowledged) != 4 {
		t.Fatalf("%d acknowledged, %v", len(acknowledged), err)
	}
	r.run()()
	records := r.received(14)
	copies := 0
	for _, list := range records {
		copies += len(list) - 1
	}
	if keys := slices.Sorted(maps.Keys(records)); len(keys) != 10 || copies != 4 {
		t.Errorf("keys %v, %d copies", keys, copies)
	}
}

// TestErased: a subject's letters are not sent after DropOutbox.
func TestErased(t *testing.T) {
	r := newRig(t, 100, kfake.SeedTopics(1, topic))
	r.reject(10)
	if n, err := r.Store.DropOutbox(func(l *sketch.DeadLetter) bool {
		return bytes.Contains(l.Payload, []byte(
			"value 4"))
	}); n != 1 ||
		err != nil {
		t.Fatalf("%d dropped, %v", n, err)
	}
	r.run()()
	if records := r.received(9); records["ratings/3/4"] != nil || len(records) != 9 {
		t.Errorf("%d letters", len(records))
	}
}

package state_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/cmd/refitd/internal/verify"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

const rejectedTopic = "rejected"

// withLetters are the edits that send rejected records on.
func withLetters(rows int, edit ...string) []string {
	return append(
		[]string{
			"start: earliest",
			fmt.Sprintf("start: earliest, dead_letter: {topic: %s, max_rows: %d}", rejectedTopic, rows),
		},
		edit...)
}

// letters reads the dead-letter topic until it has n keys, and returns the records by key.
func letters(b *daemontest.Bench, n int) map[string][]*kgo.Record {
	b.T.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumeTopics(rejectedTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		b.T.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(b.T.Context(), daemontest.Patience)
	defer cancel()
	out := make(map[string][]*kgo.Record)
	for len(out) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			b.T.Fatalf("%d of %d dead letters", len(out), n)
		}
		fetches.EachRecord(func(r *kgo.Record) { out[string(r.Key)] = append(out[string(r.Key)], r) })
	}
	return out
}

// verified fails the test unless verify proves the state of a configuration.
func verified(b *daemontest.Bench, path string) {
	b.T.Helper()
	conf, err := config.Load(path)
	if err != nil {
		b.T.Fatal(err)
	}
	m := &conf.Models[0]
	r, err := verify.Run(b.T.Context(),
		verify.Options{Model: m, Dir: conf.StatePath(m), Kafka: &conf.Kafka, Log: daemontest.Quiet()})
	if err != nil || !r.Summary.OK || r.Summary.Lost+r.Summary.Double > 0 {
		b.T.Fatalf("verify: %+v, %v", r, err)
	}
}

// TestDeadLetters (D1): with one record in ten undecodable, each of them gets to the dead-letter topic with its key and
// its headers, and nothing else does.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), rejectedTopic, 2, 0); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(21, 1))
	values, reasons := daemontest.Spoiled(3000, func() []byte { return daemontest.Rating(r) }, daemontest.Malformed)
	values = append(values, nil)
	b.Produce(values...)
	long := &kgo.Record{Topic: daemontest.Topic, Key: bytes.Repeat([]byte("k"), 3000),
		Value: bytes.Repeat([]byte("v"), 3000)}
	framed := &kgo.Record{Topic: daemontest.Topic, Value: []byte("no\xffJSON"), Headers: []kgo.RecordHeader{
		{Key: "__value_schema_id", Value: []byte("\x00\x00\x00\x00\x07")}, {Key: "trace"},
		{Key: "trace", Value: []byte("t")}}}
	if err := b.Kafka.ProduceSync(t.Context(), long, framed).FirstErr(); err != nil {
		t.Fatal(err)
	}
	path := b.Configure("d", withLetters(10_000)...)
	o := b.Run(path)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	letters := letters(b, 303)
	at := func(r *kgo.Record) string { return fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset) }
	if l := letters[at(long)][0]; len(l.Value) != 1024 || len(headerOf(l, "key")) != 1024 ||
		headerOf(l, "key_size") != "3000" || headerOf(l, "size") != "3000" || headerOf(l, "headers") != "0" {
		t.Errorf("a long one: %d bytes, headers %q", len(l.Value), l.Headers)
	}
	if l := letters[at(framed)][0]; string(l.Value) != string(framed.Value) || headerOf(l, "key_size") != "-1" ||
		headerOf(l, "headers") != "3" || headerOf(l, "header.__value_schema_id") != "\x00\x00\x00\x00\x07" ||
		headerOf(l, "header.trace") != "t" || l.Headers[len(l.Headers)-2].Value != nil {
		t.Errorf("one with headers: %q, %q", l.Value, l.Headers)
	}
	delete(letters, at(long))
	delete(letters, at(framed))
	written := make(map[string]int) // how often each value was sent in vain, by its key
	for i, v := range values {
		written[fmt.Sprintf("%d %s", i, v)]++
	}
	for key, list := range letters {
		h := make(map[string]string)
		for _, header := range list[0].Headers {
			h[header.Key] = string(header.Value)
		}
		if len(list) != 1 || key != h["topic"]+"/"+h["partition"]+"/"+h["offset"] || h["topic"] != daemontest.Topic ||
			h["model"] != "ratings" {
			t.Errorf("%d copies of %s: %v", len(list), key, h)
		}
		if h["reason"] == "wrong_type" &&
			(h["field"] != "item" || h["expected"] != "a string or a whole number" || h["got"] != "an object") ||
			h["reason"] == "not_object" && (h["field"] != "" || h["got"] != "a list") {
			t.Errorf("headers %q", h)
		}
		reasons[h["reason"]]--
		written[h["key"]+" "+string(list[0].Value)]--
		if (list[0].Value == nil) != (h["reason"] == "null_value") {
			t.Errorf("%s: %d bytes", h["reason"], len(list[0].Value))
		}
	}
	reasons["null_value"]++
	for reason, n := range reasons {
		if n != 0 {
			t.Errorf("%d letters too few for %s", n, reason)
		}
	}
	left := 0
	for _, n := range written {
		left += n
	}
	if left != 2700 {
		t.Errorf("%d values are not among the letters, want the 2700 good ones", left)
	}
	if got := daemontest.Balanced(t, o.State(t)); got != 2700 {
		t.Errorf("%d applied", got)
	}
	verified(b, path)
}

// headerOf returns the value of the last header of a name.
func headerOf(r *kgo.Record, name string) (value string) {
	for _, h := range r.Headers {
		if h.Key == name {
			value = string(h.Value)
		}
	}
	return value
}

// refuseTopics keeps the daemon from creating topics; the test still can.
func refuseTopics(b *daemontest.Bench) {
	cluster := b.Broker.Cluster()
	cluster.ControlKey(kmsg.CreateTopics.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if req := req.(*kmsg.CreateTopicsRequest); req.Topics[0].ReplicationFactor > 0 {
			return nil, nil, false
		}
		answer := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		refused := kmsg.NewCreateTopicsResponseTopic()
		refused.Topic, refused.ErrorCode = rejectedTopic, kerr.TopicAuthorizationFailed.Code
		answer.Topics = append(answer.Topics, refused)
		return answer, nil, true
	})
}

// TestOutboxIsFull (D2): without a topic to send to, reading stops where the outbox is full, and /-/ready says why;
// it continues when there is one.
func TestOutboxIsFull(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	r := rand.New(rand.NewPCG(22, 1))
	bad := func(n int) (out [][]byte) {
		for i := range n {
			out = append(out, fmt.Appendf(nil, "rubbish %d", i), daemontest.Rating(r))
		}
		return out
	}
	b.Produce(bad(200)...)
	refuseTopics(b)
	path := b.Configure("f", withLetters(50)...)
	d, stop := b.Start(path)
	base := "http://" + d.Addr()
	daemontest.Within(t, daemontest.Patience, "the pause in words", func() bool {
		status, body := daemontest.Get(t, base+"/-/ready")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "paused at offset") &&
			strings.Contains(body, "input.dead_letter.max_rows") &&
			strings.Contains(body, "the cluster has no topic rejected")
	})
	_, metrics := daemontest.Get(t, base+"/metrics")
	if rejected, pending := daemontest.Sum(t, metrics, "refitd_events_rejected_total"),
		daemontest.Sum(t, metrics, "refitd_dead_letters_pending"); rejected != 50 || pending != 50 {
		t.Errorf("%g rejected, %g pending, want 50: what does not fit is not read", rejected, pending)
	}
	if daemontest.Sum(t, metrics, "refitd_consumer_paused_partitions") == 0 ||
		daemontest.Sum(t, metrics, "refitd_dead_letter_failures_total") == 0 {
		t.Error("the metrics do not show the pause")
	}
	if err := b.Broker.CreateTopic(t.Context(), rejectedTopic, 1, 0); err != nil {
		t.Fatal(err)
	}
	daemontest.Within(t, daemontest.Patience, "everything applied and sent", func() bool {
		status, _ := daemontest.Get(t, base+"/-/ready")
		_, metrics = daemontest.Get(t, base+"/metrics")
		return status == http.StatusOK && daemontest.Sum(t, metrics, "refitd_dead_letters_sent_total") == 200 &&
			daemontest.Sum(t, metrics, "refitd_events_total") == 200
	})
	stop()
	if n := len(letters(b, 200)); n != 200 {
		t.Errorf("%d letters", n)
	}
	verified(b, path)
}

// TestOutboxIsFullAtTheEnd: a run to the log ends cannot wait for ever; it halts its partitions, and loses nothing.
func TestOutboxIsFullAtTheEnd(t *testing.T) {
	tier.Need(t, tier.Long) // a bounded run waits 20 s for a full outbox before it halts
	t.Parallel()
	b := daemontest.New(t)
	b.Produce(bytes.Split([]byte(strings.TrimSuffix(strings.Repeat("rubbish\n", 100), "\n")), []byte("\n"))...)
	refuseTopics(b)
	path := b.Configure("e", withLetters(10)...)
	o := b.Run(path)
	if report.CodeOf(o.Err) != report.ExitHalted || o.Count("halt") == 0 ||
		o.Summary.Models[0].State.RejectedByReason["not_json"] != 10 {
		t.Fatalf("%d halts, %v, %+v", o.Count("halt"), o.Err, o.Summary)
	}
	if err := b.Broker.CreateTopic(t.Context(), rejectedTopic, 1, 0); err != nil {
		t.Fatal(err)
	}
	if o = b.Run(path); o.Err != nil || o.Summary.Models[0].State.RejectedByReason["not_json"] != 100 {
		t.Errorf("after there is a topic: %v, %+v", o.Err, o.Summary)
	}
	letters(b, 100)
	verified(b, path)
}

// TestKilledWithLetters (D3): whenever the daemon is killed, every rejected record has at least one letter in the end.
func TestKilledWithLetters(t *testing.T) {
	t.Parallel()
	n, kills := tier.Size(8000, 20_000), tier.Size(2, 6)
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), rejectedTopic, 1, 0); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(23, 1))
	values := make([][]byte, n)
	for i := range values {
		if values[i] = daemontest.Rating(r); i%4 == 0 {
			values[i] = fmt.Appendf(nil, "rubbish %d", i)
		}
	}
	b.Produce(values...)
	path := b.Configure(
		"k",
		withLetters(500, "fetch_max_wait: 100ms", "fetch_max_wait: 100ms, max_partition_fetch_bytes: 16KiB",
			"lambda: auto", "lambda: 3", "max_basis: 4", "max_basis: 2")...)
	seed := uint64(time.Now().UnixNano())
	t.Logf("kill seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	reading := 0
	for range kills {
		if daemontest.KillAfter(t, path, 1+rng.IntN(n/(2*kills))) {
			reading++
		}
	}
	if t.Logf("%d of %d kills while there was more to read", reading, kills); reading == 0 {
		t.Error("no kill came in time: produce more events")
	}
	cmd, stderr := daemontest.ChildOf(t, path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	got := daemontest.Parse(t, out, nil)
	if applied := daemontest.Balanced(t, got.State(t)); applied != int64(n*3/4) {
		t.Errorf("%d applied, want %d", applied, n*3/4)
	}
	copies := 0
	for _, list := range letters(b, n/4) {
		copies += len(list) - 1
	}
	t.Logf("%d of %d letters were sent again", copies, n/4)
	text, err := json.Marshal(got.State(t).RejectedByReason)
	if want := fmt.Sprintf(`{"not_json":%d}`, n/4); err != nil || string(text) != want {
		t.Errorf("rejected %s, want %s", text, want)
	}
	verified(b, path)
}

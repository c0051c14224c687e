package announce

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/kafkasource"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

const (
	model = "ratings"
	topic = "models"
)

// bench is a store and a broker.
type bench struct {
	t       *testing.T
	cluster *kfake.Cluster
	kafka   []kgo.Opt
	client  *kgo.Client
	dir     string
	store   *publish.Store
	log     strings.Builder
	logger  *slog.Logger
	mu      sync.Mutex          // guards log
	last    *kafkasource.Source // of watch
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	b.store = publish.NewStore(b.dir)
	b.logger = slog.New(slog.NewTextHandler(writer{b}, nil))
	var err error
	if b.cluster, err = kfake.NewCluster(kfake.NumBrokers(1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.cluster.Close)
	b.kafka = []kgo.Opt{kgo.SeedBrokers(b.cluster.ListenAddrs()...)}
	if b.client, err = kgo.NewClient(b.kafka...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.client.Close)
	return b
}

// writer keeps the log of a bench.
type writer struct{ *bench }

func (w writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (b *bench) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

// publish publishes a version and makes it the champion.
func (b *bench) publish() int64 {
	b.t.Helper()
	c := &format.Contents{Kernel: format.ANOVA, Link: format.Identity, NumFeatures: 2, NumOutputs: 1,
		Schema: snapshot.Schema{
			Task:        format.Regression,
			Label:       "y",
			Categorical: []string{"id"},
		}, Vocabulary: [][]string{{"a", "b"}},
		Linear: []float64{
			rand.Float64(),
			1,
		}, Bias: []float64{0.5}, Meta: format.Meta{Writer: "test", Created: time.Now(), Kind: "refit",
			Decision: "promoted"},
		Golden: []format.Golden{{Input: snapshot.Input{Categorical: []string{"a"}}}}}
	m, err := b.store.Publish(b.t.Context(), model, c, publish.Move{Alias: pointer.Champion})
	if err != nil {
		b.t.Fatal(err)
	}
	return m.Version
}

func (b *bench) pointer() snapshot.Pointer {
	b.t.Helper()
	p, err := b.store.Alias(model, pointer.Champion)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// announcer runs an announcer until stop is called or the test ends.
func (b *bench) announcer(inline int64) (results func() (ok, failed int), stop func()) {
	var mu sync.Mutex
	var good, bad int
	a := New(
		Options{
			Kafka:  b.kafka,
			Topic:  topic,
			Model:  model,
			Dir:    b.dir,
			Store:  b.store,
			Inline: inline,
			Log:    b.logger,
			OnResult: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					bad++
				} else {
					good++
				}
			},
		},
	)
	a.limit = time.Second
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	b.t.Cleanup(stop)
	return func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return good, bad
	}, stop
}

// source runs a source until the test ends.
func (b *bench) source(files snapshot.Source, keys ...snapshot.Keys) *kafkasource.Source {
	b.t.Helper()
	var trusted snapshot.Keys
	if len(keys) > 0 {
		trusted = keys[0]
	}
	s, err := kafkasource.NewSource(b.kafka, topic, files, trusted, b.logger)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	b.t.Cleanup(func() {
		cancel()
		<-done
	})
	return s
}

// wait is Source.Wait within the test's patience.
func (b *bench) wait(s *kafkasource.Source, last snapshot.Pointer) snapshot.Pointer {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	p, err := s.Wait(ctx, model, pointer.Champion, last)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) within(what string, f func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: not within %v\n%s", what, patience, b.logged())
		}
		<-tick.C
	}
}

// produce writes records as they are.
func (b *bench) produce(records ...*kgo.Record) {
	b.t.Helper()
	if err := b.client.ProduceSync(b.t.Context(), records...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// records reads the whole topic.
func (b *bench) records() (list []*kgo.Record) {
	b.t.Helper()
	ends, err := kadm.NewClient(b.client).ListEndOffsets(b.t.Context(), topic)
	if err != nil {
		b.t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	reader, err := kgo.NewClient(
		append(b.kafka,
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer reader.Close()
	for last := int64(-1); last+1 < end.Offset; {
		reader.PollFetches(b.t.Context()).EachRecord(func(r *kgo.Record) {
			list, last = append(list, r), r.Offset
		})
	}
	return list
}

func (b *bench) settings() map[string]string {
	b.t.Helper()
	found, err := settingsOf(b.t.Context(), b.client, topic)
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// TestAnnounced: every champion is announced in a compacted topic, with what a consumer needs to choose and to verify
// it, and a watcher that follows the topic serves it.
func TestAnnounced(t *testing.T) {
	b := newBench(t)
	b.publish()
	results, _ := b.announcer(0)
	b.within("the first announcement", func() bool { ok, _ := results(); return ok == 1 })
	if got := b.settings(); got[cleanupPolicy] != compact {
		t.Errorf("the topic has %v", got)
	}
	w, err := snapshot.Watch(b.source(snapshot.DirSource{Dir: b.dir}), snapshot.WatchOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b.within("the first model", func() bool { return w.Model() != nil })
	slowest := time.Duration(0)
	for range 5 {
		published := time.Now()
		version := b.publish()
		b.within("the next model", func() bool { return w.Model().Manifest().Version == version })
		slowest = max(slowest, time.Since(published))
	}
	t.Logf("publish to loaded by a watcher: %v at most (bar 1s)", slowest)
	if _, err := b.store.MoveAlias(t.Context(), model, publish.Move{Alias: pointer.Champion, To: 2,
		Event: publish.EventRollback}); err != nil {
		t.Fatal(err)
	}
	b.within("the rollback", func() bool { return w.Model().Manifest().Version == 2 })
	for i, r := range b.records() {
		if codec := r.Attrs.CompressionType(); codec != 1 {
			t.Errorf("record %d is compressed with codec %d, want gzip: not every client can read others", i, codec)
		}
		a, err := kafkasource.Read(r)
		if err != nil {
			t.Fatal(err)
		}
		m, err := b.store.Manifest(model, a.Version)
		if err != nil {
			t.Fatal(err)
		}
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		if string(r.Key) != model || headers[kafkasource.FormatHeader] != "1" ||
			headers[kafkasource.VersionHeader] != fmt.Sprint(a.Version) ||
			a.ManifestDigest != m.Digest ||
			a.Digest != m.PayloadDigest || len(a.Files) != 3 ||
			a.Summary.Kind != "refit" ||
			a.Inline != nil {
			t.Errorf("record %d: %v %+v", i, headers, a)
		}
	}
}

// TestLateJoiner: E11. Whatever a topic holds, in whatever order and however often, a consumer that joins gets the last
// announcement and nothing before it.
func TestLateJoiner(t *testing.T) {
	b := newBench(t)
	var records []*kgo.Record
	for range 6 {
		b.publish()
		p := b.pointer()
		m, err := b.store.Manifest(model, p.Version)
		if err != nil {
			t.Fatal(err)
		}
		r, err := kafkasource.Announce(pointer.Champion, p, &m).Record(topic)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	policy := compact
	if _, err := kadm.NewClient(b.client).CreateTopic(t.Context(), 1, 1, map[string]*string{cleanupPolicy: &policy},
		topic); err != nil {
		t.Fatal(err)
	}
	copyOf := func(i int, change func(r *kgo.Record)) *kgo.Record {
		r := &kgo.Record{Topic: topic, Key: records[i].Key, Value: records[i].Value, Headers: records[i].Headers}
		if change != nil {
			change(r)
		}
		return r
	}
	b.produce(
		copyOf(5, nil),
		copyOf(1, nil),
		copyOf(5, nil),
		copyOf(4, nil),
		copyOf(0, nil),
		copyOf(3, func(r *kgo.Record) { r.Value = nil }),                // a tombstone
		copyOf(3, func(r *kgo.Record) { r.Value = []byte("nonsense") }), // not an announcement
		copyOf(3, func(r *kgo.Record) { r.Headers = nil }),              // from somebody else
		copyOf(
			3,
			func(r *kgo.Record) {
				r.Headers = []kgo.RecordHeader{{Key: kafkasource.FormatHeader, Value: []byte("2")}}
			},
		), // of a later build
		copyOf(3, func(r *kgo.Record) { r.Key = []byte("other") }), // of another model
		copyOf(3, func(r *kgo.Record) {
			r.Value = []byte(strings.Replace(string(r.Value), `"sequence":4`, `"sequence":400`, 1))
		}), // altered
		copyOf(2, nil),
	)
	s := b.source(snapshot.DirSource{Dir: b.dir})
	first := b.wait(s, snapshot.Pointer{})
	if first.Version != 6 {
		t.Errorf("the first announcement of a late joiner is of version %d, want 6", first.Version)
	}
	// A duplicate or an old record later on is no news either.
	b.produce(copyOf(5, nil), copyOf(0, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if p, err := s.Wait(ctx, model, pointer.Champion, first); err == nil {
		t.Errorf("after duplicates: version %d", p.Version)
	}
	if _, err := s.Wait(t.Context(), "other", pointer.Champion, snapshot.Pointer{}); err == nil {
		t.Error("another model was announced")
	}
	if _, err := s.Wait(t.Context(), model, "latest", snapshot.Pointer{}); err == nil {
		t.Error("another alias was announced")
	}
	if n := strings.Count(b.logged(), "record skipped"); n != 5 {
		t.Errorf("%d records passed over, want 5:\n%s", n, b.logged())
	}
}

// TestInline: under the limit a consumer needs nothing but the topic; a topic that takes smaller records, and a version
// over the limit, are announced without files.
func TestInline(t *testing.T) {
	b := newBench(t)
	b.publish()
	results, stop := b.announcer(1 << 20)
	b.within("the announcement", func() bool { ok, _ := results(); return ok == 1 })
	w, err := snapshot.Watch(b.source(nil), snapshot.WatchOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b.within("a model from the topic alone", func() bool { return w.Model() != nil })
	stop()

	b.publish()
	results, stop = b.announcer(10)
	b.within("the announcement without files", func() bool { ok, _ := results(); return ok == 1 })
	stop()
	list := b.records()
	if a, err := kafkasource.Read(list[len(list)-1]); err != nil || a.Version != 2 || a.Inline != nil {
		t.Errorf("over the limit: %+v, %v", a, err)
	}

	// The topic takes records of 1,000 bytes less than the files need.
	small := "1000"
	if _, err := kadm.NewClient(b.client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig,
		Name: maxMessageBytes, Value: &small}},
		topic); err != nil {
		t.Fatal(err)
	}
	b.publish()
	b.announcer(1 << 20)
	b.within("the warning",
		func() bool { return strings.Contains(b.logged(), "smaller records than publish.inline_max") })
}

// TestTopicIsLookedAt: a topic that is not compacted is used, and the log warns the operator.
func TestTopicIsLookedAt(t *testing.T) {
	b := newBench(t)
	policy := "delete"
	if _, err := kadm.NewClient(b.client).CreateTopic(t.Context(), 1, 1, map[string]*string{cleanupPolicy: &policy},
		topic); err != nil {
		t.Fatal(err)
	}
	b.cluster.ControlKey(
		kmsg.CreateTopics.Int16(),
		func(req kmsg.Request) (kmsg.Response, error, bool) { // nobody may create topics
			answer := req.ResponseKind().(*kmsg.CreateTopicsResponse)
			refused := kmsg.NewCreateTopicsResponseTopic()
			refused.Topic, refused.ErrorCode = topic, kerr.TopicAuthorizationFailed.Code
			answer.Topics = append(answer.Topics, refused)
			return answer, nil, true
		},
	)
	b.publish()
	results, _ := b.announcer(0)
	b.within("the announcement", func() bool { ok, _ := results(); return ok == 1 })
	if !strings.Contains(b.logged(), "not only compacted") || !strings.Contains(b.logged(), "cleanup.policy=delete") {
		t.Error(b.logged())
	}
}

// TestTopicDeleted: a topic that was deleted is made again, compacted.
func TestTopicDeleted(t *testing.T) {
	b := newBench(t)
	b.publish()
	results, _ := b.announcer(0)
	b.within("the first announcement", func() bool { ok, _ := results(); return ok == 1 })
	if _, err := kadm.NewClient(b.client).DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	b.publish()
	b.within("the second announcement", func() bool { ok, _ := results(); return ok == 2 })
	if got := b.settings(); got[cleanupPolicy] != compact {
		t.Errorf("the topic has %v", got)
	}
}

// TestBrokerAway: E12. Versions are published while no broker answers; once one does, the last of them is announced,
// and none was announced with two payloads.
func TestBrokerAway(t *testing.T) {
	b := newBench(t)
	b.publish()
	results, stop := b.announcer(0)
	b.within("the first announcement", func() bool { ok, _ := results(); return ok == 1 })
	var away atomic.Bool
	away.Store(true)
	b.cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		return nil, io.EOF, away.Load() // ends the connection
	})
	for range 3 {
		b.publish()
	}
	b.within("a failure", func() bool { _, failed := results(); return failed > 0 })
	before, _ := results()
	lifted := time.Now()
	away.Store(false)
	b.within("the announcement after the failure", func() bool { ok, _ := results(); return ok > before })
	t.Logf("announced %v after the broker was back (bar 60s)", time.Since(lifted))
	stop()
	digests := map[int64]string{}
	var last *kafkasource.Announcement
	for _, r := range b.records() {
		a, err := kafkasource.Read(r)
		if err != nil {
			t.Fatal(err)
		}
		if d, seen := digests[a.Version]; seen && d != a.Digest {
			t.Errorf("version %d was announced with %s and %s", a.Version, d, a.Digest)
		}
		digests[a.Version], last = a.Digest, a
	}
	if last.Version != 4 {
		t.Errorf("the last announcement is of version %d, want 4", last.Version)
	}
	if strings.Count(b.logged(), "champion not announced: tried again") != 1 {
		t.Errorf("one line for one outage:\n%s", b.logged())
	}
}

// TestLastChampion: what was promoted just before the end is announced before Run returns.
func TestLastChampion(t *testing.T) {
	b := newBench(t)
	b.publish()
	results, stop := b.announcer(0)
	b.within("the first announcement", func() bool { ok, _ := results(); return ok == 1 })
	version := b.publish()
	stop()
	list := b.records()
	if a, err := kafkasource.Read(list[len(list)-1]); err != nil || a.Version != version {
		t.Errorf("last announced: %+v, %v", a, err)
	}
}

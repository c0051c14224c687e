package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

const merge = "merge"

// configure writes the configuration of a member of a team, or of one process without a role.
func configure(b *daemontest.Bench, name, role string) string {
	return configureOn(b, merge, name, role)
}

// configureOn is configure with a merge topic of another name.
func configureOn(b *daemontest.Bench, topic, name, role string) string {
	models := "models:"
	if role, keys, ok := strings.Cut(role, ", "); ok {
		models = role + "\nshard: {" + keys + ", topic: " + topic + "}\nmodels:"
	}
	edit := []string{
		"group_id: g-" + name,
		"group_id: g-" + role[:min(1, len(role))],
		"size: 20000",
		"size: 300",
		"models:",
		models,
	}
	return b.Configure(name, append(edit, daemontest.Simple...)...)
}

// compare fails the test unless the trainer has the rows and the accounts of one process that read everything.
func compare(t *testing.T, what string, trainer, whole daemontest.Outcome) {
	t.Helper()
	got, want := trainer.State(t), whole.State(t)
	for _, c := range []struct {
		what      string
		got, want any
	}{{"digest", got.SampleDigest, want.SampleDigest}, {"rows", got.Rows, want.Rows}, {"accounts", got.Partitions,
		want.Partitions},
		{"reasons", got.RejectedByReason, want.RejectedByReason}} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %s %v, one process has %v", what, c.what, c.got, c.want)
		}
	}
}

// TestTeam: three shards and a trainer have the sample and the accounts of one process, also when they continue after
// a stop, and when the trainer lost its state and begins with what the topic has. The trainer's version is cut from
// the same sample.
func TestTeam(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	whole := configure(b, "whole", "")
	trainer := configure(b, "trainer", "role: trainer, count: 3")
	var shards []string
	for i := range 3 {
		shards = append(shards,
			configure(b, fmt.Sprint("shard", i), fmt.Sprintf("role: shard, count: 3, index: %q", fmt.Sprint(i))))
	}
	run := func(what string) {
		t.Helper()
		for i, path := range shards {
			out := b.Run(path)
			if out.Err != nil {
				t.Fatalf("%s: shard %d: %v", what, i, out.Err)
			}
			if s := out.State(t); out.Count("version") > 0 || len(s.Partitions) != []int{2, 1, 1}[i] {
				t.Errorf("%s: shard %d has %d versions and %d partitions", what, i, out.Count("version"),
					len(s.Partitions))
			}
		}
		merged, one := b.Run(trainer), b.Run(whole)
		if merged.Err != nil || one.Err != nil {
			t.Fatalf("%s: %v, %v", what, merged.Err, one.Err)
		}
		compare(t, what, merged, one)
		heads := merged.State(t).Shards
		if len(heads) != 3 || len(one.State(t).Shards) > 0 {
			t.Errorf("%s: heads %v, and %v of one process", what, heads, one.State(t).Shards)
		}
		for i, h := range heads {
			if h.Shard != i || h.Host == "" || h.Written.IsZero() || h.Epoch == 0 || h.Sent == 0 || h.Lag != 0 {
				t.Errorf("%s: head %d is %+v", what, i, h)
			}
		}
		if merged.Count("version") != 1 || one.Count("version") != 1 {
			t.Errorf("%s: %d versions, one process has %d", what, merged.Count("version"), one.Count("version"))
		}
	}
	b.ProduceRatings(1, 2000)
	b.Produce([]byte("no event"), []byte(`{"user":"u1","item":"i1","rating":9,"ts":1}`))
	run("first")
	b.ProduceRatings(2, 1000)
	run("second") // with the thresholds that the trainer has come to
	if err := os.RemoveAll(filepath.Join(b.Dir, "state-trainer")); err != nil {
		t.Fatal(err)
	}
	b.ProduceRatings(3, 500)
	run("a trainer made anew")
}

// A member is a store with its options, for tests without a daemon.
func store(t *testing.T, o sketch.Options) *sketch.Store {
	t.Helper()
	if o.Size == 0 {
		o.Size = 50
	}
	s, err := sketch.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// feed applies events to a partition.
func feed(s *sketch.Store, partition int32, n int) error {
	if err := s.Begin("a", partition, 0); err != nil {
		return err
	}
	from, _ := s.Position("a", partition)
	p := &sketch.Part{Topic: "a", Partition: partition, Base: from, Next: from + int64(n)}
	for i := range n {
		p.Records = append(p.Records,
			sketch.Record{Offset: from + int64(i), Fate: sketch.Applied, Weight: 1, Payload: []byte("x")})
	}
	return s.Apply(p, nil)
}

func apply(t *testing.T, s *sketch.Store, partition int32, n int) {
	t.Helper()
	if err := feed(s, partition, n); err != nil {
		t.Fatal(err)
	}
}

type rig struct {
	*testing.T
	*daemontest.Bench
}

func (r rig) kafka() []kgo.Opt { return []kgo.Opt{kgo.SeedBrokers(r.Addr)} }

func (r rig) sender(number int, s *sketch.Store, edit func(*shard.SenderOptions)) *shard.Sender {
	o := shard.SenderOptions{
		Kafka:  r.kafka(),
		Topic:  merge,
		Model:  "m",
		Count:  2,
		Number: number,
		Store:  s,
		Log:    daemontest.Quiet(),
		Forget: func(context.Context, *sketch.Witness) error { return nil },
	}
	if edit != nil {
		edit(&o)
	}
	return shard.NewSender(o)
}

// send sends what a store has.
func (r rig) send(number int, s *sketch.Store, edit func(*shard.SenderOptions)) {
	r.Helper()
	sender, done := r.sender(number, s, edit), make(chan struct{})
	close(done)
	if err := sender.Prepare(r.Context()); err != nil {
		r.Fatal(err)
	}
	if err := sender.Run(r.Context(), done); err != nil {
		r.Fatal(err)
	}
}

// running returns a receiver of two shards that runs until the test ends, without an error.
func (r rig) running(t *testing.T, s *sketch.Store) *shard.Receiver {
	t.Helper()
	receiver, ended := r.receiver(s, 2), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- receiver.Run(ctx, false) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return receiver
}

func (r rig) receiver(s *sketch.Store, count int, edit ...func(*shard.ReceiverOptions)) *shard.Receiver {
	o := shard.ReceiverOptions{
		Kafka:   r.kafka(),
		Topic:   merge,
		Model:   "m",
		Count:   count,
		Store:   s,
		Log:     daemontest.Quiet(),
		MaxSkew: 5 * time.Minute,
		Values:  func(string, []byte) ([][]byte, error) { return nil, nil },
		Owns:    func(number int, _ string, partition int32) bool { return int(partition)%count == number },
	}
	for _, f := range edit {
		f(&o)
	}
	return shard.NewReceiver(o)
}

// TestRefused: what is not of the same sample is not merged, and the trainer says so; what is of it is merged.
func TestRefused(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	good := sketch.Options{Seed: 7, Mirror: true}
	trainer := store(t, sketch.Options{Seed: 7, Merges: true})
	for _, test := range []struct {
		what    string
		options sketch.Options
		number  int
		edit    func(*shard.SenderOptions)
		reason  string
	}{
		{"seed", sketch.Options{Seed: 8, Mirror: true}, 0, nil, "Seed is 8"},
		{"size", sketch.Options{Seed: 7, Size: 51, Mirror: true}, 0, nil, "Size is 51"},
		{"half-life", sketch.Options{Seed: 7, HalfLife: 5e9, Mirror: true}, 0, nil, "HalfLife is 5s"},
		{"count", good, 0, func(o *shard.SenderOptions) { o.Count = 3 }, "shard.count 3, the trainer 2"},
		{"model", good, 0, func(o *shard.SenderOptions) { o.Model = "other" }, `of model "other"`},
		{"partition", good, 1, nil, "a/0, which is no partition of shard 1 of 2"},
	} {
		s := store(t, test.options)
		apply(t, s, 0, 100)
		r.send(test.number, s, test.edit)
		receiver := r.receiver(trainer, 2)
		if err := receiver.Run(t.Context(), true); err != nil {
			t.Fatalf("%s: %v", test.what, err)
		}
		if got := receiver.Status()[test.number].Refused; !strings.Contains(got, test.reason) ||
			receiver.Trouble() == "" {
			t.Errorf("%s: refused for %q, want %q", test.what, got, test.reason)
		}
		if n := len(trainer.Ledger()); n != 0 {
			t.Errorf("%s: the trainer has %d partitions", test.what, n)
		}
	}
	s := store(t, good)
	apply(t, s, 0, 100)
	r.send(0, s, nil)
	receiver := r.receiver(trainer, 2)
	if err := receiver.Run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if next, _ := trainer.Position("a", 0); next != 100 || receiver.Status()[0].Refused != "" {
		t.Errorf("the trainer is at %d, %+v", next, receiver.Status())
	}
	if got := receiver.Trouble(); !strings.Contains(got, "shard 1 of 2") {
		t.Errorf("trouble %q, want that of shard 1", got)
	}
}

// TestTopicRefused: a topic that loses rows, or has more than one partition, is not written to.
func TestTopicRefused(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	client, err := kgo.NewClient(r.kafka()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin, policy := kadm.NewClient(client), "delete"
	for _, test := range []struct {
		topic      string
		partitions int32
		reason     string
	}{{"deletes", 1, "cleanup.policy delete"}, {"wide", 2, "2 partitions"}} {
		if _, err := admin.CreateTopic(t.Context(), test.partitions, 1, map[string]*string{"cleanup.policy": &policy},
			test.topic); err != nil {
			t.Fatal(err)
		}
		err := r.sender(0, store(t, sketch.Options{Seed: 7, Mirror: true}), func(
			o *shard.SenderOptions) {
			o.Topic = test.topic
		}).
			Prepare(t.Context())
		if !errors.Is(err, shard.ErrTopic) || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: %v, want %q", test.topic, err, test.reason)
		}
	}
}

// TestLongSegments: a topic of which superseded records stay for days is used, and the trainer says what to set; of one
// that is made here it says nothing, and neither do shards, of which there are many.
func TestLongSegments(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	client, err := kgo.NewClient(r.kafka()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	policy, days := "compact", "604800000"
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy,
		"segment.ms": &days}, "long"); err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]bool{"long": true, merge: false} {
		for range 2 { // made by the first
			var log bytes.Buffer
			logged := func() bool { return strings.Contains(log.String(), "segment.ms=604800000 want=600000") }
			logger := slog.New(slog.NewTextHandler(&log, nil))
			if err := r.sender(0, store(t, sketch.Options{Seed: 7, Mirror: true}), func(o *shard.SenderOptions) {
				o.Topic,
					o.Log = topic, logger
			}).
				Prepare(t.Context()); err != nil ||
				logged() {
				t.Fatalf("%s: a shard: %v, %s", topic, err, &log)
			}
			trainer := r.receiver(store(t, sketch.Options{Seed: 7, Merges: true}), 1,
				func(o *shard.ReceiverOptions) { o.Topic, o.Log = topic, logger })
			if err := trainer.Run(t.Context(), true); err != nil || logged() != want {
				t.Errorf("%s: the trainer: %v, says so %v, want %v: %s", topic, err, logged(), want, &log)
			}
		}
	}
}

// TestSuperseded: of two processes that are the same shard the one that was started first ends, with the name of the
// other's host.
func TestSuperseded(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	first := store(t, sketch.Options{Seed: 7, Mirror: true})
	apply(t, first, 0, 10)
	sent, ended := make(chan struct{}), make(chan error, 1)
	begun := sync.OnceFunc(func() { close(sent) })
	sender := r.sender(0, first, func(o *shard.SenderOptions) { o.OnSent = func(int, int64) { begun() } })
	if err := sender.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- sender.Run(t.Context(), make(chan struct{})) }()
	<-sent // else neither would know which was started first
	second := store(t, sketch.Options{Seed: 7, Mirror: true})
	apply(t, second, 0, 20)
	var err error
	daemontest.Within(t, daemontest.Patience, "the first to end", func() bool {
		apply(t, second, 0, 1)
		r.send(0, second, nil)
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	host, _ := os.Hostname()
	if !errors.Is(err, shard.ErrSuperseded) || !strings.Contains(err.Error(), host) {
		t.Errorf("the first ended with %v", err)
	}
}

// TestThresholds: shards take up the thresholds that the trainer has come to, and send less for it; those of a trainer
// of another sample they do not.
func TestThresholds(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	trainer, shards := store(t, sketch.Options{Seed: 7, Merges: true}), []*sketch.Store{}
	for i := range 2 {
		s := store(t, sketch.Options{Seed: 7, Mirror: true})
		apply(t, s, int32(i), 1000)
		r.send(i, s, nil)
		shards = append(shards, s)
	}
	if err := r.receiver(trainer, 2).Run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	want, total := trainer.Thresholds(), 0
	for i, s := range shards {
		r.send(i, s, nil)
		if got := s.Thresholds(); !reflect.DeepEqual(got, want) {
			t.Errorf("shard %d has thresholds %v, the trainer %v", i, got, want)
		}
		rows, _ := s.Size()
		total += rows[sketch.Train]
	}
	if rows, _ := trainer.Size(); total > rows[sketch.Train]+1 { // the one that was put out last has the threshold's rank
		t.Errorf("the shards have %d rows, the trainer %d", total, rows[sketch.Train])
	}
	if other := store(t, sketch.Options{Seed: 7, Size: 10, Mirror: true}); true {
		apply(t, other, 0, 1000)
		before := other.Thresholds()
		r.send(0, other, nil)
		if got := other.Thresholds(); !reflect.DeepEqual(got, before) {
			t.Errorf("a shard of another sample took thresholds %v for %v", got, before)
		}
	}
}

// TestLostRows: where the topic has lost rows before a head, the trainer does not merge it, and the shard sends
// everything again.
func TestLostRows(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	apply(t, s, 0, 10)
	r.send(0, s, nil)
	apply(t, s, 0, 10)
	var lossy losing
	r.send(0, s, func(o *shard.SenderOptions) { o.Kafka = append(r.kafka(), kgo.WithHooks(&lossy)) })
	receiver := r.receiver(trainer, 2)
	if err := receiver.Run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if got := receiver.Trouble(); lossy.lost == 0 || !strings.Contains(got, "not in the topic") {
		t.Fatalf("%d rows lost, trouble %q", lossy.lost, got)
	}
	if next, _ := trainer.Position("a", 0); next != 10 {
		t.Errorf("the trainer is at %d", next)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	sender := r.sender(0, s, nil)
	if err := sender.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- sender.Run(ctx, make(chan struct{})) }()
	go func() { ended <- receiver.Run(ctx, false) }()
	daemontest.Within(t, daemontest.Patience, "all rows", func() bool {
		next, _ := trainer.Position("a", 0)
		rows, _ := trainer.Size()
		return next == 20 && rows[sketch.Train] == 20
	})
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestForgotten: a shard that does not know of a subject that was forgotten at the trainer ends, and forgets it when
// it starts again.
func TestForgotten(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	apply(t, s, 0, 10)
	r.send(0, s, nil)
	receiver := r.receiver(trainer, 2)
	if err := receiver.Run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	sender := r.sender(0, s, nil)
	if err := sender.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	names := func(string, []byte) [][]byte { return [][]byte{[]byte("x")} }
	if _, err := trainer.ForgetSubject("user", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := trainer.Erase(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	if err := receiver.Run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := sender.Run(t.Context(), make(chan struct{})); !errors.Is(err, shard.ErrForgotten) {
		t.Fatalf("the shard ended with %v", err)
	}
	again := r.sender(0, s, func(o *shard.SenderOptions) {
		o.Forget = func(ctx context.Context, w *sketch.Witness) error {
			if err := s.RememberOf(w); err != nil {
				return err
			}
			_, err := s.Erase(ctx, names)
			return err
		}
	})
	if err := again.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows, _ := s.Size(); rows[sketch.Train] != 0 {
		t.Errorf("the shard has %d rows of the subject", rows[sketch.Train])
	}
	apply(t, s, 0, 5) // later events of the subject are events like any other
	done := make(chan struct{})
	close(done)
	if err := again.Run(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if err := receiver.Run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if next, _ := trainer.Position("a", 0); next != 15 {
		t.Errorf("the trainer is at %d: %s", next, receiver.Trouble())
	}
}

// TestClocks: what a shard sends whose clock is off is not merged, and the trainer says which one it is and by how
// much; once the clock is right all is.
func TestClocks(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	ctx, cancel := context.WithCancel(t.Context())
	receiver, ended := r.receiver(trainer, 2), make(chan error, 1)
	go func() { ended <- receiver.Run(ctx, false) }()
	daemontest.Within(t, daemontest.Patience, "the topic to be read", receiver.Current)
	for _, test := range []struct {
		by   time.Duration
		want string
	}{{-10 * time.Minute, "10m0s behind"}, {time.Hour, "1h0m0s ahead"}} {
		apply(t, s, 0, 100)
		r.send(0, s, func(o *shard.SenderOptions) { o.Now = func() time.Time { return time.Now().Add(test.by) } })
		daemontest.Within(t, daemontest.Patience, "the head", func() bool {
			text := receiver.Trouble()
			return strings.Contains(text, "shard 0 of 2") && strings.Contains(text, test.want)
		})
		if clock := receiver.Status()[0].Clock; clock == nil || (*clock-test.by).Abs() > time.Minute {
			t.Errorf("the clock is ahead by %v, want %v", clock, test.by)
		}
		if n := len(trainer.Ledger()); n != 0 {
			t.Errorf("the trainer has %d partitions", n)
		}
	}
	r.send(0, s, nil)
	daemontest.Within(t, daemontest.Patience, "everything", func() bool {
		next, _ := trainer.Position("a", 0)
		return next == 200
	})
	if rows, _ := trainer.Size(); rows[sketch.Train] != 50 {
		t.Errorf("the trainer has %d rows", rows[sketch.Train])
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// losing gives rows that are sent to a key that nobody reads, as if the topic had lost them.
type losing struct{ lost int }

func (l *losing) OnProduceRecordBuffered(r *kgo.Record) {
	if bytes.HasPrefix(r.Key, []byte("p")) {
		r.Key = []byte("lost")
		l.lost++
	}
}

package shard_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// trainerOf is a receiver that runs until stop, which returns what Run did.
func (r rig) trainerOf(s *sketch.Store, standby time.Duration,
	newest func() (int64, int64)) (receiver *shard.Receiver, stop func() error) {
	r.Helper()
	receiver = shard.NewReceiver(
		shard.ReceiverOptions{Kafka: r.kafka(), Topic: merge, Model: "m", Count: 2, Store: s, Log: daemontest.Quiet(),
			MaxSkew: 5 * time.Minute, Standby: standby, Newest: newest,
			Values: func(string, []byte) ([][]byte, error) { return nil, nil },
			Owns:   func(number int, _ string, partition int32) bool { return int(partition)%2 == number }},
	)
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan error, 2)
	go func() { ended <- receiver.Run(ctx, false) }()
	go func() { ended <- receiver.Stand(ctx) }()
	return receiver, func() error {
		cancel()
		return errors.Join(<-ended, <-ended)
	}
}

func (r rig) until(what string, f func() bool) {
	r.Helper()
	daemontest.Within(r.T, daemontest.Patience, what, f)
}

// TestTwoTrainers: of two trainers without shard.standby the one that was started first ends, and names the other's
// host and the key.
func TestTwoTrainers(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	o := sketch.Options{Seed: 7, Merges: true}
	first := r.receiver(store(t, o), 2)
	ended := make(chan error, 1)
	go func() { ended <- first.Run(t.Context(), false) }()
	r.until("the first", func() bool { return first.Term() != nil })
	second, stop := r.trainerOf(store(t, o), 0, nil)
	err := <-ended
	host, _ := os.Hostname()
	if !errors.Is(err, shard.ErrTrainers) || !strings.Contains(err.Error(), host+" is the trainer of model m, too") ||
		!strings.Contains(err.Error(), "shard.standby") {
		t.Errorf("the first ended with %v", err)
	}
	if a, b := first.Term(), second.Term(); a != nil || b == nil {
		t.Errorf("terms %+v and %+v", a, b)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestEpochs: each term has an epoch above those before it and above that of the newest version, also where the
// trainer continues in the topic behind what it said itself, and whichever trainer it is.
func TestEpochs(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	last := int64(0)
	for i, newest := range []int64{0, 0, 0, 40, 0} {
		receiver, stop := r.trainerOf(trainer, 0, func() (int64, int64) { return newest, 0 })
		r.until("a term", func() bool { return receiver.Term() != nil })
		epoch := receiver.Term().Epoch
		if epoch <= last || epoch <= newest {
			t.Errorf("run %d has epoch %d after %d, the newest version %d", i, epoch, last, newest)
		}
		last = epoch
		apply(t, s, 0, 10)
		r.send(0, s, nil)
		r.until("the rows", func() bool {
			next, _ := trainer.Position("a", 0)
			return next == int64(10*(i+1))
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLateWishes: what a trainer asks for whose term is over the shards pass over, and the one that trains asks again
// for what it wants, so that the topic keeps that.
func TestLateWishes(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	apply(t, s, 0, 1000)
	r.send(0, s, nil)
	receiver, stop := r.trainerOf(trainer, 0, nil)
	r.until("the rows",
		func() bool { next, _ := trainer.Position("a", 0); return next == 1000 && receiver.Term() != nil })
	client, err := kgo.NewClient(append(r.kafka(), kgo.ConsumeTopics(merge), kgo.DefaultProduceTopic(merge))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var wishes []map[string]any // in their order
	read := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		client.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			if string(rec.Key) != "t" {
				return
			}
			w := map[string]any{}
			if err := json.Unmarshal(rec.Value, &w); err != nil {
				t.Error(err)
			}
			wishes = append(wishes, w)
		})
	}
	full := func(w map[string]any) bool { // of the sample with all rows
		return w["merged"] == 1.0
	}
	r.until("thresholds", func() bool { read(); return len(wishes) > 0 && full(wishes[len(wishes)-1]) })
	late := map[string]any{}
	for k, v := range wishes[len(wishes)-1] {
		late[k] = v
	}
	late["by"], late["resend"], late["host"] = map[string]any{
		"epoch": 0,
		"name":  "late",
	}, map[string]any{
		"0": map[string]any{"epoch": 1, "name": "lost"},
	}, "late"
	value, err := json.Marshal(late)
	if err != nil {
		t.Fatal(err)
	}
	n := len(wishes)
	say := func() {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Key: []byte("t"), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	say()
	r.until("the trainer to say it again", func() bool {
		read()
		return len(wishes) >= n+2 && wishes[len(wishes)-1]["host"] != "late"
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	say() // and nobody is there to say it again
	sent := 0
	r.send(0, s, func(o *shard.SenderOptions) { o.OnSent = func(pairs int, _ int64) { sent += pairs } })
	if sent > 0 {
		t.Errorf("the shard sent %d rows again that a late trainer asked for", sent)
	}
}

// TestStandbyOfAnotherStore: a trainer whose store lacks versions that another one has published does not train, says
// so, and trains once it has them.
func TestStandbyOfAnotherStore(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	o := sketch.Options{Seed: 7, Merges: true}
	first, stop := r.trainerOf(store(t, o), 6*time.Second, func() (int64, int64) { return 1, 12 })
	r.until("the first", func() bool { return first.Term() != nil })
	version := new(atomic.Int64)
	version.Store(3)
	second, stopSecond := r.trainerOf(store(t, o), 6*time.Second, func() (int64, int64) { return 1, version.Load() })
	host, _ := os.Hostname()
	r.until("the second to be on standby", func() bool { return second.Waits() == "standby: "+host+" trains" })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.until("what is wrong", func() bool {
		text := second.Trouble()
		return strings.Contains(text, "publish.store has version 3 at most here") &&
			strings.Contains(text, "version 12")
	})
	if second.Term() != nil {
		t.Error("it trains")
	}
	version.Store(12)
	r.until("the second",
		func() bool { return second.Term() != nil && !strings.Contains(second.Trouble(), "publish.store") })
	if err := stopSecond(); err != nil {
		t.Fatal(err)
	}
}

// TestLostWishes: a trainer without a state, in a topic that has lost what trainers have said, is heeded by a shard
// that has followed a later term.
func TestLostWishes(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s, trainer, fresh := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t,
		sketch.Options{Seed: 7, Merges: true}),
		store(t, sketch.Options{Seed: 7, Merges: true})
	apply(t, s, 0, 10)
	var heads atomic.Int64
	sender, done, ended := r.sender(
		0,
		s,
		func(o *shard.SenderOptions) { o.OnSent = func(int, int64) { heads.Add(1) } },
	), make(chan struct{}), make(chan error, 1)
	if err := sender.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- sender.Run(t.Context(), done) }()
	receiver, stop := r.trainerOf(trainer, 0, func() (int64, int64) { return 40, 0 })
	r.until("the rows",
		func() bool { next, _ := trainer.Position("a", 0); return next == 10 && receiver.Term() != nil })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	sent := heads.Load()
	apply(t, s, 0, 1)
	r.until("one more head", func() bool { return heads.Load() > sent })
	r.keepsLast(1) // all but that
	_, stop = r.trainerOf(fresh, 0, func() (int64, int64) { return 0, 0 })
	apply(t, s, 0, 5)
	r.until("all rows", func() bool {
		next, _ := fresh.Position("a", 0)
		rows, _ := fresh.Size()
		return next == 16 && rows[sketch.Train] == 16
	})
	close(done)
	if err := errors.Join(stop(), <-ended); err != nil {
		t.Fatal(err)
	}
}

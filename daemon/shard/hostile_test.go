package shard_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// pairOf returns the first pair of the merge topic, as somebody who may write there sees it.
func (r rig) pairOf() *kgo.Record { return r.first('p') }

// first returns the first record of a kind in the merge topic.
func (r rig) first(kind byte) *kgo.Record {
	r.Helper()
	client, err := kgo.NewClient(
		append(r.kafka(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{merge: {0: kgo.NewOffset().At(0)}}))...)
	if err != nil {
		r.Fatal(err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(r.Context())
		if err := fetches.Err(); err != nil {
			r.Fatal(err)
		}
		for _, rec := range fetches.Records() {
			if rec.Key[0] == kind {
				return rec
			}
		}
	}
}

// inject writes records into the merge topic.
func (r rig) inject(records ...*kgo.Record) {
	r.Helper()
	client, err := kgo.NewClient(append(r.kafka(), kgo.DefaultProduceTopic(merge))...)
	if err != nil {
		r.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(r.Context(), records...).FirstErr(); err != nil {
		r.Fatal(err)
	}
}

// drops counts what a receiver drops.
type drops struct {
	mu sync.Mutex
	n  map[string]int
}

func (d *drops) count(o *shard.ReceiverOptions) {
	o.MaxWaiting = 64 << 10
	o.OnDropped = func(reason string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.n == nil {
			d.n = map[string]int{}
		}
		d.n[reason]++
	}
}

func (d *drops) of(reason string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n[reason]
}

// TestHostilePairs: pairs that no shard has written are dropped and counted, and what the shard sends next is merged.
func TestHostilePairs(t *testing.T) {
	for _, c := range []struct {
		what   string
		reason string
		made   func(of *kgo.Record) []*kgo.Record
	}{
		{"the largest epoch", shard.DroppedEpoch, withEpoch(1<<64 - 1)},
		{"the largest but one", shard.DroppedEpoch, withEpoch(1<<64 - 2)},
		{"the largest signed one", shard.DroppedEpoch, withEpoch(1<<63 - 1)},
		{"an epoch far above that of the last head", shard.DroppedEpoch, withEpoch(1 << 31)},
		{"a key that is none", shard.DroppedPair, withKey([]byte("x"))},
		{"an empty key", shard.DroppedPair, withKey(nil)},
		{"the key of a ledger", shard.DroppedPair, withKey([]byte("l" + "a\x00\x00\x00\x00\x00"))},
		{"a key of a row that is too short", shard.DroppedPair, func(of *kgo.Record) []*kgo.Record {
			return withKey(
				of.Key[5:9])(of)
		}},
		{"a row that is damaged", shard.DroppedPair, func(of *kgo.Record) []*kgo.Record {
			value := slices.Clone(of.Value)
			value[len(value)-1] ^= 1
			return []*kgo.Record{{Key: of.Key, Value: value, Headers: of.Headers}}
		}},
		{"no room", shard.DroppedFull, func(of *kgo.Record) (list []*kgo.Record) {
			for i := range 500 {
				key := binary.BigEndian.AppendUint64(slices.Clone(of.Key[:len(of.Key)-8]), uint64(i))
				list = append(list, &kgo.Record{Key: key, Headers: of.Headers}) // of rows that are gone: any key is right
			}
			return list
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			r := rig{t, daemontest.New(t)}
			s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t,
				sketch.Options{Seed: 7, Merges: true})
			apply(t, s, 0, 100)
			r.send(0, s, nil)
			var d drops
			receiver, ended := r.receiver(trainer, 2, d.count), make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { ended <- receiver.Run(ctx, false) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			r.inject(c.made(r.pairOf())...)
			daemontest.Within(t, daemontest.Patience, "the drop", func() bool { return d.of(c.reason) > 0 })
			apply(t, s, 0, 50)
			daemontest.Within(t, daemontest.Patience, "what comes next", func() bool {
				r.send(0, s, nil)
				next, _ := trainer.Position("a", 0)
				return next == 150
			})
			daemontest.Within(t, daemontest.Patience, "no trouble",
				func() bool { return !strings.Contains(receiver.Trouble(), "shard 0") })
			if got, want := rowsOf(t, trainer), rowsOf(t, s); got != want {
				t.Errorf("the trainer's sample is %s, want %s", got, want)
			}
		})
	}
}

// TestHostileHeads: a head whose epoch is next to the largest one does not use up the epochs of its shard: what the
// shard sends next is merged, also after a restart.
func TestHostileHeads(t *testing.T) {
	for _, epoch := range []uint64{1<<32 - 1, 1<<32 - 2, 1 << 31} {
		t.Run(fmt.Sprint(epoch), func(t *testing.T) {
			t.Parallel()
			r := rig{t, daemontest.New(t)}
			s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t,
				sketch.Options{Seed: 7, Merges: true})
			apply(t, s, 0, 100)
			r.send(0, s, nil)
			r.running(t, trainer)
			of := r.first('h')
			var said map[string]any
			if err := json.Unmarshal(of.Value, &said); err != nil {
				t.Fatal(err)
			}
			said["by"].(map[string]any)["epoch"] = epoch
			value, err := json.Marshal(said)
			if err != nil {
				t.Fatal(err)
			}
			r.inject(&kgo.Record{Key: of.Key, Value: value})
			apply(t, s, 0, 50)
			daemontest.Within(t, daemontest.Patience, "what comes next", func() bool {
				r.send(0, s, nil)
				next, _ := trainer.Position("a", 0)
				return next == 150
			})
			if got, want := rowsOf(t, trainer), rowsOf(t, s); got != want {
				t.Errorf("the trainer's sample is %s, want %s", got, want)
			}
		})
	}
}

// rowsOf returns the digest of a sample.
func rowsOf(t *testing.T, s *sketch.Store) sketch.Digest {
	t.Helper()
	state, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	return state.SampleDigest
}

func withEpoch(epoch uint64) func(of *kgo.Record) []*kgo.Record {
	return func(of *kgo.Record) []*kgo.Record {
		value := slices.Clone(of.Headers[0].Value)
		binary.BigEndian.PutUint64(value[8:], epoch)
		return []*kgo.Record{
			{Key: of.Key, Value: of.Value, Headers: []kgo.RecordHeader{{Key: of.Headers[0].Key, Value: value}}},
		}
	}
}

func withKey(key []byte) func(of *kgo.Record) []*kgo.Record {
	return func(of *kgo.Record) []*kgo.Record {
		return []*kgo.Record{{Key: append(slices.Clone(of.Key[:5]), key...), Value: of.Value, Headers: of.Headers}}
	}
}

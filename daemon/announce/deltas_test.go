package announce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/kafkasource"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const deltaTopic = "model-deltas"

// grow appends n deltas to the chain of the champion and returns the model at the last, with the frames.
func (b *bench) grow(c *publish.Chain, m *snapshot.Model, n int) (*snapshot.Model, [][]byte) {
	b.t.Helper()
	var frames [][]byte
	for range n {
		at := m.Position()
		d := &format.Delta{
			Model:      model,
			Base:       at.Version,
			BaseDigest: m.Manifest().Digest,
			Sequence:   at.Sequence + 1,
			Previous:   at.Digest,
			Created:    time.Now(),
			Columns:    []int32{int32(at.Sequence % 2)},
			Linear:     []float64{float64(at.Sequence)},
			Bias:       []float64{float64(at.Version)},
		}
		frame, err := d.Encode(m.Shape(), b.store.Signer)
		if err == nil {
			err = c.Append(b.t.Context(), frame)
		}
		if err == nil {
			m, err = m.Apply(d)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		frames = append(frames, frame)
	}
	return m, frames
}

// chain opens the chain of a version.
func (b *bench) chain(version int64) (*publish.Chain, *snapshot.Model) {
	b.t.Helper()
	c, err := b.store.OpenChain(b.t.Context(), model, version)
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := snapshot.Trust{Keys: b.store.Keys}.Open(b.dir, model, snapshot.Selector{Version: version})
	if err != nil {
		b.t.Fatal(err)
	}
	return c, m
}

// deltas runs a producer until stop is called or the test ends.
func (b *bench) deltas() (good, bad *atomic.Int32, stop func()) {
	good, bad = new(atomic.Int32), new(atomic.Int32)
	p := NewDeltas(
		Options{
			Kafka: b.kafka,
			Topic: deltaTopic,
			Model: model,
			Dir:   b.dir,
			Store: b.store,
			Log:   b.logger,
			OnResult: func(err error) {
				if err != nil {
					bad.Add(1)
				} else {
					good.Add(1)
				}
			},
		},
	)
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	b.t.Cleanup(stop)
	return good, bad, stop
}

// files hides that a source has deltas, so that they can come from the topic alone.
type files struct{ snapshot.Source }

// follow watches the model over both topics.
func (b *bench) follow(keys snapshot.Keys) (*snapshot.Watcher, *kafkasource.Source) {
	b.t.Helper()
	s, err := kafkasource.NewSource(b.kafka, topic, files{snapshot.DirSource{Dir: b.dir}}, keys, b.logger)
	if err != nil {
		b.t.Fatal(err)
	}
	s.ReadDeltas(deltaTopic)
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	w, err := snapshot.Watch(s, snapshot.WatchOptions{Model: model, Trust: snapshot.Trust{Keys: keys}, Log: b.logger})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		w.Close()
		cancel()
		<-done
	})
	return w, s
}

// at waits until a watcher serves what the publisher has, to the bit.
func (b *bench) at(w *snapshot.Watcher, m *snapshot.Model) {
	b.t.Helper()
	want := m.Position()
	b.within(fmt.Sprintf("delta %d of version %d", want.Sequence, want.Version), func() bool {
		at := w.Status().Position
		return at.Version == want.Version && at.Sequence == want.Sequence
	})
	digest, err := format.PayloadDigest(m.Contents())
	got, err2 := format.PayloadDigest(w.Model().Contents())
	if err != nil || err2 != nil || got != digest {
		b.t.Errorf("the consumer has %s, the publisher %s, %v %v", got, digest, err, err2)
	}
}

// values returns the records of the topic of deltas, as they were written, and by key what the cleaner would leave.
func (b *bench) values() (records int, left map[string]int) {
	b.t.Helper()
	left = make(map[string]int)
	err := kafkasource.ReadTopic(b.t.Context(), b.kafka, deltaTopic, func(r *kgo.Record) {
		if records++; r.Value == nil {
			delete(left, string(r.Key))
		} else {
			left[string(r.Key)] = len(r.Value)
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return records, left
}

// TestDeltasOverKafka: what the store has of the champion's chain is in the topic once, a watcher of the topic has it
// to the bit, also one that joins late, and another champion takes the chain back.
func TestDeltasOverKafka(t *testing.T) {
	b := newBench(t)
	keys := b.sign(1)
	b.publish()
	b.announcer(0)
	c, m := b.chain(1)
	m, _ = b.grow(c, m, 3)
	_, bad, stop := b.deltas()
	b.within("the topics", func() bool {
		found, err := kadm.NewClient(b.client).ListTopics(t.Context(), topic, deltaTopic)
		return err == nil && found.Error() == nil
	})
	w, _ := b.follow(keys)
	b.at(w, m)
	m, _ = b.grow(c, m, 5)
	b.at(w, m)
	late, _ := b.follow(keys)
	b.at(late, m)
	settings, err := settingsOf(t.Context(), b.client, deltaTopic)
	if err != nil || settings[cleanupPolicy] != compact || settings[maxMessageBytes] != deltaSettings[maxMessageBytes] {
		t.Errorf("the topic has %v, %v", settings, err)
	}
	records, left := b.values()
	if records != 8 || len(left) != 8 || left["ratings//1/8"] == 0 {
		t.Errorf("%d records, left are %v", records, left)
	}

	stop() // and a restart sends nothing twice
	m, _ = b.grow(c, m, 1)
	_, bad2, stop := b.deltas()
	b.at(w, m)
	if records, left := b.values(); records != 9 || len(left) != 9 {
		t.Errorf("after a restart %d records, left are %v", records, left)
	}
	stop()
	b.publish() // while it is away
	c, m = b.chain(2)
	m, _ = b.grow(c, m, 2)
	_, bad3, _ := b.deltas()
	b.at(w, m)
	b.within("the first chain to be taken back", func() bool {
		_, left := b.values()
		return len(left) == 2 && left["ratings//2/2"] > 0
	})
	late, s := b.follow(keys)
	b.at(late, m)
	_, left = b.values()
	if st := s.Status(); st.Deltas != 2 || st.DeltaBytes != int64(left["ratings//2/1"]+left["ratings//2/2"]) {
		t.Errorf("a late joiner holds %d deltas, %d bytes", st.Deltas, st.DeltaBytes)
	}
	if st := w.Status(); st.DeltasRefused != 0 || st.Refused != 0 || bad.Load()+bad2.Load()+bad3.Load() != 0 {
		t.Errorf("%+v, %d failures\n%s", st, bad.Load()+bad2.Load()+bad3.Load(), b.logged())
	}
}

// TestDeltasBrokerAway: while the brokers refuse records the chain grows in the store; then the topic has all of it, in
// order.
func TestDeltasBrokerAway(t *testing.T) {
	b := newBench(t)
	b.publish()
	b.announcer(0)
	c, m := b.chain(1)
	m, _ = b.grow(c, m, 1)
	good, bad, _ := b.deltas()
	b.within("the first delta", func() bool { return good.Load() == 1 })
	var away atomic.Bool
	away.Store(true)
	b.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if !away.Load() {
			return nil, nil, false
		}
		answer := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, of := range r.(*kmsg.ProduceRequest).Topics {
			if of.Topic == topic { // announcements
				return nil, nil, false
			}
			answer.Topics = append(answer.Topics, kmsg.ProduceResponseTopic{Topic: of.Topic, TopicID: of.TopicID,
				Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: kerr.TopicAuthorizationFailed.Code}}})
		}
		return answer, nil, true
	})
	for range 4 {
		m, _ = b.grow(c, m, 1)
	}
	b.within("a failure", func() bool { return bad.Load() > 0 })
	away.Store(false)
	w, _ := b.follow(nil)
	b.at(w, m)
	if records, left := b.values(); records != 5 || len(left) != 5 {
		t.Errorf("%d records, left are %v", records, left)
	}
	if n := strings.Count(b.logged(), "deltas not produced"); n != 1 {
		t.Errorf("said %d times\n%s", n, b.logged())
	}
}

// TestForgedDeltas: records of another writer to the topic are ignored and counted, or refused by the watcher, and
// the chain continues.
func TestForgedDeltas(t *testing.T) {
	b := newBench(t)
	keys := b.sign(1)
	b.publish()
	b.announcer(0)
	c, m := b.chain(1)
	m, frames := b.grow(c, m, 2)
	good, _, stop := b.deltas()
	b.within("the deltas", func() bool { return good.Load() > 0 })
	stop()
	w, s := b.follow(keys)
	b.at(w, m)
	unsigned := &format.Delta{
		Model:      model,
		Base:       1,
		BaseDigest: m.Manifest().Digest,
		Sequence:   3,
		Previous:   m.Position().Digest,
		Created:    time.Now(),
		Bias:       []float64{1e6},
	}
	forged, err := unsigned.Encode(m.Shape(), nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, value []byte) {
		b.produce(&kgo.Record{Topic: deltaTopic, Key: []byte(key), Value: value})
	}
	put("ratings//1/3", forged)
	put("ratings//1/3", frames[1]) // of another sequence
	put("clicks//1/2", frames[1])  // of another model
	put("ratings//2/2", frames[1]) // of another version
	put("ratings//1/3", []byte("RFDELTA1"))
	b.within("all of them", func() bool { return s.Status().Ignored == 5 })
	if got := w.Status(); got.Position.Sequence != 2 || got.DeltasRefused != 0 {
		t.Errorf("%+v", got)
	}
	m, more := b.grow(c, m, 3)
	put("ratings//1/4", more[1]) // before the third
	put("ratings//1/5", more[2])
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b.within("a gap", func() bool {
		_, err := s.Deltas(ctx, model, 1, 2)
		return errors.Is(err, snapshot.ErrChain)
	})
	b.deltas()
	b.at(w, m)
}

// TestDeltasFromFiles: without a topic of deltas they come from where the files come from, if that has them.
func TestDeltasFromFiles(t *testing.T) {
	b := newBench(t)
	b.publish()
	b.announcer(0)
	c, m := b.chain(1)
	b.within("the topic", func() bool {
		found, err := kadm.NewClient(b.client).ListTopics(t.Context(), topic)
		return err == nil && found.Error() == nil
	})
	w, err := snapshot.Watch(b.source(snapshot.DirSource{Dir: b.dir}), snapshot.WatchOptions{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m, _ = b.grow(c, m, 4)
	b.at(w, m)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.source(files{snapshot.DirSource{Dir: b.dir}}).Deltas(ctx, model, 1, 0); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
}

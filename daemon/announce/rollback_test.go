package announce

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/kafkasource"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sign makes the store sign from now on and returns the list of its public key.
func (b *bench) sign(seed byte) snapshot.Keys {
	b.t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	var err error
	if b.store.Signer, err = format.NewSigner(key); err != nil {
		b.t.Fatal(err)
	}
	return snapshot.Keys{b.store.Signer.ID(): key.Public().(ed25519.PublicKey)}
}

// announcement is the record that an announcer would send now.
func (b *bench) announcement() *kgo.Record {
	b.t.Helper()
	p := b.pointer()
	m, err := b.store.Manifest(model, p.Version)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := kafkasource.Announce(pointer.Champion, p, &m).Record(topic)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// compacted makes the topic as an announcer does.
func (b *bench) compacted() {
	b.t.Helper()
	policy := compact
	if _, err := kadm.NewClient(b.client).CreateTopic(b.t.Context(), 1, 1, map[string]*string{cleanupPolicy: &policy},
		topic); err != nil {
		b.t.Fatal(err)
	}
}

// watch follows the topic until the test ends.
func (b *bench) watch(o snapshot.WatchOptions) *snapshot.Watcher {
	b.t.Helper()
	o.Model = model
	b.last = b.source(snapshot.DirSource{Dir: b.dir}, o.Trust.Keys)
	w, err := snapshot.Watch(b.last, o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(w.Close)
	return w
}

// TestRollbackOverKafka: E7. A topic that was made anew from an old copy offers a version that was signed and true
// once: a consumer that runs keeps its newer one, and one that is started again refuses it by its state file, until the
// operator pins it or the publisher moves on.
func TestRollbackOverKafka(t *testing.T) {
	b := newBench(t)
	options := snapshot.WatchOptions{
		Trust:     snapshot.Trust{Keys: b.sign(1)},
		StateFile: filepath.Join(t.TempDir(), "accepted"),
	}
	b.compacted()
	b.publish()
	old := b.announcement()
	b.publish()
	b.produce(b.announcement())
	w := b.watch(options)
	b.within("version 2", func() bool { return w.Status().Version == 2 })
	again := *old
	b.produce(&again) // replayed into the topic that is being followed
	b.publish()
	third := b.announcement()
	b.produce(third)
	b.within("version 3", func() bool { return w.Status().Version == 3 })
	if s := w.Status(); s.Loads != 2 || s.Err != nil {
		t.Errorf("after a replayed announcement: %+v", s)
	}
	w.Close()

	if _, err := kadm.NewClient(b.client).DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	b.compacted()
	b.client.PurgeTopicsFromClient(topic)
	again = *old
	b.produce(&again)
	w = b.watch(options)
	b.within("the refusal", func() bool { return errors.Is(w.Status().Err, snapshot.ErrOlder) })
	if s := w.Status(); s.Version != 0 || w.Model() != nil {
		t.Errorf("the old version is served: %+v", s)
	}
	pinned := options
	pinned.Pin = 1
	p := b.watch(pinned)
	b.within("the pinned version", func() bool { return p.Status().Version == 1 })
	if _, err := b.store.MoveAlias(t.Context(), model, publish.Move{Alias: pointer.Champion, To: 1,
		Event: publish.EventRollback}); err != nil {
		t.Fatal(err)
	}
	b.produce(b.announcement()) // a rollback by the publisher is a later move
	b.within("the rollback", func() bool { return w.Status().Version == 1 && w.Status().Err == nil })

	// Somebody who may write to the topic and has no key cannot move anybody.
	b.store.Signer = nil
	b.publish()
	b.produce(b.announcement())
	source := b.last
	b.within("the refusal of an unsigned one",
		func() bool { return errors.Is(source.Status().Err, snapshot.ErrSignature) })
	if s := w.Status(); s.Version != 1 || s.Err != nil {
		t.Errorf("serves version %d, %v", s.Version, s.Err)
	}
}

// TestCompacted: E11. The broker's cleaner leaves the last announcements of each model; a consumer that joins then gets
// exactly that one, whatever the order in which they were sent.
func TestCompacted(t *testing.T) {
	b := newBench(t)
	b.compacted()
	var sent []*kgo.Record
	for range 20 {
		b.publish()
		sent = append(sent, b.announcement())
	}
	other := &kgo.Record{Topic: topic, Key: []byte("other"), Value: sent[0].Value, Headers: sent[0].Headers}
	for _, i := range []int{3, 3, 0, 7, 5, 7, 18, 12, 19} { // duplicates, and out of order
		r := *sent[i]
		b.produce(&r, &kgo.Record{Topic: topic, Key: other.Key, Value: other.Value, Headers: other.Headers})
	}
	before := len(b.records())
	b.cluster.Compact()
	after := b.records()
	perKey := map[string]int{}
	for _, r := range after {
		perKey[string(r.Key)]++
	}
	if before != 18 || perKey[model] > 2 || perKey["other"] > 2 { // the newest segment is never cleaned
		t.Fatalf("%d of %d records are left, by key %v", len(after), before, perKey)
	}
	if p := b.wait(b.source(nil), snapshot.Pointer{}); p.Version != 20 {
		t.Errorf("a late joiner got version %d, want 20", p.Version)
	}
}

// TestTooLarge: E11. A version that the brokers refuse for its size, although the topic was made for it, is announced
// without its files, once.
func TestTooLarge(t *testing.T) {
	b := newBench(t)
	b.publish()
	results, stop := b.announcer(1 << 20)
	b.within("the announcement", func() bool { ok, _ := results(); return ok == 1 })
	small := "1500" // bytes: less than the files, more than the announcement; set behind the announcer's back
	if _, err := kadm.NewClient(b.client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig,
		Name: maxMessageBytes, Value: &small}},
		topic); err != nil {
		t.Fatal(err)
	}
	b.publish()
	b.within("the second announcement", func() bool { ok, _ := results(); return ok == 2 })
	stop()
	list := b.records()
	if a, err := kafkasource.Read(list[len(list)-1]); err != nil || a.Version != 2 || a.Inline != nil || len(list) != 2 {
		t.Errorf("%d records, the last: %+v, %v", len(list), a, err)
	}
	if _, failed := results(); failed != 0 || !strings.Contains(b.logged(), "announced without files") {
		t.Errorf("%d failures:\n%s", failed, b.logged())
	}
}

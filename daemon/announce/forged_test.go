package announce

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/kafkasource"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/twmb/franz-go/pkg/kgo"
)

// changed is an announcement after a change by somebody who has no key: the digest is right again, the signature is as
// it was.
func changed(t *testing.T, r *kgo.Record, change func(a *kafkasource.Announcement)) *kgo.Record {
	t.Helper()
	var a kafkasource.Announcement
	if err := json.Unmarshal(r.Value, &a); err != nil {
		t.Fatal(err)
	}
	change(&a)
	text := fmt.Sprintf("refitd alias\n%s\n%s\n%d\n%s\n%d\n%s\n%s\n%s\n", a.Model, a.Alias, a.Version, a.ManifestDigest,
		a.Sequence, a.Moved.UTC().Format(time.RFC3339Nano), a.Event, a.KeyID)
	a.Pointer.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
	value, err := json.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	return &kgo.Record{Topic: topic, Key: r.Key, Value: value, Headers: r.Headers}
}

func again(r *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
}

// J2: one record of a move that nobody can have counted to, by somebody who may write to the topic, stops nobody: with
// keys because it is not signed, without keys because of its number. A late joiner gets the newest announcement that is
// valid.
func TestForgedAnnouncement(t *testing.T) {
	for _, signed := range []bool{true, false} {
		t.Run(fmt.Sprintf("signed=%t", signed), func(t *testing.T) {
			b := newBench(t)
			b.compacted()
			options := snapshot.WatchOptions{StateFile: filepath.Join(t.TempDir(), "accepted")}
			if signed {
				options.Trust.Keys = b.sign(1)
			}
			b.publish()
			first := b.announcement()
			b.produce(first)
			w := b.watch(options)
			source := b.last
			b.within("version 1", func() bool { return w.Status().Version == 1 })
			forged := []*kgo.Record{changed(t, first, func(a *kafkasource.Announcement) { a.Sequence = 1 << 50 })}
			if signed { // what only a signature reveals
				forged = append(forged, changed(t, first, func(a *kafkasource.Announcement) { a.Sequence = 1000 }),
					changed(t, first, func(a *kafkasource.Announcement) { a.Sequence, a.KeyID, a.Signature = 1000, "", nil }))
			}
			b.produce(forged...)
			b.within("the forgeries to be ignored",
				func() bool { return source.Status().Ignored == int64(len(forged)) })
			b.publish()
			b.produce(b.announcement())
			b.within("version 2", func() bool { return w.Status().Version == 2 })
			if s := w.Status(); s.Err != nil || s.Refused != 0 {
				t.Errorf("%+v", s)
			}
			for _, r := range forged {
				b.produce(again(r))
			}
			late := b.source(snapshot.DirSource{Dir: b.dir}, options.Trust.Keys)
			if p := b.wait(late, snapshot.Pointer{}); p.Version != 2 {
				t.Errorf("a late joiner got version %d, want 2", p.Version)
			}
			if s := late.Status(); s.Ignored == 0 || s.Err == nil || !s.CaughtUp {
				t.Errorf("status of a late joiner: %+v", s)
			}
			// All that the cleaner leaves may be the forgery: the next record of the publisher is the newest valid one
			// again.
			if _, err := b.store.MoveAlias(t.Context(), model, publish.Move{Alias: pointer.Champion, To: 2}); err != nil {
				t.Fatal(err)
			}
			b.produce(b.announcement())
			sequence := b.pointer().Sequence
			b.within("the move after it",
				func() bool { p := b.wait(late, snapshot.Pointer{}); return p.Sequence == sequence })
		})
	}
}

// J2: a genuine announcement is not stopped by one of another alias, nor by its own with other files: both were signed
// by the publisher.
func TestForgedParts(t *testing.T) {
	b := newBench(t)
	b.compacted()
	keys := b.sign(1)
	b.publish()
	p := b.pointer()
	m, err := b.store.Manifest(model, p.Version)
	if err != nil {
		t.Fatal(err)
	}
	announcer := &Announcer{Options: Options{Model: model, Dir: b.dir, Store: b.store, Inline: 1 << 20}}
	genuine := kafkasource.Announce(pointer.Champion, p, &m)
	if genuine.Inline, err = announcer.inline(t.Context(), p.Version, &m); err != nil {
		t.Fatal(err)
	}
	record := func(a *kafkasource.Announcement) *kgo.Record {
		r, err := a.Record(topic)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var forged []*kgo.Record
	for name := range genuine.Inline { // each file in turn
		other := *genuine
		other.Inline = map[string][]byte{}
		for n, b := range genuine.Inline {
			if n == name {
				b = append([]byte(strings.ToUpper(string(b[:1]))), b[1:]...)
				b[len(b)-2] ^= 1
			}
			other.Inline[n] = b
		}
		forged = append(forged, record(&other))
	}
	if _, err := b.store.MoveAlias(t.Context(), model, publish.Move{Alias: snapshot.Latest, To: 1}); err != nil {
		t.Fatal(err)
	}
	latest, err := b.store.Alias(model, snapshot.Latest)
	if err != nil {
		t.Fatal(err)
	}
	forged = append(forged, record(kafkasource.Announce(snapshot.Latest, latest, &m)))
	b.produce(forged...)
	b.produce(record(genuine))
	s := b.source(nil, keys)
	w, err := snapshot.Watch(s, snapshot.WatchOptions{Model: model, Trust: snapshot.Trust{Keys: keys}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b.within("the model from the topic alone", func() bool { return w.Model() != nil })
	if got := s.Status().Ignored; got != int64(len(forged)) {
		t.Errorf("%d of %d forged records or files ignored", got, len(forged))
	}
}

// J2: what a build without this check wrote down, or a reader before it had keys, does not refuse what follows for
// ever.
func TestPoisonedStateFile(t *testing.T) {
	b := newBench(t)
	b.compacted()
	b.publish()
	var a kafkasource.Announcement
	if err := json.Unmarshal(changed(t, b.announcement(), func(
		a *kafkasource.Announcement) {
		a.Sequence = 1 << 50
	}).Value,
		&a); err != nil {
		t.Fatal(err)
	}
	state, err := json.Marshal(map[string]any{"model": model, "alias": pointer.Champion, "last": a.Pointer})
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range []snapshot.Keys{nil, b.sign(1)} {
		path := filepath.Join(t.TempDir(), "accepted")
		if err := os.WriteFile(path, state, 0o644); err != nil {
			t.Fatal(err)
		}
		b.publish()
		b.produce(b.announcement())
		w := b.watch(snapshot.WatchOptions{StateFile: path, Trust: snapshot.Trust{Keys: keys}})
		b.within("a version", func() bool { return w.Model() != nil })
		if err := w.Status().Err; errors.Is(err, snapshot.ErrOlder) {
			t.Error(err)
		}
	}
}

// J3: a renewal is announced, with the files, and handed out to those who wait; the cleaner finds the newest record
// whole.
func TestRenewalsAreAnnounced(t *testing.T) {
	b := newBench(t)
	keys := b.sign(1)
	b.publish()
	results, stop := b.announcer(1 << 20)
	b.within("the announcement", func() bool { ok, _ := results(); return ok == 1 })
	s := b.source(nil, keys)
	w, err := snapshot.Watch(s, snapshot.WatchOptions{Model: model, Trust: snapshot.Trust{Keys: keys}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b.within("the model", func() bool { return w.Model() != nil })
	p, err := b.store.Renew(t.Context(), model, pointer.Champion, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	b.within("the renewal", func() bool { return w.Status().Renewed.Equal(p.Renewal.Renewed) })
	stop()
	if s := w.Status(); s.Loads != 1 || s.Err != nil {
		t.Errorf("%+v", s)
	}
	forged := changed(t, b.announcement(), func(a *kafkasource.Announcement) {
		a.Renewal.Renewed = time.Now().Add(
			time.Hour)
	})
	b.produce(forged, again(b.records()[0])) // an invented renewal, and the announcement before there was one
	b.within("both to be read", func() bool { return len(b.records()) == 4 })
	late := b.source(nil, keys)
	if got := b.wait(late, snapshot.Pointer{}); !got.Renewal.Renewed.Equal(p.Renewal.Renewed) {
		t.Errorf("a late joiner got the renewal %+v, want %+v", got.Renewal, p.Renewal)
	}
	if _, err := late.File(t.Context(), model, 1, "manifest.json"); err != nil {
		t.Error(err)
	}
}

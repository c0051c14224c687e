// Package announce publishes in a compacted Kafka topic which version of a model is the champion, and in another one
// its
// deltas. The store comes first: an Announcer repeats what the alias there says, however often Kafka fails, so the two
// cannot disagree for long and one version never has two payloads. Package kafkasource has the form of the records, and
// the Source with which consumers read them.
//
// It needs neither the configuration nor the rest of the daemon, but for the client of package produce. An Announcer
// and
// a DeltaProducer belong to one goroutine each.
//
//	announcer.go    Announcer: the champion, announced until the brokers have it
//	deltas.go       DeltaProducer: the deltas of the champion, those of others taken back
//	topic.go        the settings that the topics need
package announce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/kafkasource"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	lookEvery   = 250 * time.Millisecond // between two looks at the alias
	sendTimeout = 10 * time.Second       // of one announcement, the check of the topic included
	lastTimeout = 5 * time.Second        // of the announcement that is still to be made when the daemon stops
	retryMin    = 500 * time.Millisecond // the pause after a failure doubles from this
	retryMax    = 30 * time.Second       // to this
)

// Options of an Announcer or a DeltaProducer. Inline and OnResult may be zero.
type Options struct {
	Kafka    []kgo.Opt // brokers, encryption, sign-in
	Topic    string
	Model    string
	Dir      string          // of the store
	Store    *publish.Store  // of that directory
	Inline   int64           // largest sum of the files of a version that go into the record, bytes; 0 for none
	OnResult func(err error) // called after every attempt that had something to do
	Log      *slog.Logger
}

// Announcer announces the champion of one model. Make it with New, call Run once.
type Announcer struct {
	Options
	client  *kgo.Client // nil until it is needed, and after a failure: what a failed producer has under way is unknown
	limit   time.Duration
	checked bool // the settings of the topic were looked at
	largest int  // record that the topic takes, bytes
	sent    snapshot.Pointer
}

// New returns an announcer. Nothing is connected before Run.
func New(o Options) *Announcer {
	if o.OnResult == nil {
		o.OnResult = func(error) {}
	}
	return &Announcer{Options: o, limit: sendTimeout}
}

// Run announces the champion, its renewals and every one after it until ctx is done, and then once more if there is one
// that could not be announced. A failure is reported to OnResult, logged once until it is over, and tried again with
// what the alias then names.
func (a *Announcer) Run(ctx context.Context) {
	defer a.close()
	pause, failures := lookEvery, 0
	for {
		did, err := a.announce(ctx, a.limit)
		switch {
		case ctx.Err() != nil:
			if _, err := a.announce(context.WithoutCancel(ctx), lastTimeout); err != nil {
				a.Log.Warn("champion not announced at the end: the next start does it", "topic", a.Topic, "error", err)
			}
			return
		case err != nil:
			failures++
			if pause = backoff.Doubled(failures, retryMin, retryMax); failures == 1 {
				a.Log.Error("champion not announced: tried again until it is", "topic", a.Topic, "error", err)
			}
		case did || failures == 0:
			pause, failures = lookEvery, 0
		}
		_ = backoff.Sleep(ctx, pause) // the end is looked for above
	}
}

// announce sends what the alias says, unless that was sent already or there is nothing yet. It reports whether it sent
// something.
func (a *Announcer) announce(ctx context.Context, limit time.Duration) (did bool, err error) {
	p, err := a.Store.Alias(a.Model, pointer.Champion)
	same := p.Sequence == a.sent.Sequence && p.ManifestDigest == a.sent.ManifestDigest
	if errors.Is(err, snapshot.ErrNotFound) || err == nil && same && p.Renewal.Renewed.Equal(a.sent.Renewal.Renewed) {
		return false, nil
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err = a.send(ctx, p)
	}
	if err != nil {
		a.close()
		err = fmt.Errorf("announce: %w", err)
	} else {
		a.sent = p
	}
	if ctx.Err() == nil {
		a.OnResult(err)
	}
	return err == nil, err
}

// send makes the announcement of a version and waits until the brokers have it.
func (a *Announcer) send(ctx context.Context, p snapshot.Pointer) error {
	m, err := a.Store.Manifest(a.Model, p.Version)
	if err != nil {
		return err
	}
	what := kafkasource.Announce(pointer.Champion, p, &m)
	if what.Inline, err = a.inline(ctx, p.Version, &m); err != nil {
		return err
	}
	fresh := a.client == nil
	if fresh {
		if a.client, err = produce.NewClient(append([]kgo.Opt{kgo.ProducerBatchMaxBytes(int32(batchBytes(a.Inline)))},
			a.Kafka...)...); err != nil {
			return err
		}
	}
	return produce.Bounded(ctx, a.client, func() error { return a.sendWith(ctx, fresh, what, &m) })
}

// sendWith makes an announcement with the client there is.
func (a *Announcer) sendWith(ctx context.Context, fresh bool, what *kafkasource.Announcement,
	m *snapshot.Manifest) error {
	p := what.Pointer
	if fresh { // the first time, and after a failure: the topic may have been deleted
		if err := a.check(ctx); err != nil {
			return err
		}
	}
	if what.Inline != nil && batchBytes(m.Size()) > a.largest {
		what.Inline = nil // logged when the topic was looked at
	}
	err := a.produce(ctx, what)
	if errors.Is(err, kerr.MessageTooLarge) && what.Inline != nil {
		a.Log.Warn(
			"version too large for the topic: announced without files",
			"note", "raise max.message.bytes of the topic, or lower publish.inline_max",
			"topic",
			a.Topic,
			"version",
			p.Version,
			"bytes",
			m.Size(),
		)
		what.Inline = nil
		err = a.produce(ctx, what)
	}
	if err == nil {
		level := slog.LevelInfo
		if p.Sequence == a.sent.Sequence {
			level = slog.LevelDebug // renewed
		}
		a.Log.Log(ctx, level, "champion announced", "topic", a.Topic, "version", p.Version, "inline",
			what.Inline != nil)
	}
	return err
}

func (a *Announcer) produce(ctx context.Context, what *kafkasource.Announcement) error {
	record, err := what.Record(a.Topic)
	if err != nil {
		return err
	}
	return a.client.ProduceSync(ctx, record).FirstErr()
}

// batchBytes is the room for the record of a version whose files have so many bytes: base64, and 128 KiB for the
// announcement itself. It is at least what every broker takes by default.
func batchBytes(inline int64) int { return max(int(inline/3*4)+128<<10, delivered) }

// inline returns the files of a version, nil if they are too large.
func (a *Announcer) inline(ctx context.Context, version int64, m *snapshot.Manifest) (map[string][]byte, error) {
	if m.Size() > a.Inline || a.Inline == 0 {
		return nil, nil
	}
	source, files := snapshot.DirSource{Dir: a.Dir}, make(map[string][]byte)
	names := []string{snapshot.ManifestFile, format.SignatureFile}
	for _, f := range m.ReadFiles() {
		names = append(names, f.Name)
	}
	for _, name := range names {
		f, err := source.File(ctx, a.Model, version, name)
		if name == format.SignatureFile && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		files[name] = b
	}
	return files, nil
}

func (a *Announcer) close() { produce.Close(&a.client) }

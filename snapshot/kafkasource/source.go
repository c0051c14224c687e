package kafkasource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Source is a snapshot.Source that reads announcements: the last one of each model, whatever the order and number in
// which records arrive. A record that nobody trusted signed, or without keys one whose number nobody can have counted
// to (see pointer.Pointer.Verify), is ignored, and so are files in it that are not those of the version. Make it with
// NewSource; Run has to be running.
type Source struct {
	client *kgo.Client
	topic  string
	deltas string // their topic, "" for none
	files  snapshot.Source
	trust  snapshot.Trust
	log    *slog.Logger

	mu      sync.Mutex
	last    map[string]*Announcement // never changed, but replaced
	chains  chains
	ignored int64
	why     error         // of the last one ignored
	caught  bool          // the announcements that were there at the start have been read
	changed chan struct{} // closed and replaced with every change
}

var _ snapshot.DeltaSource = (*Source)(nil)

// NewSource returns a source over a topic. kafka says how to reach the brokers; files has the files of versions that
// do not travel in the topic, nil if all do. Keys are those of snapshot.WatchOptions: without them, any writer to the
// topic can have a record taken for the newest. A nil log logs nothing.
func NewSource(kafka []kgo.Opt, topic string, files snapshot.Source, keys snapshot.Keys,
	log *slog.Logger) (*Source, error) {
	client, err := newReader(kafka, topic)
	if err != nil {
		return nil, fmt.Errorf("kafkasource: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{client: client, topic: topic, files: files,
		trust: snapshot.Trust{
			Keys: keys,
		}, log: log, last: make(map[string]*Announcement), chains: newChains(), changed: make(chan struct{})}, nil
}

// ReadDeltas lets the source read deltas of a topic, too (publish.deltas.topic), so that snapshot.Watch applies them:
// one that joins late takes the version from where the files are and all deltas since from the topic. Without it,
// deltas come from where the files come from, if that has them.
// Call it before Run.
func (s *Source) ReadDeltas(topic string) {
	s.deltas = topic
	s.client.AddConsumeTopics(topic)
}

// newReader returns a client that reads a topic from its start. With control records the last offset of a partition is
// always seen.
func newReader(kafka []kgo.Opt, topic string) (*kgo.Client, error) {
	return kgo.NewClient(
		append(
			[]kgo.Opt{
				kgo.ConsumeTopics(topic),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
				kgo.MaxDecompressBatchBytes(maxValueBytes),
				kgo.KeepControlRecords(),
			},
			kafka...)...)
}

// retryPause is the time between two attempts to ask for the end of the topic.
const retryPause = time.Second

// Run reads the topic until ctx is done. It closes the client; call it once.
func (s *Source) Run(ctx context.Context) {
	defer s.client.Close()
	left := s.ends(ctx)
	s.note(func() { s.caught = len(left) == 0 })
	for failing := false; ctx.Err() == nil; {
		fetches := s.client.PollFetches(ctx)
		s.note(func() {
			fetches.EachRecord(func(r *kgo.Record) {
				if s.deltas != "" && r.Topic == s.deltas {
					s.takeDelta(r)
				} else {
					s.take(r)
				}
				left.passed(r)
			})
			s.caught = len(left) == 0
		})
		err := fetches.Err()
		if err != nil && !failing && ctx.Err() == nil {
			s.log.Warn("topic of announcements cannot be read: tried until it can", "topic", s.topic, "error", err)
		}
		if failing = err != nil; failing { // where it is not allowed the client asks again without a pause
			_ = backoff.Sleep(ctx, retryPause)
		}
	}
}

// ends are, for each partition with records, the offset after the last one.
type ends map[partition]int64

type partition struct {
	topic  string
	number int32
}

// passed drops a partition that has been read to its end.
func (e ends) passed(r *kgo.Record) {
	at := partition{r.Topic, r.Partition}
	if end, waiting := e[at]; waiting && r.Offset+1 >= end {
		delete(e, at)
	}
}

// endsOf asks the brokers for the ends of topics.
func endsOf(ctx context.Context, client *kgo.Client, topics ...string) (ends, error) {
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topics...)
	var listed kadm.ListedOffsets
	if err == nil {
		listed, err = admin.ListEndOffsets(ctx, topics...)
	}
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, err
	}
	out := make(ends)
	listed.Each(func(o kadm.ListedOffset) {
		if first, ok := starts.Lookup(o.Topic, o.Partition); ok && o.Offset > first.Offset {
			out[partition{o.Topic, o.Partition}] = o.Offset
		}
	})
	return out, nil
}

// ReadTopic reads what a topic holds now, from its start to its end.
func ReadTopic(ctx context.Context, kafka []kgo.Opt, topic string, each func(r *kgo.Record)) error {
	client, err := newReader(kafka, topic)
	if err != nil {
		return err
	}
	defer client.Close()
	left, err := endsOf(ctx, client, topic)
	for err == nil && len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err = errors.Join(ctx.Err(), fetches.Err()); err == nil {
			fetches.EachRecord(func(r *kgo.Record) {
				each(r)
				left.passed(r)
			})
		}
	}
	return err
}

// ends asks for the ends of the topics until the brokers answer.
func (s *Source) ends(ctx context.Context) ends {
	topics := []string{s.topic}
	if s.deltas != "" {
		topics = append(topics, s.deltas)
	}
	for {
		found, err := endsOf(ctx, s.client, topics...)
		if err == nil {
			return found
		}
		if ctx.Err() == nil {
			s.log.Warn("end of the topic of announcements is not known yet", "topic", s.topic, "error", err)
		}
		if backoff.Sleep(ctx, retryPause) != nil {
			return nil
		}
	}
}

// take keeps an announcement if it is newer than the one there is. The caller holds mu.
func (s *Source) take(r *kgo.Record) {
	if r.Attrs.IsControl() || r.Value == nil {
		return
	}
	a, err := Read(r)
	if err == nil { // the signature of another alias is none of this one
		err = a.Verify(a.Model, pointer.Champion, s.trust.Keys)
	}
	if err != nil {
		s.ignore("record skipped", r, err)
		return
	}
	a.Renewal = a.VerifyRenewal(a.Model, pointer.Champion, s.trust.Keys)
	if a.Inline != nil {
		if err := s.trust.VerifyFiles(a.Model, a.Pointer, a.Inline); err != nil {
			s.ignore("files of a record skipped", r, err)
			a.Inline = nil
		}
	}
	last := s.last[a.Model]
	switch {
	case last == nil || a.Sequence > last.Sequence:
		s.last[a.Model] = a
	case a.Sequence == last.Sequence && a.ManifestDigest != last.ManifestDigest:
		s.log.Error("two versions were announced as the same: the first one stays", "model", a.Model, "version",
			last.Version, "other", a.Version)
	case a.Sequence == last.Sequence: // announced again, perhaps with its files or a renewal
		if a.Inline == nil {
			a.Inline = last.Inline
		}
		if last.Renewal.Renewed.After(a.Renewal.Renewed) {
			a.Renewal = last.Renewal
		}
		s.last[a.Model] = a
	}
}

// ignore counts and logs what is not taken. The caller holds mu.
func (s *Source) ignore(what string, r *kgo.Record, err error) {
	s.ignored, s.why = s.ignored+1, err
	s.log.Warn(what, "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err)
}

// SourceStatus is the state of a Source.
type SourceStatus struct {
	CaughtUp bool  // the announcements that were there at the start have been read
	Ignored  int64 // records that are no announcements, or not by whom they should be, since the start
	Err      error // why the last of them was ignored; nil without one

	Deltas     int   // those held, which were not taken back
	DeltaBytes int64 // of their frames
}

// Status returns the state of the source.
func (s *Source) Status() SourceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SourceStatus{s.caught, s.ignored, s.why, len(s.chains.keys), s.chains.bytes}
}

// note runs a change and wakes those who wait.
func (s *Source) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Wait returns the last announcement of a model once the announcements that were there at the start have been read, and
// waits while it is the one that last names. Only the champion is announced.
func (s *Source) Wait(ctx context.Context, model, alias string, last snapshot.Pointer) (snapshot.Pointer, error) {
	if alias != pointer.Champion {
		return snapshot.Pointer{}, fmt.Errorf("kafkasource: %w: the topic announces the alias %s only, not %q",
			snapshot.ErrNotFound, pointer.Champion, alias)
	}
	for {
		s.mu.Lock()
		a, caught, changed := s.last[model], s.caught, s.changed
		s.mu.Unlock()
		switch {
		case !caught:
		case a == nil:
			return snapshot.Pointer{}, fmt.Errorf("kafkasource: %w: no announcement of the model %s in the topic %s",
				snapshot.ErrNotFound, model, s.topic)
		case a.Sequence != last.Sequence || a.ManifestDigest != last.ManifestDigest || !a.Renewal.Renewed.Equal(
			last.Renewal.Renewed):
			return a.Pointer, nil
		}
		select {
		case <-ctx.Done():
			return snapshot.Pointer{}, ctx.Err()
		case <-changed:
		}
	}
}

// File opens a file of a version: from its announcement if it is there, else where the files are.
func (s *Source) File(ctx context.Context, model string, version int64, name string) (io.ReadCloser, error) {
	s.mu.Lock()
	a := s.last[model]
	s.mu.Unlock()
	if a != nil && a.Version == version && a.Inline != nil {
		b, ok := a.Inline[name]
		if !ok {
			return nil, fmt.Errorf("kafkasource: %w: %s is not among the files of version %d", fs.ErrNotExist, name,
				version)
		}
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	if s.files == nil {
		return nil, fmt.Errorf(
			"kafkasource: version %d of %s was announced without its files: name a source that has them", version,
			model)
	}
	return s.files.File(ctx, model, version, name)
}

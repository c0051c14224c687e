package shard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Status is what is known of a shard.
type Status struct {
	Seen    time.Time // when its last head was written; zero before
	Host    string
	Lag     int64
	Clock   *time.Duration // by which its host's is ahead; nil if that is not known
	Refused string         // why its last head was not merged; empty if it was
}

// Status returns what is known of the shards, in their order.
func (r *Receiver) Status() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.status)
}

// Current reports whether everything has been merged that the topic had when the receiver began. Before that the state
// may be one that the sample of all shards never was: compaction takes rows out that a later head has no more.
func (r *Receiver) Current() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Trouble says why not everything is merged that the shards send, or "".
func (r *Receiver) Trouble() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing != "" {
		return r.failing
	}
	if r.stray != "" {
		return r.stray
	}
	for i, s := range r.status {
		switch {
		case s.Refused != "":
			return fmt.Sprintf("shard %d of %d: refused: %s", i, len(r.status), s.Refused)
		case r.current && s.Seen.IsZero():
			return fmt.Sprintf("shard %d of %d: has not sent anything yet", i, len(r.status))
		case r.current && time.Since(s.Seen) > silentFor:
			return fmt.Sprintf("shard %d of %d: has sent nothing since %s", i, len(r.status),
				s.Seen.UTC().Format(time.RFC3339))
		}
	}
	if !r.current {
		return "shard: reading the merge topic " + r.Topic
	}
	if r.member != nil {
		return r.member.trouble()
	}
	return ""
}

func (r *Receiver) fails(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = ""
	if err != nil {
		r.failing = fmt.Sprintf("shard: the merge topic %s: %v", r.Topic, err)
	}
}

// ahead returns by how much the clock of a shard's host is ahead: of that of the brokers, where the topic has their
// time, or else of this host's, where the head has just been written. It is nil where neither is known.
func (r *Receiver) ahead(rec *kgo.Record, h *head) *time.Duration {
	const appended = 1
	var by time.Duration
	switch clock := time.UnixMilli(h.Clock); {
	case h.Clock == 0: // of a build that did not say
		return nil
	case rec.Attrs.TimestampType() == appended:
		by = clock.Sub(rec.Timestamp)
	case r.current:
		by = time.Until(clock)
	default:
		return nil
	}
	return &by
}

// apart says by how much a clock is ahead or behind.
func apart(ahead time.Duration) string {
	if ahead < 0 {
		return fmt.Sprintf("%s behind", (-ahead).Round(time.Second))
	}
	return fmt.Sprintf("%s ahead", ahead.Round(time.Second))
}

// heard notes a head, and why it was refused, if it was.
func (r *Receiver) heard(number int, rec *kgo.Record, h *head, err error) {
	s := Status{Seen: rec.Timestamp, Host: h.Host, Lag: h.Lag, Clock: r.ahead(rec, h)}
	if r.current { // it was written just now, by whatever clock
		s.Seen = time.Now()
	}
	if err != nil {
		s.Refused = err.Error()
		s.Refused = strings.ToValidUTF8(s.Refused[:min(len(s.Refused), maxRefusal)], "")
	}
	r.mu.Lock()
	before := r.status[number]
	r.status[number] = s
	r.mu.Unlock()
	if err != nil && before.Refused != s.Refused {
		r.Log.Error("shard refused", "topic", r.Topic, "offset", rec.Offset, "shard", number, "host", h.Host, "error",
			err)
	}
}

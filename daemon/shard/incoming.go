package shard

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// drop counts and logs what is dropped.
func (r *Receiver) drop(reason string, number int, rec *kgo.Record, err error) {
	r.OnDropped(reason)
	r.Log.Warn("pairs of a shard dropped", "topic", r.Topic, "offset", rec.Offset, "shard", number, "kind", reason,
		"reason", err)
}

// turn takes up an instance of the shard, unless it is older than the one at hand. What waits of the older one keeps
// waiting: the head that it belongs to may have been superseded.
func (in *incoming) turn(by instance) bool {
	switch c := by.compare(in.by); {
	case c < 0:
		return false
	case c > 0:
		in.by, in.received = by, 0
	}
	return true
}

func (r *Receiver) takeHead(number int, rec *kgo.Record) error {
	var h head
	in := &r.shards[number]
	r.heads++
	// First: is it a head of this team at all? Its pairs stay where they are if not.
	err := decode(rec, r.Model, &h)
	switch {
	case err != nil:
	case h.Shard != number:
		err = fmt.Errorf("it says that it is of shard %d", h.Shard)
	case h.Count != r.Count:
		err = fmt.Errorf("%s has shard.count %d, the trainer %d: all have to have the same", h.Host, h.Count, r.Count)
	default:
		err = r.fit(number, &h)
	}
	if in.foreign = err != nil; in.foreign {
		r.heard(number, rec, &h, err)
		return nil
	}
	if !h.By.followsHead(max(in.head.By.Epoch, in.headed)) {
		r.drop(DroppedEpoch, number, rec, errImplausible)
		return nil
	}
	in.headed = max(in.headed, h.By.Epoch)
	if !in.turn(
		h.By,
	) { // of a process that is over, or of one that does not know of those before it: the topic has lost them
		r.passed[number] = in.by
		return nil
	}
	delete(r.passed, number)
	r.outdo(h.Heeds)
	// Then: are all pairs before it here? Merging a head without some would lose rows for good.
	missing := r.missing(in, number, &h)
	if in.spilled {
		missing = max(missing, 1)
	}
	// At the start compaction may have left an old head whose pairs a later one has replaced: judged where the topic
	// ended.
	if missing > 0 && in.gaps != r.gaps && r.next < r.end {
		in.doubt = &doubt{rec, &h, missing}
		return nil
	}
	in.head, in.received, in.doubt = h.mark(), 0, nil
	if missing > 0 {
		in.gaps = r.gaps
		r.lose(number, rec, &h, missing)
	}
	// It was asked to send all again, and this head does not say that it did.
	if none := (instance{}); in.lost != none && h.Resent != in.lost {
		r.resend[number] = in.lost
		return nil
	}
	in.lost = instance{}
	delete(r.resend, number)
	if ahead := r.ahead(rec, &h); ahead != nil && ahead.Abs() > r.MaxSkew { // its pairs wait for a head that is not
		r.heard(
			number,
			rec,
			&h,
			fmt.Errorf(
				"the clock of %s is %s: more than %s are not merged, because it decides which times of events can be true; set it",
				h.Host,
				apart(*ahead),
				r.MaxSkew,
			),
		)
		return nil
	}
	if !r.takes() {
		in.last = report.ShardHead{
			Shard:   number,
			Host:    h.Host,
			Written: rec.Timestamp.UTC(),
			Epoch:   h.By.Epoch,
			Sent:    h.Sent,
			Lag:     h.Lag,
		}
	}
	if !r.takes() && !r.covers(number, &h) { // its pairs wait for a head that does
		r.heard(number, rec, &h, nil)
		return nil
	}
	// Resume is where a restart has to read from: below all pairs that wait for a head.
	share := &sketch.Share{Shard: uint32(number), Head: &h.Head, Values: r.Values, Resume: rec.Offset + 1, Only: r.Only}
	share.Carry = r.Carry != nil && r.Carry(number)
	if share.Memo, err = r.memo(); err != nil {
		return err
	}
	if r.takes() { // one merge of the last head does what those of all would
		in.kept, in.gaps = share, r.gaps
		r.heard(number, rec, &h, nil)
		return nil
	}
	share.Pairs = in.pairs()
	for i := range r.shards {
		if other := &r.shards[i]; i != number && other.waiting != nil {
			share.Resume = min(share.Resume, other.since)
		}
	}
	// The place is written last, and with few pairs all at once: what a crash leaves undone is merged again.
	events, err := r.Store.Merge(share)
	switch {
	case errors.Is(err, sketch.ErrBehind): // its pairs wait for a head that is not
		r.heard(number, rec, &h, nil)
		return nil
	case errors.Is(err, sketch.ErrForeign):
		in.foreign = true
		r.heard(number, rec, &h, err)
		return nil
	case err != nil:
		return err
	}
	in.waiting, in.gaps = nil, r.gaps
	r.heard(number, rec, &h, nil)
	r.OnMerged(events)
	return nil
}

// missing returns how many pairs before a head are not in the topic. Where offsets were passed over since, compaction
// may have taken them; and what an instance before it had sent is not in its count, if the last head of that was not
// seen here. Then only the rows that they are of can be counted.
func (r *Receiver) missing(in *incoming, number int, h *head) int64 {
	n, known := h.Sent-in.received, h.After.compare(in.head) <= 0
	if h.By == in.head.By {
		n, known = n-in.head.Sent, true
	}
	if n > 0 && in.gaps == r.gaps || n <= 0 && known {
		return n
	}
	return r.Store.Lacks(&sketch.Share{Shard: uint32(number), Head: &h.Head, Pairs: in.pairs(), Only: r.Only})
}

// lose asks a shard to send all again.
func (r *Receiver) lose(number int, rec *kgo.Record, h *head, missing int64) {
	r.shards[number].lost, r.shards[number].spilled = h.By, false
	r.heard(
		number,
		rec,
		h,
		fmt.Errorf("%d of the rows before offset %d are not in the topic: it is asked to send all again", missing,
			rec.Offset),
	)
}

// resolve asks the shards to send all again whose last head, where the topic ended at the start, lacks rows.
func (r *Receiver) resolve() {
	for number := range r.shards {
		in := &r.shards[number]
		if d := in.doubt; d != nil {
			in.doubt, in.gaps = nil, r.gaps
			r.lose(number, d.rec, d.head, d.missing)
			r.resend[number] = in.lost
		}
	}
}

// pairs returns what waits, in order.
func (in *incoming) pairs() (out []sketch.Pair) {
	for _, key := range slices.Sorted(maps.Keys(in.waiting)) {
		out = append(out, sketch.Pair{Key: []byte(key), Value: in.waiting[key]})
	}
	return out
}

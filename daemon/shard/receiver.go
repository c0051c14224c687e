package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	wishEvery  = 200 * time.Millisecond // between two words to the shards, where thresholds have risen
	silentFor  = 4 * beatEvery          // without a head a shard counts as lost
	maxRefusal = 200                    // bytes of the reason why a head is refused
)

// ReceiverOptions are those of a Receiver. All but those from Only to Sender and those from Key on are required.
type ReceiverOptions struct {
	Kafka  []kgo.Opt // brokers, encryption, sign-in
	Topic  string    // the merge topic
	Model  string
	Count  int           // shards
	Store  *sketch.Store // of sketch.Options.Merges
	Log    *slog.Logger
	Values func(field string, payload []byte) ([][]byte, error) // as in sketch.Share
	Owns   func(shard int, topic string, partition int32) bool
	// MaxSkew is by how much the clock of a shard may be wrong. Its clock decides which times of events can be true
	// (sketch.TimeBound).
	MaxSkew time.Duration
	// Only and Carry are those of sketch.Share, where a shard takes its partitions up from others (TakeUp).
	Only  func(topic string, partition int32) bool
	Carry func(shard int) bool
	// Place is the number of the shard whose place a store takes, with all that it has (TakePlace); nil for none.
	Place *int
	// Sender, with Place, is shown what is read, so that its Prepare reads on behind it.
	Sender *Sender
	// Key returns the key of an option of sketch, for messages; nil for its name.
	Key func(option string) string
	// Agreement is what else all processes have to have the same, by key: what rows are made of, and which events are
	// valid.
	Agreement map[string]string
	// OnMerged is called after each share with the events that the accounts of each topic grew by.
	OnMerged func(events map[string]int64)
	// MaxWaiting bounds the bytes of the pairs of a shard that wait for its head; beyond it they are dropped, and the
	// shard is asked to send all again.
	// 0 is MinWaiting.
	MaxWaiting int64
	// OnDropped is called with the reason for which a pair, or all that waited, was dropped.
	OnDropped func(reason string)
	// Standby is how long the trainer that trains may be silent before another one does; 0 where there is one. Stand
	// has to run then.
	Standby time.Duration
	// Newest returns the epoch and the number of the newest version in the store, and OnTerm is called when this
	// process begins to train or ends.
	Newest func() (epoch, version int64)
	OnTerm func()
}

// Receiver merges what the shards of a model send into the trainer's store. Make it with NewReceiver, call Run once.
// Its other methods are safe for concurrent use.
type Receiver struct {
	ReceiverOptions
	client *kgo.Client // that writes; nil until it is needed, and after a failure
	shards []incoming
	next   int64 // offset to be read
	end    int64 // of the topic at the start
	gaps   int   // offsets passed over since the start: compaction took their records
	sent   []byte
	sentAt time.Time
	wrote  time.Time // when that was written
	heads  int       // since the wishes were last compared with those sent
	resend map[int]instance
	passed map[int]instance
	policy [2]policy
	wished *wishes // of the trainer of a team that has ended

	tenure  tenure
	member  *member       // nil where there is one trainer
	checked chan struct{} // closed once the topic is there and can be used
	usable  func()        // closes it

	mu      sync.Mutex // guards what follows
	term    *Term      // nil while another process trains
	host    string     // of that one
	stray   string     // why this one may not train
	current bool       // everything was read that the topic had at the start
	failing string
	status  []Status
}

// incoming is what has been read of a shard.
type incoming struct {
	by       instance // the latest that wrote
	waiting  map[string][]byte
	bytes    int64  // about, of what waits
	spilled  bool   // what waited was dropped, and nothing was lost by a head since
	since    int64  // offset of the first pair that waits
	received int64  // pairs of by since its last head
	headed   uint64 // largest epoch of heads
	head     mark   // of the last head counted
	// Receiver.gaps at the last head of which all rows were there, 0 before one: pairs that went since do not arrive
	// either
	gaps    int
	lost    instance         // of which pairs are missing; zero for none
	doubt   *doubt           // of the last head, where the topic has more
	foreign bool             // the last head is of another sample, or of another build
	kept    *sketch.Share    // with Only or Place: the last head that can be merged
	last    report.ShardHead // the last head, where they are a trainer's shards
}

// doubt is a head that lacks rows, below a gap: a later one may say that they are gone, and compaction has taken them.
type doubt struct {
	rec     *kgo.Record
	head    *head
	missing int64
}

// NewReceiver returns a receiver. Nothing is connected before Run.
func NewReceiver(o ReceiverOptions) *Receiver {
	if o.OnDropped == nil {
		o.OnDropped = func(string) {}
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = MinWaiting
	}
	if o.OnMerged == nil {
		o.OnMerged = func(map[string]int64) {}
	}
	if o.Newest == nil {
		o.Newest = func() (int64, int64) { return 0, 0 }
	}
	if o.OnTerm == nil {
		o.OnTerm = func() {}
	}
	r := &Receiver{
		ReceiverOptions: o,
		shards:          make([]incoming, o.Count),
		resend:          map[int]instance{},
		passed:          map[int]instance{},
		status:          make([]Status, o.Count),
		policy:          policiesOf(o.Model, o.Count, o.Store, o.Agreement),
		tenure:          newTenure(),
		checked:         make(chan struct{}),
	}
	r.usable = sync.OnceFunc(func() { close(r.checked) })
	if o.Standby > 0 {
		r.member = &member{
			group:   groupOf(o.Topic),
			topic:   o.Topic,
			session: o.Standby,
			connect: o.Kafka,
			log:     o.Log,
			changed: r.look,
		}
	}
	return r
}

// Run merges until ctx is done or, with untilEnd, everything is merged that the topic had at the start. The error wraps
// ErrTopic, or is one of the state.
func (r *Receiver) Run(ctx context.Context, untilEnd bool) error {
	defer r.close()
	for failures := 1; ; failures++ {
		err := r.run(ctx, untilEnd)
		switch {
		case ctx.Err() != nil, err == nil:
			return nil
		case errors.Is(err, ErrTopic),
			errors.Is(err, ErrTrainers),
			errors.Is(err, sketch.ErrStorage),
			errors.Is(err, sketch.ErrCorrupt):
			return err
		}
		if failures == 1 {
			r.Log.Error("merge topic cannot be read: tried again until it can", "topic", r.Topic, "error", err)
		}
		r.fails(err)
		_ = backoff.Sleep(ctx, backoff.Doubled(failures, retryMin, retryMax))
	}
}

func (r *Receiver) run(ctx context.Context, untilEnd bool) error {
	if err := r.connect(); err != nil {
		return err
	}
	if !r.takes() {
		if err := check(ctx, r.client, r.Topic, r.Log, true); err != nil {
			return err
		}
		r.usable()
	}
	end, err := r.resume(ctx)
	if err != nil {
		return err
	}
	reader, err := kgo.NewClient(append([]kgo.Opt{readFrom(r.Topic, r.next)}, r.Kafka...)...)
	if err != nil {
		return err
	}
	defer reader.Close()
	r.fails(nil)
	for {
		if r.next >= end {
			if err := r.catchUp(ctx, untilEnd); err != nil {
				return err
			}
			if untilEnd && r.decided() {
				return nil
			}
		}
		if err := r.poll(ctx, reader); err != nil {
			return err
		}
	}
}

// poll merges what the next fetch has. It returns, too, when it is time for a word to the shards.
func (r *Receiver) poll(ctx context.Context, reader *kgo.Client) error {
	pollCtx, cancel := context.WithTimeout(ctx, wishEvery)
	defer cancel()
	fetches := reader.PollFetches(pollCtx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for records := fetches.RecordIter(); !records.Done(); {
		if err := r.take(records.Next()); err != nil {
			return err
		}
	}
	return nil
}

// take takes up a record.
func (r *Receiver) take(rec *kgo.Record) error {
	if rec.Offset > r.next {
		r.gaps++
	}
	r.next = rec.Offset + 1
	if r.Sender != nil {
		r.Sender.see(rec)
	}
	kind, number, key, ok := parseKey(rec.Key)
	if !ok {
		return nil
	}
	if kind == kindTrainer {
		return r.takeWishes(rec)
	}
	if r.Place != nil && number != *r.Place {
		return nil
	}
	if number >= r.Count {
		r.Log.Warn(
			"record of a shard number that does not exist",
			"topic",
			r.Topic,
			"offset",
			rec.Offset,
			"shard",
			number,
			"count",
			r.Count,
		)
		return nil
	}
	if kind == kindPair {
		r.takePair(number, key, rec)
		return nil
	}
	if rec.Value == nil {
		return nil
	}
	return r.takeHead(number, rec)
}

// Reasons for which something of the topic is dropped, as in the metric.
const (
	DroppedEpoch = "epoch" // pairs of a run that there cannot be
	DroppedPair  = "pair"  // pairs that no head could be merged with
	DroppedFull  = "full"  // all pairs of a shard that waited for a head: there was no room for more
	DroppedWord  = "word"  // records of the live topic with numbers that cannot be true
	DroppedBuild = "build" // records of the live topic that another build has written
)

// DroppedReasons are all of them.
var DroppedReasons = []string{DroppedEpoch, DroppedPair, DroppedFull, DroppedWord, DroppedBuild}

// takePair has a pair wait for the head that it belongs to.
func (r *Receiver) takePair(number int, key []byte, rec *kgo.Record) {
	in := &r.shards[number]
	by, ok := instanceOf(rec, r.policy)
	if ok && !by.follows(max(in.head.By.Epoch, in.headed)) {
		r.drop(DroppedEpoch, number, rec, errImplausible)
		return
	}
	if !ok || !in.turn(by) {
		return
	}
	in.received++
	pair := sketch.Pair{Key: key, Value: rec.Value}
	owns := func(topic string, partition int32) bool { return r.Owns(number, topic, partition) }
	if err := r.Store.CheckPair(&pair, owns); err != nil {
		r.drop(DroppedPair, number, rec, err)
		return
	}
	if in.waiting == nil {
		in.waiting, in.since, in.bytes = map[string][]byte{}, rec.Offset, 0
	}
	old, had := in.waiting[string(key)]
	size := int64(len(rec.Value) - len(old))
	if !had {
		size += int64(len(key)) + pairBytes
	}
	if r.Only != nil && !(&sketch.Share{Only: r.Only}).Takes(&pair) {
		if had { // of a row that is gone nobody can say of which partition it was
			in.bytes -= int64(len(key)+len(old)) + pairBytes
			delete(in.waiting, string(key))
		}
		return
	}
	if in.bytes += size; in.bytes > r.MaxWaiting {
		in.waiting, in.bytes, in.spilled = nil, 0, true
		r.drop(DroppedFull, number, rec, fmt.Errorf("pairs of %d bytes wait for its head", r.MaxWaiting))
		return
	}
	in.waiting[string(key)] = rec.Value
}

// drop counts and logs what is dropped.
func (r *Receiver) drop(reason string, number int, rec *kgo.Record, err error) {
	r.OnDropped(reason)
	r.Log.Warn(
		"pairs of a shard dropped",
		"topic",
		r.Topic,
		"offset",
		rec.Offset,
		"shard",
		number,
		"kind",
		reason,
		"reason",
		err,
	)
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
	in.headed = max(in.headed, h.By.Epoch)
	if !in.turn(
		h.By,
	) { // of a process that is over, or of one that does not know of those before it: the topic has lost them
		r.passed[number] = in.by
		return nil
	}
	delete(r.passed, number)
	r.outdo(h.Heeds)
	missing := r.missing(in, number, &h)
	if in.spilled {
		missing = max(missing, 1)
	}
	if missing > 0 && in.gaps != r.gaps && r.next < r.end {
		in.doubt = &doubt{rec, &h, missing}
		return nil
	}
	in.head, in.received, in.doubt = h.mark(), 0, nil
	if missing > 0 {
		in.gaps = r.gaps
		r.lose(number, rec, &h, missing)
	}
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
		fmt.Errorf(
			"%d of the rows before offset %d are not in the topic: it is asked to send all again",
			missing,
			rec.Offset,
		),
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

// fit refuses a head of another sample, or with a partition that is not the shard's.
func (r *Receiver) fit(number int, h *head) error {
	if key, there, here, ok := differs(h.Agreement, r.Agreement); ok {
		return fmt.Errorf("%s is %s on %s, %s at the trainer: all have to have the same", key, there, h.Host, here)
	}
	if err := r.Store.Agrees(h.Head.Settings); err != nil {
		return unlike(err, r.Key, "on "+h.Host, "at the trainer")
	}
	for _, p := range h.Head.Ledger {
		topic, partition, err := sketch.PartitionOf(p.Key)
		if err != nil {
			return err
		}
		if !r.Owns(number, topic, partition) {
			return fmt.Errorf(
				"it has %s/%d, which is no partition of shard %d of %d",
				topic,
				partition,
				number,
				r.Count,
			)
		}
	}
	return nil
}

// covers reports whether a head has all partitions of the shard that were merged: one that began with an empty state
// has not come to some of them yet, and what it has counted of the others is less than what it had.
func (r *Receiver) covers(number int, h *head) bool {
	type place struct {
		topic  string
		number int32
	}
	has := map[place]bool{}
	for _, p := range h.Head.Ledger {
		if topic, partition, err := sketch.PartitionOf(p.Key); err == nil {
			has[place{topic, partition}] = true
		}
	}
	return !slices.ContainsFunc(r.Store.Ledger(), func(l sketch.LedgerRow) bool {
		return r.Owns(number, l.Topic, l.Partition) && !has[place{l.Topic, l.Partition}]
	})
}

// wish sends the shards the thresholds of the sample, the forgotten subjects, and who has to send everything again,
// where any of them has changed.
func (r *Receiver) wish(ctx context.Context, now bool) error {
	if !now && (time.Since(r.sentAt) < wishEvery || r.heads == 0 && r.sent != nil) {
		return nil
	}
	h, err := r.Store.Head()
	if err != nil {
		return err
	}
	w := wishes{Format: formatVersion, Model: r.Model, By: r.tenure.by, Host: hostName(), Version: r.tenure.version,
		Settings: h.Settings, Thresholds: r.Store.Thresholds(), Merged: r.begun(), Resend: r.resend, Passed: r.passed}
	if len(r.Store.ForgottenFields()) > 0 {
		if w.Forgotten, err = r.Store.Testify(); err != nil {
			return err
		}
		w.Forgotten.Partitions = slices.DeleteFunc(
			w.Forgotten.Partitions,
			func(t sketch.Testimony) bool { return t.Incarnation == 0 },
		)
	}
	value, err := json.Marshal(&w)
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	r.heads, r.sentAt = 0, time.Now()
	if bytes.Equal(value, r.sent) &&
		time.Since(
			r.wrote,
		) < beatEvery { // else again: the topic may lose them, and who takes a shard up looks at its end alone
		return nil
	}
	if err := r.connect(); err != nil {
		return err
	}
	if err := produce.Bounded(ctx, r.client, func() error {
		return r.client.ProduceSync(ctx, &kgo.Record{Key: []byte{kindTrainer}, Value: value}).FirstErr()
	}); err != nil {
		r.close()
		r.sent = nil
		return err
	}
	r.sent, r.wrote, r.tenure.sent = value, time.Now(), w.By
	return nil
}

// begun returns how many shards there are of which events were merged.
func (r *Receiver) begun() (n int) {
	ledger := r.Store.Ledger()
	for i := range r.shards {
		if slices.ContainsFunc(
			ledger,
			func(l sketch.LedgerRow) bool { return l.Next > l.Start && r.Owns(i, l.Topic, l.Partition) },
		) {
			n++
		}
	}
	return n
}

func (r *Receiver) connect() (err error) {
	if r.client == nil {
		r.client, err = produce.NewClient(append([]kgo.Opt{kgo.DefaultProduceTopic(r.Topic)}, r.Kafka...)...)
	}
	return err
}

func (r *Receiver) close() {
	if r.client != nil {
		r.client.Close()
		r.client = nil
	}
}

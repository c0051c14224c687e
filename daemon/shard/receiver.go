package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
// Its other methods are safe for concurrent use. It is one type: its lock guards what merging, taking over and showing
// share.
type Receiver struct {
	ReceiverOptions
	client *kgo.Client // that writes; nil until it is needed, and after a failure
	// Down to checked, all of this belongs to the goroutine of Run; Stand and the status read what mu guards.
	shards []incoming
	next   int64  // offset to be read
	end    int64  // of the topic at the start
	gaps   int    // offsets passed over since the start: compaction took their records
	sent   []byte // the last wishes written, as bytes: nil asks for new ones
	sentAt time.Time
	wrote  time.Time        // when that was written
	heads  int              // since the wishes were last compared with those sent
	resend map[int]instance // of which run of a shard rows are missing, by its number
	passed map[int]instance // the run that a shard's own is older than, by its number
	policy [2]policy
	wished *wishes // of the trainer of a team that has ended

	tenure  tenure        // who trains, as this process knows it
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
	// Compaction leaves gaps: pairs in them were replaced by later ones, or are gone.
	if rec.Offset > r.next {
		r.gaps++
	}
	r.next = rec.Offset + 1
	// The same records say which runs of the shard there were.
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
		r.Log.Warn("record of a shard number that does not exist", "topic", r.Topic, "offset", rec.Offset, "shard",
			number, "count", r.Count)
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
	DroppedEpoch = "epoch" // pairs and heads of a run that there cannot be
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
	in.received++ // before it is looked at: heads count what was sent, useful or not
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
	// All of them: a part could not be merged. The shard is asked to send everything again at its next head.
	if in.bytes += size; in.bytes > r.MaxWaiting {
		in.waiting, in.bytes, in.spilled = nil, 0, true
		r.drop(DroppedFull, number, rec, fmt.Errorf("pairs of %d bytes wait for its head", r.MaxWaiting))
		return
	}
	in.waiting[string(key)] = rec.Value
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
			return fmt.Errorf("it has %s/%d, which is no partition of shard %d of %d", topic, partition, number,
				r.Count)
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
		w.Forgotten.Partitions = slices.DeleteFunc(w.Forgotten.Partitions,
			func(t sketch.Testimony) bool { return t.Incarnation == 0 })
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
		if slices.ContainsFunc(ledger,
			func(l sketch.LedgerRow) bool { return l.Next > l.Start && r.Owns(i, l.Topic, l.Partition) }) {
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

func (r *Receiver) close() { produce.Close(&r.client) }

package shard

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/snapshot/backoff"
)

// A Told is what a shard tells of what it has learned: a head and rows, of which this package knows nothing more. It is written into the live topic in parts
// and read when all of them are there.
type Told struct {
	Shard  int
	By     string // the run of the shard
	Number int64  // of the run's Tolds, from 1
	Head   []byte // JSON
	Rows   [][]byte
}

// toldHeader is the JSON with which each part of a Told begins.
type toldHeader struct {
	Format int             `json:"format"`
	Model  string          `json:"model"`
	Count  int             `json:"count"`
	Shard  int             `json:"shard"`
	By     string          `json:"by"`
	Number int64           `json:"number"`
	Part   int             `json:"part"`
	Parts  int             `json:"parts"`
	Head   json.RawMessage `json:"head,omitempty"` // in the first part
}

// toldBytes is how much rows a part has, but for one that is larger by itself.
const toldBytes = 512 << 10

// records returns the parts: the length of the header u32, the header, then each row with its length as a uvarint before it.
func (t *Told) records(model string, count int) ([]*kgo.Record, error) {
	var parts [][]byte
	var part []byte
	for _, row := range t.Rows {
		if len(part) > 0 && len(part)+len(row) > toldBytes {
			parts, part = append(parts, part), nil
		}
		part = append(binary.AppendUvarint(part, uint64(len(row))), row...)
	}
	parts = append(parts, part)
	records := make([]*kgo.Record, len(parts))
	for i, rows := range parts {
		h := toldHeader{Format: formatVersion, Model: model, Count: count, Shard: t.Shard, By: t.By, Number: t.Number, Part: i, Parts: len(parts)}
		if i == 0 {
			h.Head = t.Head
		}
		header, err := json.Marshal(&h)
		if err != nil {
			return nil, fmt.Errorf("shard: %w", err)
		}
		value := append(binary.BigEndian.AppendUint32(nil, uint32(len(header))), header...)
		records[i] = &kgo.Record{Key: keyOf(kindHead, t.Shard, nil), Value: append(value, rows...)}
	}
	return records, nil
}

// telling puts the parts of what shards told together again.
type telling struct {
	model string
	count int
	open  map[int]*Told // by shard, of which parts are missing
	next  map[int]int   // the part to come
	last  map[string]int64
}

var errTold = errors.New("the record cannot be read")

const (
	// maxToldParts bounds what is kept of a Told while parts are missing: 1024 parts have 400,000 rows of a kilobyte.
	maxToldParts = 1024
	// maxToldRuns is how many runs are remembered by the number of their last Told. What is read of a forgotten one again is known by its offsets.
	maxToldRuns = 4096
)

// take takes up a record and returns what is whole with it, nil for nothing. What a run has told already is left out, and so is what lacks a part.
func (a *telling) take(r *kgo.Record) (*Told, error) {
	if len(r.Value) < 4 || int(binary.BigEndian.Uint32(r.Value)) > len(r.Value)-4 {
		return nil, errTold
	}
	n := 4 + int(binary.BigEndian.Uint32(r.Value))
	var h toldHeader
	if err := decode(&kgo.Record{Value: r.Value[4:n], Offset: r.Offset}, a.model, &h); err != nil {
		return nil, err
	}
	switch {
	case h.Count != a.count:
		return nil, fmt.Errorf("it is of shard.count %d, which is %d here: all have to have the same", h.Count, a.count)
	case h.Shard < 0 || h.Shard >= a.count || h.Parts < 1 || h.Parts > maxToldParts || h.Part < 0 || h.Part >= h.Parts ||
		len(h.By) > maxName:
		return nil, errTold
	case h.Number <= a.last[h.By]:
		return nil, nil
	}
	t := a.open[h.Shard]
	if h.Part == 0 {
		t = &Told{Shard: h.Shard, By: h.By, Number: h.Number, Head: h.Head}
		a.open[h.Shard], a.next[h.Shard] = t, 0
	}
	if t == nil || t.By != h.By || t.Number != h.Number || a.next[h.Shard] != h.Part {
		return nil, nil
	}
	for rest := r.Value[n:]; len(rest) > 0; {
		size, k := binary.Uvarint(rest)
		if k <= 0 || size > uint64(len(rest)-k) {
			return nil, errTold
		}
		t.Rows = append(t.Rows, rest[k:k+int(size)])
		rest = rest[k+int(size):]
	}
	if a.next[h.Shard]++; a.next[h.Shard] < h.Parts {
		return nil, nil
	}
	delete(a.open, h.Shard)
	if len(a.last) >= maxToldRuns {
		clear(a.last)
	}
	a.last[h.By] = h.Number
	return t, nil
}

// LiveOptions are those of a Live. All are required.
type LiveOptions struct {
	Kafka     []kgo.Opt // brokers, encryption, sign-in
	Topic     string    // the live topic
	Model     string
	Count     int // shards
	Log       *slog.Logger
	OnDropped func(reason string)                // called with DroppedWord for a record that cannot be
	OnTold    func(ctx context.Context, t *Told) // called with what shards told, in the order of the topic; it may wait
}

// Live is the topic in which shards tell what they learn between refits. Its records are of use until the next refit, and old ones are deleted. Make it with
// NewLive, call Run once. Tell may run beside it.
type Live struct {
	LiveOptions
	told    telling
	next    int64 // offset to be read; -1 before the first
	current chan struct{}
	failing atomic.Pointer[string]

	mu     sync.Mutex // guards client
	client *kgo.Client
}

// NewLive returns the topic. Nothing is connected before Run or Tell.
func NewLive(o LiveOptions) *Live {
	return &Live{LiveOptions: o, next: -1, current: make(chan struct{}),
		told: telling{model: o.Model, count: o.Count, open: map[int]*Told{}, next: map[int]int{}, last: map[string]int64{}}}
}

// Current is closed once everything was read that the topic had at the start.
func (l *Live) Current() <-chan struct{} { return l.current }

// Trouble says why the topic cannot be read or written, or "".
func (l *Live) Trouble() string {
	if text := l.failing.Load(); text != nil {
		return *text
	}
	return ""
}

func (l *Live) fails(err error) {
	if err == nil {
		l.failing.Store(nil)
		return
	}
	text := fmt.Sprintf("shard: the live topic %s: %v", l.Topic, err)
	l.failing.Store(&text)
}

// Tell writes what a shard told, and returns once the brokers have it. After an error some of it may be there: what is told again has to have the same number.
func (l *Live) Tell(ctx context.Context, t *Told) (bytes int64, err error) {
	records, err := t.records(l.Model, l.Count)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil {
		if l.client, err = produce.NewClient(append([]kgo.Opt{kgo.DefaultProduceTopic(l.Topic)}, l.Kafka...)...); err != nil {
			return 0, err
		}
	}
	err = l.client.ProduceSync(ctx, records...).FirstErr()
	l.fails(err)
	if err != nil {
		l.client.Close()
		l.client = nil
		return 0, err
	}
	for _, r := range records {
		bytes += int64(len(r.Key) + len(r.Value))
	}
	return bytes, nil
}

// Close closes what Tell opened.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		l.client.Close()
		l.client = nil
	}
}

// Run reads the topic until ctx is done. Whatever fails is tried again: the sample does not depend on it.
func (l *Live) Run(ctx context.Context) {
	for failures := 1; ctx.Err() == nil; failures++ {
		err := l.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if failures == 1 {
			l.Log.Error("live topic cannot be read: tried again until it can", "topic", l.Topic, "error", err)
		}
		l.fails(err)
		_ = backoff.Sleep(ctx, backoff.Doubled(failures, retryMin, retryMax))
	}
}

func (l *Live) run(ctx context.Context) error {
	end, err := l.prepare(ctx)
	if err != nil {
		return err
	}
	reader, err := kgo.NewClient(append([]kgo.Opt{readFrom(l.Topic, l.next)}, l.Kafka...)...)
	if err != nil {
		return err
	}
	defer reader.Close()
	l.fails(nil)
	for {
		if l.next >= end {
			select {
			case <-l.current:
			default:
				l.Log.Info("live topic read", "topic", l.Topic, "next", l.next)
				close(l.current)
			}
		}
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for records := fetches.RecordIter(); !records.Done(); {
			r := records.Next()
			l.next = r.Offset + 1
			t, err := l.told.take(r)
			if err != nil {
				l.OnDropped(DroppedWord)
				l.Log.Warn("record of the live topic passed over", "topic", l.Topic, "offset", r.Offset, "error", err)
			} else if t != nil {
				l.OnTold(ctx, t)
			}
		}
	}
}

// The settings of the live topic: what shards learned on a refit is of no use after the next one.
const (
	deletePolicy = "delete"
	liveMillis   = "86400000"
	liveBytes    = "4294967296"
)

// prepare creates the topic if it is missing, and returns its end. Where it is to be read from is in l.next.
func (l *Live) prepare(ctx context.Context) (end int64, err error) {
	client, err := produce.NewClient(append([]kgo.Opt{kgo.DefaultProduceTopic(l.Topic)}, l.Kafka...)...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	policy, retention, size := deletePolicy, liveMillis, liveBytes
	created, err := produce.Ensure(ctx, client, l.Topic, 1, map[string]*string{cleanupPolicy: &policy, "retention.ms": &retention, "retention.bytes": &size})
	if err != nil {
		return 0, fmt.Errorf("topic %s (shard.live_topic): %w", l.Topic, err)
	}
	if created {
		l.Log.Info("topic created", "topic", l.Topic, cleanupPolicy, deletePolicy)
	}
	if err := l.fits(ctx, client); err != nil {
		return 0, err
	}
	start, end, err := bounds(ctx, client, l.Topic)
	if err != nil {
		return 0, err
	}
	if l.next < start || l.next > end {
		l.next = start
	}
	return end, nil
}

// fits refuses a topic that loses what a shard told last but one, or has it out of order.
func (l *Live) fits(ctx context.Context, client *kgo.Client) error {
	admin := kadm.NewClient(client)
	found, err := admin.ListTopics(ctx, l.Topic)
	if err != nil {
		return err
	}
	if n := len(found[l.Topic].Partitions); n > 1 {
		return fmt.Errorf("topic %s (shard.live_topic) has %d partitions, want 1", l.Topic, n)
	}
	described, err := admin.DescribeTopicConfigs(ctx, l.Topic)
	if err != nil {
		return nil // not being allowed to look is no reason not to go on
	}
	for _, d := range described {
		for _, c := range d.Configs {
			if value := c.MaybeValue(); c.Key == cleanupPolicy && strings.Contains(value, compact) {
				return fmt.Errorf("topic %s (shard.live_topic) has %s %s, which keeps the last record of each shard alone: set it to %s",
					l.Topic, cleanupPolicy, value, deletePolicy)
			}
		}
	}
	return nil
}

// TellEvery is the time between two Tolds of a shard, at least.
const TellEvery = time.Second

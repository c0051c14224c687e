package announce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/kafkasource"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	deltaWait    = time.Second     // for a delta, before the alias is looked at again
	deltaTimeout = 2 * time.Minute // of reading what the topic holds, at the start and after a failure
	maxSend      = 4 << 20         // frames that are sent together, bytes, unless one is larger
)

// A DeltaProducer puts the deltas of a model's champion into a compacted topic, for a Source to read: a record is one
// frame, its key <model>/<lineage>/<version>/<sequence>, and a record without a value takes back one of a chain that
// has ended. It follows the store, where deltas come first: what fails is repeated, and nothing waits for it. Make it
// with NewDeltas, call Run once.
type DeltaProducer struct {
	Options
	// nil until it is needed, and after a failure: what a failed producer has under way is unknown
	client *kgo.Client
	held   map[string]string // what the topic holds of the model: digests of deltas by their keys

	prefix  string // of the keys of the chain that is produced, "" before the first
	base    int64
	after   int64 // newest sequence that the topic has
	tooMuch bool  // the topic takes no record as large as the next delta
}

// NewDeltas returns a producer of deltas; Inline is not used. Nothing is connected before Run.
func NewDeltas(o Options) *DeltaProducer {
	if o.OnResult == nil {
		o.OnResult = func(error) {}
	}
	return &DeltaProducer{Options: o}
}

// Run produces deltas as they come until ctx is done. A failure is reported to OnResult, logged once until it is over,
// and tried again.
func (p *DeltaProducer) Run(ctx context.Context) {
	defer p.close()
	failures := 0
	for ctx.Err() == nil {
		did, err := p.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil || did {
			p.OnResult(err)
		}
		pause := time.Duration(0)
		switch {
		case err != nil:
			if !p.tooMuch {
				p.close()
			}
			if failures++; failures == 1 {
				p.Log.Error("deltas not produced: tried again until they are", "topic", p.Topic, "error", err)
			}
			pause = backoff.Doubled(failures, retryMin, retryMax)
		case p.prefix == "" || p.tooMuch:
			pause = lookEvery
		case did:
			failures = 0
		}
		_ = backoff.Sleep(ctx, pause) // the end is looked for above
	}
}

// step makes the topic hold what the store has of the champion's chain, and waits a while if it does. It reports
// whether something was sent.
func (p *DeltaProducer) step(ctx context.Context) (did bool, err error) {
	champion, err := p.Store.Alias(p.Model, pointer.Champion)
	if errors.Is(err, snapshot.ErrNotFound) {
		return false, nil
	}
	if err == nil && p.client == nil {
		err = p.open(ctx)
	}
	if err == nil && (p.prefix == "" || champion.Version != p.base) {
		did, err = p.begin(ctx, champion.Version)
	}
	if err != nil {
		return did, fmt.Errorf("announce: deltas: %w", err)
	}
	if p.tooMuch {
		return did, nil
	}
	sent, err := p.follow(ctx)
	if err != nil {
		err = fmt.Errorf("announce: deltas: %w", err)
	}
	return did || sent, err
}

// open connects and reads what the topic holds of the model.
func (p *DeltaProducer) open(ctx context.Context) (err error) {
	if p.client, err = produce.NewClient(append([]kgo.Opt{kgo.ProducerBatchMaxBytes(maxFrameBytes)},
		p.Kafka...)...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deltaTimeout)
	defer cancel()
	if _, _, err := compacted(ctx, p.client, p.Topic, "publish.deltas.topic", deltaSettings, p.Log, false); err != nil {
		return err
	}
	p.held, p.prefix = make(map[string]string), ""
	err = kafkasource.ReadTopic(ctx, p.Kafka, p.Topic, p.note)
	if err != nil {
		return fmt.Errorf("what the topic %s holds: %w", p.Topic, err)
	}
	return nil
}

// note takes up a record that is in the topic.
func (p *DeltaProducer) note(r *kgo.Record) {
	key := string(r.Key)
	if r.Attrs.IsControl() || !strings.HasPrefix(key, p.Model+"/") {
		return
	}
	delete(p.held, key)
	if r.Value != nil {
		p.held[key] = "" // taken back unless it is the delta of that key
		if d, err := format.DecodeDeltaHeader(r.Value, nil); err == nil {
			p.held[key] = d.Digest
		}
	}
}

// begin turns to the chain of a version, and takes back what the topic holds of others.
func (p *DeltaProducer) begin(ctx context.Context, version int64) (did bool, err error) {
	m, err := p.Store.Manifest(p.Model, version)
	if err != nil {
		return false, err
	}
	prefix := chainPrefix(p.Model, m.Lineage, version)
	var records []*kgo.Record
	for key := range p.held {
		if !strings.HasPrefix(key, prefix) {
			records = append(records, &kgo.Record{Topic: p.Topic, Key: []byte(key)})
		}
	}
	if len(records) > 0 {
		if err := p.send(ctx, records); err != nil {
			return false, err
		}
		p.Log.Debug("deltas of other versions taken back", "topic", p.Topic, "deltas", len(records))
	}
	p.prefix, p.base, p.after, p.tooMuch = prefix, version, 0, false
	return len(records) > 0, nil
}

// follow sends the next deltas of the chain. Without one it waits.
func (p *DeltaProducer) follow(ctx context.Context) (did bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, deltaWait)
	defer cancel()
	stream, err := snapshot.DirSource{Dir: p.Dir}.Deltas(waiting, p.Model, p.base, p.after)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return false, nil
	case errors.Is(err, snapshot.ErrNotFound): // pruned: another one is the champion
		return false, nil
	case errors.Is(err, snapshot.ErrChain) && p.after > 0: // the store has lost the newest ones: what it has now counts
		p.prefix = ""
		return false, err
	case err != nil:
		return false, err
	}
	defer stream.Close()
	var records []*kgo.Record
	size, last := 0, p.after
	flush := func() error {
		if len(records) > 0 {
			err := p.send(ctx, records)
			if errors.Is(err, kerr.MessageTooLarge) {
				p.tooMuch = true
				return fmt.Errorf(
					"%w: consumers of the topic wait for the next version; set it with kafka-configs --alter --add-config "+
						"max.message.bytes=%d",
					err,
					maxFrameBytes,
				)
			}
			if err != nil {
				return err
			}
			did = true
		}
		p.after, records, size = last, nil, 0
		return nil
	}
	for {
		frame, err := format.ReadFrame(stream)
		if err == io.EOF {
			return did, flush()
		}
		var d *format.Delta
		if err == nil {
			d, err = format.DecodeDeltaHeader(frame, p.Store.Keys)
		}
		if err != nil {
			return did, errors.Join(err, flush())
		}
		key := p.prefix + strconv.FormatInt(d.Sequence, 10)
		if last = d.Sequence; p.held[key] != d.Digest {
			records, size = append(records, &kgo.Record{Topic: p.Topic, Key: []byte(key), Value: frame}), size+len(
				frame)
		}
		if size >= maxSend {
			if err := flush(); err != nil {
				return did, err
			}
		}
	}
}

// send produces records in their order and waits until the brokers have them.
func (p *DeltaProducer) send(ctx context.Context, records []*kgo.Record) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := produce.Bounded(ctx, p.client, func() error { return p.client.ProduceSync(ctx, records...).FirstErr() })
	if err != nil {
		return err
	}
	for _, r := range records {
		p.note(r)
	}
	return nil
}

func (p *DeltaProducer) close() { produce.Close(&p.client) }

// chainPrefix is what the keys of a chain begin with; the sequence follows.
func chainPrefix(model, lineage string, version int64) string {
	return model + "/" + lineage + "/" + strconv.FormatInt(version, 10) + "/"
}

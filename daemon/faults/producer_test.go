package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/report"
)

// rating is an event with planted structure: the level depends on a product of user and item traits. It has about size
// bytes.
func rating(r *rand.Rand, size int) []byte {
	u, v := r.IntN(600), r.IntN(400)
	trait := func(n int) float64 { return float64(n%7)/3 - 1 }
	level := 3 + int(2.4*trait(u)*trait(v*3)+0.5*r.NormFloat64())
	b := fmt.Appendf(make([]byte, 0, max(size, 96)), `{"user":"u%d","item":"i%d","rating":%d,"ts":%d`, u, v,
		min(max(level, 1), 5), 1700000000000+int64(r.IntN(1e6)))
	if more := size - len(b) - 10; more > 0 {
		b = append(b, `,"pad":"`...)
		for range more {
			b = append(b, 'x')
		}
		b = append(b, '"')
	}
	return append(b, '}')
}

// receipt is the producer's own list of what brokers acknowledged in one partition.
type receipt struct {
	count int64
	next  int64 // one more than the largest acknowledged offset
}

// producer sends records at a rate, round robin, and keeps receipts.
type producer struct {
	t      *testing.T
	client *kgo.Client
	topic  string
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	receipts map[int32]receipt
	unknown  int64 // records that the brokers neither acknowledged nor refused
	sent     int64
	acked    []mark // one in so many, with the time, if asked for
	every    int64
}

// mark is when an offset was acknowledged.
type mark struct {
	partition int32
	offset    int64
	at        time.Time
}

func newProducer(t *testing.T, addr []string, topic string, options ...kgo.Opt) *producer {
	t.Helper()
	client, err := kgo.NewClient(
		append([]kgo.Opt{kgo.SeedBrokers(addr...), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()),
			kgo.RecordPartitioner(
				kgo.RoundRobinPartitioner()), kgo.ProducerLinger(5 * time.Millisecond), kgo.MaxBufferedRecords(200_000),
			kgo.ProducerBatchMaxBytes(200_000)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	p := &producer{t: t, client: client, topic: topic, receipts: map[int32]receipt{}}
	t.Cleanup(client.Close)
	return p
}

// send queues one value. It waits while too many are queued.
func (p *producer) send(value []byte) {
	p.mu.Lock()
	p.sent++
	p.mu.Unlock()
	p.client.Produce(context.Background(), &kgo.Record{Value: value}, p.acknowledged)
}

func (p *producer) acknowledged(r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.unknown++
		return
	}
	have := p.receipts[r.Partition]
	have.count++
	have.next = max(have.next, r.Offset+1)
	p.receipts[r.Partition] = have
	if p.every > 0 && r.Offset%p.every == 0 {
		p.acked = append(p.acked, mark{r.Partition, r.Offset, time.Now()})
	}
}

// flush waits until everything sent was acknowledged.
func (p *producer) flush() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	if err := p.client.Flush(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// fill sends n values made by value and waits for the receipts.
func (p *producer) fill(n int, value func(i int) []byte) {
	p.t.Helper()
	for i := range n {
		p.send(value(i))
	}
	p.flush()
}

// load sends so many values a second until stop.
func (p *producer) load(rate int, value func(i int) []byte) {
	ctx, cancel := context.WithCancel(p.t.Context())
	p.cancel, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		began, n := time.Now(), 0
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for due := int(time.Since(began).Seconds() * float64(rate)); n < due && ctx.Err() == nil; n++ {
				p.send(value(n))
			}
		}
	}()
}

// stop ends the load and waits for the receipts.
func (p *producer) stop() {
	p.t.Helper()
	p.cancel()
	<-p.done
	p.flush()
	if p.unknown > 0 {
		p.t.Logf("%d records were neither acknowledged nor refused for good", p.unknown)
	}
}

// ends returns one more than the largest acknowledged offset of each partition.
func (p *producer) ends() map[int32]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[int32]int64{}
	for i, r := range p.receipts {
		out[i] = r.next
	}
	return out
}

// total returns the number of acknowledged records.
func (p *producer) total() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.receipts {
		n += r.count
	}
	return n
}

// accountedFor wants every acknowledged record, and none twice, in a state that has read the whole topic.
func (p *producer) accountedFor(s report.State) {
	p.t.Helper()
	for i := range s.Partitions {
		l := &s.Partitions[i]
		if l.Topic != p.topic {
			continue
		}
		have := p.receipts[l.Partition]
		if got := l.Applied + l.Rejected; l.Next < have.next || got < have.count || got > have.count+p.unknown {
			p.t.Errorf("%s/%d: %d applied and rejected up to offset %d, acknowledged are %d up to %d and %d unknown",
				l.Topic, l.Partition, got, l.Next, have.count, have.next, p.unknown)
		}
	}
	balanced(p.t, s)
}

// balanced wants the accounts to add up.
func balanced(t *testing.T, s report.State) {
	t.Helper()
	for _, l := range s.Partitions {
		if l.Applied+l.Rejected+l.Control+l.Aborted+l.Holes+l.Gap != l.Next-l.Start {
			t.Errorf("%s/%d: the accounts do not add up: %+v", l.Topic, l.Partition, l)
		}
	}
}

// ratings returns a source of events.
func ratings(seed uint64, size int) func(int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(int) []byte { return rating(r, size) }
}

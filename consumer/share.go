package consumer

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// keptResponses is how many responses of a broker a Share keeps for members that are a little behind. They add to the
// memory of the fetch buffers.
const keptResponses = 2

// A Share lets consumers of the same cluster that read the same topics fetch them once. Each keeps its own place,
// sink, halts and connections: what happens to one does not reach another. A member that wants what another is
// waiting for waits with it, one that is less than keptResponses behind is served from memory, and one that is
// further behind reads separately until it has caught up. Members have the same Brokers, Isolation and credentials.
// The zero value is ready and safe for concurrent use.
type Share struct {
	mu      sync.Mutex
	members []*Consumer
	brokers map[int32]*sharedBroker
	seq     uint64 // of the last response
}

// sharedBroker is what the members have from one broker, and what they wait for.
type sharedBroker struct {
	recent []sharedResponse // the newest last
	asked  map[place]int    // how many members wait for an answer from the broker
	landed chan struct{}    // closed with the next answer or error
}

// place is where a member reads on.
type place struct {
	TopicPartition
	from int64
}

func (q *question) place() place { return place{q.p.TopicPartition, q.from} }

type sharedResponse struct {
	seq      uint64
	response *fetchResponse
	answers  []sharedAnswer
}

type sharedAnswer struct {
	partitionResponse
	from, next int64 // the offsets asked for and, from its headers, covered; the same if there are no records
}

func (s *Share) join(c *Consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = append(s.members, c)
}

// others returns the members of the same group besides c.
func (s *Share) others(c *Consumer) (out []*Consumer) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if m != c && m.opts.GroupID == c.opts.GroupID {
			out = append(out, m)
		}
	}
	return out
}

// broker returns the state of a broker. The caller holds mu.
func (s *Share) broker(id int32) *sharedBroker {
	if s.brokers == nil {
		s.brokers = make(map[int32]*sharedBroker)
	}
	b := s.brokers[id]
	if b == nil {
		b = &sharedBroker{asked: make(map[place]int), landed: make(chan struct{})}
		s.brokers[id] = b
	}
	return b
}

// find returns the oldest response that has something new for one of the questions. The caller holds mu and releases
// the response.
func (b *sharedBroker) find(questions []question) (*fetchResponse, []partitionResponse, uint64) {
	for _, r := range b.recent {
		var out []partitionResponse
		for i := range questions {
			q := &questions[i]
			if q.check != nil || q.seq >= r.seq {
				continue
			}
			for j := range r.answers {
				a := &r.answers[j]
				if a.topic == q.p.Topic && a.partition == q.p.Partition && a.from <= q.from &&
					(q.from < a.next || q.from == a.from) {
					out = append(out, a.partitionResponse)
				}
			}
		}
		if len(out) > 0 {
			r.response.refs.Add(1)
			return r.response, out, r.seq
		}
	}
	return nil, nil, 0
}

// answer gets answers to some of the questions to one broker, from it or from what another member got. shared is true
// for the latter.
func (c *Consumer) answer(ctx context.Context, broker int32,
	questions []question) (res *fetchResponse, answers []partitionResponse, shared bool, err error) {
	s := c.opts.Share
	if s == nil {
		res, answers, err = c.fetchOnce(ctx, questions)
		return res, answers, false, err
	}
	for {
		s.mu.Lock()
		b := s.broker(broker)
		if res, answers, seq := b.find(questions); res != nil {
			s.mu.Unlock()
			for i := range answers { // the next ones may be asked of the broker by this member
				if q := find(questions, &answers[i]); q != nil {
					q.p.numbers.noteAll(answers[i].records, q.from)
					q.p.numbers.run(answers[i].next, answers[i].left)
				}
			}
			c.seen(questions, answers, seq)
			return res, answers, true, nil
		}
		alone := slices.DeleteFunc(slices.Clone(questions), func(q question) bool {
			return q.check == nil && b.asked[q.place()] > 0
		})
		if len(alone) == 0 {
			landed := b.landed
			s.mu.Unlock()
			wait := time.NewTimer(c.opts.MaxWait + c.opts.RequestTimeout)
			select {
			case <-ctx.Done():
				wait.Stop()
				return nil, nil, true, ctx.Err()
			case <-landed:
				wait.Stop()
				continue
			case <-wait.C: // the other is stuck
				res, answers, err = c.fetchOnce(ctx, questions)
				return res, answers, false, err
			}
		}
		for _, q := range alone {
			if q.check == nil {
				b.asked[q.place()]++
			}
		}
		s.mu.Unlock()
		res, answers, err = c.fetchOnce(ctx, alone)
		c.seen(alone, answers, s.land(b, alone, res, answers))
		return res, answers, false, err
	}
}

// land makes what was fetched known to the other members, and returns its number.
func (s *Share) land(b *sharedBroker, questions []question, res *fetchResponse, answers []partitionResponse) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	r := sharedResponse{seq: s.seq, response: res}
	for _, q := range questions {
		if q.check != nil {
			continue
		}
		if b.asked[q.place()]--; b.asked[q.place()] == 0 {
			delete(b.asked, q.place())
		}
		for _, a := range answers {
			if a.topic == q.p.Topic && a.partition == q.p.Partition && a.code == 0 && a.unconfirmed == nil {
				r.answers = append(r.answers, sharedAnswer{a, q.from, extent(a.records, q.from)})
			}
		}
	}
	close(b.landed)
	b.landed = make(chan struct{})
	if len(s.members) > 1 && len(r.answers) > 0 {
		res.refs.Add(1)
		b.recent = append(b.recent, r)
	}
	if len(b.recent) > keptResponses {
		b.recent[0].response.release()
		b.recent = slices.Delete(b.recent, 0, 1)
	}
	return r.seq
}

// seen notes which response the answers are from.
func (c *Consumer) seen(questions []question, answers []partitionResponse, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range questions {
		if slices.ContainsFunc(answers,
			func(a partitionResponse) bool { return a.topic == q.p.Topic && a.partition == q.p.Partition }) {
			q.p.seq = seq
		}
	}
}

// fetchOnce returns answers that are confirmed where they have to be.
func (c *Consumer) fetchOnce(ctx context.Context, questions []question) (*fetchResponse, []partitionResponse, error) {
	res, answers, err := c.fetchFrom(ctx, c.source.transport, questions)
	if err == nil {
		c.confirm(ctx, questions, answers)
	}
	return res, answers, err
}

func (c *Consumer) fetchFrom(ctx context.Context, by *kafka.Transport,
	questions []question) (*fetchResponse, []partitionResponse, error) {
	res, err := c.source.fetch(ctx, by, requestTopics(questions, c.opts.MaxPartitionBytes))
	if err != nil {
		return nil, nil, err
	}
	if res.ErrorCode != 0 {
		return nil, nil, kafka.Error(res.ErrorCode)
	}
	answers, err := res.partitions()
	for i := range answers {
		if c.opts.Isolation == ReadUncommitted {
			answers[i].aborted = nil // nothing was asked about them
		}
	}
	return res, answers, err
}

// extent returns the offset behind the last complete batch of raw, by the headers alone, or from.
func extent(raw []byte, from int64) int64 {
	next := from
	for {
		batch, rest, ok, err := cutBatch(raw)
		if err != nil || !ok {
			return next
		}
		next = max(next, int64(binary.BigEndian.Uint64(batch))+int64(int32(binary.BigEndian.Uint32(batch[23:])))+1)
		raw = rest
	}
}

package consumer

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// A network can leave a batch out, or give an earlier one again, and move those behind it so that no offset is missing:
// the CRC covers no offset. It does cover the numbers that an idempotent producer gives its records in each partition,
// and two batches have the same CRC only if they are the same. What does not follow by these is believed after a second
// answer.

const (
	// maxProducers bounds the producers that are remembered of a partition. Chosen by hand: more than write to one.
	maxProducers = 1000
	// samples is among how many of them, taken by chance, the one that has written nothing for longest is forgotten.
	samples = 16
	// crowd is behind how many batches one is forgotten that may write again soon. Then there are more than maxProducers
	// at work, and that one is not known says nothing for as many batches.
	crowd = 16 * maxProducers
	// recentBatches is how many batches of a partition are known again: those of some answers.
	recentBatches = 256
)

// Numbers are what batches of one partition were numbered by, up to the last one read. The zero value knows none. They
// are safe for concurrent use.
type Numbers struct {
	mu        sync.Mutex
	producers map[int64]numbered // the last batch of each
	recent    map[uint32]int64   // base offsets of the last batches, by their CRC
	ring      []uint32           // CRCs of recent
	oldest    int                // of ring, once it is full
	end       int64              // of the last batch
	hole      int64              // end of the last one: what a producer wrote below it may be missing
	batches   int64              // so far
	crowded   int64              // producers that are not known are believed until then, in batches
	warned    time.Time          // when it was last logged that something does not fit

	at      int64          // offset where the last answer that was believed ended
	running map[int64]bool // transactions there, by producer, with whether they are aborted
}

// numbered is a batch of an idempotent producer.
type numbered struct {
	base  int64
	seen  int64 // how many batches were noted before it
	epoch int16
	first int32
	next  int32 // the number that follows
}

func numberedOf(h *header, seen int64) numbered {
	next := (h.sequence + h.lastDelta + 1) & math.MaxInt32 // they begin anew at 0
	return numbered{h.base, seen, h.epoch, h.sequence, next}
}

// isNumbered reports whether the producer has numbered a batch; markers have no number.
func (h *header) isNumbered() bool {
	return h.producer >= 0 && h.sequence >= 0 && h.attributes&attrControl == 0
}

// unlike returns why a batch does not follow those that were read, or an empty string. again is false if that is only
// because its producer was not known: nobody has read the log from its start on.
func (n *Numbers) unlike(h *header) (text string, again bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if base, ok := n.recent[h.crc]; ok && base != h.base {
		return fmt.Sprintf("the batch at %d was read at %d before", h.base, base), true
	}
	last, ok := n.producers[h.producer]
	switch {
	case !h.isNumbered(), !ok && (len(n.producers) == 0 || n.batches < n.crowded), ok && h.base < last.base:
		return "", false
	case !ok && h.sequence != 0:
		return fmt.Sprintf("the batch at %d has number %d of producer %d, of which there was none before", h.base,
			h.sequence, h.producer), false
	case !ok:
		return "", false
	}
	want := last.next
	switch {
	case h.base == last.base:
		want = last.first
	case h.epoch > last.epoch:
		want = 0
	}
	if h.epoch < last.epoch || h.sequence != want {
		return fmt.Sprintf("the batch at %d has number %d of producer %d, epoch %d, after %d, epoch %d", h.base, h.sequence,
			h.producer, h.epoch, last.next-1, last.epoch), last.base >= n.hole
	}
	return "", false
}

// note takes a batch up that is believed.
func (n *Numbers) note(h *header) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.recent == nil {
		n.producers, n.recent = make(map[int64]numbered), make(map[uint32]int64, recentBatches)
	}
	if _, ok := n.recent[h.crc]; !ok {
		if len(n.ring) < recentBatches {
			n.ring = append(n.ring, h.crc)
		} else {
			delete(n.recent, n.ring[n.oldest])
			n.ring[n.oldest] = h.crc
			n.oldest = (n.oldest + 1) % recentBatches
		}
	}
	n.recent[h.crc] = h.base
	n.batches++
	n.end = h.next()
	if h.isNumbered() {
		if _, ok := n.producers[h.producer]; !ok && len(n.producers) >= maxProducers {
			n.forget()
		}
		n.producers[h.producer] = numberedOf(h, n.batches)
	}
}

// forget makes room for a producer. The caller holds mu.
func (n *Numbers) forget() {
	oldest, seen, left := int64(-1), int64(math.MaxInt64), samples
	for one, last := range n.producers {
		if last.seen < seen {
			oldest, seen = one, last.seen
		}
		if left--; left == 0 {
			break
		}
	}
	delete(n.producers, oldest)
	if n.batches-seen < crowd {
		n.crowded = n.batches + crowd
	}
}

// begin says from where on batches come next: what is between them and the last ones is not read.
func (n *Numbers) begin(from int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.end > 0 && from > n.end {
		n.hole = from
	}
}

// warnEvery is how often it is logged of a partition that something does not fit. Chosen by hand: it may be so of each
// answer, where producers that do not number their records send one twice.
const warnEvery = time.Minute

// mayWarn reports whether that was not logged for so long.
func (n *Numbers) mayWarn(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.warned) < warnEvery {
		return false
	}
	n.warned = now
	return true
}

// runningAt returns the transactions that are known to run at an offset.
func (n *Numbers) runningAt(at int64) map[int64]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at != at {
		return nil
	}
	return n.running
}

// run notes which transactions run at an offset. Nobody may change them any more.
func (n *Numbers) run(at int64, running map[int64]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(running) > maxProducers {
		running = nil // it is asked about them once more
	}
	n.at, n.running = at, running
}

// noteAll takes up the batches of a record set that are not below an offset.
func (n *Numbers) noteAll(records []byte, from int64) {
	for {
		batch, rest, ok, err := cutBatch(records)
		if err != nil || !ok {
			return
		}
		if h, err := parseHeader(batch); err == nil && h.base >= from {
			n.begin(h.base)
			n.note(&h)
		}
		records = rest
	}
}

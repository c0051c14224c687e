package consumer

import (
	"fmt"
	"math"
	"sync"
)

// A network can leave a batch out, or give an earlier one again, and move those behind it so that no offset is missing:
// the CRC covers no offset. It does cover the numbers that an idempotent producer gives its records in each partition,
// and two batches have the same CRC only if they are the same. What does not follow by these is believed after a second
// answer.

const (
	// maxProducers bounds the producers that are remembered of a partition. Chosen by hand: more than write to one.
	maxProducers = 1000
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
}

// numbered is a batch of an idempotent producer.
type numbered struct {
	base  int64
	epoch int16
	first int32
	next  int32 // the number that follows
}

func numberedOf(h *header) numbered {
	return numbered{h.base, h.epoch, h.sequence, (h.sequence + h.lastDelta + 1) & math.MaxInt32} // they begin anew at 0
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
	case !h.isNumbered(), !ok && len(n.producers) == 0, ok && h.base < last.base:
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
			h.producer, h.epoch, last.next-1, last.epoch), true
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
	if h.isNumbered() {
		if _, ok := n.producers[h.producer]; !ok && len(n.producers) >= maxProducers {
			for one := range n.producers { // any: it is asked about once more
				delete(n.producers, one)
				break
			}
		}
		n.producers[h.producer] = numberedOf(h)
	}
}

// noteAll takes up the batches of a record set that are not below an offset.
func (n *Numbers) noteAll(records []byte, from int64) {
	for {
		batch, rest, ok, err := cutBatch(records)
		if err != nil || !ok {
			return
		}
		if h, err := parseHeader(batch); err == nil && h.base >= from {
			n.note(&h)
		}
		records = rest
	}
}

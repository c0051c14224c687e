package sketch

import (
	"sync"

	"github.com/refitd/refitd/sketch/internal/ledger"
)

// heads is what of the last commit can be asked while the next one is being written: where each partition is, and the
// room in the outbox.
type heads struct {
	mu   sync.Mutex
	next map[ledger.Partition]head
	free int // room for dead letters
}

type head struct {
	next        int64
	incarnation uint32
	watermark   int64 // newest event time applied
	begun       bool
}

func (h *heads) of(p ledger.Partition) head {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next[p]
}

func (h *heads) room() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.free
}

// show makes what was committed of the given ledger rows the heads.
func (s *Store) show(places ...int32) {
	h := &s.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = make(map[ledger.Partition]head)
	}
	for _, place := range places {
		l := s.ledger.At(place)
		at := ledger.Partition{Topic: l.Topic, Number: l.Partition}
		switch {
		case !l.Archived:
			h.next[at] = head{l.Next, l.Incarnation, l.Watermark, true}
		case h.next[at].incarnation == l.Incarnation:
			delete(h.next, at)
		}
	}
	h.free = s.room()
}

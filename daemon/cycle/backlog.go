package cycle

import (
	"cmp"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// Position is the place of an event in its topic.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
}

// maxBacklog bounds the events kept for the refit under way; the oldest go first, and the fold-in of the new model starts without them. At
// 50,000 events a second a refit learned from all that had come since its cut, which took it two seconds of a processor beside reading. Of large
// events there are fewer, of maxBacklogBytes together, or of what a sample that is smaller may have.
const (
	maxBacklog      = 50_000
	maxBacklogBytes = 16 << 20
	minBacklogBytes = 2 << 20 // of the smallest samples
)

// backlog holds the events learned since a refit's cut, in the order they were learned.
type backlog struct {
	blocks  []*backlogBlock // only the last may be empty
	length  int
	bytes   int // of the payloads
	most    int // bytes, see backlogBytes; 0 is maxBacklogBytes
	dropped int // since the cut
	arena   []byte
}

// pending is an event, with what of it is learned.
type pending struct {
	payload []byte
	counts  *counted
}

// size returns its bytes.
func (p pending) size() int { return len(p.payload) + p.counts.size() }

// backlogBlock is what goes at once when there are too many.
type backlogBlock struct {
	positions []Position
	events    []pending
	bytes     int
}

const (
	backlogBlocks = 100
	backlogArena  = 1 << 20
)

// backlogBytes returns how many bytes of events are kept at most: no more than the sample of the refit has.
func backlogBytes(m *config.Model) int {
	return int(min(maxBacklogBytes, max(minBacklogBytes, int64(m.Sample.MaxBytes))))
}

// limit returns how many bytes are kept at most.
func (b *backlog) limit() int { return cmp.Or(b.most, maxBacklogBytes) }

func (b *backlog) add(p Position, payload []byte, counts *counted) {
	for b.length >= maxBacklog || b.length > 0 && b.bytes+len(payload)+counts.size() > b.limit() {
		b.drop()
	}
	if cap(b.arena)-len(b.arena) < len(payload) {
		b.arena = make([]byte, 0, max(backlogArena, len(payload)))
	}
	start := len(b.arena)
	b.arena = append(b.arena, payload...)
	b.append(p, pending{b.arena[start:len(b.arena):len(b.arena)], counts})
}

// drop gives up the oldest block.
func (b *backlog) drop() {
	oldest := b.blocks[0]
	b.length -= len(oldest.events)
	b.bytes -= oldest.bytes
	b.dropped += len(oldest.events)
	clear(oldest.events)
	oldest.positions, oldest.events, oldest.bytes = oldest.positions[:0], oldest.events[:0], 0
	b.blocks = append(b.blocks[:0], b.blocks[1:]...)
	if n := len(b.blocks); n == 0 || len(b.blocks[n-1].events) > 0 {
		b.blocks = append(b.blocks, oldest) // its memory is used again
	}
}

func (b *backlog) append(p Position, event pending) {
	n := len(b.blocks)
	if n == 0 || len(b.blocks[n-1].events) == maxBacklog/backlogBlocks || b.blocks[n-1].bytes >= b.limit()/backlogBlocks {
		const size = maxBacklog / backlogBlocks
		b.blocks = append(b.blocks, &backlogBlock{positions: make([]Position, 0, size), events: make([]pending, 0, size)})
		n++
	}
	last := b.blocks[n-1]
	last.positions, last.events = append(last.positions, p), append(last.events, event)
	last.bytes += event.size()
	b.bytes += event.size()
	b.length++
}

// cut drops what a refit with the given cut has seen.
func (b *backlog) cut(cut []report.Cut) {
	next := make(map[Position]int64, len(cut))
	for _, c := range cut {
		next[Position{Topic: c.Topic, Partition: c.Partition}] = c.Next
	}
	old := b.blocks
	b.blocks, b.length, b.bytes, b.dropped = nil, 0, 0, 0
	for _, block := range old {
		for i, p := range block.positions {
			if p.Offset >= next[Position{Topic: p.Topic, Partition: p.Partition}] {
				b.append(p, block.events[i])
			}
		}
	}
}

// from returns the events after the first n since the cut, as far as they are still there, and what to ask for next. They stay unchanged
// while Observe adds more.
func (b *backlog) from(n int) (out []pending, next int) {
	skip := max(0, n-b.dropped)
	for _, block := range b.blocks {
		if skip < len(block.events) {
			out = append(out, block.events[skip:]...)
		}
		skip = max(0, skip-len(block.events))
	}
	return out, b.dropped + b.length
}

package rows

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

// MaxBacklog bounds the events kept for the refit under way; the oldest go first, and the fold-in of the new model
// starts without them. At 50,000 events a second a refit learned from all that had come since its cut, which took two
// seconds of a processor in addition to reading. Of large events fewer are kept: their bytes are at most
// maxBacklogBytes, or those of a smaller sample. MaxBacklog is measured at that rate. The others are chosen by hand.
const (
	MaxBacklog      = 50_000
	maxBacklogBytes = 16 << 20
	minBacklogBytes = 2 << 20 // of the smallest samples
)

// Backlog holds the events learned since a refit's cut, in the order they were learned.
type Backlog struct {
	Blocks  []*backlogBlock // only the last may be empty
	Length  int
	bytes   int // of the payloads
	Most    int // bytes, see BacklogBytes; 0 is maxBacklogBytes
	dropped int // since the cut
	arena   []byte
}

// Pending is an event, with what of it is learned.
type Pending struct {
	Payload []byte
	Counts  *Counted
}

// size returns its bytes.
func (p Pending) size() int { return len(p.Payload) + p.Counts.size() }

// backlogBlock is what goes at once when there are too many.
type backlogBlock struct {
	positions []Position
	Events    []Pending
	bytes     int
}

// How the bytes of a backlog are cut. Both are chosen by hand; no result depends on them.
const (
	backlogBlocks = 100
	backlogArena  = 1 << 20
)

// BacklogBytes returns how many bytes of events are kept at most: no more than the sample of the refit has.
func BacklogBytes(m *config.Model) int {
	return int(min(maxBacklogBytes, max(minBacklogBytes, int64(m.Sample.MaxBytes))))
}

// OpenBytes bounds the memory of events whose label is not final, and that of those that can be corrected by then: a
// window is longer than a refit takes.
func OpenBytes(m *config.Model) int {
	if !m.Schema.LabelLater {
		return BacklogBytes(m)
	}
	return openBacklogs * BacklogBytes(m)
}

// openBacklogs is how many backlogs open events may take: 64 MiB, some hundred thousand events. Chosen by hand.
const openBacklogs = 4

// limit returns how many bytes are kept at most.
func (b *Backlog) limit() int { return cmp.Or(b.Most, maxBacklogBytes) }

func (b *Backlog) Add(p Position, payload []byte, counts *Counted) {
	for b.Length >= MaxBacklog || b.Length > 0 && b.bytes+len(payload)+counts.size() > b.limit() {
		b.drop()
	}
	if cap(b.arena)-len(b.arena) < len(payload) {
		b.arena = make([]byte, 0, max(backlogArena, len(payload)))
	}
	start := len(b.arena)
	b.arena = append(b.arena, payload...)
	b.append(p, Pending{b.arena[start:len(b.arena):len(b.arena)], counts})
}

// drop gives up the oldest block.
func (b *Backlog) drop() {
	oldest := b.Blocks[0]
	b.Length -= len(oldest.Events)
	b.bytes -= oldest.bytes
	b.dropped += len(oldest.Events)
	clear(oldest.Events)
	oldest.positions, oldest.Events, oldest.bytes = oldest.positions[:0], oldest.Events[:0], 0
	b.Blocks = append(b.Blocks[:0], b.Blocks[1:]...)
	if n := len(b.Blocks); n == 0 || len(b.Blocks[n-1].Events) > 0 {
		b.Blocks = append(b.Blocks, oldest) // its memory is used again
	}
}

func (b *Backlog) append(p Position, event Pending) {
	n := len(b.Blocks)
	if n == 0 || len(b.Blocks[n-1].Events) == MaxBacklog/backlogBlocks ||
		b.Blocks[n-1].bytes >= b.limit()/backlogBlocks {
		const size = MaxBacklog / backlogBlocks
		b.Blocks = append(b.Blocks,
			&backlogBlock{positions: make([]Position, 0, size), Events: make([]Pending, 0, size)})
		n++
	}
	last := b.Blocks[n-1]
	last.positions, last.Events = append(last.positions, p), append(last.Events, event)
	last.bytes += event.size()
	b.bytes += event.size()
	b.Length++
}

// Cut drops what a refit with the given cut has seen.
func (b *Backlog) Cut(cut []report.Cut) {
	next := make(map[Position]int64, len(cut))
	for _, c := range cut {
		next[Position{Topic: c.Topic, Partition: c.Partition}] = c.Next
	}
	old := b.Blocks
	b.Blocks, b.Length, b.bytes, b.dropped = nil, 0, 0, 0
	for _, block := range old {
		for i, p := range block.positions {
			if p.Offset >= next[Position{Topic: p.Topic, Partition: p.Partition}] {
				b.append(p, block.Events[i])
			}
		}
	}
}

// From returns the events after the first n since the cut, as far as they are still there, and what to ask for next.
// They stay unchanged while Observe adds more.
func (b *Backlog) From(n int) (out []Pending, next int) {
	skip := max(0, n-b.dropped)
	for _, block := range b.Blocks {
		if skip < len(block.Events) {
			out = append(out, block.Events[skip:]...)
		}
		skip = max(0, skip-len(block.Events))
	}
	return out, b.dropped + b.Length
}

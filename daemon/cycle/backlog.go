package cycle

import "github.com/refitd/refitd/daemon/report"

// Position is the place of an event in its topic.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
}

// maxBacklog bounds the events kept for the refit under way; the oldest go first, and the fold-in of the new model starts without them.
const maxBacklog = 200_000

// backlog holds the events learned since a refit's cut, as payloads, in the order they were learned.
type backlog struct {
	positions []Position
	payloads  [][]byte
	arena     []byte
}

const backlogArena = 1 << 20

func (b *backlog) add(p Position, payload []byte) {
	if len(b.payloads) >= maxBacklog {
		b.positions, b.payloads = b.positions[maxBacklog/4:], b.payloads[maxBacklog/4:]
	}
	if cap(b.arena)-len(b.arena) < len(payload) {
		b.arena = make([]byte, 0, max(backlogArena, len(payload)))
	}
	start := len(b.arena)
	b.arena = append(b.arena, payload...)
	b.positions, b.payloads = append(b.positions, p), append(b.payloads, b.arena[start:len(b.arena):len(b.arena)])
}

// cut drops what a refit with the given cut has seen.
func (b *backlog) cut(cut []report.Cut) {
	next := make(map[Position]int64, len(cut))
	for _, c := range cut {
		next[Position{Topic: c.Topic, Partition: c.Partition}] = c.Next
	}
	var positions []Position
	var payloads [][]byte
	for i, p := range b.positions {
		if p.Offset >= next[Position{Topic: p.Topic, Partition: p.Partition}] {
			positions, payloads = append(positions, p), append(payloads, b.payloads[i])
		}
	}
	b.positions, b.payloads = positions, payloads
}

// from returns the payloads after the first n. They stay valid and unchanged while Observe adds more.
func (b *backlog) from(n int) [][]byte {
	if n >= len(b.payloads) {
		return nil
	}
	return b.payloads[n:]
}

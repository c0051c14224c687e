package cycle

import (
	"testing"
)

// TestBacklogBytes: what waits for the refit under way is bounded in bytes as well as in events, and what is left of it is the newest.
func TestBacklogBytes(t *testing.T) {
	var b backlog
	before := heap()
	payload := make([]byte, 100<<10)
	for i := range 2000 {
		payload[0] = byte(i)
		b.add(Position{Topic: "t", Offset: int64(i)}, payload)
	}
	if took := heap() - before; took > maxBacklogBytes+8<<20 {
		t.Errorf("events of 200 MB take %d bytes", took)
	}
	rest, next := b.from(0)
	if len(rest) != b.length || len(rest) < 150 || next != 2000 || b.bytes != len(rest)*len(payload) {
		t.Errorf("%d events of %d, %d bytes, next %d", len(rest), b.length, b.bytes, next)
	}
	for i, p := range rest {
		if p[0] != byte(2000-len(rest)+i) {
			t.Fatalf("event %d of %d is %d", i, len(rest), p[0])
		}
	}
}

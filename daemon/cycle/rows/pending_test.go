package rows

import (
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestBacklogBytes: what waits for the refit under way is bounded in bytes as well as in events, and what is left of it
// is the newest.
func TestBacklogBytes(t *testing.T) {
	var b Backlog
	before := cycletest.Heap()
	payload := make([]byte, 100<<10)
	for i := range 2000 {
		payload[0] = byte(i)
		b.Add(Position{Topic: "t", Offset: int64(i)}, payload, nil)
	}
	if took := cycletest.Heap() - before; took > maxBacklogBytes+8<<20 {
		t.Errorf("events of 200 MB take %d bytes", took)
	}
	rest, next := b.From(0)
	if len(rest) != b.Length || len(rest) < 150 || next != 2000 || b.bytes != len(rest)*len(payload) {
		t.Errorf("%d events of %d, %d bytes, next %d", len(rest), b.Length, b.bytes, next)
	}
	for i, p := range rest {
		if p.Payload[0] != byte(2000-len(rest)+i) {
			t.Fatalf("event %d of %d is %d", i, len(rest), p.Payload[0])
		}
	}
}

// TestBacklogOfSmallSample: with a small sample fewer events wait, and take no more than the footprint counts for them.
func TestBacklogOfSmallSample(t *testing.T) {
	m := config.DefaultModel()
	for size, want := range map[config.Size]int{1 << 20: minBacklogBytes, 5 << 20: 5 << 20, 256 << 20: maxBacklogBytes} {
		m.Sample.MaxBytes = size
		if got := BacklogBytes(&m); got != want {
			t.Errorf("sample of %d bytes: %d bytes wait", size, got)
		}
	}
	b := Backlog{Most: minBacklogBytes}
	before := cycletest.Heap()
	for i := range 20_000 {
		b.Add(Position{Topic: "t", Offset: int64(i)}, make([]byte, 1000), nil)
	}
	took := cycletest.Heap() - before
	if rest, next := b.From(0); b.bytes > b.Most || len(rest) < 1900 || next != 20_000 {
		t.Errorf("%d events, %d bytes, next %d", len(rest), b.bytes, next)
	}
	if took > 2*minBacklogBytes+MaxBacklog*BacklogEntry {
		t.Errorf("%d bytes of events take %d", b.bytes, took)
	}
}

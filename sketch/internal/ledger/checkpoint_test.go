package ledger

import "testing"

// TestCheckpointsAreFew: however many there were, at most 64 are kept, and the log is never far from one.
func TestCheckpointsAreFew(t *testing.T) {
	var kept []int64
	for newest := int64(1); newest <= 5000; newest++ {
		kept = append(kept, newest)
		out := kept[:0]
		for _, n := range kept {
			if keepsCheckpoint(n, newest-n) {
				out = append(out, n)
			}
		}
		if kept = out; len(kept) > 64+8 {
			t.Fatalf("%d checkpoints after %d", len(kept), newest)
		}
		for i := 1; i < len(kept); i++ {
			if gap, age := kept[i]-kept[i-1], newest-kept[i-1]; gap > max(1, age/8+1) {
				t.Fatalf("after %d, none between %d and %d", newest, kept[i-1], kept[i])
			}
		}
	}
	t.Logf("%d kept of 5000", len(kept))
}

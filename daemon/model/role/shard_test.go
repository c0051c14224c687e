package role

import "testing"

// TestShardsDoNotLead: the trainer publishes and renews. A shard may have the same store and keys.
func TestShardsDoNotLead(t *testing.T) {
	if r := Role(new(shardRole)); r.Leads() || r.Trains() || r.Updates() {
		t.Error("a shard leads, trains or updates")
	}
	if r := Role(whole{}); !r.Leads() || !r.Trains() || !r.Updates() {
		t.Error("a process that does everything does not lead, train or update")
	}
}

package sketch

import (
	"math/rand/v2"
	"testing"
)

// A mutant is a way to get it wrong.
type mutant struct {
	name                                                                           string
	faults                                                                         faults
	torn, withoutLedger, withoutRows, skipAtResume, controlApplied, abortedApplied bool
	noTruncation                                                                   bool // of the harness, not of the store
}

// TestMutants: the histories must notice each way to get it wrong. A harness without truncation calls a losing design correct, as
// the last two rows show.
func TestMutants(t *testing.T) {
	const seeds = 30
	noise := rand.New(rand.NewPCG(9, 9))
	for _, m := range []mutant{
		{name: "no guard against offsets below next", faults: faults{noOffsetGuard: true}},
		{name: "priority without seed", faults: faults{noise: noise.Uint64}},
		{name: "digest without offset", faults: faults{digestWithoutOffset: true}},
		{name: "rows without ledger", withoutLedger: true},
		{name: "ledger without rows", withoutRows: true},
		{name: "transaction written in pieces", torn: true},
		{name: "record skipped at resume", skipAtResume: true},
		{name: "control records applied", controlApplied: true},
		{name: "aborted records applied", abortedApplied: true},
		{name: "no gap check", faults: faults{noGapCheck: true}},
		{name: "no gap check, and no truncation", faults: faults{noGapCheck: true}, noTruncation: true},
	} {
		flagged := 0
		for seed := range uint64(seeds) {
			if run(seed, 40, m, nil) != nil {
				flagged++
			}
		}
		t.Logf("%s: %d of %d", m.name, flagged, seeds)
		if m.noTruncation != (flagged == 0) {
			t.Errorf("%s: %d of %d histories flagged", m.name, flagged, seeds)
		}
	}
}

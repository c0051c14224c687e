package read

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/modeltest"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// TestPauseIsNoHalt: the ledger says of both why a partition is not read. A line, by which an operator is called, comes
// of the one that has halted alone.
func TestPauseIsNoHalt(t *testing.T) {
	m := modeltest.Ratings()
	store, err := sketch.NewMemory(ingest.StoreOptions(m))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	var out, log bytes.Buffer
	r := &Reader{log: slog.New(slog.NewTextHandler(&log, nil)), state: &state.State{Store: store},
		options: &part.Options{Settings: m, Out: report.NewEmitter(&out, true)}}
	texts := func() (list []string) {
		for _, l := range store.Ledger() {
			list = append(list, l.Halted)
		}
		return list
	}
	r.onPause("r", 0, 7, "no schema")
	if got := texts(); len(got) != 1 || got[0] != ingest.PausedPrefix+"no schema" || out.Len() > 0 {
		t.Errorf("of a pause the ledger says %q, the output %s", got, &out)
	}
	r.onResume("r", 0)
	r.onHalt("r", 1, 9, "a gap")
	if got := texts(); len(got) != 2 || got[0] != "" || got[1] != "a gap" || strings.Count(out.String(), "\n") != 1 ||
		!strings.Contains(out.String(), `"type":"halt"`) {
		t.Errorf("of a halt the ledger says %q, the output %s", got, &out)
	}
	if log.Len() > 0 {
		t.Error(log.String())
	}
}

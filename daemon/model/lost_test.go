package model

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/report"
)

// TestSiblingBeginsLate: models with a topic in common show their offsets in one group. What one shows in its first run is no reason to take the state
// of the other, which begins after it, for lost; that both have lost theirs is one, for whichever begins.
func TestSiblingBeginsLate(t *testing.T) {
	p := newPair(t, io.Discard)
	untilEnd := func() []*Model {
		p.a.reader.options.UntilEnd, p.b.reader.options.UntilEnd = true, true
		return []*Model{p.a, p.b}
	}
	for _, m := range untilEnd() {
		if err := m.Run(t.Context()); err != nil {
			t.Fatalf("first run of model %s: %v", m.name, err)
		}
	}
	for _, m := range []*Model{p.a, p.b} {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(m.state.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(m.reader.options.Settings.Publish.Store); err != nil { // whose versions would tell
			t.Fatal(err)
		}
	}
	p.open(t)
	for _, m := range untilEnd() {
		err := m.Run(t.Context())
		if report.CodeOf(err) != report.ExitState || !strings.Contains(err.Error(), "state is empty but group g has offsets") {
			t.Errorf("model %s, whose state is lost: %v", m.name, err)
		}
	}
}

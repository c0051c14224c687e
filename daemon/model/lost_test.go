package model

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/report"
)

// TestSiblingBeginsLate: models with a topic in common show their offsets in one group. What one shows in its first run
// is no reason to take the state of the other, which begins after it, for lost; that both have lost theirs is one, for
// whichever begins.
func TestSiblingBeginsLate(t *testing.T) {
	p := newPair(t, io.Discard)
	if err := errors.Join(p.a.Close(), p.b.Close()); err != nil {
		t.Fatal(err)
	}
	p.options.UntilEnd = true
	p.open(t)
	for _, m := range []*Model{p.a, p.b} {
		if err := m.Run(t.Context()); err != nil {
			t.Fatalf("first run of model %s: %v", m.name, err)
		}
	}
	for _, m := range []*Model{p.a, p.b} {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(m.state.Dir); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(m.state.Settings.Publish.Store); err != nil { // whose versions would show the loss
			t.Fatal(err)
		}
	}
	p.open(t)
	for _, m := range []*Model{p.a, p.b} {
		err := m.Run(t.Context())
		if report.CodeOf(err) != report.ExitState ||
			!strings.Contains(err.Error(), "state is empty but group g has offsets") {
			t.Errorf("model %s, whose state is lost: %v", m.name, err)
		}
	}
}

package state

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot/publish"
)

// J12: the numbers of a lost store continue. No published number is taken twice, also after a crash; one that the
// store did not take is reused.
func TestNumbersGoOn(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	n := readCounters(dir, log)
	version := func(next, want int64) {
		t.Helper()
		got, err := n.Reserve("m", publish.Numbers{Version: next})
		if err != nil || got.Version != want || got.Sequence != 0 {
			t.Errorf("version %d: %+v, %v, want %d", next, got, err, want)
		}
	}
	sequence := func(next, want int64) {
		t.Helper()
		got, err := n.Reserve("m", publish.Numbers{Sequence: next})
		if err != nil || got.Sequence != want || got.Version != 0 {
			t.Errorf("move %d: %+v, %v, want %d", next, got, err, want)
		}
	}
	version(1, 1)
	version(1, 1) // the store was full
	sequence(1, 1)
	n.Confirm()
	version(2, 2)
	sequence(2, 2)
	n.Confirm()
	version(1, 3) // lost
	sequence(1, 3)
	n = readCounters(dir, log) // killed before the store had it, or after
	version(1, 4)
	n.Confirm()
	version(4, 5) // an older copy of the store was put back
	sequence(9, 9)
	if err := n.Note(publish.Numbers{Version: 7, Sequence: 12}); err != nil {
		t.Fatal(err)
	}
	if err := n.Note(publish.Numbers{Version: 6, Sequence: 11}); err != nil {
		t.Fatal(err)
	}
	n = readCounters(dir, log)
	version(1, 8)
	sequence(1, 13)

	var said strings.Builder
	if err := os.WriteFile(filepath.Join(dir, config.NumbersFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	n = readCounters(dir, slog.New(slog.NewTextHandler(&said, nil)))
	if version(3, 3); !strings.Contains(said.String(), config.NumbersFile) {
		t.Errorf("a damaged file: the log says %q", said.String())
	}
}

// TestNumbersThatCannotBe: numbers after which no other can come, or below 0, count for nothing. Those of the store are
// continued.
func TestNumbersThatCannotBe(t *testing.T) {
	for _, text := range []string{`{"version":9223372036854775807,"sequence":1}`, `{"version":1,"sequence":-5}`,
		`{"version":1,"sequence":4611686018427387904}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, config.NumbersFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n := readCounters(dir, slog.New(slog.DiscardHandler))
		if got, err := n.Reserve("m", publish.Numbers{Version: 7, Sequence: 8}); err != nil || got.Version != 7 ||
			got.Sequence != 8 {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

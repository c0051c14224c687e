package sketch

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestBackup: a restored state is the one that was backed up, and takes more events. A damaged backup leaves nothing
// behind.
func TestBackup(t *testing.T) {
	o := damageOptions(t.TempDir())
	s := mustOpen(t, o)
	must(t, rereadLog(s, 4000), s.Apply(&Part{Topic: "a", Base: 4000, Next: 4000}, []byte("sums")),
		os.WriteFile(filepath.Join(o.Dir, "extra"), []byte("along"), 0o600))
	var backup bytes.Buffer
	header, err := s.Backup(&backup, "extra", "absent")
	must(t, err)
	if want := []Position{{Topic: "a", Next: 4000}}; !reflect.DeepEqual(header.Positions, want) ||
		header.Lineage != s.Lineage() {
		t.Errorf("header %+v", header)
	}
	want := stateOf(t, s)
	must(t, rereadLog(s, 5000), s.Close())

	o.Dir = filepath.Join(t.TempDir(), "restored")
	restored, err := Restore(t.Context(), o.Dir, bytes.NewReader(backup.Bytes()), nil, "extra")
	must(t, err)
	if !reflect.DeepEqual(restored, header) {
		t.Errorf("header %+v, want %+v", restored, header)
	}
	s = mustOpen(t, o)
	if got := stateOf(t, s); !reflect.DeepEqual(got, want) || string(s.Aux()) != "sums" || len(s.Rollbacks()) > 0 {
		t.Errorf("restored state\n%+v, want\n%+v", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(o.Dir, "extra")); err != nil || string(b) != "along" {
		t.Errorf("file with the database: %q, %v", b, err)
	}
	must(t, rereadLog(s, damageLog), s.Check(), s.Close())

	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		b := bytes.Clone(backup.Bytes())
		switch {
		case i == 0: // a file has no separate checksum
			b[bytes.Index(b, []byte("along"))] ^= 1
		case i%3 == 0:
			b = b[:rng.IntN(len(b))]
		default:
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		dir := filepath.Join(t.TempDir(), "damaged")
		if _, err := Restore(t.Context(), dir, bytes.NewReader(b), nil, "extra"); !errors.Is(err, ErrCorrupt) &&
			!errors.Is(err, ErrFormat) {
			t.Errorf("damaged backup %d: %v", i, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("damaged backup %d left %s: %v", i, dir, err)
		}
	}
	if _, err := Restore(t.Context(), o.Dir, bytes.NewReader(backup.Bytes()), nil, "extra"); err == nil {
		t.Error("restored over a state")
	}
}

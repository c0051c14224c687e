package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
)

// deltaAfter makes the next delta of a model, its frame and the model after it. Salt makes another one for the same
// place. Every delta sets the bias and the weight of the first column to the same number, so that a half of one is
// seen; each seventh adds a name, each hundredth says what the model then is.
func deltaAfter[M interface {
	chainModel
	Apply(d *Delta) (M, error)
	Contents() *Contents
}](m M, salt int64, signer *Signer) (frame []byte, next M, err error) {
	at, c := m.Position(), m.Shape()
	d := &Delta{
		Model:      "m",
		Base:       at.Version,
		BaseDigest: m.Manifest().Digest,
		Sequence:   at.Sequence + 1,
		Previous:   at.Digest,
		Created:    created.Add(time.Duration(at.Sequence+1) * time.Second),
		Watermark:  created.Add(time.Duration(at.Sequence) * time.Second),
		Columns:    []int32{0, int32(1 + at.Sequence%7)},
		Cut:        []Cut{{"ratings", 0, 100 + at.Sequence}},
	}
	if d.Sequence%7 == 0 {
		d.Added = []AddedName{{Field: int(d.Sequence % 2), Name: fmt.Sprintf("new%d-%d-%d", d.Base, d.Sequence, salt)}}
		d.Columns = append(d.Columns, int32(m.NumColumns()))
	}
	value := func(i int) float64 { return math.Sin(float64(i)*7 + float64(d.Sequence)*13 + float64(salt)*101) }
	d.Linear, d.Basis = make([]float64, len(d.Columns)*c.NumOutputs), make([]float64, len(d.Columns)*c.NumBasis)
	for i := range d.Linear {
		d.Linear[i] = value(i)
	}
	for i := range d.Basis {
		d.Basis[i] = value(i) / 2
	}
	d.Bias = slices.Repeat([]float64{d.Linear[0]}, c.NumOutputs)
	if _, err := d.Encode(m.Shape(), nil); err != nil { // the digest is needed to apply it, and counts for nothing else
		return nil, next, err
	}
	if d.Sequence%100 == 0 {
		whole, err := m.Apply(d)
		if err != nil {
			return nil, next, err
		}
		digest, err := PayloadDigest(whole.Contents())
		if err != nil {
			return nil, next, err
		}
		d.Checked = &CheckedState{Sequence: d.Sequence, PayloadDigest: digest}
	}
	if frame, err = d.Encode(m.Shape(), signer); err == nil {
		next, err = m.Apply(d)
	}
	return frame, next, err
}

// wholeDelta reports whether a model has no half of a delta of deltaAfter.
func wholeDelta(m *Model) bool {
	outputs := make([]float64, m.NumOutputs())
	m.Score(outputs, new(Input), new(Scratch)) // of no column: the bias
	_, linear := m.Row(0)
	return m.Position().Sequence == 0 || outputs[0] == linear[0]
}

// sizeOf returns the size of a file.
func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	must(t, err)
	return st.Size()
}

// grow appends n deltas to the chain of m and returns the model after them.
func grow(t *testing.T, c *Chain, m *Model, n int, salt int64) *Model {
	t.Helper()
	for range n {
		frame, next, err := deltaAfter(m, salt, c.Store().Signer)
		must(t, err, c.Append(t.Context(), frame))
		m = next
	}
	return m
}

// openChain opens the chain of a version with the model that it begins with.
func openChain(t *testing.T, store *Store, dir string, version int64) (*Chain, *Model) {
	t.Helper()
	c, err := store.OpenChain(t.Context(), "m", version)
	must(t, err)
	m, err := Trust{AllowExpired: true}.Open(dir, "m", Selector{Version: version})
	must(t, err)
	return c, m
}

// readDeltas applies what a source has after m now, at least up to a sequence.
func readDeltas(ctx context.Context, source DeltaSource, m *Model, until int64, keys Keys) (*Model, error) {
	for m.Position().Sequence < until {
		at := m.Position()
		stream, err := source.Deltas(ctx, "m", at.Version, at.Sequence)
		if err != nil {
			return m, err
		}
		for {
			frame, err := ReadFrame(stream)
			if err == io.EOF {
				break
			}
			var d *Delta
			if err == nil {
				d, err = DecodeDelta(frame, m.Shape(), keys)
			}
			var next *Model
			if err == nil {
				next, err = m.Apply(d)
			}
			if err != nil {
				return m, errors.Join(err, stream.Close())
			}
			m = next
		}
		if err := stream.Close(); err != nil {
			return m, err
		}
	}
	return m, nil
}

// sameState compares two models by their published contents.
func sameState(t *testing.T, got, want *Model) {
	t.Helper()
	a, err1 := PayloadDigest(got.Contents())
	b, err2 := PayloadDigest(want.Contents())
	if must(t, err1, err2); a != b || got.Position().Digest != want.Position().Digest {
		t.Errorf("delta %d with %s, want %d with %s", got.Position().Sequence, a, want.Position().Sequence, b)
	}
}

func segmentPath(dir string, version, first int64) string {
	return at(dir, fmt.Sprint(version), deltasDir, segmentName(first))
}

// A chain is read from any place in it, in several segments, as it was written. Another writer continues it where the
// first one left it.
func TestChain(t *testing.T) {
	t.Parallel()
	store, dir, keys := publishSigned(t, 1)
	store.Keys = keys
	c, base := openChain(t, store, dir, 1)
	if c.Sequence() != 0 || c.Previous() != base.Manifest().Digest {
		t.Errorf("an empty chain is at %d, %s", c.Sequence(), c.Previous())
	}
	m := grow(t, c, base, maxSegmentDeltas-1, 0)
	again, _ := openChain(t, store, dir, 1)
	if again.Sequence() != c.Sequence() || again.Previous() != c.Previous() {
		t.Errorf("opened at %d, %s, want %d, %s", again.Sequence(), again.Previous(), c.Sequence(), c.Previous())
	}
	m = grow(t, again, m, 3, 0)
	source := DirSource{dir, often}
	read, err := readDeltas(t.Context(), source, base, maxSegmentDeltas+2, keys)
	must(t, err)
	sameState(t, read, m)
	for _, first := range []int64{1, maxSegmentDeltas + 1} {
		if _, err := os.Stat(segmentPath(dir, 1, first)); err != nil {
			t.Error(err)
		}
	}
	for after := range int64(maxSegmentDeltas + 2) {
		stream, err := source.Deltas(t.Context(), "m", 1, after)
		must(t, err)
		frame, err := ReadFrame(stream)
		must(t, err, stream.Close())
		if d, err := DecodeDeltaHeader(frame, keys); err != nil || d.Sequence != after+1 {
			t.Fatalf("after %d: %+v, %v", after, d, err)
		}
	}
	if _, err := source.Deltas(t.Context(), "m", 1, maxSegmentDeltas+3); !errors.Is(err, ErrChain) {
		t.Errorf("after a delta that is not there: %v, want ErrChain", err)
	}
	if _, err := source.Deltas(t.Context(), "m", 2, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a version that is not there: %v, want ErrNotFound", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*often)
	defer cancel()
	if _, err := source.Deltas(ctx, "m", 1, maxSegmentDeltas+2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the newest: %v, want that it waits", err)
	}
	if strays, err := store.Strays("m"); err != nil || len(strays) != 0 {
		t.Errorf("strays %v, %v", strays, err)
	}
}

// A version goes with its deltas; a chain that is open then has no version any more.
func TestPruneTakesDeltas(t *testing.T) {
	store, dir := storeOf(t, 1)
	c, m := openChain(t, store, dir, 1)
	m = grow(t, c, m, 2, 0)
	_, err := store.Publish(t.Context(), "m", testContents(small))
	must(t, err)
	if removed, err := store.Prune(t.Context(), "m", Retention{Keep: 1}); err != nil || len(removed) != 1 {
		t.Fatalf("removed %v, %v", removed, err)
	}
	left, err := filepath.Glob(at(dir, "*", deltasDir))
	if must(t, err); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	frame, _, err := deltaAfter(m, 0, nil)
	must(t, err)
	if err := c.Append(t.Context(), frame); !errors.Is(err, ErrNotFound) {
		t.Errorf("appended to a version that was pruned: %v, want ErrNotFound", err)
	}
}

// What does not follow, is not whole or not signed is not appended, and a second writer is noticed.
func TestChainRefuses(t *testing.T) {
	t.Parallel()
	store, dir, keys := publishSigned(t, 2)
	store.Keys = keys
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 3, 0)
	next, _, err := deltaAfter(m, 0, store.Signer)
	must(t, err)
	_, other := openChain(t, store, dir, 2)
	foreign, _, err := deltaAfter(other, 0, store.Signer)
	must(t, err)
	unsigned, _, err := deltaAfter(m, 0, nil)
	must(t, err)
	again, _, err := deltaAfter(base, 0, store.Signer)
	must(t, err)
	fork := grow(t, openAside(t, store, dir, keys), base, 3, 1)
	forked, _, err := deltaAfter(fork, 1, store.Signer)
	must(t, err)
	for name, bad := range map[string]struct {
		frame []byte
		want  error
	}{
		"of another version": {foreign, ErrChain}, "the first again": {again, ErrChain}, "of a fork": {forked, ErrChain},
		"unsigned": {unsigned, ErrSignature},
		"cut off":  {next[:len(next)-1], ErrFormat}, "two": {append(bytes.Clone(next), next...), ErrFormat}, "nothing": {nil,
			ErrFormat},
	} {
		if err := c.Append(t.Context(), bad.frame); !errors.Is(err, bad.want) {
			t.Errorf("%s: %v, want %v", name, err, bad.want)
		}
	}
	second, _ := openChain(t, store, dir, 1)
	must(t, second.Append(t.Context(), next))
	if err := c.Append(t.Context(), next); !errors.Is(err, ErrConflict) {
		t.Errorf("a second writer: %v, want ErrConflict", err)
	}
	read, err := readDeltas(t.Context(), DirSource{dir, often}, base, 4, keys)
	if must(t, err); read.Position().Sequence != 4 {
		t.Errorf("read %d deltas, want 4", read.Position().Sequence)
	}
	forger := NewStore(dir)
	forger.Signer, _ = signer(t, 2)
	third, err := forger.OpenChain(t.Context(), "m", 1)
	must(t, err)
	grow(t, third, read, 1, 0)
	if _, err := store.OpenChain(t.Context(), "m", 1); !errors.Is(err, ErrSignature) {
		t.Errorf("a chain that somebody else continued: %v, want ErrSignature", err)
	}
	must(t, os.RemoveAll(at(dir, "1", deltasDir)))
	if err := second.Append(t.Context(), next); err == nil {
		t.Error("appended to a chain whose files are gone")
	}
}

// openAside opens the chain of version 1 in a copy of a store.
func openAside(t *testing.T, store *Store, dir string, keys Keys) *Chain {
	t.Helper()
	aside := t.TempDir()
	must(t, os.CopyFS(aside, os.DirFS(dir)))
	must(t, os.RemoveAll(at(aside, "1", deltasDir)))
	copied := NewStore(aside)
	copied.Keys, copied.Signer = keys, store.Signer
	c, err := copied.OpenChain(t.Context(), "m", 1)
	must(t, err)
	return c
}

// A delta of which the writer wrote a part is not read, and the next writer cuts it off; what is damaged further back
// is not continued.
func TestTornDelta(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 2, 0)
	path := segmentPath(dir, 1, 1)
	two := sizeOf(t, path)
	last := grow(t, c, m, 1, 0)
	whole, err := os.ReadFile(path)
	must(t, err)
	source := DirSource{dir, often}
	check := func(what string, content []byte) {
		t.Helper()
		must(t, os.WriteFile(path, content, 0o644))
		var place place
		root, err := os.OpenRoot(at(dir, "1"))
		must(t, err)
		defer root.Close()
		if r, err := place.deltas(root, 2); err != nil || r != nil && len(content) < len(whole) {
			t.Errorf("%s: read %v, %v", what, r, err)
		} else if r != nil {
			frame, err := ReadFrame(r)
			must(t, err, r.Close())
			if _, err := DecodeDelta(frame, base.Shape(), nil); !errors.Is(err, ErrDigest) {
				t.Errorf("%s: decoded: %v, want ErrDigest", what, err)
			}
		}
		again, _ := openChain(t, store, dir, 1)
		if st, err := os.Stat(path); err != nil || again.Sequence() != 2 || st.Size() != two {
			t.Errorf("%s: opened at %d with %v, %v", what, again.Sequence(), st, err)
		}
		grow(t, again, m, 1, 0)
		read, err := readDeltas(t.Context(), source, base, 3, nil)
		must(t, err)
		sameState(t, read, last)
	}
	for cut := two + 1; cut < int64(len(whole)); cut += 1 + int64(len(whole))/200 {
		check(fmt.Sprintf("cut at %d of %d", cut, len(whole)), whole[:cut])
	}
	rotten := bytes.Clone(whole)
	rotten[len(rotten)-1] ^= 1
	check("the last byte altered", rotten)

	must(t, os.WriteFile(path, nil, 0o644)) // begun, and nothing of it written
	if again, _ := openChain(t, store, dir, 1); again.Sequence() != 0 {
		t.Errorf("an empty segment: opened at %d", again.Sequence())
	}
	for place := range []int64{0, two / 4, two - 1} {
		rotten := bytes.Clone(whole)
		rotten[place] ^= 1
		must(t, os.WriteFile(path, rotten, 0o644))
		if _, err := store.OpenChain(t.Context(), "m", 1); !isRotten(err) {
			t.Errorf("byte %d altered: %v, want that it is damaged", place, err)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, rotten) {
			t.Errorf("byte %d altered: the file was changed, %v", place, err)
		}
	}
}

// A writer that fails leaves the chain as it was, and can append again.
func TestAppendFails(t *testing.T) {
	store, dir := storeOf(t, 1)
	failure := errors.New("no space")
	fail := ""
	store.Step = func(site string) error {
		if site == fail {
			return failure
		}
		return nil
	}
	c, base := openChain(t, store, dir, 1)
	m := base
	for range 3 {
		fail = "snapshot.delta_written"
		frame, next, err := deltaAfter(m, 0, nil)
		must(t, err)
		if err := c.Append(t.Context(), frame); !errors.Is(err, failure) {
			t.Errorf("appended: %v", err)
		}
		fail = ""
		must(t, c.Append(t.Context(), frame))
		m = next
	}
	read, err := readDeltas(t.Context(), DirSource{dir, often}, base, 3, nil)
	must(t, err)
	sameState(t, read, m)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root, err := os.OpenRoot(at(dir))
	must(t, err)
	defer root.Close()
	unlock, err := lock(t.Context(), root, ".lock-deltas")
	must(t, err)
	frame, _, err := deltaAfter(m, 0, nil)
	must(t, err)
	if err := c.Append(ctx, frame); !errors.Is(err, context.Canceled) {
		t.Errorf("appended while another writer has the lock: %v", err)
	}
	must(t, unlock(), c.Append(t.Context(), frame))
}

// Readers see a delta as soon as it is whole, however slowly it is written.
func TestDeltaArrivesSlowly(t *testing.T) {
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 2, 0)
	path := segmentPath(dir, 1, 1)
	whole, err := os.ReadFile(path)
	must(t, err, os.RemoveAll(filepath.Dir(path)))
	got := make(chan error, 1)
	var read *Model
	go func() {
		var err error
		read, err = readDeltas(t.Context(), DirSource{dir, often / 2}, base, 2, nil)
		got <- err
	}()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for piece := range slices.Chunk(whole, 1+len(whole)/50) {
		_, err := f.Write(piece)
		must(t, err, backoff.Sleep(t.Context(), time.Millisecond))
	}
	must(t, <-got)
	sameState(t, read, m)
}

// Names that are no segments are ignored, and a segment whose name is not that of its first delta is damaged.
func TestOddSegments(t *testing.T) {
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 3, 0)
	for _, name := range []string{"1.seg", "000000000000.seg", "-00000000001.seg", "notes", "000000000002.seg~"} {
		must(t, os.WriteFile(filepath.Join(filepath.Dir(segmentPath(dir, 1, 1)), name), []byte("x"), 0o644))
	}
	read, err := readDeltas(t.Context(), DirSource{dir, often}, base, 3, nil)
	must(t, err)
	sameState(t, read, m)
	must(t, os.Rename(segmentPath(dir, 1, 1), segmentPath(dir, 1, 2)))
	if _, err := store.OpenChain(t.Context(), "m", 1); !errors.Is(err, ErrFormat) {
		t.Errorf("under another name: %v, want ErrFormat", err)
	}
	if _, err := (DirSource{Dir: dir}).Deltas(t.Context(), "m", 1, 0); !errors.Is(err, ErrChain) ||
		!strings.Contains(err.Error(), "first is 2") {
		t.Errorf("the first segment is gone: %v, want ErrChain", err)
	}
}

package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// wholeDelta reports whether a model has no half of a delta of DeltaAfter.
func wholeDelta(m *scorer.Model) bool {
	_, linear := m.Row(0)
	return m.Position().Sequence == 0 || m.Contents().Bias[0] == linear[0]
}

// sizeOf returns the size of a file.
func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	snapshottest.Must(t, err)
	return st.Size()
}

// grow appends n deltas to the chain of m and returns the model after them.
func grow(t *testing.T, c *publish.Chain, m *scorer.Model, n int, salt int64) *scorer.Model {
	t.Helper()
	for range n {
		frame, next, err := snapshottest.DeltaAfter(m, salt, c.Store().Signer)
		snapshottest.Must(t, err, c.Append(t.Context(), frame))
		m = next
	}
	return m
}

// openChain opens the chain of a version with the model that it begins with.
func openChain(t *testing.T, store *publish.Store, dir string, version int64) (*publish.Chain, *scorer.Model) {
	t.Helper()
	c, err := store.OpenChain(t.Context(), "m", version)
	snapshottest.Must(t, err)
	m, err := verify.Trust{AllowExpired: true}.Open(dir, "m", verify.Selector{Version: version})
	snapshottest.Must(t, err)
	return c, m
}

// readDeltas applies what a source has after m now, at least up to a sequence.
func readDeltas(ctx context.Context, source DeltaSource, m *scorer.Model, until int64, keys format.Keys) (*scorer.Model,
	error) {
	for m.Position().Sequence < until {
		at := m.Position()
		stream, err := source.Deltas(ctx, "m", at.Version, at.Sequence)
		if err != nil {
			return m, err
		}
		for {
			frame, err := format.ReadFrame(stream)
			if err == io.EOF {
				break
			}
			var d *format.Delta
			if err == nil {
				d, err = format.DecodeDelta(frame, m.Shape(), keys)
			}
			var next *scorer.Model
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
func sameState(t *testing.T, got, want *scorer.Model) {
	t.Helper()
	a, err1 := format.PayloadDigest(got.Contents())
	b, err2 := format.PayloadDigest(want.Contents())
	if snapshottest.Must(t, err1, err2); a != b || got.Position().Digest != want.Position().Digest {
		t.Errorf("delta %d with %s, want %d with %s", got.Position().Sequence, a, want.Position().Sequence, b)
	}
}

func segmentPath(dir string, version, first int64) string {
	return at(dir, fmt.Sprint(version), disk.DeltasDir, disk.SegmentName(first))
}

// A chain is read from any place in it, in several segments, as it was written. Another writer continues it where the
// first one left it.
func TestChain(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	store, dir, keys := publishSigned(t, 1)
	store.Keys = keys
	c, base := openChain(t, store, dir, 1)
	if c.Sequence() != 0 || c.Previous() != base.Manifest().Digest {
		t.Errorf("an empty chain is at %d, %s", c.Sequence(), c.Previous())
	}
	m := grow(t, c, base, disk.MaxSegmentDeltas-1, 0)
	again, _ := openChain(t, store, dir, 1)
	if again.Sequence() != c.Sequence() || again.Previous() != c.Previous() {
		t.Errorf("opened at %d, %s, want %d, %s", again.Sequence(), again.Previous(), c.Sequence(), c.Previous())
	}
	m = grow(t, again, m, 3, 0)
	source := DirSource{dir, often}
	read, err := readDeltas(t.Context(), source, base, disk.MaxSegmentDeltas+2, keys)
	snapshottest.Must(t, err)
	sameState(t, read, m)
	for _, first := range []int64{1, disk.MaxSegmentDeltas + 1} {
		if _, err := os.Stat(segmentPath(dir, 1, first)); err != nil {
			t.Error(err)
		}
	}
	for after := range int64(disk.MaxSegmentDeltas + 2) {
		stream, err := source.Deltas(t.Context(), "m", 1, after)
		snapshottest.Must(t, err)
		frame, err := format.ReadFrame(stream)
		snapshottest.Must(t, err, stream.Close())
		if d, err := format.DecodeDeltaHeader(frame, keys); err != nil || d.Sequence != after+1 {
			t.Fatalf("after %d: %+v, %v", after, d, err)
		}
	}
	if _, err := source.Deltas(t.Context(), "m", 1, disk.MaxSegmentDeltas+3); !errors.Is(err, disk.ErrChain) {
		t.Errorf("after a delta that is not there: %v, want ErrChain", err)
	}
	if _, err := source.Deltas(t.Context(), "m", 2, 0); !errors.Is(err, disk.ErrNotFound) {
		t.Errorf("of a version that is not there: %v, want ErrNotFound", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*often)
	defer cancel()
	if _, err := source.Deltas(ctx, "m", 1, disk.MaxSegmentDeltas+2); !errors.Is(err, context.DeadlineExceeded) {
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
	_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	if removed, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 1}); err != nil || len(removed) != 1 {
		t.Fatalf("removed %v, %v", removed, err)
	}
	left, err := filepath.Glob(at(dir, "*", disk.DeltasDir))
	if snapshottest.Must(t, err); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	frame, _, err := snapshottest.DeltaAfter(m, 0, nil)
	snapshottest.Must(t, err)
	if err := c.Append(t.Context(), frame); !errors.Is(err, disk.ErrNotFound) {
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
	next, _, err := snapshottest.DeltaAfter(m, 0, store.Signer)
	snapshottest.Must(t, err)
	_, other := openChain(t, store, dir, 2)
	foreign, _, err := snapshottest.DeltaAfter(other, 0, store.Signer)
	snapshottest.Must(t, err)
	unsigned, _, err := snapshottest.DeltaAfter(m, 0, nil)
	snapshottest.Must(t, err)
	again, _, err := snapshottest.DeltaAfter(base, 0, store.Signer)
	snapshottest.Must(t, err)
	fork := grow(t, openAside(t, store, dir, keys), base, 3, 1)
	forked, _, err := snapshottest.DeltaAfter(fork, 1, store.Signer)
	snapshottest.Must(t, err)
	for name, bad := range map[string]struct {
		frame []byte
		want  error
	}{
		"of another version": {foreign, disk.ErrChain}, "the first again": {again, disk.ErrChain}, "of a fork": {forked,
			disk.ErrChain},
		"unsigned": {unsigned, disk.ErrSignature},
		"cut off":  {next[:len(next)-1], disk.ErrFormat}, "two": {append(bytes.Clone(next), next...), disk.ErrFormat},
		"nothing": {nil,
			disk.ErrFormat},
	} {
		if err := c.Append(t.Context(), bad.frame); !errors.Is(err, bad.want) {
			t.Errorf("%s: %v, want %v", name, err, bad.want)
		}
	}
	second, _ := openChain(t, store, dir, 1)
	snapshottest.Must(t, second.Append(t.Context(), next))
	if err := c.Append(t.Context(), next); !errors.Is(err, disk.ErrConflict) {
		t.Errorf("a second writer: %v, want ErrConflict", err)
	}
	read, err := readDeltas(t.Context(), DirSource{dir, often}, base, 4, keys)
	if snapshottest.Must(t, err); read.Position().Sequence != 4 {
		t.Errorf("read %d deltas, want 4", read.Position().Sequence)
	}
	forger := publish.NewStore(dir)
	forger.Signer, _ = snapshottest.Signer(t, 2)
	third, err := forger.OpenChain(t.Context(), "m", 1)
	snapshottest.Must(t, err)
	grow(t, third, read, 1, 0)
	if _, err := store.OpenChain(t.Context(), "m", 1); !errors.Is(err, disk.ErrSignature) {
		t.Errorf("a chain that somebody else continued: %v, want ErrSignature", err)
	}
	snapshottest.Must(t, os.RemoveAll(at(dir, "1", disk.DeltasDir)))
	if err := second.Append(t.Context(), next); err == nil {
		t.Error("appended to a chain whose files are gone")
	}
}

// openAside opens the chain of version 1 in a copy of a store.
func openAside(t *testing.T, store *publish.Store, dir string, keys format.Keys) *publish.Chain {
	t.Helper()
	aside := t.TempDir()
	snapshottest.Must(t, os.CopyFS(aside, os.DirFS(dir)))
	snapshottest.Must(t, os.RemoveAll(at(aside, "1", disk.DeltasDir)))
	copied := publish.NewStore(aside)
	copied.Keys, copied.Signer = keys, store.Signer
	c, err := copied.OpenChain(t.Context(), "m", 1)
	snapshottest.Must(t, err)
	return c
}

// A delta of which the writer wrote a part is not read, and the next writer cuts it off; what is damaged further back
// is not continued.
func TestTornDelta(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 2, 0)
	path := segmentPath(dir, 1, 1)
	two := sizeOf(t, path)
	last := grow(t, c, m, 1, 0)
	whole, err := os.ReadFile(path)
	snapshottest.Must(t, err)
	source := DirSource{dir, often}
	check := func(what string, content []byte) {
		t.Helper()
		snapshottest.Must(t, os.WriteFile(path, content, 0o644))
		var place place
		root, err := os.OpenRoot(at(dir, "1"))
		snapshottest.Must(t, err)
		defer root.Close()
		if r, err := place.deltas(root, 2); err != nil || r != nil && len(content) < len(whole) {
			t.Errorf("%s: read %v, %v", what, r, err)
		} else if r != nil {
			frame, err := format.ReadFrame(r)
			snapshottest.Must(t, err, r.Close())
			if _, err := format.DecodeDelta(frame, base.Shape(), nil); !errors.Is(err, disk.ErrDigest) {
				t.Errorf("%s: decoded: %v, want ErrDigest", what, err)
			}
		}
		again, _ := openChain(t, store, dir, 1)
		if st, err := os.Stat(path); err != nil || again.Sequence() != 2 || st.Size() != two {
			t.Errorf("%s: opened at %d with %v, %v", what, again.Sequence(), st, err)
		}
		grow(t, again, m, 1, 0)
		read, err := readDeltas(t.Context(), source, base, 3, nil)
		snapshottest.Must(t, err)
		sameState(t, read, last)
	}
	for cut := two + 1; cut < int64(len(whole)); cut += 1 + int64(len(whole))/200 {
		check(fmt.Sprintf("cut at %d of %d", cut, len(whole)), whole[:cut])
	}
	rotten := bytes.Clone(whole)
	rotten[len(rotten)-1] ^= 1
	check("the last byte altered", rotten)

	snapshottest.Must(t, os.WriteFile(path, nil, 0o644)) // begun, and nothing of it written
	if again, _ := openChain(t, store, dir, 1); again.Sequence() != 0 {
		t.Errorf("an empty segment: opened at %d", again.Sequence())
	}
	for place := range []int64{0, two / 4, two - 1} {
		rotten := bytes.Clone(whole)
		rotten[place] ^= 1
		snapshottest.Must(t, os.WriteFile(path, rotten, 0o644))
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
		frame, next, err := snapshottest.DeltaAfter(m, 0, nil)
		snapshottest.Must(t, err)
		if err := c.Append(t.Context(), frame); !errors.Is(err, failure) {
			t.Errorf("appended: %v", err)
		}
		fail = ""
		snapshottest.Must(t, c.Append(t.Context(), frame))
		m = next
	}
	read, err := readDeltas(t.Context(), DirSource{dir, often}, base, 3, nil)
	snapshottest.Must(t, err)
	sameState(t, read, m)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root, err := os.OpenRoot(at(dir))
	snapshottest.Must(t, err)
	defer root.Close()
	unlock, err := disk.Lock(t.Context(), root, ".lock-deltas")
	snapshottest.Must(t, err)
	frame, _, err := snapshottest.DeltaAfter(m, 0, nil)
	snapshottest.Must(t, err)
	if err := c.Append(ctx, frame); !errors.Is(err, context.Canceled) {
		t.Errorf("appended while another writer has the lock: %v", err)
	}
	snapshottest.Must(t, unlock(), c.Append(t.Context(), frame))
}

// Readers see a delta as soon as it is whole, however slowly it is written.
func TestDeltaArrivesSlowly(t *testing.T) {
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 2, 0)
	path := segmentPath(dir, 1, 1)
	whole, err := os.ReadFile(path)
	snapshottest.Must(t, err, os.RemoveAll(filepath.Dir(path)))
	got := make(chan error, 1)
	var read *scorer.Model
	go func() {
		var err error
		read, err = readDeltas(t.Context(), DirSource{dir, often / 2}, base, 2, nil)
		got <- err
	}()
	snapshottest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	snapshottest.Must(t, err)
	defer f.Close()
	for piece := range slices.Chunk(whole, 1+len(whole)/50) {
		_, err := f.Write(piece)
		snapshottest.Must(t, err, backoff.Sleep(t.Context(), time.Millisecond))
	}
	snapshottest.Must(t, <-got)
	sameState(t, read, m)
}

// Names that are no segments are ignored, and a segment whose name is not that of its first delta is damaged.
func TestOddSegments(t *testing.T) {
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 3, 0)
	for _, name := range []string{"1.seg", "000000000000.seg", "-00000000001.seg", "notes", "000000000002.seg~"} {
		snapshottest.Must(t, os.WriteFile(filepath.Join(filepath.Dir(segmentPath(dir, 1, 1)), name), []byte("x"), 0o644))
	}
	read, err := readDeltas(t.Context(), DirSource{dir, often}, base, 3, nil)
	snapshottest.Must(t, err)
	sameState(t, read, m)
	snapshottest.Must(t, os.Rename(segmentPath(dir, 1, 1), segmentPath(dir, 1, 2)))
	if _, err := store.OpenChain(t.Context(), "m", 1); !errors.Is(err, disk.ErrFormat) {
		t.Errorf("under another name: %v, want ErrFormat", err)
	}
	if _, err := (DirSource{Dir: dir}).Deltas(t.Context(), "m", 1, 0); !errors.Is(err, disk.ErrChain) ||
		!strings.Contains(err.Error(), "first is 2") {
		t.Errorf("the first segment is gone: %v, want ErrChain", err)
	}
}

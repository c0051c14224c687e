//go:build unix

package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// appendEnv makes a run of the test binary append deltas to a store until it is killed: the directory, the salt of its
// deltas, and after how many deltas it begins a new version with what they came to.
const appendEnv = "SNAPSHOT_APPEND"

// appendUntilKilled continues with the newest version of a store and its deltas.
func appendUntilKilled(spec string) error {
	dir, rest, _ := strings.Cut(spec, "|")
	first, second, _ := strings.Cut(rest, "|")
	salt, err1 := strconv.ParseInt(first, 10, 64)
	chain, err2 := strconv.ParseInt(second, 10, 64)
	signer, err3 := format.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	ctx, store := context.Background(), publish.NewStore(dir)
	store.Signer, store.Keys = signer, signer.Keys()
	if err := store.Recover(ctx, "m"); err != nil {
		return err
	}
	for {
		m, err := (verify.Trust{Keys: store.Keys}).Open(dir, "m", verify.Selector{Alias: pointer.Latest})
		if err != nil {
			return err
		}
		c, err := store.OpenChain(ctx, "m", m.Position().Version)
		if err != nil {
			return err
		}
		if m, err = readDeltas(ctx, DirSource{Dir: dir}, m, c.Sequence(), store.Keys); err != nil {
			return err
		}
		fmt.Println("appending")
		for m.Position().Sequence < chain {
			var frame []byte
			if frame, m, err = snapshottest.DeltaAfter(m, salt, signer); err != nil {
				return err
			}
			if err := c.Append(ctx, frame); err != nil {
				return err
			}
			fmt.Println("appended")
		}
		whole := m.Contents()
		whole.Meta.Created = snapshottest.Created
		published, err := store.Publish(ctx, "m", whole)
		if err != nil {
			return err
		}
		if want := m.Position().PayloadDigest; published.PayloadDigest != want {
			return fmt.Errorf("version %d has %s, the last delta said %s", published.Version, published.PayloadDigest,
				want)
		}
		if _, err := store.Prune(ctx, "m", publish.Retention{Keep: 3}); err != nil {
			return err
		}
	}
}

// deltaReader looks at what a watcher serves and keeps what is wrong with it.
type deltaReader struct {
	watcher atomic.Pointer[Watcher]
	last    format.Position
	looks   int64
	seen    sync.Map     // digests of deltas at which the whole model was compared
	count   atomic.Int64 // of them
}

// owes reports whether the reader serves a delta at which it has yet to compare the whole model.
func (r *deltaReader) owes(version, sequence int64) bool {
	w := r.watcher.Load()
	if w == nil || w.Model() == nil || sequence == 0 || sequence%snapshottest.WholeEvery != 0 {
		return false
	}
	p := w.Model().Position()
	_, compared := r.seen.Load(p.Digest)
	return p.Version == version && p.Sequence == sequence && !compared
}

// pausingSource hands out deltas up to the next one to compare, and more once the reader has compared that.
type pausingSource struct {
	DirSource
	reader *deltaReader
}

func (s pausingSource) Deltas(ctx context.Context, model string, version, after int64) (io.ReadCloser, error) {
	for s.reader.owes(version, after) {
		if err := backoff.Sleep(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
	stream, err := s.DirSource.Deltas(ctx, model, version, after)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var frames []byte
	for next := after + 1; ; next++ {
		frame, err := format.ReadFrame(stream)
		if frames = append(frames, frame...); err != nil || next%snapshottest.WholeEvery == 0 {
			return io.NopCloser(bytes.NewReader(frames)), nil
		}
	}
}

func (r *deltaReader) look(in *format.Input, dst []float64, s *scorer.Scratch) error {
	m := r.watcher.Load().Model()
	if m == nil {
		return nil
	}
	r.looks++
	m.Score(dst, in, s)
	p := m.Position()
	if !wholeDelta(m) {
		return fmt.Errorf("half of delta %d of version %d", p.Sequence, p.Version)
	}
	if p.Version < r.last.Version || p.Version == r.last.Version && p.Sequence < r.last.Sequence {
		return fmt.Errorf("delta %d of version %d after %d of %d", p.Sequence, p.Version, r.last.Sequence,
			r.last.Version)
	}
	r.last = p
	if r.owes(p.Version, p.Sequence) {
		if digest, err := format.PayloadDigest(m.Contents()); err != nil || digest != p.PayloadDigest {
			return fmt.Errorf("delta %d of version %d: %s, %v, the publisher has %s", p.Sequence, p.Version, digest,
				err, p.PayloadDigest)
		}
		r.seen.Store(p.Digest, true)
		r.count.Add(1)
	}
	return nil
}

// Eight readers of a chain whose writer is killed at random, and whose files are cut off and put in each other's place
// between, see whole deltas in order only, and at every one with a digest of the whole model what the publisher had.
func TestReadersDuringManyDeltas(t *testing.T) {
	t.Parallel()
	kills, want := tier.Size(4, 60), tier.Size(int64(250), 3_000)
	switch {
	case tier.Asked(tier.Load):
		kills, want = 200, 10_000
	case tier.UnderRace() && !tier.Asked(tier.Long):
		want = 80
	}
	_, dir, keys := publishSigned(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	readers := make([]*deltaReader, 8)
	for i := range readers {
		r := new(deltaReader)
		r.watcher.Store(
			watchOf(t, pausingSource{DirSource{Dir: dir}, r},
				WatchOptions{Trust: verify.Trust{Keys: keys}, CheckDeltas: i%2 == 0}),
		)
		readers[i] = r
		wg.Go(func() {
			in, dst, s := snapshottest.TestInputs()[0], make([]float64, 4), new(scorer.Scratch)
			for backoff.Sleep(ctx, often/2) == nil {
				if err := r.look(&in, dst, s); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	killed, damaged, slowest, compared := 0, 0, int64(0), int64(0)
	// A slow machine takes more kills until the readers have had deltas to compare.
	for (slowest < want || killed < kills || compared < int64(len(readers))) && killed < 50*kills {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d|500", appendEnv, dir, killed))
		out, err := child.StdoutPipe()
		snapshottest.Must(t, err, child.Start())
		lines := 0 // killed after some of them, so that a slow machine has as many deltas; each fourth while it starts
		if killed%4 != 0 {
			lines = 1 + rng.IntN(100)
		}
		for said := bufio.NewReader(out); lines > 0; lines-- {
			if line, err := said.ReadString('\n'); err != nil || line != "appending\n" && line != "appended\n" {
				t.Fatalf("the writer said %q, %v", line, err)
			}
		}
		most := 10
		if killed%4 == 0 {
			most = 300
		}
		time.Sleep(time.Duration(rng.IntN(most)) * time.Millisecond)
		snapshottest.Must(t, child.Process.Kill())
		if err := child.Wait(); err == nil || child.ProcessState.Exited() {
			t.Fatalf("the writer ended before it was killed: %v", err)
		}
		killed++
		if len(errs) > 0 {
			break
		}
		if killed%3 == 0 && damage(t, dir, rng) {
			damaged++
		}
		slowest, compared = math.MaxInt64, 0
		for _, r := range readers {
			slowest = min(slowest, r.watcher.Load().Status().DeltasApplied)
			compared += r.count.Load()
		}
	}
	stop()
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	looks, compared, refused, applied := int64(0), int64(0), int64(0), int64(0)
	for _, r := range readers {
		status := r.watcher.Load().Status()
		looks, compared, refused, applied = looks+r.looks, compared+r.count.Load(), refused+status.DeltasRefused, applied+
			status.DeltasApplied
	}
	if compared < int64(len(readers)) {
		t.Errorf("the whole model was compared %d times", compared)
	}
	t.Logf(
		"%d kills, %d times damage, %d deltas by the slowest reader, %d by all, %d looks, %d whole models compared, %d "+
			"refusals",
		killed,
		damaged,
		slowest,
		applied,
		looks,
		compared,
		refused,
	)
}

// damage cuts a part off the newest segment, as a crash of the machine may, or puts another version's deltas in its
// place for a while. It reports whether it found something to damage.
func damage(t *testing.T, dir string, rng *rand.Rand) bool {
	segments, err := filepath.Glob(at(dir, "[0-9]*", disk.DeltasDir, "*.seg"))
	snapshottest.Must(t, err)
	if len(segments) == 0 {
		return false
	}
	var newest os.FileInfo
	path, other := "", segments[rng.IntN(len(segments))]
	for _, s := range segments {
		if st, err := os.Stat(s); err == nil && (newest == nil || st.ModTime().After(newest.ModTime())) {
			newest, path = st, s
		}
	}
	if other == path || rng.IntN(2) == 0 {
		snapshottest.Must(t, os.Truncate(path, rng.Int64N(newest.Size()+1)))
		return true
	}
	aside := filepath.Join(dir, "aside")
	snapshottest.Must(t, os.Rename(path, aside), os.Rename(other, path))
	time.Sleep(10 * time.Millisecond)
	snapshottest.Must(t, os.Rename(path, other), os.Rename(aside, path))
	return true
}

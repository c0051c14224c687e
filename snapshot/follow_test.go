package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// atDelta waits until a watcher serves a version with a number of deltas.
func atDelta(t *testing.T, w *Watcher, version, sequence int64) Status {
	t.Helper()
	return until(t, w, fmt.Sprintf("delta %d of version %d", sequence, version), func(s Status) bool {
		return s.Position.Version == version && s.Position.Sequence == sequence && s.DeltaErr == nil
	})
}

// A watcher has each delta as it comes; a model that it handed out before does not change; a restart and a second
// watcher come to the same state.
func TestWatchAppliesDeltas(t *testing.T) {
	t.Parallel()
	store, dir, keys := publishSigned(t, 1)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 5, 0)
	loads := 0
	now := snapshottest.Created.Add(time.Minute)
	options := WatchOptions{
		Trust:     verify.Trust{Keys: keys, Now: func() time.Time { return now }},
		StateFile: filepath.Join(t.TempDir(), "accepted"),
		OnLoad:    func(*scorer.Model) error { loads++; return nil },
	}
	w := watchOf(t, DirSource{dir, often}, options)
	s := atDelta(t, w, 1, 5)
	if s.Version != 1 || s.Loads != 1 || s.DeltasApplied != 5 || s.DeltasRefused != 0 || s.Age != 55*time.Second ||
		s.WatermarkAge != 56*time.Second {
		t.Errorf("status %+v", s)
	}
	sameState(t, w.Model(), m)
	if w.Model().SignedBy() != store.Signer.ID() || w.Model().Manifest().Version != 1 {
		t.Errorf("signed by %q, manifest %+v", w.Model().SignedBy(), w.Model().Manifest())
	}
	held := w.Model()
	want, err := format.PayloadDigest(held.Contents())
	snapshottest.Must(t, err)
	m = grow(t, c, m, 20, 0)
	atDelta(t, w, 1, 25)
	sameState(t, w.Model(), m)
	if got, err := format.PayloadDigest(held.Contents()); err != nil || got != want || held.Position().Sequence != 5 {
		t.Errorf("the model that was handed out has changed: %s, %v, want %s", got, err, want)
	}
	w.Close()
	if loads != 1 {
		t.Errorf("OnLoad was called %d times, want once", loads)
	}
	again := watchOf(t, DirSource{dir, often}, options)
	atDelta(t, again, 1, 25)
	sameState(t, again.Model(), m)
	options.StateFile, options.NoDeltas = "", true
	plain := watchOf(t, DirSource{dir, often}, options)
	until(t, plain, "version 1", func(s Status) bool { return s.Version == 1 })
	pinned := watchOf(t, DirSource{dir, often}, WatchOptions{Pin: 1})
	atDelta(t, pinned, 1, 25)
	if s := plain.Status(); s.Position.Sequence != 0 || s.DeltasApplied != 0 {
		t.Errorf("deltas were applied where none are asked for: %+v", s)
	}
	if m, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest}); err != nil || m.Position().Sequence != 0 {
		t.Errorf("Open: %v, %v, want the version as it was published", m, err)
	}
}

// slowDeltas is a store in which deltas of version 2 come one at a time, each some time after it is asked for.
type slowDeltas struct {
	DirSource
	every  time.Duration
	append func()
}

func (s slowDeltas) Deltas(ctx context.Context, model string, version, after int64) (io.ReadCloser, error) {
	if version == 2 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(s.every):
			s.append()
		}
	}
	return s.DirSource.Deltas(ctx, model, version, after)
}

// An update that was written while deltas of the one before were published has its own deltas before it is served,
// however long they take to come one after the other: a consumer does not go back to fewer events. A rollback is
// served at once.
func TestWatchDoesNotGoBack(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	at5 := grow(t, c, base, 5, 0)
	whole := at5.Contents()
	grow(t, c, at5, 7, 0)
	var next *publish.Chain
	var model *scorer.Model
	grown := 0
	const catchUp = 5 * time.Second // on a busy machine a second or two pass between two deltas
	source := slowDeltas{DirSource{dir, often}, catchUp / 6, func() {
		if grown == 0 {
			next, model = openChain(t, store, dir, 2)
		}
		if grown < 13 {
			model = grow(t, next, model, 1, 1)
			grown++
		}
	}}
	served := make(chan struct{})
	load := func(m *scorer.Model) error {
		if m.Manifest().Version == 2 {
			<-served
		}
		return nil
	}
	w := watchOf(t, source, WatchOptions{OnLoad: load, catchUp: catchUp})
	atDelta(t, w, 1, 12)
	whole.Meta.Created, whole.Meta.Kind = snapshottest.Created.Add(time.Hour), "update"
	_, err := store.Publish(t.Context(), "m", whole)
	snapshottest.Must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for w.Model().Position().Version == 1 {
			runtime.Gosched()
		}
		if p := w.Model().Position(); p.Cut[0].Next < 111 {
			t.Errorf("served as soon as it was read: %+v, want events up to 111", p)
		}
	}()
	close(served)
	<-done
	atDelta(t, w, 2, 13)
	snapshottest.Must(t, setAlias(t, store, pointer.Latest, 1))
	atDelta(t, w, 1, 12)
}

// Another version has a separate chain: a promotion, a compaction and a rollback, whose chain is as it was left.
func TestWatchChangesChains(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	first := grow(t, c, base, 12, 0)
	w := watchOf(t, DirSource{dir, often}, WatchOptions{})
	atDelta(t, w, 1, 12)
	whole := first.Contents()
	whole.Meta.Created = snapshottest.Created.Add(time.Hour)
	compacted, err := store.Publish(t.Context(), "m", whole)
	snapshottest.Must(t, err)
	s := atDelta(t, w, 2, 0)
	if digest, err := format.PayloadDigest(first.Contents()); err != nil || digest != compacted.PayloadDigest ||
		s.PayloadDigest != digest {
		t.Errorf("compacted to %s, status %s, the consumer had %s, %v", compacted.PayloadDigest, s.PayloadDigest,
			digest, err)
	}
	next, base2 := openChain(t, store, dir, 2)
	second := grow(t, next, base2, 3, 1)
	atDelta(t, w, 2, 3)
	sameState(t, w.Model(), second)
	snapshottest.Must(t, setAlias(t, store, pointer.Latest, 1))
	s = atDelta(t, w, 1, 12)
	sameState(t, w.Model(), first)
	if s.Loads != 3 || s.DeltasApplied != 12+3+12 || s.DeltasRefused != 0 {
		t.Errorf("status %+v", s)
	}
	grow(t, next, second, 1, 1) // of a version that is not served any more
	snapshottest.Must(t, setAlias(t, store, pointer.Latest, 2))
	atDelta(t, w, 2, 4)
}

// A publisher sends the digest of the model at an earlier delta. A watcher that compares refuses a wrong digest;
// another one ignores it.
func TestWatchCompares(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 1)
	c, base := openChain(t, store, dir, 1)
	hundred := grow(t, c, base, 100, 0)
	m := grow(t, c, hundred, 2, 0)
	checking := watchOf(t, DirSource{dir, often}, WatchOptions{CheckDeltas: true})
	plain := watchOf(t, DirSource{dir, often}, WatchOptions{})
	atDelta(t, checking, 1, 102)
	at := m.Position()
	checkedBy := func(digest string) *format.Delta {
		return &format.Delta{
			Model:      "m",
			Base:       1,
			BaseDigest: base.Manifest().Digest,
			Sequence:   at.Sequence + 1,
			Previous:   at.Digest,
			Created:    snapshottest.Created,
			Basis:      []float64{},
			Linear:     []float64{},
			Checked:    &format.CheckedState{Sequence: 100, PayloadDigest: digest},
		}
	}
	frame, err := checkedBy("sha256:00").Encode(m.Shape(), nil)
	snapshottest.Must(t, err)
	snapshottest.Must(t, c.Append(t.Context(), frame))
	until(t, checking, "a refusal",
		func(s Status) bool { return s.DeltasRefused > replayAfter && errors.Is(s.DeltaErr, disk.ErrDigest) })
	sameState(t, checking.Model(), m)
	atDelta(t, plain, 1, 103)
	segment := segmentPath(dir, 1, 1)
	snapshottest.Must(t, os.Truncate(segment, sizeOf(t, segment)-int64(len(frame))))
	again, _ := openChain(t, store, dir, 1)
	digest, err := format.PayloadDigest(hundred.Contents())
	snapshottest.Must(t, err)
	d := checkedBy(digest)
	frame, err = d.Encode(m.Shape(), nil)
	snapshottest.Must(t, err)
	snapshottest.Must(t, again.Append(t.Context(), frame))
	next, err := m.Apply(d)
	snapshottest.Must(t, err)
	s := atDelta(t, checking, 1, 103)
	sameState(t, checking.Model(), next)
	if s.DeltasApplied != 103 {
		t.Errorf("status %+v", s)
	}
}

// A delta that is ready when another version has come is not served.
func TestWatchLateDelta(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 2)
	_, late := openChain(t, store, dir, 1)
	_, next, err := snapshottest.DeltaAfter(late, 0, nil)
	snapshottest.Must(t, err)
	w := watchOf(t, DirSource{dir, often}, WatchOptions{})
	before := atDelta(t, w, 2, 0)
	f := follower{watcher: w}
	if err := f.serve(late, next); !errors.Is(err, errReplaced) {
		t.Errorf("served: %v", err)
	}
	if s := w.Status(); w.Model().Position().Version != 2 || s.Position.Version != 2 ||
		s.DeltasApplied != before.DeltasApplied {
		t.Errorf("status %+v", s)
	}
}

// A version expires with its deltas, and a renewal keeps both.
func TestWatchDeltasExpire(t *testing.T) {
	t.Parallel()
	store, dir := expiring(t)
	c, m := openChain(t, store, dir, 1)
	var now atomic.Pointer[time.Time]
	set := func(after time.Duration) {
		at := snapshottest.Created.Add(after)
		now.Store(&at)
	}
	set(0)
	store.Now = func() time.Time { return *now.Load() }
	w := watchOf(t, DirSource{dir, often}, WatchOptions{Trust: verify.Trust{Now: store.Now}})
	m = grow(t, c, m, 1, 0)
	atDelta(t, w, 1, 1)
	set(2 * time.Hour)
	if w.Model() != nil || !w.Status().Expired {
		t.Error("an expired version is served with its deltas")
	}
	m = grow(t, c, m, 1, 0)
	atDelta(t, w, 1, 2)
	if w.Model() != nil {
		t.Error("a delta gave an expired version a new life")
	}
	_, err := store.Renew(t.Context(), "m", pointer.Latest, snapshottest.Created.Add(3*time.Hour))
	snapshottest.Must(t, err)
	until(t, w, "the renewal", func(s Status) bool { return !s.Expired })
	sameState(t, w.Model(), m)
}

// A publisher that lost its newest deltas continues with others: the version is read again and its deltas from the
// first, once they come to more than what is served.
func TestWatchFollowsAFork(t *testing.T) {
	t.Parallel()
	store, dir, keys := publishSigned(t, 1)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 6, 0)
	path := segmentPath(dir, 1, 1)
	six := sizeOf(t, path)
	lost := grow(t, c, m, 4, 0)
	w := watchOf(t, DirSource{dir, often}, WatchOptions{Trust: verify.Trust{Keys: keys}})
	atDelta(t, w, 1, 10)
	snapshottest.Must(t, os.Truncate(path, six))
	until(t, w, "that the delta is not there", func(s Status) bool { return errors.Is(s.DeltaErr, disk.ErrChain) })
	again, _ := openChain(t, store, dir, 1)
	fork := grow(t, again, m, 4, 9)
	time.Sleep(20 * often)
	sameState(t, w.Model(), lost) // as many as before are no reason to go back
	fork = grow(t, again, fork, 1, 9)
	s := atDelta(t, w, 1, 11)
	sameState(t, w.Model(), fork)
	if s.Loads != 1 || s.DeltasRefused < replayAfter || s.DeltasApplied != 11 {
		t.Errorf("status %+v", s)
	}
	grow(t, again, fork, 1, 9)
	atDelta(t, w, 1, 12)
}

// brokenOnce is a store that cannot be read once.
type brokenOnce struct {
	DirSource
	broken *atomic.Bool
}

func (s brokenOnce) File(ctx context.Context, model string, version int64, name string) (io.ReadCloser, error) {
	if s.broken.CompareAndSwap(true, false) {
		return nil, errors.New("no connection")
	}
	return s.DirSource.File(ctx, model, version, name)
}

// A version is read again until that succeeds, also past the expiry of its manifest: Model judges that, by the renewals
// of the alias.
func TestVersionIsReadAgain(t *testing.T) {
	t.Parallel()
	store, dir := expiring(t)
	c, base := openChain(t, store, dir, 1)
	m := grow(t, c, base, 6, 0)
	broken := new(atomic.Bool)
	source := brokenOnce{DirSource{dir, often}, broken}
	now := new(atomic.Int64)
	trust := verify.Trust{Now: func() time.Time { return snapshottest.Created.Add(time.Duration(now.Load())) }}
	w := watchOf(t, source, WatchOptions{Trust: trust, NoDeltas: true})
	p := until(t, w, "version 1", func(s Status) bool { return s.Version == 1 }).Position
	now.Store(int64(2 * time.Hour))
	broken.Store(true)
	served := w.model.Load()
	f := &follower{watcher: w, source: source, pointer: pointer.Pointer{Version: p.Version}}
	for i := range 2 * replayAfter {
		if got := f.failed(t.Context(), served, disk.ErrChain); got != served {
			if sameState(t, got, m); i != 2*replayAfter-1 || f.refused != 0 || f.again != 0 {
				t.Errorf("read again after %d refusals: %d since", i+1, f.refused)
			}
			return
		}
	}
	t.Errorf("%d refusals, the last %v", f.refused, w.Status().DeltaErr)
}

// oddSource hands out versions as a store does, and deltas as a test says.
type oddSource struct {
	DirSource
	deltas func(ctx context.Context, after int64) (io.ReadCloser, error)
}

func (s oddSource) Deltas(ctx context.Context, _ string, _, after int64) (io.ReadCloser, error) {
	return s.deltas(ctx, after)
}

// A source that answers with nothing, without end, with errors or not at all holds nothing up, and is not asked without
// a pause.
func TestWatchOddDeltaSources(t *testing.T) {
	t.Parallel()
	down := errors.New("no connection")
	for name, deltas := range map[string]func(context.Context, int64) (io.ReadCloser, error){
		"nothing": func(context.Context, int64) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(nil)), nil },
		"errors":  func(context.Context, int64) (io.ReadCloser, error) { return nil, down },
		"silence": func(ctx context.Context, _ int64) (io.ReadCloser, error) { <-ctx.Done(); return nil, ctx.Err() },
		"noise":   func(context.Context, int64) (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, dir := storeOf(t, 1)
			asked := new(atomic.Int64)
			w := watchOf(
				t,
				oddSource{DirSource{dir, often}, func(ctx context.Context, after int64) (io.ReadCloser, error) {
					asked.Add(1)
					return deltas(ctx, after)
				}},
				WatchOptions{},
			)
			until(t, w, "version 1", func(s Status) bool { return s.Version == 1 && s.Err == nil })
			time.Sleep(300 * time.Millisecond)
			s := w.Status()
			if n := asked.Load(); n < 1 || n > 5 {
				t.Errorf("asked %d times in 300 ms", n)
			}
			if (name == "errors") != errors.Is(s.DeltaErr, down) ||
				(name == "noise") != errors.Is(s.DeltaErr, disk.ErrFormat) ||
				s.Position.Sequence != 0 {
				t.Errorf("status %+v", s)
			}
			if (name == "noise") != (s.DeltasRefused > 0) {
				t.Errorf("refused %d", s.DeltasRefused)
			}
			w.Close()
		})
	}
}

// The deltas of one version are followed at a time, and of none after Close.
func TestWatchEndsFollowing(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 1)
	var asked, active atomic.Int64
	w := watchOf(t, oddSource{DirSource{dir, often}, func(ctx context.Context, _ int64) (io.ReadCloser, error) {
		active.Add(1)
		defer active.Add(-1)
		asked.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}}, WatchOptions{})
	until(t, w, "the first question", func(Status) bool { return asked.Load() == 1 })
	_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	until(t, w, "the second", func(Status) bool { return asked.Load() == 2 })
	if n := active.Load(); n != 1 {
		t.Errorf("%d versions are followed", n)
	}
	w.Close()
	if n := active.Load(); n != 0 {
		t.Errorf("%d versions are followed after Close", n)
	}
}

// zeros is a stream without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Append to served by a watching consumer: 8,000 rows of a million names, k = 20, as 10,000 events a second touch them.
func BenchmarkDeltaToServed(b *testing.B) {
	dir := b.TempDir()
	store := publish.NewStore(dir)
	if _, err := store.Publish(b.Context(), "m", snapshottest.UserItem(500_000, 20, 1)); err != nil {
		b.Fatal(err)
	}
	w, err := Watch(DirSource{Dir: dir}, WatchOptions{Model: "m", Alias: pointer.Latest})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	m, err := w.Wait(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	c, err := store.OpenChain(b.Context(), "m", 1)
	if err != nil {
		b.Fatal(err)
	}
	var waits, appends []time.Duration
	for b.Loop() {
		b.StopTimer()
		frame, sequence := frameOfRows(b, m, 8_000), m.Position().Sequence+1
		b.StartTimer()
		began := time.Now()
		if err := c.Append(b.Context(), frame); err != nil {
			b.Fatal(err)
		}
		appends = append(appends, time.Since(began))
		for w.Status().Position.Sequence != sequence {
			if backoff.Sleep(b.Context(), time.Millisecond) != nil {
				return
			}
		}
		waits = append(waits, time.Since(began))
		m = w.Model()
	}
	slices.Sort(waits)
	slices.Sort(appends)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(appends[len(appends)/2].Microseconds())/1000, "ms-append")
}

// Score while a delta of 8,000 rows arrives every second, and in the seconds between without: the 99th percentiles of
// single calls.
func BenchmarkScoreWhileDeltasArrive(b *testing.B) {
	dir := b.TempDir()
	store := publish.NewStore(dir)
	if _, err := store.Publish(b.Context(), "m", snapshottest.UserItem(500_000, 20, 1)); err != nil {
		b.Fatal(err)
	}
	w, err := Watch(DirSource{Dir: dir}, WatchOptions{Model: "m", Alias: pointer.Latest})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	m, err := w.Wait(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	c, err := store.OpenChain(b.Context(), "m", 1)
	if err != nil {
		b.Fatal(err)
	}
	var took [2][]int64
	dst, s := make([]float64, 1), new(scorer.Scratch)
	names := make([]string, 1000)
	for i := range names {
		names[i] = strconv.Itoa(i * 499)
	}
	in := format.Input{Categorical: make([]string, 2)}
	for second := 0; b.Loop(); second++ {
		b.StopTimer()
		frame := frameOfRows(b, m, 8_000)
		runtime.GC()
		b.StartTimer()
		if second%2 == 1 {
			if err := c.Append(b.Context(), frame); err != nil {
				b.Fatal(err)
			}
		}
		for began, i := time.Now(), 0; time.Since(began) < time.Second; i++ {
			in.Categorical[0], in.Categorical[1] = "u"+names[i%1000], "i"+names[(i*7)%1000]
			call := time.Now()
			w.Model().Score(dst, &in, s)
			took[second%2] = append(took[second%2], int64(time.Since(call)))
		}
		m = w.Model()
	}
	for i, of := range []string{"without", "with"} {
		if len(took[i]) == 0 { // a single iteration has a second without alone
			continue
		}
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2]), "ns-p50-"+of)
		b.ReportMetric(float64(took[i][len(took[i])*99/100]), "ns-p99-"+of)
	}
}

// frameOfRows returns the next delta of a model with rows spread over its columns.
func frameOfRows(b *testing.B, m *scorer.Model, rows int) []byte {
	at, c := m.Position(), m.Shape()
	d := &format.Delta{
		Model:      "m",
		Base:       at.Version,
		BaseDigest: m.Manifest().Digest,
		Sequence:   at.Sequence + 1,
		Previous:   at.Digest,
		Created:    snapshottest.Created,
		Columns:    make([]int32, rows),
		Linear:     make([]float64, rows*c.NumOutputs),
		Basis:      make([]float64, rows*c.NumBasis),
	}
	step := m.NumColumns() / rows
	for i := range d.Columns {
		d.Columns[i] = int32(i*step + int(at.Sequence)%step)
	}
	frame, err := d.Encode(m.Shape(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return frame
}

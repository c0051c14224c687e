package web

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestRollbackOverHTTP: E7. A server that hands out an old copy of the store, in which everything was signed and true
// once, moves no consumer back: neither one that runs nor one that is started again with its state file, unless the
// operator pins the version.
func TestRollbackOverHTTP(t *testing.T) {
	b := newBench(t)
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	var err error
	if b.store.Signer, err = format.NewSigner(key); err != nil {
		t.Fatal(err)
	}
	keys := snapshot.Keys{b.store.Signer.ID(): key.Public().(ed25519.PublicKey)}
	old := b.publish(t, "prices", contents(format.Regression, 2))
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	newer := b.publish(t, "prices", contents(format.Regression, 3))
	now, _ := b.listen(t)
	behind := &bench{dir: copied, fake: &fakeDaemon{}, store: publish.NewStore(copied)}
	behind.Server = New(Options{Daemon: behind.fake, Registry: prometheus.NewRegistry(), Version: "test", Log: quiet(),
		Models: []Model{{Name: "prices", Dir: copied, Store: behind.store}}})
	before, _ := behind.listen(t)

	var address atomic.Pointer[string]
	address.Store(&now)
	source := &moving{address: &address}
	source.client.Client = newClient(t)
	options := snapshot.WatchOptions{
		Model:     "prices",
		Trust:     snapshot.Trust{Keys: keys},
		StateFile: filepath.Join(t.TempDir(), "accepted"),
	}
	watch := func(o snapshot.WatchOptions) *snapshot.Watcher {
		w, err := snapshot.Watch(source, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		return w
	}
	running := watch(options)
	within(t, patience, "the newer version", func() bool { return running.Status().Version == newer })
	address.Store(&before)
	within(t, patience, "a refusal", func() bool { return errors.Is(running.Status().Err, snapshot.ErrOlder) })
	if s := running.Status(); s.Version != newer || running.Model() == nil {
		t.Errorf("the one that runs serves %+v", s)
	}
	running.Close()
	again := watch(options)
	within(t, patience, "a refusal after a restart",
		func() bool { return errors.Is(again.Status().Err, snapshot.ErrOlder) })
	if again.Model() != nil {
		t.Error("the one that was started again serves the old version")
	}
	pinned := options
	pinned.Pin = old
	p := watch(pinned)
	within(t, patience, "the pinned version", func() bool { return p.Status().Version == old })
	address.Store(&now)
	within(t, patience, "the newer version again",
		func() bool { return again.Status().Version == newer && again.Status().Err == nil })
}

// moving is an HTTPSource whose name leads to one server and then to another.
type moving struct {
	client  snapshot.HTTPSource
	address *atomic.Pointer[string]
}

func (m *moving) source() snapshot.HTTPSource {
	s := m.client
	s.URL, s.LongPoll = "http://"+*m.address.Load(), 100*time.Millisecond
	return s
}

// Wait asks the server that the name leads to now.
func (m *moving) Wait(ctx context.Context, model, alias string, last snapshot.Pointer) (snapshot.Pointer, error) {
	return m.source().Wait(ctx, model, alias, last)
}

// File asks the server that the name leads to now.
func (m *moving) File(ctx context.Context, model string, version int64, name string) (io.ReadCloser, error) {
	return m.source().File(ctx, model, version, name)
}

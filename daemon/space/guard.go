// Package space holds a writer back while its disk is too full. The sample store maps its files into memory: a page
// that does not fit ends the process, so that the writer has to stop while there is still room for what the store
// writes on its own.
package space

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/sketch"
)

// How often a guard looks: a call of the system takes about a microsecond, so that these only have to be short
// compared with the time in which any disk could take the reserve.
const (
	lookEvery      = 250 * time.Millisecond
	lookEveryBytes = 16 << 20
	waitBetween    = time.Second // between two looks at a disk that is full
)

// Guard is the reserve of one file system. All methods are safe for concurrent use.
type Guard struct {
	dir   string
	least int64
	log   *slog.Logger
	free  func(dir string) (int64, error)
	files func(dir string) (int64, error)
	now   func() time.Time

	mu     sync.Mutex
	looked time.Time
	passed int64 // bytes since then
	last   int64 // free bytes seen last
	inodes int64 // files that could be made then
	low    bool
}

// New returns the guard of dir that keeps least bytes free, and the inodes that a state needs.
func New(dir string, least int64, log *slog.Logger) *Guard {
	return &Guard{dir: dir, least: least, log: log, free: sketch.FreeBytes, files: sketch.FreeFiles, now: time.Now}
}

// Wait returns at once while there is space, and otherwise when there is again or ctx is done, with its error. bytes is
// about what the caller is going to write.
func (g *Guard) Wait(ctx context.Context, bytes int64) error {
	if g.pass(bytes) {
		return nil
	}
	tick := time.NewTicker(waitBetween)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if g.Look() {
			return nil
		}
	}
}

// pass counts bytes and looks if it is time to.
func (g *Guard) pass(bytes int64) bool {
	g.mu.Lock()
	g.passed += bytes
	due := g.low || g.passed >= lookEveryBytes || g.now().Sub(g.looked) >= lookEvery
	g.mu.Unlock()
	return !due || g.Look()
}

// Look reads the free space and reports whether there is enough. A file system that does not report it cannot be
// guarded.
func (g *Guard) Look() bool {
	free, err := g.free(g.dir)
	files, filesErr := g.files(g.dir)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looked, g.passed = g.now(), 0
	if err != nil || filesErr != nil {
		g.low = false
		return true
	}
	low := free < g.least || files < sketch.LeastFreeFiles
	switch {
	case low && !g.low:
		g.log.Error("disk is full: reading is paused", "dir", g.dir, "free_bytes", free, "min_free_bytes", g.least,
			"free_inodes", files)
	case !low && g.low:
		g.log.Info("disk has space again: reading continues", "dir", g.dir, "free_bytes", free)
	}
	g.last, g.inodes, g.low = free, files, low
	return !low
}

// FreeBytes returns what was free when the guard last looked.
func (g *Guard) FreeBytes() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// Reason says why writers wait, or is empty.
func (g *Guard) Reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.low {
		return ""
	}
	if g.last >= g.least {
		return fmt.Sprintf(
			"disk: the file system of %s can take %d more files (inodes), at least %d are needed: reading is paused "+
				"until it can",
			g.dir,
			g.inodes,
			sketch.LeastFreeFiles,
		)
	}
	return fmt.Sprintf(
		"disk: %d bytes of free space for %s, storage.min_free_bytes asks for %d: reading is paused until there is more",
		g.last,
		g.dir,
		g.least,
	)
}

// Sink returns a sink that holds batches back while the disk is full.
func (g *Guard) Sink(to consumer.Queue) consumer.Queue { return sink{to, g} }

type sink struct {
	consumer.Queue
	guard *Guard
}

// Apply waits for space before anything is done with the batch.
func (s sink) Apply(ctx context.Context, b *consumer.Batch) error {
	if err := s.wait(ctx, b); err != nil {
		return err
	}
	return s.Queue.Apply(ctx, b)
}

// Take waits for space as Apply does.
func (s sink) Take(ctx context.Context, b *consumer.Batch) error {
	if err := s.wait(ctx, b); err != nil {
		return err
	}
	return s.Queue.Take(ctx, b)
}

func (s sink) wait(ctx context.Context, b *consumer.Batch) error {
	bytes := int64(0)
	for i := range b.Records {
		bytes += int64(len(b.Records[i].Value))
	}
	return s.guard.Wait(ctx, bytes)
}

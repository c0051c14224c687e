//go:build failpoint && simulation

package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// errKilled is what durable steps answer once their process is dead.
var errKilled = errors.New("simulation: killed")

// A process is one life of a daemon. Its goroutines inherit a label from the one that began it, by which a durable step
// knows whose it is.
type process struct {
	daemon *daemon.Daemon
	net    *network
	cancel context.CancelFunc
	ended  chan struct{} // closed when Run has returned
	err    error         // of Run, after ended
	out    bytes.Buffer  // what it printed, after ended

	label unsafe.Pointer
	steps atomic.Int64 // durable steps until it dies; negative: it does not
	// durable steps that its full disk fails; what fails in a state ends the process, what fails in a store does not
	failing atomic.Int64
	killed  atomic.Bool
	failed  atomic.Bool // its disk was full
}

// processes are those that live, by label.
var processes sync.Map

// labels returns the label of the goroutine that calls it.
//
//go:linkname labels runtime/pprof.runtime_getProfLabel
func labels() unsafe.Pointer

func TestMain(m *testing.M) {
	failpoint.Intercept(func(string) error {
		if p, ok := processes.Load(labels()); ok {
			return p.(*process).passing()
		}
		return nil
	})
	os.Exit(m.Run())
}

// within calls f, whose goroutines are the process's.
func (p *process) within(ctx context.Context, f func(ctx context.Context)) {
	pprof.Do(ctx, pprof.Labels("simulation", "process"), func(ctx context.Context) {
		p.label = labels()
		processes.Store(p.label, p)
		f(ctx)
	})
}

// passing is asked at every durable step of the process.
func (p *process) passing() error {
	if p.killed.Load() {
		return errKilled
	}
	if p.steps.Load() >= 0 && p.steps.Add(-1) < 0 {
		p.kill()
		return errKilled
	}
	if p.failing.Load() > 0 && p.failing.Add(-1) >= 0 {
		p.failed.Store(true)
		return syscall.ENOSPC
	}
	return nil
}

// kill makes nothing durable from now on, closes its connections and ends it. What a process leaves behind that ends at
// the very instruction is left to tests of real processes.
func (p *process) kill() {
	if !p.killed.CompareAndSwap(false, true) {
		return
	}
	go func() { // a step may be asked for under locks
		p.net.sever(true)
		p.cancel()
	}()
}

// trouble returns the error of a process that has ended, unless it was made to: by a kill, a full disk, or another
// process that is the same shard.
func (p *process) trouble(name string) error {
	if p.err == nil || p.killed.Load() || p.failed.Load() || errors.Is(p.err, shard.ErrSuperseded) {
		return nil
	}
	return fmt.Errorf("%s ended: %w", name, p.err)
}

// hasEnded reports whether Run has returned.
func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

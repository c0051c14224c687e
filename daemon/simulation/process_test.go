//go:build failpoint && simulation

package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// errKilled is what durable steps answer once their process is dead.
var errKilled = errors.New("simulation: killed")

// A process is one life of the daemon.
type process struct {
	daemon *daemon.Daemon
	net    *network
	cancel context.CancelFunc
	ended  chan struct{} // closed when Run has returned
	err    error         // of Run, after ended
	out    bytes.Buffer  // what it printed, after ended

	steps  atomic.Int64 // durable steps until it dies; negative: it does not
	killed atomic.Bool
}

// passing is asked at every durable step of the living process, by package failpoint.
func (p *process) passing(string) error {
	if p.killed.Load() {
		return errKilled
	}
	if p.steps.Load() >= 0 && p.steps.Add(-1) < 0 {
		p.kill()
		return errKilled
	}
	return nil
}

// kill makes nothing durable from now on, closes its connections and ends it. What a process leaves behind that ends at the very instruction is
// left to tests of real processes.
func (p *process) kill() {
	if !p.killed.CompareAndSwap(false, true) {
		return
	}
	go func() { // a step may be asked for under locks
		p.net.sever(true)
		p.cancel()
	}()
}

// start begins a life on what the one before left. Its configuration is that of the world.
func (w *world) start() error {
	conf, err := config.Load(w.config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	p := &process{net: newNetwork(w.pipes), cancel: cancel, ended: make(chan struct{})}
	p.steps.Store(w.dieAfter)
	w.dieAfter = -1
	conf.Kafka.Dial = p.net.dial
	failpoint.Intercept(p.passing)
	d, err := daemon.New(ctx, daemon.Options{Config: conf, Out: report.NewEmitter(&p.out, true), Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Listen: w.listen})
	if err != nil && p.killed.Load() {
		failpoint.Intercept(nil)
		if err := w.abandoned(); err != nil {
			return err
		}
		return w.start()
	}
	if err != nil {
		return fmt.Errorf("a start: %w", err)
	}
	p.daemon = d
	go func() {
		p.err = d.Run(ctx)
		close(p.ended)
	}()
	w.process = p
	return nil
}

// end waits until the process has ended, and looks at what it leaves.
func (w *world) end() error {
	p := w.process
	w.process = nil
	<-p.ended
	failpoint.Intercept(nil)
	if err := w.abandoned(); err != nil {
		return err
	}
	if p.err != nil && !p.killed.Load() {
		return fmt.Errorf("the daemon ended: %w", p.err)
	}
	return w.left()
}

// abandoned puts a copy of the state in its place, as a killed process has left it: its database is still open here, and closing it writes.
func (w *world) abandoned() error {
	state, copied := filepath.Join(w.dir, "state"), filepath.Join(w.dir, "copied")
	err := os.CopyFS(copied, os.DirFS(state))
	if err = errors.Join(err, sketch.CloseAbandoned()); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(state), os.Rename(copied, state))
}

// stop ends the process in order.
func (w *world) stop() error {
	w.process.cancel()
	return w.end()
}

package shard_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/shard"
)

// A wire is the network of one process, which can be cut for good.
type wire struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return nil, io.ErrUnexpectedEOF
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

// die cuts the process off, of whose connections the brokers hear no more.
func (w *wire) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, c := range w.conns {
		_ = c.Close()
	}
}

// A watched is a process of a group in a test.
type watched struct {
	wire
	log  locked.Buffer
	mu   sync.Mutex
	held []int
	lost atomic.Int64
}

func (w *watched) has() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// join makes a process of a group of six shards, which is in it until the test ends.
func (r rig) join(session time.Duration) *watched {
	r.Helper()
	w := new(watched)
	g := shard.NewGroup(shard.GroupOptions{Kafka: append(r.kafka(), kgo.Dialer(w.dial)), Name: "g", Count: 6,
		Session: session, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Given: func(shards []int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.held = append(w.held, shards...)
		},
		Taken: func(shards []int, lost bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.held = slices.DeleteFunc(w.held, func(n int) bool { return slices.Contains(shards, n) })
			if lost {
				w.lost.Add(1)
			}
		}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	r.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.Error(err)
		}
	})
	return w
}

// divided waits until shards are spread over processes.
func divided(t *testing.T, want int, of ...*watched) {
	t.Helper()
	daemontest.Within(t, daemontest.Patience, fmt.Sprint(want, " shards each"), func() bool {
		return !slices.ContainsFunc(of, func(w *watched) bool { return w.has() != want })
	})
}

// TestDeadProcess: the brokers give the shards of a process that dies to the others. Those that live lose nothing, and
// nothing is written into the topic of the group. A session that is less than what brokers take counts as the least
// that they do.
func TestDeadProcess(t *testing.T) {
	t.Parallel()
	r := rig{t, daemontest.New(t)}
	first, second, third := r.join(6*time.Second), r.join(time.Second), r.join(6*time.Second)
	divided(t, 2, first, second, third)
	third.die()
	divided(t, 3, first, second)
	if first.lost.Load()+second.lost.Load() != 0 {
		t.Error("one that lives has lost shards")
	}
	if n := records(t, r.Bench, "g"); n != 0 {
		t.Errorf("%d records in the topic of the group", n)
	}
	const line = `msg="shard.session is less than brokers take" note="it counts as the least that they do" group=g session=1s least=6s`
	if first.log.Has("shard.session") || !second.log.Has(line) {
		t.Errorf("the log says %s", second.log.String())
	}
}

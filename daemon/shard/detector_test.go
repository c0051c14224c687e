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
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/shard"
)

// A wire is the network of one process: it can be cut for good, or answers come late.
type wire struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	delay atomic.Int64 // nanoseconds that what is written waits
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
		conn = &lateConn{conn, w}
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

type lateConn struct {
	net.Conn
	wire *wire
}

func (l *lateConn) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(l.wire.delay.Load()))
	return l.Conn.Write(p)
}

// A watched is a process of a group in a test.
type watched struct {
	wire
	log  locked.Buffer
	mu   sync.Mutex
	held []int
	lost atomic.Int64
	stop func() // it leaves
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
	g := shard.NewGroup(shard.GroupOptions{Kafka: append(r.kafka(), kgo.Dialer(w.dial)), Name: "g", Count: 6, Session: session,
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
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
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.Error(err)
		}
	})
	r.Cleanup(w.stop)
	return w
}

const silent = "a process of the group is silent"

// divided waits until shards are spread over processes.
func divided(t *testing.T, want int, of ...*watched) {
	t.Helper()
	daemontest.Within(t, daemontest.Patience, fmt.Sprint(want, " shards each"), func() bool {
		return !slices.ContainsFunc(of, func(w *watched) bool { return w.has() != want })
	})
}

// TestSilentProcess: the shards of a process that dies are given to the others because these have seen it die, long before the brokers would.
func TestSilentProcess(t *testing.T) {
	t.Parallel()
	r := rig{t, daemontest.New(t)}
	r.Broker.Cluster().ControlKey(kmsg.JoinGroup.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) { // as brokers with a long least session
		r.Broker.Cluster().KeepControl()
		req.(*kmsg.JoinGroupRequest).SessionTimeoutMillis = int32(2 * daemontest.Patience.Milliseconds())
		return nil, nil, false
	})
	first, second, third := r.join(time.Second), r.join(time.Second), r.join(time.Second)
	divided(t, 2, first, second, third)
	told := records(t, r.Bench, "g")
	daemontest.Within(t, daemontest.Patience, "heartbeats of all", func() bool { return records(t, r.Bench, "g") > told+20 })
	third.die()
	divided(t, 3, first, second)
	if !first.log.Has(silent) && !second.log.Has(silent) {
		t.Error("nobody says that a process was silent")
	}
	if first.lost.Load()+second.lost.Load() != 0 {
		t.Error("one that lives has lost shards")
	}
}

// TestSlowIsNotSilent: where all writes take longer than a session, and where another process may be silent for longer than this one, nobody is taken for dead.
func TestSlowIsNotSilent(t *testing.T) {
	t.Parallel()
	r := rig{t, daemontest.New(t)}
	first, second, patient := r.join(time.Second), r.join(time.Second), r.join(20*time.Second)
	divided(t, 2, first, second, patient)
	looked := func() {
		for _, w := range []*watched{first, second, patient} {
			if w.lost.Load() != 0 || w.log.Has(silent) {
				t.Fatal("a process that lives was taken for dead")
			}
		}
	}
	daemontest.Throughout(t, 5*time.Second, looked)
	for _, w := range []*watched{first, second, patient} {
		w.delay.Store(int64(1500 * time.Millisecond))
	}
	daemontest.Throughout(t, 10*time.Second, looked)
	for _, w := range []*watched{first, second, patient} {
		w.delay.Store(0)
	}
}

// TestLeftIsNotSilent: of a process that has left nobody says that it was silent.
func TestLeftIsNotSilent(t *testing.T) {
	t.Parallel()
	r := rig{t, daemontest.New(t)}
	first, second := r.join(time.Second), r.join(time.Second)
	divided(t, 3, first, second)
	second.stop()
	divided(t, 6, first)
	daemontest.Throughout(t, 3*time.Second, func() {
		if first.log.Has(silent) {
			t.Fatal("one that has left was taken for dead")
		}
	})
}

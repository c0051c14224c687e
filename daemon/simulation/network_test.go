//go:build failpoint && simulation

package simulation

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errSevered ends the connections and dials of a process that is dead or cut off. It is an error of the network:
// after any other clients would try again without a pause.
var errSevered = &net.OpError{Op: "simulated", Net: "tcp", Err: syscall.ECONNRESET}

// A network is that of one process: connections over the pipes of the cluster that can be cut, or hang as if no packet
// came through.
type network struct {
	pipes *kfake.VirtualNetwork

	mu    sync.Mutex
	dead  bool
	open  chan struct{} // closed while packets come through
	gone  chan struct{} // closed once the process is
	conns map[*conn]struct{}
	// called once with the next request that writes to a topic, when it is on its way and nothing comes through any
	// more
	until func()
}

func newNetwork(pipes *kfake.VirtualNetwork) *network {
	n := &network{pipes: pipes, open: make(chan struct{}), gone: make(chan struct{}), conns: map[*conn]struct{}{}}
	close(n.open)
	return n
}

// opened returns what is closed while packets come through.
func (n *network) opened() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}

// dial connects to a broker.
func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	open, dead := n.open, n.dead
	n.mu.Unlock()
	if dead {
		return nil, errSevered
	}
	select {
	case <-open:
	case <-n.gone:
		return nil, errSevered
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	pipe, err := n.pipes.DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	c := &conn{
		Conn:    pipe,
		of:      n,
		over:    make(chan struct{}),
		severed: make(chan struct{}),
		writing: make(chan struct{}, 1),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[c] = struct{}{}
	return c, nil
}

// sever closes every connection; with forGood none is made again.
func (n *network) sever(forGood bool) {
	n.mu.Lock()
	conns := n.conns
	n.conns, n.dead = map[*conn]struct{}{}, n.dead || forGood
	n.mu.Unlock()
	for c := range conns {
		_ = c.sever()
	}
}

// leave closes every connection of a process that has died, and lets it make none again. What is late still comes.
func (n *network) leave() {
	n.mu.Lock()
	conns := n.conns
	n.conns, n.dead = map[*conn]struct{}{}, true
	close(n.gone)
	n.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
}

// hang lets nothing through until resume is called. What was written until then comes late, as that of a process that
// was paused does, although the process may have given up the connection.
func (n *network) hang() (resume func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hangs()
}

// hangs is hang under the lock.
func (n *network) hangs() (resume func()) {
	open := make(chan struct{})
	n.open = open
	return sync.OnceFunc(func() { close(open) })
}

// hangAfterWrite lets nothing through once the next request is on its way that writes to a topic. Then hung has what
// resume of hang is.
func (n *network) hangAfterWrite() (hung <-chan func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	to := make(chan func(), 1)
	n.until = func() { to <- n.hangs() }
	return to
}

// wrote notes a request that is on its way.
func (n *network) wrote(b []byte) {
	if len(b) < 6 || binary.BigEndian.Uint16(b[4:]) != uint16(kmsg.Produce) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.until != nil {
		n.until()
		n.until = nil
	}
}

// A conn is a connection whose packets wait while its network hangs.
type conn struct {
	net.Conn
	of      *network
	ending  sync.Once
	cutting sync.Once
	over    chan struct{} // closed with the connection, by either side
	severed chan struct{} // closed when nothing that is late comes any more
	// taken while late and closed are used, and while bytes are written: a mutex would stop the clock
	writing chan struct{}

	late   []byte // written while nothing came through
	closed bool   // by the process
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.of.opened():
		return n, err
	case <-c.over:
		return 0, errSevered
	}
}

func (c *conn) Write(b []byte) (int, error) {
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	open := c.of.opened()
	select {
	case <-open:
		if len(c.late) == 0 {
			written, err := c.Conn.Write(b)
			c.of.wrote(b)
			return written, err
		}
	default:
		if len(c.late) == 0 {
			go c.deliver(open)
		}
	}
	c.late = append(c.late, b...)
	return len(b), nil
}

// deliver writes what is late, once packets come through.
func (c *conn) deliver(open <-chan struct{}) {
	select {
	case <-open:
	case <-c.severed:
		return
	}
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	_, _ = c.Conn.Write(c.late) // a broker that is gone reads nothing
	c.late = nil
	if c.closed {
		_ = c.Conn.Close()
	}
}

// Close ends the connection, and what is late still comes.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
		if c.closed = true; len(c.late) > 0 {
			c.ending.Do(func() { close(c.over) })
			return c.Conn.SetReadDeadline(time.Unix(1, 0)) // who reads here ends
		}
	default: // somebody writes, which ends with it
	}
	return c.sever()
}

// sever ends the connection at once.
func (c *conn) sever() error {
	c.ending.Do(func() { close(c.over) })
	c.cutting.Do(func() { close(c.severed) })
	return c.Conn.Close()
}

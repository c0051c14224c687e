//go:build failpoint && simulation

package simulation

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// errSevered is what connections and dials of a process end with that is dead or cut off.
var errSevered = errors.New("simulation: severed")

// A network is that of one process: connections over the pipes of the cluster that can be cut, or hang as if no packet came through.
type network struct {
	pipes *kfake.VirtualNetwork

	mu    sync.Mutex
	dead  bool
	open  chan struct{} // closed while packets come through
	conns map[*conn]struct{}
}

func newNetwork(pipes *kfake.VirtualNetwork) *network {
	n := &network{pipes: pipes, open: make(chan struct{}), conns: map[*conn]struct{}{}}
	close(n.open)
	return n
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
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	pipe, err := n.pipes.DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: pipe, of: n, closed: make(chan struct{})}
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
		_ = c.Close()
	}
}

// hang lets no answer through until resume is called.
func (n *network) hang() (resume func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := make(chan struct{})
	n.open = open
	return sync.OnceFunc(func() { close(open) })
}

// A conn is a connection whose reads wait while its network hangs.
type conn struct {
	net.Conn
	of     *network
	once   sync.Once
	closed chan struct{}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.of.mu.Lock()
	open := c.of.open
	c.of.mu.Unlock()
	select {
	case <-open:
		return n, err
	case <-c.closed:
		return 0, errSevered
	}
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

package request

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Places bounds the connections of a listener. Those that wait for their clients (between two requests, for headers or
// a body, or for an answer to be taken) do not keep others out: where all places are taken, the one that has waited
// longest is closed for the next. Only if a request is being answered on each of them the newcomer is closed. It is
// safe for concurrent use.
type Places struct {
	limit  int
	closed prometheus.Counter // connections that were, so that others found room; nil does not count

	mu  sync.Mutex
	all map[*place]struct{} // guarded by mu, as are the fields of a place
}

// place is an accepted connection.
type place struct {
	net.Conn
	of      *Places
	working int       // requests that are being answered on it
	since   time.Time // when it was accepted, or when its client last sent or took something
}

// NewPlaces returns places for so many connections. closed, if not nil, counts those that were closed for others.
func NewPlaces(limit int, closed prometheus.Counter) *Places {
	return &Places{limit: limit, closed: closed, all: make(map[*place]struct{})}
}

// Len returns how many connections there are now.
func (p *Places) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// take returns a place for a connection, nil if none is left. victim, if not nil, is to be closed for it.
func (p *Places) take(conn net.Conn) (taken, victim *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= p.limit {
		for other := range p.all {
			if other.working == 0 && (victim == nil || other.since.Before(victim.since)) {
				victim = other
			}
		}
		if p.closed != nil {
			p.closed.Inc()
		}
		if victim == nil {
			return nil, nil
		}
		delete(p.all, victim)
	}
	taken = &place{Conn: conn, of: p, since: time.Now()}
	p.all[taken] = struct{}{}
	return taken, victim
}

// Close closes the connection and frees its place.
func (c *place) Close() error {
	c.of.mu.Lock()
	delete(c.of.all, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends the answer before the connection, so that a client that still sends reads why nobody listens.
func (c *place) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// change notes that requests have begun to be answered, or that the client has sent or taken something.
func (c *place) change(working int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.working += working
	c.since = time.Now()
}

// boundedListener accepts connections into places.
type boundedListener struct {
	net.Listener
	places *Places
}

// Listen returns a listener that accepts the connections of another one into p. Its server sets ConnContext to
// WithPlace, so that requests find their places.
func (p *Places) Listen(listener net.Listener) net.Listener { return &boundedListener{listener, p} }

// Accept returns the next connection that finds a place.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		taken, victim := l.places.take(conn)
		if victim != nil {
			_ = victim.Conn.Close() // the other side may have done so
		}
		if taken != nil {
			return taken, nil
		}
		_ = conn.Close()
	}
}

// placeKey is the key of a connection's place in the contexts of its requests.
type placeKey struct{}

// WithPlace is the ConnContext of a server whose listener is one of places.
func WithPlace(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(*place); ok {
		return context.WithValue(ctx, placeKey{}, c)
	}
	return ctx
}

// Turn says whether a request is being answered, or waits for its client. It belongs to the goroutine of the request.
type Turn struct {
	place   *place // nil without a bounded listener
	working bool
}

// TurnOf returns the turn of a request by its context.
func TurnOf(ctx context.Context) *Turn {
	c, _ := ctx.Value(placeKey{}).(*place)
	return &Turn{place: c}
}

// Begin notes that the request is being answered.
func (t *Turn) Begin() { t.set(true, 1) }

// End notes that the answer is ready for the client to take.
func (t *Turn) End() { t.set(false, -1) }

func (t *Turn) set(working bool, change int) {
	if t.place != nil && t.working != working {
		t.working = working
		t.place.change(change)
	}
}

// Touch notes that the client has sent or taken something.
func (t *Turn) Touch() {
	if t.place != nil {
		t.place.change(0)
	}
}

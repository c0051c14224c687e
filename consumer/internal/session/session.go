// Package session has connections to brokers, encrypted and signed in.
//
// kafka-go signs in once and drops what the broker says of the session's end (KIP-368). So connections sign in here,
// before kafka-go gets them, and again between an answer and the next request: no fetch is cut off, and none is behind
// an exchange that waits for an issuer of tokens. When one may connect at all, and how often one that was refused tries
// again, is for the caller. A [Dialer] is safe for concurrent use; a connection is used by one goroutine at a time, but
// for its end.
package session

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/refitd/refitd/consumer/internal/frames"
)

// conn is a connection that can be dropped from outside and signs in again when its session ends. But for Close
// it is used by one goroutine at a time, which reads each answer whole before it writes the next request.
type conn struct {
	net.Conn              // framed once it is open
	framed   *frames.Conn // on which answers are looked at, with TLS below it, if any
	raw      net.Conn     // below it
	src      *Dialer
	address  string

	versions map[protocol.ApiKey]int16
	between  bool      // an answer was read, and the next request not begun
	renew    time.Time // the session is to be renewed from then on; zero is never
	end      time.Time // of the session
	signed   time.Time // when it began
	next     chan exchange
	failed   time.Time // the last try to get something to sign in with
}

// exchange is a sign-in that has not been sent yet.
type exchange struct {
	session sasl.Session
	first   []byte
	err     error
}

// What part of a session is used before it is renewed, how soon something to sign in with is asked for again, and how
// soon a connection may sign in again: brokers refuse that within a second.
const (
	renewAfter = 0.75
	askAgain   = time.Second
	notBefore  = 1200 * time.Millisecond
)

// Dialer opens connections. Its exported fields are set before use.
type Dialer struct {
	Mechanism sasl.Mechanism // nil signs in to none
	TLS       *tls.Config    // nil speaks plaintext; without a name of the server it is that of the address
	Connect   func(ctx context.Context, network, address string) (net.Conn, error)
	ClientID  string
	Timeout   time.Duration // of getting something to sign in with, in the background
	Accepted  func()        // a connection was let in
	SignedIn  func(error)   // whether connections could sign in again in time: nil, or why not

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// Dial connects to a broker and signs in.
func (s *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := s.Connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, raw: raw, src: s, address: address}
	s.mu.Lock()
	if s.conns == nil {
		s.conns = make(map[*conn]struct{})
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, ignoreClosed(c.Close()))
	}
	return c, nil
}

// Drop closes every connection, so that requests on their way fail.
func (s *Dialer) Drop() {
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for c := range conns {
		_ = c.raw.Close() // nothing is left to write
	}
}

// ignoreClosed drops the complaint that a connection is closed already.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// open encrypts the connection and signs in.
func (c *conn) open(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.raw.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if conf := c.src.TLS; conf != nil {
		if conf.ServerName == "" {
			host, _, err := net.SplitHostPort(c.address)
			if err != nil {
				return err
			}
			conf = conf.Clone()
			conf.ServerName = host
		}
		secure := tls.Client(c.raw, conf)
		c.Conn = secure
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
	}
	c.framed = &frames.Conn{Conn: c.Conn}
	c.Conn = c.framed
	if c.src.Mechanism != nil {
		if err := c.signIn(c.src.prepare(ctx, c.address)); err != nil {
			return err
		}
	}
	return c.raw.SetDeadline(time.Time{})
}

// prepare gets what is sent to sign in: it may have to ask an issuer for a token.
func (s *Dialer) prepare(ctx context.Context, address string) exchange {
	session, first, err := s.Mechanism.Authenticate(ctx, address)
	return exchange{session, first, err}
}

// Close also forgets the connection.
func (c *conn) Close() error {
	c.src.mu.Lock()
	delete(c.src.conns, c)
	c.src.mu.Unlock()
	return c.Conn.Close()
}

// Read notes that the next write begins a request.
func (c *conn) Read(b []byte) (int, error) {
	c.between = true
	return c.Conn.Read(b)
}

// Write renews the session first where that is due.
func (c *conn) Write(b []byte) (int, error) {
	if c.between && !c.renew.IsZero() {
		if err := c.renewSession(time.Now()); err != nil {
			return 0, err
		}
	}
	c.between = false
	return c.Conn.Write(b)
}

// renewSession signs in again if it is time and there is something to sign in with. That is fetched in the background
// while the session lasts, and waited for once it is over: brokers then answer nothing else.
func (c *conn) renewSession(now time.Time) error {
	over := !now.Before(c.end)
	if !over && (now.Before(c.renew) || c.next == nil && now.Sub(c.failed) < askAgain) {
		return nil
	}
	if c.next == nil {
		c.next = make(chan exchange, 1)
		go func(next chan<- exchange) {
			ctx, cancel := context.WithTimeout(context.Background(), c.src.Timeout)
			defer cancel()
			next <- c.src.prepare(ctx, c.address)
		}(c.next)
	}
	var e exchange
	select {
	case e = <-c.next:
	default:
		if !over {
			return nil
		}
		e = <-c.next
	}
	c.next = nil
	if e.err != nil && !over {
		c.failed = now
		c.src.SignedIn(e.err)
		return nil
	}
	time.Sleep(notBefore - time.Since(c.signed)) // of a session that was shorter than that
	return c.signIn(e)
}

// signIn carries an exchange out and notes when the session ends.
func (c *conn) signIn(e exchange) error {
	if e.err != nil {
		return e.err
	}
	pc, err := c.negotiate()
	if err != nil {
		return err
	}
	answer, err := pc.RoundTrip(&saslhandshake.Request{Mechanism: c.src.Mechanism.Name()})
	if err != nil {
		return err
	}
	if code := answer.(*saslhandshake.Response).ErrorCode; code != 0 {
		return kafka.Error(code)
	}
	began, lifetime := time.Now(), time.Duration(0)
	c.framed.Raw = new(saslauthenticate.Request).Required(c.versions)
	defer func() { c.framed.Raw = false }()
	for done := false; !done; {
		answer, err := pc.RoundTrip(&saslauthenticate.Request{AuthBytes: e.first})
		// A broker may end connections that it refuses without a word.
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: %w", kafka.SASLAuthenticationFailed, err)
		}
		if err != nil {
			return err
		}
		res := answer.(*saslauthenticate.Response)
		if res.ErrorCode != 0 {
			return fmt.Errorf("%w: %.200s", kafka.Error(res.ErrorCode), res.ErrorMessage)
		}
		if done, e.first, err = e.session.Challenge(res.AuthBytes); err != nil {
			return fmt.Errorf("%w: %w", kafka.SASLAuthenticationFailed, err)
		}
		lifetime = time.Duration(res.SessionLifetimeMs) * time.Millisecond
	}
	c.signed, c.renew, c.end = time.Now(), time.Time{}, time.Time{}
	if lifetime > 0 {
		c.end = began.Add(lifetime)
		c.renew = began.Add(max(time.Duration(renewAfter*float64(lifetime)), notBefore))
	}
	c.src.Accepted()
	c.src.SignedIn(nil)
	return nil
}

// negotiate returns the connection for a sign-in, in the versions of requests that the broker knows.
func (c *conn) negotiate() (*protocol.Conn, error) {
	pc := protocol.NewConn(c.Conn, c.src.ClientID)
	if c.versions == nil {
		answer, err := pc.RoundTrip(new(apiversions.Request))
		if err != nil {
			return nil, err
		}
		res := answer.(*apiversions.Response)
		if res.ErrorCode != 0 {
			return nil, fmt.Errorf("versions of the broker: %w", kafka.Error(res.ErrorCode))
		}
		c.versions = make(map[protocol.ApiKey]int16, len(res.ApiKeys))
		for _, r := range res.ApiKeys {
			key := protocol.ApiKey(r.ApiKey)
			c.versions[key] = key.SelectVersion(r.MinVersion, r.MaxVersion)
		}
	}
	pc.SetVersions(c.versions)
	return pc, nil
}

// Package registry asks a schema registry for the schemas by which records were written: Confluent's, those that answer
// as it does, and Apicurio's. It knows no Kafka and stores nothing.
package registry

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/snapshot/backoff"
)

// Options say how to reach a registry.
type Options struct {
	URL       string
	TLS       *tls.Config // nil for the system's
	BasicAuth string      // user:password, empty for none
	Token     string      // a bearer token, empty for none
	Timeout   time.Duration
	MaxBytes  int               // of a schema with what it refers to
	Transport http.RoundTripper // nil for HTTP; tests and simulations set it
}

// firstWait and mostWait bound the waits between two requests for one schema.
const (
	firstWait = 500 * time.Millisecond
	mostWait  = 30 * time.Second
)

// firstAnswer is how long the first request for a schema is waited for: an answer from near by takes less, and the
// records that need it are at hand.
const firstAnswer = 100 * time.Millisecond

// maxAsked bounds the schemas that are asked for at a time, and those that are remembered as not to be had.
const maxAsked = 1000

// A Client asks for schemas, each in the background. It is safe for concurrent use.
type Client struct {
	options Options
	base    string
	http    *http.Client
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	asked    map[framing.ID]*question
	requests int64
	failures int64
	away     bool // the last request had no answer over HTTP
}

// question is a schema that is asked for.
type question struct {
	running bool
	done    chan struct{} // closed once there is an outcome of the first try
	answer  *event.Writer
	trouble string // of the last try
	tries   int
	next    time.Time // when to try again
}

// New returns a client. It asks for nothing until Ask is called, and ends with Close.
func New(o Options) *Client {
	transport := o.Transport
	if transport == nil {
		transport = &http.Transport{TLSClientConfig: o.TLS, Proxy: http.ProxyFromEnvironment, MaxIdleConns: 2,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: o.Timeout}
	}
	c := &Client{options: o, base: strings.TrimRight(o.URL, "/"), asked: make(map[framing.ID]*question),
		http: &http.Client{Transport: transport, Timeout: o.Timeout, CheckRedirect: sameHost}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// sameHost follows redirects within the host alone: credentials are for no other.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 3 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Close ends what is asked and waits for it.
func (c *Client) Close() {
	c.cancel()
	c.running.Wait()
	c.http.CloseIdleConnections()
}

// URL returns where the registry is.
func (c *Client) URL() string { return c.base }

// Counts returns how many requests were sent, and how many of them failed.
func (c *Client) Counts() (requests, failures int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, c.failures
}

// IsAway reports whether the last request had no answer at all, not even a refusal.
func (c *Client) IsAway() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

// Forget drops what was asked of a schema: the next Ask asks at once.
func (c *Client) Forget(id framing.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.asked[id]; q != nil && !q.running {
		delete(c.asked, id)
	}
}

// Ask returns a schema, or nil if it is not here yet, and then why not, as far as that is known. The caller asks again.
// The first call for a schema waits for up to 100 ms.
func (c *Client) Ask(id framing.ID) (w *event.Writer, trouble string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.asked[id]
	switch {
	case q == nil && len(c.asked) >= maxAsked:
		return nil, "as many schemas are asked for as this process asks for at a time"
	case q == nil:
		q = &question{done: make(chan struct{})}
		c.asked[id] = q
	}
	if q.answer == nil && !q.running && !time.Now().Before(q.next) && c.ctx.Err() == nil {
		q.running = true
		c.running.Go(func() { c.answer(id, q) })
		if q.tries == 0 {
			c.await(q)
		}
	}
	if q.answer != nil {
		delete(c.asked, id) // the caller keeps it
		return q.answer, ""
	}
	return nil, q.trouble
}

// await waits for the first outcome of a question, without the lock, which the caller has.
func (c *Client) await(q *question) {
	c.mu.Unlock()
	defer c.mu.Lock()
	limit := time.NewTimer(firstAnswer)
	defer limit.Stop()
	select {
	case <-q.done:
	case <-limit.C:
	case <-c.ctx.Done():
	}
}

// answer asks for a schema once.
func (c *Client) answer(id framing.ID, q *question) {
	w, err := c.fetch(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	q.running, q.answer = false, w
	if q.tries == 0 {
		close(q.done)
	}
	if q.tries++; err != nil {
		q.trouble = err.Error()
		q.next = time.Now().Add(backoff.Wait(q.tries, firstWait, mostWait))
	}
}

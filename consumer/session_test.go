package consumer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/consumer/signin"
)

// door is in front of a broker that knows no tokens: it carries the sign-in out and ends connections that ask for
// anything outside a session, as brokers with connections.max.reauth.ms do.
type door struct {
	mechanism string // OAUTHBEARER if empty
	lifetime  time.Duration
	valid     func(first string) bool // what a client sent to sign in

	signIns, renewals, cutOff atomic.Int64
	mu                        sync.Mutex
	seen                      []string
}

func (g *door) listen(network, address string) (net.Listener, error) {
	return listenThrough(network, address, func(conn net.Conn) net.Conn { return &doorConn{Conn: conn, gate: g} })
}

// doorConn is the broker's end of a connection.
type doorConn struct {
	net.Conn
	gate *door
	rest []byte // of a request for the broker
	ends time.Time
}

func (c *doorConn) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		size := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, size); err != nil {
			return 0, err
		}
		request := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(c.Conn, request); err != nil {
			return 0, err
		}
		if err := c.take(append(size, request...)); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *doorConn) take(frame []byte) error {
	key, version := kmsg.Key(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
	switch {
	case key == kmsg.SASLHandshake:
		res := kmsg.NewPtrSASLHandshakeResponse()
		res.Version, res.SupportedMechanisms = version, []string{cmp.Or(c.gate.mechanism, signin.OAuthBearer)}
		return c.reply(frame, res.AppendTo(nil), false)
	case key == kmsg.SASLAuthenticate:
		return c.authenticate(frame, version)
	case key != kmsg.ApiVersions && !time.Now().Before(c.ends):
		c.gate.cutOff.Add(1)
		return errors.Join(io.EOF, c.Close())
	}
	c.rest = frame
	return nil
}

func (c *doorConn) authenticate(frame []byte, version int16) error {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.SetVersion(version)
	at := 14 + int(binary.BigEndian.Uint16(frame[12:])) // behind the client's name
	if req.IsFlexible() {
		at++ // no tags
	}
	if err := req.ReadFrom(frame[at:]); err != nil {
		return err
	}
	res := kmsg.NewPtrSASLAuthenticateResponse()
	res.Version = version
	first := string(req.SASLAuthBytes)
	c.gate.mu.Lock()
	c.gate.seen = append(c.gate.seen, first)
	c.gate.mu.Unlock()
	if c.gate.valid(first) {
		if c.ends.IsZero() {
			c.gate.signIns.Add(1)
		} else {
			c.gate.renewals.Add(1)
		}
		c.ends = time.Now().Add(c.gate.lifetime)
		res.SessionLifetimeMillis = c.gate.lifetime.Milliseconds()
		if c.gate.mechanism == signin.AWSMSKIAM {
			res.SASLAuthBytes = []byte(`{"version":"2020_10_22","request-id":"1"}`)
		}
	} else {
		res.SASLAuthBytes = []byte(`{"status":"invalid_token"}`)
	}
	return c.reply(frame, res.AppendTo(nil), res.IsFlexible())
}

func (c *doorConn) reply(frame, body []byte, flexible bool) error {
	answer := append([]byte{0, 0, 0, 0}, frame[8:12]...)
	if flexible {
		answer = append(answer, 0)
	}
	answer = append(answer, body...)
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	_, err := c.Conn.Write(answer)
	return err
}

// tokenCluster starts a broker behind g.
func tokenCluster(t *testing.T, g *door, topic string) *kfake.Cluster {
	t.Helper()
	return newCluster(t, kfake.SeedTopics(1, topic), kfake.ListenFn(g.listen))
}

func bearer(token string) string { return "n,,\x01auth=Bearer " + token + "\x01\x01" }

// TestSessionsAreRenewed: a session of a broker is renewed on its connection before it ends, with the token that the
// file has then, and no request is cut off, neither of the consumer nor of a producer.
func TestSessionsAreRenewed(t *testing.T) {
	t.Parallel()
	const topic, lifetime = "t", 2 * time.Second
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-canary")
	g := &door{lifetime: lifetime, valid: func(first string) bool {
		return first == bearer("first-canary") || first == bearer("second-canary")
	}}
	cluster := tokenCluster(t, g, topic)
	credentials := signin.Credentials{Mechanism: signin.OAuthBearer, Tokens: signin.TokenFile(file)}
	mechanism, err := credentials.SASL()
	if err != nil {
		t.Fatal(err)
	}
	producer := newProducer(t, cluster.ListenAddrs(), kgo.SASL(mechanism))
	sink := newMemory()
	r := start(t, sink, cluster.ListenAddrs(), []string{topic}, func(o *Options) {
		o.SASL, o.GroupID, o.CommitEvery = credentials, "g", lifetime/4
	})
	for i := range 12 {
		produce(t, producer, topic, 0, fmt.Sprint(i))
		await(t, "the record", func() bool { return len(sink.got(TopicPartition{topic, 0})) > i })
		if i == 6 {
			write("second-canary")
		}
		await(t, "a renewal", func() bool { return g.renewals.Load() >= int64((i+1)/3) })
	}
	if g.renewals.Load() < 4 || g.cutOff.Load() > 0 {
		t.Errorf("%d renewals, %d connections cut off", g.renewals.Load(), g.cutOff.Load())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := g.seen[len(g.seen)-1]; last != bearer("second-canary") {
		t.Errorf("the renewed file was not read: %q", last)
	}
	if text := r.log.String(); strings.Contains(text, "WARN") || strings.Contains(text, "canary") {
		t.Errorf("log: %s", text)
	}
}

// TestKeysOfAWS: a consumer signs in to brokers of Amazon with keys of the environment, again before its session ends,
// and sends no secret.
func TestKeysOfAWS(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "access")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-canary")
	t.Setenv("AWS_SESSION_TOKEN", "session")
	t.Setenv("AWS_REGION", "eu-central-1")
	g := &door{mechanism: signin.AWSMSKIAM, lifetime: 2 * time.Second, valid: func(first string) bool {
		var sent map[string]string
		err := json.Unmarshal([]byte(first), &sent)
		return err == nil && sent["version"] == "2020_10_22" && sent["host"] == "127.0.0.1" &&
			sent["action"] == "kafka-cluster:Connect" && sent["user-agent"] == "refitd" &&
			sent["x-amz-security-token"] == "session" && len(sent["x-amz-signature"]) == 64 &&
			regexp.MustCompile(`^access/\d{8}/eu-central-1/kafka-cluster/aws4_request$`).MatchString(sent["x-amz-credential"])
	}}
	cluster := tokenCluster(t, g, "t")
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{"t"}, func(o *Options) {
		o.SASL = signin.Credentials{Mechanism: signin.AWSMSKIAM, Keys: signin.AWSKeys(false)}
	})
	await(t, "two renewals", func() bool { return r.Status().Ready && g.renewals.Load() >= 2 })
	g.mu.Lock()
	defer g.mu.Unlock()
	if text := r.log.String() + strings.Join(g.seen, "\n"); strings.Contains(text, "canary") || g.cutOff.Load() > 0 ||
		strings.Contains(text, "WARN") {
		t.Errorf("%d connections cut off, sent and logged: %s", g.cutOff.Load(), text)
	}
}

// TestTokenIsRefused: a refused token is named, without it, and a file without one is waited for.
func TestTokenIsRefused(t *testing.T) {
	t.Parallel()
	const topic = "t"
	g := &door{lifetime: time.Hour, valid: func(first string) bool { return strings.Contains(first, "good") }}
	cluster := tokenCluster(t, g, topic)
	file := filepath.Join(t.TempDir(), "token")
	r := newRig(t, newMemory(), cluster.ListenAddrs(), []string{topic}, func(o *Options) {
		o.SASL = signin.Credentials{Mechanism: signin.OAuthBearer, Tokens: signin.TokenFile(file),
			Extensions: map[string]string{"logicalCluster": "lkc-1"}}
	})
	r.source.refusedPause = 100 * time.Millisecond
	r.start(t)
	for _, step := range []struct{ token, reason string }{
		{"", "no token to sign in with: token_file " + file},
		{"bad-canary\x01", "other characters than a bearer token"},
		{"bad-canary", `SASL authentication failed with OAUTHBEARER: the broker refused what it was sent`},
		{"good", ""},
	} {
		if step.token != "" {
			if err := os.WriteFile(file, []byte(step.token), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if step.reason == "" {
			await(t, "ready", func() bool { return r.Status().Ready })
			break
		}
		await(t, step.reason, func() bool { return strings.Contains(r.reasons(), step.reason) })
	}
	if text := r.log.String(); strings.Contains(text, "canary") {
		t.Errorf("the token is in the log: %s", text)
	}
	if last := g.seen[len(g.seen)-1]; !strings.HasSuffix(last, "\x01logicalCluster=lkc-1\x01\x01") {
		t.Errorf("signed in with %q", last)
	}
}

// TestIssuerIsAway: while the issuer of tokens is away, reading continues to the end of the token and the reason is
// given; no restart is needed when the issuer is back.
func TestIssuerIsAway(t *testing.T) {
	t.Parallel()
	const topic, lifetime = "t", time.Second
	var away atomic.Bool
	var asked atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		id, secret, _ := req.BasicAuth()
		if away.Load() || id != "refitd" || secret != "secret-canary" || req.FormValue("scope") != "kafka" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "body-canary")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"canary-%d","token_type":"Bearer","expires_in":1}`, asked.Add(1))
	}))
	t.Cleanup(issuer.Close)
	g := &door{lifetime: lifetime, valid: func(first string) bool { return strings.Contains(first, "canary-") }}
	cluster := tokenCluster(t, g, topic)
	sink := newMemory()
	r := start(t, sink, cluster.ListenAddrs(), []string{topic}, func(o *Options) {
		o.SASL = signin.Credentials{Mechanism: signin.OAuthBearer, Tokens: signin.Client{
			TokenURL: issuer.URL, ID: "refitd", Scopes: []string{"kafka"},
			Secret: func() (string, error) { return "secret-canary", nil },
		}.Tokens()}
	})
	fixed := signin.Credentials{Mechanism: signin.OAuthBearer,
		Tokens: func(context.Context) (string, error) { return "canary-of-the-producer", nil }}
	mechanism, err := fixed.SASL()
	if err != nil {
		t.Fatal(err)
	}
	producer := newProducer(t, cluster.ListenAddrs(), kgo.SASL(mechanism))
	produce(t, producer, topic, 0, "0")
	await(t, "the record", func() bool { return len(sink.got(TopicPartition{topic, 0})) == 1 })
	away.Store(true)
	await(t, "the reason", func() bool {
		return strings.Contains(r.reasons(), "no token to sign in with: token_url "+issuer.URL+" answers with status 503")
	})
	produce(t, producer, topic, 0, "1")
	away.Store(false)
	await(t, "both records", func() bool { return len(sink.got(TopicPartition{topic, 0})) == 2 })
	await(t, "ready again", func() bool { return r.Status().Ready })
	if text := r.log.String() + r.reasons(); bytes.Contains([]byte(text), []byte("canary")) {
		t.Errorf("a secret is in the log: %s", text)
	}
}

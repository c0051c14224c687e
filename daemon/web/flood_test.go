//go:build unix

package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// processorTime is what this process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestPasswordFloodCost: F5. However many clients guess, passwords are checked one at a time, so that the flood has one
// processor at most; and rate_limit of the web config file refuses the rest before any password is looked at.
func TestPasswordFloodCost(t *testing.T) {
	flood := func(config string, enough func(codes map[int]int) bool) (codes map[int]int, took time.Duration,
		cores float64) {
		b := newBench(t, func(o *Options) { o.ConfigFile = webFile(t, config) })
		addr, _ := b.listen(t)
		client := newClient(t)
		var mu sync.Mutex
		var wg sync.WaitGroup
		codes = map[int]int{}
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		began, used := time.Now(), processorTime(t)
		for i := range 16 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/-/healthy", nil)
					if err != nil {
						t.Error(err)
						return
					}
					r.SetBasicAuth("ann", fmt.Sprintf("wrong %d %d", i, n))
					res, err := client.Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					res.Body.Close()
					mu.Lock()
					if codes[res.StatusCode]++; enough(codes) {
						stop()
					}
					mu.Unlock()
					if res.StatusCode == http.StatusTooManyRequests {
						<-time.After(20 * time.Millisecond) // or the cost measured is that of asking
					}
				}
			})
		}
		wg.Wait()
		took = time.Since(began)
		return codes, took, float64(processorTime(t)-used) / float64(took)
	}
	hash := tier.Size(
		passwordHash,
		costlyHash,
	) // the race detector, under which the plain form runs, makes the costly one take seconds
	users := "basic_auth_users: {ann: " + hash + "}\n"
	codes, _, cores := flood(users, func(codes map[int]int) bool { return codes[http.StatusUnauthorized] >= 20 })
	t.Logf("answers %v, %.2f processors, the 16 clients included (bar 1 for the server)", codes, cores)
	if codes[http.StatusUnauthorized] < 20 || len(codes) != 1 || cores > 1.3 && tier.Asked(tier.Long) {
		t.Errorf("answers %v, %.2f processors", codes, cores)
	}
	codes, took, cores := flood("basic_auth_users: {ann: "+passwordHash+"}\nrate_limit: {interval: 100ms, burst: 5}\n",
		func(codes map[int]int) bool { return codes[http.StatusTooManyRequests] >= 100 })
	allowed := 5 + int(took/(100*time.Millisecond)) + 1
	t.Logf("with a limit of 10 a second: answers %v in %v, %.2f processors", codes, took, cores)
	if n := codes[http.StatusUnauthorized]; n > allowed || codes[http.StatusTooManyRequests] < 100 || len(codes) > 2 {
		t.Errorf("with a limit of 10 a second, so of %d in %v: answers %v", allowed, took, codes)
	}
}

// TestIdleConnections: F6. Of ten thousand connections that say nothing the daemon keeps as many as its cap, and they
// cost it nothing.
func TestIdleConnections(t *testing.T) {
	tier.Need(t, tier.Long)
	flood := 10_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if most := int(limit.Cur) - 2*DefaultMaxConnections - 500; most < flood {
		t.Logf("%d descriptors allowed: %d connections instead of %d", limit.Cur, most, flood)
		flood = most
	}
	b := newBench(t)
	addr, _ := b.listen(t)
	before := runtime.NumGoroutine()
	conns := make(chan net.Conn, flood)
	var refused atomic.Int64
	places := make(chan struct{}, 512)
	var wg sync.WaitGroup
	for range flood {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			conn, err := net.DialTimeout(
				"tcp",
				addr,
				300*time.Millisecond,
			) // beyond the backlog the system leaves them unanswered
			if err != nil {
				refused.Add(1)
				return
			}
			conns <- conn
		})
	}
	wg.Wait()
	close(conns)
	goroutines := runtime.NumGoroutine() - before
	cores, windows := math.Inf(1), 0
	// the first ones may still pay for the flood
	for began := time.Now(); cores > 0.1 && time.Since(began) < time.Minute; windows++ {
		began, used := time.Now(), processorTime(t)
		<-time.After(2 * time.Second)
		cores = float64(processorTime(t)-used) / float64(time.Since(began))
	}
	t.Logf(
		"%d connections, of which the system refused %d; %d goroutines more, %.3f processors in the %d. two seconds while "+
			"they are idle (bar 0.1)",
		flood,
		refused.Load(),
		goroutines,
		cores,
		windows,
	)
	if goroutines > 2*DefaultMaxConnections || cores > 0.1 {
		t.Errorf("%d goroutines for %d places, %.3f processors", goroutines, DefaultMaxConnections, cores)
	}
	for conn := range conns {
		conn.Close()
	}
	answersAgain(t, addr)
}

// secure returns the address of a server with TLS, and the settings of its clients.
func secure(t *testing.T) (addr string, conf *tls.Config) {
	t.Helper()
	a, dir := newAuthority(t), t.TempDir()
	a.files(dir)
	file := filepath.Join(dir, "web.yaml")
	if err := os.WriteFile(file, []byte("tls_server_config: {cert_file: server.pem, key_file: server.key}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	addr, _ = newBench(t, func(o *Options) { o.ConfigFile = file }).listen(t)
	return addr, &tls.Config{RootCAs: a.pool(), NextProtos: []string{http2.NextProtoTLS}}
}

// TestRapidReset: F6. A client that opens streams and takes them back at once (CVE-2023-44487) gets no more handlers
// than a connection has streams, and others are answered at the same time.
func TestRapidReset(t *testing.T) {
	addr, conf := secure(t)
	before := runtime.NumGoroutine()
	conn, err := tls.Dial("tcp", addr, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != http2.NextProtoTLS {
		t.Fatalf("the protocol is %q", got)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for name, value := range map[string]string{":method": "GET", ":scheme": "https", ":path": "/metrics",
		":authority": addr} {
		if err := encoder.WriteField(hpack.HeaderField{Name: name, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	read := make(chan error, 1)
	go func() { // or the server would block on its answers
		for {
			if _, err := framer.ReadFrame(); err != nil {
				read <- err
				return
			}
		}
	}()
	transport := &http.Transport{TLSClientConfig: conf.Clone(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	most, slowest := 0, time.Duration(0)
	look := func() {
		began := time.Now()
		res, err := client.Get("https://" + addr + "/-/healthy")
		if err != nil {
			t.Error(err)
			return
		}
		if res.Body.Close(); res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
			t.Errorf("during the flood: %d, HTTP/%d", res.StatusCode, res.ProtoMajor)
		}
		slowest = max(slowest, time.Since(began))
		most = max(most, runtime.NumGoroutine()-before)
	}
	err = framer.WriteSettings()
	sent := 0
	for id := uint32(1); err == nil && sent < 50_000; id += 2 {
		err = errors.Join(
			framer.WriteHeaders(
				http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}),
			framer.WriteRSTStream(id, http2.ErrCodeCancel),
		)
		if sent++; sent%5000 == 0 {
			look()
		}
	}
	look()
	t.Logf("%d streams opened and reset, the end: %v; %d goroutines more at most, the slowest answer during it %v",
		sent, err, most, slowest)
	if most > 2*DefaultMaxConnections {
		t.Errorf("%d goroutines", most)
	}
	conn.Close()
	<-read
}

// TestCapsOverHTTP2: F6. Headers and bodies are as limited as over HTTP/1.1.
func TestCapsOverHTTP2(t *testing.T) {
	addr, conf := secure(t)
	transport := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	ask := func(method, path, header string, body io.Reader) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+addr+path, body)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			r.Header.Set("X", header)
		}
		res, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	if code, err := ask("GET", "/-/healthy", strings.Repeat("x", maxHeader/2), nil); code != http.StatusOK {
		t.Errorf("half of the room for headers: %d, %v", code, err)
	}
	if code, err := ask("GET", "/-/healthy", strings.Repeat("x", 1<<20), nil); err == nil &&
		code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 1 MiB: %d", code)
	}
	if code, err := ask("POST", "/v1/models/ratings/score", "", io.MultiReader(strings.NewReader(`{"events":[{"user":"`),
		io.LimitReader(endless{},
			100<<20))); err == nil &&
		code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 100 MiB: %d", code)
	}
	if code, err := ask("GET", "/-/healthy", "", strings.NewReader("hello")); err == nil &&
		code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body with a GET: %d", code)
	}
	if code, err := ask("GET", "/-/healthy", "", nil); code != http.StatusOK {
		t.Errorf("afterwards: %d, %v", code, err)
	}
}

// endless is a text without end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

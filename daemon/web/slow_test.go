package web

import (
	"bufio"
	"fmt"
	"github.com/refitd/refitd/daemon/web/request"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

// dialled returns a connection that ends with the test, after it has sent a text.
func dialled(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowClients: 300 connections that say nothing after a request, 300 with half of a header, 300 with half of a body
// and 300 that do not take their answers, at a time: scrapes and probes on other connections are answered as if there
// were none, and so is a score.
func TestSlowClients(t *testing.T) {
	b := newBench(t)
	addr, _ := b.listen(t)
	const each, head = 300, "POST /v1/models/ratings/score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 64\r\n\r\n"
	answered := 0
	for range each {
		conn := dialled(t, addr, "GET /-/healthy HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && res.StatusCode == http.StatusOK {
			answered++
		}
	}
	if answered != each {
		t.Errorf("%d of %d requests before were answered", answered, each)
	}
	for range each {
		dialled(t, addr, "GET /-/healthy HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Sl")
		dialled(t, addr, head+`{"events":[`)
		dialled(t, addr, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for _, path := range []string{"/metrics", "/-/ready", "/v1/models/ratings"} {
		var took []time.Duration
		for range 21 {
			began := time.Now()
			res, err := client.Get("http://" + addr + path)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			if res.Body.Close(); res.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", path, res.StatusCode)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("%s: p50 %v, slowest %v (bar 100ms)", path, took[len(took)/2], took[len(took)-1])
		if took[len(took)/2] > 100*time.Millisecond { // the slowest is the machine's, which others load
			t.Errorf("%s: half of the answers took longer than %v", path, took[len(took)/2])
		}
	}
	if n := b.places.Len(); n > DefaultMaxConnections {
		t.Errorf("%d connections", n)
	}
}

// TestBudget: what is refused before it is read, what is given back, and that a slow body ends.
func TestBudget(t *testing.T) {
	b := newBench(t, func(o *Options) { o.MaxInflightBytes = 1 << 20 })
	addr, _ := b.listen(t)
	status := func(conn net.Conn) int {
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0
		}
		if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
			t.Error("a refusal without Retry-After")
		}
		return res.StatusCode
	}
	post := func(size int) string {
		return fmt.Sprintf("POST /v1/models/ratings/score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n",
			size)
	}
	if got := status(dialled(t, addr, post(1<<20))); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that can never be taken: %d", got)
	}
	first := dialled(t, addr, post(400<<10))
	within(t, patience, "its place", func() bool { return b.budget.InUse() == 800<<10 })
	if got := status(dialled(t, addr, post(200<<10))); got != http.StatusServiceUnavailable {
		t.Errorf("a body at the same time: %d", got)
	}
	second := dialled(t, addr, post(60<<10))
	within(t, patience, "both", func() bool { return b.budget.InUse() == 920<<10 })
	first.Close()
	within(t, patience, "what the first one had", func() bool { return b.budget.InUse() == 120<<10 })
	began := time.Now()
	if got := status(second); got != http.StatusRequestTimeout || time.Since(began) > 2*request.ReadTimeout {
		t.Errorf("a body that does not come: %d after %v", got, time.Since(began))
	}
	within(t, patience, "nothing held", func() bool { return b.budget.InUse() == 0 })
	chunked := "POST /v1/models/ratings/score HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
	if got := status(dialled(t, addr, chunked+"d\r\n{\"events\":[]}\r\n0\r\n\r\n")); got != http.StatusOK {
		t.Errorf("a body in chunks: %d", got)
	}
	large := dialled(t, addr, chunked)
	for range 12 {
		if _, err := fmt.Fprintf(large, "10000\r\n%65536s\r\n", ""); err != nil {
			break // refused
		}
	}
	if got := status(large); got != http.StatusRequestEntityTooLarge && got != 0 {
		t.Errorf("a large body in chunks: %d", got)
	}
	within(t, patience, "nothing held", func() bool { return b.budget.InUse() == 0 })
}

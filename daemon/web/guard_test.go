package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/web/request"
)

// TestHeaders: every answer, good or bad, forbids what a browser could do with it.
func TestHeaders(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"/", "/metrics", "/nothing", "/v1/models", "/static/style.css",
		"/v1/models/ratings/versions/1/files/vocabulary", "//x"} {
		h := b.ask("GET", path, nil).Header()
		for name, want := range securityHeaders {
			if got := h.Get(name); got != want && name != "Cache-Control" {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if h.Get("Cache-Control") == "" || h.Get("Server") != "" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
}

// TestHosts: F9. A foreign name that resolves to this machine (DNS rebinding) is not answered, neither read nor write.
func TestHosts(t *testing.T) {
	b := newBench(t, func(o *Options) { o.AllowedHosts = []string{"refitd.example.org"} }, withLifecycle)
	for host, want := range map[string]int{"127.0.0.1:9464": 200, "127.0.0.1": 200, "[::1]:9464": 200, "[::1]": 200,
		"localhost:1": 200, "LOCALHOST": 200,
		"10.1.2.3:9464": 200, "refitd.example.org:9464": 200, "Refitd.Example.org": 200, "evil.example:9464": 421,
		"127.0.0.1.evil.example": 421,
		"localhost.evil.example": 421, "refitd.example.org.evil.example": 421, "": 421} {
		if w := b.ask("GET", "/-/healthy", nil, "Host", host); w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
	b.want(http.StatusMisdirectedRequest, nil, "POST", "/-/reload", nil, "Host", "evil.example")
	if b.fake.reloads != 0 {
		t.Error("a foreign name reloaded")
	}
}

// TestCrossOrigin: F9. A page of another origin cannot make a browser change anything, or score; a browser on the own
// page and a program can.
func TestCrossOrigin(t *testing.T) {
	b := newBench(t, withLifecycle)
	for _, post := range []struct{ method, path, body string }{{"POST", "/-/reload", ""}, {"POST", "/-/refit", ""},
		{"PUT", "/v1/models/ratings/aliases/x", `{"version":1,"why":"x"}`}, {"POST", "/v1/models/ratings/score",
			`{"events":[]}`}} {
		for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin",
			"https://evil.example"}, {"Origin",
			"null"}} {
			b.want(http.StatusForbidden, nil, post.method, post.path, post.body, headers...)
		}
		for _, headers := range [][]string{{}, {"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://127.0.0.1:9464"}} {
			if w := b.ask(post.method, post.path, post.body, headers...); w.Code >= 300 {
				t.Errorf("%s %s with %v: %d %s", post.method, post.path, headers, w.Code, w.Body)
			}
		}
	}
	if b.fake.reloads != 3 || len(b.fake.refits) != 3*len(tasks) {
		t.Errorf("%d reloads, %d refits", b.fake.reloads, len(b.fake.refits))
	}
	b.want(http.StatusOK, nil, "GET", "/", nil, "Sec-Fetch-Site", "cross-site") // a link
}

// TestHostileConnections: F6. Large headers and bodies are refused, connections that say nothing are closed, and beyond
// the cap the oldest of them are closed for new ones; a request among them is answered all the time.
func TestHostileConnections(t *testing.T) {
	tier.Need(t, tier.Long) // waits for the header time-out of 5 s
	b := newBench(t)
	addr, _ := b.listen(t)
	talk := func(request string) string {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, request) // the server may close before it has read all
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSpace(line)
	}
	host := "Host: 127.0.0.1\r\n"
	for name, test := range map[string]struct{ request, want string }{
		"a header of 1 MiB": {"GET /-/healthy HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
			"431"},
		"a path of 64 KiB":  {"GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\n" + host + "\r\n", "431"},
		"a body with a GET": {"GET /-/healthy HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello", "413"},
		"a chunked body with a GET": {"GET /-/healthy HTTP/1.1\r\n" + host +
			"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "413"},
		"two lengths": {"POST /v1/models/ratings/score HTTP/1.1\r\n" + host +
			"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400"},
		"no host": {"GET /-/healthy HTTP/1.1\r\n\r\n", "400"},
	} {
		if got := talk(test.request); !strings.Contains(got, " "+test.want+" ") {
			t.Errorf("%s: %q, want %s", name, got, test.want)
		}
	}
	big := fmt.Sprintf("POST /v1/models/ratings/score HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n", host, 100<<20)
	if got := talk(big + `{"events":["` + strings.Repeat("x", request.MaxBody)); !strings.Contains(got, " 413 ") {
		t.Errorf("a body of 100 MiB: %q", got)
	}

	const flood = 1000
	silent := make([]net.Conn, flood)
	began := time.Now()
	for i := range silent {
		var err error
		if silent[i], err = net.Dial("tcp", addr); err != nil {
			t.Fatal(err)
		}
		defer silent[i].Close()
		if i%2 == 0 {
			if _, err := io.WriteString(silent[i], "GET /-/healthy HTTP/1.1\r\nHo"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := b.places.Len(); n > DefaultMaxConnections {
		t.Errorf("%d connections are held", n)
	}
	answersAgain(t, addr)
	for i, conn := range silent { // the first ones for want of room, the last ones when their time is up
		if err := conn.SetReadDeadline(began.Add(3 * headerTimeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("silent connection %d is still open after %v", i, time.Since(began))
		}
	}
	t.Logf("%d silent connections closed within %v", flood, time.Since(began))
	for _, conn := range silent {
		conn.Close()
	}
	answersAgain(t, addr)
}

// answersAgain waits for an answer after a flood.
func answersAgain(t *testing.T, addr string) {
	t.Helper()
	client := newClient(t)
	within(t, patience, "an answer after the flood", func() bool {
		res, err := client.Get("http://" + addr + "/-/healthy")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// gatherings is a collector that counts how many scrapes are under way.
type gatherings struct{ now, most atomic.Int64 }

// Describe sends nothing: the collector is unchecked.
func (g *gatherings) Describe(chan<- *prometheus.Desc) {}

// Collect takes a moment, so that others can come.
func (g *gatherings) Collect(chan<- prometheus.Metric) {
	n := g.now.Add(1)
	defer g.now.Add(-1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	<-time.After(2 * time.Millisecond)
}

// TestScrapes: F12. Of a hundred scrapers at a time four are served and the others asked to come again, so that half of
// those served have an answer almost as fast as from the cheapest route.
func TestScrapes(t *testing.T) {
	b := newBench(t)
	var g gatherings
	b.Registry.MustRegister(&g)
	addr, _ := b.listen(t)
	client := newClient(t)
	flood := func(path string) (codes map[int]int, took []time.Duration) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		codes = map[int]int{}
		for range 100 {
			wg.Go(func() {
				for range 5 {
					began := time.Now()
					res, err := client.Get("http://" + addr + path)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					mu.Lock()
					codes[res.StatusCode]++
					if res.StatusCode == http.StatusOK {
						took = append(took, time.Since(began))
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(took) == 0 {
			t.Fatalf("%s: answers %v", path, codes)
		}
		slices.Sort(took)
		return codes, took
	}
	flood("/-/healthy") // opens the connections
	_, cheapest := flood("/-/healthy")
	codes, took := flood("/metrics")
	if codes[http.StatusServiceUnavailable] == 0 || codes[http.StatusOK]+codes[http.StatusServiceUnavailable] != 500 ||
		g.most.Load() > maxScrapes {
		t.Errorf("answers %v, %d scrapes at a time", codes, g.most.Load())
	}
	half, p99 := took[len(took)/2], took[len(took)*99/100]
	bar := max(
		50*time.Millisecond,
		4*cheapest[len(cheapest)*99/100],
	) // on a busy machine, what its clients cost by themselves counts
	t.Logf("answers %v, %d at a time, served p50 %v, p99 %v (bar 50ms; p99 of the cheapest route %v)", codes,
		g.most.Load(), half, p99, cheapest[len(cheapest)*99/100])
	if half > bar {
		t.Errorf("p50 %v, want %v at most", half, bar)
	}
}

// TestReconnects: F18. A thousand connections leave neither goroutines nor descriptors behind; TestMain looks for the
// goroutines.
func TestReconnects(t *testing.T) {
	b := newBench(t)
	addr, _ := b.listen(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	before := 0
	for i := range 1000 {
		res, err := client.Get("http://" + addr + "/-/healthy")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if i == 100 {
			before = descriptors(t)
		}
	}
	within(t, patience, "closed descriptors", func() bool { return descriptors(t) <= before+5 })
}

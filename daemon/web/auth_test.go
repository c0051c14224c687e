package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// The password of the tests and its bcrypt hashes of cost 4 and of cost 10, which is what operators use.
const (
	password     = "correct horse"
	passwordHash = "$2a$04$n7Gyk0C37iwXKUdlM6JbquccBLlomrIOMWRJ8owwbCO8.JQyQfNSW"
	costlyHash   = "$2a$10$KlGvb/y9BY1j3SxgGlQi9OzVX8qIWkAyeUEQT0cnk0AOQYyLLz3la"
)

// webFile writes an exporter-toolkit file and returns its path.
func webFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// allPatterns returns the method and path of every route, in all forms.
func allPatterns() (list []string) {
	for i := range Routes {
		list = append(list, Routes[i].patterns()...)
	}
	return list
}

// matrix is what each route answers to somebody who signed in, with lifecycle off and on. Everybody else gets 401. A
// request is a path that the pattern takes, with a body that it takes.
var matrix = map[string]struct {
	path, body string
	off, on    int
}{
	"GET /{$}":                      {"/", "", 200, 200},
	"GET /openapi.json":             {"/openapi.json", "", 200, 200},
	"GET /static/style.css":         {"/static/style.css", "", 200, 200},
	"GET /static/page.js":           {"/static/page.js", "", 200, 200},
	"GET /static/icon.svg":          {"/static/icon.svg", "", 200, 200},
	"GET /runbook/{alert}":          {"/runbook/RefitdModelStale", "", 200, 200},
	"GET /v1/status":                {"/v1/status", "", 200, 200},
	"GET /v1/stream":                {"/v1/stream?rounds=1", "", 200, 200},
	"GET /v1/models/{model}/state":  {"/v1/models/ratings/state", "", 200, 200},
	"GET /v1/models/{model}/curves": {"/v1/models/ratings/curves?after=7", "", 200, 200},
	"GET /v1/models/{model}/versions/{version}/diff": {
		"/v1/models/ratings/versions/1/diff?with=1",
		"",
		200,
		200,
	},
	"GET /v1/models/{model}/belief": {"/v1/models/ratings/belief", "", 200, 200},
	"GET /v1/models/{model}/aliases/{alias}/belief": {
		"/v1/models/ratings/aliases/latest/belief",
		"",
		200,
		200,
	},
	"GET /v1/models/{model}/versions/{version}/belief": {"/v1/models/ratings/versions/1/belief", "", 200, 200},
	"GET /v1/models/{model}/rejected":                  {"/v1/models/ratings/rejected", "", 200, 200},
	"GET /v1/models/{model}/names":                     {"/v1/models/ratings/names?field=user", "", 200, 200},
	"GET /v1/models/{model}/aliases/{alias}/names": {
		"/v1/models/ratings/aliases/latest/names?field=user",
		"",
		200,
		200,
	},
	"GET /v1/models/{model}/versions/{version}/names": {
		"/v1/models/ratings/versions/1/names?field=tags&prefix=a",
		"",
		200,
		200,
	},
	"GET /v1/models/{model}/entity": {
		"/v1/models/ratings/entity?field=user&name=u1",
		"",
		200,
		200,
	},
	"GET /v1/models/{model}/aliases/{alias}/entity": {
		"/v1/models/ratings/aliases/latest/entity?field=user&name=u1",
		"",
		200,
		200,
	},
	"GET /v1/models/{model}/versions/{version}/entity": {
		"/v1/models/ratings/versions/1/entity?field=tags&name=zz",
		"",
		200,
		200,
	},
	"GET /-/healthy":                         {"/-/healthy", "", 200, 200},
	"GET /-/ready":                           {"/-/ready", "", 200, 200},
	"POST /-/reload":                         {"/-/reload", "", 403, 200},
	"PUT /-/reload":                          {"/-/reload", "", 403, 200},
	"POST /-/refit":                          {"/-/refit?model=ratings", "", 403, 202},
	"PUT /-/refit":                           {"/-/refit", "", 403, 202},
	"GET /metrics":                           {"/metrics", "", 200, 200},
	"GET /v1/models":                         {"/v1/models", "", 200, 200},
	"GET /v1/models/{model}":                 {"/v1/models/ratings", "", 200, 200},
	"GET /v1/models/{model}/versions":        {"/v1/models/ratings/versions", "", 200, 200},
	"GET /v1/models/{model}/aliases":         {"/v1/models/ratings/aliases", "", 200, 200},
	"GET /v1/models/{model}/aliases/{alias}": {"/v1/models/ratings/aliases/latest", "", 200, 200},
	"PUT /v1/models/{model}/aliases/{alias}": {
		"/v1/models/ratings/aliases/test",
		`{"version":1,"why":"test"}`,
		403,
		200,
	},
	"GET /v1/models/{model}/versions/{version}": {"/v1/models/ratings/versions/1", "", 200, 200},
	"GET /v1/models/{model}/aliases/{alias}/files/{file}": {
		"/v1/models/ratings/aliases/latest/files/vocabulary",
		"",
		200,
		200,
	},
	"GET /v1/models/{model}/versions/{version}/files/{file}": {
		"/v1/models/ratings/versions/1/files/vocabulary",
		"",
		200,
		200,
	},
	"GET /v1/models/{model}/deltas": {
		"/v1/models/ratings/deltas?base=1&wait=0s",
		"",
		200,
		200,
	},
	"POST /v1/models/{model}/score": {"/v1/models/ratings/score", `{"events":[]}`, 200, 200},
	"POST /v1/models/{model}/aliases/{alias}/score": {
		"/v1/models/ratings/aliases/latest/score",
		`{"events":[]}`,
		200,
		200,
	},
	"POST /v1/models/{model}/versions/{version}/score": {
		"/v1/models/ratings/versions/1/score",
		`{"events":[]}`,
		200,
		200,
	},
	"POST /v1/models/{model}/topk": {"/v1/models/ratings/topk", topBody, 200, 200},
	"POST /v1/models/{model}/aliases/{alias}/topk": {
		"/v1/models/ratings/aliases/latest/topk",
		topBody,
		200,
		200,
	},
	"POST /v1/models/{model}/versions/{version}/topk": {"/v1/models/ratings/versions/1/topk", topBody, 200, 200},
	"POST /v1/models/{model}/explain":                 {"/v1/models/ratings/explain", explainBody, 200, 200},
	"POST /v1/models/{model}/aliases/{alias}/explain": {
		"/v1/models/ratings/aliases/latest/explain",
		explainBody,
		200,
		200,
	},
	"POST /v1/models/{model}/versions/{version}/explain": {
		"/v1/models/ratings/versions/1/explain",
		explainBody,
		200,
		200,
	},
	"GET /v2":                                          {"/v2", "", 200, 200},
	"GET /v2/health/live":                              {"/v2/health/live", "", 200, 200},
	"GET /v2/health/ready":                             {"/v2/health/ready", "", 200, 200},
	"GET /v2/models/{model}":                           {"/v2/models/ratings", "", 200, 200},
	"GET /v2/models/{model}/versions/{version}":        {"/v2/models/ratings/versions/1", "", 200, 200},
	"GET /v2/models/{model}/ready":                     {"/v2/models/ratings/ready", "", 200, 200},
	"GET /v2/models/{model}/versions/{version}/ready":  {"/v2/models/ratings/versions/1/ready", "", 200, 200},
	"POST /v2/models/{model}/infer":                    {"/v2/models/ratings/infer", emptyInfer, 200, 200},
	"POST /v2/models/{model}/versions/{version}/infer": {"/v2/models/ratings/versions/1/infer", emptyInfer, 200, 200},
	"POST /v2/repository/index":                        {"/v2/repository/index", "{}", 200, 200},
}

const topBody, explainBody = `{"event":{"user":"u1","age":3,"tags":[]},"over":"item"}`,
	`{"event":{"user":"u1","item":"i1","age":3,"tags":[]}}`

const emptyInfer = `{"inputs":[{"name":"user","shape":[0],"datatype":"BYTES","data":[]},{"name":"item","shape":[0],"datatype":"BYTES","data":[]},` +
	`{"name":"age","shape":[0],"datatype":"FP64","data":[]},{"name":"tags","shape":[0,0],"datatype":"BYTES","data":[]}]}`

// TestRouteMatrix: F1 and F3. Every route, and none more, is met without, with wrong and with right credentials.
func TestRouteMatrix(t *testing.T) {
	for _, lifecycle := range []bool{false, true} {
		b := newBench(t, func(o *Options) {
			o.ConfigFile = webFile(t, "basic_auth_users: {ann: "+passwordHash+"}\n")
			if lifecycle {
				withLifecycle(o)
			}
		})
		b.fake.state = statuspage.Status{Models: []statuspage.ModelStatus{{Name: "ratings"}}}
		addr, _ := b.listen(t)
		client := newClient(t)
		within(t, patience, "all champions", b.allServed)
		for _, pattern := range allPatterns() {
			row, ok := matrix[pattern]
			if !ok {
				t.Errorf("the route %q has no row in the matrix", pattern)
				continue
			}
			right := row.off
			if lifecycle {
				right = row.on
			}
			method, _, _ := strings.Cut(pattern, " ")
			for _, try := range []struct {
				user, password string
				want           int
			}{{"", "", 401}, {"ann", "wrong", 401}, {"bob", password, 401}, {"ann", "", 401}, {"ann", password, right}} {
				req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+row.path,
					strings.NewReader(row.body))
				if err != nil {
					t.Fatal(err)
				}
				if row.body == "" {
					req.Body, req.ContentLength = nil, 0
				}
				if try.user != "" {
					req.SetBasicAuth(try.user, try.password)
				}
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				if res.Body.Close(); err != nil || res.StatusCode != try.want {
					t.Errorf("lifecycle %v, %s %s as %q: %d %.100s, want %d (%v)", lifecycle, method, row.path,
						try.user, res.StatusCode, body, try.want, err)
				}
				if try.want == 401 && res.Header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s: 401 without WWW-Authenticate", method, row.path)
				}
			}
		}
		if len(allPatterns()) != len(matrix) {
			t.Errorf("%d routes, %d rows", len(allPatterns()), len(matrix))
		}
		if want := map[bool]int{false: 0, true: 2}[lifecycle]; b.fake.reloads != want ||
			len(b.fake.refits) != want/2*(1+len(tasks)) {
			t.Errorf("lifecycle %v: %d reloads, refits %v", lifecycle, b.fake.reloads, b.fake.refits)
		}
	}
}

// TestNoOtherRoutes: F1, F11. Profiles, variables, the configuration and the way to end the daemon are not served.
func TestNoOtherRoutes(t *testing.T) {
	b := newBench(t, withLifecycle)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/config", "/api/v1/status/config",
		"/-/quit", "/v1", "/v3",
		"/index.html", "/status"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"} {
			if w := b.ask(method, path, nil); w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	patterns := make(map[string]bool)
	for _, full := range allPatterns() {
		patterns[full] = true
	}
	for _, full := range allPatterns() {
		_, pattern, _ := strings.Cut(full, " ")
		path, _, _ := strings.Cut(matrix[full].path, "?")
		for _, other := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			if patterns[other+" "+pattern] {
				continue
			}
			w := b.ask(other, path, nil)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" ||
				!strings.Contains(w.Body.String(), `{"error":`) {
				t.Errorf("%s %s: %d %s", other, path, w.Code, w.Body)
			}
		}
	}
}

// TestClientCertificates: F3. Only a client whose certificate is in date, of the authority and of an allowed name gets
// through the handshake.
func TestClientCertificates(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	a.files(dir)
	file := filepath.Join(dir, "web.yaml")
	text := "tls_server_config: {cert_file: server.pem, key_file: server.key, " +
		"client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert, client_allowed_sans: [scraper]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *Options) { o.ConfigFile = file })
	addr, _ := b.listen(t)
	ask := func(cert *tls.Certificate, most uint16) (*http.Response, error) {
		conf := &tls.Config{RootCAs: a.pool(), MaxVersion: most}
		if cert != nil {
			conf.Certificates = []tls.Certificate{*cert}
		}
		transport := &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + addr + "/-/healthy")
		if err == nil {
			err = res.Body.Close()
		}
		return res, err
	}
	for name, cert := range map[string]*tls.Certificate{"none": nil, "expired": a.client("scraper", -time.Hour),
		"of a stranger":   stranger.client("scraper", time.Hour),
		"of another name": a.client("other", time.Hour)} {
		if res, err := ask(cert, 0); err == nil {
			t.Errorf("client certificate %s: %d", name, res.StatusCode)
		}
	}
	if _, err := ask(a.client("scraper", time.Hour), tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	res, err := ask(a.client("scraper", time.Hour), 0)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Strict-Transport-Security") == "" {
		t.Fatalf("the right certificate: %v, %v", res, err)
	}
	if plain, err := newClient(t).Get("http://" + addr + "/-/healthy"); err == nil {
		if plain.Body.Close(); plain.StatusCode != http.StatusBadRequest {
			t.Error("plain HTTP is served on the port of TLS")
		}
	}
}

// TestWebConfig: F4. A file that is wrong at the start is refused with its place; one that is broken later fails
// closed, and one that is mended opens again.
func TestWebConfig(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	a.files(dir)
	if err := os.WriteFile(filepath.Join(dir, "junk.pem"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "web.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	users := "basic_auth_users: {ann: " + passwordHash + "}\n"
	for name, bad := range map[string]string{
		"junk":                "}{ not yaml",
		"unknown key":         "basic_auth: {ann: x}\n",
		"password in clear":   "basic_auth_users: {ann: secret}\n",
		"certificate missing": "tls_server_config: {cert_file: none.pem, key_file: server.key}\n",
		"key missing":         "tls_server_config: {cert_file: server.pem, key_file: none.key}\n",
		"certificate, no key": "tls_server_config: {cert_file: server.pem}\n",
		"key, no certificate": "tls_server_config: {key_file: server.key}\n",
		"junk certificate":    "tls_server_config: {cert_file: junk.pem, key_file: server.key}\n",
		"client auth, no CA": "tls_server_config: {cert_file: server.pem, key_file: server.key, client_auth_type: " +
			"RequireAndVerifyClientCert}\n",
		"unknown client auth": "tls_server_config: {cert_file: server.pem, key_file: server.key, client_auth_type: " +
			"Sometimes}\n",
		"unknown TLS version":  "tls_server_config: {cert_file: server.pem, key_file: server.key, min_version: TLS09}\n",
		"header not permitted": "http_server_config: {headers: {X-Anything: x}}\n",
	} {
		write(bad)
		if err := Check(file); err == nil {
			t.Errorf("%s is taken", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	if err := Check(filepath.Join(dir, "absent.yaml")); err == nil {
		t.Error("a file that is not there is taken")
	}
	for _, good := range []string{"", users, "tls_server_config: {cert_file: server.pem, key_file: server.key}\n" +
		users} {
		write(good)
		if err := Check(file); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}

	write(users)
	b := newBench(t, func(o *Options) { o.ConfigFile = file })
	addr, _ := b.listen(t)
	client := newClient(t)
	status := func() int {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/-/healthy", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("ann", password)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := status(); got != http.StatusOK {
		t.Fatalf("%d before the file is broken", got)
	}
	write("}{")
	if got := status(); got != http.StatusInternalServerError {
		t.Errorf("%d with a broken file", got)
	}
	write("basic_auth_users: {bob: " + passwordHash + "}\n")
	if got := status(); got != http.StatusUnauthorized {
		t.Errorf("%d once the user was taken away", got)
	}
	write(users)
	if got := status(); got != http.StatusOK {
		t.Errorf("%d once the file was mended", got)
	}
}

// TestPasswordFlood: F5. While wrong passwords are checked one after the other, the health listener and a scrape whose
// password is known answer as ever.
func TestPasswordFlood(t *testing.T) {
	hash := tier.Size(
		passwordHash,
		costlyHash,
	) // the race detector, under which the plain form runs, makes the costly one take seconds
	b := newBench(t, func(o *Options) { o.ConfigFile = webFile(t, "basic_auth_users: {ann: "+hash+"}\n") })
	addr, _ := b.listen(t)
	socket := filepath.Join(t.TempDir(), "h")
	health, err := ListenHealth(unixSocket(socket))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- b.ServeHealth(ctx, health) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	probe := &http.Client{
		Timeout: patience,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}},
	}
	defer probe.CloseIdleConnections()
	client := newClient(t)
	get := func(client *http.Client, url, pass string) (int, time.Duration) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Error(err)
			return 0, 0
		}
		if pass != "" {
			req.SetBasicAuth("ann", pass)
		}
		began := time.Now()
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0, 0
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return res.StatusCode, time.Since(began)
	}
	if code, _ := get(client, "http://"+addr+"/metrics", password); code != http.StatusOK {
		t.Fatalf("scrape: %d", code)
	}
	var attempts atomic.Int64
	flood, stopFlood := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := 0; flood.Err() == nil; n++ {
				req, err := http.NewRequestWithContext(flood, "GET", "http://"+addr+"/-/healthy", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.SetBasicAuth("ann", fmt.Sprintf("wrong %d %d", i, n))
				if res, err := client.Do(req); err == nil {
					if res.Body.Close(); res.StatusCode != http.StatusUnauthorized {
						t.Errorf("a wrong password: %d", res.StatusCode)
					}
					attempts.Add(1)
				}
			}
		})
	}
	within(t, patience, "the flood", func() bool { return attempts.Load() > 2 })
	var live, scrape []time.Duration
	looks := tier.Size(4, 20)
	for range looks {
		code, took := get(probe, "http://health/-/healthy", "")
		if live = append(live, took); code != http.StatusOK {
			t.Errorf("health during the flood: %d", code)
		}
		code, took = get(client, "http://"+addr+"/metrics", password)
		if scrape = append(scrape, took); code != http.StatusOK {
			t.Errorf("scrape during the flood: %d", code)
		}
	}
	stopFlood()
	wg.Wait()
	get(client, "http://"+addr+"/-/healthy", "wrong, and last") // waits for the checks that are still to be made
	slices.Sort(live)
	slices.Sort(scrape)
	bars := tier.Size([2]time.Duration{time.Second, 20 * time.Second},
		[2]time.Duration{50 * time.Millisecond, time.Second})
	t.Logf("health p50 %v, slowest %v (bar %v); scrape p50 %v, slowest %v (bar %v)",
		live[looks/2], live[looks-1], bars[0], scrape[looks/2], scrape[looks-1], bars[1])
	if live[looks/2] > bars[0] || scrape[looks/2] > bars[1] {
		t.Errorf("half of the answers took longer than %v (health) and %v (scrape)", live[looks/2], scrape[looks/2])
	}
	if code, _ := get(probe, "http://health/metrics", ""); code != http.StatusNotFound {
		t.Errorf("the health listener serves metrics: %d", code)
	}
}

// TestHealthSocket: a socket that a killed daemon left is replaced, one in use and any other file are not.
func TestHealthSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	first, err := ListenHealth(unixSocket(path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ListenHealth(unixSocket(path)); err == nil {
		t.Error("a socket in use was taken")
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := ListenHealth(unixSocket(path))
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenHealth(unixSocket(path)); err == nil {
		t.Error("a file was taken for a socket")
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file is gone: %v", err)
	}
}

func unixSocket(path string) string { return "unix:" + path }

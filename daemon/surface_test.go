package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/kafkasource"
	"github.com/twmb/franz-go/pkg/kgo"
)

// startWith is start with lifecycle endpoints, profiles, a log at every level, and the file read again at a reload.
func startWith(b *daemontest.Bench, path string) (d *daemon.Daemon, log *locked.Buffer, stop func()) {
	b.T.Helper()
	conf, err := config.Load(path)
	if err != nil {
		b.T.Fatal(err)
	}
	log = new(locked.Buffer)
	d, err = daemon.New(b.T.Context(), daemon.Options{Config: conf, Out: report.NewEmitter(log, true),
		Log:  slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Load: func() (*config.Config, error) { return config.Load(path) }, EnableLifecycle: true, EnableProfiling: true})
	if err != nil {
		b.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.T.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return d, log, func() {
		b.T.Helper()
		cancel()
		if err := <-done; err != nil {
			b.T.Fatal(err)
		}
	}
}

// post sends a request without a body.
func post(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(url, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// edit replaces a part of a file.
func edit(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReload: H7. A reload takes up all of a file or nothing; what is wrong is said with its line, and what needs a
// restart with its key.
func TestReload(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(21, 1500)
	path := b.Configure("r")
	d, log, stop := startWith(b, path)
	defer stop()
	base := "http://" + d.Addr()
	successful := func() float64 {
		_, metrics := daemontest.Get(t, base+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_config_last_reload_successful")
	}
	first := successful()
	if status, _ := daemontest.Get(t, base+"/debug/pprof/goroutine"); status != http.StatusOK {
		t.Errorf("profiles that were asked for: %d", status)
	}
	daemontest.Within(t, daemontest.Patience, "all events applied", func() bool {
		_, metrics := daemontest.Get(t, base+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_events_total") == 1500
	})
	if status, _ := daemontest.Get(t, base+"/v1/models/ratings/aliases/champion"); status != http.StatusNotFound ||
		first != 1 {
		t.Fatalf("a version before the schedule asked for one: %d; reload metric %v", status, first)
	}

	for _, bad := range []struct{ old, new, text string }{
		{"every_events: 0", "every_events: many", `r.yaml:10:38: models[0].train.every_events`},
		{"max_basis: 4", "max_bases: 4", `max_basis`},
		{"size: 20000", "size: 10000", `models[0].sample.size`},
		{"seed: 42", "seed: 43", `models[0].sample.seed`},
		{"name: ratings", "name: other", `models[0].name`},
		{"group_id: g-r", "group_id: g-other", `kafka.group_id`},
		{"models:", "memory_budget: 8GiB\nmodels:", `memory_budget`},
	} {
		edit(t, path, bad.old, bad.new)
		edit(t, path, "update_every: 0s", "update_every: 1s") // reloadable alone, but not with the other
		status, body := post(t, base+"/-/reload")
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, bad.text) ||
			!strings.Contains(body, "old configuration stays") ||
			successful() != 0 {
			t.Errorf("%s: %d %s, metric %v, want %q", bad.new, status, body, successful(), bad.text)
		}
		if _, page := daemontest.Get(t, base+"/"); !strings.Contains(page, "Configuration not reloaded") {
			t.Errorf("%s: the status page does not say that the reload failed", bad.new)
		}
		edit(t, path, "update_every: 1s", "update_every: 0s")
		edit(t, path, bad.new, bad.old)
	}
	if status, _ := daemontest.Get(t, base+"/v1/models/ratings/aliases/champion"); status != http.StatusNotFound {
		t.Error("a refused reload changed the schedule")
	}
	edit(t, path, "every_events: 0", "every_events: 100")
	edit(t, path, "publish: {", "serve: {max_events: 1}\n    publish: {")
	if status, body := post(t, base+"/-/reload"); status != http.StatusOK || successful() != 1 {
		t.Fatalf("%d %s", status, body)
	}
	daemontest.Within(t, daemontest.Patience, "a refit by the new schedule", func() bool {
		status, _ := daemontest.Get(t, base+"/v1/models/ratings/aliases/champion")
		return status == http.StatusOK
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(base+"/v1/models/ratings/score", "application/json",
		strings.NewReader(`{"events":[{"user":"u1","item":"i1"},{"user":"u2","item":"i1"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusBadRequest {
		t.Errorf("two events with serve.max_events 1: %d", res.StatusCode)
	}
	if n := strings.Count(log.String(), "configuration not reloaded"); n != 7 {
		t.Errorf("%d lines about 7 refused reloads", n)
	}
}

// TestRefitNow: an operator gets a refit without waiting for the schedule, which has none.
func TestRefitNow(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(22, 1500)
	d, _, stop := startWith(b, b.Configure("n"))
	defer stop()
	base := "http://" + d.Addr()
	version := func() int64 {
		var a snapshot.Pointer
		_, body := daemontest.Get(t, base+"/v1/models/ratings/aliases/latest")
		_ = json.Unmarshal([]byte(body), &a) // no version yet
		return a.Version
	}
	daemontest.Within(t, daemontest.Patience, "all events applied", func() bool {
		_, metrics := daemontest.Get(t, base+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_events_total") == 1500
	})
	for want := int64(1); want <= 2; want++ {
		if status, body := post(t, base+"/-/refit?model=ratings"); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, body)
		}
		daemontest.Within(t, daemontest.Patience, "the version", func() bool { return version() == want })
	}
	if status, _ := post(t, base+"/-/refit?model=none"); status != http.StatusNotFound {
		t.Errorf("a refit of no model: %d", status)
	}
}

// TestHealthWithoutDisk: F13. Health does not depend on the store, and a champion that is loaded serves on without it.
func TestHealthWithoutDisk(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(23, 1500)
	path := b.Configure("d", "every_events: 0", "every_events: 500", `"127.0.0.1:0"`,
		`"127.0.0.1:0", health_address: "unix:health.sock"`)
	d, _, stop := startWith(b, path)
	defer stop()
	base := "http://" + d.Addr()
	daemontest.Within(t, daemontest.Patience, "a champion", func() bool {
		status, _ := daemontest.Get(t, base+"/v2/health/ready")
		return status == http.StatusOK
	})
	if err := os.Rename(filepath.Join(b.Dir, "store-d"), filepath.Join(b.Dir, "gone")); err != nil {
		t.Fatal(err)
	}
	b.Broker.Close()
	daemontest.Within(t, daemontest.Patience, "not ready", func() bool {
		status, _ := daemontest.Get(t, base+"/-/ready")
		return status == http.StatusServiceUnavailable
	})
	if status, _ := daemontest.Get(t, base+"/-/healthy"); status != http.StatusOK {
		t.Errorf("healthy: %d", status)
	}
	socket := filepath.Join(b.Dir, "health.sock")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	if res, err := (&http.Client{Transport: transport}).Get("http://health/-/healthy"); err != nil {
		t.Error(err)
	} else if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("health listener: %d", res.StatusCode)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(base+"/v1/models/ratings/score", "application/json",
		strings.NewReader(`{"events":[{"user":"u1","item":"i1"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK || res.Header.Get("X-Model-Version") == "" {
		t.Errorf("a score without the store: %d %v", res.StatusCode, res.Header)
	}
}

// TestAnnouncedByTheDaemon: a watcher that follows the topic loads what the daemon promotes, the last refit included.
func TestAnnouncedByTheDaemon(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(24, 1500)
	path := b.Configure("a", "update_every: 0s", "update_every: 0s, topic: champions, inline_max: 1MiB")
	o := b.Run(path)
	if o.Err != nil || o.Summary.Models[0].Champion == nil {
		t.Fatal(o.Err)
	}
	source, err := kafkasource.NewSource([]kgo.Opt{kgo.SeedBrokers(b.Addr)}, "champions", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		source.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	w, err := snapshot.Watch(source, snapshot.WatchOptions{Model: "ratings"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	waited, stopWaiting := context.WithTimeout(t.Context(), daemontest.Patience)
	defer stopWaiting()
	m, err := w.Wait(waited)
	if err != nil {
		t.Fatal(err)
	}
	if m.Manifest().Version != *o.Summary.Models[0].Champion {
		t.Errorf("version %d was announced, the champion is %d", m.Manifest().Version, *o.Summary.Models[0].Champion)
	}
}

// canary is a part of every secret of TestSecrets.
const canary = "canary-5e1f"

// TestSecrets: F10. Nothing that a daemon prints, logs or serves holds a secret, not even while it fails to sign in.
func TestSecrets(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	t.Run("in the file", func(t *testing.T) { secrets(b, t, "password: "+canary) })
	file := filepath.Join(b.Dir, "password")
	if err := os.WriteFile(file, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("in another file", func(t *testing.T) { secrets(b, t, "password_file: password") })
	t.Run("in a bad file", func(t *testing.T) {
		for _, bad := range []string{"sasl: {mechanism: plain, usrname: x, password: " + canary + "}",
			"sasl: {mechanism: plane, username: x, password: " +
				canary + "}",
			"sasl: {mechanism: plain, username: x, pasword: " + canary + "}",
			"sasl: {mechanism: plain, username: x, password: [" + canary + "]}",
			"sasl: {mechanism: plain, username: x, pw: " + canary + "}", "sasl: {mechanism: plain, username: x, key: " + canary +
				"}"} {
			path := b.Configure("bad", "fetch_max_wait: 100ms", "fetch_max_wait: 100ms, "+bad)
			if _, err := config.Load(path); err == nil || strings.Contains(err.Error(), canary) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		for _, bad := range []string{"pasword", "passwd", "key", "apikey", "'pw'"} {
			text := "kafka:\n  sasl:\n    mechanism: plain\n    " + bad + ": " + canary + "\n"
			if _, err := config.Parse("bad.yaml", []byte(text), os.LookupEnv); err == nil ||
				strings.Contains(err.Error(), canary) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}

func secrets(b *daemontest.Bench, t *testing.T, key string) {
	path := b.Configure("s", "fetch_max_wait: 100ms",
		"fetch_max_wait: 100ms, sasl: {mechanism: plain, username: ann, "+key+"}")
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	fmt.Fprintf(&printed, "%v %+v %#v %s %q %x\n", conf, conf, conf.Kafka.SASL, conf.Kafka.SASL.Password,
		conf.Kafka.SASL.Password, conf.Kafka.SASL.Password)
	text, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	printed.Write(text)
	slog.New(slog.NewJSONHandler(&printed, nil)).
		Info("configuration", "kafka", conf.Kafka, "password", conf.Kafka.SASL.Password)
	slog.New(slog.NewTextHandler(&printed, nil)).
		Info("configuration", "kafka", conf.Kafka, "password", conf.Kafka.SASL.Password)
	func() {
		defer func() { fmt.Fprint(&printed, recover()) }()
		panic(fmt.Sprintf("with %+v", conf))
	}()

	d, log, stop := startWith(b, path)
	base := "http://" + d.Addr()
	daemontest.Within(t, daemontest.Patience, "a refusal", func() bool { // the broker knows no SASL
		status, body := daemontest.Get(t, base+"/-/ready")
		return status == http.StatusServiceUnavailable && !strings.Contains(body, "waiting for the first answer") &&
			strings.Contains(body, "kafka")
	})
	for _, page := range []string{"/", "/metrics", "/-/ready", "/v1/models", "/v2", "/config", "/debug/vars"} {
		_, body := daemontest.Get(t, base+page)
		printed.WriteString(body)
	}
	edit(t, path, "every: 0s", "every: nonsense")
	_, body := post(t, base+"/-/reload")
	printed.WriteString(body)
	edit(t, path, "every: nonsense", "every: 0s")
	edit(t, path, key, "password: other")
	_, body = post(t, base+"/-/reload")
	printed.WriteString(body)
	if !strings.Contains(body, "kafka.sasl.password") {
		t.Errorf("a changed secret is not named: %s", body)
	}
	stop()
	printed.WriteString(log.String())
	if cmdline, err := os.ReadFile("/proc/self/cmdline"); err == nil {
		printed.Write(cmdline)
	}
	if at := regexp.MustCompile(canary + `|63616e617279`).FindStringIndex(printed.String()); at != nil {
		t.Errorf("the secret is in: %s", printed.String()[max(0, at[0]-200):min(at[1]+50, printed.Len())])
	}
	if !strings.Contains(printed.String(), "<redacted>") {
		t.Error("nothing was redacted: is the secret printed at all?")
	}
}

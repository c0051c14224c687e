package snapshot

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/verify"
)

// nodePackage returns a copy of the package for Node and browsers, with its module.
func nodePackage(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "node")
	snapshottest.Must(t, os.CopyFS(dir, os.DirFS("node")))
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildmode=c-shared", "-ldflags=-s -w", "-o",
		filepath.Join(dir, "refitd_snapshot.wasm"), "./wasm")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// The package for Node, which has this library as WebAssembly, says of every kind of version what the library says, to
// the bit, refuses what it refuses, and follows aliases and deltas as it does.
func TestNodeIsTheLibrary(t *testing.T) {
	tier.Need(t, tier.Long)
	if out, err := exec.Command("node", "--test", "--version").CombinedOutput(); err != nil {
		t.Skipf("not checked: node (18 or later) is needed (%v): %s", err, out)
	}
	module := nodePackage(t)
	dir := t.TempDir()
	written := func(name string, v any) string {
		b, err := json.Marshal(v)
		path := filepath.Join(dir, name)
		snapshottest.Must(t, err, os.WriteFile(path, b, 0o644))
		return path
	}
	store, served, _ := publishSigned(t, 1)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	chain, m := openChain(t, store, served, 1)
	grow(t, chain, m, 9, 1)
	var polls atomic.Int64
	want := expectations{Models: expectedModels(t, dir), Refusals: expectedRefusals(t), Watch: expectedMoves(t)}
	test := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "test/")
	test.Dir = module
	test.Env = append(os.Environ(), "REFITD_EXPECTATIONS="+written("expectations.json", want),
		"REFITD_CHAINS="+written("chains.json", append(expectedChains(t), refusedChains(t)...)),
		"REFITD_URL="+serve(t, served, &polls).URL, "REFITD_KEY="+snapshottest.KeyFile(t, dir, 1))
	out, err := test.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

// testPage asks in a browser what a version says, and posts it.
const testPage = `<!doctype html><meta charset="utf-8"><script type="module">
const say = (what) => fetch("/said", { method: "POST", body: JSON.stringify(what) });
try {
  const began = performance.now();
  const { open } = await import("/package/browser.js");
  const events = await (await fetch("/events")).json(), from = { allowExpired: true, headers: { Authorization: "Bearer secret" } };
  const model = await open(location.origin, "m", { alias: "latest", ...from });
  model.prediction(events[0]);
  const first = performance.now() - began;
  const refused = await open(location.origin, "n", from).then(() => "", (error) => error.name);
  await say({ outputs: model.prediction(events).map((p) => p.outputs), refused, first, text: document.characterSet });
} catch (error) {
  await say({ error: String(error) });
}
</script>`

// A browser reads a version of a daemon with the package: its outputs are the library's, to the bit.
func TestBrowserIsTheLibrary(t *testing.T) {
	browser := os.Getenv("REFITD_BROWSER")
	if browser == "" {
		t.Skip("REFITD_BROWSER names no browser: .ci/page runs this")
	}
	_, served, _ := publishSigned(t, 1)
	m, err := Open(served, "m", verify.Selector{Alias: pointer.Latest})
	snapshottest.Must(t, err)
	var events []map[string]any
	var want [][]float64
	for _, in := range randomInputs(5, 200) {
		if p, err := m.Predict(&in); err == nil {
			events, want = append(events, m.Schema().ToMap(&in)), append(want, p.Outputs)
		}
	}
	var polls atomic.Int64
	said := make(chan []byte, 1)
	pages := http.NewServeMux()
	pages.Handle("/v1/", serve(t, served, &polls).Config.Handler)
	pages.Handle("/package/", http.StripPrefix("/package/", http.FileServer(http.Dir(nodePackage(t)))))
	pages.HandleFunc("/events", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(events) })
	pages.HandleFunc("/said", func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		said <- b
	})
	pages.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, testPage) })
	server := httptest.NewServer(pages)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	profile, err := os.MkdirTemp("", "browser") // not of the test: processes of the browser write while they end
	snapshottest.Must(t, err)
	run := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+profile, "--remote-debugging-port=0", server.URL+"/")
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	snapshottest.Must(t, run.Start())
	defer func() {
		cancel()
		_ = run.Wait()
		deadline := time.Now().Add(10 * time.Second)
		for err = os.RemoveAll(profile); err != nil && time.Now().Before(deadline); err = os.RemoveAll(profile) {
			time.Sleep(10 * time.Millisecond)
		}
		snapshottest.Must(t, err)
	}()
	var got struct {
		Outputs [][]float64
		Refused string
		First   float64
		Error   string
	}
	select {
	case b := <-said:
		snapshottest.Must(t, json.Unmarshal(b, &got))
	case <-ctx.Done():
		t.Fatal("the browser said nothing")
	}
	if len(want) < 20 || got.Error != "" || got.Refused != "NotFoundError" || !reflect.DeepEqual(got.Outputs, want) {
		t.Errorf("%d events: %+v, want %v", len(want), got, want)
	}
	t.Logf("%d events; the first was answered %.0f ms after the page began to load the module", len(want), got.First)
}

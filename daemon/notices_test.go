package daemon_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/notify"
)

// TestNotices: a service hears of each refit of a run, promoted or kept, the last one included, and of each halt; what
// it does not take, the next run delivers. The secret is in no file of the state.
func TestNotices(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(61, 1500)
	var mu sync.Mutex // guards what follows
	var got []string
	away := true
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var n notify.Notice
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil ||
			!strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
			t.Errorf("%v, header %v", err, r.Header)
		}
		if away {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got = append(got, n.Type)
	}))
	t.Cleanup(hook.Close)
	key := filepath.Join(b.Dir, "hook.key")
	const secret = "a secret of more than 24 bytes"
	if err := os.WriteFile(key, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := b.Configure("n", append(daemontest.Simple, "    publish:",
		"    notify: {url: '"+hook.URL+"/hook', secret_file: "+key+"}\n    publish:")...)
	out := b.Run(path)
	if out.Count("version") == 0 {
		t.Fatalf("no version: %v", out.Err)
	}
	mu.Lock()
	away = false
	mu.Unlock()
	b.Run(path)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(got, notify.Promoted) || len(got) < out.Count("version") {
		t.Errorf("notices %q, %d versions", got, out.Count("version"))
	}
	err := filepath.Walk(filepath.Join(b.Dir, "state-n"), func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

package objects_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/objects"
	"github.com/refitd/refitd/snapshot/objects/objectstest"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestBusyStore: a store that is busy is asked again.
func TestBusyStore(t *testing.T) { each(t, busyStore) }

func busyStore(t *testing.T, server *objectstest.Server) {
	var mu sync.Mutex
	asked := make(map[string]int)
	server.Before = func(method, key string) int {
		mu.Lock()
		defer mu.Unlock()
		asked[method+key]++
		if strings.HasSuffix(key, "/latest") || strings.HasSuffix(key, ".json") {
			return map[int]int{1: 503, 2: 429}[asked[method+key]]
		}
		return 0
	}
	store := writerOf(t, server.URL("x"), t.TempDir())
	publishOne(t, store)
	if _, err := load(t, server.URL("x"), pointer.Champion); err != nil {
		t.Error(err)
	}
}

// TestRights: a follower needs the right to read alone; a writer that may not list or delete says so, and what it
// published stays.
func TestRights(t *testing.T) { each(t, rights) }

func rights(t *testing.T, server *objectstest.Server) {
	const prefix = "models of Zürich/über+50%" // no letter of a key means something to a store
	url := strings.Replace(server.URL("P"), "P", strings.ReplaceAll(strings.ReplaceAll(prefix, "%", "%25"), " ", "%20"), 1)
	var denied atomic.Pointer[string]
	none := ""
	denied.Store(&none)
	server.Answer = func(w http.ResponseWriter, r *http.Request, method, _ string) bool {
		list := method == http.MethodGet && r.URL.Query().Has("prefix")
		if kind := *denied.Load(); kind == "LIST" && list || kind == method {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	}
	store := writerOf(t, url, t.TempDir())
	publishOne(t, store)
	for _, key := range server.Objects(nil) {
		if !strings.HasPrefix(key, "models/"+prefix+"/m/") {
			t.Errorf("key %q", key)
		}
	}
	for _, kind := range []string{"LIST", http.MethodDelete} {
		denied.Store(&kind)
		w := follower(t, url, 2*time.Millisecond)
		await(t, "the champion", func() bool { return w.Status().Version > 0 })
		var err error
		if kind == "LIST" {
			_, err = store.Publish(t.Context(), "m", contents())
		} else {
			publishOne(t, store)
			await(t, "version 2", func() bool { return w.Status().Version == 2 })
			_, err = store.Prune(t.Context(), "m", publish.Retention{Keep: 1})
		}
		if err == nil || !strings.Contains(err.Error(), kind) {
			t.Errorf("without the right to %s: %v", kind, err)
		}
		denied.Store(&none)
	}
	if _, err := load(t, url, pointer.Champion); err != nil {
		t.Error(err)
	}
}

// TestTornAnswers: an answer that is cut short, one that never ends, one without a tag and a file that the store does
// not show yet keep a follower at its version, until they are over. A redirection is not followed.
func TestTornAnswers(t *testing.T) { each(t, tornAnswers) }

func tornAnswers(t *testing.T, server *objectstest.Server) {
	before := objects.SetPatience(500 * time.Millisecond)
	t.Cleanup(func() { objects.SetPatience(before) }) // once the follower is closed
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirection was followed: %v", r.Header)
	}))
	defer elsewhere.Close()
	type trouble struct {
		within string
		answer func(w http.ResponseWriter, r *http.Request)
	}
	var now atomic.Pointer[trouble]
	server.Answer = func(w http.ResponseWriter, r *http.Request, method, key string) bool {
		at := now.Load()
		if at == nil || method != http.MethodGet || !strings.Contains(key, at.within) || strings.HasSuffix(key, ".seg") {
			return false
		}
		at.answer(w, r)
		return true
	}
	store := writerOf(t, server.URL("x"), t.TempDir())
	version := publishOne(t, store)
	w := follower(t, server.URL("x"), 2*time.Millisecond)
	await(t, "version 1", func() bool { return w.Status().Version == version })
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"cut short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"1"`)
			w.Header().Set("X-Goog-Generation", "1")
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write([]byte("begin"))
			panic(http.ErrAbortHandler)
		},
		"without an end": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"1"`)
			w.Header().Set("X-Goog-Generation", "1")
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write([]byte("begin"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"without a beginning": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"not there yet":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"without a tag":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		},
	} {
		now.Store(&trouble{"/m/" + strconv.FormatInt(version+1, 10) + "/", answer})
		publishOne(t, store)
		version++
		await(t, name, func() bool { return w.Status().Err != nil })
		if w.Status().Version != version-1 {
			t.Errorf("%s: version %d was loaded", name, w.Status().Version)
		}
		now.Store(nil)
		await(t, "the end of: "+name, func() bool { return w.Status().Version == version })
	}
}

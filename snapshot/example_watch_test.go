package snapshot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/refitd/refitd/snapshot"
)

// Server scores events with whatever version is champion.
type Server struct {
	Watcher *snapshot.Watcher
	Scratch sync.Pool // of *scorer.Scratch: one for each request under way
}

// ServeHTTP answers {"user":"u1","k":3} with the best items for a user.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := s.Watcher.Model() // once: the whole request is answered by one version
	if m == nil {
		http.Error(w, "no model: "+fmt.Sprint(s.Watcher.Status().Err), http.StatusServiceUnavailable)
		return
	}
	var ask struct {
		User string `json:"user"`
		K    int    `json:"k"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	event, err := m.Schema().InputFromMap(map[string]any{"user": ask.User})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	scratch := s.Scratch.Get().(*snapshot.Scratch)
	defer s.Scratch.Put(scratch)
	items, err := m.TopK(nil, &snapshot.Query{Input: event, Over: "item", K: ask.K}, scratch)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "version %d\n", m.Manifest().Version)
	for _, item := range items {
		fmt.Fprintf(w, "%s %.2f\n", item.Name, item.Value)
	}
}

// A service that ranks items with the champion, taking up each new version once it is verified.
func Example() {
	trust := snapshot.Trust{} // with Keys from LoadKeys where versions are signed
	watcher, err := snapshot.Watch(snapshot.DirSource{Dir: "testdata/v1"}, snapshot.WatchOptions{
		Model: "ratings", Trust: trust, Log: slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watcher.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := watcher.Wait(ctx); err != nil { // or start at once, and answer 503 until there is a model
		fmt.Println(err)
		return
	}
	handler := &Server{Watcher: watcher, Scratch: sync.Pool{New: func() any { return new(snapshot.Scratch) }}}

	answer := httptest.NewRecorder() // in a program: http.ListenAndServe(address, handler)
	handler.ServeHTTP(answer, httptest.NewRequest("POST", "/", strings.NewReader(`{"user":"u1","k":2}`)))
	fmt.Print(answer.Body.String())
	// Output:
	// version 1
	// i2 2.16
	// i1 1.88
}

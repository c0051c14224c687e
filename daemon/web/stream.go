package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"github.com/refitd/refitd/daemon/web/request"
	"net/http"
	"strconv"
	"time"
)

const (
	maxListeners = 32               // streams at a time; the others get 503
	streamEvery  = 2 * time.Second  // between two of its events, which are its heartbeat
	streamLife   = 10 * time.Minute // of a stream: the client comes again, and has to show who it is
)

// stream sends server-sent events every two seconds: status as at /v1/status and, of the model that ?model names, state
// as at /state and curves with the points from after ?after, in milliseconds since 1970. It ends after ten minutes,
// with the daemon, or after ?rounds of them.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) error {
	after, err := countOf(r, "after")
	if err != nil {
		return err
	}
	rounds, err := countOf(r, "rounds")
	if err != nil {
		return err
	}
	name := r.URL.Query().Get("model")
	cache := s.caches[name]
	if name != "" && cache == nil {
		return s.noModel()
	}
	select {
	case s.listeners <- struct{}{}:
		defer func() { <-s.listeners }()
	default:
		return request.Busy("too many pages are open")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of proxies
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	end := time.NewTimer(streamLife)
	defer end.Stop()
	out := http.NewResponseController(w)
	for round := int64(1); ; round++ {
		var text bytes.Buffer
		view := s.view(s.recent())
		send := func(event string, v any) {
			b, err := json.Marshal(v)
			if err == nil { // every type of this package can be encoded
				fmt.Fprintf(&text, "event: %s\ndata: %s\n\n", event, b)
			}
		}
		send("status", view.Overview())
		if cache != nil {
			send("state", view.ModelState(name))
			past := cache.past().Since(after)
			if n := len(past.At); n > 0 {
				after = past.At[n-1]
			}
			send("curves", past)
		}
		_ = out.SetWriteDeadline(
			time.Now().Add(writeTimeout),
		) // a writer without deadlines, as in tests, has nothing to move on
		if _, err := w.Write(text.Bytes()); err != nil || out.Flush() != nil {
			return nil // the client has gone
		}
		if round == rounds {
			return nil
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-end.C:
			return nil
		case <-tick.C:
		}
	}
}

// countOf returns a query parameter that is a whole number from 0, which it is without one.
func countOf(r *http.Request, name string) (int64, error) {
	q := r.URL.Query()
	if !q.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < 0 {
		return 0, request.BadRequest("%s is a whole number from 0", name)
	}
	return n, nil
}

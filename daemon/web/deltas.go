package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
)

// deltas answers with what changed in a version since it was published: the deltas after the one with number ?after
// (0, the version itself, unless said otherwise), whole frames one after another, as far as one file has them.
// Without such a delta it waits for the time of ?wait (30s by default, 60s at most), and answers with nothing if none
// comes: none does any more once another version is the champion. 409 says that the chain of ?base has no delta with
// number ?after, or not the one behind it.
func (s *Server) deltas(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	base, after, wait, err := deltasOf(r)
	if err != nil {
		return err
	}
	if _, err := cache.Store.Manifest(cache.Name, base); err != nil {
		return err
	}
	h := w.Header()
	stream, err := s.awaitDeltas(w, r, cache, base, after, wait)
	switch {
	case errors.Is(err, snapshot.ErrChain):
		return request.Refuse(
			http.StatusConflict,
			"delta "+strconv.FormatInt(after+1,
				10)+" does not follow in the chain of the version: read the version "+
				"again, and its deltas from the first",
		)
	case err != nil:
		return err
	case stream == nil:
		h.Set("Content-Length", "0")
	default:
		defer stream.Close()
		select {
		case s.downloads <- struct{}{}:
			defer func() { <-s.downloads }()
		default:
			return request.Busy("too many downloads")
		}
	}
	h.Set(versionHeader, strconv.FormatInt(base, 10))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	if stream != nil {
		_, err = io.Copy(&chunkWriter{ResponseWriter: w, control: http.NewResponseController(w)}, stream)
	}
	if err != nil &&
		r.Context().Err() == nil { // a client that got a part sees that its last frame is cut off, and asks again
		s.Log.Debug("deltas not sent whole", "model", cache.Name, "version", base, "error", err)
	}
	return nil
}

// awaitDeltas returns the deltas after one, nil if none has come in time.
func (s *Server) awaitDeltas(w http.ResponseWriter, r *http.Request, cache *modelCache, base, after int64,
	wait time.Duration) (io.ReadCloser, error) {
	select {
	case s.polls <- struct{}{}:
		defer func() { <-s.polls }()
	default:
		return nil, request.Busy("too many clients wait")
	}
	// The deadline of the answer begins when the wait ends. A writer without deadlines, as in tests, has nothing to
	// move on.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	stream, err := snapshot.DirSource{Dir: cache.Dir, Every: pollEvery}.Deltas(ctx, cache.Name, base, after)
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		return nil, nil
	}
	return stream, err
}

// deltasOf returns the query of a request for deltas.
func deltasOf(r *http.Request) (base, after int64, wait time.Duration, err error) {
	q := r.URL.Query()
	if base, err = strconv.ParseInt(q.Get("base"), 10, 64); err != nil || base < 1 {
		return 0, 0, 0, request.BadRequest("base is the version whose deltas are asked for, from 1")
	}
	if !q.Has("after") {
		q.Set("after", "0")
	}
	if after, err = strconv.ParseInt(q.Get("after"), 10, 64); err != nil || after < 0 {
		return 0, 0, 0, request.BadRequest("after is the number of a delta, or 0 for the version itself")
	}
	wait, err = waitOf(q)
	return base, after, wait, err
}

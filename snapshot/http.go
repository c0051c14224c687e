package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// HTTPSource is a Source that asks a refitd daemon:
//
//	GET <URL>/v1/models/{model}/aliases/{alias}?after=<version>&wait=30s&renewed=<time>    a Pointer as JSON, or 304 if it is still that of If-None-Match
//	GET <URL>/v1/models/{model}/versions/{version}/files/{name}
//	GET <URL>/v1/models/{model}/deltas?base=<version>&after=<sequence>&wait=30s    whole frames, none if there was no news
type HTTPSource struct {
	URL string // of the daemon, as https://refitd.example:8080
	// Client carries credentials and TLS settings; nil is http.DefaultClient. Its Timeout, if any, has to be longer
	// than Wait.
	Client *http.Client
	Header http.Header // sent with each request, for instance Authorization; nil is none
	// LongPoll is how long the daemon is asked to hold a request that has no news yet; 0 is 30 s.
	LongPoll time.Duration
}

// longPoll is the default of LongPoll; patience is how much longer an answer may take before it is given up, and
// download how long a file may take: 256 MiB at 4 Mbit/s.
const (
	longPoll = 30 * time.Second
	patience = 30 * time.Second
	download = 10 * time.Minute
)

// maxAnswerBytes bounds the JSON answer about an alias.
const maxAnswerBytes = 64 << 10

// Wait asks the daemon for an alias, and waits there for a change.
func (s HTTPSource) Wait(ctx context.Context, model, alias string, last pointer.Pointer) (pointer.Pointer, error) {
	hold := s.hold()
	ctx, cancel := context.WithTimeout(ctx, hold+patience)
	defer cancel()
	query := ""
	if last.Version != 0 {
		query = "?after=" + strconv.FormatInt(last.Version, 10) + "&wait=" + url.QueryEscape(hold.String()) +
			"&renewed=" + url.QueryEscape(last.Renewal.Renewed.UTC().Format(time.RFC3339Nano))
	}
	answer, err := s.get(ctx, query, last.ETag(), "models", model, "aliases", alias)
	if err != nil {
		return pointer.Pointer{}, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNotModified {
		return last, nil
	}
	b, err := disk.ReadAtMost(answer.Body, "alias "+alias, maxAnswerBytes)
	if err != nil {
		return pointer.Pointer{}, err
	}
	var p pointer.Pointer
	if err := json.Unmarshal(b, &p); err != nil {
		return pointer.Pointer{}, fmt.Errorf("alias %s: %w: %v", alias, disk.ErrFormat, err)
	}
	return p, nil
}

// File downloads a file of a version.
func (s HTTPSource) File(ctx context.Context, model string, version int64, name string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, download)
	answer, err := s.get(ctx, "", "", "models", model, "versions", strconv.FormatInt(version, 10), "files", name)
	if err != nil {
		cancel()
		return nil, err
	}
	return body{answer.Body, cancel}, nil
}

// Deltas asks the daemon for the deltas of a version, and waits there for the next one.
func (s HTTPSource) Deltas(ctx context.Context, model string, version, after int64) (io.ReadCloser, error) {
	hold := s.hold()
	ctx, cancel := context.WithCancel(ctx)
	limit := time.AfterFunc(hold+patience, cancel)
	query := fmt.Sprintf("?base=%d&after=%d&wait=%s", version, after, url.QueryEscape(hold.String()))
	answer, err := s.get(ctx, query, "", "models", model, "deltas")
	if err != nil {
		limit.Stop()
		cancel()
		return nil, err
	}
	limit.Reset(download)
	return body{answer.Body, func() { limit.Stop(); cancel() }}, nil
}

// hold returns LongPoll or its default.
func (s HTTPSource) hold() time.Duration {
	if s.LongPoll <= 0 {
		return longPoll
	}
	return s.LongPoll
}

// body is an answer that ends the time limit of its request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// get sends a request and returns an answer of status 200 or 304, whose body the caller closes. It returns ErrNotFound
// and ErrChain.
func (s HTTPSource) get(ctx context.Context, query, etag string, path ...string) (*http.Response, error) {
	target, err := url.JoinPath(s.URL, append([]string{"v1"}, path...)...)
	if err != nil {
		return nil, fmt.Errorf("url %q: %w", s.URL, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target+query, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range s.Header {
		request.Header[name] = values
	}
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	client := s.Client
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusNotModified:
		return answer, nil
	case http.StatusNotFound:
		err = fmt.Errorf("%w: %w", disk.ErrNotFound, fs.ErrNotExist)
	case http.StatusConflict, http.StatusGone: // of deltas that do not follow
		err = disk.ErrChain
	default:
		err = errors.New("unexpected answer")
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 200)) // says more, where it can be read
	return nil, errors.Join(fmt.Errorf("GET %s: status %d: %w: %q", target, answer.StatusCode, err, text),
		answer.Body.Close())
}

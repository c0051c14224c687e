package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/backoff"
)

// rest makes the requests of a store that is spoken to by HTTP alone, again while the store says that it is busy.
type rest struct {
	place  string // for errors, with a slash at its end
	client *http.Client
	// authorize adds to each try what proves who asks. refused, if not nil, is called after a store did not take it.
	authorize func(*http.Request) error
	refused   func()
}

const (
	tries     = 5
	firstWait = 200 * time.Millisecond
	mostWait  = 2 * time.Second
)

func newRest(place string) rest {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // files are compressed, and a length says what is missing
	return rest{place: place, client: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// stay follows no redirection: what proves who asks is for the store alone.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// a request is one of a store. limit bounds the answer.
type request struct {
	op, key     string // for errors
	method, url string
	header      map[string]string
	content     []byte
	limit       int64
	ok          []int // statuses that are no errors
}

// do returns the answer to a request, with its body. Its status is one of those that are no errors.
func (r *rest) do(ctx context.Context, q *request) (*http.Response, []byte, error) {
	for failures := 1; ; failures++ {
		answer, body, again, err := r.once(ctx, q)
		if err == nil {
			for _, status := range q.ok {
				if answer.StatusCode == status {
					return answer, body, nil
				}
			}
			again, err = false, refusal(answer, body)
			switch answer.StatusCode {
			case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
				http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
				again = true
			case http.StatusUnauthorized:
				if again = r.refused != nil && failures == 1; again {
					r.refused()
				}
			}
		}
		if !again || failures == tries || backoff.Sleep(ctx, backoff.Wait(failures, firstWait, mostWait)) != nil {
			return nil, nil, fmt.Errorf("%s %s%s: %w", q.op, r.place, q.key, err)
		}
	}
}

// list returns the keys that all pages of a list name, without a prefix. decode returns what a page names, and the
// marker of the next one, which the parameter marker asks for; empty for none.
func (r *rest) list(ctx context.Context, at, prefix, without, marker string, query url.Values,
	decode func(page []byte) (names []string, next string, err error)) (keys []string, err error) {
	for {
		_, body, err := r.do(ctx, &request{op: "LIST", key: prefix, method: http.MethodGet, limit: maxListBytes,
			url: at + "?" + query.Encode(), ok: []int{http.StatusOK}})
		if err != nil {
			return nil, err
		}
		names, next, err := decode(body)
		if err != nil {
			return nil, fmt.Errorf("LIST %s%s: %w", r.place, prefix, err)
		}
		for _, name := range names {
			keys = append(keys, strings.TrimPrefix(name, without))
		}
		if next == "" {
			return keys, nil
		}
		query.Set(marker, next)
	}
}

// maxRefusalBytes bounds what is read of an answer that refuses: proxies send pages.
const maxRefusalBytes = 64 << 10

// once makes a request. again says whether one more may go better.
func (r *rest) once(ctx context.Context, q *request) (_ *http.Response, _ []byte, again bool, _ error) {
	p := paced(ctx, len(q.content))
	defer p.stop()
	ask, err := http.NewRequestWithContext(p.ctx, q.method, q.url, bytes.NewReader(q.content))
	if err != nil {
		return nil, nil, false, bare(err)
	}
	ask.Header.Set("User-Agent", "refitd")
	for name, value := range q.header {
		ask.Header.Set(name, value)
	}
	if err := r.authorize(ask); err != nil {
		return nil, nil, false, err
	}
	answer, err := r.client.Do(ask)
	if err != nil {
		err = p.explain(bare(err))
		return nil, nil, !errors.Is(err, errSlow), err
	}
	defer answer.Body.Close()
	limit := q.limit
	if !slices.Contains(q.ok, answer.StatusCode) {
		limit = max(limit, maxRefusalBytes)
	}
	body, err := p.read(answer.Body, limit)
	return answer, body, !errors.Is(err, snapshot.ErrFormat) && !errors.Is(err, errSlow), err
}

// bare returns an error without the URL, whose parameters may prove who asks.
func bare(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// refusal returns the error of a status. Stores give its reason in a header (Azure) or in the body (Google).
func refusal(answer *http.Response, body []byte) error {
	reason := answer.Header.Get("X-Ms-Error-Code")
	switch {
	case answer.StatusCode == http.StatusPreconditionFailed, reason == "BlobAlreadyExists":
		return fmt.Errorf("%w: another writer was there first", snapshot.ErrConflict)
	case answer.StatusCode == http.StatusNotFound && reason != "ContainerNotFound" &&
		!bytes.Contains(body, []byte("bucket does not exist")):
		return fs.ErrNotExist
	case answer.StatusCode == http.StatusNotFound:
		return errors.New("the bucket does not exist")
	}
	return fmt.Errorf("status %s %.100s", answer.Status, reason)
}

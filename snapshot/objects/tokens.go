package objects

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

// tokens proves by a bearer token who asks. One is used until it is about to expire or a store refuses it, and for the
// rest of its life while the issuer gives no other.
type tokens struct {
	fetch func(context.Context) (*oauth2.Token, error)

	mu   sync.Mutex
	last *oauth2.Token
}

const (
	renewBefore   = 2 * time.Minute
	issuerTimeout = 5 * time.Second
)

// errPlain means that a token would be sent for everyone to read.
var errPlain = errors.New("the endpoint is not https: a token is not sent there")

func (t *tokens) authorize(r *http.Request) error {
	if ip := net.ParseIP(r.URL.Hostname()); r.URL.Scheme != "https" && (ip == nil || !ip.IsLoopback()) {
		return errPlain
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil || !t.last.Expiry.IsZero() && time.Until(t.last.Expiry) < renewBefore {
		client := &http.Client{Timeout: issuerTimeout, CheckRedirect: stay}
		next, err := t.fetch(context.WithValue(r.Context(), oauth2.HTTPClient, client))
		switch {
		case err == nil:
			t.last = next
		case t.last == nil || !t.last.Valid():
			return fmt.Errorf("no token: %w", explain(err))
		}
	}
	t.last.SetAuthHeader(r)
	return nil
}

func (t *tokens) refused() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = nil
}

var statusForm = regexp.MustCompile(`status code \d+`)

// explain says what an issuer answered, without the body of the answer: nobody knows what is in it.
func explain(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil {
		return fmt.Errorf("the issuer answers with status %d %.100q", refused.Response.StatusCode, refused.ErrorCode)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	if status := statusForm.FindString(err.Error()); status != "" {
		return errors.New("the issuer answers with " + status)
	}
	return err
}

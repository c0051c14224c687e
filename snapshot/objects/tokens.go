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

	mu    sync.Mutex
	last  *oauth2.Token
	tried time.Time // when it was last fetched
}

const (
	renewBefore   = 2 * time.Minute
	renewPause    = 10 * time.Second // between tries while the token in use is valid
	issuerTimeout = 5 * time.Second
)

// errPlain means that a token would be sent for everyone to read.
var errPlain = errors.New("the endpoint is not https: a token is not sent there")

func refusePlain(u *url.URL) error {
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && (ip == nil || !ip.IsLoopback()) {
		return errPlain
	}
	return nil
}

func (t *tokens) authorize(r *http.Request) error {
	if err := refusePlain(r.URL); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	isValid := t.last.Valid()
	if isStale := t.last == nil || !t.last.Expiry.IsZero() && time.Until(t.last.Expiry) < renewBefore; !isValid ||
		isStale && time.Since(t.tried) > renewPause {
		ctx := r.Context()
		if isValid { // the request need not wait for long
			limited, cancel := context.WithTimeout(ctx, issuerTimeout)
			defer cancel()
			ctx = limited
		}
		client := &http.Client{Timeout: issuerTimeout, CheckRedirect: stay}
		next, err := t.fetch(context.WithValue(ctx, oauth2.HTTPClient, client))
		t.tried = time.Now()
		switch {
		case err == nil:
			t.last = next
		case !isValid: // not wrapped: a file of a token that is not there is no object that is not there
			return fmt.Errorf("no token: %v", explain(err))
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

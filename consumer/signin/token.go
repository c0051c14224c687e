package signin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// maxTokenBytes bounds a token: brokers take no longer ones by default.
const maxTokenBytes = 64 << 10

// tokenForm is what a bearer token consists of (RFC 6750, b64token).
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// TokenFile returns tokens from a file, which is read for each sign-in: what renews it, as Kubernetes does with
// projected tokens, needs no restart.
func TokenFile(path string) Tokens {
	return func(context.Context) (string, error) {
		token, err := readToken(path)
		if err != nil {
			return "", &Unavailable{"token", fmt.Errorf("token_file %s: %w", path, err)}
		}
		return token, nil
	}
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	if err != nil {
		return "", err
	}
	return sound(strings.TrimSpace(string(b)))
}

// sound returns a token unless brokers could not read it. The error is without it.
func sound(token string) (string, error) {
	switch {
	case token == "":
		return "", errors.New("it is empty")
	case len(token) > maxTokenBytes:
		return "", fmt.Errorf("it has more than %d bytes", maxTokenBytes)
	case !tokenForm.MatchString(token):
		return "", errors.New("it has other characters than a bearer token")
	}
	return token, nil
}

// A Client asks an issuer for tokens by the credentials of a client (OAuth 2).
type Client struct {
	TokenURL string
	ID       string
	Secret   func() (string, error) // called for each token, so that a secret can be renewed
	Scopes   []string
	HTTP     *http.Client // nil is one that waits 5 s for an answer and follows no redirection
}

// issuerTimeout bounds how long an issuer may take, and issuerPause is the least time between two tries while the
// token there is is still valid.
const (
	issuerTimeout = 5 * time.Second
	issuerPause   = time.Second
)

// Tokens returns tokens of the issuer. One is used until half of its life is over, and for the rest of it while the
// issuer gives no other.
func (c Client) Tokens() Tokens {
	if c.HTTP == nil {
		c.HTTP = &http.Client{Timeout: issuerTimeout, CheckRedirect: stay}
	}
	return (&issued{client: c, now: time.Now}).token
}

// stay follows no redirection: a secret is for the issuer alone.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// issued keeps the last token of an issuer.
type issued struct {
	client Client
	now    func() time.Time

	mu    sync.Mutex
	last  *oauth2.Token
	half  time.Time // another one is asked for from then on
	tried time.Time
}

func (i *issued) token(ctx context.Context) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	valid := i.last != nil && (i.last.Expiry.IsZero() || now.Before(i.last.Expiry))
	if valid && (now.Before(i.half) || now.Sub(i.tried) < issuerPause) {
		return i.last.AccessToken, nil
	}
	i.tried = now
	next, err := i.client.fetch(ctx)
	switch {
	case err == nil:
		i.last, i.half = next, now.Add(next.Expiry.Sub(now)/2)
		if next.Expiry.IsZero() {
			i.half = now // an issuer that does not say how long: one token a sign-in
		}
	case valid:
		return i.last.AccessToken, nil
	default:
		return "", &Unavailable{"token", err}
	}
	return i.last.AccessToken, nil
}

func (c *Client) fetch(ctx context.Context) (*oauth2.Token, error) {
	secret, err := c.Secret()
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, c.HTTP)
	token, err := (&clientcredentials.Config{
		ClientID: c.ID, ClientSecret: secret, TokenURL: c.TokenURL, Scopes: c.Scopes,
	}).Token(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	if _, err := sound(token.AccessToken); err != nil {
		return nil, fmt.Errorf("token of token_url %s: %w", c.TokenURL, err)
	}
	return token, nil
}

// explain says what an issuer answered, without the body of the answer: nobody knows what is in it.
func (c *Client) explain(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil {
		return fmt.Errorf("token_url %s answers with status %d %.100q", c.TokenURL, refused.Response.StatusCode,
			refused.ErrorCode)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("token_url %s: %w", c.TokenURL, failed.Err)
	}
	return fmt.Errorf("token_url %s gives no token", c.TokenURL)
}

package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/snapshot"
)

// Notice is the body of a request.
type Notice struct {
	// the same in every attempt: of another daemon on the same store, and after a crash
	ID        string    `json:"id"`
	Type      string    `json:"type"`      // version.promoted, version.rejected or partition.halted
	Timestamp time.Time `json:"timestamp"` // when it happened
	Data      Data      `json:"data"`
}

// Data is what a notice is about.
type Data struct {
	Model     string `json:"model"`
	Version   int64  `json:"version,omitempty"`   // of a version
	Digest    string `json:"digest,omitempty"`    // of its manifest
	Topic     string `json:"topic,omitempty"`     // of a halt
	Partition *int32 `json:"partition,omitempty"` // of a halt
	Offset    *int64 `json:"offset,omitempty"`    // of a halt: read next once an operator has decided
	Reason    string `json:"reason"`              // for people
}

// ofVersion returns the notice of a version, nil for an update: an update follows a refit every few seconds.
func ofVersion(m *snapshot.Manifest) *Notice {
	kind := Rejected
	switch {
	case m.Kind == curves.Update:
		return nil
	case m.Decision == curves.Promoted:
		kind = Promoted
	}
	return &Notice{ID: idOf(kind, m.Model, m.Digest), Type: kind, Timestamp: m.Created,
		Data: Data{Model: m.Model, Version: m.Version, Digest: m.Digest, Reason: bounded(m.Reason)}}
}

// ofHalt returns the notice of a halt.
func ofHalt(model string, h *Halt, now time.Time) *Notice {
	now = now.UTC().Truncate(time.Millisecond)
	return &Notice{ID: idOf(Halted, model, h.key(), now.Format(time.RFC3339Nano)), Type: Halted, Timestamp: now,
		Data: Data{Model: model, Topic: h.Topic, Partition: &h.Partition, Offset: &h.Offset, Reason: bounded(h.Reason)}}
}

func bounded(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxReason)], "") }

// key names a halt.
func (h *Halt) key() string { return fmt.Sprintf("%s/%d@%d", h.Topic, h.Partition, h.Offset) }

// idOf returns an id that depends on what a notice is about alone.
func idOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "msg_" + hex.EncodeToString(sum[:12])
}

// sign returns the signature of a request.
func sign(secret []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// An answerError is an answer that is no success.
type answerError struct {
	host   string
	status int
}

func (e *answerError) Error() string { return fmt.Sprintf("notify: %s answered %d", e.host, e.status) }

// newClient returns a client that sends a request to its URL and follows no redirection.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxAnswer
	return &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// unread returns the error of a request without the URL that it begins with, and without what was answered, which
// net/http quotes where it cannot be read.
func unread(err error) error {
	for of, ok := errors.AsType[*url.Error](err); ok; of, ok = errors.AsType[*url.Error](err) {
		err = of.Err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return errors.New(bounded(err.Error()))
	}
	if text := err.Error(); strings.Contains(text, `"`) || len(text) > maxReason {
		return errors.New("the answer cannot be read")
	}
	return err
}

// send posts a notice. The error names neither the path of the URL nor what was answered: both may hold what is
// nobody's business.
func (n *Notifier) send(ctx context.Context, notice *Notice) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	body, err := json.Marshal(notice)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("notify: the URL cannot be used")
	}
	timestamp := strconv.FormatInt(n.now().Unix(), 10)
	for name, value := range map[string]string{"Content-Type": "application/json", "User-Agent": "refitd",
		"webhook-id":        notice.ID,
		"webhook-timestamp": timestamp, "webhook-signature": sign(n.Secret, notice.ID, timestamp, body)} {
		r.Header.Set(name, value)
	}
	answer, err := n.Client.Do(r)
	if err != nil {
		return fmt.Errorf("notify: %s: %w", r.URL.Host, unread(err))
	}
	defer answer.Body.Close()
	defer time.AfterFunc(bodyTimeout, cancel).Stop()
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer) // so that the connection can be used again
	if answer.StatusCode/100 != 2 {
		return &answerError{r.URL.Host, answer.StatusCode}
	}
	return nil
}

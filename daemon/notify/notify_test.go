package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

const model = "ratings"

// bench is a store, a state, and a service that receives the notices.
type bench struct {
	*testing.T
	store   *publish.Store
	path    string
	halts   []Halt
	mu      sync.Mutex          // guards what follows but for log
	answer  func() (int, error) // what the service does
	status  func(*Notice) int   // the same by notice, in place of it, 0 for no answer; nil without
	got     []Notice
	results map[string]int
	pending int
	log     strings.Builder
}

func newBench(t *testing.T) *bench {
	return &bench{
		T:       t,
		store:   publish.NewStore(t.TempDir()),
		path:    filepath.Join(t.TempDir(), "notices.json"),
		results: make(map[string]int),
		answer:  func() (int, error) { return http.StatusNoContent, nil },
	}
}

var secret = []byte("0123456789abcdef01234567")

// RoundTrip is the service.
func (b *bench) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var n Notice
	if err := json.Unmarshal(body, &n); err != nil {
		b.Errorf("%v in %s", err, body)
	}
	id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	if want := sign(secret, id, at, body); r.Header.Get("webhook-signature") != want || id != n.ID ||
		r.Method != "POST" {
		b.Errorf("%s, header %v, body %s: the signature is %s", r.Method, r.Header, body, want)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	status, err := b.answer()
	if err != nil {
		return nil, err
	}
	if b.status != nil {
		if status = b.status(&n); status == 0 {
			return nil, io.ErrUnexpectedEOF
		}
	}
	if status/100 == 2 {
		b.got = append(b.got, n)
	}
	return &http.Response{
		StatusCode: status,
		Header:     http.Header{"Location": {"http://elsewhere.example.org/"}},
		Body:       io.NopCloser(strings.NewReader("hello")),
		Request:    r,
	}, nil
}

// open is a start of the daemon.
func (b *bench) open() *Notifier {
	client := newClient()
	client.Transport = b
	return New(
		Options{
			Model:  model,
			URL:    "https://hooks.example.org/T0KEN?key=T0KEN",
			Secret: secret,
			Path:   b.path,
			Store:  b.store,
			Client: client,
			Halts:  func() []Halt { return b.halts },
			Log:    slog.New(slog.NewTextHandler(&b.log, nil)),
			OnResult: func(result string, pending int) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if result != "" {
					b.results[result]++
				}
				b.pending = pending
			},
		},
	)
}

// publish makes the next version.
func (b *bench) publish(kind, decision string) {
	b.Helper()
	c := &format.Contents{Kernel: format.ANOVA, Link: format.Identity, NumFeatures: 2, NumOutputs: 1,
		Schema: snapshot.Schema{
			Task:        format.Regression,
			Label:       "y",
			Categorical: []string{"id"},
		}, Vocabulary: [][]string{{"a", "b"}},
		Linear: []float64{
			float64(time.Now().Nanosecond()),
			1,
		}, Bias: []float64{0.5}, Golden: []format.Golden{{Input: snapshot.Input{Categorical: []string{"a"}}}},
		Meta: format.Meta{Writer: "test", Kind: kind, Decision: decision, Reason: "because", Created: time.Now()}}
	if _, err := b.store.Publish(b.Context(), model, c); err != nil {
		b.Fatal(err)
	}
}

// received returns the notices that the service has received, as words.
func (b *bench) received() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.got {
		if n.Data.Model != model || n.Data.Reason == "" || n.Timestamp.IsZero() {
			b.Errorf("notice %+v", n)
		}
		if n.Type == Halted {
			list = append(list, fmt.Sprint(n.Type, " ", n.Data.Topic, "/", *n.Data.Partition, "@", *n.Data.Offset))
			continue
		}
		if !strings.HasPrefix(n.Data.Digest, "sha256:") {
			b.Errorf("digest %q", n.Data.Digest)
		}
		list = append(list, fmt.Sprint(n.Type, " ", n.Data.Version))
	}
	return list
}

func (b *bench) want(list ...string) {
	b.Helper()
	if got := b.received(); !reflect.DeepEqual(got, list) {
		b.Errorf("received %q, want %q\n%s", got, list, b.log.String())
	}
}

// sent has what is due sent, and reports whether nothing is left.
func (n *Notifier) sent(t *testing.T) bool {
	n.deliver(t.Context(), n.due())
	return len(n.queue.Pending) == 0
}

// TestSignature: the example of the Standard Webhooks specification's own libraries.
func TestSignature(t *testing.T) {
	key := []byte("\x31\xf2\x90\xf6\xbf\x06\x29\x8a\xab\x4f\x08\xd4\x3c\x3f\x08\x2c\xf6\x48\xa3\x62\xda\x2d\xa4\xb0")
	got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBetweenLooks: all refits that were published since the last look are sent, in their order.
func TestBetweenLooks(t *testing.T) {
	b := newBench(t)
	b.publish("refit", "promoted")
	n := b.open()
	n.look(false)
	for _, decision := range []string{"kept", "promoted", "kept"} {
		b.publish("refit", decision)
		b.publish("update", "promoted")
	}
	n.look(false)
	if !n.sent(t) {
		t.Error("not delivered")
	}
	b.want("version.rejected 2", "version.promoted 4", "version.rejected 6")
}

// TestAtLeastOnce: what was published before a notifier knew of the model is not sent, all that comes after is,
// whenever the process dies; updates are not.
func TestAtLeastOnce(t *testing.T) {
	b := newBench(t)
	b.publish("refit", "promoted")
	b.open() // and dies
	b.publish("refit", "kept")
	b.publish("update", "promoted")
	n := b.open()
	n.look(false) // and dies with the notice in its file
	b.publish("refit", "promoted")
	n = b.open()
	b.answer = func() (int, error) { return 500, nil }
	n.look(false)
	if n.sent(t) {
		t.Error("an answer of 500 is a delivery")
	}
	b.answer = func() (int, error) { return 302, nil }
	if n.sent(t) {
		t.Error("a redirection is a delivery, or was followed")
	}
	b.want()
	b.answer = func() (int, error) { return 200, nil }
	n = b.open()
	if !n.sent(t) {
		t.Error("not delivered")
	}
	b.want("version.rejected 2", "version.promoted 4")
	n = b.open() // nothing is left
	n.look(true)
	n.sent(t)
	b.want("version.rejected 2", "version.promoted 4")
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	first := b.got[1].ID
	b.got = nil
	n = b.open()
	n.queue.Version = 3 // as if it had died before the file was written
	n.look(false)
	if n.sent(t); len(b.got) != 1 || b.got[0].ID != first {
		t.Errorf("the id of the same notice was %s, is %+v", first, b.got)
	}
}

// TestHalts: a halt is sent once it has lasted for a while, once; another one of the same partition is another notice.
func TestHalts(t *testing.T) {
	b := newBench(t)
	n := b.open()
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	n.now = func() time.Time { return at }
	look := func(after time.Duration, halts ...Halt) {
		at, b.halts = at.Add(after), halts
		n.look(false)
		n.sent(t)
	}
	h := Halt{Topic: "ratings", Partition: 3, Offset: 0, Reason: "the log begins behind it"}
	look(0, h)
	look(haltAfter-1, h)
	look(0) // it has read on
	look(0, h)
	look(haltAfter-1, h)
	b.want()
	look(1, h)
	look(time.Hour, h)
	b.want("partition.halted ratings/3@0")
	n = b.open()
	n.now = func() time.Time { return at }
	look(time.Hour, h)
	b.want("partition.halted ratings/3@0")
	n = b.open()
	n.now = func() time.Time { return at }
	look(0) // a process that begins halts once it has read
	look(goneAfter-1, h)
	look(time.Hour, h)
	b.want("partition.halted ratings/3@0")
	look(0)
	look(goneAfter)
	look(0, h)
	look(haltAfter, h)
	b.want("partition.halted ratings/3@0", "partition.halted ratings/3@0")
	if b.got[0].ID == b.got[1].ID {
		t.Error("two halts have one id")
	}
	b.halts = append(b.halts, Halt{Topic: "other", Offset: 7, Reason: "quarantined"})
	n.look(true) // the process ends
	n.sent(t)
	if list := b.received(); len(list) != 3 || list[2] != "partition.halted other/0@7" {
		t.Errorf("%q", list)
	}
}

// TestBounded: notices that nobody takes do not add up for ever; the newest stay.
func TestBounded(t *testing.T) {
	b := newBench(t)
	n := b.open()
	for i := range maxPending + 5 {
		n.add(&Notice{ID: fmt.Sprint(i), Type: Promoted, Data: Data{Reason: strings.Repeat("r", maxReason)}})
	}
	n.unkept = true
	n.look(false)
	if n = b.open(); len(n.queue.Pending) != maxPending || n.queue.Pending[0].ID != "5" || b.results[Dropped] != 5 ||
		b.pending != maxPending {
		t.Errorf("%d pending, %v", len(n.queue.Pending), b.results)
	}
	if text := bounded(strings.Repeat("é", maxReason)); len(text) != maxReason {
		t.Errorf("a reason of %d bytes", len(text))
	}
	if err := os.WriteFile(b.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n = b.open(); len(n.queue.Pending) != 0 || !strings.Contains(b.log.String(), "cannot be read") {
		t.Errorf("a damaged file: %d pending, log %s", len(n.queue.Pending), b.log.String())
	}
}

// TestRunTriesAgain: a service that is away for minutes is sent what happened while it was, in order, with pauses
// that grow; and neither path nor query of the URL get into the log.
func TestRunTriesAgain(t *testing.T) {
	b := newBench(t)
	synctest.Test(t, func(t *testing.T) {
		n := b.open()
		b.publish("refit", "promoted")
		began, attempts := time.Now(), 0
		b.answer = func() (int, error) {
			if attempts++; time.Since(began) < 10*time.Minute {
				return 0, &url.Error{Op: "Post", URL: n.URL, Err: errors.New("connection refused")}
			}
			return 200, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); n.Run(ctx) }()
		time.AfterFunc(2*time.Minute, func() { b.publish("refit", "kept") })
		time.AfterFunc(20*time.Minute, cancel)
		<-done
		if took := time.Since(began); took > 20*time.Minute+lastTimeout {
			t.Errorf("the end took %v", took)
		}
		if attempts < 8 || attempts > 20 || b.results[Failure] != attempts-2 || b.results[Success] != 2 ||
			b.pending != 0 {
			t.Errorf("%d attempts, %v, %d pending", attempts, b.results, b.pending)
		}
	})
	b.want("version.promoted 1", "version.rejected 2")
	if text := b.log.String(); strings.Contains(text, "T0KEN") || !strings.Contains(text, "hooks.example.org") ||
		strings.Count(text, "level=ERROR") != 1 {
		t.Errorf("log:\n%s", text)
	}
}

// TestDamagedQueue: what no run has kept in the file neither ends the notices nor holds up those that follow.
func TestDamagedQueue(t *testing.T) {
	for name, text := range map[string]string{
		"a version that is not there yet": `{"version": 1000000000000000, "pending": []}`,
		"a version below 0":               `{"version": -9223372036854775808, "halted": null}`,
		"no notice":                       `{"version": 1, "pending": [null]}`,
		"another type":                    `{"version": 1, "pending": [{"id": "a", "type": "version.lost"}]}`,
		"a halt of no partition":          `{"version": 1, "pending": [{"id": "a", "type": "partition.halted"}]}`,
		"an id that is no header":         `{"version": 1, "pending": [{"id": "a\r\nx: y", "type": "version.promoted"}]}`,
		"lists in lists":                  strings.Repeat("[", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.publish("refit", "promoted")
			if err := os.WriteFile(b.path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			n := b.open()
			b.publish("refit", "promoted")
			n.look(false)
			if !n.sent(t) {
				t.Errorf("%d notices wait", len(n.queue.Pending))
			}
			got := b.received()
			if len(got) == 0 || got[len(got)-1] != "version.promoted 2" {
				t.Errorf("received %q, want version 2", got)
			}
		})
	}
}

package notify

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnendingAnswer: the status of an answer counts. What comes of its body holds up neither this notice nor the next
// one, and an answer without an end is read no further than a bound.
func TestUnendingAnswer(t *testing.T) {
	b := newBench(t)
	synctest.Test(t, func(t *testing.T) {
		n := b.open()
		n.Client = &http.Client{Transport: endless{b}}
		for range 4 {
			b.publish("refit", "promoted")
		}
		n.look(false)
		begin := time.Now()
		n.deliver(t.Context(), n.inOrder())
		if took := time.Since(begin); took > 4*bodyTimeout {
			t.Errorf("four notices took %v", took)
		}
	})
	b.want("version.promoted 1", "version.promoted 2", "version.promoted 3", "version.promoted 4")
}

// endless gives the answers of a service bodies that never end: no byte comes, until the request is called off.
type endless struct{ *bench }

func (e endless) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := e.bench.RoundTrip(r)
	if err == nil {
		answer.Body = io.NopCloser(waiting{r.Context()})
	}
	return answer, err
}

type waiting struct{ context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.Done()
	return 0, w.Err()
}

// TestAnswersAreNobodysBusiness: what a service answers, which may repeat the URL with its token, is in no error, and
// neither is the URL: not from a redirection that cannot be followed, nor from an answer that is no HTTP.
func TestAnswersAreNobodysBusiness(t *testing.T) {
	long := strings.Repeat("token", 1<<20)
	answers := map[string]string{
		"a redirection to nowhere": "HTTP/1.1 302 Found\r\nLocation: http://x/%zz?token=sesame\r\n\r\n",
		"no HTTP":                  "/hook?token=sesame\r\n\r\n",
		"a status without digits":  "HTTP/1.1 sesame Found\r\n\r\n",
		"a head without a colon":   "HTTP/1.1 200 OK\r\nsesame\r\n\r\n",
		"a length without digits":  "HTTP/1.1 200 OK\r\nContent-Length: sesame\r\n\r\n",
		"an unknown encoding":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: sesame\r\n\r\n",
		"a line without an end":    long,
		"a head without an end":    "HTTP/1.1 200 OK\r\nX: " + long,
		"nothing":                  "",
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			server := newRaw(t, answer)
			b := newBench(t)
			n := b.open()
			n.Client, n.URL = newClient(), fmt.Sprintf("http://user:sesame@%s/sesame?token=sesame", server)
			err := n.send(t.Context(), &Notice{ID: "1", Type: Promoted})
			if err == nil || strings.Contains(err.Error(), "sesame") || len(err.Error()) > 2*maxReason {
				t.Errorf("%.2000v", err)
			}
		})
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	b := newBench(t)
	n := b.open()
	n.Client, n.URL = newClient(), strings.Replace(server.URL, "https://", "https://user:sesame@", 1)+"/?token=sesame"
	err := n.send(t.Context(), &Notice{ID: "1", Type: Promoted})
	if err == nil || strings.Contains(err.Error(), "sesame") || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// newRaw returns the address of a server that reads a request and answers with a text.
func newRaw(t *testing.T, text string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = conn.Write([]byte(text))
			}()
		}
	}()
	return listener.Addr().String()
}

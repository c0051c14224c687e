package registry

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/consumer/registry/registrytest"
)

// answers are what a registry says, by path; anything else is not found.
type answers map[string]string

// RoundTrip answers without a network.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	body, ok := a[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = w.WriteString(body)
	return w.Result(), nil
}

// ask asks until there is an answer or a trouble.
func ask(t *testing.T, c *Client, id framing.ID) (*event.Writer, string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		w, trouble := c.Ask(id)
		if w != nil || trouble != "" {
			return w, trouble
		}
		if time.Now().After(deadline) {
			t.Fatal("no answer")
		}
		runtime.Gosched()
	}
}

// TestAnswers: schemas of every kind of ID, with what they refer to in the order in which they need it.
func TestAnswers(t *testing.T) {
	seven := framing.ID{Kind: framing.NumberID, Number: 7}
	guid := framing.ID{Kind: framing.GUIDID, GUID: [16]byte{0x0f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
	diamond := answers{
		"/r/schemas/ids/7":           `{"schema":"S","references":[{"name":"a","subject":"A/x","version":2},{"name":"b","subject":"B","version":1}]}`,
		"/r/subjects/A/x/versions/2": `{"schema":"TA","references":[{"name":"c","subject":"C","version":1}]}`,
		"/r/subjects/B/versions/1":   `{"schema":"TB","references":[{"name":"c","subject":"C","version":1}]}`,
		"/r/subjects/C/versions/1":   `{"schema":"TC"}`,
	}
	apicurio := answers{
		"/apis/registry/v2/ids/globalIds/7":                       `syntax = "proto3";`,
		"/apis/registry/v2/ids/globalIds/7/references":            `[{"name":"a.proto","groupId":null,"artifactId":"a","version":"1"}]`,
		"/apis/registry/v2/groups/default/artifacts/a/versions/1": `TA`,

		"/apis/registry/v2/groups/default/artifacts/a/versions/1/references": `[{"name":"b.proto","groupId":"g","artifactId":"b",` +
			`"version":"2"},{"name":"a.proto","artifactId":"a","version":"1"}]`,
		"/apis/registry/v2/groups/g/artifacts/b/versions/2": `TB`,

		"/apis/registry/v2/ids/contentIds/8":            `{"type":"string"}`,
		"/apis/registry/v2/ids/contentIds/8/references": `[]`,
	}
	many := answers{}
	for i := range 20 {
		many[fmt.Sprintf("/r/subjects/%d/versions/1", i)] =
			fmt.Sprintf(`{"schema":"T","references":[{"name":"%d","subject":"%d","version":1}]}`, i+1, i+1)
	}
	many["/r/schemas/ids/7"] = `{"schema":"S","references":[{"name":"0","subject":"0","version":1}]}`
	for name, c := range map[string]struct {
		url     string
		answers answers
		id      framing.ID
		want    string // format, text, names of the references
		trouble string
	}{
		"Avro":         {"http://h/r/", answers{"/r/schemas/ids/7": `{"schema":"S"}`}, seven, "avro S", ""},
		"Protobuf":     {"http://h/r", answers{"/r/schemas/ids/7": `{"schema":"S","schemaType":"PROTOBUF"}`}, seven, "protobuf S", ""},
		"JSON Schema":  {"http://h/r", answers{"/r/schemas/ids/7": `{"schema":"S","schemaType":"JSON"}`}, seven, "json_schema S", ""},
		"another type": {"http://h/r", answers{"/r/schemas/ids/7": `{"schema":"S","schemaType":"XML"}`}, seven, "", `type "XML"`},
		"a GUID": {"http://h/r", answers{"/r/schemas/guids/0f010203-0405-0607-0809-0a0b0c0d0e0f": `{"schema":"S"}`}, guid,
			"avro S", ""},
		"references":         {"http://h/r", diamond, seven, "avro S c a b", ""},
		"references of many": {"http://h/r", many, seven, "", "deeper than"},
		"not found":          {"http://h/r", answers{}, seven, "", "http://h/r/schemas/ids/7: status 404"},
		"no JSON":            {"http://h/r", answers{"/r/schemas/ids/7": `<html>`}, seven, "", "no JSON"},
		"no schema":          {"http://h/r", answers{"/r/schemas/ids/7": `{"schema":null}`}, seven, "", "without a schema"},
		"another object":     {"http://h/r", answers{"/r/schemas/ids/7": `{"message":"hello"}`}, seven, "", "without a schema"},
		"a page for Apicurio": {"http://h/apis/registry/v2", answers{"/apis/registry/v2/ids/globalIds/7": `<html>`,
			"/apis/registry/v2/ids/globalIds/7/references": `[]`}, framing.ID{Kind: framing.GlobalID, Number: 7}, "", "no schema"},
		"too much":             {"http://h/r", answers{"/r/schemas/ids/7": strings.Repeat(" ", 5000)}, seven, "", "more than"},
		"Apicurio's global ID": {"http://h/apis/ccompat/v7", apicurio, framing.ID{Kind: framing.GlobalID, Number: 7}, `protobuf syntax = "proto3"; b.proto a.proto`, ""},
		"Apicurio's content":   {"http://h/apis/registry/v2", apicurio, framing.ID{Kind: framing.ContentID, Number: 8}, `avro {"type":"string"}`, ""},
		"Glue":                 {"http://h/r", answers{}, framing.ID{Kind: framing.GlueID}, "", "input.schema_file"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := New(Options{URL: c.url, Timeout: time.Second, MaxBytes: 2000, Transport: c.answers})
			defer client.Close()
			w, trouble := ask(t, client, c.id)
			got := ""
			if w != nil {
				got = w.Format + " " + w.Text
				for _, r := range w.References {
					got += " " + r.Name
				}
			}
			if got != c.want || c.trouble == "" != (trouble == "") || !strings.Contains(trouble, c.trouble) {
				t.Errorf("%s: %q, %q", name, got, trouble)
			}
			if _, failures := client.Counts(); failures == 0 && strings.Contains(trouble, "an answer") {
				t.Errorf("%s: %d requests failed, %q", name, failures, trouble)
			}
		})
	}
}

// away is a registry that is away for some requests.
type away struct {
	answers
	requests, until int
}

func (a *away) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.requests++; a.requests <= a.until {
		return nil, fmt.Errorf("connection refused")
	}
	return a.answers.RoundTrip(r)
}

// TestBackOff: a registry that is away is asked less and less often, and once when it is back.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{answers: answers{"/schemas/ids/7": `{"schema":"S"}`}, until: 30}
		c := New(Options{URL: "http://h", Timeout: time.Second, MaxBytes: 1000, Transport: a})
		defer c.Close()
		began, id := time.Now(), framing.ID{Kind: framing.NumberID, Number: 7}
		for {
			w, trouble := c.Ask(id)
			if w != nil {
				break
			}
			if trouble != "" && trouble != "http://h/schemas/ids/7: connection refused" {
				t.Fatal(trouble)
			}
			time.Sleep(100 * time.Millisecond)
		}
		took := time.Since(began)
		requests, failures := c.Counts()
		if requests != 31 || failures != 30 || took < 8*time.Minute || took > 15*time.Minute {
			t.Errorf("%d requests, %d failures in %v", requests, failures, took)
		}
	})
}

// TestSignIn: credentials go to the registry over TLS, never to where it redirects, and are in no error.
func TestSignIn(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "")
	}))
	defer other.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case strings.HasSuffix(r.URL.Path, "/9"):
			http.Redirect(w, r, other.URL, http.StatusFound)
		case user == "ann" && password == "s3:cret" || r.Header.Get("Authorization") == "Bearer t0ken":
			_, _ = fmt.Fprint(w, `{"schema":"S"}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	trusted := &tls.Config{RootCAs: roots}
	for name, c := range map[string]struct {
		options Options
		number  uint64
		trouble string
	}{
		"a password":      {Options{TLS: trusted, BasicAuth: "ann:s3:cret"}, 7, ""},
		"a token":         {Options{TLS: trusted, Token: "t0ken"}, 7, ""},
		"another one":     {Options{TLS: trusted, BasicAuth: "ann:wr0ng"}, 7, "status 401"},
		"no trust":        {Options{BasicAuth: "ann:s3:cret"}, 7, "certificate"},
		"to another host": {Options{TLS: trusted, BasicAuth: "ann:s3:cret"}, 9, "status 302"},
	} {
		o := c.options
		o.URL, o.Timeout, o.MaxBytes = server.URL, 10*time.Second, 1000
		client := New(o)
		w, trouble := ask(t, client, framing.ID{Kind: framing.NumberID, Number: c.number})
		client.Close()
		if (w == nil) != (c.trouble != "") || !strings.Contains(trouble, c.trouble) ||
			strings.Contains(trouble, "s3:cret") || strings.Contains(trouble, "wr0ng") {
			t.Errorf("%s: %v, %q", name, w, trouble)
		}
	}
	if leaked.Load() {
		t.Error("credentials went to another host")
	}
}

// TestRegister: a schema gets an ID, an equal one the same; what the registry says against one is in the error.
func TestRegister(t *testing.T) {
	server := registrytest.New(t)
	c := New(Options{URL: server.URL, Timeout: 10 * time.Second, MaxBytes: 1000})
	defer c.Close()
	for i, w := range []event.Writer{{Format: event.FormatAvro, Text: `"int"`}, {Format: event.FormatProtobuf, Text: `"int"`},
		{Format: event.FormatAvro, Text: `"int"`}} {
		id, err := c.Register(t.Context(), "a/b", &w)
		if err != nil || int(id) != 1+i%2 {
			t.Errorf("%d: ID %d, %v", i, id, err)
		}
		got, _ := ask(t, c, framing.ID{Kind: framing.NumberID, Number: uint64(id)})
		if got == nil || got.Format != w.Format || got.Text != w.Text {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if w, version, err := c.Newest(t.Context(), "a/b"); err != nil || version != 3 || w.Format != event.FormatAvro {
		t.Errorf("%+v, %d, %v", w, version, err)
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"error_code":409,"message":"it is not compatible"}`))
	}))
	defer refusing.Close()
	other := New(Options{URL: refusing.URL, Timeout: 10 * time.Second, MaxBytes: 1000})
	defer other.Close()
	if _, err := other.Register(t.Context(), "a", &event.Writer{Format: event.FormatAvro, Text: "{}"}); err == nil ||
		!strings.Contains(err.Error(), "/subjects/a/versions: status 409 Conflict: it is not compatible") {
		t.Error(err)
	}
}

// slow answers after a while.
type slow struct {
	answers
	after time.Duration
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(s.after)
	return s.answers.RoundTrip(r)
}

// TestFirstAnswer: the first call for a schema waits for an answer from near by, and not long for one from far away; no
// later call waits.
func TestFirstAnswer(t *testing.T) {
	for after, waits := range map[time.Duration]time.Duration{0: 0, 50 * time.Millisecond: 50 * time.Millisecond,
		3 * time.Second: 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := New(Options{URL: "http://h", Timeout: time.Minute, MaxBytes: 1000,
				Transport: slow{answers{"/schemas/ids/7": `{"schema":"S"}`}, after}})
			defer c.Close()
			began, id := time.Now(), framing.ID{Kind: framing.NumberID, Number: 7}
			w, trouble := c.Ask(id)
			if waited := time.Since(began); waited != waits || (w != nil) != (after < time.Second) || trouble != "" {
				t.Errorf("an answer after %v: waited for %v, %v, %q", after, waited, w, trouble)
			}
			if w != nil {
				return
			}
			began = time.Now()
			if w, _ = c.Ask(id); w != nil || time.Since(began) != 0 {
				t.Errorf("the second call: %v after %v", w, time.Since(began))
			}
			time.Sleep(after)
			if w, _ = c.Ask(id); w == nil {
				t.Error("no answer in the end")
			}
		})
	}
}

// TestIsAway: a refusal is an answer, no connection is none; what is forgotten is asked for at once.
func TestIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{answers: answers{"/schemas/ids/7": `{"schema":"S"}`}, until: 1}
		c := New(Options{URL: "http://h", Timeout: time.Second, MaxBytes: 1000, Transport: a})
		defer c.Close()
		seven, eight := framing.ID{Kind: framing.NumberID, Number: 7}, framing.ID{Kind: framing.NumberID, Number: 8}
		asked := func(id framing.ID) (*event.Writer, string) {
			_, _ = c.Ask(id)
			synctest.Wait()
			return c.Ask(id)
		}
		if w, trouble := asked(seven); w != nil || trouble == "" || !c.IsAway() {
			t.Errorf("%v, %q, away %v", w, trouble, c.IsAway())
		}
		if w, _ := asked(seven); w != nil || a.requests != 1 {
			t.Errorf("%v after %d requests: it is asked again before the time", w, a.requests)
		}
		c.Forget(seven)
		if w, trouble := asked(seven); w == nil || c.IsAway() {
			t.Errorf("%q, away %v", trouble, c.IsAway())
		}
		if w, trouble := asked(eight); w != nil || !strings.Contains(trouble, "404") || c.IsAway() {
			t.Errorf("%v, %q, away %v", w, trouble, c.IsAway())
		}
	})
}

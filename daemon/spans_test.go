package daemon_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/refitd/refitd/daemon/daemontest"
)

// TestSpans: a collector gets a span for each stored batch, which count every record once, and for each refit one with the gate's and the publication's
// below it.
func TestSpans(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	const records = 1500
	b.ProduceRatings(62, records)
	var mu sync.Mutex // guards what follows
	spans := make(map[string][]*otlp.Span)
	service := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		var ask collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &ask)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		for _, from := range ask.ResourceSpans {
			for _, a := range from.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, scope := range from.ScopeSpans {
				for _, s := range scope.Spans {
					spans[s.Name] = append(spans[s.Name], s)
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	out := b.Run(b.Configure("s", append(daemontest.Simple, "models:", "tracing: {endpoint: '"+server.URL+"'}\nmodels:")...))
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	mu.Lock()
	defer mu.Unlock()
	number := func(s *otlp.Span, key string) int64 {
		for _, a := range s.Attributes {
			if a.Key == key {
				return a.Value.GetIntValue()
			}
		}
		t.Errorf("span %s without %s: %v", s.Name, key, s.Attributes)
		return 0
	}
	total := int64(0)
	for _, s := range spans["batch"] {
		total += number(s, "refitd.applied")
		if n := number(s, "messaging.batch.message_count"); n != number(s, "refitd.applied") || s.EndTimeUnixNano <= s.StartTimeUnixNano {
			t.Errorf("batch %v", s)
		}
	}
	if total != records || service != "refitd" {
		t.Errorf("batches of %d records by %q", total, service)
	}
	refits := spans["refit"]
	if len(refits) == 0 || len(refits) != out.Count("version") || len(spans["gate"]) != len(refits) || len(spans["publish"]) != len(refits) {
		t.Fatalf("%d refits, %d judgements, %d publications, %d versions", len(refits), len(spans["gate"]), len(spans["publish"]), out.Count("version"))
	}
	for i, refit := range refits {
		for _, part := range []*otlp.Span{spans["gate"][i], spans["publish"][i]} {
			if string(part.ParentSpanId) != string(refit.SpanId) || string(part.TraceId) != string(refit.TraceId) ||
				part.StartTimeUnixNano < refit.StartTimeUnixNano || part.EndTimeUnixNano > refit.EndTimeUnixNano {
				t.Errorf("%v is not within %v", part, refit)
			}
		}
	}
}

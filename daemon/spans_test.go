package daemon_test

import (
	"context"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/refitd/refitd/daemon/daemontest"
)

// A spanCollector keeps the spans that it gets, by HTTP or gRPC.
type spanCollector struct {
	collector.UnimplementedTraceServiceServer
	t       *testing.T
	mu      sync.Mutex // guards what follows
	spans   map[string][]*otlp.Span
	service string
	applied float64 // the newest refitd_events_total that was pushed
}

// measurements takes the metrics of a spanCollector.
type measurements struct {
	metrics.UnimplementedMetricsServiceServer
	c *spanCollector
}

// Export takes the metrics of a request.
func (m measurements) Export(_ context.Context,
	ask *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	for _, from := range ask.ResourceMetrics {
		for _, scope := range from.ScopeMetrics {
			for _, metric := range scope.Metrics {
				if metric.Name == "refitd_events_total" {
					m.c.applied = 0
					for _, point := range metric.GetSum().DataPoints {
						m.c.applied += point.GetAsDouble()
					}
				}
			}
		}
	}
	return &metrics.ExportMetricsServiceResponse{}, nil
}

// Export takes the spans of a request.
func (c *spanCollector) Export(_ context.Context,
	ask *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, from := range ask.ResourceSpans {
		for _, a := range from.Resource.Attributes {
			if a.Key == "service.name" {
				c.service = a.Value.GetStringValue()
			}
		}
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans[s.Name] = append(c.spans[s.Name], s)
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP is Export over HTTP.
func (c *spanCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var ask collector.ExportTraceServiceRequest
	if err == nil && r.URL.Path == "/v1/metrics" {
		var pushed metrics.ExportMetricsServiceRequest
		if err = proto.Unmarshal(body, &pushed); err == nil {
			_, err = measurements{c: c}.Export(r.Context(), &pushed)
		}
		if err != nil {
			c.t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		return
	}
	if err == nil {
		err = proto.Unmarshal(body, &ask)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s: %v", r.URL, err)
	}
	_, _ = c.Export(r.Context(), &ask)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// overHTTP returns the settings of tracing that lead to c.
func (c *spanCollector) overHTTP() string {
	server := httptest.NewServer(c)
	c.t.Cleanup(server.Close)
	return "{endpoint: '" + server.URL + "', metrics_every: 1h}"
}

// overGRPC is overHTTP by the other protocol.
func (c *spanCollector) overGRPC() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	metrics.RegisterMetricsServiceServer(server, measurements{c: c})
	go func() { _ = server.Serve(l) }() // until Stop
	c.t.Cleanup(server.Stop)
	return "{endpoint: 'http://" + l.Addr().String() + "', protocol: grpc, metrics_every: 1h}"
}

// TestSpans: a collector gets a span for each stored batch, which count every record once, and for each refit one with
// the gate's and the publication's below it, by HTTP and by gRPC.
func TestSpans(t *testing.T) {
	t.Parallel()
	for protocol, serve := range map[string]func(*spanCollector) string{"http": (*spanCollector).overHTTP,
		"grpc": (*spanCollector).overGRPC} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			testSpans(t, serve)
		})
	}
}

func testSpans(t *testing.T, serve func(*spanCollector) string) {
	b := daemontest.New(t)
	const records = 1500
	b.ProduceRatings(62, records-1)
	const traced = "0af7651916cd43dd8448eb211c80319c"
	last := &kgo.Record{Topic: daemontest.Topic, Value: daemontest.Rating(rand.New(rand.NewPCG(1, 2))),
		Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte("00-" + traced + "-b7ad6b7169203331-01")}}}
	if err := b.Kafka.ProduceSync(t.Context(), last).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c := &spanCollector{t: t, spans: make(map[string][]*otlp.Span)}
	out := b.Run(b.Configure("s", append(daemontest.Simple, "models:", "tracing: "+serve(c)+"\nmodels:")...))
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.applied != records {
		t.Errorf("refitd_events_total was pushed as %g, want %d: the last ones go out at the end", c.applied, records)
	}
	spans, service := c.spans, c.service
	number := func(s *otlp.Span, key string) int64 {
		for _, a := range s.Attributes {
			if a.Key == key {
				return a.Value.GetIntValue()
			}
		}
		t.Errorf("span %s without %s: %v", s.Name, key, s.Attributes)
		return 0
	}
	text := func(s *otlp.Span, key string) string {
		for _, a := range s.Attributes {
			if a.Key == key {
				return a.Value.GetStringValue()
			}
		}
		return ""
	}
	total := int64(0)
	next := map[string]int64{} // offset by partition
	links := 0
	for _, s := range spans["batch"] {
		for _, l := range s.Links {
			if hex.EncodeToString(l.TraceId) == traced {
				links++
			}
		}
		total += number(s, "refitd.applied")
		partition := text(s, "messaging.destination.partition.id")
		if at := number(s, "messaging.kafka.offset"); at != next[partition] ||
			text(s, "messaging.destination.name") == "" {
			t.Errorf("the batch after offset %d of partition %q is %v", next[partition], partition, s)
		}
		next[partition] += number(s, "messaging.batch.message_count")
		if n := number(s, "messaging.batch.message_count"); n != number(s, "refitd.applied") ||
			s.EndTimeUnixNano <= s.StartTimeUnixNano {
			t.Errorf("batch %v", s)
		}
	}
	if total != records || service != "refitd" {
		t.Errorf("batches of %d records by %q", total, service)
	}
	if links != 1 {
		t.Errorf("%d links to the trace of a record", links)
	}
	refits := spans["refit"]
	if len(refits) == 0 || len(refits) != out.Count("version") || len(spans["gate"]) != len(refits) ||
		len(spans["publish"]) != len(refits) {
		t.Fatalf("%d refits, %d judgements, %d publications, %d versions", len(refits), len(spans["gate"]),
			len(spans["publish"]), out.Count("version"))
	}
	for i, refit := range refits {
		for _, part := range []*otlp.Span{spans["gate"][i], spans["publish"][i]} {
			if string(part.ParentSpanId) != string(refit.SpanId) || string(part.TraceId) != string(refit.TraceId) ||
				part.StartTimeUnixNano < refit.StartTimeUnixNano || part.EndTimeUnixNano > refit.EndTimeUnixNano {
				t.Errorf("%v is not within %v", part, refit)
			}
			if decision := text(part, "refitd.decision"); decision != "promoted" && decision != "kept" {
				t.Errorf("%s says the decision %q", part.Name, decision)
			}
		}
	}
}

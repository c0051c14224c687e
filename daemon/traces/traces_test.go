package traces

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/ingest"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// TestEndpoint: a collector is named by its address, with the path that it is behind, or by that of its traces. Metrics
// never go where spans go.
func TestEndpoint(t *testing.T) {
	for given, base := range map[string]string{
		"http://otel:4318":                        "http://otel:4318",
		"https://otel:4318/":                      "https://otel:4318",
		"http://otel:4318/v1/traces":              "http://otel:4318",
		"http://otel:4318/v1/traces/":             "http://otel:4318",
		"https://otel.example/x/v1/traces":        "https://otel.example/x",
		"https://otel.example/tenant/otlp":        "https://otel.example/tenant/otlp",
		"https://otel.example/tenant/otlp/?key=1": "https://otel.example/tenant/otlp",
	} {
		for _, path := range []string{tracesPath, metricsPath} {
			query := ""
			if _, after, ok := strings.Cut(given, "?"); ok {
				query = "?" + after
			}
			if got := withPath(given, path); got != base+path+query {
				t.Errorf("%s is %s, want %s", given, got, base+path+query)
			}
		}
	}
}

// A scripted exporter answers request after request.
type scripted []error

func (s *scripted) ExportSpans(context.Context, []sdk.ReadOnlySpan) error {
	err := (*s)[0]
	*s = (*s)[1:]
	return err
}

func (s *scripted) Shutdown(context.Context) error { return nil }

// TestOutages: a collector that is away is a line of the log, however many requests fail, and another when it is back.
func TestOutages(t *testing.T) {
	away := errors.New("connection refused")
	script := scripted{nil, away, away, away, nil, nil, away}
	var log bytes.Buffer
	o := outages{SpanExporter: &script, lost: lost{"spans", slog.New(slog.NewTextHandler(&log, nil)), 0}}
	for i := range len(script) {
		if err := o.ExportSpans(t.Context(), make([]sdk.ReadOnlySpan, i)); err != nil {
			t.Error(err)
		}
	}
	const want = `level=WARN msg="not sent by OTLP, which is said once until something is" what=spans ` +
		`error="connection refused"
level=INFO msg="sent by OTLP again" what=spans lost=6
level=WARN msg="not sent by OTLP, which is said once until something is" what=spans error="connection refused"
`
	if got := regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(log.String(), ""); got != want {
		t.Errorf("log:\n%swant:\n%s", got, want)
	}
}

// TestCloseIsBounded: a collector that takes connections and answers nothing does not hold up the end of the process,
// by either protocol.
func TestCloseIsBounded(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, protocol := range []string{config.TracingHTTP, config.TracingGRPC} {
		var log bytes.Buffer
		p, err := New(t.Context(),
			config.Tracing{Endpoint: "http://" + silent.Addr().String(), Protocol: protocol, SamplingFraction: 1,
				MetricsEvery: config.Duration(time.Hour)}, prometheus.NewRegistry(),
			slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		Refit(p.Tracer(), "ratings").End()
		ended := make(chan struct{})
		go func() { defer close(ended); p.Close() }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: Close still waits", protocol)
		}
		if !strings.Contains(log.String(), "the last ones, in 2s: context deadline exceeded") {
			t.Errorf("%s: log %s", protocol, &log)
		}
	}
}

// TestBatchAndPublish: the span of a batch begins when its decoding did, and a publication that fails says why.
func TestBatchAndPublish(t *testing.T) {
	kept := tracetest.NewSpanRecorder()
	by := sdk.NewTracerProvider(sdk.WithSpanProcessor(kept)).Tracer("test")
	began := time.Now().Add(-time.Minute)
	Batch(by, "ratings", "group", &ingest.Counts{Began: began, Topic: "t", Partition: 3, Base: 40, Next: 50})
	broken := errors.New("disk full")
	ch := &fitted.Fitted{}
	if err := Publish(t.Context(), by, ch, func(context.Context, *fitted.Fitted) error { return broken }); !errors.Is(
		err, broken) {
		t.Error(err)
	}
	if err := Publish(t.Context(), by, ch, func(context.Context, *fitted.Fitted) error { return nil }); err != nil {
		t.Error(err)
	}
	spans := kept.Ended()
	if len(spans) != 3 || !spans[0].StartTime().Equal(began) || spans[1].Status().Code != codes.Error ||
		spans[1].Status().Description != "disk full" ||
		spans[2].Status().Code != codes.Unset {
		t.Errorf("%+v", spans)
	}
}

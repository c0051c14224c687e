package traces

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// TestEndpoint: a collector is named by its address alone, or by all of the URL.
func TestEndpoint(t *testing.T) {
	for given, want := range map[string]string{
		"http://otel:4318":                 "http://otel:4318/v1/traces",
		"https://otel:4318/":               "https://otel:4318/v1/traces",
		"http://otel:4318/v1/traces":       "http://otel:4318/v1/traces",
		"https://otel.example/tenant/otlp": "https://otel.example/tenant/otlp",
	} {
		if got := withPath(given); got != want {
			t.Errorf("%s is %s, want %s", given, got, want)
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
	o := outages{SpanExporter: &script, log: slog.New(slog.NewTextHandler(&log, nil))}
	for i := range len(script) {
		if err := o.ExportSpans(t.Context(), make([]sdk.ReadOnlySpan, i)); err != nil {
			t.Error(err)
		}
	}
	const want = `level=WARN msg="spans not sent, which is said once until some are" error="connection refused"
level=INFO msg="spans are sent again" lost=6
level=WARN msg="spans not sent, which is said once until some are" error="connection refused"
`
	if got := regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(log.String(), ""); got != want {
		t.Errorf("log:\n%swant:\n%s", got, want)
	}
}

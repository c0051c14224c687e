// Package traces sends spans of what a daemon does to a collector, by OTLP over HTTP or gRPC: a trace for each stored
// batch of a partition (batch) with links to the traces of its records, one for each refit with the gate's judgement
// and the publication below it (refit, gate, publish), and one for each version between refits (publish). Attributes
// follow OpenTelemetry's semantic conventions for messaging where they have a name. No span is for a single event, and
// none holds anything of one. Where they are asked for, the metrics of the daemon go there, too.
package traces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/build"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/ingest"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// closeTimeout is how long Close waits for a collector: a daemon that is asked to end has five seconds for all that it
// has to close.
const closeTimeout = 2 * time.Second

// Provider makes spans and sends them. The nil Provider makes none.
type Provider struct {
	sdk     *sdk.TracerProvider
	metrics *metric.MeterProvider // nil unless they are pushed
}

// New returns a provider that sends spans where the settings say, and the metrics of from as often as they say; without
// an endpoint, nil. What goes wrong with sending goes to the log, once until it is over, and spans without room are
// lost: nothing waits for a collector. Further headers of the requests, such as a token, are taken from the
// environment (OTEL_EXPORTER_OTLP_HEADERS), and so is the certificate of an authority of one's own
// (OTEL_EXPORTER_OTLP_CERTIFICATE).
func New(ctx context.Context, to config.Tracing, from prometheus.Gatherer, log *slog.Logger) (*Provider, error) {
	if to.Endpoint == "" {
		return nil, nil
	}
	client := otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(withPath(to.Endpoint, tracesPath)))
	if to.Protocol == config.TracingGRPC {
		client = otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(to.Endpoint))
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(
		otel.ErrorHandlerFunc(func(err error) { log.Warn("spans or metrics not sent", "error", err) }),
	) // of the process: there is no other
	of := resource.NewSchemaless(attribute.String("service.name", "refitd"),
		attribute.String("service.version", build.String()))
	p := &Provider{
		sdk: sdk.NewTracerProvider(sdk.WithBatcher(&outages{SpanExporter: exporter, lost: lost{"spans", log, 0}}),
			sdk.WithResource(of), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(to.SamplingFraction)))),
	}
	if to.MetricsEvery > 0 {
		p.metrics, err = newMetrics(ctx, to, from, of, log)
	}
	return p, err
}

// outages logs when spans begin to be lost and when they are sent again, where the exporter says it of every request.
// The SDK makes one at a time.
type outages struct {
	sdk.SpanExporter
	lost
}

// lost is what has not been sent since something was.
type lost struct {
	what string
	log  *slog.Logger
	n    int
}

// ExportSpans sends spans. The error is always nil: it was logged.
func (o *outages) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	o.note(o.SpanExporter.ExportSpans(ctx, spans), len(spans))
	return nil
}

// note logs the first of failures, and their end.
func (l *lost) note(err error, n int) {
	switch {
	case err != nil:
		if l.n == 0 {
			l.log.Warn("not sent by OTLP, which is said once until something is", "what", l.what, "error", err)
		}
		l.n += n
	case l.n > 0:
		l.log.Info("sent by OTLP again", "what", l.what, "lost", l.n)
		l.n = 0
	}
}

// The paths of OTLP over HTTP.
const tracesPath, metricsPath = "/v1/traces", "/v1/metrics"

// withPath returns the URL of a collector with a path of OTLP at its end, as OpenTelemetry has
// OTEL_EXPORTER_OTLP_ENDPOINT read. The path of traces may be there already.
func withPath(endpoint, path string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint
	}
	u.Path, u.RawPath = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), tracesPath)+path, ""
	return u.String()
}

// Tracer returns what makes spans.
func (p *Provider) Tracer() trace.Tracer {
	const name = "github.com/refitd/refitd"
	if p == nil {
		return noop.NewTracerProvider().Tracer(name)
	}
	return p.sdk.Tracer(name)
}

// Close sends what is left, for two seconds at most. It may be called again.
func (p *Provider) Close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := p.sdk.Shutdown(ctx)
	if p.metrics != nil {
		err = errors.Join(err, p.metrics.Shutdown(ctx)) // which sends the last ones
		p.metrics = nil
	}
	if err != nil {
		otel.Handle(fmt.Errorf("traces: the last ones, in %v: %w", closeTimeout, err))
	}
}

// Batch makes the span of a batch that has just been stored: from when its decoding began.
func Batch(by trace.Tracer, model, group string, c *ingest.Counts) {
	_, span := by.Start(context.Background(), "batch", trace.WithTimestamp(c.Began),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links(c.Traces)...))
	if span.IsRecording() {
		rejected := int64(0)
		for _, n := range c.Rejected {
			rejected += n
		}
		span.SetAttributes(
			attribute.String("refitd.model", model),
			attribute.String("messaging.system", "kafka"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", c.Topic),
			attribute.String("messaging.destination.partition.id", fmt.Sprint(c.Partition)),
			attribute.String("messaging.consumer.group.name", group),
			attribute.Int64("messaging.kafka.offset", c.Base),
			attribute.Int64("messaging.batch.message_count", c.Next-c.Base),
			attribute.Int64("refitd.applied", c.Applied),
			attribute.Int64("refitd.rejected", rejected),
		)
	}
	span.End()
}

// links returns links to the spans that texts of W3C Trace Context name, without those that are none.
func links(texts []string) (list []trace.Link) {
	for _, text := range texts {
		ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": text})
		if of := trace.SpanContextFromContext(ctx); of.IsValid() {
			list = append(list, trace.Link{SpanContext: of})
		}
	}
	return list
}

// Refit begins the span of a refit, which the caller ends.
func Refit(by trace.Tracer, model string) trace.Span {
	_, span := by.Start(context.Background(), "refit", trace.WithAttributes(attribute.String("refitd.model", model)))
	return span
}

// Gate makes the span of the judgement of a refit, and says on both what it came to.
func Gate(by trace.Tracer, refit trace.Span, ch *fitted.Fitted) {
	v := &ch.Version
	refit.SetAttributes(attribute.String("refitd.status", v.Status), attribute.Int64("refitd.rows", int64(v.Rows)),
		attribute.Int("refitd.basis", v.K))
	_, span := by.Start(trace.ContextWithSpan(context.Background(), refit), "gate", trace.WithTimestamp(ch.GateBegan))
	span.SetAttributes(attribute.String("refitd.decision", v.Decision),
		attribute.String("refitd.cause", string(ch.Cause)))
	span.End(trace.WithTimestamp(ch.GateEnded))
}

// Publish calls write within a span, below that of ctx if it has one.
func Publish(ctx context.Context, by trace.Tracer, ch *fitted.Fitted,
	write func(context.Context, *fitted.Fitted) error) error {
	ctx, span := by.Start(ctx, "publish")
	defer span.End() // in a panic, too
	err := write(ctx, ch)
	span.SetAttributes(attribute.String("refitd.model", ch.Version.Model),
		attribute.Int64("refitd.version", ch.Version.Version), attribute.String("refitd.kind", ch.Version.Kind),
		attribute.String("refitd.decision", ch.Version.Decision))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

// ID returns the trace of a span that is sent, "" of any other.
func ID(of trace.Span) string {
	if c := of.SpanContext(); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

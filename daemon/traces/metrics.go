package traces

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/config"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// newMetrics returns what pushes the metrics of a gatherer, under the names that /metrics has, until it is shut down.
func newMetrics(ctx context.Context, to config.Tracing, from prometheus.Gatherer, of *resource.Resource,
	log *slog.Logger) (*metric.MeterProvider, error) {
	var exporter metric.Exporter
	var err error
	if to.Protocol == config.TracingGRPC {
		exporter, err = otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(to.Endpoint))
	} else {
		exporter, err = otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(withPath(to.Endpoint, metricsPath)))
	}
	if err != nil {
		return nil, fmt.Errorf("traces: metrics: %w", err)
	}
	return metric.NewMeterProvider(metric.WithResource(of), metric.WithReader(metric.NewPeriodicReader(
		&metricOutages{Exporter: exporter, lost: lost{"metrics", log, 0}}, metric.WithInterval(to.MetricsEvery.Std()),
		metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(from)))))), nil
}

// metricOutages is outages for metrics.
type metricOutages struct {
	metric.Exporter
	lost
}

// Export sends metrics. The error is always nil: it was logged.
func (o *metricOutages) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	o.note(o.Exporter.Export(ctx, m), 1)
	return nil
}

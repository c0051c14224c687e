package part

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/model/metrics"
	"github.com/refitd/refitd/daemon/report"
	"go.opentelemetry.io/otel/trace"
)

// Options of a model. Config, Settings, Metrics, Registerer, Crashes, Out and Log are required.
type Options struct {
	Config   *config.Config
	Settings *config.Model // one of Config's
	// UntilEnd reads up to the log ends as they are at the start, refits once more and ends.
	UntilEnd bool
	// StartFresh makes an empty state although the consumer group has offsets.
	StartFresh bool
	// CheckState, if not nil, looks at the state directory before it is opened, in another process: damage may end the
	// process that finds it.
	CheckState func(ctx context.Context, dir string) error
	// Siblings, if not nil, returns all models of the daemon.
	Siblings func() []Sibling
	// Share, if not nil, fetches topics once for all models that read them.
	Share *consumer.Share
	// Crashes is shared by the crash journals of a process: one at a time has a single record in hand.
	Crashes    *sync.Mutex
	Metrics    *metrics.Metrics
	Registerer prometheus.Registerer // of the consumer's metrics
	Out        *report.Emitter
	Log        *slog.Logger
	Tracer     trace.Tracer // makes spans of batches, refits and what they publish; nil makes none
	// OnVersion, if not nil, is called with every version, on the goroutine of the trainer.
	OnVersion func(report.Version)
}

// A Sibling is a model of the same daemon. Its methods are safe for concurrent use.
type Sibling interface {
	// Settings returns the model's settings as the daemon has started with them.
	Settings() *config.Model
	// HasBegun reports whether it has begun to read a partition, in this run or before it.
	HasBegun() bool
}

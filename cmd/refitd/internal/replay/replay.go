// Package replay sends the records of a file to a Kafka topic, in order and each once, at full speed or paced.
package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/guess"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Options say what to send where.
type Options struct {
	Path             string         `name:"data" required:"" placeholder:"FILE"      help:"File to send; - is standard input; gzip, zstd and bzip2 are detected."`
	Format           dataset.Format `                        placeholder:"FORMAT"    help:"{formatsOfReplay}"                                                     enum:",{replayFormats}"  default:""`
	BootstrapServers []string       `            required:"" placeholder:"HOST:PORT" help:"Brokers, separated by commas."`
	Topic            string         `            required:""                         help:"Topic; it is created if absent."`
	Partitions       int            `                                                help:"Partitions of a topic that is created."                                                                                            default:"4"`
	// by murmur2
	Key     string        `                                                help:"Field whose value is the key of the record and picks its partition."                                                               default:"user"`
	Order   dataset.Order `                                                help:"Order of the records: file, time or shuffle."                          enum:"file,time,shuffle"                                    default:"file"`
	Seed    uint64        `                                                help:"Seed of the shuffle."                                                                                                              default:"1"`
	Rate    float64       `                                                help:"Records per second; unlimited if not given."`
	Speedup float64       `                                                help:"Send by event times, this many times faster than they passed."`
	Limit   int64         `                                                help:"Send this many records only."`

	Columns []string          `placeholder:"NAME,…"         help:"Names of the columns of CSV files without a header."`
	Map     map[string]string `placeholder:"FIELD=COLUMN,…" help:"Columns of CSV and Parquet files whose fields are called otherwise in the events." mapsep:","`

	As         string `placeholder:"FORMAT" help:"Write events of the model of --config.file in avro, protobuf or json_schema, by a schema that is made of the model's." enum:",avro,protobuf,json_schema" default:""`
	Subject    string `placeholder:"NAME"   help:"Subject under which the registry gets the schema of --as. Without, TOPIC-value."`
	SchemaFile string `placeholder:"FILE"   help:"File for the schema of --as where no registry has it, called .avsc or .proto; records have no frame then."`

	Kafka     *config.Kafka   `kong:"-"` // with the registry of As
	For       *config.Model   `kong:"-"` // the model that reads the records; nil for any
	EventTime bool            `kong:"-"` // record time stamps are the event times instead of the time of sending
	Progress  *progress.Meter `kong:"-"` // counts the records that were acknowledged; nil shows none
	Log       *slog.Logger    `kong:"-"` // says which lines were skipped; nil is silent
}

// validate returns an error that names the flag of the first bad option. kong would call an exported Validate before it
// knows what is missing.
func (o *Options) validate() error {
	switch {
	case o.Topic == "":
		return errors.New("--topic must name a topic")
	case len(o.BootstrapServers) == 0:
		return errors.New("--bootstrap-servers must name at least one host:port")
	case o.Partitions < 1:
		return fmt.Errorf("--partitions is %d: it must be at least 1", o.Partitions)
	case !(o.Rate >= 0) || !(o.Speedup >= 0):
		return errors.New("--rate and --speedup must be positive")
	case o.Rate > 0 && o.Speedup > 0:
		return errors.New("--rate and --speedup cannot be combined: give one of them")
	case o.Limit < 0:
		return fmt.Errorf("--limit is %d: it must not be negative", o.Limit)
	}
	if err := o.validateAs(); err != nil {
		return err
	}
	return o.Order.Validate()
}

// ErrBroker is wrapped by errors of the broker and of the way to it.
var ErrBroker = errors.New("broker unreachable, or it refused us")

// startsFor is how long a broker that refuses connections may be one that was started the moment before, as in the
// tutorial.
const startsFor = 5 * time.Second

// errNoEventTime says that a record cannot be paced or stamped.
var errNoEventTime = errors.New("--speedup and --record-time event need an event time in every line, and one has none")

// Run sends the records and returns how many the broker acknowledged. Within a partition they are in the order asked
// for, and each is in the topic once. A failure that lasts ends the replay with an error that wraps ErrBroker. When ctx
// is done, Run waits for what is under way and returns without an error.
func Run(ctx context.Context, o Options) (report.ReplaySummary, error) {
	if err := o.validate(); err != nil {
		return report.ReplaySummary{}, err
	}
	if o.Format == "" && len(o.Columns) > 0 {
		o.Format = dataset.CSV
	}
	if o.Format == "" {
		var err error
		if o.Format, err = dataset.Detect(o.Path); err != nil {
			return report.ReplaySummary{}, err
		}
	}
	typed, err := o.typed(ctx)
	if err != nil {
		return report.ReplaySummary{}, err
	}
	fields, err := guess.RecordFields(o.asJSON(), o.Format, offline.TableOptions{Columns: o.Columns, Map: o.Map}, o.Key)
	if err != nil {
		return report.ReplaySummary{}, err
	}
	began := time.Now()
	client, err := newClient(o.BootstrapServers, o.Topic)
	if err != nil {
		return report.ReplaySummary{}, fmt.Errorf("replay: --bootstrap-servers %v: %w", o.BootstrapServers, err)
	}
	defer client.Close()
	partitions, err := prepareTopic(ctx, client, o.Topic, o.Partitions)
	for errors.Is(err, syscall.ECONNREFUSED) && time.Since(began) < startsFor && backoff.Sleep(ctx,
		retryPause) == nil {
		partitions, err = prepareTopic(ctx, client, o.Topic, o.Partitions)
	}
	if err != nil {
		return report.ReplaySummary{}, fmt.Errorf("replay: %w at --bootstrap-servers %v: %w", ErrBroker,
			o.BootstrapServers, err)
	}
	p := newProducer(ctx, client, o.Topic, partitions)
	p.progress = o.Progress
	o.Progress.Stage("sending", "records", 0)
	sent := sender{options: &o, fields: fields, producer: p, pace: newPacer(o.Rate, o.Speedup), typed: typed}
	skipped, readErr := sent.file(p.ctx)
	sendErr := p.close()
	if typed != nil {
		skipped.Lines += typed.skipped.Lines
		skipped.Causes = append(skipped.Causes, typed.skipped.Causes...)
	}
	o.logSkipped(&skipped)
	o.logKeyless(p.keyless)

	out := report.ReplaySummary{
		Records:      sent.records,
		Acknowledged: p.acknowledged,
		SkippedLines: skipped.Lines,
		Bytes:        sent.bytes,
		Seconds:      report.Seconds(time.Since(began)),
		Partitions:   p.offsets,
	}
	switch {
	case sendErr != nil:
		return out, fmt.Errorf("replay: %w at --bootstrap-servers %v, after %d of %d records were acknowledged: %w",
			ErrBroker, o.BootstrapServers, out.Acknowledged, out.Records, sendErr)
	case readErr != nil && !errors.Is(readErr, context.Canceled):
		return out, readErr
	case out.Records == 0 && skipped.Lines > 0:
		return out, fmt.Errorf("replay: %s holds no record as --format %s: %s", o.Path, o.Format, skipped.Why())
	}
	return out, nil
}

// logSkipped names columns that records lack, and says how many lines were joined, and for each reason how many were
// skipped, with the first ten.
func (o *Options) logSkipped(s *dataset.Skipped) {
	if o.Log == nil {
		return
	}
	if len(s.LeftOut) > 0 {
		o.Log.Warn("columns left out", "note", "their values are no text, number, time or list", "path", o.Path, "columns",
			s.LeftOut)
	}
	if s.Continued > 0 {
		o.Log.Info("lines joined to the row before them", "note", "a cell in quotes has line ends", "path", o.Path, "lines",
			s.Continued)
	}
	for _, c := range s.Causes {
		o.Log.Warn("lines skipped", "path", o.Path, "reason", c.Reason, "lines", c.Lines, "first", c.First, "expected",
			c.Expected, "got", c.Got)
	}
}

// logKeyless says that events went without a key, if lines of the format can have one: what is known of an entity is of
// its partition.
func (o *Options) logKeyless(records int) {
	if o.Log == nil || records == 0 || o.Key == "" || o.Format == dataset.Lines || o.Format == dataset.LIBSVM {
		return
	}
	o.Log.Warn("records without a key went to the partitions in turn", "note", "--key names another field",
		"path", o.Path, "key", o.Key, "records", records)
}

// sender reads the file and hands its records to the producer at the right time.
type sender struct {
	options  *Options
	fields   dataset.Fields
	producer *producer
	pace     *pacer
	typed    *typedWriter // nil where records are sent as they are
	records  int64
	bytes    int64
}

// file sends the whole file. File order needs no memory; the others read the file first.
func (s *sender) file(ctx context.Context) (dataset.Skipped, error) {
	o := s.options
	if o.Order == dataset.FileOrder {
		return dataset.ScanRecords(o.Path, o.Format, s.fields, o.Progress.Reach,
			func(r dataset.Record) error { return s.send(ctx, r) })
	}
	var all []dataset.Record
	skipped, err := dataset.ScanRecords(o.Path, o.Format, s.fields, nil, func(r dataset.Record) error {
		all = append(all, r)
		return ctx.Err()
	})
	if err != nil {
		return skipped, err
	}
	if err := dataset.ArrangeRecords(all, s.options.Order, s.options.Seed); err != nil {
		return skipped, err
	}
	for i, r := range all {
		s.options.Progress.Reach(int64(i), int64(len(all)))
		if err := s.send(ctx, r); err != nil {
			if errors.Is(err, dataset.ErrStop) {
				return skipped, nil
			}
			return skipped, err
		}
	}
	return skipped, nil
}

func (s *sender) send(ctx context.Context, r dataset.Record) error {
	if !r.HasTime && (s.options.Speedup > 0 || s.options.EventTime) {
		return fmt.Errorf("replay: %s: %w", s.options.Path, errNoEventTime)
	}
	if err := s.pace.wait(ctx, s.records, r.Time); err != nil {
		return err
	}
	if s.typed != nil && !s.typed.write(&r) {
		return nil
	}
	stamp := time.Time{} // the client fills in the time of sending
	if s.options.EventTime {
		stamp = time.UnixMilli(r.Time)
	}
	if err := s.producer.send(ctx, &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: stamp}); err != nil {
		return err
	}
	s.records++
	s.bytes += int64(len(r.Value))
	if s.options.Limit > 0 && s.records >= s.options.Limit {
		return dataset.ErrStop
	}
	return nil
}

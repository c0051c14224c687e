package backtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/choices"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/schedule"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/fit"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot"
)

// BacktestOptions say what to run the daemon's cycle over.
type Options struct {
	Model    *config.Model        `kong:"-"`
	Data     string               `         required:"" placeholder:"FILE"   help:"Labelled events; - is standard input; gzip, zstd and bzip2 are detected."`
	Format   dataset.Format       `                     placeholder:"FORMAT" help:"{formats}"                                                                                              enum:",{formatNames}"  default:""`
	Outcomes []string             `placeholder:"FILE" sep:"none" help:"What came of the events, of a model with input.outcomes: both files are played by time. TOPIC=FILE for each of several topics. Repeatable."`
	Files    offline.TableFiles   `embed:""`
	Table    offline.TableOptions `                                                                                                                                                                                                                        embed:""`
	Order    dataset.Order        `                                          help:"Order of the events: file, time or shuffle."                                                            enum:"file,time,shuffle"                   default:"file"`
	Seed     uint64               `                                          help:"Seed of the shuffle, and of a sample without sample.seed."                                                                                         default:"1"`
	Limit    int                  `                                          help:"Take this many events only."`
	Clock    offline.Clock        `                     placeholder:"CLOCK"  help:"Of train.every and publish.update_every: events:N, N a second, or time, of events."                                                                default:"events:100"`
	Cold     bool                 `                                          help:"Start every refit from nothing, to see what the warm start is worth."`
	Store    string               `                     placeholder:"DIR"    help:"Publish the versions there."`
	Plot     string               `                     placeholder:"FILE"   help:"Draw the loss of every predictor over the events, as .svg or .png."`
	Consumer []string             `                     placeholder:"MODE"   help:"Play a program that uses refits, updates too, history too, deltas:1s or deltas:1s+history. Repeatable."`
	Without  []string             `                     placeholder:"PART"   help:"Leave a part of the learner out, to see what it is worth. Repeatable."                                                                                                                                                                                 hidden:""`
	Strict   bool                 `                                          help:"Exit with code 1, after the summary, if a line of the file is no event."`
	Now      func() time.Time     `kong:"-"`
	Progress *progress.Meter      `kong:"-"` // nil shows none
	fit.AlgorithmFlags
}

// backtestTicks is the number of ticks of a run, at least, if it has as many events.
const backtestTicks = 50

// backtestTopic is the name under which the file's events count in the ledger and in cuts.
const backtestTopic = "backtest"

// Run runs the daemon's own cycle over a file, without a broker: score each event, learn it, refit and publish
// updates when the schedule has them due on a simulated clock. The clock stops during a refit, so that none is cut
// short. Same input, same numbers.
func Run(ctx context.Context, o Options, out *report.Emitter) error {
	if err := fit.CheckFigure("--plot", o.Plot); err != nil {
		return err
	}
	if o.Given() {
		o.Apply(o.Model)
		if err := fit.Check(o.Model, nil); err != nil {
			return err
		}
	}
	if err := o.leaveOut(); err != nil {
		return err
	}
	var err error
	if o.Format, err = o.Table.FormatOf(o.Format, o.Data); err != nil {
		return err
	}
	set, outcomes, err := o.read(out)
	if err != nil {
		return err
	}
	if outcomes != nil {
		o.Order = dataset.TimeOrder
	}
	drops, err := offline.Dropped(&set.Skipped, o.Data, nil, out)
	if err != nil {
		return err
	}
	for i := range outcomes {
		drops = append(drops, outcomes[i].dropped...)
	}
	if err := set.Arrange(o.Order, o.Seed, o.Limit); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--order"}
	}
	if err := offline.Derive(o.Model, set); err != nil {
		return err
	}
	if err := o.checkSchedule(set); err != nil {
		return err
	}
	known, err := o.Files.ReadTables(o.Model)
	if err != nil {
		return err
	}
	b, err := newBacktest(o, out)
	if err != nil {
		return err
	}
	defer b.store.Close()
	if err := b.expect(outcomes); err != nil {
		return err
	}
	b.known = known
	if err := b.beginTables(); err != nil {
		return err
	}
	if !set.HasTime {
		if err := b.feedTables(math.MaxInt64); err != nil {
			return err
		}
	}
	b.summary.Dropped, b.summary.Absent, b.summary.DriftAlarms = drops, report.Absent{}, []report.DriftAlarm{}
	offline.Absent(o.Model, set, b.summary.Absent)
	if err := b.run(ctx, set.Examples); err != nil {
		return err
	}
	return offline.Strictly(o.Strict, drops, out)
}

type backtest struct {
	Options
	out       *report.Emitter
	cycle     *cycle.Cycle
	store     *sketch.Store
	ingest    *ingest.Ingest
	versions  *publish.Publisher
	summary   report.BacktestSummary
	began     time.Time
	version   *int64
	schedule  schedule.Schedule
	plot      *backtestPlot // nil without --plot
	consumers []*backtestConsumer
	choices   *choices.Known // nil unless events are choices
	popular   backtestPopular
	outcomes  outcomes
	known     map[int][]event.Event // rows of tables, by table
	fed       []int                 // how many of them the cycle has
}

func newBacktest(o Options, out *report.Emitter) (*backtest, error) {
	deltas, err := shortestDeltas(o.Consumer)
	if err != nil {
		return nil, err
	}
	model := *o.Model
	if d := &model.Publish.Deltas; deltas > 0 && (d.Every == 0 || d.Every.Std() > deltas) {
		d.Every = config.Duration(deltas)
	}
	if every := model.Publish.UpdateEvery; deltas > 0 && every <= model.Publish.Deltas.Every {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "publish.update_every",
			Err: fmt.Errorf(
				"deltas follow updates: publish.update_every is %v, which has to be more than the %v between deltas",
				every, model.Publish.Deltas.Every)}
	}
	o.Model = &model
	timeless := model
	timeless.Train.TimeBudget = 0 // a refit cut by the clock would not come out the same again
	c, err := cycle.New(&timeless, o.Now)
	if err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	c.Workers, c.Cold = o.Model.Train.Threads, o.Cold
	options := ingest.StoreOptions(o.Model)
	if options.DrawSeed { // a backtest is reproducible whether the configuration sets a seed or not
		options.DrawSeed, options.Seed = false, o.Seed
	}
	store, err := sketch.NewMemory(options)
	if err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	if err := store.Begin(backtestTopic, 0, 0); err != nil {
		return nil, err
	}
	b := &backtest{Options: o, out: out, cycle: c, store: store, ingest: ingest.New(o.Model, store, c), began: o.Now()}
	if o.Plot != "" {
		b.plot = newBacktestPlot(o.Model.Schema.Learned().IsNumeric())
		c.WatchLosses()
	}
	if b.choices = choices.New(o.Model, 0); b.choices != nil && len(b.Consumer) == 0 {
		b.Consumer = []string{consumerUpdates}
	}
	if err := b.newConsumers(); err != nil {
		return nil, err
	}
	if b.versions, err = publish.New(o.Model, o.Store, o.Now, nil); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *backtest) run(ctx context.Context, examples []dataset.Example) error {
	n, clock := len(examples), offline.Simulated{Clock: b.Clock}
	b.Progress.Stage("learning", "events", int64(n))
	for i := range examples {
		if ctx.Err() != nil {
			break
		}
		now := clock.At(i, &examples[i])
		if i == 0 {
			b.begin(now)
		}
		if err := b.outcomes.feed(b.ingest, examples[i].Time); err != nil {
			return err
		}
		if err := b.feedTables(examples[i].Time); err != nil {
			return err
		}
		if err := b.step(ctx, now); err != nil {
			return err
		}
		if i == n-n/10 {
			b.startTail()
		}
		if err := b.consume(&examples[i].Event, int64(i)); err != nil {
			return err
		}
		if err := b.ingest.Feed(backtestTopic, 0, int64(i), &examples[i].Event); err != nil {
			return err
		}
		b.summary.Events++
		b.Progress.Add(1)
		b.heed(b.cycle.DriftAlarms())
		if b.plot != nil && (i+1)%max(n/backtestPoints, 1) == 0 {
			b.plot.add(b.summary.Events, b.cycle.TakeLosses())
		}
		if (i+1)%max(n/backtestTicks, 1) == 0 {
			if err := b.out.Emit("tick", report.BacktestTick{Events: b.summary.Events, Seconds: b.seconds(), Version: b.version,
				Progressive: b.cycle.Progressive(), UpdatesHeldBack: b.summary.UpdatesHeldBack}); err != nil {
				return err
			}
		}
	}
	if err := b.outcomes.end(b.ingest); err != nil {
		return err
	}
	return b.finish()
}

// beginTables gives the rows of tables to the cycle before the first event, but those that have times.
func (b *backtest) beginTables() error {
	b.fed = make([]int, len(b.Model.Tables))
	for at := range b.Model.Tables {
		if len(b.known[at]) > 0 {
			if err := b.store.Begin(b.Model.Tables[at].Topics[0], 0, 0); err != nil {
				return err
			}
		}
	}
	return b.feedTables(math.MinInt64)
}

// feedTables gives the rows of tables that are not newer than a time, in milliseconds since 1970, to the cycle.
func (b *backtest) feedTables(now int64) error {
	for at := range b.Model.Tables {
		t, rows, next := &b.Model.Tables[at], b.known[at], &b.fed[at]
		for ; *next < len(rows) && (!t.HasHistory() || rows[*next].Time <= now); *next++ {
			if err := b.ingest.FeedTable(t.Topics[0], 0, int64(*next), &rows[*next]); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin starts the schedules at the time of the first event.
func (b *backtest) begin(now time.Time) {
	b.schedule = schedule.New(b.Model, now)
	for _, c := range b.consumers {
		c.schedule = schedule.New(b.Model, now)
	}
}

// startTail starts the measures of the last tenth of the events.
func (b *backtest) startTail() {
	b.cycle.StartTail()
	for _, c := range b.consumers {
		c.tail, c.tailHits = evaluate.NewQuality(c.target, nil), choices.Hits{}
	}
	b.popular.tail = choices.Hits{}
}

// heed makes a refit due after alarms of drift.
func (b *backtest) heed(alarms []drift.DriftAlarm) {
	for _, alarm := range alarms {
		b.schedule.Alarmed(b.summary.Events)
		b.summary.DriftAlarms = append(b.summary.DriftAlarms,
			report.DriftAlarm{Event: b.summary.Events, Group: alarm.Group})
		if b.plot != nil {
			b.plot.alarmed(b.summary.Events)
		}
	}
}

// finish emits the summary.
func (b *backtest) finish() error {
	b.summary.Seconds, b.summary.Progressive, b.summary.LastTenth = b.seconds(), b.cycle.Progressive(), b.cycle.Tail()
	for _, c := range b.consumers {
		b.summary.Consumers = append(b.summary.Consumers, c.report(b.summary.LastTenth.Live))
	}
	if b.choices != nil {
		b.summary.Consumers = append(b.summary.Consumers, b.popular.report())
	}
	if b.plot != nil {
		if err := b.plot.write(b.Plot); err != nil {
			return err
		}
		b.summary.Plot = b.Plot
	}
	return b.out.Emit("summary", b.summary)
}

// step does what is due before an event that comes now, as the daemon's trainer does.
func (b *backtest) step(ctx context.Context, now time.Time) error {
	applied := b.summary.Events
	if b.schedule.RefitDue(&b.Model.Train, now, applied) {
		b.schedule.RefitBegun(applied)
		err := b.refit(ctx)
		b.schedule.RefitEnded(now)
		if err != nil {
			return err
		}
	}
	if b.schedule.UpdateDue(&b.Model.Publish, now, applied) {
		b.schedule.Updated(now, applied)
		if err := b.update(ctx); err != nil {
			return err
		}
	}
	if b.schedule.DeltaDue(b.Model.Publish.Deltas.Every.Std(), now, applied, b.cycle.HasChanged) {
		b.schedule.DeltaTaken(now, applied)
		if whole := b.cycle.TakeDelta(now); whole != "" || b.cycle.AsksUpdate() {
			b.schedule.AskUpdate()
		}
		for b.cycle.Delta() != nil {
			b.cycle.PublishDelta()
			b.summary.DeltasPublished++
		}
	}
	b.summary.UpdatesHeldBack += len(b.cycle.TakeHeldBack())
	b.follow(now, b.cycle.Following())
	return nil
}

func (b *backtest) refit(ctx context.Context) error {
	start := b.Now()
	sample, err := ingest.TakeSample(b.Model, b.store, nil)
	if err != nil {
		return err
	}
	challenger, err := b.cycle.Refit(ctx, sample)
	if errors.Is(err, encode.ErrNoRows) || task.IsInterrupted(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := b.publish(ctx, challenger); err != nil {
		return err
	}
	if challenger.Version.Decision == publish.Promoted {
		b.cycle.Install(challenger)
		b.schedule.Promoted()
		b.summary.VersionsPromoted++
		b.version = &challenger.Version.Version
		if err := b.take(challenger); err != nil {
			return err
		}
	} else {
		b.summary.VersionsKept++
	}
	if b.plot != nil {
		b.plot.judged(b.summary.Events, &challenger.Version)
	}
	b.summary.RefitSeconds += report.Seconds(b.Now().Sub(start))
	return b.out.Emit("version", challenger.Version)
}

// update gives consumers what the cycle decides that they should have between refits.
func (b *backtest) update(ctx context.Context) error {
	update, reason := b.cycle.NextUpdate()
	if update == nil {
		if reason == updates.FirstUpdate {
			b.schedule.UpdateAgain()
		}
		if b.cycle.Champion() != nil {
			b.summary.UpdatesSkipped++
		}
		return nil
	}
	if err := b.publish(ctx, update); err != nil {
		return err
	}
	if update.Version.Decision == publish.Promoted {
		b.cycle.PublishUpdate(update)
		b.summary.UpdatesPublished++
		b.version = &update.Version.Version
		if err := b.take(update); err != nil {
			return err
		}
	} else {
		b.summary.UpdatesSkipped++
	}
	return b.out.Emit("version", update.Version)
}

// publish numbers a version, and writes it with --store. One that cannot be published is kept back: what consumers have
// stays then, as the daemon's does.
func (b *backtest) publish(ctx context.Context, ch *fitted.Fitted) error {
	if b.Store != "" {
		seen := b.cycle.Progressive()
		ch.Observed = &seen
	}
	err := b.versions.Publish(ctx, ch)
	switch {
	case errors.Is(err, snapshot.ErrContents) || errors.Is(err, snapshot.ErrGolden):
		ch.Version.Decision, ch.Version.Reason = publish.Kept, err.Error()
	case err != nil:
		return offline.StoreError(err, b.Store)
	}
	return nil
}

func (b *backtest) seconds() report.Number { return report.Seconds(b.Now().Sub(b.began)) }

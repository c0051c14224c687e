package quickstart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/refitd/refitd/cmd/refitd/internal/terminal"
	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/broker"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

const (
	topic          = "ratings"
	model          = "ratings"
	partitions     = 4
	retentionBytes = 64 << 20 // per partition: hours of the default stream
	driftAt        = 30 * time.Second
	driftShare     = 0.4 // of a run with a given length, if that is earlier
	windowSeconds  = 2.5 // of events in the progressive window: short, so that a recovery shows
	recoveredRatio = 1.05
	lineWidth      = 100 // of the table where there is no terminal: what a page or a mail shows without breaking lines
)

// Options of a quickstart. Out, Text and Log are required.
type Options struct {
	For        time.Duration   `help:"End after this long; until a signal if not given."`
	Dir        string          `help:"Directory for broker, state and snapshots; a new temporary one if not given." placeholder:"DIR"`
	Seed       uint64          `help:"Seed of the generated stream."                                                                  default:"1"`
	Rate       float64         `help:"Events per second."                                                                             default:"2000"`
	BrokerOnly bool            `help:"Start the broker alone and keep its topics in --dir."`
	Listen     string          `help:"Address of the broker; port 0 takes a free one."                                                default:"127.0.0.1:0"`
	Open       bool            `help:"Show the status page in a browser."`
	Out        *report.Emitter `                                                                                                                            kong:"-"`
	// the live table, unless Out writes JSON
	Text io.Writer    `                                                                                                                            kong:"-"`
	Log  *slog.Logger `                                                                                                                            kong:"-"`
	// Terminal, if not nil, returns a log that writes to a file: Text is a terminal then, whose end is redrawn in
	// place.
	Terminal func(file io.Writer) *slog.Logger `                                                                                                                            kong:"-"`
}

// demo is a quickstart under way. Its fields belong to the goroutine of watch, versions and drifts come to it by
// channel.
type demo struct {
	Options
	daemon   *daemon.Daemon
	table    display
	log      string // file of the log, empty without a terminal
	began    time.Time
	versions chan report.Version
	drifts   chan time.Time

	last       *report.Version
	updates    report.UpdateCount // since the last note
	lastRefit  time.Time
	events     int64
	count      int64
	first      *report.Number
	driftedAt  *report.Number
	before     float64 // published window loss at the change
	driftEvent int64
	window     int64
	recovered  *report.Number
}

// Run starts a broker, a generated stream and the daemon on it in this process, shows what happens once a second, and
// ends cleanly with ctx or the time. With BrokerOnly it is the broker alone.
func Run(ctx context.Context, o Options) (err error) {
	if !(o.Rate >= 1) || math.IsInf(o.Rate, 0) {
		return &report.ExitError{
			Code: report.ExitUsage,
			Err:  fmt.Errorf("quickstart: --rate %v is not at least 1 event per second", o.Rate),
			Key:  "--rate",
		}
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "refitd-quickstart-"); err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--dir"}
		}
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--dir"}
	}
	var logFile string
	if o.Terminal != nil && !o.BrokerOnly {
		f, err := terminal.OpenLog(o.Dir)
		if err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--dir", Path: o.Dir}
		}
		defer f.Close()
		logFile, o.Log = f.Name(), o.Terminal(f)
	}
	kafka, err := broker.Start(broker.Options{Dir: filepath.Join(o.Dir, "broker"), Listen: o.Listen, Logger: o.Log})
	if err != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--listen", Path: o.Dir}
	}
	defer kafka.Close()
	if o.Out.IsJSON() || o.BrokerOnly { // else the page comes first
		if err := o.Out.Emit("broker", report.Broker{BootstrapServers: kafka.Addr()}); err != nil {
			return err
		}
	}
	if o.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.For)
		defer cancel()
	}
	if o.BrokerOnly {
		<-ctx.Done()
		return nil
	}
	if err := kafka.CreateTopic(ctx, topic, partitions, retentionBytes); err != nil {
		return err
	}
	d := &demo{
		Options:  o,
		table:    NewTable(o.Text, cmp.Or(terminal.Width(o.Text), lineWidth)),
		log:      logFile,
		began:    time.Now(),
		versions: make(chan report.Version, 16),
		drifts:   make(chan time.Time, 1),
		window:   max(1000, int64(windowSeconds*o.Rate)),
	}
	return d.run(ctx, kafka.Addr())
}

func (d *demo) run(ctx context.Context, addr string) error {
	conf, err := d.configure(addr)
	if err != nil {
		return err
	}
	silent := report.NewEmitter(io.Discard, true)
	d.daemon, err = daemon.New(ctx,
		daemon.Options{Config: conf, Out: silent, Log: d.Log, OnVersion: func(v report.Version) { d.versions <- v }})
	if err != nil {
		return err
	}
	if err := d.introduce(addr); err != nil {
		return errors.Join(err, d.daemon.Close())
	}
	group, groupCtx := errgroup.WithContext(ctx)
	stopped := make(chan struct{}) // the daemon has stopped, no more versions come
	group.Go(func() error {
		defer close(stopped)
		return d.daemon.Run(groupCtx)
	})
	group.Go(func() error {
		_, err := Produce(
			groupCtx,
			NewGenerator(d.Seed),
			ProduceOptions{Addr: addr, Topic: topic, Rate: d.Rate, DriftAfter: d.driftAfter(),
				OnDrift: func() { d.drifts <- time.Now() }},
		)
		return err
	})
	group.Go(func() error { return d.watch(stopped) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, context.Canceled) {
		return err
	}
	return d.summarise()
}

// happening is the first line of a quickstart.
const happening = "A broker, a generated stream of ratings and the daemon that learns from it run in this process."

// introduce says where the page and the broker are, and whether an earlier run is gone on from.
func (d *demo) introduce(addr string) error {
	page := "http://" + d.daemon.Addr() + "/"
	if d.Open {
		if err := openBrowser(page); err != nil {
			d.Log.Warn("the page is not shown: no browser was started", "page", page, "error", err)
		}
	}
	if d.Out.IsJSON() {
		return d.Out.Emit("ready", report.Ready{Web: d.daemon.Addr(), Models: []string{model}})
	}
	if _, err := fmt.Fprintf(d.Text, "%s\npage at %s\n", happening, page); err != nil {
		return err
	}
	if err := d.Out.Emit("broker", report.Broker{BootstrapServers: addr}); err != nil {
		return err
	}
	if d.log != "" {
		d.table = NewScreen(d.Text, page, d.log, nil)
	}
	if n := d.daemon.Progressive().N; n > 0 {
		return d.table.Note(0,
			fmt.Sprintf("continuing with the state in %s, which has learned from %s", d.Dir,
				report.Count(n, "event")))
	}
	return nil
}

// openBrowser shows an address in the user's browser, by the command that the system has for it. It does not wait for
// the browser.
func openBrowser(page string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	cmd := exec.Command(name, page)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // else it would stay in the table of processes
	return nil
}

// driftAfter returns the number of events before the change of taste.
func (d *demo) driftAfter() int64 {
	at := driftAt
	if d.For > 0 {
		at = min(at, time.Duration(driftShare*float64(d.For)))
	}
	return max(1, int64(at.Seconds()*d.Rate))
}

// configure writes the configuration that the daemon runs on, so that it can be looked at and used again.
func (d *demo) configure(addr string) (*config.Config, error) {
	text := fmt.Sprintf(
		`# Written by refitd quickstart. The stream changes within seconds, so the sample forgets within seconds.
kafka: {bootstrap_servers: [%q], group_id: refitd-quickstart}
storage: {path: state}
web: {listen_address: "127.0.0.1:0"}
models:
  - name: %s
    input: {topics: [%s], format: json, start: earliest}
    schema: {task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, categorical: [user, item]}
    sample: {size: 50000, seed: %d, half_life: 12s, holdout: {fraction: 0.1}}
    train: {every: 3s, every_events: 10000, max_basis: 8, penalty: l1linf, lambda: auto, solver: hybrid, fold_in: {by: [user]}}
    evaluate: {window: %d, baseline_by: item}
    publish: {store: snapshots, update_every: 2s}
`,
		addr,
		model,
		topic,
		d.Seed,
		d.window,
	)
	path := filepath.Join(d.Dir, "ratings.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--dir", Path: path}
	}
	conf, err := config.Load(path)
	if err != nil {
		return nil, report.Exit(report.ExitUsage, err)
	}
	return conf, nil
}

// watch prints ticks, versions, the change and the recovery until the daemon has stopped.
func (d *demo) watch(stopped <-chan struct{}) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var err error
		select {
		case v := <-d.versions:
			err = d.version(v)
		case at := <-d.drifts:
			err = d.drifted(at)
		case <-tick.C:
			err = d.tick()
		case <-stopped:
			for len(d.versions) > 0 {
				if err := d.version(<-d.versions); err != nil {
					return err
				}
			}
			return d.noteUpdates()
		}
		if err != nil {
			return err
		}
	}
}

func (d *demo) version(v report.Version) error {
	if v.Kind == "refit" {
		d.lastRefit = time.Now()
	}
	d.count++
	if v.Decision == "promoted" {
		if d.first == nil {
			d.first = report.Some(time.Since(d.began).Seconds())
		}
		d.last = &v
	}
	if d.Out.IsJSON() {
		return d.Out.Emit("version", v)
	}
	if d.updates.Add(&v) {
		return nil
	}
	if err := d.noteUpdates(); err != nil {
		return err
	}
	return d.table.Note(time.Since(d.began),
		fmt.Sprintf("version %d (%s) %s: %s; %s", v.Version, v.Kind, v.Decision, v.Reason, v.Optimality()))
}

// noteUpdates writes one line of the updates since the last note, if there were any.
func (d *demo) noteUpdates() error {
	text := d.updates.Take()
	if text == "" {
		return nil
	}
	return d.table.Note(time.Since(d.began), text)
}

func (d *demo) drifted(at time.Time) error {
	d.driftedAt = report.Some(at.Sub(d.began).Seconds())
	p := d.daemon.Progressive()
	d.before, d.driftEvent = rmse(p.Window.Published), p.N
	if d.Out.IsJSON() {
		return d.Out.Emit("drift", report.Drift{ElapsedSeconds: *d.driftedAt})
	}
	return d.table.Note(at.Sub(d.began), "tastes have changed: the stream now follows other users and items")
}

func (d *demo) tick() error {
	p := d.daemon.Progressive()
	elapsed := time.Since(d.began)
	t := report.Tick{
		ElapsedSeconds:  report.Seconds(elapsed),
		Events:          p.N,
		EventsPerSecond: report.Number(p.N - d.events),
		Lag:             d.daemon.Lag(),
		Progressive:     p,
	}
	d.events = p.N
	if !d.lastRefit.IsZero() {
		t.SinceRefitSeconds = report.Some(time.Since(d.lastRefit).Seconds())
	}
	if v := d.last; v != nil {
		t.Version, t.Form, t.Gap, t.GapKind = &v.Version, v.Form, v.GapRelative, v.GapKind
	}
	var err error
	if d.Out.IsJSON() {
		err = d.Out.Emit("tick", t)
	} else {
		err = d.table.Tick(&t)
	}
	if err != nil {
		return err
	}
	return d.checkRecovery(&p)
}

// checkRecovery says once when the published model is as good as before the change: below both means and within 5 % of
// its loss then, over a window that holds no event from before.
func (d *demo) checkRecovery(p *report.Progressive) error {
	published := rmse(p.Window.Published)
	if d.driftedAt == nil || d.recovered != nil || p.N < d.driftEvent+d.window ||
		!(published < rmse(p.Baselines.GlobalMean) && published < rmse(p.Baselines.ItemMean) &&
			published <= recoveredRatio*d.before) {
		return nil
	}
	elapsed := time.Since(d.began)
	d.recovered = report.Some(elapsed.Seconds() - float64(*d.driftedAt))
	if d.Out.IsJSON() {
		return d.Out.Emit("recovered", report.Recovered{AfterSeconds: *d.recovered})
	}
	return d.table.Note(elapsed, fmt.Sprintf("recovered %.0f s after the change: published rmse %.3f, before it %.3f",
		float64(*d.recovered), published, d.before))
}

// summarise prints what happened and a command that scores with the last champion.
func (d *demo) summarise() error {
	store := filepath.Join(d.Dir, "snapshots")
	stdin := `{"user":"u17","item":"i42"}`
	argv := append(self(), "score", "--store", store, "--model", model)
	if d.Out.IsJSON() {
		argv = append(argv, "--json")
	}
	s := report.QuickstartSummary{
		FirstVersionSeconds:   d.first,
		Versions:              d.count,
		DriftSeconds:          d.driftedAt,
		RecoveredAfterSeconds: d.recovered,
		Progressive:           d.daemon.Progressive(),
		Store:                 store,
		Model:                 model,
		ScoreArgv:             argv,
		ScoreStdin:            stdin,
	}
	return d.Out.Emit("summary", s)
}

// self returns the command line that starts this program again: the Go command where the binary is only built for one
// run.
func self() []string {
	path, err := os.Executable()
	if err != nil || strings.Contains(path, string(filepath.Separator)+"go-build") {
		return []string{"go", "run", "./cmd/refitd"}
	}
	return []string{path}
}

// rmse is NaN without metrics.
func rmse(m *report.Metrics) float64 {
	if m == nil || m.RMSE == nil {
		return math.NaN()
	}
	return float64(*m.RMSE)
}

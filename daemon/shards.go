package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/model"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot/backoff"
)

// againAfter is how long a shard waits that another process has taken, although the group gives it to this one. The
// group is about to correct one of the two.
const (
	againAfter = time.Second
	againMax   = 30 * time.Second
)

// shards are those that a Kafka group gives this process (shard.group). Each has the models of the configuration,
// with separate states: a shard is the same whichever process runs it, and how many there are does not change.
type shards struct {
	daemon *Daemon
	group  *shard.Group
	held   prometheus.Gauge
	moves  *prometheus.CounterVec // by change: given, given_up or lost

	ctx     context.Context // of the run
	outlive context.Context // of what announces
	failed  chan error      // of shards; the first one ends the process
	changed chan struct{}   // a shard has read to its end

	mu       sync.Mutex // guards what follows
	settings *config.Config
	running  map[int]*running
	known    map[int]bool      // shards whose states this process has had open, and closed in order
	since    time.Time         // of the last change of what runs
	summary  []report.RunModel // of shards that ended with the process
	rate     float64           // of them, events a second
}

// running is a shard of this process.
type running struct {
	stop   context.CancelFunc
	ended  chan struct{}
	models []*model.Model // while it is open
	whole  bool           // it has read to its end
}

// newShards returns nil unless a group decides; the metrics are there all the same. The error carries its exit code.
func newShards(d *Daemon) (*shards, error) {
	f := promauto.With(d.registry)
	s := &shards{
		daemon:   d,
		settings: d.Config,
		running:  map[int]*running{},
		known:    map[int]bool{},
		failed:   make(chan error, 1),
		changed:  make(chan struct{}, 1),
		held: f.NewGauge(prometheus.GaugeOpts{Name: "refitd_shards_held",
			Help: "Shards that the group has given this process (shard.group); 0 elsewhere."}),
		moves: f.NewCounterVec(prometheus.CounterOpts{Name: "refitd_shard_moves_total",
			Help: "Shards that the group gave this process, that it gave up, and that others took before it knew."},
			[]string{"change"}),
	}
	for _, change := range []string{"given", "given_up", "lost"} {
		s.moves.WithLabelValues(change)
	}
	of := &d.Config.Shard
	if d.Config.Role != config.RoleShard || of.Group == "" {
		return nil, nil
	}
	kafka, err := cluster.ClientOptions(&d.Config.Kafka)
	if err != nil {
		return nil, err
	}
	member, err := of.Member()
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "shard.instance_id", Err: err}
	}
	s.group = shard.NewGroup(
		shard.GroupOptions{
			Kafka:    kafka,
			Name:     of.Group,
			Count:    of.Count,
			Session:  of.Session.Std(),
			Instance: member,
			Log:      d.Log,
			Given:    s.given,
			Taken:    s.taken,
		},
	)
	return s, nil
}

// run is a member of the group until ctx is done, a shard fails or, with an end, all of this process have read to
// theirs. What announces what it publishes runs until outlive is done at most.
func (s *shards) run(ctx, outlive context.Context) error {
	s.ctx, s.outlive, s.since = ctx, outlive, time.Now()
	memberCtx, leave := context.WithCancel(ctx)
	defer leave()
	member := make(chan error, 1)
	go func() { member <- s.group.Run(memberCtx) }()
	tick := time.NewTicker(time.Second) // a group that has no shard for this process says nothing
	defer tick.Stop()
	for {
		select {
		case err := <-member:
			if errors.Is(err, shard.ErrGroup) {
				err = &report.ExitError{Code: report.ExitUsage, Key: "shard.group", Err: fmt.Errorf("daemon: %w", err)}
			}
			return err
		case err := <-s.failed:
			leave()
			return errors.Join(err, <-member)
		case <-s.changed:
		case <-tick.C:
		}
		if s.daemon.UntilEnd && s.whole() {
			leave()
		}
	}
}

// whole reports whether the group has answered, and all shards that it gave have read to their ends, for so long that
// those of a process that has died would have come.
func (s *shards) whole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.since) < 3*s.group.Session/2 {
		return false
	}
	for _, r := range s.running {
		if !r.whole {
			return false
		}
	}
	return s.group.Joined()
}

// given starts shards.
func (s *shards) given(numbers []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range numbers {
		ctx, stop := context.WithCancel(s.ctx)
		r := &running{stop: stop, ended: make(chan struct{})}
		s.running[n] = r
		go func() {
			defer close(r.ended)
			defer stop()
			if err := s.serve(ctx, n, r); err != nil {
				select {
				case s.failed <- fmt.Errorf("shard %d: %w", n, err):
				default:
				}
				return
			}
			if ctx.Err() == nil {
				s.mu.Lock()
				r.whole, s.since = true, time.Now()
				s.mu.Unlock()
				select {
				case s.changed <- struct{}{}:
				default:
				}
			}
		}()
	}
	s.since = time.Now()
	s.moves.WithLabelValues("given").Add(float64(len(numbers)))
	s.held.Set(float64(len(s.running)))
}

// taken stops shards, and waits until what they have read is sent.
func (s *shards) taken(numbers []int, lost bool) {
	s.mu.Lock()
	var stopped []*running
	for _, n := range numbers {
		if r := s.running[n]; r != nil {
			r.stop()
			stopped = append(stopped, r)
			delete(s.running, n)
		}
	}
	s.since = time.Now()
	s.held.Set(float64(len(s.running)))
	s.mu.Unlock()
	for _, r := range stopped {
		<-r.ended
	}
	change := "given_up"
	if lost {
		change = "lost"
	}
	s.moves.WithLabelValues(change).Add(float64(len(stopped)))
}

// serve runs a shard until ctx is done or it has read to its end. If another process has had the shard, it begins
// again with what that process has sent.
func (s *shards) serve(ctx context.Context, number int, r *running) error {
	log := s.daemon.Log.With("shard", number)
	for failures := 1; ; failures++ {
		err := s.once(ctx, number, r)
		moved, isMoved := errors.AsType[*model.MovedError](err)
		switch {
		case isMoved:
			log.Info("state of a shard removed that another process has been since", "dir", moved.Dir)
			if err := moved.Remove(); err != nil {
				return &report.ExitError{Code: report.ExitState, Path: moved.Dir, Err: err}
			}
			if failures == 1 {
				continue
			}
		case errors.Is(err, shard.ErrSuperseded):
			if ctx.Err() == nil { // else the group has said so, too
				log.Warn(
					"another process is this shard, too, and was started later",
					"note", "tried again as long as the group gives it to this one",
				)
			}
		case errors.Is(err, shard.ErrForgotten): // starting again takes them out
			log.Info("subjects were forgotten: shard started again")
		case ctx.Err() != nil && errors.Is(err, context.Canceled): // stopped while its state was opened
			return nil
		default:
			return err
		}
		if backoff.Sleep(ctx, backoff.Doubled(failures, againAfter, againMax)) != nil {
			return nil
		}
	}
}

// once opens the models of a shard, runs them and closes them.
func (s *shards) once(ctx context.Context, number int, r *running) (err error) {
	s.mu.Lock()
	conf, look := s.settings.OfShard(number), s.daemon.CheckState
	if s.known[number] { // what this process has just read itself need not be tried out in another
		look = nil
	}
	delete(s.known, number)
	s.mu.Unlock()
	registry := prometheus.NewRegistry()
	models, err := s.daemon.open(ctx, conf, registry, look)
	defer func() {
		var failed error
		for _, m := range models {
			failed = errors.Join(failed, m.Close())
		}
		if err = errors.Join(err, failed); failed == nil && len(models) == len(conf.Models) {
			s.mu.Lock()
			s.known[number] = true
			s.mu.Unlock()
		}
	}()
	if err != nil {
		return err
	}
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"shard_index": strconv.Itoa(number)}, s.daemon.registry)
	if err := labelled.Register(registry); err != nil {
		return fmt.Errorf("daemon: metrics of shard %d: %w", number, err)
	}
	defer labelled.Unregister(registry)
	s.show(r, models)
	defer s.show(r, nil)
	outlive, stop := context.WithCancel(s.outlive)
	var background sync.WaitGroup
	err = s.daemon.runModels(ctx, outlive, &background, models)
	stop()
	background.Wait()
	if err != nil || ctx.Err() != nil && s.ctx.Err() == nil {
		return err
	}
	for _, m := range models {
		summary, err := m.Summary()
		if err != nil {
			return err
		}
		summary.Shard = &number
		s.mu.Lock()
		s.summary, s.rate = append(s.summary, summary), s.rate+m.Rate()
		s.mu.Unlock()
	}
	return nil
}

// summaries returns what the shards came to that ended with the process, and the events that they applied a second.
func (s *shards) summaries() ([]report.RunModel, float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.summary, func(a, b report.RunModel) int { return cmp.Compare(*a.Shard, *b.Shard) })
	return s.summary, s.rate
}

// show makes the models of a shard those that are looked at.
func (s *shards) show(r *running, models []*model.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.models = models
}

// models returns those of all shards that are open, by shard.
func (s *shards) models() (list []*model.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(s.running)) {
		list = append(list, s.running[n].models...)
	}
	return list
}

// configure has shards that begin later have the settings of a reload.
func (s *shards) configure(next *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = next
}

// status sums up what the shards of this process say, by model.
func (s *shards) status() (list []statuspage.ModelStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.settings.Models {
		out := statuspage.ModelStatus{Name: s.settings.Models[i].Name, Waiting: "no version here: the trainer publishes"}
		if trouble := s.group.Trouble(); trouble != "" {
			out.NotReady = append(out.NotReady, statuspage.Reason{Cause: part.CauseShards, Text: trouble})
		} else if !s.group.Joined() {
			out.NotReady = append(out.NotReady, statuspage.Reason{Cause: part.CauseShards, Text: "shard: joining group " +
				s.group.Name})
		}
		for _, n := range slices.Sorted(maps.Keys(s.running)) {
			models := s.running[n].models
			if i >= len(models) {
				if !s.running[n].whole {
					out.NotReady = append(out.NotReady,
						statuspage.Reason{Cause: part.CauseShards, Text: fmt.Sprintf("shard %d: opening its state", n)})
				}
				continue
			}
			addShard(&out, models[i].Status(), n)
		}
		list = append(list, out)
	}
	return list
}

// addShard adds what one shard of a model says.
func addShard(to *statuspage.ModelStatus, one statuspage.ModelStatus, number int) {
	for _, reason := range one.NotReady {
		to.NotReady = append(to.NotReady,
			statuspage.Reason{Cause: reason.Cause, Text: fmt.Sprintf("shard %d: %s", number, reason.Text)})
	}
	to.Events, to.Applied, to.Lag = to.Events+one.Events, to.Applied+one.Applied, to.Lag+one.Lag
	to.Halted, to.Partitions = append(to.Halted, one.Halted...), append(to.Partitions, one.Partitions...)
	for _, r := range one.Rejections {
		i := slices.IndexFunc(to.Rejections,
			func(o statuspage.Rejections) bool { return o.Reason == r.Reason && o.Field == r.Field })
		if i < 0 {
			to.Rejections = append(to.Rejections, r)
			continue
		}
		to.Rejections[i].Records += r.Records
	}
	slices.SortFunc(to.Rejections, statuspage.Rejections.Compare)
	for _, field := range one.AbsentFields {
		if !slices.Contains(to.AbsentFields, field) {
			to.AbsentFields = append(to.AbsentFields, field)
		}
	}
	for _, field := range one.LostFields {
		if !slices.Contains(to.LostFields, field) {
			to.LostFields = append(to.LostFields, field)
		}
	}
	to.SchemaTrouble = cmp.Or(to.SchemaTrouble, one.SchemaTrouble)
	to.TimeUnit, to.TrueTimeUnit = cmp.Or(to.TimeUnit, one.TimeUnit), cmp.Or(to.TrueTimeUnit, one.TrueTimeUnit)
	to.SampleRows, to.SampleBytes = to.SampleRows+one.SampleRows, to.SampleBytes+one.SampleBytes
	to.Sample.Train, to.Sample.Holdout = to.Sample.Train+one.Sample.Train, to.Sample.Holdout+one.Sample.Holdout
	to.Sample.Size, to.Sample.Bytes, to.Sample.MaxBytes = one.Sample.Size, to.Sample.Bytes+one.Sample.Bytes,
		one.Sample.MaxBytes
}

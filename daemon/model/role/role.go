package role

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/binding"
	"github.com/refitd/refitd/daemon/memory"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/model/state"
	"github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A Role is what this process does for a model: all of it, what a shard does (read a part of the partitions and send
// their rows), or what the trainer does (merge the rows of the shards, learn and publish). Its methods are safe for
// concurrent use.
type Role interface {
	// Reads reports whether a partition is read by this process or, of a trainer, by one of its shards.
	Reads(topic string, partition int32) bool
	// Merges reports whether events come from shards: this process does not read the topics.
	Merges() bool
	// Run reads or merges until ctx is done or, with UntilEnd, the ends are reached and everything is sent. read reads
	// the topics. The error carries its exit code. Call it once.
	Run(ctx context.Context, read func(context.Context) error) error
	// Trouble says why rows or events do not get from the shards to the trainer, or "".
	Trouble() string

	Training
	Leadership
	Team
}

// Training is whether the model learns in this process, and when.
type Training interface {
	// Trains reports whether there is a sample to train on here: not on a shard, nor before a trainer has merged what
	// there is, nor while another trainer leads.
	Trains() bool
	// Updates reports whether there is more to publish here than refits.
	Updates() bool
	// Learned returns how many forwarded events were learned. Updates and deltas are due after them as after events
	// that are read.
	Learned() int64
	// MayRefit returns an error that says which process to ask for a refit, nil if it is this one.
	MayRefit() error
}

// Leadership is who trains and publishes where several processes may.
type Leadership interface {
	// Leads reports whether no other process trains and publishes in place of this one.
	Leads() bool
	// Term returns the term in which this process leads, nil while another one does. Where contested is false nobody
	// else may lead, and there are no terms.
	Term() (term *shard.Term, contested bool)
	// Fence has a publisher publish in a term only, where there are terms.
	Fence(p *publish.Publisher)
	// Stand takes part in the decision who leads until ctx is done. The error carries its exit code.
	Stand(ctx context.Context) error
	// Waits says who trains while this process is on standby, or "".
	Waits() string
}

// Team is what a trainer knows of its shards; without shards it is empty.
type Team interface {
	// Shards returns the shards by number.
	Shards() []ShardStatus
	// Partitions returns what was merged of each partition, as a consumer would have it.
	Partitions() []consumer.PartitionStatus
	// Missed returns how many offsets the topic of forwarded events lacks; known is false where there is no such topic.
	Missed() (offsets int64, known bool)
}

// ShardStatus is what a trainer knows of a shard.
type ShardStatus struct {
	shard.Status
	Forwarded time.Time // when its last batch of forwarded events came; zero before the first
}

// Options are what a role needs of its model. All but Learner are required.
type Options struct {
	*part.Options
	State   *state.State
	Sink    *ingest.Ingest
	Learner *Learner // of a trainer, nil if shards forward no events
	// Lag returns the records below the log ends that have not been applied yet.
	Lag func() int64
	// OnMerged is called when rows of a shard are in the state, with the number of events by topic. It is called on the
	// goroutine of Run.
	OnMerged func(events map[string]int64)
	// Wake has the trainer look for something to do. It does not block.
	Wake func()
}

// New returns the role that the settings of a model name. The error carries its exit code.
func New(o Options) (Role, error) {
	switch s := &o.Settings.Shard; {
	case s.IsShard():
		return newShardRole(&o)
	case s.IsTrainer():
		return newTrainerRole(&o)
	}
	return whole{state: o.State}, nil
}

// uncontested is the leadership of a process that no other one can replace.
type uncontested struct{}

func (uncontested) Leads() bool { return true }

func (uncontested) Term() (*shard.Term, bool) { return nil, false }

func (uncontested) Fence(*publish.Publisher) {}

func (uncontested) Stand(context.Context) error { return nil }

func (uncontested) Waits() string { return "" }

// noTeam is the team of a process without shards.
type noTeam struct{}

func (noTeam) Merges() bool { return false }

func (noTeam) Shards() []ShardStatus { return nil }

func (noTeam) Partitions() []consumer.PartitionStatus { return nil }

func (noTeam) Missed() (int64, bool) { return 0, false }

// whole is the role of a process that does everything.
type whole struct {
	uncontested
	noTeam
	state *state.State
}

func (whole) Reads(string, int32) bool { return true }

func (whole) Trouble() string { return "" }

func (whole) Trains() bool { return true }

func (whole) Updates() bool { return true }

func (whole) Learned() int64 { return 0 }

func (whole) MayRefit() error { return nil }

func (w whole) Run(ctx context.Context, read func(context.Context) error) error {
	if err := read(ctx); err != nil {
		return w.state.StorageError(err)
	}
	return nil
}

// minSkew is by how much the clocks of shards may be wrong even where input.max_future_skew is less: what a head takes
// to get to the brokers looks like it.
const minSkew = time.Minute

// keyOf returns the key of an option of a store.
func keyOf(option string) string {
	switch option { // which may change in a state, and not in a team
	case "MaxCost":
		return "sample.max_bytes"
	case "Rules":
		return "schema"
	}
	key, _ := binding.Translate(&sketch.ConfigError{Option: option})
	return cmp.Or(key, option)
}

// skewOf returns by how much the clocks of shards may be wrong.
func skewOf(m *config.Model) time.Duration { return max(minSkew, m.Input.MaxFutureSkew.Std()) }

// dropped counts what is dropped of the topics of a team.
func dropped(o *part.Options) func(reason string) {
	return func(reason string) { o.Metrics.TeamDropped.WithLabelValues(o.Settings.Name, reason).Inc() }
}

// receiverOptions are those of all receivers of a model: the trainer's, and those of a process that takes shards up.
func receiverOptions(o *part.Options, kafka []kgo.Opt, topic string, count int,
	store *sketch.Store) shard.ReceiverOptions {
	of := &config.Shard{Count: count}
	return shard.ReceiverOptions{
		Kafka:     kafka,
		Topic:     topic,
		Model:     o.Settings.Name,
		Count:     count,
		Store:     store,
		Log:       o.Log,
		Values:    ingest.Values(o.Settings),
		MaxSkew:   skewOf(o.Settings),
		Key:       keyOf,
		Agreement: binding.Agreement(o.Settings),
		Owns: func(number int, topic string, partition int32) bool {
			return of.Owns(number, partition) && slices.Contains(o.Settings.AllTopics(), topic)
		},
		MaxWaiting: memory.Waiting(o.Settings),
		OnDropped:  dropped(o),
	}
}

// exitOf gives an error of a shard or a trainer its exit code.
func exitOf(state *state.State, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, shard.ErrTopic):
		return &report.ExitError{Code: report.ExitUsage, Key: "shard.topic", Err: fmt.Errorf("model: %w", err)}
	case errors.Is(err, shard.ErrTrainers):
		return &report.ExitError{Code: report.ExitUsage, Key: "shard.standby", Err: fmt.Errorf("model: %w", err)}
	case errors.Is(err, shard.ErrSuperseded):
		return &report.ExitError{Code: report.ExitUsage, Key: "shard.index", Err: fmt.Errorf("model: %w", err)}
	case errors.Is(err, shard.ErrMoved):
		return &MovedError{state.Dir}
	case errors.Is(err, shard.ErrForgotten):
		return ForgottenElsewhere(state.Dir)
	}
	return state.StorageError(err)
}

// ForgottenElsewhere returns the error that ends a process because subjects were forgotten at another trainer: the next
// start removes them from the state. It carries its exit code.
func ForgottenElsewhere(dir string) error {
	return &report.ExitError{Code: report.ExitState, Path: dir, Err: fmt.Errorf("model: %w", shard.ErrForgotten)}
}

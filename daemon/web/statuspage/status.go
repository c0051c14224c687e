// Package statuspage is what an operator sees of a running daemon: its status, the alerts that follow from it, the
// overview as JSON, and the page with its style and script. It neither asks the daemon, which fills a Status, nor
// answers requests, which package web does. Values belong to one goroutine, or are only read; nothing here starts one.
package statuspage

import (
	"cmp"
	"time"

	"github.com/refitd/refitd/daemon/report"
)

// Status is what an operator wants to see of a running daemon.
type Status struct {
	Now     time.Time
	Started time.Time
	Models  []ModelStatus
	Disks   []DiskStatus
	Memory  MemoryStatus
	Reload  ReloadStatus
}

// MemoryStatus is the memory of the process.
type MemoryStatus struct {
	ResidentBytes int64 `json:"resident_bytes"` // in use; 0 where the system does not say
	ComputedBytes int64 `json:"computed_bytes"` // what the configuration may use
	BudgetBytes   int64 `json:"budget_bytes"`   // memory_budget; 0 without one
}

// NotReady returns why models are not ready, each with the name of the model; nothing if all are.
func (s Status) NotReady() (list []string) {
	for i := range s.Models {
		for _, reason := range s.Models[i].NotReady {
			list = append(list, s.Models[i].Name+": "+reason.Text)
		}
	}
	return list
}

// Reason is why a model is not ready.
type Reason struct {
	Cause string // one of a few words
	Text  string // for people
}

// ModelStatus is the state of one model.
type ModelStatus struct {
	Name     string
	Champion *report.Version // what consumers have; nil before the first version
	Waiting  string          // why there is no champion, empty if there is one
	Standby  string          // who trains in place of this process, empty if it does
	// CatchingUp says how far a catch-up is, empty without one.
	CatchingUp string
	NotReady   []Reason        // why the model does not do its work, nothing if it does
	Published  time.Time       // when the champion was
	Judged     *report.Version // the last version judged, promoted or not; nil before the first one
	LastRefit  time.Time       // when a refit last ended with a model; zero if none did since the start
	// RefitFailure is why the last refit failed, empty if it did not.
	RefitFailure string
	// TrainingDisabled says why no refit is begun, empty if they are.
	TrainingDisabled string
	// LiveHeldBack is why those who last asked for the live model got the champion, empty where they did not.
	LiveHeldBack string
	Progressive  report.Progressive
	Events       int64 // applied since the start
	Applied      int64 // since the state began
	Lag          int64 // records below the log ends that are not applied yet
	Halted       []HaltedPartition
	Partitions   []PartitionStatus
	Rejections   []Rejections // since the start, most frequent first
	// with their paths: that input.mapping names and none of the events since the start has, once there were enough of
	// them
	AbsentFields   []string
	LostFields     []string // for which a schema of records has nothing, or another type
	SchemaTrouble  string   // for which schema of records a partition waits, and why; "" if none does
	TimeUnit       string   // schema.time_unit, where event times seem to be of another unit; else empty
	TrueTimeUnit   string   // the unit that they seem to be of
	GateRejections int      // refits that were kept back in a row
	SampleRows     int
	SampleBytes    int64
	Sample         SampleStatus
	Scoring        *ScoringStatus // nil without a topic of scores
	VectorsTrouble string         // why the table of publish.vectors is not in step, empty if it is
	Ranking        *RankingStatus // nil but of choices, of which some have been looked at
	Shards         []ShardStatus  // of a trainer, in their order; else none
	Tables         []TableStatus  // of items and users
}

// TableStatus is how much of the events a table knows.
type TableStatus struct {
	Table string `json:"table"` // its name
	Of    string `json:"of"`    // field of its names
	Rows  int    `json:"rows"`  // of entities
	// share of the last thousand events or more that have a row; null before there were so many
	Coverage *report.Number `json:"coverage"`
}

// ShardStatus is what a trainer has of a shard.
type ShardStatus struct {
	Shard  int        `json:"shard"`  // 0 to shard.count - 1
	Host   string     `json:"host"`   // where it runs, empty before its first head
	Merged *time.Time `json:"merged"` // when its last head was written that is merged; null before the first
	Lag    int64      `json:"lag"`    // records that it had not read then
	// when the trainer last had a batch of its events; absent before, and without shard.live_topic
	Learned *time.Time `json:"learned,omitempty"`
	Refused string     `json:"refused,omitempty"` // why its last head is not merged; absent if it is
}

// RankingStatus is where the last choices that were looked at stood in lists of ten of all names, but those that their
// entity had chosen before.
type RankingStatus struct {
	Published  report.Metrics `json:"published"`  // in the list that consumers would have got: recall_10, ndcg_10
	Popularity report.Metrics `json:"popularity"` // in that of the names that were chosen most
}

// ScoringStatus is how the scores of a model stand that go to a topic.
type ScoringStatus struct {
	Topic     string
	Group     string // that keeps which offsets are answered
	Guarantee string // how often an offset is answered; empty before the first session
	Waiting   string // why nothing is scored although nothing failed, else empty
	Trouble   string // why nothing is scored, empty if nothing failed
	Answered  int64  // offsets since the start, with those of records that are no events
	Rejected  int64  // those
	Lag       int64  // offsets that nobody of the group has answered yet; -1 if that is not known
}

// PartitionStatus is how far reading is in one partition.
type PartitionStatus struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`     // everything below has been applied
	End       int64  `json:"end"`      // of the log, -1 before the first answer of a broker
	Lag       int64  `json:"lag"`      // offsets that are to do
	Applied   int64  `json:"applied"`  // events, since the state was made
	Rejected  int64  `json:"rejected"` // records that are no events, since the state was made
	Gap       int64  `json:"gap"`      // offsets that the broker held no more when they were due
	Rows      int64  `json:"rows"`     // in the sample
	Halted    string `json:"halted"`   // why reading stopped for an operator to decide, else empty
	// why it waits, as for a schema, to be read on without an operator; absent if it does not
	Paused string `json:"paused,omitempty"`
}

// Rejections counts records that are no events for one cause.
type Rejections struct {
	Reason string `json:"reason"` // one of the reasons of rejections
	// of the schema that the reason is about; empty where it is about the record as a whole
	Field   string `json:"field"`
	Records int64  `json:"records"` // since the start
}

// Compare orders by count, largest first.
func (r Rejections) Compare(o Rejections) int {
	return cmp.Or(cmp.Compare(o.Records, r.Records), cmp.Compare(r.Reason, o.Reason), cmp.Compare(r.Field, o.Field))
}

// RejectedRecord is a record that is no event, without what it says.
type RejectedRecord struct {
	Topic     string    `json:"topic"`     // of the record
	Partition int32     `json:"partition"` // of the record
	Offset    int64     `json:"offset"`    // of the record
	Time      time.Time `json:"time"`      // of the record
	Bytes     int       `json:"bytes"`     // of its value; -1 if it had none
	Reason    string    `json:"reason"`    // one of the reasons of rejections
	// of the schema that the reason is about; absent where it is about the record as a whole
	Field    string `json:"field,omitempty"`
	Expected string `json:"expected,omitempty"` // what may be there; absent where the reason says all
	Got      string `json:"got,omitempty"`      // the kind of what was there
	// the value with a kind in place of each value and of each name that neither the schema nor the mapping has
	Outline string `json:"outline"`
}

// SampleStatus is how full the sample is.
type SampleStatus struct {
	Train    int   `json:"train"`     // rows that are trained on
	Holdout  int   `json:"holdout"`   // rows that are held out
	Size     int   `json:"size"`      // sample.size: rows to train on at most
	Bytes    int64 `json:"bytes"`     // of all rows
	MaxBytes int64 `json:"max_bytes"` // sample.max_bytes
	// as the last refit took the sample; absent before the first one of this run
	Ages *report.SampleAges `json:"ages,omitempty"`
}

// HaltedPartition waits for an operator.
type HaltedPartition struct {
	Topic     string
	Partition int32
	Offset    int64
	Reason    string
}

// DiskStatus is the space of one file system.
type DiskStatus struct {
	Path         string `json:"path"`           // on it
	FreeBytes    int64  `json:"free_bytes"`     // when the status was taken
	MinFreeBytes int64  `json:"min_free_bytes"` // reading pauses below it
}

// ReloadStatus says how the last reload of the configuration ended.
type ReloadStatus struct {
	At    time.Time `json:"at"`    // zero if there was none
	Error string    `json:"error"` // empty if it succeeded
}

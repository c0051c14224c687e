package report

// Ready says that run is up.
type Ready struct {
	Web    string   `json:"web"`    // address of the HTTP listener
	Models []string `json:"models"` // names
}

// Halt says that a partition stopped until an operator decides.
type Halt struct {
	Model     string `json:"model"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"` // that is read next once the operator has decided
	Reason    string `json:"reason"` // why, for people
}

// CatchingUp says how far a model is that is far behind its log: once a second, and when it has caught up.
type CatchingUp struct {
	Model      string `json:"model"`
	Behind     int64  `json:"behind"`      // records below the log ends that are not read yet
	PerSecond  Number `json:"per_second"`  // records read, mean since the begin
	ETASeconds Number `json:"eta_seconds"` // that the rest takes at that rate
}

// RunModel is one model in the summary of run.
type RunModel struct {
	State            State       `json:"state"`       // at the end
	Progressive      Progressive `json:"progressive"` // since the state was made
	VersionsPromoted int         `json:"versions_promoted"`
	VersionsKept     int         `json:"versions_kept"`
	Champion         *int64      `json:"champion"` // version; null without one
	// why a run to the log ends is exit code 1 or 5; absent of any other
	Failure string `json:"failure,omitempty"`
	// of a process to which a group gives shards: which of them; absent of any other
	Shard *int `json:"shard,omitempty"`
}

// RunSummary ends run.
type RunSummary struct {
	Seconds         Number     `json:"seconds"`
	EventsPerSecond Number     `json:"events_per_second"` // applied, mean
	RSSBytes        int64      `json:"rss_bytes"`         // memory of the process at the end
	Models          []RunModel `json:"models"`            // in the order of the configuration
}

// Broker is the first line of quickstart.
type Broker struct {
	BootstrapServers string `json:"bootstrap_servers"` // host:port of the embedded broker
}

// Tick is emitted by quickstart once a second.
type Tick struct {
	ElapsedSeconds  Number `json:"elapsed_seconds"`
	Events          int64  `json:"events"`            // applied so far
	EventsPerSecond Number `json:"events_per_second"` // in the last second
	Lag             int64  `json:"lag"`
	Version         *int64 `json:"version"`        // champion; null before the first one
	Form            string `json:"form,omitempty"` // of the last version: convex, variational or update
	// of the last version, over its objective; null but for convex models
	Gap               *Number     `json:"gap"`
	GapKind           string      `json:"gap_kind,omitempty"`
	SinceRefitSeconds *Number     `json:"since_refit_seconds"` // null before the first refit
	Progressive       Progressive `json:"progressive"`         // so far
}

// Drift says that the generated stream changed.
type Drift struct {
	ElapsedSeconds Number `json:"elapsed_seconds"` // when it changed, since the start
}

// Recovered says that the published model is as good as before the drift.
type Recovered struct {
	AfterSeconds Number `json:"after_seconds"` // since the change
}

// QuickstartSummary ends quickstart.
type QuickstartSummary struct {
	FirstVersionSeconds   *Number     `json:"first_version_seconds"`   // null if there was none
	Versions              int64       `json:"versions"`                // published
	DriftSeconds          *Number     `json:"drift_seconds"`           // when the stream changed; null if it did not
	RecoveredAfterSeconds *Number     `json:"recovered_after_seconds"` // null if it did not
	Progressive           Progressive `json:"progressive"`
	Store                 string      `json:"store"` // directory of the versions
	Model                 string      `json:"model"`
	ScoreArgv             []string    `json:"score_argv"`  // a command that scores with the last version
	ScoreStdin            string      `json:"score_stdin"` // its input
}

// EvalSummary ends eval.
type EvalSummary struct {
	Model         string   `json:"model"`
	Version       int64    `json:"version"`
	PayloadDigest string   `json:"payload_digest"`
	Metrics       Metrics  `json:"metrics"` // of all events
	Seen          *Metrics `json:"seen"`    // events whose every name the model knows
	Unseen        *Metrics `json:"unseen"`  // the others
	// MaybeLearned is how many events the version may have learned from: it knows all their names, and no event time is
	// later than those that it has learned from. On them the metrics may be too good.
	MaybeLearned int64 `json:"maybe_learned"`
	// of --rank with --seen: names ranked by how often they were chosen there
	Popularity *Metrics  `json:"popularity,omitempty"`
	Rejected   int64     `json:"rejected"` // lines that are no events
	Seconds    Number    `json:"seconds"`
	Dropped    []Dropped `json:"dropped"` // the same by reason and field
	Absent     Absent    `json:"absent"`  // events that lack it, by optional field
}

// Score is the answer for one event.
type Score struct {
	Line          int64    `json:"line"` // from 1
	Model         string   `json:"model"`
	Version       int64    `json:"version"`
	Prediction    any      `json:"prediction"`        // a Number or a class name
	Classes       []string `json:"classes,omitempty"` // the names of a binary label, in the order of probabilities
	Outputs       []Number `json:"outputs"`           // raw, in the order of the manifest
	Probabilities []Number `json:"probabilities"`     // of the classes or levels; null where the link has none
	Ranked        []string `json:"ranked,omitempty"`  // the classes of a multiclass label, best first
	Unseen        []string `json:"unseen"`            // names such as user=u9 that the version does not know
	Absent        []string `json:"absent"`            // optional fields that the event lacks: they count nothing
	// for people: how probable what was predicted is; nil without probabilities
	Likely []Likely `json:"-"`
}

// Likely is a class or level with its probability.
type Likely struct {
	Name        string
	Probability Number
}

// Invalid says why a line is no event.
type Invalid struct {
	Line   int64  `json:"line"`   // from 1; of a topic the offset
	Reason string `json:"reason"` // one of the reasons of rejections
	// of the schema that the reason is about; empty where it is about the line as a whole
	Field    string `json:"field"`
	Expected string `json:"expected"`       // what may be there
	Got      string `json:"got"`            // the kind of what was there, never the value itself
	Path     string `json:"path,omitempty"` // of the file, where the verb reads files; of a topic TOPIC/PARTITION
	IsOffset bool   `json:"-"`              // Line is one
}

// Absent counts the events of files that lack an optional field, by field.
type Absent map[string]int64

// Dropped counts lines of a file that are no events.
type Dropped struct {
	Reason string `json:"reason"` // one of the reasons of rejections, or that the line is not of the format
	// of the schema that the reason is about; empty where it is about the line as a whole
	Field     string `json:"field"`
	Count     int64  `json:"count"`      // lines
	FirstLine int64  `json:"first_line"` // from 1; of a topic the offset
	Path      string `json:"path"`       // of the file; of a topic TOPIC/PARTITION
	IsOffset  bool   `json:"-"`          // FirstLine is one
}

// ScoreSummary ends score.
type ScoreSummary struct {
	Scored  int64 `json:"scored"`           // events
	Invalid int64 `json:"invalid"`          // lines that are no events
	Absent  int64 `json:"absent"`           // optional fields that the scored events lack
	Folded  int64 `json:"folded,omitempty"` // events of the history
}

// VerifyPartition compares one account of the ledger with the topic.
type VerifyPartition struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Start       int64  `json:"start"`
	CheckedFrom int64  `json:"checked_from"` // first offset that could be read again
	Next        int64  `json:"next"`
	Lost        int64  `json:"lost"`   // events of the log that were not learned from
	Double      int64  `json:"double"` // events learned from twice
	Rejected    int64  `json:"rejected"`
	Control     int64  `json:"control"`
	Aborted     int64  `json:"aborted"`
	Holes       int64  `json:"holes"`
	Gap         int64  `json:"gap"`    // offsets that the broker held no more when they were due
	Rows        int64  `json:"rows"`   // in the sample
	Digest      string `json:"digest"` // of what lies behind checked_from: ok, mismatch or unverifiable
	// Unverifiable is the number of offsets that the brokers no longer hold as they were read, those of earlier
	// incarnations of the topic included.
	Unverifiable int64   `json:"unverifiable"`
	Halted       *string `json:"halted"` // why reading stopped
}

// VerifySummary ends verify.
type VerifySummary struct {
	OK               bool    `json:"ok"`     // nothing is lost, double or different
	Lost             int64   `json:"lost"`   // of all partitions
	Double           int64   `json:"double"` // of all partitions
	Gap              int64   `json:"gap"`    // of all partitions
	SampleDigest     string  `json:"sample_digest"`
	RecomputedDigest *string `json:"recomputed_digest"` // of the sample made anew from the topic; null if it could not be
	// NotRecomputed says why RecomputedDigest is null although the topic was read; partitions and rows are compared all
	// the same, as far as the log goes.
	NotRecomputed string `json:"not_recomputed,omitempty"`
}

// SnapshotInspection is the answer of inspect about a version. Manifest is the manifest as it is in the store, except
// that a gap of a model that was not published is left out.
type SnapshotInspection struct {
	Manifest any              `json:"manifest"` // as in manifest.json
	Aliases  map[string]int64 `json:"aliases"`
	FilesOK  bool             `json:"files_ok"`  // every file has the digest of the manifest
	GoldenOK bool             `json:"golden_ok"` // the golden events have their scores
	// unsigned, or the key that the manifest names; the signature itself is not checked
	Signature string `json:"signature"`
	// Optimality says how far the refit behind the version got, in words and with the held-out loss.
	Optimality string  `json:"optimality"`
	Belief     *Belief `json:"belief,omitempty"` // absent where a check failed
	Entity     *Entity `json:"entity,omitempty"` // that --entity names; absent without it
}

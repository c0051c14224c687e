package report

// Ready says that run is up.
type Ready struct {
	Web    string   `json:"web"` // address of the HTTP listener
	Models []string `json:"models"`
}

// Halt says that a partition stopped until an operator decides.
type Halt struct {
	Model     string `json:"model"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Reason    string `json:"reason"`
}

// RunModel is one model in the summary of run.
type RunModel struct {
	State            State       `json:"state"`
	Progressive      Progressive `json:"progressive"`
	VersionsPromoted int         `json:"versions_promoted"`
	VersionsKept     int         `json:"versions_kept"`
	Champion         *int64      `json:"champion"`
}

// RunSummary ends run.
type RunSummary struct {
	Seconds         Number     `json:"seconds"`
	EventsPerSecond Number     `json:"events_per_second"`
	RSSBytes        int64      `json:"rss_bytes"`
	Models          []RunModel `json:"models"`
}

// Broker is the first line of quickstart.
type Broker struct {
	BootstrapServers string `json:"bootstrap_servers"`
}

// Tick is emitted by quickstart once a second.
type Tick struct {
	ElapsedSeconds    Number      `json:"elapsed_seconds"`
	Events            int64       `json:"events"`
	EventsPerSecond   Number      `json:"events_per_second"`
	Lag               int64       `json:"lag"`
	Version           *int64      `json:"version"`
	Gap               *Number     `json:"gap"`
	GapKind           string      `json:"gap_kind,omitempty"`
	SinceRefitSeconds *Number     `json:"since_refit_seconds"`
	Progressive       Progressive `json:"progressive"`
}

// Drift says that the generated stream changed.
type Drift struct {
	ElapsedSeconds Number `json:"elapsed_seconds"`
}

// Recovered says that the published model is as good as before the drift.
type Recovered struct {
	AfterSeconds Number `json:"after_seconds"`
}

// QuickstartSummary ends quickstart.
type QuickstartSummary struct {
	FirstVersionSeconds   *Number     `json:"first_version_seconds"`
	Versions              int64       `json:"versions"`
	DriftSeconds          *Number     `json:"drift_seconds"`
	RecoveredAfterSeconds *Number     `json:"recovered_after_seconds"`
	Progressive           Progressive `json:"progressive"`
	Store                 string      `json:"store"`
	Model                 string      `json:"model"`
	ScoreArgv             []string    `json:"score_argv"`
	ScoreStdin            string      `json:"score_stdin"`
}

// EvalSummary ends eval.
type EvalSummary struct {
	Model         string   `json:"model"`
	Version       int64    `json:"version"`
	PayloadDigest string   `json:"payload_digest"`
	Metrics       Metrics  `json:"metrics"`
	Seen          *Metrics `json:"seen"`   // events whose every name the model knows
	Unseen        *Metrics `json:"unseen"` // the others
	Rejected      int64    `json:"rejected"`
	Seconds       Number   `json:"seconds"`
}

// Score is the answer for one event.
type Score struct {
	Line          int64    `json:"line"` // from 1
	Model         string   `json:"model"`
	Version       int64    `json:"version"`
	Prediction    any      `json:"prediction"` // a Number or a class name
	Outputs       []Number `json:"outputs"`
	Probabilities []Number `json:"probabilities"`
	Unseen        []string `json:"unseen"`
}

// Invalid says why an event could not be scored.
type Invalid struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
}

// ScoreSummary ends score.
type ScoreSummary struct {
	Scored  int64 `json:"scored"`
	Invalid int64 `json:"invalid"`
}

// VerifyPartition compares one account of the ledger with the topic.
type VerifyPartition struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Start       int64  `json:"start"`
	CheckedFrom int64  `json:"checked_from"`
	Next        int64  `json:"next"`
	Lost        int64  `json:"lost"`
	Double      int64  `json:"double"`
	Rejected    int64  `json:"rejected"`
	Control     int64  `json:"control"`
	Aborted     int64  `json:"aborted"`
	Holes       int64  `json:"holes"`
	Gap         int64  `json:"gap"`
	Rows        int64  `json:"rows"`
	Digest      string `json:"digest"` // of what lies behind checked_from: ok, mismatch or unverifiable
	// Unverifiable is the number of offsets that the brokers no longer hold as they were read, those of earlier incarnations of the topic included.
	Unverifiable int64   `json:"unverifiable"`
	Halted       *string `json:"halted"` // why reading stopped
}

// VerifySummary ends verify.
type VerifySummary struct {
	OK               bool    `json:"ok"`
	Lost             int64   `json:"lost"`
	Double           int64   `json:"double"`
	Gap              int64   `json:"gap"`
	SampleDigest     string  `json:"sample_digest"`
	RecomputedDigest *string `json:"recomputed_digest"`
	// NotRecomputed says why RecomputedDigest is null although the topic was read; partitions and rows are compared all the same, as far as the log goes.
	NotRecomputed string `json:"not_recomputed,omitempty"`
}

// SnapshotInspection is the answer of inspect about a version. Manifest is the manifest as it stands in the store.
type SnapshotInspection struct {
	Manifest  any              `json:"manifest"`
	Aliases   map[string]int64 `json:"aliases"`
	FilesOK   bool             `json:"files_ok"`
	GoldenOK  bool             `json:"golden_ok"`
	Signature string           `json:"signature"`        // unsigned, or the key that the manifest names; the signature itself is not checked
	Belief    *Belief          `json:"belief,omitempty"` // absent where a check failed
}

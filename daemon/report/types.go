package report

// Metrics is METRICS of the contract: those that apply to the task, the others nil.
type Metrics struct {
	N        int64   `json:"n"`
	Loss     *Number `json:"loss,omitempty"` // mean over the n events
	RMSE     *Number `json:"rmse,omitempty"`
	MAE      *Number `json:"mae,omitempty"`
	Accuracy *Number `json:"accuracy,omitempty"`
	NDCG1    *Number `json:"ndcg_1,omitempty"`
	NDCG5    *Number `json:"ndcg_5,omitempty"`
}

// PartitionState is one account of the ledger: applied + rejected + control + aborted + holes + gap = next − start.
type PartitionState struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Start     int64   `json:"start"`
	Next      int64   `json:"next"`
	Applied   int64   `json:"applied"`
	Rejected  int64   `json:"rejected"`
	Control   int64   `json:"control"`
	Aborted   int64   `json:"aborted"`
	Holes     int64   `json:"holes"`
	Gap       int64   `json:"gap"`
	Rows      int64   `json:"rows"`
	Digest    string  `json:"digest"`
	Halted    *string `json:"halted"`
	// Incarnation counts how often the topic was made again and accepted by the operator.
	Incarnation uint32 `json:"incarnation,omitempty"`
}

// SampleRows counts the rows of the two samples.
type SampleRows struct {
	Train   int64 `json:"train"`
	Holdout int64 `json:"holdout"`
}

// State is STATE of the contract: the sample and the ledger of one model.
type State struct {
	Model            string           `json:"model"`
	Lineage          string           `json:"lineage"`
	ConfigHash       string           `json:"config_hash"`
	Format           int              `json:"format"`
	Rows             SampleRows       `json:"rows"`
	SampleBytes      int64            `json:"sample_bytes"`
	SampleDigest     string           `json:"sample_digest"`
	RejectedByReason map[string]int64 `json:"rejected_by_reason"`
	Partitions       []PartitionState `json:"partitions"`
	// UnderFilledSince has where an erasure or a larger size left room in the sample that has not been filled since; absent if there is none.
	UnderFilledSince []Cut            `json:"under_filled_since,omitzero"`
	Forgotten        []Subject        `json:"forgotten,omitempty"`
	Archived         []PartitionState `json:"archived,omitempty"` // accounts of topics that were made again
}

// Cut is where a version's training sample ends in one partition.
type Cut struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
}

// Version is VERSION of the contract.
type Version struct {
	Model            string   `json:"model"`
	Version          int64    `json:"version"`
	Kind             string   `json:"kind"` // refit or update
	Parent           *int64   `json:"parent"`
	Status           string   `json:"status"` // converged, basis_limit, time_budget, interrupted
	K                int      `json:"k"`
	Lambda           Number   `json:"lambda"`
	Rows             int64    `json:"rows"`
	Features         int      `json:"features"`
	Outputs          int      `json:"outputs"`
	Objective        Number   `json:"objective"`
	Gap              *Number  `json:"gap"`
	GapRelative      *Number  `json:"gap_relative"`
	GapKind          string   `json:"gap_kind,omitempty"` // certified or estimated
	Select           *Metrics `json:"select"`
	Gate             *Metrics `json:"gate"`
	ChampionGate     *Metrics `json:"champion_gate"`
	Decision         string   `json:"decision"` // promoted or kept
	Reason           string   `json:"reason"`
	Cut              []Cut    `json:"cut"`
	PayloadDigest    string   `json:"payload_digest"`
	Solver           string   `json:"solver"` // the stages
	StochasticEpochs int      `json:"stochastic_epochs"`
	FISTAIterations  int      `json:"fista_iterations"`
	Sweeps           int      `json:"sweeps"`
	Evidence         *Number  `json:"evidence"`
	Warm             bool     `json:"warm"`
	TrainSeconds     Number   `json:"train_seconds"`
}

// Scores holds the progressive metrics of the model that consumers have and of the live model.
type Scores struct {
	Published *Metrics `json:"published"`
	Live      *Metrics `json:"live"`
}

// Baselines holds the metrics of the simple predictors: the first three for rating tasks, the last two for classification.
type Baselines struct {
	GlobalMean *Metrics `json:"global_mean,omitempty"`
	ItemMean   *Metrics `json:"item_mean,omitempty"`
	SGDBias    *Metrics `json:"sgd_bias,omitempty"`
	Majority   *Metrics `json:"majority,omitempty"`
	LastLabel  *Metrics `json:"last_label,omitempty"`
	Linear     *Metrics `json:"linear,omitempty"` // of fit
}

// Progressive is PROGRESSIVE of the contract: every event scored before it is learned from.
type Progressive struct {
	N         int64     `json:"n"`
	NoModel   int64     `json:"no_model"`
	All       Scores    `json:"all"`
	WindowN   int64     `json:"window_n"`
	Window    Scores    `json:"window"`
	Baselines Baselines `json:"baselines"`
}

// Step is one λ and k that fit tried.
type Step struct {
	Lambda    Number   `json:"lambda"`
	K         int      `json:"k"`
	Objective Number   `json:"objective"`
	Gap       *Number  `json:"gap"`
	GapKind   string   `json:"gap_kind,omitempty"`
	Nu        *Number  `json:"nu"`
	Valid     *Metrics `json:"valid"`
	Seconds   Number   `json:"seconds"`
}

// SnapshotRef names a version in a store.
type SnapshotRef struct {
	Store         string `json:"store"`
	Model         string `json:"model"`
	Version       int64  `json:"version"`
	PayloadDigest string `json:"payload_digest"`
}

// FitSummary ends fit.
type FitSummary struct {
	Status      string       `json:"status"`
	Lambda      Number       `json:"lambda"`
	K           int          `json:"k"`
	Units       int          `json:"units"`
	Objective   Number       `json:"objective"`
	Gap         *Number      `json:"gap"`
	GapRelative *Number      `json:"gap_relative"`
	GapKind     string       `json:"gap_kind,omitempty"`
	NTrain      int          `json:"n_train"`
	NValid      int          `json:"n_valid"`
	NTest       int          `json:"n_test"`
	Features    int          `json:"features"`
	Outputs     int          `json:"outputs"`
	Valid       *Metrics     `json:"valid"`
	Test        *Metrics     `json:"test"`
	Baselines   Baselines    `json:"baselines"`
	Seconds     Number       `json:"seconds"`
	Seed        uint64       `json:"seed"`
	Snapshot    *SnapshotRef `json:"snapshot"`
}

// BacktestTick is emitted every 10,000 events of a backtest.
type BacktestTick struct {
	Events      int64       `json:"events"`
	Seconds     Number      `json:"seconds"`
	Version     *int64      `json:"version"`
	Progressive Progressive `json:"progressive"`
}

// LastTenth holds the metrics over the last tenth of a backtest.
type LastTenth struct {
	Published *Metrics  `json:"published"`
	Live      *Metrics  `json:"live"`
	Baselines Baselines `json:"baselines"`
}

// BacktestSummary ends backtest.
type BacktestSummary struct {
	Events           int64       `json:"events"`
	Seconds          Number      `json:"seconds"`
	RefitSeconds     Number      `json:"refit_seconds"`
	VersionsPromoted int         `json:"versions_promoted"`
	VersionsKept     int         `json:"versions_kept"`
	Progressive      Progressive `json:"progressive"`
	LastTenth        LastTenth   `json:"last_tenth"`
}

// ReplayPartition names the offsets that a replay wrote; both nil if it wrote none.
type ReplayPartition struct {
	Partition int32  `json:"partition"`
	First     *int64 `json:"first"`
	Last      *int64 `json:"last"`
}

// ReplaySummary ends replay.
type ReplaySummary struct {
	Records      int64             `json:"records"`
	Acknowledged int64             `json:"acknowledged"`
	SkippedLines int64             `json:"skipped_lines"`
	Bytes        int64             `json:"bytes"` // of the record values
	Seconds      Number            `json:"seconds"`
	Partitions   []ReplayPartition `json:"partitions"`
}

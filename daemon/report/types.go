package report

import "slices"

// Metrics are how good predictions are: those measures that apply to the task, the others absent.
type Metrics struct {
	N        int64   `json:"n"`                   // events
	Loss     *Number `json:"loss,omitempty"`      // mean over the n events
	RMSE     *Number `json:"rmse,omitempty"`      // of predictions clipped to the range of labels
	MAE      *Number `json:"mae,omitempty"`       // of the same
	Accuracy *Number `json:"accuracy,omitempty"`  // share of events whose class, or whole set of classes, is right
	NDCG1    *Number `json:"ndcg_1,omitempty"`    // of the first item of each user or group, mean
	NDCG5    *Number `json:"ndcg_5,omitempty"`    // of the first five
	NDCG10   *Number `json:"ndcg_10,omitempty"`   // of the first ten
	Recall10 *Number `json:"recall_10,omitempty"` // share of a group's items of the best label among its first ten, mean
	AUC      *Number `json:"auc,omitempty"`       // area under the ROC curve of a binary label
	// expected calibration error, of 15 bins of equal mass: of the predicted class, or of 1
	ECE *Number `json:"ece,omitempty"`
	// EntropyNormalised is the log loss over that of the class frequencies of the events before.
	EntropyNormalised *Number `json:"entropy_normalised,omitempty"`
	// share of the last label's errors, as a prediction, that is avoided
	KappaLast *Number `json:"kappa_last,omitempty"`
	MacroF1   *Number `json:"macro_f1,omitempty"` // mean of the classes' F1
	// share of events whose class is not among the first three of more; multiclass
	Top3Error  *Number `json:"top3_error,omitempty"`
	Top5Error  *Number `json:"top5_error,omitempty"`  // the same of five
	Top10Error *Number `json:"top10_error,omitempty"` // and of ten
	// share of a class's events predicted as it; up to 256 classes
	RecallPerClass map[string]Number `json:"recall_per_class,omitempty"`
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
	Gap       int64   `json:"gap"`    // offsets that the broker held no more when they were due
	Rows      int64   `json:"rows"`   // in the sample
	Digest    string  `json:"digest"` // of what was read
	Halted    *string `json:"halted"` // why reading stopped; null if it continues
	// Incarnation counts how often the topic was made again and accepted by the operator.
	Incarnation uint32 `json:"incarnation,omitempty"`
}

// Paused is a partition that waits: what is behind is read once the reason is gone.
type Paused struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Reason    string `json:"reason"` // for people
}

// SampleRows counts the rows of the two samples.
type SampleRows struct {
	Train   int64 `json:"train"`   // trained on
	Holdout int64 `json:"holdout"` // held out
}

// State is the sample and the ledger of one model.
type State struct {
	Model            string           `json:"model"`
	Lineage          string           `json:"lineage"`
	ConfigHash       string           `json:"config_hash"`
	Format           int              `json:"format"`       // version of the format on disk
	Rows             SampleRows       `json:"rows"`         // of the two samples
	SampleBytes      int64            `json:"sample_bytes"` // of the rows
	SampleDigest     string           `json:"sample_digest"`
	RejectedByReason map[string]int64 `json:"rejected_by_reason"` // counts by reason of rejection
	Partitions       []PartitionState `json:"partitions"`         // accounts of all partitions
	// partitions that wait, as for a schema, and are read on without an operator; absent without any
	Paused []Paused `json:"paused,omitempty"`
	// UnderFilledSince has where an erasure or a larger size left room in the sample that has not been filled since;
	// absent without such room.
	UnderFilledSince []Cut            `json:"under_filled_since,omitzero"`
	Forgotten        []Subject        `json:"forgotten,omitempty"` // subjects that were erased
	Archived         []PartitionState `json:"archived,omitempty"`  // accounts of topics that were made again
	// of a trainer: the last head that was merged of each shard
	Shards []ShardHead `json:"shards,omitempty"`
	// of a model with input.outcomes: how events and outcomes met
	Outcomes *Outcomes `json:"outcomes,omitempty"`
}

// NeedsOperator reports whether a partition has halted that is not read on without an operator.
func (s *State) NeedsOperator() bool {
	return slices.ContainsFunc(s.Partitions, func(p PartitionState) bool {
		return p.Halted != nil && !slices.ContainsFunc(s.Paused, func(of Paused) bool {
			return of.Topic == p.Topic && of.Partition == p.Partition
		})
	})
}

// Outcomes says how the events of a sample and their outcomes met.
type Outcomes struct {
	Joined    int     `json:"joined"`        // rows with an outcome that counts
	Open      int     `json:"open"`          // rows without one whose window is not over
	Stubs     int     `json:"stubs"`         // keys with outcomes, whether or not their event is in the sample
	Unmatched int     `json:"unmatched"`     // those of them whose event is not
	Late      int     `json:"late"`          // outcomes of rows outside their window
	Rate      float64 `json:"rate"`          // share of the events that will have an outcome, as estimated
	Delays    Delays  `json:"delay_seconds"` // between event and outcome, of those that come at all, as estimated
}

// Delays are quantiles, in seconds; 0 without an outcome.
type Delays struct {
	Median float64 `json:"p50"` // half of the outcomes come within it
	P90    float64 `json:"p90"` // 90 % do
	P99    float64 `json:"p99"` // 99 % do
}

// Cut is where a version's training sample ends in one partition.
type Cut struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"` // offset after the last event
}

// Version is a version that was made, with the decision of the gate.
type Version struct {
	Model     string `json:"model"`
	Version   int64  `json:"version"`
	Kind      string `json:"kind"`   // refit or update
	Parent    *int64 `json:"parent"` // version that this one started from; null for the first
	Status    string `json:"status"` // converged, basis_limit, time_budget, interrupted, stalled
	K         int    `json:"k"`
	Lambda    Number `json:"lambda"`
	Rows      int64  `json:"rows"` // trained on
	Features  int    `json:"features"`
	Outputs   int    `json:"outputs"`
	Objective Number `json:"objective"`
	// convex, variational or update: which of the figures after it are about the model
	Form string `json:"form"`
	// to the optimum over all basis vectors; null but for convex models
	Gap         *Number `json:"gap"`
	GapRelative *Number `json:"gap_relative"`       // over the objective; null without a gap
	GapKind     string  `json:"gap_kind,omitempty"` // certified or estimated
	// what keeps a certified gap above the tolerance: weights, vectors or bound; else absent
	GapLimit string `json:"gap_limit,omitempty"`
	// to the optimum with these basis vectors alone; null but for convex models
	BasisGap         *Number `json:"basis_gap"`
	BasisGapRelative *Number `json:"basis_gap_relative"` // over the objective; null without
	// of convex_fm, whose rank is k: Σ of the sizes of the eigenvalues; absent of others
	NuclearNorm *Number `json:"nuclear_norm,omitempty"`
	// on the rows that settings are chosen by; null without any
	Select       *Metrics    `json:"select"`
	Gate         *Metrics    `json:"gate"`                  // on the rows that judge; null without any
	ChampionGate *Metrics    `json:"champion_gate"`         // of the champion on the same rows; null without one
	GateSlices   []GateSlice `json:"gate_slices,omitempty"` // of the rows that judge; absent without any
	Decision     string      `json:"decision"`              // promoted or kept
	Reason       string      `json:"reason"`                // of the decision, for people
	// where the training sample ends, or what is stored when an update is made
	Cut              []Cut  `json:"cut"`
	PayloadDigest    string `json:"payload_digest"`
	Solver           string `json:"solver"`            // the stages, +temperature after temperature scaling
	StochasticEpochs int    `json:"stochastic_epochs"` // passes of the stochastic solver
	FISTAIterations  int    `json:"fista_iterations"`  // of the accelerated solver
	Sweeps           int    `json:"sweeps"`            // of the variational solver
	// over all rows, the held-out ones included, after the gate
	HeldOutSweeps int `json:"held_out_sweeps,omitempty"`
	// largest magnitude of log odds that the refit's rows support; readers clip outputs to it
	OutputLimit *Number `json:"output_limit,omitempty"`
	// how those of the variational stage began: anew or carried; absent from nothing
	Precisions string `json:"precisions,omitempty"`
	// fields with linear weights alone: no interaction of theirs was clear
	MainEffects []string `json:"main_effects,omitempty"`
	// kind and count of the feature map that it has weights on, as train.feature_map writes it
	FeatureMap string `json:"feature_map,omitempty"`
	// half-life of its training rows in events; absent if they did not fade
	HorizonEvents int64   `json:"horizon_events,omitempty"`
	Evidence      *Number `json:"evidence"` // lower bound of the log evidence, of variational refits; else null
	Warm          bool    `json:"warm"`
	TrainSeconds  Number  `json:"train_seconds"`
}

// GateSlice is how a version does on the rows that judge whose entity of a field is known to its training rows, or
// new to them, compared with a plain baseline: of numbers the mean label by evaluate.baseline_by, of classes their
// frequencies.
type GateSlice struct {
	Field string `json:"field"` // empty for all rows, of events without names
	Known bool   `json:"known"` // to the training rows
	N     int64  `json:"n"`     // rows that judge
	// null without rows; the squared error of numbers, else the loss that was trained on
	Loss     *Number `json:"loss"`
	Baseline *Number `json:"baseline"` // of the baseline on the same rows
}

// Scores holds the progressive metrics of the model that consumers have and of the live model.
type Scores struct {
	Published *Metrics `json:"published"` // of the version that consumers have; null before the first
	Live      *Metrics `json:"live"`      // of the champion with what was learned since; null before the first event
}

// Baselines holds the metrics of the simple predictors: the first three for rating tasks, the others for
// classification.
type Baselines struct {
	GlobalMean *Metrics `json:"global_mean,omitempty"` // mean label
	ItemMean   *Metrics `json:"item_mean,omitempty"`   // mean label of the item
	SGDBias    *Metrics `json:"sgd_bias,omitempty"`    // biases of user and item by stochastic descent
	Majority   *Metrics `json:"majority,omitempty"`    // most frequent class
	LastLabel  *Metrics `json:"last_label,omitempty"`  // class of the event before
	Linear     *Metrics `json:"linear,omitempty"`      // logistic regression: a step for each event; of fit, of all rows
}

// Progressive is how good the predictions of events were that were scored before they were learned from.
type Progressive struct {
	N         int64     `json:"n"`                // events scored
	NoModel   int64     `json:"no_model"`         // of these, before the first version
	All       Scores    `json:"all"`              // over all events
	WindowN   int64     `json:"window_n"`         // events in the window
	Window    Scores    `json:"window"`           // over the last evaluate.window events
	Baselines Baselines `json:"baselines"`        // over the same window
	Slices    *Slices   `json:"slices,omitempty"` // over the same window; absent without categorical fields
	Parts     []Part    `json:"parts"`            // of what is live
	// groups in which the drift detector has found a change; absent without a change
	Drift []Drifted `json:"drift,omitempty"`
}

// Drifted is what the drift detector has found in one group of events' names.
type Drifted struct {
	Group     string `json:"group"`                // categorical field whose known names changed, or (loss)
	Alarms    int64  `json:"alarms"`               // since the state was made
	EventsAgo int64  `json:"events_ago"`           // events scored since the last one
	EventTime string `json:"event_time,omitempty"` // of the event that raised it; absent if it had none
}

// Slices are the scores of some of the events: by whether the version that consumers had knew all of the event's names
// in the fields of train.fold_in.by. Events before the first version are in neither.
type Slices struct {
	NewEntity   Scores `json:"new_entity"`   // a name was unknown
	KnownEntity Scores `json:"known_entity"` // all were known
}

// Part is one of the predictors that the live prediction is mixed from.
type Part struct {
	Name   string  `json:"name"`   // fold_in, published, the name of a baseline, or stack
	Weight Number  `json:"weight"` // of the mean, by recent loss
	Loss   *Number `json:"loss"`   // recent, the squared error of numbers or the logarithmic loss
	// InVersions says whether versions hold the part: what consumers have is without the others.
	InVersions bool `json:"in_versions"`
	// Asleep says that it predicts nothing for now.
	Asleep bool `json:"asleep,omitempty"`
}

// SampleAges says how old the rows of a sample are.
type SampleAges struct {
	Rows []int64 `json:"rows"` // that from 1, 2, 4, 8, … events were applied after, each up to the next
}

// Calibration compares what predictors said over the window with what came.
type Calibration struct {
	Published []CalibrationBin `json:"published"` // of the version that consumers have
	Live      []CalibrationBin `json:"live"`      // of the live model
}

// CalibrationBin is events whose predictions are next to each other. The bins of a predictor have about as many events
// each.
type CalibrationBin struct {
	N         int64  `json:"n"`         // events
	Predicted Number `json:"predicted"` // mean prediction: a number, or a probability
	Observed  Number `json:"observed"`  // mean label, or how often it came
}

// Step is one λ and k that fit tried.
type Step struct {
	Lambda    Number   `json:"lambda"`
	K         int      `json:"k"`
	Objective Number   `json:"objective"`
	Gap       *Number  `json:"gap"` // to the optimum over all basis vectors; null if none is known
	GapKind   string   `json:"gap_kind,omitempty"`
	Nu        *Number  `json:"nu"`      // factor of the oracle that is proven; null if none is
	Valid     *Metrics `json:"valid"`   // on the validation part; null without one
	Seconds   Number   `json:"seconds"` // since the fit began
}

// SnapshotRef names a version in a store.
type SnapshotRef struct {
	Store         string `json:"store"` // directory
	Model         string `json:"model"`
	Version       int64  `json:"version"`
	PayloadDigest string `json:"payload_digest"`
}

// FitForm is a form of the model that fit compared with others on the validation part.
type FitForm struct {
	Form     string  `json:"form"`            // basis_vectors, those that the path finds, or products, all of two numbers
	K        int     `json:"k"`               // basis vectors
	Ridge    *Number `json:"ridge,omitempty"` // of products
	Rows     int64   `json:"rows"`            // fitted to: all, or a share on which the forms were compared before
	Loss     *Number `json:"loss"`            // on the validation part
	Accuracy *Number `json:"accuracy"`        // on the same
	Chosen   bool    `json:"chosen"`          // what the model is; further columns of the numbers may come on top
}

// FitSummary ends fit.
type FitSummary struct {
	Status      string  `json:"status"`
	Lambda      Number  `json:"lambda"`
	K           int     `json:"k"`
	Units       int     `json:"units"` // output weights that are not zero
	Objective   Number  `json:"objective"`
	Form        string  `json:"form"`         // convex or variational
	Gap         *Number `json:"gap"`          // to the optimum over all basis vectors; null but for convex models
	GapRelative *Number `json:"gap_relative"` // over the objective; null without a gap
	GapKind     string  `json:"gap_kind,omitempty"`
	// what keeps a certified gap above the tolerance: weights, vectors or bound; else absent
	GapLimit string  `json:"gap_limit,omitempty"`
	BasisGap *Number `json:"basis_gap"` // to the optimum with these basis vectors alone; null but for convex models
	// BasisGapRelative is over the objective; null without.
	BasisGapRelative *Number `json:"basis_gap_relative"`
	// NuclearNorm is that of convex_fm, whose rank is k: Σ of the sizes of the eigenvalues; absent of others.
	NuclearNorm *Number `json:"nuclear_norm,omitempty"`
	// FeatureMap is that which the model has weights on: the objective and both gaps are of the part below them. As
	// train.feature_map writes it; absent without.
	FeatureMap string `json:"feature_map,omitempty"`
	NTrain     int    `json:"n_train"` // events fitted to
	NValid     int    `json:"n_valid"` // events that λ and k were chosen by
	NTest      int    `json:"n_test"`  // events of the test
	// NLearned is how many events the tested and published model has learned from: those of the training part, and in
	// most forms those of the validation part, once they have chosen it.
	NLearned int `json:"n_learned"`
	Features int `json:"features"`
	Outputs  int `json:"outputs"`
	// Sweeps are of the variational stage; absent where the convex one predicts the validation part better.
	Sweeps   int     `json:"sweeps,omitempty"`
	Evidence *Number `json:"evidence"` // lower bound of the log evidence after them; null without
	// HeldOutSweeps are those over the training and validation parts together, after the choice.
	HeldOutSweeps int       `json:"held_out_sweeps,omitempty"`
	Forms         []FitForm `json:"forms,omitempty"` // compared; absent where there was one alone
	// of the choice, on the validation part and before it learned from that; null without one
	Valid     *Metrics     `json:"valid"`
	Test      *Metrics     `json:"test"`      // of the choice, on the test part; null without one
	Baselines Baselines    `json:"baselines"` // on the test part
	Seconds   Number       `json:"seconds"`
	Seed      uint64       `json:"seed"`     // of the split and the fit
	Snapshot  *SnapshotRef `json:"snapshot"` // null without --store
	Dropped   []Dropped    `json:"dropped"`  // lines that are no events, by reason and field
	Absent    Absent       `json:"absent"`   // events that lack it, by optional field
}

// BacktestTick is emitted at least 50 times in a backtest of as many events.
type BacktestTick struct {
	Events      int64       `json:"events"`      // so far
	Seconds     Number      `json:"seconds"`     // so far
	Version     *int64      `json:"version"`     // what consumers have; null before the first version
	Progressive Progressive `json:"progressive"` // so far

	UpdatesHeldBack int `json:"updates_held_back"` // updates and deltas so far that were worse than their refit
}

// LastTenth holds the metrics over the last tenth of a backtest.
type LastTenth struct {
	Published *Metrics  `json:"published"`        // of the version that consumers have
	Live      *Metrics  `json:"live"`             // of the champion with what was learned since
	Baselines Baselines `json:"baselines"`        // on the same events
	Slices    *Slices   `json:"slices,omitempty"` // of the same events
}

// BacktestSummary ends backtest.
type BacktestSummary struct {
	Events           int64  `json:"events"` // of the file
	Seconds          Number `json:"seconds"`
	RefitSeconds     Number `json:"refit_seconds"`              // of these, spent in refits
	VersionsPromoted int    `json:"versions_promoted"`          // refits that became champion
	VersionsKept     int    `json:"versions_kept"`              // refits that did not
	UpdatesPublished int    `json:"updates_published"`          // versions between refits
	DeltasPublished  int    `json:"deltas_published,omitempty"` // between updates
	// times when one was due and consumers kept what they had
	UpdatesSkipped int `json:"updates_skipped"`
	// updates and deltas that were worse than their refit: not published
	UpdatesHeldBack int         `json:"updates_held_back"`
	Progressive     Progressive `json:"progressive"`
	LastTenth       LastTenth   `json:"last_tenth"` // the same over the last tenth of the events
	Dropped         []Dropped   `json:"dropped"`    // lines that are no events, by reason and field
	Absent          Absent      `json:"absent"`     // events that lack it, by optional field

	DriftAlarms []DriftAlarm `json:"drift_alarms"` // of the drift detector

	Consumers []BacktestConsumer `json:"consumers,omitempty"` // that --consumer asks for

	Plot string `json:"plot,omitempty"` // the file of --plot
}

// BacktestConsumer is how well a program predicts that uses the versions of a backtest as they are published: each
// event before it is learned from.
type BacktestConsumer struct {
	// refits, updates, history, deltas:T or deltas:T+history; popularity for the names chosen most so far
	Mode      string  `json:"mode"`
	All       Metrics `json:"all"`        // over the events since there is a version
	LastTenth Metrics `json:"last_tenth"` // the same over the last tenth of the events
	// its RMSE, or loss of classes, over the last tenth less that of the live model; null if not known
	BehindLive *Number `json:"behind_live"`
	Folded     int64   `json:"folded"`               // events that were predicted with a history
	NoFoldIn   string  `json:"no_fold_in,omitempty"` // why the newest version takes no history
}

// DriftAlarm is an alarm of the drift detector.
type DriftAlarm struct {
	Event int64  `json:"event"` // the event of the file after which it came
	Group string `json:"group"` // categorical field whose known names change, or (loss)
}

// ReplayPartition names the offsets that a replay wrote; both nil if it wrote none.
type ReplayPartition struct {
	Partition int32  `json:"partition"`
	First     *int64 `json:"first"` // null if none was written
	Last      *int64 `json:"last"`  // null if none was written
}

// ReplaySummary ends replay.
type ReplaySummary struct {
	Records      int64             `json:"records"`       // sent
	Acknowledged int64             `json:"acknowledged"`  // by all replicas
	SkippedLines int64             `json:"skipped_lines"` // that are no records
	Bytes        int64             `json:"bytes"`         // of the record values
	Seconds      Number            `json:"seconds"`
	Partitions   []ReplayPartition `json:"partitions"` // with the offsets written
}

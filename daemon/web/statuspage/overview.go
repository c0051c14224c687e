package statuspage

import (
	"fmt"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
)

// Overview is everything that the status page shows of the daemon, and a line for each model.
type Overview struct {
	Version string    `json:"version"` // of the program
	Now     time.Time `json:"now"`     // by the daemon's clock
	Started time.Time `json:"started"` // when the daemon was
	Ready   bool      `json:"ready"`   // every model does its work
	// endpoints that change something are on: --web.enable-lifecycle
	Lifecycle bool            `json:"lifecycle"`
	Alerts    []Alert         `json:"alerts"`          // what is wrong, critical first
	Memory    MemoryStatus    `json:"memory"`          // of the process
	Disks     []DiskStatus    `json:"disks"`           // of state and snapshots
	Reload    *ReloadStatus   `json:"reload,omitzero"` // of the configuration; absent without one
	Models    []ModelOverview `json:"models"`          // in the order of the configuration
}

// ModelOverview is a model in the overview.
type ModelOverview struct {
	Model     string     `json:"model"`     // its name
	Ready     bool       `json:"ready"`     // it does its work
	Champion  *int64     `json:"champion"`  // version that consumers have; null before the first
	Published *time.Time `json:"published"` // when that was; null before the first
	// what the losses are: rmse, log_loss or error_rate; absent before the first event
	Metric   string         `json:"metric,omitempty"`
	Loss     *report.Number `json:"loss"`           // of the champion over the window; null where it has none
	Live     *report.Number `json:"live"`           // of the live model; null where it has none
	Baseline *report.Number `json:"baseline"`       // of the best baseline; null without one
	Best     string         `json:"best,omitempty"` // name of that baseline; absent without one
	Lag      int64          `json:"lag"`            // records that are not applied yet
	Events   int64          `json:"events"`         // applied since the start
	// when an event was last applied, to some seconds; null before the first
	Heard   *time.Time `json:"heard"`
	Rows    int        `json:"rows"`              // of the sample
	Waiting string     `json:"waiting,omitempty"` // why there is no champion; absent if there is one
	Standby string     `json:"standby,omitempty"` // who trains in place of this process; absent if it does
	// how far a model is that is behind its log and learns live from a share of the events; absent if it is not
	CatchingUp string `json:"catching_up,omitempty"`
	// why those who last asked for the live model got the champion: window, held_out or outputs; absent where they got
	// the live model, or nobody asked
	LiveHeldBack string `json:"live_held_back,omitempty"`
	Alerts       int    `json:"alerts"` // that are about it
}

// ModelState is everything that the status page shows of one model, but for its curves, its versions and what it
// believes.
type ModelState struct {
	ModelOverview
	// of the champion: refit or update; absent without one
	Kind string `json:"kind,omitempty"`
	// payload digest of the champion; absent without one
	Digest   string `json:"digest,omitempty"`
	Features int    `json:"features"` // of the champion
	Outputs  int    `json:"outputs"`  // of the champion
	K        int    `json:"k"`        // basis vectors of the champion
	// when one last ended with a model; null if none did since the start
	LastRefit *time.Time `json:"last_refit"`
	// the last version that was judged; null before the first of this run
	Judged *report.Version `json:"judged"`
	// how far that one got, for people; absent without one
	Optimality string `json:"optimality,omitempty"`
	// why the last refit failed; absent if it did not
	RefitFailure     string `json:"refit_failure,omitempty"`
	TrainingDisabled string `json:"training_disabled,omitempty"` // why no refit is begun; absent if they are
	Applied          int64  `json:"applied"`                     // events since the state was made
	// losses of predictions made before their event was learned
	Progressive report.Progressive `json:"progressive"`
	// of choices: where the last ones stood in lists; absent of models with labels
	Ranking     *RankingStatus     `json:"ranking,omitzero"`
	Calibration report.Calibration `json:"calibration"` // what was predicted over the window with what came
	Partitions  []PartitionStatus  `json:"partitions"`  // of its topics
	// of a trainer: what it has of each of them; absent of any other daemon
	Shards     []ShardStatus `json:"shards,omitempty"`
	Tables     []TableStatus `json:"tables,omitempty"` // of items and users; absent without them
	Rejections []Rejections  `json:"rejections"`       // records that are no events since the start, most frequent first
	Sample     SampleStatus  `json:"sample"`           // how full it is
	// what this daemon scores with, for people; absent before the first version
	Serving string `json:"serving,omitempty"`
	Scoring string `json:"scoring,omitempty"` // how scores go to a topic, for people; absent without one
}

// Overview returns the overview of the status, with which it shares memory.
func (v *View) Overview() *Overview {
	state := v.Status
	o := &Overview{
		Version:   v.Version,
		Now:       state.Now,
		Started:   state.Started,
		Ready:     len(state.NotReady()) == 0,
		Lifecycle: v.Lifecycle,
		Alerts:    v.alerts(),
		Memory:    state.Memory,
		Disks:     append([]DiskStatus{}, state.Disks...),
		Models:    []ModelOverview{},
	}
	if !state.Reload.At.IsZero() {
		o.Reload = &state.Reload
	}
	for i := range state.Models {
		m := v.modelOverviewOf(&state.Models[i])
		for _, a := range o.Alerts {
			if a.Model == m.Model {
				m.Alerts++
			}
		}
		o.Models = append(o.Models, m)
	}
	return o
}

func (v *View) modelOverviewOf(m *ModelStatus) ModelOverview {
	o := ModelOverview{
		Model:   m.Name,
		Ready:   len(m.NotReady) == 0,
		Lag:     m.Lag,
		Events:  m.Events,
		Rows:    m.SampleRows,
		Waiting: m.Waiting,
		Standby: m.Standby, CatchingUp: m.CatchingUp,
		LiveHeldBack: m.LiveHeldBack,
	}
	if c := m.Champion; c != nil {
		o.Champion, o.Published = &c.Version, &m.Published
	}
	if heard := v.past(m.Name).Heard(); !heard.IsZero() {
		o.Heard = &heard
	}
	metric := quality.HeadlineOf(m.Progressive.Window.Published, m.Progressive.Window.Live)
	o.Metric = metric.Name
	for _, r := range m.Progressive.Roles() {
		loss, ok := metric.Of(r.Metrics)
		if !ok {
			continue
		}
		switch {
		case r.Name == "published":
			o.Loss = report.Some(loss)
		case r.Name == "live":
			o.Live = report.Some(loss)
		case o.Baseline == nil || loss < float64(*o.Baseline):
			o.Baseline, o.Best = report.Some(loss), r.Name
		}
	}
	return o
}

// ModelState returns everything of one model of the status, nil without a model of that name. It shares memory with the
// status.
func (v *View) ModelState(name string) *ModelState {
	for i := range v.Status.Models {
		m := &v.Status.Models[i]
		if m.Name != name {
			continue
		}
		o := &ModelState{
			ModelOverview:    v.modelOverviewOf(m),
			Judged:           m.Judged,
			RefitFailure:     m.RefitFailure,
			TrainingDisabled: m.TrainingDisabled,
			Applied:          m.Applied,
			Progressive:      m.Progressive,
			Partitions:       append([]PartitionStatus{}, m.Partitions...),
			Shards:           m.Shards,
			Tables:           m.Tables,
			Rejections:       append([]Rejections{}, m.Rejections...),
			Sample:           m.Sample,
			Ranking:          m.Ranking,
			Calibration:      report.Calibration{Published: []report.CalibrationBin{}, Live: []report.CalibrationBin{}},
		}
		if o.Progressive.Parts == nil {
			o.Progressive.Parts = []report.Part{}
		}
		if c := m.Champion; c != nil {
			o.Kind, o.Digest, o.Features, o.Outputs, o.K = c.Kind, c.PayloadDigest, c.Features, c.Outputs, c.K
		}
		if !m.LastRefit.IsZero() {
			o.LastRefit = &m.LastRefit
		}
		if m.Judged != nil {
			o.Optimality = m.Judged.OptimalityHeldOut()
		}
		if calibration := v.Sources[name].Calibration; calibration != nil {
			o.Calibration = calibration()
		}
		if serving := v.servings()[name]; serving != nil {
			o.Serving = serving.text()
		}
		o.Scoring = m.Scoring.text()
		return o
	}
	return nil
}

// text says what is scored with.
func (v *serving) text() string {
	parts := []string{fmt.Sprintf("version %d", v.Position.Version)}
	if v.Position.Sequence > 0 {
		parts[0] += " and " + report.Count(v.Position.Sequence, "delta")
	}
	parts = append(parts, "made "+v.Age)
	if v.Behind != "" {
		parts = append(parts, v.Behind)
	}
	return strings.Join(
		append(
			parts,
			fmt.Sprintf("%s applied and %d refused since the start", report.Count(v.DeltasApplied, "delta"),
				v.DeltasRefused),
		),
		"; ",
	)
}

// text says how scores go to a topic; nothing without one.
func (c *ScoringStatus) text() string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("to %s: %s answered since the start, %d of them no events", c.Topic,
		report.Count(c.Answered, "offset"), c.Rejected)
	if c.Lag >= 0 {
		text += fmt.Sprintf(", %d to do", c.Lag)
	}
	for _, more := range []string{c.Guarantee, c.Waiting, c.Trouble} {
		if more != "" {
			text += "; " + more
		}
	}
	return text
}

package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
)

// statusFor is how long a status is kept for the next request: looking at it costs the models a walk over their
// windows.
const statusFor = time.Second

// overview is everything that the status page shows of the daemon, and a line for each model.
type overview struct {
	Version string    `json:"version"` // of the program
	Now     time.Time `json:"now"`     // by the daemon's clock
	Started time.Time `json:"started"` // when the daemon was
	Ready   bool      `json:"ready"`   // every model does its work
	// endpoints that change something are on: --web.enable-lifecycle
	Lifecycle bool            `json:"lifecycle"`
	Alerts    []alert         `json:"alerts"`          // what is wrong, critical first
	Memory    MemoryStatus    `json:"memory"`          // of the process
	Disks     []DiskStatus    `json:"disks"`           // of state and snapshots
	Reload    *ReloadStatus   `json:"reload,omitzero"` // of the configuration; absent without one
	Models    []modelOverview `json:"models"`          // in the order of the configuration
}

// modelOverview is a model in the overview.
type modelOverview struct {
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

// modelState is everything that the status page shows of one model, but for its curves, its versions and what it
// believes.
type modelState struct {
	modelOverview
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
	Rejections []Rejections  `json:"rejections"` // records that are no events since the start, most frequent first
	Sample     SampleStatus  `json:"sample"`     // how full it is
	// what this daemon scores with, for people; absent before the first version
	Serving string `json:"serving,omitempty"`
	Scoring string `json:"scoring,omitempty"` // how scores go to a topic, for people; absent without one
}

// recent returns a status that is less than statusFor old.
func (s *Server) recent() *Status {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.seen == nil || time.Since(s.looked) >= statusFor {
		state := s.Daemon.Status()
		s.seen, s.looked = &state, time.Now()
	}
	return s.seen
}

// overviewOf returns the overview of a status.
func (s *Server) overviewOf(state *Status) *overview {
	o := &overview{
		Version:   s.Version,
		Now:       state.Now,
		Started:   state.Started,
		Ready:     len(state.NotReady()) == 0,
		Lifecycle: s.Lifecycle != nil,
		Alerts:    s.alerts(state),
		Memory:    state.Memory,
		Disks:     append([]DiskStatus{}, state.Disks...),
		Models:    []modelOverview{},
	}
	if !state.Reload.At.IsZero() {
		o.Reload = &state.Reload
	}
	for i := range state.Models {
		m := s.modelOverviewOf(&state.Models[i])
		for _, a := range o.Alerts {
			if a.Model == m.Model {
				m.Alerts++
			}
		}
		o.Models = append(o.Models, m)
	}
	return o
}

func (s *Server) modelOverviewOf(m *ModelStatus) modelOverview {
	o := modelOverview{
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
	if heard := s.caches[m.Name].past().Heard(); !heard.IsZero() {
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

// modelStateOf returns everything of one model of a status, nil without a model of that name.
func (s *Server) modelStateOf(state *Status, name string) *modelState {
	for i := range state.Models {
		m := &state.Models[i]
		if m.Name != name {
			continue
		}
		o := &modelState{
			modelOverview:    s.modelOverviewOf(m),
			Judged:           m.Judged,
			RefitFailure:     m.RefitFailure,
			TrainingDisabled: m.TrainingDisabled,
			Applied:          m.Applied,
			Progressive:      m.Progressive,
			Partitions:       append([]PartitionStatus{}, m.Partitions...),
			Shards:           m.Shards,
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
		if cache := s.caches[name]; cache != nil && cache.Calibration != nil {
			o.Calibration = cache.Calibration()
		}
		if v := s.servings(state)[name]; v != nil {
			o.Serving = v.text()
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

// showStatus answers with what the status page shows: the daemon, what is wrong with it, and a line for each model. It
// is at most a second old.
func (s *Server) showStatus(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, s.overviewOf(s.recent()))
}

// showState answers with what the status page shows of one model. It is at most a second old.
func (s *Server) showState(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	state := s.modelStateOf(s.recent(), cache.Name)
	if state == nil {
		return s.noModel()
	}
	return answer(w, http.StatusOK, state)
}

// showCurves answers with how a model has done over time: window losses, lag, versions, drift. Points stand the closer
// the newer they are. With ?after=T those from after T, in milliseconds since 1970.
func (s *Server) showCurves(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	after, err := countOf(r, "after")
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, cache.past().Since(after))
}

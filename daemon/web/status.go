package web

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
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
	Ranking        *RankingStatus // nil but of choices, of which some have been looked at
	Shards         []ShardStatus  // of a trainer, in their order; else none
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

var (
	//go:embed static/status.html
	statusHTML string
)

var statusPage = template.Must(template.New("status").Funcs(template.FuncMap{
	"bytes": bytesText, "ago": agoText, "losses": lossRows, "loss": lossText, "digest": shortDigest,
}).Parse(statusHTML))

// serving is the model that this surface scores with, for the status page.
type serving struct {
	snapshot.Status
	Age    string
	Behind string // events applied since, where that is known
}

// servings returns what the models are scored with, by name; those that have none are left out.
func (s *Server) servings(state *Status) map[string]*serving {
	list := make(map[string]*serving)
	for i := range state.Models {
		m := &state.Models[i]
		cache := s.caches[m.Name]
		if cache == nil {
			continue
		}
		at := cache.status()
		if at.Version == 0 {
			continue
		}
		row := &serving{Status: at, Age: agoText(state.Now, at.Position.Created)}
		if events := at.Position.Events; events != nil {
			row.Behind = report.Count(max(m.Applied-events.Applied, 0), "event") + " applied since"
		}
		list[m.Name] = row
	}
	return list
}

// status is a page that shows what an operator wants to know. Names, topics and errors come from outside; the template
// escapes all of them.
func (s *Server) status(w http.ResponseWriter, _ *http.Request) error {
	state := s.Daemon.Status()
	var page bytes.Buffer
	if err := statusPage.Execute(&page, struct {
		Status
		Version string
		Serving map[string]*serving
	}{state, s.Version, s.servings(&state)}); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes()) // a client that has gone needs no answer
	return nil
}

// lossRow is one predictor in the table of progressive losses.
type lossRow struct {
	Role  string
	N     int64
	Value string
	// Verdict of a model against the best baseline: better, worse, or empty for the baselines themselves and for
	// slices.
	Verdict string
	Others  string // the other metrics
}

// lossRows returns the window losses of the models, judged against the best baseline, then of the baselines, and of the
// models on events with new and with known entities.
func lossRows(p report.Progressive) []lossRow {
	roles := p.Roles()
	best, known := 0.0, false
	for _, r := range roles {
		if loss, ok := quality.Loss(r.Metrics); ok && !r.Model && (!known || loss < best) {
			best, known = loss, true
		}
	}
	var rows []lossRow
	for _, r := range roles {
		row, loss := rowOf(r.Title, r.Metrics)
		if row == nil {
			continue
		}
		if r.Model && known {
			row.Verdict = "better"
			if loss > best {
				row.Verdict = "worse"
			}
		}
		rows = append(rows, *row)
	}
	if s := p.Slices; s != nil {
		for _, r := range []report.Role{{Title: "published, new entities", Metrics: s.NewEntity.Published},
			{Title: "live, new entities", Metrics: s.NewEntity.Live},
			{Title: "published, known entities", Metrics: s.KnownEntity.Published}, {Title: "live, known entities",
				Metrics: s.KnownEntity.Live}} {
			if row, _ := rowOf(r.Title, r.Metrics); row != nil {
				rows = append(rows, *row)
			}
		}
	}
	return rows
}

// rowOf returns the row of a predictor without a verdict, nil if it has no loss.
func rowOf(title string, m *report.Metrics) (row *lossRow, loss float64) {
	loss, ok := quality.Loss(m)
	if !ok {
		return nil, 0
	}
	name, headline := "error rate", "accuracy"
	if m.RMSE != nil {
		name, headline = "RMSE", "rmse"
	}
	row = &lossRow{Role: title, N: m.N, Value: fmt.Sprintf("%s %.4f", name, loss)}
	var others []string
	for _, f := range report.MetricFields {
		if v := f.Value(m); v != nil && f.Name != headline {
			others = append(others, fmt.Sprintf("%s %.4f", f.Column, float64(*v)))
		}
	}
	row.Others = strings.Join(others, ", ")
	return row, loss
}

func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, prefix := float64(n)/unit, 0
	for ; v >= unit && prefix < 3; prefix++ {
		v /= unit
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[prefix])
}

// agoText says how long before now a moment was.
func agoText(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	return spanText(now.Sub(then)) + " ago"
}

// spanText says how long a time is, in the words of the page; a negative one is 0.
func spanText(d time.Duration) string {
	switch d = max(d, 0).Round(time.Second); {
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 100*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

func lossText(n *report.Number) string {
	if n == nil {
		return "–"
	}
	return fmt.Sprintf("%.4f", float64(*n))
}

func shortDigest(digest string) string {
	const shown = len("sha256:") + 12
	if len(digest) > shown {
		return digest[:shown] + "…"
	}
	return digest
}

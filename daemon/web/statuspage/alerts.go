package statuspage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
)

// Alert is a condition of the alert rules as the daemon sees it at the moment: without the time that a rule waits
// before it fires.
type Alert struct {
	Name     string `json:"name"`            // of the rule in refitd.rules.yml, and of its section in the runbook
	Severity string `json:"severity"`        // critical or warning
	Model    string `json:"model,omitempty"` // that it is about; absent where it is about the daemon
	Text     string `json:"text"`            // for people
}

// The thresholds of the rules.
const (
	staleAfter    = time.Hour
	driftFor      = time.Hour
	lagRecords    = 10_000
	lagOver       = 15 * time.Minute
	rejectRatio   = 0.05
	basisGapRatio = 0.05
	coldRejected  = 4
	judgedEvents  = 1000 // of the window before losses are compared
)

// alerts returns what is wrong in the words of people, what is critical first.
func (v *View) alerts() (list []Alert) {
	state := v.Status
	add := func(severity, name, model, text string, values ...any) {
		list = append(list, Alert{name, severity, model, fmt.Sprintf(text, values...)})
	}
	if state.Reload.Error != "" {
		add("warning", "RefitdConfigReloadFailed", "", "The configuration was changed and refused: %s",
			state.Reload.Error)
	}
	for _, d := range state.Disks {
		if d.FreeBytes < 2*d.MinFreeBytes {
			add("critical", "RefitdStateNearBudget", "", "%s are free at %s; below %s nothing is read or published",
				bytesText(d.FreeBytes), d.Path, bytesText(d.MinFreeBytes))
		}
	}
	if m := state.Memory; m.BudgetBytes > 0 && m.ResidentBytes > m.BudgetBytes/10*9 {
		add("warning", "RefitdStateNearBudget", "", "%s of memory are in use, over 90 %% of the budget of %s",
			bytesText(m.ResidentBytes), bytesText(m.BudgetBytes))
	}
	for i := range state.Models {
		m := &state.Models[i]
		modelAlerts(m, add)
		lossAlerts(m, add)
		pastAlerts(state.Now, m, v.past(m.Name), add)
	}
	return inOrder(list)
}

// modelAlerts adds the alerts of what a model says of itself.
func modelAlerts(m *ModelStatus, add func(severity, name, model, text string, values ...any)) {
	for _, r := range m.NotReady {
		add("critical", "RefitdModelNotReady", m.Name, "Not ready: %s", r.Text)
	}
	for _, p := range m.Halted {
		add("critical", "RefitdPartitionHalted", m.Name, "%s partition %d waits for a decision at offset %d: %s",
			p.Topic, p.Partition, p.Offset, p.Reason)
	}
	if m.TrainingDisabled != "" {
		add("critical", "RefitdTrainingDisabled", m.Name, "Refits are off: %s", m.TrainingDisabled)
	}
	if m.RefitFailure != "" {
		add("critical", "RefitdTrainingFailing", m.Name, "The last refit failed: %s", m.RefitFailure)
	}
	if m.GateRejections >= coldRejected {
		add("warning", "RefitdColdRefitRejected", m.Name,
			"The gate has kept back %d refits in a row, one from nothing among them", m.GateRejections)
	}
	if j := m.Judged; j != nil && !j.BySteps() && j.BasisGapRelative != nil &&
		float64(*j.BasisGapRelative) > basisGapRatio {
		add("warning", "RefitdRefitNotDone", m.Name,
			"The last refit was not brought to its end: its objective may be %s above the best of its basis vectors",
			report.Percent(float64(*j.BasisGapRelative)))
	}
	if c := m.Scoring; c != nil && c.Trouble != "" {
		add("warning", "RefitdScoringStalled", m.Name, "Events are not scored: %s", c.Trouble)
	}
	if m.VectorsTrouble != "" {
		add("warning", "RefitdVectorsFailing", m.Name, "Vectors are not written: %s", m.VectorsTrouble)
	}
	if share := rejectedShare(m); share > rejectRatio {
		add("warning", "RefitdRejectRatioHigh", m.Name, "%s of the records since the start are no valid events",
			report.Percent(share))
	}
	if len(m.AbsentFields) > 0 {
		add("warning", "RefitdMappedFieldAbsent", m.Name,
			"No event since the start has anything where input.mapping says: %s",
			strings.Join(m.AbsentFields, ", "))
	}
	if m.SchemaTrouble != "" {
		add("critical", "RefitdSchemaUnavailable", m.Name, "Records wait for their schema: %s", m.SchemaTrouble)
	}
	if len(m.LostFields) > 0 {
		add("warning", "RefitdSchemaLosesField", m.Name, "A schema of records has nothing, or another type, for %s",
			strings.Join(m.LostFields, ", "))
	}
	if m.TrueTimeUnit != "" {
		add("warning", "RefitdEventTimesWrongUnit", m.Name,
			"Event times are days of 1970 in %s, and of our days in %s: see schema.time_unit",
			m.TimeUnit, m.TrueTimeUnit)
	}
}

// inOrder puts what is critical first and leaves the rest as it is.
func inOrder(list []Alert) []Alert {
	ordered := []Alert{}
	for _, severity := range []string{"critical", "warning"} {
		for _, a := range list {
			if a.Severity == severity {
				ordered = append(ordered, a)
			}
		}
	}
	return ordered
}

// rejectedShare is that of the records since the start, without those that ask for a removal: they are no fault of a
// producer's.
func rejectedShare(m *ModelStatus) float64 {
	rejected := int64(0)
	for _, r := range m.Rejections {
		if r.Reason != string(event.RemovalRequest) {
			rejected += r.Records
		}
	}
	return float64(rejected) / float64(max(rejected+m.Events, 1))
}

// online are the baselines that learn from each event: a version cannot, and is not compared with them.
var online = []string{"sgd_bias", "last_label", "linear"}

// lossAlerts compares the losses of the window.
func lossAlerts(m *ModelStatus, add func(severity, name, model, text string, values ...any)) {
	p := &m.Progressive
	if p.WindowN < judgedEvents {
		return
	}
	losses := make(map[string]float64)
	best, fitted := "", ""
	for _, r := range p.Roles() {
		loss, ok := quality.Loss(r.Metrics)
		if !ok {
			continue
		}
		losses[r.Name] = loss
		if r.Model {
			continue
		}
		if best == "" || loss < losses[best] {
			best = r.Name
		}
		if !slices.Contains(online, r.Name) && (fitted == "" || loss < losses[fitted]) {
			fitted = r.Name
		}
	}
	if live, ok := losses["live"]; ok && best != "" && live > losses[best] {
		add("warning", "RefitdLiveWorseThanBaseline", m.Name,
			"The live model has a window loss of %.4f, the baseline %s of %.4f", live, best, losses[best])
	}
	of := p.Window.Published
	if loss, ok := losses["published"]; ok && fitted != "" && loss > losses[fitted] && of.EntropyNormalised == nil {
		add("warning", "RefitdPublishedWorseThanBaseline", m.Name,
			"What consumers have has a window loss of %.4f, the baseline %s of %.4f", loss, fitted, losses[fitted])
	}
	for _, r := range p.Roles() {
		if e := r.Metrics.EntropyNormalised; r.Model && e != nil && *e > 1 {
			add("warning", "RefitdWorseThanBaseRate", m.Name,
				"The probabilities of the %s model are worse than the frequencies of the classes: %.3f times their log loss",
				r.Title, float64(*e))
		}
	}
}

// pastAlerts looks at the curves.
func pastAlerts(now time.Time, m *ModelStatus, past *curves.Ring,
	add func(severity, name, model, text string, values ...any)) {
	hour := past.Since(now.Add(-driftFor).UnixMilli())
	drifts := 0
	for _, k := range hour.Marks {
		if k.Kind == curves.Drift {
			drifts++
		}
	}
	if drifts > 0 {
		alarms := "an alarm"
		if drifts > 1 {
			alarms = fmt.Sprint(drifts, " alarms")
		}
		add("warning", "RefitdDriftDetected", m.Name,
			"The drift detector has raised %s within an hour: what was learned does not hold any more", alarms)
	}
	if n := len(hour.At); n > 0 {
		from := 0
		for from < n-1 && hour.At[from] < now.Add(-lagOver).UnixMilli() {
			from++
		}
		if m.Lag > lagRecords && m.Lag > hour.Lag[from] && now.Sub(time.UnixMilli(hour.At[from])) > lagOver/2 {
			add("warning", "RefitdConsumerLagGrowing", m.Name, "%s wait, and they become more",
				report.Count(m.Lag, "record"))
		}
		newest := m.Published
		if newest.IsZero() {
			newest = time.UnixMilli(hour.At[0])
		}
		if age := now.Sub(newest); age > staleAfter && hour.Events[n-1] > hour.Events[0] {
			add("warning", "RefitdModelStale", m.Name, "There was no new version for %s although events arrive",
				spanText(age))
		}
	}
}

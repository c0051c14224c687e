package statuspage

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// View is the status of the daemon, with what the HTTP surface knows in addition. It belongs to one request.
type View struct {
	Status    *Status           // which is only read
	Version   string            // of the program
	Lifecycle bool              // endpoints that change something are on
	Sources   map[string]Source // by the names of the models; those without one have nothing to add
}

// Source is what the surface knows of a model in addition to its status. Each member may be nil.
type Source struct {
	Serving     func() snapshot.Status // how the champion is followed that the surface scores with
	Curves      *curves.Ring           // how the model has done over time
	Calibration func() report.Calibration
}

// past returns the curves of a model, empty ones where it has none.
func (v *View) past(model string) *curves.Ring {
	return cmp.Or(v.Sources[model].Curves, new(curves.Ring))
}

//go:embed static/status.html
var statusHTML string

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
func (v *View) servings() map[string]*serving {
	list := make(map[string]*serving)
	for i := range v.Status.Models {
		m := &v.Status.Models[i]
		status := v.Sources[m.Name].Serving
		if status == nil {
			continue
		}
		at := status()
		if at.Version == 0 {
			continue
		}
		row := &serving{Status: at, Age: agoText(v.Status.Now, at.Position.Created)}
		if events := at.Position.Events; events != nil {
			row.Behind = report.Count(max(m.Applied-events.Applied, 0), "event") + " applied since"
		}
		list[m.Name] = row
	}
	return list
}

// Page returns the page as HTML, without its style and program. Names, topics and errors come from outside; the
// template escapes all of them.
func (v *View) Page() ([]byte, error) {
	var page bytes.Buffer
	err := statusPage.Execute(&page, struct {
		Status
		Version string
		Serving map[string]*serving
	}{*v.Status, v.Version, v.servings()})
	return page.Bytes(), err
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

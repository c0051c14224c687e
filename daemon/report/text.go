package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/refitd/refitd/snapshot/format"
)

// say is fmt.Fprintf for a WriteText to end with.
func say(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// table writes rows of cells in aligned columns.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// number prints v with four significant decimals, or a dash for nil and NaN.
func number(v *Number) string {
	if v == nil || math.IsNaN(float64(*v)) {
		return "-"
	}
	return strconv.FormatFloat(float64(*v), 'g', 5, 64)
}

func plain(v Number) string { return number(&v) }

func whole[T ~int | ~int64 | ~int32](v T) string { return strconv.FormatInt(int64(v), 10) }

func optional(v *int64) string {
	if v == nil {
		return "none"
	}
	return whole(*v)
}

// named is a row of a table of metrics.
type named struct {
	name    string
	metrics *Metrics
}

// writeMetrics prints one line for each metrics that is there, with the columns that any of them has, and then the
// recalls of classes.
func writeMetrics(w io.Writer, rows ...named) error {
	rows = slices.DeleteFunc(rows, func(r named) bool { return r.metrics == nil })
	if len(rows) == 0 {
		return nil
	}
	lines := make([][]string, len(rows)+1)
	lines[0] = []string{"", "n"}
	for i, r := range rows {
		lines[i+1] = []string{r.name, whole(r.metrics.N)}
	}
	for _, c := range MetricFields {
		if !slices.ContainsFunc(rows, func(r named) bool { return c.Value(r.metrics) != nil }) {
			continue
		}
		lines[0] = append(lines[0], c.Column)
		for i, r := range rows {
			lines[i+1] = append(lines[i+1], number(c.Value(r.metrics)))
		}
	}
	if err := headed(w, lines); err != nil {
		return err
	}
	return writeRecalls(w, rows)
}

// mostRecalls is how many classes a table of recalls has at most.
const mostRecalls = 20

// writeRecalls prints the recall of each class, unless there are too many.
func writeRecalls(w io.Writer, rows []named) error {
	var classes []string
	for _, r := range rows {
		classes = append(classes, r.metrics.RecallClasses()...)
	}
	slices.Sort(classes)
	if classes = slices.Compact(classes); len(classes) == 0 || len(classes) > mostRecalls {
		return nil
	}
	lines := [][]string{append([]string{"recall of"}, classes...)}
	for _, r := range rows {
		line := []string{r.name}
		for _, class := range classes {
			value := "-"
			if v, ok := r.metrics.RecallPerClass[class]; ok {
				value = plain(v)
			}
			line = append(line, value)
		}
		if r.metrics.RecallPerClass != nil {
			lines = append(lines, line)
		}
	}
	return headed(w, lines)
}

func (s *Slices) rows() []named {
	if s == nil {
		return nil
	}
	return []named{{"published, new entities", s.NewEntity.Published}, {"live, new entities", s.NewEntity.Live},
		{"published, known entities", s.KnownEntity.Published}, {"live, known entities", s.KnownEntity.Live}}
}

func (b *Baselines) rows() []named {
	return []named{{"global mean", b.GlobalMean}, {"item mean", b.ItemMean}, {"sgd bias", b.SGDBias},
		{"majority", b.Majority}, {"last label", b.LastLabel}, {"linear", b.Linear}}
}

// WriteText prints the table of scores and baselines.
func (p Progressive) WriteText(w io.Writer) error {
	rows := []named{{"published, all", p.All.Published}, {"live, all", p.All.Live},
		{fmt.Sprintf("published, last %d", p.WindowN), p.Window.Published},
		{fmt.Sprintf("live, last %d", p.WindowN), p.Window.Live}}
	if err := writeMetrics(w, slices.Concat(rows, p.Slices.rows(), p.Baselines.rows())...); err != nil {
		return err
	}
	for _, d := range p.Drift {
		if err := say(w, "%s changed: %s of the drift detector, the last %s ago\n", d.Group, Count(d.Alarms, "alarm"),
			Count(d.EventsAgo, "event")); err != nil {
			return err
		}
	}
	return nil
}

// WriteText prints one line: the version, what it is and why it was promoted or kept back.
func (v Version) WriteText(w io.Writer) error {
	loss := ""
	if v.Gate != nil {
		loss = ", gate " + v.Gate.headline()
		if v.ChampionGate != nil {
			loss += " (champion " + v.ChampionGate.headline() + ")"
		}
	}
	return prose(w, "version %d of %s (%s) %s: %s; k=%d, %s, %s, %s, %s%s, %.1f s\n", v.Version, v.Model, v.Kind,
		v.Decision, v.Reason, v.K, Count(v.Rows, "row"), Count(v.Features, "feature"), v.Status, v.Optimality(), loss,
		float64(v.TrainSeconds))
}

// WriteText prints the sample and one line for each partition.
func (s State) WriteText(w io.Writer) error {
	prose(w, "model %s: %s to train on, %d held out, %d bytes, sample %s, configuration %s, lineage %s\n",
		s.Model, Count(s.Rows.Train, "row"), s.Rows.Holdout, s.SampleBytes, s.SampleDigest, s.ConfigHash, s.Lineage)
	rows := [][]string{
		{"topic", "partition", "start", "next", "applied", "rejected", "control", "aborted", "holes", "gap", "rows",
			"halted"},
	}
	for _, p := range s.Partitions {
		halted := "no"
		if p.Halted != nil {
			halted = *p.Halted
		}
		rows = append(
			rows,
			[]string{p.Topic, whole(p.Partition), whole(p.Start), whole(p.Next), whole(p.Applied), whole(p.Rejected),
				whole(p.Control), whole(p.Aborted), whole(p.Holes), whole(p.Gap), whole(p.Rows), halted},
		)
	}
	if err := headed(w, rows); err != nil {
		return err
	}
	for _, h := range s.Shards {
		fmt.Fprintf(w, "shard %d on %s: merged up to %s, start %d, %s sent, %s behind\n",
			h.Shard, h.Host, h.Written.Format(time.RFC3339), h.Epoch, Count(h.Sent, "change"), Count(h.Lag, "record"))
	}
	if s.UnderFilledSince != nil {
		fmt.Fprintln(w,
			"the sample is under-filled: it holds fewer rows than its size until enough new events have come")
	}
	for _, f := range s.Forgotten {
		fmt.Fprintf(w, "forgotten: %s %s, %s\n", f.Field, f.Subject, Count(f.Rows, "row"))
	}
	for _, reason := range slices.Sorted(maps.Keys(s.RejectedByReason)) {
		fmt.Fprintf(w, "rejected as %s: %d\n", reason, s.RejectedByReason[reason])
	}
	return nil
}

// WriteText prints one line.
func (s Step) WriteText(w io.Writer) error {
	line := fmt.Sprintf("λ %s per 10,000 rows  k %d  objective %s", plain(s.Lambda), s.K, plain(s.Objective))
	if s.Gap != nil && s.Objective != 0 {
		line += fmt.Sprintf("  within %s of the optimum", about(float64(*s.Gap/s.Objective)))
	}
	if m := s.Valid; m != nil {
		for _, c := range MetricFields {
			if v := c.Value(m); v != nil {
				line += fmt.Sprintf("  %s %s", c.Column, number(v))
			}
		}
	}
	return say(w, "%s  %.1f s\n", line, float64(s.Seconds))
}

// WriteText prints what was chosen and how good it is.
func (s FitSummary) WriteText(w io.Writer) error {
	as := Version{Form: s.Form, K: s.K, GapRelative: s.GapRelative, GapKind: s.GapKind, GapLimit: s.GapLimit,
		BasisGapRelative: s.BasisGapRelative,
		NuclearNorm:      s.NuclearNorm, Sweeps: s.Sweeps, Evidence: s.Evidence, FeatureMap: s.FeatureMap}
	objective := ""
	if s.Form == format.FormConvex {
		objective = ", objective " + plain(s.Objective)
	}
	linear := ""
	if s.K == 0 {
		linear = " (a linear model)"
	}
	fmt.Fprintf(w, "%s: λ %s per 10,000 rows, k %d%s, %s, %s%s; %s; %.1f s\n", s.Status, plain(s.Lambda), s.K, linear,
		Count(s.Features, "feature"), Count(s.Outputs, "output"), objective, as.Optimality(), float64(s.Seconds))
	fmt.Fprintln(
		w,
		"(λ, --lambda: strength of the penalty on the weights of the k basis vectors, more of it is a smaller model; "+
			"chosen on the validation rows)",
	)
	for _, f := range s.Forms {
		f.writeText(w)
	}
	writeDropped(w, s.Dropped, s.Absent)
	if s.Test != nil {
		from := "training rows"
		if s.NLearned > s.NTrain {
			from += " and the validation rows, once they had chosen it"
		}
		prose(w, "test is of a model that has learned from %d rows: the %s\n", s.NLearned, from)
	}
	rows := append([]named{{"validation", s.Valid}, {"test", s.Test}}, s.Baselines.rows()...)
	if err := writeMetrics(w, rows...); err != nil {
		return err
	}
	if s.Snapshot != nil {
		fmt.Fprintf(w, "published version %d of %s in %s\n", s.Snapshot.Version, s.Snapshot.Model, s.Snapshot.Store)
	}
	return nil
}

// writeText prints a form in one line.
func (f *FitForm) writeText(w io.Writer) {
	ridge, chosen := "", ""
	if f.Ridge != nil {
		ridge = ", ridge " + number(f.Ridge)
	}
	if f.Chosen {
		chosen = ", chosen"
	}
	fmt.Fprintf(w, "form %s on %s: k %d%s, validation loss %s, accuracy %s%s\n", f.Form, Count(f.Rows, "row"), f.K,
		ridge, number(f.Loss), number(f.Accuracy), chosen)
}

// WriteText prints the count and the losses so far in one line.
func (t BacktestTick) WriteText(w io.Writer) error {
	return say(w, "%8d events  %6.1f s  version %s  %s\n", t.Events, float64(t.Seconds), optional(t.Version),
		t.Progressive.line())
}

// line names the window's headline figure of each predictor: rmse or accuracy.
func (p *Progressive) line() string {
	rows := append([]named{{"published", p.Window.Published}, {"live", p.Window.Live}}, p.Baselines.rows()...)
	var parts []string
	for _, r := range rows {
		if name, value, _ := headline(r.metrics); value != nil {
			parts = append(parts, fmt.Sprintf("%s %s %.4f", r.name, name, float64(*value)))
		}
	}
	return strings.Join(parts, "  ")
}

// WriteText prints the totals, the progressive table and that of the last tenth.
func (s BacktestSummary) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s in %.1f s, of which %.1f s in refits; %s promoted, %d kept back; %s published, %d skipped\n",
		Count(s.Events, "event"), float64(s.Seconds), float64(s.RefitSeconds), Count(s.VersionsPromoted, "refit"),
		s.VersionsKept, Count(s.UpdatesPublished, "update"), s.UpdatesSkipped)
	if s.UpdatesHeldBack > 0 {
		fmt.Fprintf(w, "%s held back: worse than the refit that they start from\n", Count(s.UpdatesHeldBack, "update"))
	}
	writeDropped(w, s.Dropped, s.Absent)
	if err := s.Progressive.WriteText(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "last tenth")
	rows := []named{{"published", s.LastTenth.Published}, {"live", s.LastTenth.Live}}
	if err := writeMetrics(w, slices.Concat(rows, s.LastTenth.Slices.rows(),
		s.LastTenth.Baselines.rows())...); err != nil {
		return err
	}
	if len(s.Consumers) > 0 {
		rows = rows[:0]
		for i := range s.Consumers {
			c := &s.Consumers[i]
			rows = append(rows, named{c.Mode, &c.All}, named{c.Mode + ", last tenth", &c.LastTenth})
		}
		fmt.Fprintln(w, "consumers")
		if err := writeMetrics(w, rows...); err != nil {
			return err
		}
	}
	if s.Plot == "" {
		return nil
	}
	return say(w, "the losses over the events are drawn in %s\n", s.Plot)
}

// WriteText prints the totals and the offsets of each partition.
func (s ReplaySummary) WriteText(w io.Writer) error {
	rate := float64(s.Acknowledged) / max(float64(s.Seconds), 1e-9)
	fmt.Fprintf(w, "%s sent, %d acknowledged, %s skipped, %d bytes, %.2f s (%.0f records/s)\n",
		Count(s.Records, "record"), s.Acknowledged, Count(s.SkippedLines, "line"), s.Bytes, float64(s.Seconds), rate)
	rows := [][]string{{"partition", "first", "last"}}
	for _, p := range s.Partitions {
		rows = append(rows, []string{whole(p.Partition), optional(p.First), optional(p.Last)})
	}
	return table(w, rows)
}

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// WriteText prints the address and the models, which may not be ready yet: /-/ready says that.
func (r Ready) WriteText(w io.Writer) error {
	return say(w, "listening: http://%s, models %s\n", r.Web, strings.Join(r.Models, ", "))
}

// WriteText prints where and why.
func (h Halt) WriteText(w io.Writer) error {
	return say(w, "HALTED: model %s, topic %s partition %d at offset %d: %s\n", h.Model, h.Topic, h.Partition, h.Offset,
		h.Reason)
}

// WriteText prints nothing: the log says it, less often.
func (CatchingUp) WriteText(io.Writer) error { return nil }

// WriteText prints the state and the losses of each model.
func (s RunSummary) WriteText(w io.Writer) error {
	prose(w, "ran %.1f s, %.0f events/s, %d MiB resident\n", float64(s.Seconds), float64(s.EventsPerSecond),
		s.RSSBytes>>20)
	for _, m := range s.Models {
		if err := m.State.WriteText(w); err != nil {
			return err
		}
		if err := m.Progressive.WriteText(w); err != nil {
			return err
		}
		prose(w, "%s promoted, %d kept back, champion %s\n", Count(m.VersionsPromoted, "version"), m.VersionsKept,
			optional(m.Champion))
	}
	return nil
}

// WriteText prints the address.
func (b Broker) WriteText(w io.Writer) error {
	return say(w, "broker at %s\n", b.BootstrapServers)
}

// WriteText prints one line of the live table.
func (t Tick) WriteText(w io.Writer) error {
	return say(w, "%4.0f s  %7d events  %6.0f/s  lag %-6d  version %-4s  %-11s  refit %s s ago  %s\n",
		float64(t.ElapsedSeconds), t.Events, float64(t.EventsPerSecond), t.Lag, optional(t.Version), t.Form,
		number(t.SinceRefitSeconds), t.Progressive.line())
}

// WriteText prints when.
func (d Drift) WriteText(w io.Writer) error {
	return say(w, "%4.0f s  the taste of the users changes now\n", float64(d.ElapsedSeconds))
}

// WriteText prints how long it took.
func (r Recovered) WriteText(w io.Writer) error {
	return say(w, "recovered %.1f s after the change\n", float64(r.AfterSeconds))
}

// WriteText prints the losses, where the snapshots are and a command that scores with them.
func (s QuickstartSummary) WriteText(w io.Writer) error {
	text := fmt.Sprintf("%s, the first after %s s", Count(s.Versions, "version"), number(s.FirstVersionSeconds))
	if s.RecoveredAfterSeconds != nil {
		text += fmt.Sprintf("; recovered %s s after the change of taste", number(s.RecoveredAfterSeconds))
	}
	prose(w, "%s\n", text)
	if err := s.Progressive.WriteText(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "snapshots: %s\nscore an event:\n", s.Store)
	return command(w,
		append([]string{"echo", shellQuote(strings.TrimRight(s.ScoreStdin, "\n")), "|"}, shellWords(s.ScoreArgv)...))
}

// shellWords returns a command as words of a POSIX shell.
func shellWords(argv []string) []string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = shellQuote(a)
	}
	return words
}

// shellQuote returns text as one word of a POSIX shell.
func shellQuote(text string) string {
	if text != "" &&
		strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:@%+,") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// WriteText prints the table of metrics.
func (s EvalSummary) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "version %d of %s, %s rejected, %.2f s\n", s.Version, s.Model, Count(s.Rejected, "line"),
		float64(s.Seconds))
	writeDropped(w, s.Dropped, s.Absent)
	if s.MaybeLearned > 0 {
		prose(
			w,
			"the version may have learned from %d of the events: it knows all their names, and no event time shows that they "+
				"are later; "+
				"the metrics may be too good\n",
			s.MaybeLearned,
		)
	}
	return writeMetrics(w, named{"all", &s.Metrics}, named{"names all seen", s.Seen}, named{"some unseen", s.Unseen},
		named{"popularity", s.Popularity})
}

// WriteText prints the prediction and its probability.
func (s Score) WriteText(w io.Writer) error {
	text := fmt.Sprint(s.Prediction)
	if n, ok := s.Prediction.(Number); ok {
		text = plain(n)
	}
	for _, l := range s.Likely {
		text += fmt.Sprintf("  p(%s) %.3f", l.Name, float64(l.Probability))
	}
	if len(s.Unseen) > 0 {
		text += "  (unseen " + strings.Join(s.Unseen, ", ") + ")"
	}
	return say(w, "%s\n", text)
}

// writeDropped prints a line for each cause of dropped lines, and for each optional field that events lack.
func writeDropped(w io.Writer, list []Dropped, absent Absent) {
	for _, field := range slices.Sorted(maps.Keys(absent)) {
		fmt.Fprintf(w, "%s without %s\n", Count(absent[field], "event"), field)
	}
	for _, d := range list {
		what := d.Reason
		if d.Field != "" {
			what += " " + d.Field
		}
		if d.IsOffset {
			fmt.Fprintf(w, "dropped: %s, %s, the first is offset %d of %s\n", what, Count(d.Count, "record"),
				d.FirstLine, d.Path)
			continue
		}
		fmt.Fprintf(w, "dropped from %s: %s, %s, the first is line %d\n", NameOf(d.Path), what, Count(d.Count, "line"),
			d.FirstLine)
	}
}

// NameOf is the path of a file for people: - is standard input.
func NameOf(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// WriteText prints the line, the reason and what it is about.
func (i Invalid) WriteText(w io.Writer) error {
	place := "line"
	if i.IsOffset {
		place = "offset"
	}
	text := fmt.Sprintf("%s %d: %s", place, i.Line, i.Reason)
	if i.Path != "" {
		text = NameOf(i.Path) + " " + text
	}
	if i.Field != "" {
		text += fmt.Sprintf(": field %q", i.Field)
	}
	if i.Expected != "" {
		text += fmt.Sprintf(": expected %s, got %s", i.Expected, i.Got)
	}
	return say(w, "%s\n", text)
}

// WriteText prints the counts if any event was invalid; otherwise the predictions speak for themselves.
func (s ScoreSummary) WriteText(w io.Writer) error {
	if s.Invalid == 0 {
		return nil
	}
	return say(w, "%d scored, %d invalid\n", s.Scored, s.Invalid)
}

// WriteText prints the comparison of one partition.
func (p VerifyPartition) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(
		w,
		"%s/%d: offsets %d to %d, checked from %d: lost %d, double %d, "+
			"rejected %d, control %d, aborted %d, holes %d, gap %d, rows %d, digest %s",
		p.Topic,
		p.Partition,
		p.Start,
		p.Next,
		p.CheckedFrom,
		p.Lost,
		p.Double,
		p.Rejected,
		p.Control,
		p.Aborted,
		p.Holes,
		p.Gap,
		p.Rows,
		p.Digest,
	)
	if p.Unverifiable > 0 {
		fmt.Fprintf(w, ", %s unverifiable", Count(p.Unverifiable, "offset"))
	}
	if p.Halted != nil {
		fmt.Fprintf(w, ", halted: %s", *p.Halted)
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	return err
}

// WriteText prints the verdict.
func (s VerifySummary) WriteText(w io.Writer) error {
	verdict := "NOT OK"
	if s.OK {
		verdict = "ok"
	}
	_, err := fmt.Fprintf(w, "%s: lost %d, double %d, gap %d, sample %s\n", verdict, s.Lost, s.Double, s.Gap,
		s.SampleDigest)
	if err == nil && s.NotRecomputed != "" {
		_, err = fmt.Fprintf(w, "the sample as a whole was not made again: %s\n", s.NotRecomputed)
	}
	return err
}

// WriteText prints the manifest, the aliases and the checks.
func (s SnapshotInspection) WriteText(w io.Writer) error {
	manifest, err := json.MarshalIndent(s.Manifest, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n", manifest)
	for _, alias := range slices.Sorted(maps.Keys(s.Aliases)) {
		fmt.Fprintf(w, "alias %s: version %d\n", alias, s.Aliases[alias])
	}
	if _, err := fmt.Fprintln(w, s.Optimality); err != nil {
		return err
	}
	if s.Belief != nil {
		if err := s.Belief.WriteText(w); err != nil {
			return err
		}
	}
	if s.Entity != nil {
		if err := s.Entity.WriteText(w); err != nil {
			return err
		}
	}
	return say(w, "%s; files match their digests: %t; golden pairs match: %t\n", s.Signature, s.FilesOK, s.GoldenOK)
}

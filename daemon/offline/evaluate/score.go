package evaluate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// ScoreOptions say what Score reads in addition to a version.
type ScoreOptions struct {
	Format dataset.Format       `enum:",jsonl,csv,parquet" default:"" placeholder:"FORMAT" help:"jsonl, csv or parquet; without, the first line of the events decides."`
	Table  offline.TableOptions `                                                                                                                                       embed:""`
	// of the file that the events are in, for what is said of its lines; - for standard input, empty for none
	Path string `                                                                                                                                                kong:"-"`
	// History, if not nil, has labelled events in JSON Lines, which the version is folded over first; one that is none
	// ends the command with its line.
	History io.Reader `                                                                                                                                                kong:"-"`
	// of its file, for what is said of its lines
	HistoryPath string `                                                                                                                                                kong:"-"`
	// HistoryHeld is how many events of History, the first, the version has learned from.
	HistoryHeld int `                                                                                                                                                kong:"-"`
}

// Score reads events, whose label may be missing, and emits a prediction for each with a version. It holds one line at
// a time. An event that cannot be scored is emitted as invalid, with exit code 1 at the end. Empty lines are passed
// over. When ctx is done it ends with the summary of what was scored; in is then still being read by a goroutine that
// ends with its next read.
func Score(ctx context.Context, ref offline.SnapshotRef, o ScoreOptions, in io.Reader, out *report.Emitter) error {
	o.Table.OfVersion = true
	if o.Format == "" && len(o.Table.Columns) > 0 {
		o.Format = dataset.CSV
	}
	if o.Format != "" { // else the first line decides, which may be long in coming
		if err := o.Table.CheckFormat(o.Format); err != nil {
			return err
		}
	}
	version, err := ref.Open()
	if err != nil {
		return err
	}
	s := newScoring(version)
	if o.History != nil {
		if err := s.foldHistory(&o); err != nil {
			return err
		}
	}
	unbuffered, done := interruptible(ctx, in)
	defer done()
	r := bufio.NewReaderSize(unbuffered, 256<<10)
	if o.Format == "" {
		o.Format = s.formatOf(r, o.Table)
		if err := o.Table.CheckFormat(o.Format); err != nil && ctx.Err() == nil {
			return err
		}
	}
	rows, err := s.rows(r, o)
	if err != nil {
		return &report.ExitError{
			Code: report.ExitUsage,
			Err:  fmt.Errorf("offline: %s: %w", report.NameOf(o.Path), err),
			Key:  "--input",
			Path: o.Path,
		}
	}
	summary, err := s.scoreAll(ctx, rows, o.Path, out)
	if err != nil {
		return err
	}
	if err := out.Emit("summary", summary); err != nil {
		return err
	}
	if summary.Invalid > 0 {
		return &report.ExitError{Code: report.ExitNo, Reported: true}
	}
	return nil
}

// foldHistory folds the version over the labelled events of --history.
func (s *scoring) foldHistory(o *ScoreOptions) error {
	err := s.fold(o.History, o.HistoryHeld)
	if err == nil {
		return nil
	}
	if o.HistoryPath != "" {
		err = fmt.Errorf("%s: %w", o.HistoryPath, err)
	}
	return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--history", Path: o.HistoryPath}
}

// nextRow reads the next event: its JSON and line, or why it is none.
type nextRow func() (value []byte, line int, bad *event.Rejection, err error)

// scoreAll emits a score of each row until the last one, or until ctx is done. The rows are of the file at path.
func (s *scoring) scoreAll(ctx context.Context, next nextRow, path string, out *report.Emitter) (report.ScoreSummary,
	error) {
	summary := report.ScoreSummary{Folded: int64(s.over.Folded())}
	for {
		value, line, rejection, err := next()
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return summary, nil
		}
		if err != nil {
			return summary, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--input"}
		}
		var score report.Score
		if rejection == nil {
			score, rejection = s.score(value)
		}
		if rejection != nil {
			summary.Invalid++
			bad := offline.Invalid(rejection, int64(line))
			bad.Path = path
			err = out.Emit("invalid", bad)
		} else {
			summary.Scored++
			summary.Absent += int64(len(score.Absent))
			score.Line = int64(line)
			err = out.Emit("score", score)
		}
		if err != nil {
			return summary, err
		}
	}
}

// formatOf detects the format of the events by their first line: Parquet, CSV if the line has several columns or is
// the name of one, else JSON Lines, whose bad lines are reported one by one.
func (s *scoring) formatOf(r *bufio.Reader, table offline.TableOptions) dataset.Format {
	format, first := dataset.DetectReader(r)
	columns := append(slices.Collect(maps.Values(table.Map)), offline.ModelOf(s.version).Schema.EventFields()...)
	if format == dataset.Parquet ||
		format == dataset.CSV &&
			(bytes.ContainsAny(first, ",;|\t") || slices.Contains(columns, strings.Trim(string(first), `"`))) {
		return format
	}
	return dataset.JSONL
}

// rows returns what reads the next event: its JSON and line, or why it is none.
func (s *scoring) rows(r io.Reader, o ScoreOptions) (next nextRow, err error) {
	if o.Format != dataset.JSONL {
		table, err := s.table(r, o)
		if errors.Is(err, io.EOF) {
			return func() ([]byte, int, *event.Rejection, error) { return nil, 0, nil, io.EOF }, nil
		}
		if err != nil {
			return nil, err
		}
		return table.Next, nil
	}
	lines, err := newLines(r)
	number := 0
	return func() ([]byte, int, *event.Rejection, error) {
		for {
			number++
			if line, err := lines.next(); err != nil || len(line) > 0 {
				return line, number, nil, err
			}
		}
	}, err
}

// table opens events in columns.
func (s *scoring) table(r io.Reader, o ScoreOptions) (*dataset.Table, error) {
	schema := offline.ModelOf(s.version).Schema.Event()
	schema.Derived, schema.Time, schema.Weight, schema.Identity = nil, "", "", ""
	if o.Format == dataset.Parquet {
		return dataset.ReadParquetTable(r, &schema, o.Table.DatasetColumns(), false)
	}
	plain, err := dataset.Text(bufio.NewReader(r))
	if err != nil {
		return nil, err
	}
	return dataset.NewTable(plain, &schema, o.Table.DatasetColumns(), false)
}

// scoring decodes and scores events with one version.
type scoring struct {
	version  *snapshot.Model
	over     *snapshot.Overlay // with the history
	manifest snapshot.Manifest
	schema   *snapshot.Schema
	decoder  event.Decoder
	event    event.Event
}

func newScoring(version *snapshot.Model) *scoring {
	d := decoderOf(version)
	d.RequireLabel = false
	over, _ := version.Fold(nil) // which every version takes
	return &scoring{version: version, over: over, manifest: version.Manifest(), schema: version.Schema(), decoder: d}
}

// decoderOf reads labelled events of a version as the daemon does. Derived fields they have, or lack.
func decoderOf(version *snapshot.Model) *event.JSON {
	schema := offline.ModelOf(version).Schema.Event()
	schema.Derived, schema.Time = nil, ""
	return event.NewJSON(schema, event.DefaultLimits())
}

// fold folds the labelled events of JSON Lines in, oldest first, of which the version has learned from the first held.
func (s *scoring) fold(history io.Reader, held int) error {
	lines, err := newLines(history)
	if err != nil {
		return err
	}
	decoder := decoderOf(s.version)
	var events []snapshot.LabelledEvent
	for number := 1; ; number++ {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			if held < 0 || held > len(events) {
				return fmt.Errorf("--history-held is %d: a whole number from 0 to %d, the events of the history", held,
					len(events))
			}
			for i := range events[:held] {
				events[i].Held = true
			}
			s.over, err = s.version.Fold(events)
			return err
		case err != nil:
			return err
		case len(line) == 0:
			continue
		case len(events) == snapshot.MaxHistory:
			return fmt.Errorf("history: line %d: a history has at most %d events: leave the oldest out", number,
				snapshot.MaxHistory)
		}
		var ev event.Event
		if r := decoder.Decode(&ev, line, 0); r != nil {
			return fmt.Errorf("history: line %d: %s", number, r)
		}
		events = append(events, snapshot.LabelledEvent{Input: InputOf(&ev), Label: ev.Label, Classes: ev.Classes})
	}
}

// score returns the prediction for one event, or why it has none.
func (s *scoring) score(line []byte) (report.Score, *event.Rejection) {
	if r := s.decoder.Decode(&s.event, line, 0); r != nil {
		return report.Score{}, r
	}
	in := InputOf(&s.event)
	p, err := s.over.Predict(&in)
	if err != nil { // the shape is the decoder's, so an output overflowed
		return report.Score{}, &event.Rejection{
			Reason:   event.NumberRange,
			Expected: "numbers near those of the training rows",
			Got:      "one too far away",
		}
	}
	out := report.Score{
		Model:         s.manifest.Model,
		Version:       s.manifest.Version,
		Prediction:    p.Label(),
		Classes:       p.Names(),
		Outputs:       report.Numbers(p.Outputs),
		Probabilities: report.Numbers(p.Probabilities),
		Ranked:        p.Ranked(),
		Unseen:        p.Unseen,
		Absent:        p.Absent,
		Likely:        likely(&p, s.schema),
	}
	if v, ok := out.Prediction.(float64); ok {
		out.Prediction = report.Number(v)
	}
	if out.Unseen == nil {
		out.Unseen = []string{}
	}
	if out.Absent == nil {
		out.Absent = []string{}
	}
	return out, nil
}

// likely is how probable a prediction is: the positive class of a binary label, the likeliest level of an ordinal one,
// and every class that was predicted.
func likely(p *snapshot.Prediction, schema *snapshot.Schema) (list []report.Likely) {
	ps := p.Probabilities
	if len(ps) == 0 {
		return nil
	}
	switch best := slices.Index(ps, slices.Max(ps)); {
	case p.Classes != nil:
		for _, name := range p.Classes {
			list = append(list,
				report.Likely{Name: name, Probability: report.Number(ps[slices.Index(schema.Classes, name)])})
		}
	case schema.Task == format.Ordinal:
		list = []report.Likely{{Name: strconv.Itoa(best + 1), Probability: report.Number(ps[best])}}
	case schema.Task == format.Binary:
		list = []report.Likely{{Name: cmp.Or(schema.Positive, "1"), Probability: report.Number(ps[1])}}
	}
	return list
}

// interruptible returns a reader of in that ends when ctx is done, even while in blocks. close releases it.
func interruptible(ctx context.Context, in io.Reader) (r io.Reader, close func()) {
	pr, pw := io.Pipe()
	go func() {
		_, err := io.Copy(pw, in)
		pw.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { pr.CloseWithError(ctx.Err()) })
	return pr, func() {
		stop()
		pr.Close()
	}
}

// lineReader reads lines of any length but keeps only the first keep bytes of each.
type lineReader struct {
	r    *bufio.Reader
	keep int
	line []byte
}

// newLines returns a reader of the lines of r, decompressed if they are a gzip stream. What it keeps of a line is
// enough for the decoder to reject it as too large.
func newLines(r io.Reader) (*lineReader, error) {
	const buffer = 64 << 10
	plain, err := dataset.Text(bufio.NewReaderSize(r, buffer))
	if err != nil {
		return nil, err
	}
	return &lineReader{
		r:    bufio.NewReaderSize(plain, buffer),
		keep: event.DefaultLimits().MaxEventBytes + len("\r\n"),
	}, nil
}

// next returns the next line without the white space around it, or of one that is too long the beginning as it is. It
// is valid until the next call.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	for total := 0; ; {
		part, err := l.r.ReadSlice('\n')
		total += len(part)
		l.line = append(l.line, part[:min(len(part), l.keep-len(l.line))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || total == 0):
			return nil, err
		case total > l.keep:
			return l.line, nil
		}
		return bytes.Trim(l.line, " \t\r\n"), nil
	}
}

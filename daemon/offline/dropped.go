package offline

import (
	"fmt"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// Invalid says why a line is no event.
func Invalid(r *event.Rejection, line int64) report.Invalid {
	return report.Invalid{Line: line, Reason: string(r.Reason), Field: r.Field, Expected: r.Expected, Got: r.Got}
}

// Dropped emits the first line of each cause for which lines of a file are no events, and returns how many there are of
// each. Lines of a topic, whose name is path, are the records.
func Dropped(skipped *dataset.Skipped, path string, records []Record, out *report.Emitter) ([]report.Dropped, error) {
	drops := []report.Dropped{}
	for i := range skipped.Causes {
		c := &skipped.Causes[i]
		line := Invalid(&c.Rejection, int64(c.First[0]))
		line.Path = path
		if records != nil {
			r := &records[c.First[0]-1]
			line.Line, line.Path = r.Offset, fmt.Sprintf("%s/%d", path, r.Partition)
			line.IsOffset = true
		}
		if err := out.Emit("invalid", line); err != nil {
			return nil, err
		}
		drops = append(
			drops,
			report.Dropped{
				Reason:    line.Reason,
				Field:     line.Field,
				Count:     c.Lines,
				FirstLine: line.Line,
				Path:      line.Path,
				IsOffset:  line.IsOffset,
			},
		)
	}
	return drops, nil
}

// Absent counts in counts the events of a file that lack an optional field.
func Absent(m *config.Model, set *dataset.Set, counts report.Absent) {
	schema := m.Schema.Event()
	absence := schema.Absence()
	for i := range set.Examples {
		absence.Each(&set.Examples[i].Event, func(field string) { counts[field]++ })
	}
}

// Strictly is the end of a verb with --strict: an error if a line was dropped, after the summary that lists them.
func Strictly(strict bool, drops []report.Dropped, out *report.Emitter) error {
	if !strict || len(drops) == 0 {
		return nil
	}
	lines := int64(0)
	for _, d := range drops {
		lines += d.Count
	}
	return &report.ExitError{Code: report.ExitNo, Key: "--strict", Path: drops[0].Path, Reported: out.IsJSON(),
		Err: fmt.Errorf("offline: %d lines are no events, the first is %s:%d (%s)", lines, drops[0].Path,
			drops[0].FirstLine, drops[0].Reason)}
}

// Record is one of a topic.
type Record struct {
	Partition int32
	Offset    int64
	Value     []byte
	Key       []byte
	Headers   []byte // as framing.AppendHeaders writes them; nil for none
	Time      int64  // in milliseconds since 1970

	Bad *event.Rejection // why the value cannot be read; nil where it can
}

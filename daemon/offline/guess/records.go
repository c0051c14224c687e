package guess

import (
	"fmt"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

// RecordFields says how replay writes the records of a file for a model: a daemon reads them as ReadEvents reads the
// file. Without a model, nil, the columns are what Init takes them for.
func RecordFields(m *config.Model, format dataset.Format, table offline.TableOptions,
	key string) (dataset.Fields, error) {
	fields := dataset.Fields{Key: key, Columns: table.DatasetColumns(), Guess: GuessFields}
	if m == nil {
		return fields, nil
	}
	switch format {
	case dataset.JSONL, dataset.Lines: // sent as they are, as a record is of any format
	case dataset.HalfStars:
		return fields, &report.ExitError{Code: report.ExitUsage, Key: "--format",
			Err: fmt.Errorf("offline: --format %s is for a replay without "+
				"--config.file, whose schema says what ratings count as: use %s", format, dataset.MovieLens)}
	default:
		if err := plainRecords(m); err != nil {
			return fields, err
		}
	}
	if format == dataset.LIBSVM {
		if err := offline.CheckNumeric(&m.Schema, ""); err != nil {
			return fields, err
		}
		if m.Schema.Time != "" {
			return fields, &report.ExitError{Code: report.ExitUsage, Key: "--format",
				Err: fmt.Errorf("offline: --format libsvm has no times, and "+
					"the records of model %s need the field %q: use jsonl or csv, or leave schema.time out", m.Name, m.Schema.Time)}
		}
	}
	schema := m.Schema.Event()
	fields.Schema = &schema
	return fields, nil
}

// plainRecords refuses a model that would not find the fields of its schema where replay writes them: as members of
// one object, by their names.
func plainRecords(m *config.Model) error {
	c := &m.Input.Mapping
	what := ""
	switch {
	case m.Input.IsFramed():
		return &report.ExitError{Code: report.ExitUsage, Key: "--config.file",
			Err: fmt.Errorf("offline: replay writes JSON without --as, and input.format of model %s is %s: give --as avro "+
				"or --as protobuf", m.Name, m.Input.Format)}
	case c.Envelope != "":
		what = fmt.Sprintf("with the envelope %s", c.Envelope)
	case len(c.When) > 0:
		what = fmt.Sprintf("where %s", c.When[0])
	}
	for _, f := range c.Fields {
		if place := c.Place(f.Name); what == "" && place != offline.PathOf(f.Name) {
			what = fmt.Sprintf("with the field %q from %s", f.Name, place)
		}
	}
	if what == "" {
		return nil
	}
	return &report.ExitError{Code: report.ExitUsage, Key: "--config.file",
		Err: fmt.Errorf("offline: replay writes rows as JSON objects with the fields "+
			"of the schema, and input.mapping of model %s reads records %s: write such records as lines of JSON "+
			"and replay them with --format jsonl", m.Name, what)}
}

// GuessFields returns the schema that Init makes of a file, with all its columns that are of use; without a label
// where none can be guessed.
func GuessFields(p *dataset.Profile) *event.Schema {
	g := &guess{format: p.Format, rows: p.Rows, total: p.Total, sample: new(Sample)}
	columns := g.columns(p)
	label := likelyLabel(columns)
	g.setOddAside(columns, label)
	if label != nil {
		if g.of = outcomesOf(label); g.label(label, columns) != nil {
			label, g.schema = nil, config.Schema{}
		}
	} else if kind, ok := g.choices(columns, false); ok {
		label = kind
	}
	g.addAll(columns, label)
	schema := g.schema.Event()
	return &schema
}

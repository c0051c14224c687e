package offline

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/pasts"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
)

func Usage(key, format string, arguments ...any) error {
	return &report.ExitError{Code: report.ExitUsage, Key: key, Err: fmt.Errorf("offline: "+format, arguments...)}
}

// TableOptions say which columns of CSV and Parquet files the fields of events are.
type TableOptions struct {
	Columns []string          `placeholder:"NAME,…"         help:"Names of the columns of CSV files without a header."`
	Map     map[string]string `placeholder:"FIELD=COLUMN,…" help:"Columns of CSV and Parquet files called otherwise than fields; label is the label." mapsep:","`
	// OfVersion lets Map name fields that a version does not know, such as that of the time, so that what is said to
	// one verb can be said to all.
	OfVersion bool `                                                                                                                                  kong:"-"`
}

func (o TableOptions) DatasetColumns() dataset.Columns {
	return dataset.Columns{Names: o.Columns, Of: o.Map, Spare: o.OfVersion}
}

// FormatOf returns the format of a file: the one given or, without, the one detected by its first line. Names of
// columns are those of CSV.
func (o TableOptions) FormatOf(given dataset.Format, path string) (dataset.Format, error) {
	switch {
	case given != "":
		return given, nil
	case len(o.Columns) > 0:
		return dataset.CSV, nil
	}
	found, err := dataset.Detect(path)
	if err != nil {
		return "", &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--data", Path: path}
	}
	return found, nil
}

// CheckFormat refuses the options with another format.
func (o TableOptions) CheckFormat(format dataset.Format) error {
	key, formats := "", ""
	switch {
	case format == dataset.CSV:
	case len(o.Columns) > 0:
		key, formats = "--columns", "--format csv, which may have no header"
	case len(o.Map) > 0 && format != dataset.Parquet:
		key, formats = "--map", "--format csv and parquet, which have columns"
	}
	if key == "" {
		return nil
	}
	return &report.ExitError{Code: report.ExitUsage, Key: key, Err: fmt.Errorf("offline: %s is for %s", key, formats)}
}

// ReadEvents reads labelled events of a model's schema into memory, but for their derived fields, which derive fills.
// Column i of a LIBSVM file is the i-th numeric field. meter, if not nil, shows how far the file is read.
func ReadEvents(m *config.Model, path string, format dataset.Format, table TableOptions,
	meter *progress.Meter) (*dataset.Set, error) {
	set, err := ReadSet(m, path, format, table, "--data", meter)
	if err == nil && format == dataset.LIBSVM {
		err = FillNumeric(set, &m.Schema, path)
	}
	return set, err
}

// Derive fills the derived fields of the events of files, which follow one another.
func Derive(m *config.Model, sets ...*dataset.Set) error {
	pasts := pasts.New(m, nil)
	if pasts == nil {
		return nil
	}
	return pasts.DeriveAll(func(yield func(*event.Event) bool) {
		for _, set := range sets {
			for i := range set.Examples {
				if !yield(&set.Examples[i].Event) {
					return
				}
			}
		}
	})
}

// ReadSet is ReadEvents, but for LIBSVM files the features stay sparse. flag is the one that names the file.
func ReadSet(m *config.Model, path string, format dataset.Format, table TableOptions, flag string,
	meter *progress.Meter) (*dataset.Set, error) {
	if m.Schema.LabelLater {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "input.outcomes", Err: errors.New(
			"offline: the labels of the model come later, in topics: leave input.outcomes out for a file that has them, " +
				"or use backtest --outcomes")}
	}
	return readSet(m, path, format, table, flag, meter)
}

// ReadShown reads events without a label.
func ReadShown(m *config.Model, path string, format dataset.Format, table TableOptions,
	meter *progress.Meter) (*dataset.Set, error) {
	if m.Schema.Time == "" || !m.Schema.LabelLater {
		return nil, Usage("--outcomes", "the model needs input.outcomes, and schema.time by which the files are played")
	}
	return readSet(m, path, format, table, "--data", meter)
}

// ReadOutcomes reads the outcomes of events, by time. Their format is detected.
func ReadOutcomes(m *config.Model, path string, meter *progress.Meter) (*dataset.Set, error) {
	var plain TableOptions
	found, err := plain.FormatOf("", path)
	if err != nil {
		return nil, err
	}
	of, err := readSet(m.OutcomeModel(), path, found, plain, "--outcomes", meter)
	if err != nil {
		return nil, err
	}
	return of, of.Arrange(dataset.TimeOrder, 0, 0)
}

func readSet(m *config.Model, path string, format dataset.Format, table TableOptions, flag string,
	meter *progress.Meter) (*dataset.Set, error) {
	if err := table.CheckFormat(format); err != nil {
		return nil, err
	}
	schema := m.Schema.Event()
	if format == dataset.LIBSVM {
		schema.Time = ""
	}
	recordTime := int64(0)
	if schema.Time != "" {
		recordTime = -1 // there is no record whose time an event could be ahead of
	}
	decoder := event.Decoder(formats.NewJSONDecoder(m))
	if format == dataset.JSONL { // values as in the topic
		decoder = formats.NewDecoder(m)
	}
	meter.Stage("reading", "bytes", 0)
	set, err := dataset.Read(
		path,
		dataset.Options{Format: format, Schema: schema, Columns: table.DatasetColumns(), Progress: meter.Set,
			Decode: func(ev *event.Event, value []byte, _ int64) *event.Rejection {
				return decoder.Decode(ev, value, recordTime)
			}},
	)
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: flag, Path: path}
	}
	return set, nil
}

// maxDense bounds the numbers of a LIBSVM file once it is dense: 50 million take 1 GB here and as rows of the solver.
const maxDense = 50_000_000

// maxNumeric bounds the columns of a LIBSVM file that become a field each. A line of a few bytes can name column
// 100,000,000.
const maxNumeric = 1_000_000

// IsDense returns an error if n rows of d numeric columns are too many numbers, or too many columns, for a dense form.
func IsDense(n, d int, path string) error {
	if d <= maxNumeric && d <= maxDense/n {
		return nil
	}
	return &report.ExitError{Code: report.ExitUsage, Key: "--data", Path: path,
		Err: fmt.Errorf(
			"offline: %s has %d rows of %d numeric columns: the limit is %d columns, and %d numbers in all; "+
				"put indicator columns into a categorical or multi field of --format jsonl",
			path,
			n,
			d,
			maxNumeric,
			maxDense,
		)}
}

// FillNumeric turns the sparse columns of a set into its numeric fields. Columns that the schema does not have are left
// out.
func FillNumeric(set *dataset.Set, schema *config.Schema, path string) error {
	if err := CheckNumeric(schema, path); err != nil {
		return err
	}
	n, d := len(set.Examples), len(schema.Numeric)
	if err := IsDense(n, d, path); err != nil {
		return err
	}
	values := make([]float64, n*d)
	for i := range set.Examples {
		ex := &set.Examples[i]
		ex.Numeric = values[i*d : (i+1)*d : (i+1)*d]
		for _, e := range ex.Sparse {
			if e.Index < d {
				ex.Numeric[e.Index] = e.Value
			}
		}
		ex.Sparse = nil
	}
	return nil
}

// CheckNumeric refuses a schema with fields that a LIBSVM file cannot have.
func CheckNumeric(schema *config.Schema, path string) error {
	if len(schema.Categorical)+len(schema.Multi) == 0 && len(schema.Numeric) > 0 {
		return nil
	}
	return &report.ExitError{Code: report.ExitUsage, Key: "--format", Path: path,
		Err: errors.New("offline: --format libsvm has numeric columns only, and the model's schema has other fields: " +
			"use jsonl")}
}

// ColumnNames returns the names of the numeric fields that name the columns of a LIBSVM file: 1 to d, as in the file.
func ColumnNames(d int) []string {
	names := make([]string, d)
	for j := range names {
		names[j] = strconv.Itoa(j + 1)
	}
	return names
}

// ClassesOf returns the classes that occur in the sets, in the order of their numbers if all are whole numbers, else as
// text.
func ClassesOf(sets ...*dataset.Set) []string {
	seen := make(map[string]int)
	numbers := true
	for _, set := range sets {
		for i := range set.Examples {
			for _, name := range set.Examples[i].Classes {
				if _, ok := seen[name]; !ok {
					number, err := strconv.Atoi(name)
					seen[name], numbers = number, numbers && err == nil
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		if numbers {
			return cmp.Or(cmp.Compare(seen[a], seen[b]), cmp.Compare(a, b))
		}
		return cmp.Compare(a, b)
	})
}

// plainName is a name that a path of input.mapping has without quotes.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// PathOf writes the path of a member of that name.
func PathOf(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

package offline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/export"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// ExportONNX writes a version as an ONNX model; double keeps its tensors in float64. The file appears whole or not at
// all.
func ExportONNX(ref SnapshotRef, output string, double bool, out *report.Emitter) error {
	version, err := ref.Open()
	if err != nil {
		return err
	}
	file, fields, err := export.ONNX(version, double)
	if err != nil {
		return report.Exit(report.ExitNo, err)
	}
	if err := writeWhole(output, func(w io.Writer) error {
		_, err := w.Write(file)
		return err
	}); err != nil {
		return err
	}
	m := version.Manifest()
	summary := report.ExportSummary{
		Model:         m.Model,
		Version:       m.Version,
		PayloadDigest: m.PayloadDigest,
		Output:        output,
		Bytes:         len(file),
		Opset:         export.Opset,
		Tensors:       "f32",
	}
	if double {
		summary.Tensors = "f64"
	}
	for _, f := range fields {
		summary.Inputs = append(summary.Inputs, report.ExportField(f))
	}
	return out.Emit("summary", summary)
}

// VectorsOptions say which vectors to export and where to.
type VectorsOptions struct {
	SnapshotRef

	Over   string `required:"" placeholder:"FIELD" help:"Categorical field whose names get vectors."`
	Class  string `            placeholder:"NAME"  help:"Class, of a model with several outputs."`
	Output string `required:"" placeholder:"FILE"  help:"File to write, .parquet or .jsonl, whole or not at all."`
}

// ExportVectors writes the names of a field as vectors, whose inner product with that of an event orders them as top
// lists. Exit code 1 with the reason for a model that is no inner product.
func ExportVectors(o VectorsOptions, out *report.Emitter) error {
	ending := filepath.Ext(o.Output)
	if ending != ".parquet" && ending != ".jsonl" {
		return &report.ExitError{Code: report.ExitUsage, Key: "--output",
			Err: fmt.Errorf("offline: --output %q: want a name that ends in .parquet or .jsonl", o.Output)}
	}
	version, err := o.Open()
	if err != nil {
		return err
	}
	if _, err := version.Vectors(o.Over, o.Class); err != nil {
		return report.Exit(report.ExitNo, err)
	}
	summary := report.VectorsSummary{Output: o.Output}
	if err := writeWhole(o.Output, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		head, rows, err := export.Vectors(b, version, o.Over, o.Class, ending == ".parquet")
		summary.Model, summary.Version, summary.PayloadDigest = head.Model, head.Version, head.PayloadDigest
		summary.Names, summary.Dim = rows, head.Dim
		return errors.Join(err, b.Flush())
	}); err != nil {
		return err
	}
	return out.Emit("summary", summary)
}

// OCIOptions say which version to export and to which registry.
type OCIOptions struct {
	SnapshotRef

	To        string `required:"" placeholder:"REPOSITORY" help:"Such as registry.example.org/models; the digest is the tag."`
	PlainHTTP bool   `help:"Speak HTTP without TLS, to a registry on this machine."`
}

// ExportOCI writes a version, which was verified, into a registry. Exit code 1 if that does not take it.
func ExportOCI(ctx context.Context, o OCIOptions, out *report.Emitter) error {
	version, err := o.Open()
	if err != nil {
		return err
	}
	image, err := export.OCI(ctx, o.Store, version, o.To, o.PlainHTTP)
	if err != nil {
		return &report.ExitError{Code: report.ExitNo, Err: err, Key: "--to"}
	}
	m := version.Manifest()
	return out.Emit("summary", report.OCISummary{Model: m.Model, Version: m.Version, VersionDigest: m.Digest,
		Reference: image.Reference, ImageDigest: image.Digest, SignatureDigest: image.Signature, Bytes: image.Bytes})
}

// SampleFormat is a format of exported samples.
type SampleFormat int

// The formats of exported samples.
const (
	JSONL SampleFormat = iota
	LIBSVM
)

// ExportOptions say which sample to export and where to.
type ExportOptions struct {
	StoragePath string       `kong:"-"` // of a daemon that is stopped
	Model       string       `kong:"-"`
	Output      string       `         default:"-" placeholder:"FILE" help:"File to write; - is standard output, which then has no summary."`
	Format      SampleFormat `kong:"-"`
	Stdout      io.Writer    `kong:"-"`
	Log         *slog.Logger `kong:"-"`

	Progress *progress.Meter `kong:"-"` // nil shows none
}

// ExportSample writes the rows of a state whose daemon is stopped. To a file of LIBSVM rows belongs a second one, with
// .columns behind its name: a line ["number","field","name"] for each column, then one ["class","number","name"] for
// each class. On standard output rows go without a summary, except with --json, where each is a line of type row.
func ExportSample(ctx context.Context, o ExportOptions, out *report.Emitter) error {
	path := filepath.Join(o.StoragePath, o.Model)
	o.Progress.Stage("opening the state", "", 0)
	store, err := openState(sketch.WithProgress(ctx, o.Progress.Pass), o.StoragePath, o.Model, o.Log)
	if err != nil {
		return err
	}
	o.Progress.Stage("reading the sample", "", 0)
	sample, err := store.Sample()
	if err = errors.Join(err, store.Close()); err != nil {
		return &report.ExitError{Code: report.ExitState, Err: err, Path: path}
	}
	model, err := config.ReadStored(path)
	if err != nil {
		return &report.ExitError{Code: report.ExitState, Err: err, Path: path}
	}
	ingest.LimitWeights(model, sample)
	ingest.Settle(model, sample, nil)
	e := &sampleExport{schema: &model.Schema, sample: sample, progress: o.Progress}
	if o.Format == LIBSVM {
		if err := e.number(); err != nil {
			return &report.ExitError{Code: report.ExitState, Err: err, Path: path}
		}
	}
	summary := report.SampleSummary{
		Model:        o.Model,
		Lineage:      sample.Lineage,
		SampleDigest: sample.Digest.String(),
		Output:       o.Output,
		Rows: report.SampleRows{
			Train:   int64(len(sample.Train)),
			Holdout: int64(len(sample.Select) + len(sample.Gate)),
		},
	}
	if e.columns != nil {
		summary.Columns = e.columns.NumColumns()
	}
	switch {
	case o.Output != "-":
		if err := writeWhole(o.Output, e.write); err != nil {
			return err
		}
		if e.columns != nil {
			if err := writeWhole(o.Output+".columns", e.writeColumns); err != nil {
				return err
			}
		}
	case out.IsJSON():
		if err := e.each(func(line []byte) error {
			if o.Format == LIBSVM {
				return out.Emit("row", report.SampleRow{Text: string(line)})
			}
			return out.Emit("row", report.SampleRow{Event: line})
		}); err != nil {
			return err
		}
	default:
		return e.write(o.Stdout)
	}
	return out.Emit("summary", summary)
}

// sampleExport formats the rows of one sample.
type sampleExport struct {
	schema  *config.Schema
	sample  *sketch.Sample
	columns *export.Columns // of LIBSVM rows
	classes []string

	progress *progress.Meter
}

// rows is how many rows the sample has.
func (e *sampleExport) rows() int64 {
	return int64(len(e.sample.Train) + len(e.sample.Select) + len(e.sample.Gate))
}

// number gives the features and classes of LIBSVM rows their numbers.
func (e *sampleExport) number() error {
	add, done := export.CollectColumns(e.schema)
	e.progress.Stage("numbering columns", "rows", e.rows())
	seen := make(map[string]bool)
	err := export.Rows(e.sample, func(r *export.Row) error {
		for _, c := range r.Event.Classes {
			seen[c] = true
		}
		e.progress.Add(1)
		return add(r)
	})
	if e.columns, e.classes = done(), e.schema.Classes; len(e.classes) == 0 {
		e.classes = slices.Sorted(maps.Keys(seen))
	}
	return err
}

// each calls f for every row as a line without its end.
func (e *sampleExport) each(f func(line []byte) error) error {
	var line []byte
	e.progress.Stage("writing", "rows", e.rows())
	return export.Rows(e.sample, func(r *export.Row) (err error) {
		if e.columns != nil {
			line = e.columns.AppendLIBSVM(line[:0], e.classes, r)
		} else if line, err = export.AppendJSON(line[:0], e.schema, r); err != nil {
			return err
		}
		e.progress.Add(1)
		return f(line)
	})
}

func (e *sampleExport) write(w io.Writer) error {
	b := bufio.NewWriter(w)
	err := e.each(func(line []byte) error {
		_, err := b.Write(append(line, '\n'))
		return err
	})
	return errors.Join(err, b.Flush())
}

func (e *sampleExport) writeColumns(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	err := e.columns.Each(func(number int, field, name string) error {
		return enc.Encode([]any{number, field, name})
	})
	for _, name := range e.classes {
		err = errors.Join(err, enc.Encode([]any{"class", export.ClassNumber(e.classes, name), name}))
	}
	return err
}

// writeWhole writes a file that appears whole or not at all. Exit code 2 if its directory cannot be written to, 5 if
// the disk fails.
func writeWhole(path string, write func(io.Writer) error) error {
	code := report.ExitUsage // it cannot be made there
	err := durable.WriteFile(path, 0o644, func(w io.Writer) error {
		code = report.ExitState
		return write(w)
	})
	if _, ok := errors.AsType[*os.LinkError](err); ok { // a directory has that name
		code = report.ExitUsage
	}
	if err != nil {
		return &report.ExitError{Code: code, Err: fmt.Errorf("offline: --output: %w", err), Key: "--output", Path: path}
	}
	return nil
}

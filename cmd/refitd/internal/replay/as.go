package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/cmd/refitd/internal/typed"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/report"
)

// extensions are those of files with schemas, by format.
var extensions = map[string]string{event.FormatAvro: ".avsc", event.FormatProtobuf: ".proto"}

// validateAs is validate of what belongs to --as.
func (o *Options) validateAs() error {
	hasRegistry := o.Kafka != nil && o.Kafka.SchemaRegistry.URL != ""
	switch {
	case o.As == "" && (o.Subject != "" || o.SchemaFile != ""):
		return errors.New("--subject and --schema-file are those of --as: give --as avro, protobuf or json_schema")
	case o.As == "":
		return nil
	case o.For == nil:
		return errors.New("--as needs --config.file, of whose model the schema is made")
	case o.SchemaFile == "" && !hasRegistry:
		return errors.New("--as needs --registry, or kafka.schema_registry in --config.file, to which the schema goes; or " +
			"--schema-file, where there is no registry")
	case o.SchemaFile != "" && o.Subject != "":
		return errors.New("--subject is of a registry, and --schema-file is for records without one: give one of them")
	case o.SchemaFile != "" && o.As == event.FormatJSONSchema:
		return errors.New("--schema-file is not for --as json_schema: JSON without a frame is written without --as, and a " +
			"schema of it goes to --registry")
	case o.SchemaFile != "" && filepath.Ext(o.SchemaFile) != extensions[o.As]:
		return fmt.Errorf("--schema-file %s: a schema in %s is in a file called %s", o.SchemaFile, o.As, extensions[o.As])
	}
	return nil
}

// asJSON returns the model by whose schema the file is read: with --as one of plain JSON, since the typed records are
// made of it.
func (o *Options) asJSON() *config.Model {
	if o.As == "" {
		return o.For
	}
	m := *o.For
	m.Input.Format, m.Input.KeyFormat, m.Input.Mapping = event.FormatJSON, "", config.Mapping{}
	return &m
}

// typedWriter turns records into those of a schema.
type typedWriter struct {
	writer  *typed.Writer
	id      uint32 // of the schema in the registry, 0 without one
	skipped dataset.Skipped
}

// typed returns the writer of --as, once the registry or the file has its schema; nil without --as.
func (o *Options) typed(ctx context.Context) (*typedWriter, error) {
	if o.As == "" {
		return nil, nil
	}
	isFlat := o.Format != dataset.JSONL && o.Format != dataset.Lines
	w, err := typed.NewWriter(o.For, o.As, isFlat)
	if err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--as", Err: fmt.Errorf("replay: %w", err)}
	}
	out := &typedWriter{writer: w}
	if o.SchemaFile != "" {
		if err := store(o.SchemaFile, w.Schema().Text); err != nil {
			return nil, &report.ExitError{Code: report.ExitUsage, Key: "--schema-file", Path: o.SchemaFile, Err: err}
		}
		return out, nil
	}
	client, err := formats.NewRegistry(o.Kafka)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	subject := o.Subject
	if subject == "" {
		subject = o.Topic + "-value"
	}
	if out.id, err = client.Register(ctx, subject, w.Schema()); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--registry",
			Err: fmt.Errorf("replay: register the schema under %s: %w", subject, err)}
	}
	return out, nil
}

// store writes a schema to a file, unless it has it already. A file with another text stays.
func store(path, text string) error {
	old, err := os.ReadFile(path)
	switch {
	case err == nil && string(old) == text:
		return nil
	case err == nil:
		return fmt.Errorf("replay: %s has another schema than that of the model: --schema-file names another file", path)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("replay: %w", err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// write gives a record its value by the schema. It reports false, and counts the line, where the record is no event of
// the model: a topic with a schema cannot have it.
func (t *typedWriter) write(r *dataset.Record) bool {
	var frame []byte
	if t.id != 0 {
		frame = t.writer.Frame(nil, t.id)
	}
	value, bad := t.writer.Append(frame, r.Value)
	if bad != nil {
		t.skipped.Add(bad, r.Line)
		return false
	}
	r.Value = value
	return true
}

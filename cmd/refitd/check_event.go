package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/report"
)

type checkEventCmd struct {
	ConfigFile string     `name:"config.file" required:"" placeholder:"FILE" help:"Configuration file."`
	Record     eventFlags `                                                                             embed:""`
}

// Run prints what becomes of the record. Exit code 1 if a model rejects it.
func (c *checkEventCmd) Run(a *app) error {
	if c.Record.Event == "" {
		return &report.ExitError{Code: report.ExitUsage, Key: "--event",
			Err: errors.New("--event is missing: name the file with the value of the record")}
	}
	return (&checkConfigCmd{ConfigFile: c.ConfigFile, Record: c.Record}).Run(a)
}

// eventFlags describe one record of a topic.
type eventFlags struct {
	Event  string            `placeholder:"FILE"         help:"Show what becomes of the record with the value in this file; an empty one is a tombstone."`
	Key    string            `placeholder:"TEXT"         help:"Key of the record of --event: text, or base64: with bytes behind it."`
	Header map[string]string `placeholder:"NAME=VALUE,…" help:"Headers of the record of --event, in the form of --key."                                                         mapsep:","`
	Time   *int64            `placeholder:"MS"           help:"Time stamp of the record of --event, in milliseconds since 1970. Without, now."`
}

// maxEventFile bounds a record: it is too large for any configuration then.
const maxEventFile = 1 << 20

// record reads the record.
func (f *eventFlags) record(stdin io.Reader) (*event.Record, error) {
	in := stdin
	if f.Event != "-" {
		file, err := os.Open(f.Event)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	value, err := io.ReadAll(io.LimitReader(in, maxEventFile))
	if err != nil {
		return nil, err
	}
	r := &event.Record{Value: value, Time: time.Now().UnixMilli()}
	if f.Time != nil {
		r.Time = *f.Time
	}
	if len(value) == 0 {
		r.Value = nil
	}
	if f.Key != "" {
		if r.Key, err = bytesOf("--key", f.Key); err != nil {
			return nil, err
		}
	}
	if len(f.Header) > 0 {
		var list []framing.Header
		for _, name := range slices.Sorted(maps.Keys(f.Header)) {
			value, err := bytesOf("--header", f.Header[name])
			if err != nil {
				return nil, err
			}
			list = append(list, framing.Header{Name: name, Value: value})
		}
		r.Headers = framing.AppendHeaders(nil, list...)
	}
	return r, nil
}

// bytesOf returns the bytes that a flag names: its text, or what is in base64 behind a prefix. Keys and headers that
// name schemas are no text.
func bytesOf(flag, text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, "base64:")
	if !ok {
		return []byte(text), nil
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("%s has no base64 behind base64: %w", flag, err)
	}
	return b, nil
}

// checkEvent emits what becomes of a record for each model, and reports whether one rejects it.
func checkEvent(conf *config.Config, f *eventFlags, a *app) (rejected bool, err error) {
	r, err := f.record(a.stdin)
	if err != nil {
		return false, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--event", Path: f.Event}
	}
	for i := range conf.Models {
		e, err := mappedEvent(&conf.Kafka, &conf.Models[i], r)
		if err != nil {
			return false, err
		}
		rejected = rejected || e.Result == "rejected"
		if err := a.out.Emit("event", e); err != nil {
			return false, err
		}
	}
	return rejected, nil
}

// mappedEvent decodes a record as the model does, with the schemas of the registry.
func mappedEvent(k *config.Kafka, m *config.Model, r *event.Record) (report.MappedEvent, error) {
	out := report.MappedEvent{Model: m.Name, Result: "accepted", Fields: []report.MappedField{}}
	flat, rejection, ev := r.Value, (*event.Rejection)(nil), new(event.Event)
	schemas, err := formats.OpenSchemas(k, m, nil)
	if err != nil {
		return out, err
	}
	defer schemas.Close()
	if decoder := formats.NewRecordDecoder(m, schemas, nil); decoder != nil {
		if flat, rejection, err = shown(decoder, schemas, r); err != nil {
			return out, err
		}
		if rejection == nil {
			rejection, _ = decoder.DecodeRecord(ev, r)
		}
	} else {
		rejection = formats.NewDecoder(m).Decode(ev, r.Value, r.Time)
	}
	if rejection == nil && m.Schema.Time != "" {
		out.TrueUnit = event.TrueUnit(m.Schema.TimeUnit, ev.Time)
	}
	var found map[string]json.RawMessage
	_ = json.Unmarshal(flat, &found) // of what is no object there are no fields
	for _, name := range m.Schema.EventFields() {
		field := report.MappedField{Name: name, From: m.Input.Mapping.Place(name)}
		if value, ok := found[name]; ok && string(value) != "null" {
			field.Value = value
		}
		out.Fields = append(out.Fields, field)
	}
	if rejection != nil {
		out.Result, out.Reason, out.Field = "rejected", string(rejection.Reason), rejection.Field
		out.Expected, out.Got = rejection.Expected, rejection.Got
		if rejection.Reason == event.Filtered {
			out.Result, out.Fields = "filtered", []report.MappedField{}
		}
	}
	return out, nil
}

// shown returns the JSON form of a record, once the registry has said the schemas of its value and of its key.
func shown(decoder *event.Mapped, schemas *formats.Schemas, r *event.Record) ([]byte, *event.Rejection, error) {
	for tries := 0; ; tries++ {
		flat, rejection, wait := decoder.Show(r)
		if wait == nil {
			return flat, rejection, nil
		}
		if wait.Why != "" || tries == maxSchemasOfRecord {
			return nil, nil, report.Exitf(report.ExitUsage, "%s cannot be used: %s", wait.ID, wait.Why)
		}
		if err := schemas.Fetch(context.Background(), wait.ID); err != nil {
			return nil, nil, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "kafka.schema_registry"}
		}
	}
}

// maxSchemasOfRecord are those of a value and of a key.
const maxSchemasOfRecord = 2

package formats_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
)

// TestSchemasBound: a model knows at most MaxSchemasBytes of schemas; the partition of one more waits and says so, and
// what is known is read on, also after a restart.
func TestSchemasBound(t *testing.T) {
	l := newLife(t)
	const each = 200 << 10
	fits := formats.MaxSchemasBytes / each
	list := records(t, event.FormatAvro, int64(fits+3))
	for i := range list {
		id := byte(10 + i)
		list[i].Value[4] = id
		l.registry.schemas[fmt.Sprint("/schemas/ids/", id)] = map[string]any{"schema": avroRating[:len(avroRating)-1] +
			`,"doc":"` + strings.Repeat("x", each) + `"}`}
	}
	for range 2 {
		l.next = 0
		b := offer(t, l.ingest, list, 0,
			func(reason string) bool { return strings.Contains(reason, fmt.Sprint(formats.MaxSchemasBytes)) })
		if !strings.Contains(b, fmt.Sprint("schema ", 10+fits)) {
			t.Error(b)
		}
		l.next = int64(fits)
		l.account(int64(fits), 0)
		l.open()
	}
}

// TestProgramBytes: no schema takes more for each byte of its text, and each decoder, than the footprint has.
func TestProgramBytes(t *testing.T) {
	tier.NotUnderRace(t) // the detector takes memory as well
	repeat := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	const record = `{"type":"record","name":"R","fields":[`
	const rating = `{"name":"rating","type":"int"}]}`
	avroText := func(n int, format string) string { return record + repeat(n, format+",") + rating }
	m := ingesttest.Ratings(500)
	m.Input.Format = event.FormatAuto
	for name, w := range map[string]event.Writer{
		"fields":  {Format: event.FormatAvro, Text: avroText(2500, `{"name":"f#","type":"int"}`)},
		"unions":  {Format: event.FormatAvro, Text: avroText(2000, `{"name":"f#","type":["null","int","long","string"]}`)},
		"records": {Format: event.FormatAvro, Text: avroText(2000, `{"name":"f#","type":{"type":"record","name":"R#","fields":[]}}`)},
		"maps":    {Format: event.FormatAvro, Text: avroText(2000, `{"name":"f#","type":{"type":"map","values":"int"}}`)},
		"symbols": {Format: event.FormatAvro, Text: avroText(1, `{"name":"f","type":{"type":"enum","name":"E","symbols":["x"`+repeat(20_000, `,"s#"`)+`]}}`)},
		"an enum, often": {Format: event.FormatAvro, Text: avroText(1, `{"name":"f","type":{"type":"enum","name":"E","symbols":["x"`+repeat(500, `,"s#"`)+`]}},`+
			strings.TrimSuffix(repeat(2000, `{"name":"g#","type":"E"},`), ","))},
		"messages":       {Format: event.FormatProtobuf, Text: `syntax="proto3";message R{int32 rating=1;}` + repeat(2500, "message A#{}")},
		"message fields": {Format: event.FormatProtobuf, Text: `syntax="proto3";message R{int32 rating=1;` + repeat(2500, "int32 a#=2#;") + "}"},
		"enums":          {Format: event.FormatProtobuf, Text: `syntax="proto3";enum E{A=0;` + repeat(2500, "A#=1#;") + "} message R{E user=2;}"},
	} {
		root := event.NewMapped(m.Schema.Event(), formats.LimitsOf(m), new(event.Mapping), nil).Asked()
		took := math.Inf(1) // the least of a few: others may use the heap as well
		for range 2 {
			const copies = 2
			before := cycletest.Heap()
			var programs []event.Program
			for range copies {
				p, err := formats.Compilers[w.Format](&w, nil, root, 20)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				programs = append(programs, p)
			}
			took = min(took, float64(cycletest.Heap()-before)/copies/float64(len(w.Text)))
			runtime.KeepAlive(programs)
		}
		t.Logf("%s: %d bytes, %.1f for each", name, len(w.Text), took)
		if took > formats.ProgramBytes {
			t.Errorf("%s: %.1f bytes for each byte of the text, at most %d", name, took, formats.ProgramBytes)
		}
	}
}

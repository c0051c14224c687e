package jsonschema

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/eventtest"
	"github.com/refitd/refitd/consumer/event/framing"
)

type known map[framing.ID]*event.Writer

func (k known) Writer(id framing.ID) *event.Writer { return k[id] }

// TestConnectTitles: the titles that Kafka Connect's converter writes give times their unit and decimals their scale.
func TestConnectTitles(t *testing.T) {
	w := &event.Writer{Format: event.FormatJSONSchema, Text: `{"type":"object","properties":{
		"op":{"type":"string"},
		"after":{"oneOf":[{"type":"null"},{"type":"object","properties":{
			"user":{"type":"integer"},
			"rating":{"type":"number","title":"org.apache.kafka.connect.data.Decimal","connect.type":"bytes",
				"connect.parameters":{"scale":"2"}},
			"ts":{"oneOf":[{"type":"null"},{"type":"integer","title":"io.debezium.time.MicroTimestamp"}]}}}]}}}`}
	schema := event.Schema{Task: event.Regression, Label: "rating", Time: "ts", TimeUnit: "s",
		Categorical: []string{"user"}}
	for _, c := range []struct {
		envelope event.Envelope
		value    string
	}{
		{event.Debezium, `{"op":"c","after":{"user":7,"rating":"AcI=","ts":1700000000000123}}`},
		{event.Debezium, `{"op":"c","after":{"user":7,"rating":4.50,"ts":1700000000000123}}`}, // decimal.format: NUMERIC
	} {
		d := event.NewMapped(schema, event.DefaultLimits(), &event.Mapping{Envelope: c.envelope}, nil)
		d.Read(event.Reading{Format: event.FormatJSONSchema, Writers: known{{Kind: framing.NumberID, Number: 7}: w},
			Outliners: map[string]event.Outliner{event.FormatJSONSchema: Outline}})
		for range 2 {
			var ev event.Event
			r, wait := d.DecodeRecord(&ev, &event.Record{Value: []byte(eventtest.Seven + c.value), Time: -1})
			if r != nil || wait != nil || ev.Label != 4.5 || ev.Time != 1_700_000_000_000 || ev.Categorical[0] != "7" {
				t.Errorf("%s: %v, %v, %+v", c.value, r, wait, ev)
			}
			// One without a frame, in between, is not of that schema.
			r, _ = d.DecodeRecord(&ev, &event.Record{Value: []byte(`{"op":"c","after":{"user":7,"rating":4,"ts":1700000000}}`),
				Time: -1})
			if r != nil || ev.Time != 1_700_000_000_000 {
				t.Errorf("without a frame: %v, %+v", r, ev)
			}
		}
	}
}

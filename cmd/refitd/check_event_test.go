package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
)

// TestCheckEventSays: what becomes of records of other writers, with the unit of their time where it seems to be
// another one.
func TestCheckEventSays(t *testing.T) {
	plain := config.DefaultModel()
	plain.Name, plain.Input.Topics = "plain", []string{"t"}
	plain.Schema.Task, plain.Schema.Label, plain.Schema.Time = "regression", "rating", "ts"
	plain.Schema.Categorical = []string{"user", "item"}
	cdc := plain
	cdc.Input.Mapping = config.Mapping{
		Envelope: "debezium",
		Fields: []config.MappedField{{Name: "ts", Path: "source.ts_ms"},
			{
				Name: "rating",
				Path: "after.stars",
				As:   "decimal:2",
			}, {Name: "user", Path: "after.user_id"}, {Name: "item", Path: "after.shop_id"}},
	}
	const decimal = `{"before":null,"after":{"user_id":1,"shop_id":2,"stars":"AcI="},"source":{"ts_ms":1700000000000},"op":"c"}`
	for _, c := range []struct {
		model *config.Model
		value string
		want  string
	}{
		{&plain, `{"user":"u","item":"i","rating":4.5,"ts":1700000000}`, "it seems to be of unit s, say schema.time_unit: s"},
		{&plain, `{"user":"u","item":"i","rating":4,"ts":1700000000000,"comment":"nice \ud83d"}`, "accepted"},
		{&cdc, decimal, "accepted"},
		{&cdc, `{"schema":null,"payload":null}`, "removal_request"},
	} {
		e, err := mappedEvent(new(config.Kafka), c.model, &event.Record{Value: []byte(c.value), Time: 1700000000000})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := e.WriteText(&text); err != nil || !strings.Contains(text.String(), c.want) {
			t.Errorf("%s: %s, %v, want %q", c.value, &text, err, c.want)
		}
		if seems := strings.Contains(text.String(), "time_unit"); seems != (e.TrueUnit != "") ||
			seems != strings.Contains(c.value, "1700000000}") {
			t.Errorf("%s: unit %q: %s", c.value, e.TrueUnit, &text)
		}
	}
}

// TestRecordOfFlags: keys and headers are text, or bytes in base64, as a schema's ID in a header is.
func TestRecordOfFlags(t *testing.T) {
	f := eventFlags{Event: "-", Key: "base64:AAAAAAc=", Header: map[string]string{"a": "text", "b": "base64:Af8="}}
	r, err := f.record(strings.NewReader("value"))
	if err != nil {
		t.Fatal(err)
	}
	list, n := framing.Headers(r.Headers)
	if string(r.Key) != "\x00\x00\x00\x00\x07" || n != 2 || string(list[0].Value) != "text" ||
		string(list[1].Value) != "\x01\xff" {
		t.Errorf("key %q, headers %q", r.Key, list)
	}
	f.Header["b"] = "base64:A"
	if _, err := f.record(strings.NewReader("value")); err == nil || !strings.Contains(err.Error(), "--header") {
		t.Error(err)
	}
}

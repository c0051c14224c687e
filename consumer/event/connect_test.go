package event

import (
	"fmt"
	"strings"
	"testing"
)

// TestConnectTypes: a schema that Kafka Connect writes around a value says of which unit its times are and which scale
// its decimals have, in an envelope and without one, in keys, and in whichever order schema and payload come.
func TestConnectTypes(t *testing.T) {
	const (
		at    = 1_700_000_000_000 // what ts is in each, in milliseconds
		row   = `{"user":7,"item":"AcI=","rating":"AcI=","ts":%s}`
		types = `{"type":"int32","field":"user"},` +
			`{"name":"org.apache.kafka.connect.data.Decimal","field":"item","parameters":{"scale":"0"}},` +
			`{"name":"org.apache.kafka.connect.data.Decimal","field":"rating","parameters":{"scale":"2"}},` +
			`{"name":"%s","field":"ts"}`
	)
	debezium := mappingOf(t, Debezium, nil)
	plain := mappingOf(t, NoEnvelope, []string{"payload.rating >= 4.5"}, "ts=payload.ts", "user=payload.user",
		"item=payload.item", "rating=payload.rating")
	fromKey := mappingOf(t, Debezium, nil, "ts=key:ts")
	events := mappingOf(t, CloudEvents, nil, "ts=payload.ts", "user=payload.user", "item=payload.item",
		"rating=payload.rating")
	for _, c := range []struct {
		name, ts string
		want     int64
	}{
		{"org.apache.kafka.connect.data.Timestamp", "1700000000000", at},
		{"org.apache.kafka.connect.data.Date", "19675", at - at%86_400_000},
		{"io.debezium.time.Timestamp", "1700000000000", at},
		{"io.debezium.time.MicroTimestamp", "1700000000000123", at},
		{"io.debezium.time.NanoTimestamp", "1700000000000123456", at},
		{"io.debezium.time.Date", "19675", at - at%86_400_000},
		{"io.debezium.time.ZonedTimestamp", `"2023-11-14T22:13:20.000123Z"`, at},
		{"io.debezium.time.IsoTimestamp", `"2023-11-14T22:13:20Z"`, at},
		{"", "1700000000", at}, // in schema.time_unit
	} {
		names, payload := fmt.Sprintf(types, c.name), fmt.Sprintf(row, c.ts)
		change := `{"op":"c","before":null,"after":` + payload + `}`
		around := `{"type":"struct","fields":[{"field":"before"},{"field":"after","fields":[` + names + `]}]}`
		value := `{"schema":{"type":"struct","fields":[` + names + `]},"payload":` + payload + `}`
		swapped := `{"payload":` + payload + `,"schema":{"type":"struct","fields":[` + names + `]}}`
		for what, one := range map[string]struct {
			mapping    *Mapping
			value, key string
		}{
			"a change":               {debezium, `{"schema":` + around + `,"payload":` + change + `}`, ""},
			"its payload first":      {debezium, `{"payload":` + change + `,"schema":` + around + `}`, ""},
			"no envelope":            {plain, value, ""},
			"no envelope, swapped":   {plain, swapped, ""},
			"in a key":               {fromKey, `{"schema":` + around + `,"payload":` + change + `}`, value},
			"data of a CloudEvent":   {events, `{"specversion":"1.0","data":` + value + `}`, ""},
			"another schema between": {plain, value, ""},
		} {
			d := NewMapped(mappedSchema, DefaultLimits(), one.mapping, nil)
			var ev Event
			for range 2 {
				ev = Event{}
				r, _ := d.DecodeRecord(&ev, &Record{Value: []byte(one.value), Key: []byte(one.key), Time: -1})
				if r != nil || ev.Time != c.want || ev.Label != 4.5 || ev.Categorical[0] != "7" || ev.Categorical[1] != "450" {
					t.Errorf("%s, %s: %v, %+v, want ts %d", c.name, what, r, ev, c.want)
				}
				other := strings.NewReplacer(`"name":"`, `"name":"io.debezium.time.Date`, `"scale":"2"`, `"scale":"1"`).
					Replace(one.value)
				_, _ = d.DecodeRecord(new(Event), &Record{Value: []byte(other), Time: -1})
			}
		}
	}
}

// TestConnectNothing: a schema of another form, or of another place, says nothing.
func TestConnectNothing(t *testing.T) {
	m := mappingOf(t, NoEnvelope, nil, "ts=payload.ts", "user=payload.user", "item=payload.item", "rating=payload.rating")
	for _, schema := range []string{
		`7`, `"text"`, `null`, `[]`, `{}`, `{"fields":7}`, `{"fields":[{"field":"ts","name":7}]}`,
		`{"fields":[{"field":"other","name":"io.debezium.time.Date"}]}`,
		`{"fields":[{"field":"payload","fields":[{"field":"ts","name":"io.debezium.time.Date"}]}]}`,
		`{"fields":[{"field":"user","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":2}}]}`,
		`{"fields":[{"field":"user","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"999"}}]}`,
	} {
		value := `{"schema":` + schema + `,"payload":{"ts":1700000000,"user":"AcI=","item":"i","rating":4}}`
		d := NewMapped(mappedSchema, DefaultLimits(), m, nil)
		var ev Event
		r, _ := d.DecodeRecord(&ev, &Record{Value: []byte(value), Time: -1})
		if r != nil || ev.Time != 1_700_000_000_000 || ev.Categorical[0] != "AcI=" {
			t.Errorf("%s: %v, %+v", schema, r, ev)
		}
	}
}

package avro

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
)

// encoded returns a value as a schema writes it.
func encoded(t testing.TB, schema string, value any, references ...string) []byte {
	t.Helper()
	var cache avro.SchemaCache
	for _, text := range references {
		if _, err := cache.Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	s, err := cache.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// rowSchema is that of Debezium's envelope around a row, as Kafka Connect's converter to Avro writes it.
const rowSchema = `{"type":"record","name":"Envelope","namespace":"shop.ratings","fields":[
	{"name":"before","type":["null",{"type":"record","name":"Value","fields":[
		{"name":"user","type":"long"},
		{"name":"item","type":["null",{"type":"string","connect.name":"io.debezium.data.Uuid"}]},
		{"name":"rating","type":{"type":"bytes","scale":2,"precision":5,"logicalType":"decimal",
			"connect.name":"org.apache.kafka.connect.data.Decimal"}},
		{"name":"price","type":["null",{"type":"record","name":"VariableScaleDecimal","namespace":"io.debezium.data",
			"fields":[{"name":"scale","type":"int"},{"name":"value","type":"bytes"}],
			"connect.name":"io.debezium.data.VariableScaleDecimal"}]},
		{"name":"at","type":{"type":"long","connect.version":1,"connect.name":"io.debezium.time.MicroTimestamp"}}]}]},
	{"name":"after","type":["null","Value"]},
	{"name":"source","type":{"type":"record","name":"Source","namespace":"io.debezium","fields":[{"name":"table","type":"string"}]}},
	{"name":"op","type":"string"}]}`

// TestDebezium: changes of rows are what the JSON form of the same says, deletes and tombstones are removal requests.
func TestDebezium(t *testing.T) {
	m := place(t, "ts=after.at")
	m.Envelope = event.Debezium
	c, err := event.ParseCondition(`source.table == "ratings"`)
	if err != nil {
		t.Fatal(err)
	}
	absent, err := event.ParseCondition(`after.rating >= 0.5`)
	if err != nil {
		t.Fatal(err)
	}
	m.When = []event.Condition{c, absent}
	row := map[string]any{"user": int64(math.MaxInt64), "item": "i1", "rating": big.NewRat(45, 10),
		"price": map[string]any{"scale": int32(1), "value": []byte{0xff, 0x06}}, "at": int64(1_700_000_000_123_000)}
	change := func(op, table string, before, after any) []byte {
		return confluent(encoded(t, rowSchema, map[string]any{"before": before, "after": after, "op": op,
			"source": map[string]any{"table": table}}))
	}
	d := decoderOf(m, known{seven: written(rowSchema)}, nil)
	for name, c := range map[string]struct {
		value []byte
		want  string
	}{
		"a change":         {change("u", "ratings", row, row), ""},
		"another table":    {change("c", "users", nil, row), "filtered"},
		"a delete":         {change("d", "ratings", row, nil), "removal_request"},
		"another's delete": {change("d", "users", row, nil), "filtered"},
		"a tombstone":      {nil, "removal_request"},
		"a truncation":     {change("t", "ratings", nil, nil), "filtered"},
	} {
		var ev event.Event
		r, wait := d.DecodeRecord(&ev, &event.Record{Value: c.value, Time: 1_700_000_000_200})
		if wait != nil || reason(r) != c.want {
			t.Errorf("%s: %v, %v", name, r, wait)
		}
		if c.want == "" && (ev.Label != 4.5 || ev.Numeric[0] != -25 || ev.Time != 1_700_000_000_123 ||
			ev.Categorical[0] != "9223372036854775807" || ev.Categorical[1] != "i1") {
			t.Errorf("%s: %+v", name, ev)
		}
	}
	var ev event.Event
	record := event.Record{Value: change("u", "ratings", row, row), Time: 1_700_000_000_200}
	if n := testing.AllocsPerRun(100, func() { _, _ = d.DecodeRecord(&ev, &record) }); n != 0 {
		t.Errorf("%g allocations for a change", n)
	}
}

// TestDebeziumInJSON: random changes of rows are what Kafka Connect's converter to JSON makes of the same.
func TestDebeziumInJSON(t *testing.T) {
	const row = `"fields":[{"type":"int64","field":"user"},{"type":"string","name":"io.debezium.data.Uuid","field":"item"},
		{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"},"field":"rating"},
		{"type":"struct","name":"io.debezium.data.VariableScaleDecimal","field":"price"},
		{"type":"int64","name":"io.debezium.time.MicroTimestamp","field":"at"}]`
	const around = `{"type":"struct","fields":[{"type":"struct","field":"before",` + row + `},
		{"type":"struct","field":"after",` + row + `}]}`
	m := place(t, "ts=after.at")
	m.Envelope = event.Debezium
	for _, text := range []string{`source.table == "ratings"`, `after.rating >= 0.5`} {
		c, err := event.ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		m.When = append(m.When, c)
	}
	r := rand.New(rand.NewPCG(53, 4))
	unscaled := func(n int64) []byte { // two's complement, as short as it may be
		b := binary.BigEndian.AppendUint64(nil, uint64(n))
		for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
			b = b[1:]
		}
		return b
	}
	newRow := func() any {
		row := map[string]any{"user": r.Int64() - r.Int64(), "rating": unscaled(r.Int64N(800) - 100), "item": nil,
			"price": nil, "at": 1_700_000_000_000_000 + r.Int64N(1e12)}
		if r.IntN(10) > 0 {
			row["item"] = fmt.Sprint("i", r.IntN(9))
		}
		if r.IntN(3) > 0 {
			row["price"] = map[string]any{"scale": int32(r.IntN(5)), "value": unscaled(r.Int64N(1e9) - 5e8)}
		}
		return row
	}
	typed := decoderOf(m, known{seven: written(rowSchema)}, nil)
	plain := event.NewMapped(ratings, event.DefaultLimits(), m, nil)
	seen := make(map[string]int)
	for range 500 {
		change := map[string]any{"op": []string{"c", "u", "r", "d", "t"}[r.IntN(5)], "before": nil, "after": nil,
			"source": map[string]any{"table": []string{"ratings", "ratings", "users"}[r.IntN(3)]}}
		if change["op"] != "c" && change["op"] != "t" {
			change["before"] = newRow()
		}
		if change["op"] != "d" && change["op"] != "t" {
			change["after"] = newRow()
		}
		text, err := json.Marshal(map[string]any{"schema": json.RawMessage(around), "payload": change})
		if err != nil {
			t.Fatal(err)
		}
		var got, want event.Event
		a, wait := typed.DecodeRecord(&got, &event.Record{Value: confluent(encoded(t, rowSchema, change)), Time: 2e12})
		b, _ := plain.DecodeRecord(&want, &event.Record{Value: text, Time: 2e12})
		if seen[reason(a)]++; wait != nil || reason(a) != reason(b) ||
			a == nil && fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Fatalf("%v, %v, %#v,\nwant %v, %#v of %s", a, wait, got, b, want, text)
		}
	}
	if seen[""] < 100 || seen["removal_request"] == 0 || seen["filtered"] == 0 || seen["missing_field"] == 0 {
		t.Error(seen)
	}
}

func reason(r *event.Rejection) string {
	if r == nil {
		return ""
	}
	return string(r.Reason)
}

// TestReaderSchema: what the reader's schema has and the writer lacks is its default; enums that the reader does not
// know are its default, too.
func TestReaderSchema(t *testing.T) {
	const writer = `{"type":"record","name":"R","fields":[{"name":"rating","type":"int"},{"name":"at","type":"long"},
		{"name":"user","type":{"type":"enum","name":"U","symbols":["a","b"]}}]}`
	reader := written(`{"type":"record","name":"R","fields":[{"name":"rating","type":"double"},
		{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"},"aliases":["at"]},
		{"name":"user","type":{"type":"enum","name":"U","symbols":["a","other"],"default":"other"}},
		{"name":"what","type":{"type":"record","name":"W","fields":[{"name":"item","type":"string"}]},
			"default":{"item":"none"}},
		{"name":"price","type":["double","null"],"default":2.5},
		{"name":"tags","type":{"type":"array","items":"string"},"default":["x","y"]}]}`)
	value := confluent(encoded(t, writer, map[string]any{"rating": int32(4), "at": int64(77), "user": "b"}))
	var ev event.Event
	r, wait := decoderOf(place(t, "item=what.item"), known{seven: written(writer)}, reader).
		DecodeRecord(&ev, &event.Record{Value: value, Time: 5})
	if r != nil || wait != nil || ev.Label != 4 || ev.Time != 77 || fmt.Sprint(ev.Categorical) != "[other none]" ||
		ev.Numeric[0] != 2.5 || fmt.Sprint(ev.Multi) != "[[x y]]" {
		t.Errorf("%v, %v, %+v", r, wait, ev)
	}
}

// TestTypes: what each type is as a name, as a number and as a time. Types that cannot be one are said before.
func TestTypes(t *testing.T) {
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	for schema, c := range map[string]struct {
		value            any
		name, number, at string // or the reason why it is none
	}{
		`"string"`:                             {"4", "4", "wrong_type", "time_invalid"},
		`"int"`:                                {int32(-4), "-4", "-4", "time_invalid"},
		`"long"`:                               {int64(1 << 60), "1152921504606846976", "number_range", "time_invalid"},
		`"double"`:                             {4.0, "wrong_type", "4", "4"},
		`"float"`:                              {float32(0.5), "wrong_type", "0.5", "1"},
		`"boolean"`:                            {true, "wrong_type", "wrong_type", "wrong_type"},
		`"bytes"`:                              {[]byte("ab"), "YWI=", "wrong_type", "time_invalid"},
		`{"type":"fixed","name":"F","size":2}`: {[]byte("ab"), "YWI=", "wrong_type", "time_invalid"},
		`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`:            {big.NewRat(-1, 20), "-0.05", "-0.05", "time_invalid"},
		`{"type":"int","logicalType":"date"}`:                                         {day, "19782", "19782", "1709164800000"},
		`{"type":"long","logicalType":"timestamp-millis"}`:                            {day, "1709164800000", "1709164800000", "1709164800000"},
		`{"type":"long","logicalType":"timestamp-micros"}`:                            {day, "1709164800000000", "number_range", "1709164800000"},
		`{"type":"long","logicalType":"local-timestamp-nanos"}`:                       {day, "1709164800000000000", "number_range", "1709164800000"},
		`{"type":"string","logicalType":"uuid"}`:                                      {"0f", "0f", "wrong_type", "time_invalid"},
		`{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`:                  {[16]byte{15, 1}, "0f010000-0000-0000-0000-000000000000", "wrong_type", "time_invalid"},
		`{"type":"array","items":"string"}`:                                           {[]any{"a"}, "wrong_type", "wrong_type", "wrong_type"},
		`{"type":"map","values":"string"}`:                                            {map[string]any{"a": "b"}, "wrong_type", "wrong_type", "wrong_type"},
		`["null","string"]`:                                                           {nil, "missing_field", "missing_field", "missing_field"},
		`{"type":"long","connect.name":"io.debezium.time.NanoTimestamp"}`:             {day.UnixNano(), "1709164800000000000", "number_range", "1709164800000"},
		`{"type":"int","connect.version":1,"connect.name":"io.debezium.time.Date"}`:   {int32(19782), "19782", "19782", "1709164800000"},
		`{"type":"string","connect.name":"io.debezium.time.ZonedTimestamp"}`:          {"2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "wrong_type", "1709164800000"},
		`{"type":"long","connect.name":"org.apache.kafka.connect.data.Timestamp"}`:    {day.UnixMilli(), "1709164800000", "1709164800000", "1709164800000"},
		`{"type":"fixed","name":"D","size":12,"logicalType":"duration"}`:              {[]byte("abcdefghijkl"), "YWJjZGVmZ2hpamts", "wrong_type", "time_invalid"},
		`{"type":"bytes","logicalType":"decimal","precision":60,"scale":0,"doc":"x"}`: {new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 190)), "1569275433846670190958947355801916604025588861116008628224", "number_range", "time_invalid"},
		`{"type":"double","doc":"NaN"}`:                                               {math.NaN(), "wrong_type", "not_finite", "time_invalid"},
	} {
		text := `{"type":"record","name":"R","fields":[{"name":"x","type":` + schema + `}]}`
		value := confluent(encoded(t, text, map[string]any{"x": c.value}))
		for i, s := range []event.Schema{
			{Task: event.Regression, Label: "x", Categorical: []string{"x"}},
			{Task: event.Regression, Numeric: []string{"x"}},
			{Task: event.Regression, Time: "x", TimeUnit: "ms"},
		} {
			if i == 0 {
				s.Label = ""
			}
			d := event.NewMapped(s, event.DefaultLimits(), new(event.Mapping), nil)
			lost := 0
			d.Read(event.Reading{Format: event.FormatAvro, Writers: known{seven: written(text)},
				Compilers: map[string]event.Compiler{event.FormatAvro: Compile},
				Outliners: map[string]event.Outliner{event.FormatAvro: Outline},
				Lost:      func(framing.ID, string) { lost++ }})
			var ev event.Event
			r, wait := d.DecodeRecord(&ev, &event.Record{Value: value, Time: 5_000_000_000_000})
			if lost > 1 || r == nil && lost > 0 || reason(r) == "wrong_type" && lost == 0 {
				t.Errorf("%s as %d: said %d times to be lost, %v", schema, i, lost, r)
			}
			got := ""
			switch {
			case r != nil || wait != nil:
				got = reason(r)
			case i == 0:
				got = ev.Categorical[0]
			case i == 1:
				got = fmt.Sprint(ev.Numeric[0])
				if strings.Contains(got, "e+") {
					got = fmt.Sprintf("%.0f", ev.Numeric[0])
				}
			default:
				got = fmt.Sprint(ev.Time)
			}
			if want := []string{c.name, c.number, c.at}[i]; got != want {
				t.Errorf("%s as %s: %s, want %s", schema, []string{"a name", "a number", "a time"}[i], got, want)
			}
		}
	}
}

// TestKeys: a key has a schema that differs from that of its value, and waits for it; bytes that do not fit it have no
// members.
func TestKeys(t *testing.T) {
	const value = `{"type":"record","name":"R","fields":[{"name":"rating","type":"int"},{"name":"ts","type":"long"},
		{"name":"item","type":"string"}]}`
	const key = `{"type":"record","name":"K","fields":[{"name":"id","type":"long"}]}`
	eight := framing.ID{Kind: framing.NumberID, Number: 8}
	row := map[string]any{"rating": int32(4), "ts": int64(7), "item": "i"}
	record := event.Record{Value: confluent(encoded(t, value, row)),
		Key: append([]byte{0, 0, 0, 0, 8}, encoded(t, key, map[string]any{"id": int64(77)})...), Time: 5}
	schemas := known{seven: written(value)}
	d := event.NewMapped(ratings, event.DefaultLimits(), place(t, "user=key:id"), nil)
	d.Read(event.Reading{Format: event.FormatAuto, Key: event.FormatAvro, Writers: schemas,
		Compilers: map[string]event.Compiler{event.FormatAvro: Compile}})
	var ev event.Event
	if r, wait := d.DecodeRecord(&ev, &record); wait == nil || wait.ID != eight {
		t.Errorf("%v, %v", r, wait)
	}
	schemas[eight] = written(key)
	if r, wait := d.DecodeRecord(&ev, &record); r != nil || wait != nil || ev.Categorical[0] != "77" {
		t.Errorf("%v, %v, %+v", r, wait, ev)
	}
	cut := record
	cut.Key = record.Key[:6]
	if r, wait := d.DecodeRecord(&ev, &cut); reason(r) != "missing_field" || wait != nil {
		t.Errorf("a key cut off: %v, %v", r, wait)
	}
	plain := record
	plain.Value = []byte(`{"rating":5,"ts":7,"item":"i"}`) // auto: JSON where there is no frame
	if r, wait := d.DecodeRecord(&ev, &plain); r != nil || wait != nil || ev.Label != 5 || ev.Categorical[0] != "77" {
		t.Errorf("JSON: %v, %v, %+v", r, wait, ev)
	}
}

// TestSchemaFile: without a registry one schema reads values in every frame, and without one.
func TestSchemaFile(t *testing.T) {
	const text = `{"type":"record","name":"R","fields":[{"name":"user","type":["null","string"]},{"name":"item","type":"string"},
		{"name":"rating","type":"int"},{"name":"ts","type":"long"}]}`
	data := encoded(t, text, map[string]any{"user": nil, "item": "", "rating": int32(4), "ts": int64(7)})
	full := encoded(t, text, map[string]any{"user": "u", "item": "i", "rating": int32(4), "ts": int64(7)})
	for name, c := range map[string]struct {
		value []byte
		want  string
	}{
		"no frame":                  {full, ""},
		"Confluent":                 {confluent(full), ""},
		"Apicurio":                  {append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 9}, full...), ""},
		"Glue":                      {append(append([]byte{3, 0}, make([]byte, 16)...), full...), ""},
		"no frame, with two zeroes": {data, "id_empty"},
		"too short":                 {full[:3], "not_avro"},
		"JSON":                      {[]byte(`{"user":"u"}`), "not_avro"},
	} {
		var ev event.Event
		r, wait := decoderOf(place(t), nil, written(text)).DecodeRecord(&ev, &event.Record{Value: c.value, Time: 5})
		if wait != nil || reason(r) != c.want || c.want == "" && ev.Categorical[0] != "u" {
			t.Errorf("%s: %v, %v, %+v", name, r, wait, ev)
		}
	}
	d := event.NewMapped(ratings, event.DefaultLimits(), place(t), nil)
	d.Read(event.Reading{Format: event.FormatJSONSchema})
	var ev event.Event
	value := confluent([]byte(`{"user":"u","item":"i","rating":4,"ts":7}`))
	if r, wait := d.DecodeRecord(&ev, &event.Record{Value: value, Time: 5}); r != nil || wait != nil || ev.Label != 4 {
		t.Errorf("a JSON Schema: %v, %v", r, wait)
	}
}

// TestReferences: types of other schemas are found by their names, and a type may contain itself.
func TestReferences(t *testing.T) {
	const item = `{"type":"record","name":"Item","namespace":"shop","fields":[{"name":"item","type":"string"},
		{"name":"like","type":["null","Item"]}]}`
	const text = `{"type":"record","name":"R","namespace":"shop","fields":[{"name":"rating","type":"int"},{"name":"ts","type":"long"},
		{"name":"user","type":"string"},{"name":"what","type":"shop.Item"}]}`
	like := map[string]any{"item": "i", "like": map[string]any{"item": "j", "like": nil}}
	row := map[string]any{"rating": int32(4), "ts": int64(7), "user": "u", "what": like}
	value := confluent(encoded(t, text, row, item))
	w := written(text)
	w.References = []event.Reference{{Name: "shop.Item", Text: item}}
	var ev event.Event
	r, wait := decoderOf(place(t, "item=what.like.item"), known{seven: w}, nil).
		DecodeRecord(&ev, &event.Record{Value: value, Time: 5})
	if r != nil || wait != nil || ev.Categorical[1] != "j" {
		t.Errorf("%v, %v, %+v", r, wait, ev)
	}
	if _, wait = decoderOf(place(t), known{seven: written(text)}, nil).
		DecodeRecord(&ev, &event.Record{Value: value, Time: 5}); wait == nil || wait.Why == "" {
		t.Error("a schema without what it refers to is used")
	}
	if _, wait = decoderOf(place(t), known{}, nil).
		DecodeRecord(&ev, &event.Record{Value: value, Time: 5}); wait == nil || wait.ID != seven {
		t.Error("a record does not wait for its schema")
	}
	for n := range 20 { // frames that nobody writes, and what is no frame
		value := bytes.Repeat([]byte{0}, n+1)
		r, wait := decoderOf(place(t), known{}, nil).DecodeRecord(&ev, &event.Record{Value: value, Time: 5})
		if wait != nil || reason(r) != "not_avro" {
			t.Errorf("%d zeroes: %v, %v", n+1, r, wait)
		}
	}
}

// TestNothingButBytes: a value that says that it is longer than it is, or has ever more, is rejected at once.
func TestNothingButBytes(t *testing.T) {
	const text = `{"type":"record","name":"R","fields":[{"name":"x","type":{"type":"array","items":"null"}},
		{"name":"y","type":{"type":"record","name":"Y","fields":[{"name":"y","type":["null","Y"]}]}}]}`
	for name, value := range map[string][]byte{
		"a list without end":    append(confluent(nil), 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0),
		"the least of a number": append(confluent(nil), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0),
		"records in records":    append(confluent([]byte{0}), []byte(strings.Repeat("\x02", 10_000))...),
		"no number":             append(confluent(nil), []byte(strings.Repeat("\xff", 20))...),
	} {
		r, _ := decoderOf(place(t), known{seven: written(text)}, nil).
			DecodeRecord(new(event.Event), &event.Record{Value: value, Time: 5})
		if reason(r) != "not_avro" || !strings.Contains(r.Expected, "schema 7, field ") {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// TestCloudEvents: an event in Avro, with the attributes in the value or in headers, is what the same in JSON is; so
// are conditions, constants and headers.
func TestCloudEvents(t *testing.T) {
	const data = `{"type":"record","name":"D","fields":[{"name":"rating","type":"int"},
		{"name":"who","type":{"type":"record","name":"W","fields":[{"name":"user","type":"long"}]}},
		{"name":"kind","type":{"type":"enum","name":"K","symbols":["seen","rated"]}}]}`
	structured := `{"type":"record","name":"E","fields":[{"name":"specversion","type":"string"},{"name":"type","type":"string"},
		{"name":"time","type":"string"},{"name":"data","type":` + data + `}]}`
	m := place(t, "ts=attribute:time", "user=who.user", "price=header:price")
	m.Envelope = event.CloudEvents
	m.Fields = append(m.Fields, event.MappedField{Name: "item", Constant: "i"})
	for _, text := range []string{`attribute:type in ["rated", "seen"]`, `kind == "rated"`, `rating > 1`} {
		c, err := event.ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		m.When = append(m.When, c)
	}
	plain := event.NewMapped(ratings, event.DefaultLimits(), m, nil)
	price := framing.Header{Name: "price", Value: []byte("2.5")}
	attributes := framing.AppendHeaders(nil, price, framing.Header{Name: "ce_specversion", Value: []byte("1.0")},
		framing.Header{Name: "ce_type", Value: []byte("rated")},
		framing.Header{Name: "ce_time", Value: []byte("2024-02-29T00:00:00Z")})
	for rating, want := range map[int32]string{4: "", 1: "filtered"} {
		body := map[string]any{"rating": rating, "who": map[string]any{"user": int64(1<<53 + 1)}, "kind": "rated"}
		whole := map[string]any{"specversion": "1.0", "type": "rated", "time": "2024-02-29T00:00:00Z", "data": body}
		for name, c := range map[string]struct {
			schema  string
			value   any
			headers []byte
		}{
			"in the value": {structured, whole, framing.AppendHeaders(nil, price)}, "in headers": {data, body, attributes},
		} {
			text, err := json.Marshal(c.value)
			if err != nil {
				t.Fatal(err)
			}
			var got, like event.Event
			r, wait := decoderOf(m, known{seven: written(c.schema)}, nil).
				DecodeRecord(&got, &event.Record{Value: confluent(encoded(t, c.schema, c.value)), Headers: c.headers, Time: 2e12})
			other, _ := plain.DecodeRecord(&like, &event.Record{Value: text, Headers: c.headers, Time: 2e12})
			if wait != nil || reason(r) != want || reason(other) != want {
				t.Errorf("%s, %d: %v, %v, JSON %v", name, rating, r, wait, other)
			}
			if want == "" && (fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", like) || got.Time != 1_709_164_800_000 ||
				got.Categorical[0] != "9007199254740993" || got.Numeric[0] != 2.5) {
				t.Errorf("%s: %+v, JSON %+v", name, got, like)
			}
		}
	}
}

// TestKindsOfRecords: of a topic with records of several kinds, the schemas of those that conditions leave out lose
// nothing of the model; one without what a condition asks for may lose it.
func TestKindsOfRecords(t *testing.T) {
	const sale = `{"type":"record","name":"Sale","fields":[{"name":"kind","type":"string"},{"name":"user","type":"string"},
		{"name":"item","type":"string"},{"name":"rating","type":"int"},{"name":"ts","type":"long"}]}`
	const visit = `{"type":"record","name":"Visit","fields":[{"name":"kind","type":"string"},{"name":"page","type":"string"}]}`
	const renamed = `{"type":"record","name":"Sale","fields":[{"name":"sort","type":"string"}]}`
	m := new(event.Mapping)
	c, err := event.ParseCondition(`kind == "sale"`)
	if err != nil {
		t.Fatal(err)
	}
	m.When = []event.Condition{c}
	lost := make(map[uint64][]string)
	schemas := known{{Kind: framing.NumberID, Number: 1}: written(sale),
		{Kind: framing.NumberID, Number: 2}: written(visit),
		{Kind: framing.NumberID, Number: 3}: written(renamed)}
	d := event.NewMapped(ratings, event.DefaultLimits(), m, nil)
	d.Read(event.Reading{Format: event.FormatAvro, Writers: schemas,
		Compilers: map[string]event.Compiler{event.FormatAvro: Compile},
		Lost:      func(id framing.ID, field string) { lost[id.Number] = append(lost[id.Number], field) }})
	frame := func(id byte, text string, value map[string]any) []byte {
		return append([]byte{0, 0, 0, 0, id}, encoded(t, text, value)...)
	}
	visited := frame(2, visit, map[string]any{"kind": "visit", "page": "p"})
	for _, one := range []struct {
		value []byte
		want  string
		lost  int
	}{
		{visited, "filtered", 0},
		{frame(1, sale, map[string]any{"kind": "sale", "user": "u", "item": "i", "rating": 4, "ts": 5}), "", 2}, // optional
		{frame(3, renamed, map[string]any{"sort": "sale"}), "filtered", 6},
		{frame(2, visit, map[string]any{"kind": "sale", "page": "p"}), "missing_field", 6},
	} {
		var ev event.Event
		r, wait := d.DecodeRecord(&ev, &event.Record{Value: one.value, Time: 5})
		if wait != nil || reason(r) != one.want || len(lost[uint64(one.value[4])]) != one.lost {
			t.Errorf("%q: %v, %v, lost %v", one.value, r, wait, lost)
		}
	}
}

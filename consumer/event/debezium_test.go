package event

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDecimalText: every unscaled number comes back, with its point where the scale says.
func TestDecimalText(t *testing.T) {
	for _, c := range []struct {
		encoded string
		scale   int
		want    string // empty for none
	}{
		{"AcI=", 2, "4.50"}, {"AcI=", 0, "450"}, {"AcI=", -2, "45000"}, {"AcI=", 5, "0.00450"}, {"/j4=", 2, "-4.50"}, {"AA==",
			2, "0.00"},
		{"AA==", -100, "0"}, {"gA==", 1, "-12.8"}, {"", 2, ""}, {"AcI", 2, ""}, {"4.50", 2, ""}, {"AcI=", MaxDecimalScale + 1,
			""},
		{base64.StdEncoding.EncodeToString(make([]byte, maxUnscaledBytes+1)), 2, ""},
	} {
		if got, ok := decimalText(nil, []byte(c.encoded), c.scale); ok != (c.want != "") ||
			ok && string(got) != c.want {
			t.Errorf("%q with scale %d: %q %t, want %q", c.encoded, c.scale, got, ok, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		b := make([]byte, 1+rng.IntN(maxUnscaledBytes))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		scale := rng.IntN(40)
		text, ok := decimalText(nil, []byte(base64.StdEncoding.EncodeToString(b)), scale)
		got, parsed := new(big.Rat).SetString(string(text))
		want := new(big.Int).SetBytes(b)
		if b[0] >= 0x80 {
			want.Sub(want, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		if !ok || !parsed ||
			got.Cmp(new(big.Rat).SetFrac(want, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))) != 0 {
			t.Fatalf("%x with scale %d: %q", b, scale, text)
		}
	}
}

// TestDebeziumValues: values that JSON has no type for are read as what they mean, in fields and conditions alike.
func TestDebeziumValues(t *testing.T) {
	const decimal = `"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"`
	const decimalSchema = `{"type":"struct","fields":[{"field":"before"},{"type":"struct","field":"after","fields":[` +
		`{"type":"int32","field":"user"},{` + decimal + `,"field":"rating","parameters":{"scale":"2"}},` +
		`{` + decimal + `,"field":"item","parameters":{"scale":"0"}}]}]}`
	wrapped := func(schema, after string) Record {
		return Record{
			Value: fmt.Appendf(nil, `{"schema":%s,"payload":{"op":"c","before":null,"after":%s,"source":{"at":7}}}`,
				schema, after),
		}
	}
	plain := func(after string) Record {
		return Record{Value: fmt.Appendf(nil, `{"op":"c","after":%s,"source":{"at":7}}`, after)}
	}
	quoted := func(after string) string { return `"` + strings.ReplaceAll(after, `"`, `\"`) + `"` }
	m := mappingOf(t, Debezium, []string{"after.rating >= 1"}, "ts=source.at")
	scaled := mappingOf(t, Debezium, []string{"after.rating >= 4.2", "after.rating < 4.6"}, "ts=source.at",
		"rating=decimal:after.rating")
	mongo := mappingOf(t, Debezium, []string{`after.kind == "rated"`, "after.rating > 3"}, "ts=after.at",
		"user=after._id")
	const row = `{"_id":{"$oid":"5f"},"kind":"rated","rating":{"$numberInt":"4"},"item":{"$numberLong":"12"},"at":{"$date":7000},` +
		`"price":{"$numberDouble":"2.5"}}`
	for name, c := range map[string]struct {
		mapping *Mapping
		record  Record
		flat    string
		want    string // of the rejection
	}{
		"a DECIMAL with its schema": {m, wrapped(decimalSchema, `{"user":1,"item":"AcI=","rating":"AcI="}`),
			`{"rating":4.50,"ts":7,"user":1,"item":"450"}`, ""},
		"another schema": {m, wrapped(strings.Replace(decimalSchema, `"2"`, `"1"`, 1),
			`{"user":1,"item":"AcI=","rating":"AcI="}`),
			`{"rating":45.0,"ts":7,"user":1,"item":"450"}`, ""},
		"a DECIMAL that is null": {m, wrapped(decimalSchema, `{"user":1,"item":"AcI=","rating":null}`), "", "filtered"},
		"a DECIMAL by the mapping": {scaled, plain(`{"user":1,"item":"i","rating":"AcI="}`),
			`{"rating":4.50,"ts":7,"user":1,"item":"i"}`, ""},
		"a DECIMAL out of a condition": {scaled, plain(`{"user":1,"item":"i","rating":"AfQ="}`), "", "filtered"},
		"a DECIMAL that is a number": {scaled, plain(`{"user":1,"item":"i","rating":4.5}`),
			`{"rating":4.5,"ts":7,"user":1,"item":"i"}`, ""},
		"a DECIMAL without scale": {mappingOf(t, Debezium, nil, "ts=source.at"), plain(
			`{"user":1,"item":"i","rating":"AcI="}`), "",
			`wrong_type: field "rating": expected a number from -1e+09 to 1e+09; a DECIMAL in base64 needs its scale: ` +
				`input.mapping.fields: [{name: rating, path: after.rating, as: decimal:2}]`},
		"a NUMERIC": {m, plain(`{"user":1,"item":"i","rating":{"scale":1,"value":"LQ=="}}`),
			`{"rating":4.5,"ts":7,"user":1,"item":"i"}`, ""},
		"another object": {mappingOf(t, Debezium, nil, "ts=source.at"), plain(
			`{"user":1,"item":"i","rating":{"value":"LQ=="}}`), "",
			`wrong_type: field "rating"`},
		"a row of MongoDB": {mongo, plain(quoted(row)), `{"rating":4,"ts":7,"user":"5f","item":"12","price":2.5}`, ""},
		"in its schema": {mongo, wrapped(`{"fields":[{"field":"after","type":"string","name":"io.debezium.data.Json"}]}`,
			quoted(row)),
			`{"rating":4,"ts":7,"user":"5f","item":"12","price":2.5}`, ""},
		"plain JSON in MongoDB": {mongo, plain(quoted(
			`{"_id":1004,"kind":"rated","rating":4.5,"item":"i","at":{"$date":{"$numberLong":"9000"}}}`)),
			`{"rating":4.5,"ts":9,"user":1004,"item":"i"}`, ""},
		"a date in words": {mongo, plain(quoted(strings.Replace(row, "7000", `"1970-01-01T00:00:07Z"`, 1))),
			`{"rating":4,"ts":"1970-01-01T00:00:07Z","user":"5f","item":"12","price":2.5}`, ""},
		"another row":         {mongo, plain(quoted(strings.Replace(row, "rated", "seen", 1))), "", "filtered"},
		"a row cut off":       {mongo, plain(quoted(row[:40])), "", "not_json"},
		"a name twice in it":  {mongo, plain(quoted(`{"kind":1,"kind":1}`)), "", "duplicate_key"},
		"text that is no row": {m, plain(`"gone"`), "", "filtered"},
		"a tombstone":         {m, Record{Value: []byte(` {"schema": null, "payload": null}`)}, "", "removal_request"},
		"one with a schema": {m, Record{Value: []byte(`{"schema":` + decimalSchema + `,"payload":null}`)}, "",
			"removal_request"},
		"nothing of that": {m, Record{Value: []byte(`{"schema":null}`)}, "", `missing_field: field "op"`},
	} {
		d := NewMapped(mappedSchema, DefaultLimits(), c.mapping, nil)
		for range 2 { // as after another record
			r, _ := d.DecodeRecord(new(Event), &c.record)
			if c.want != "" {
				if r == nil || !strings.HasPrefix(r.String(), c.want) {
					t.Errorf("%s: %v, want %s", name, r, c.want)
				}
				continue
			}
			if flat, _, _ := d.Show(&c.record); r != nil || string(flat) != c.flat {
				t.Errorf("%s: %s, %v, want %s", name, flat, r, c.flat)
			}
			_, _ = d.DecodeRecord(new(Event), &Record{Value: []byte(`{"op":"c","after":{"rating":{"$numberInt":"1"}}}`)})
		}
	}
}

// TestConnectNull: what Kafka Connect's JSON converter writes for null is null without a mapping, too.
func TestConnectNull(t *testing.T) {
	for value, want := range map[string]Reason{
		`{"schema":null,"payload":null}`: NullValue, `{ "payload": null, "schema": null }`: NullValue,
		`{"schema":null,"payload":{}}`:            MissingField,
		`{"schema":null,"payload":null,"more":1}`: MissingField,
	} {
		if r := NewJSON(ratings, DefaultLimits()).Decode(new(Event), []byte(value), now); reason(r) != want {
			t.Errorf("%s: %v, want %s", value, r, want)
		}
	}
}

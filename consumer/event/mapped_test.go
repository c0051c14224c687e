package event

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var mappedSchema = Schema{
	Task:        Regression,
	Label:       "rating",
	Time:        "ts",
	TimeUnit:    "s",
	Categorical: []string{"user", "item"},
	Numeric:     []string{"price"},
	Multi:       []string{"tags"},
	Optional:    []string{"price", "tags"},
}

// mappingOf makes a mapping of conditions and of fields written name=path, name=number:path or name='constant.
func mappingOf(t testing.TB, envelope Envelope, when []string, fields ...string) *Mapping {
	t.Helper()
	m := &Mapping{Envelope: envelope}
	for _, text := range when {
		c, err := ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		m.When = append(m.When, c)
	}
	for _, text := range fields {
		f := MappedField{}
		var path string
		f.Name, path, _ = strings.Cut(text, "=")
		if constant, ok := strings.CutPrefix(path, "'"); ok {
			f.Constant = constant
		} else {
			path, f.AsNumber = strings.CutPrefix(path, "number:")
			if path, f.IsDecimal = strings.CutPrefix(path, "decimal:"); f.IsDecimal {
				f.Scale = 2
			}
			var err error
			if f.From, err = ParseSource(path); err != nil {
				t.Fatal(err)
			}
		}
		m.Fields = append(m.Fields, f)
	}
	return m
}

// headersOf writes names and values as a record has them.
func headersOf(pairs ...string) []byte {
	b := binary.AppendVarint(nil, int64(len(pairs)/2))
	for _, text := range pairs {
		b = append(binary.AppendVarint(b, int64(len(text))), text...)
	}
	return b
}

// TestMapped: records of the usual kinds become the events that they are, or are refused with what is wrong.
func TestMapped(t *testing.T) {
	debezium := mappingOf(t, Debezium, []string{`source.table == "ratings"`, `after != null`, `after.stars > "0"`},
		"rating=number:after.stars", "user=key:id", "ts=source.at")
	cloud := mappingOf(t, CloudEvents, []string{`attribute:type in ["rated", "rated.again"]`}, "ts=attribute:time",
		"user=attribute:subject")
	nested := mappingOf(t, NoEnvelope, []string{"kind != 7", `header:tenant != "test"`}, "rating=payload.after.rating",
		`item="a.b".c`, "user=record:key", "ts=record:timestamp", "price=header:price", "tags=payload.tags")
	// The place of a condition is read as the field of the same place is.
	bounded := mappingOf(t, Debezium, []string{"after.stars >= 0.5"}, "rating=number:after.stars", "user=key:id",
		"ts='3")
	numbers := mappingOf(t, NoEnvelope, nil, "rating=number:r", "user=number:n", "ts='3", "price=number:p", "item='i")
	textual := mappingOf(t, Debezium, []string{"after.stars >= 0.5"}, "rating=after.stars", "user=key:id", "ts='3")
	fixed := mappingOf(t, NoEnvelope, nil, "item='i1", "price='2.5")
	const change = `{"op":"%s","before":null,"after":{"stars":"4.5","item":"i1","price":2},"source":{"table":"%s","at":100}}`
	const want = `{"rating":4.5,"ts":100,"user":"u1","item":"i1","price":2}`
	key := []byte(`{"id":"u1"}`)
	structured := `{"specversion":"1.0","type":"rated","source":"/s","id":"1","time":"1970-01-01T00:01:40Z","subject":"u1","data":{"rating":4.5,"item":"i1"}}`
	const cloudWant = `{"rating":4.5,"ts":"1970-01-01T00:01:40Z","user":"u1","item":"i1"}`
	binary := headersOf("ce_specversion", "1.0", "ce_type", "rated", "ce_time", "1970-01-01T00:01:40Z", "ce_subject",
		"u1")
	deepDown := []byte(`{"a.b":{"c":17,"d":[{}]},"payload":{"after":{"rating":4,"more":{"x":[1]}},"tags":["a","b"]}}`)
	price := headersOf("price", "1", "price", "2.5", "other", "x")
	for name, c := range map[string]struct {
		mapping *Mapping
		record  Record
		flat    string
		want    string // of the rejection
	}{
		"debezium": {debezium, Record{Value: fmt.Appendf(nil, change, "u", "ratings"), Key: key}, want, ""},
		"debezium, wrapped": {debezium, Record{Value: fmt.Appendf(nil, `{"schema":{"op":[]},"payload":`+change+`}`, "r",
			"ratings"), Key: key}, want, ""},
		"another table": {debezium, Record{Value: fmt.Appendf(nil, change, "c", "users"), Key: key}, "", "filtered"},
		"a delete": {debezium, Record{Value: fmt.Appendf(nil, change, "d", "ratings"), Key: key}, "",
			"removal_request"},
		"another's delete": {debezium, Record{Value: fmt.Appendf(nil, change, "d", "users"), Key: key}, "", "filtered"},
		"a tombstone":      {debezium, Record{Key: key}, "", "removal_request"},
		"a truncation":     {debezium, Record{Value: []byte(`{"op":"t"}`)}, "", "filtered"},
		"no envelope": {debezium, Record{Value: []byte(`{"rating":4}`)}, "",
			`missing_field: field "op": expected a Debezium envelope`},
		"a key that is none": {debezium, Record{Value: fmt.Appendf(nil, change, "u", "ratings"), Key: []byte("u1")}, "",
			`missing_field: field "user"`},
		"text as a number": {bounded, Record{Value: fmt.Appendf(nil, change, "c", "x"), Key: key},
			`{"rating":4.5,"ts":3,"user":"u1","item":"i1","price":2}`, ""},
		"true as a number": {numbers, Record{Value: []byte(`{"n":true,"r":"4"}`)}, `{"rating":4,"ts":3,"user":1,"item":"i"}`,
			""},
		"false as a number": {numbers, Record{Value: []byte(`{"n":false,"r":4,"p":2.5}`)},
			`{"rating":4,"ts":3,"user":0,"item":"i","price":2.5}`, ""},
		"no number in text": {numbers, Record{Value: []byte(`{"n":"7","r":"4","p":""}`)},
			`{"rating":4,"ts":3,"user":7,"item":"i"}`, ""},
		"NaN in text": {numbers, Record{Value: []byte(`{"n":"7","r":"4","p":"nan"}`)},
			`{"rating":4,"ts":3,"user":7,"item":"i"}`, ""},
		"NaN, not optional": {numbers, Record{Value: []byte(`{"n":"7","r":"NaN"}`)}, "", `missing_field: field "rating"`},
		"too small a text": {bounded, Record{Value: []byte(`{"op":"c","after":{"stars":"0.25"}}`)}, "",
			"filtered: expected input.mapping.when: after.stars >= 0.5, got another string"},
		"text that is no number": {bounded, Record{Value: []byte(`{"op":"c","after":{"stars":"x"}}`)}, "", "filtered"},
		"nothing to compare": {bounded, Record{Value: []byte(`{"op":"c","after":{}}`)}, "",
			"filtered: expected input.mapping.when: after.stars >= 0.5, got nothing"},
		"text where no number is read": {textual, Record{Value: fmt.Appendf(nil, change, "c", "x"), Key: key}, "",
			"filtered: expected input.mapping.when: after.stars >= 0.5, got another string"},
		"binary":        {cloud, Record{Value: []byte(`{"rating":4.5,"item":"i1"}`), Headers: binary}, cloudWant, ""},
		"structured":    {cloud, Record{Value: []byte(structured)}, cloudWant, ""},
		"another type":  {cloud, Record{Value: []byte(strings.Replace(structured, "rated", "seen", 1))}, "", "filtered"},
		"no CloudEvent": {cloud, Record{Value: []byte(`{"rating":4.5}`)}, "", `missing_field: field "specversion"`},
		"nested": {nested, Record{Value: deepDown, Key: []byte("u\"1"), Time: 100_900, Headers: price},
			`{"rating":4,"ts":100,"user":"u\"1","item":17,"price":2.5,"tags":["a","b"]}`, ""},
		"a tenant": {nested, Record{Value: []byte(`{}`), Headers: headersOf("tenant", "test")}, "", "filtered"},
		"a kind":   {nested, Record{Value: []byte(`{"kind":7.0}`)}, "", "filtered"},
		"an object": {nested, Record{Value: []byte(`{"payload":{"after":{"rating":{"x":1}}}}`), Key: []byte("u")}, "",
			`wrong_type: field "rating": expected a number from -1e+09 to 1e+09, got an object`},
		"null on the way": {nested, Record{Value: []byte(`{"payload":null}`), Key: []byte("u")}, "",
			`missing_field: field "rating"`},
		"text in the way": {nested, Record{Value: []byte(`{"payload":"x"}`), Key: []byte("u")}, "",
			`missing_field: field "rating"`},
		"no key": {nested, Record{Value: []byte(`{"a.b":{"c":1},"payload":{"after":{"rating":4}}}`)}, "",
			`missing_field: field "user"`},
		"text for a number": {nested, Record{Value: []byte(`{"a.b":{"c":1},"payload":{"after":{"rating":4}}}`), Key: []byte(
			"u"),
			Headers: headersOf("price", "x")}, "", `wrong_type: field "price"`},
		"a name twice":     {nested, Record{Value: []byte(`{"x":{"y":1,"y":2}}`)}, "", "duplicate_key"},
		"behind the value": {nested, Record{Value: []byte(`{}{}`)}, "", "trailing_data"},
		"deep": {nested, Record{Value: []byte(strings.Repeat(`{"payload":`, 40) + "1" + strings.Repeat("}", 40))},
			"", "too_deep"},
		"no object": {nested, Record{Value: []byte(`[]`)}, "", "not_object"},
		"a null":    {nested, Record{}, "", "null_value"},
		"constants": {fixed, Record{Value: []byte(`{"rating":1,"user":"u","ts":9,"item":"other"}`)},
			`{"rating":1,"ts":9,"user":"u","item":"i1","price":2.5}`, ""},
		"other bytes in keys": {nested, Record{Value: []byte(`{}`), Key: []byte("\xff")}, "", "not_utf8"},
	} {
		d := NewMapped(mappedSchema, DefaultLimits(), c.mapping, nil)
		for range 2 { // as after another record
			var got, plain Event
			r, _ := d.DecodeRecord(&got, &c.record)
			if c.want != "" {
				if r == nil || !strings.HasPrefix(r.String(), c.want) {
					t.Errorf("%s: %v, want %s", name, r, c.want)
				}
				if r != nil && !slices.Contains(append(c.mapping.Causes(), mappedSchema.Causes()...), r.Cause()) {
					t.Errorf("%s: %v is no cause", name, r)
				}
				continue
			}
			flat, _, _ := d.Show(&c.record)
			if string(flat) != c.flat || r != nil {
				t.Errorf("%s: %s, %v, want %s", name, flat, r, c.flat)
			}
			if r := NewJSON(mappedSchema, DefaultLimits()).Decode(&plain, []byte(c.flat), c.record.Time); r != nil ||
				fmt.Sprint(plain) != fmt.Sprint(got) {
				t.Errorf("%s: %+v, the same event as it is: %+v, %v", name, got, plain, r)
			}
		}
	}
}

// TestMissing counts events that have nothing where a mapping says that a field is, and no record that is none.
func TestMissing(t *testing.T) {
	m := mappingOf(t, NoEnvelope, []string{"x == null"}, "rating=r", "price=header:p", "item='i")
	missing := NewMissing(m)
	a, b := NewMapped(mappedSchema, DefaultLimits(), m, missing), NewMapped(mappedSchema, DefaultLimits(), m, missing)
	for range 3 {
		a.Decode(new(Event), []byte(`{"r":1,"user":"u","ts":1}`), -1)
		b.Decode(new(Event), []byte(`{"user":"u","ts":1}`), -1)
		b.Decode(new(Event), []byte(`{"x":1}`), -1)
	}
	if !reflect.DeepEqual(missing.Fields, []string{"rating", "price"}) || missing.Events.Load() != 6 ||
		missing.Count(0) != 3 ||
		missing.Count(1) != 6 {
		t.Errorf("%v of %d events: %d, %d", missing.Fields, missing.Events.Load(), missing.Count(0), missing.Count(1))
	}
}

// TestConditions: what holds for which value.
func TestConditions(t *testing.T) {
	for text, values := range map[string][2][]string{ // those for which it holds, and those for which not
		`x == "a"`:           {{`"a"`, `"\u0061"`}, {`"b"`, `1`, `null`, ``, `true`, `["a"]`}},
		`x != "a"`:           {{`"b"`, `1`, `null`, ``}, {`"a"`}},
		`x.y == null`:        {{``, `{"y":null}`, `{}`, `1`}, {`{"y":1}`}},
		`x!=null`:            {{`0`, `""`, `{}`}, {``, `null`}},
		`x >= 1.5`:           {{`1.5`, `2e3`}, {`1`, `"2"`, ``}},
		`x < 2`:              {{`-1`}, {`2`, `null`, `"a"`}},
		`x < "b"`:            {{`"a"`}, {`"b"`, `1`}},
		`x == true`:          {{`true`}, {`false`, `"true"`, `1`}},
		`x in ["a", 1,null]`: {{`"a"`, `1.0`, `null`, ``}, {`"1"`, `2`}},
		`key:k > 3`:          {{`1`}, {}},
		`record:key == "k"`:  {{}, {`1`}},
		`header:h <= 10`:     {{`1`}, {}},
		`"x" == 1`:           {{`1`}, {`2`}},
	} {
		m := mappingOf(t, NoEnvelope, []string{text})
		d := NewMapped(mappedSchema, DefaultLimits(), m, nil)
		for i, list := range values {
			for _, value := range list {
				in := `{"y":1}`
				if value != "" {
					in = `{"x":` + value + `}`
				}
				_, r, _ := d.Show(&Record{Value: []byte(in), Key: []byte(`{"k":4}`), Headers: headersOf("h", "9.5")})
				if (r == nil) != (i == 0) {
					t.Errorf("%s of %s: %v", text, in, r)
				}
			}
		}
	}
	for _, text := range []string{"", "x", "x = 1", "x == ", "x == a", `x == "a" and y == 1`, "x in 1", "x == [1]",
		"x < true", "x > null", "x == {}", `.x == 1`,
		"x. == 1", "other:x == 1", "header: == 1", "record:offset == 1", "x[0] == 1"} {
		if c, err := ParseCondition(text); err == nil {
			t.Errorf("%q is a condition: %+v", text, c)
		}
	}
	for _, text := range []string{"", "a b", "a..b", "a.", `"a`, "key:", "record:x", "x == 1"} {
		if s, err := ParseSource(text); err == nil {
			t.Errorf("%q is a place: %+v", text, s)
		}
	}
}

// FuzzMapped: whatever bytes a record has, it is an event or rejected for a cause that is listed.
func FuzzMapped(f *testing.F) {
	f.Add([]byte(`{"op":"c","after":{"rating":1}}`), []byte(`{"id":1}`), headersOf("a", "b"))
	var decoders []*Mapped
	for _, envelope := range []Envelope{NoEnvelope, Debezium, CloudEvents} {
		m := mappingOf(f, envelope, []string{`a != "x"`}, "user=key:id", "price=header:a", "item=record:key")
		decoders = append(decoders, NewMapped(mappedSchema, DefaultLimits(), m, nil))
	}
	f.Fuzz(func(t *testing.T, value, key, headers []byte) {
		for _, d := range decoders {
			r, _ := d.DecodeRecord(new(Event), &Record{Value: value, Key: key, Headers: headers, Time: 5})
			if r != nil && !slices.Contains(append(d.mapping.Causes(), mappedSchema.Causes()...), r.Cause()) {
				t.Errorf("%q: %v", value, r)
			}
		}
	})
}

// BenchmarkMapped decodes a change of a row; the same event as it is takes what BenchmarkDecode says.
func BenchmarkMapped(b *testing.B) {
	m := mappingOf(b, Debezium, []string{`source.table == "ratings"`}, "rating=number:after.stars", "user=key:id",
		"ts=source.at")
	d := NewMapped(mappedSchema, DefaultLimits(), m, NewMissing(m))
	r := &Record{
		Value: []byte(
			`{"op":"u","before":null,"after":{"stars":"4.5","item":"i1","price":2},"source":{"table":"ratings","at":100}}`,
		),
		Key: []byte(`{"id":"u1"}`),
	}
	b.ReportAllocs()
	var ev Event
	for b.Loop() {
		if r, _ := d.DecodeRecord(&ev, r); r != nil {
			b.Fatal(r)
		}
	}
}

package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var ratings = Schema{
	Task:        Ordinal,
	Label:       "rating",
	Levels:      5,
	Time:        "ts",
	TimeUnit:    "ms",
	Categorical: []string{"user", "item"},
}

// wide has every role.
var wide = Schema{
	Task:        Regression,
	Label:       "y",
	LabelMin:    -10,
	LabelMax:    10,
	Time:        "ts",
	TimeUnit:    "s",
	Weight:      "w",
	Identity:    "id",
	Categorical: []string{"user"},
	Numeric:     []string{"a", "b"},
	Multi:       []string{"tags"},
}

const now = 1_700_000_000_000

// reason returns the reason of a rejection, "" of none.
func reason(r *Rejection) Reason {
	if r == nil {
		return ""
	}
	return r.Reason
}

func TestDecodeEvent(t *testing.T) {
	var ev Event
	d := NewJSON(wide, DefaultLimits())
	in := `{"user":"ü\u0041\n","y":-2.5e0,"ts":1699999999.25,"w":2,"id":77,"b":-0.0,"a":0.1,"tags":["x",3,"x",-0],"other":{"user":[null,{"y":1}]}}`
	if r := d.Decode(&ev, []byte(in), now); r != nil {
		t.Fatal(r)
	}
	want := Event{
		Label:       -2.5,
		Time:        1699999999250,
		Weight:      2,
		Identity:    "77",
		Categorical: []string{"üA\n"},
		Numeric:     []float64{0.1, 0},
		Multi:       [][]string{{"x", "3", "0"}},
	}
	if !reflect.DeepEqual(ev, want) {
		t.Errorf("got  %+v\nwant %+v", ev, want)
	}
	if math.Signbit(ev.Numeric[1]) {
		t.Error("-0 is still negative")
	}
	kept := ev.Categorical[0]
	if r := d.Decode(&ev, []byte(`{"user":"v","y":1,"ts":"2023-11-14T22:13:20.5+00:00","id":"i","a":1,"b":2,"tags":[]}`),
		now+600_000); r != nil {
		t.Fatal(r)
	}
	if kept != "üA\n" || ev.Time != now+500 || ev.Weight != 1 || len(ev.Multi[0]) != 0 {
		t.Errorf("got %+v", ev)
	}
}

// decodeCases has at least one value for each reason; %s is replaced by the rest of a good event.
var decodeCases = []struct {
	name   string
	schema Schema
	in     string
	want   Reason
}{
	{"good", ratings, `{"user":"1","item":"2","rating":3,"ts":1}`, ""},
	{"white space", ratings, " \t\r\n{ \"user\" : \"1\", \"item\":\"2\",\"rating\":3.0,\"ts\":1} \n", ""},
	{"unknown fields of other case", ratings, `{"USER":7.5,"Rating":"x","user":"1","item":"2","rating":3,"ts":1}`, ""},
	{"escaped name", ratings, `{"us\u0065r":"1","item":"2","rating":3,"ts":1}`, ""},
	{"whole numbers are ids", ratings, `{"user":12345678901234567890,"item":-0,"rating":3,"ts":1}`, ""},
	{"event time far ahead", ratings, `{"user":"1","item":"2","rating":3,"ts":253402300799999}`, ""},

	{"empty", ratings, ``, NotJSON},
	{"blank", ratings, ` `, NotJSON},
	{"cut off", ratings, `{"user":"1"`, NotJSON},
	{"NaN", ratings, `{"user":"1","item":"2","rating":NaN,"ts":1}`, NotJSON},
	{"comma", ratings, `{"user":"1","item":"2","rating":3,"ts":1,}`, NotJSON},
	{"control character", ratings, "{\"user\":\"\x01\"}", NotJSON},
	{"half a pair", ratings, `{"user":"\ud800","item":"2","rating":3,"ts":1}`, ""},
	{"the other half", ratings, `{"user":"1","item":"2","rating":3,"ts":1,"\uDE00":["x",{"y":"\udc00\ud83d"}]}`, ""},
	{"half an escape", ratings, `{"user":"1","item":"2","rating":3,"ts":1,"x":"\ud8"}`, NotJSON},
	{"half a pair in UTF-8", ratings, "{\"user\":\"\xed\xa0\xbd\",\"item\":\"2\",\"rating\":3,\"ts\":1}", NotUTF8},
	{
		"duplicate of half a pair",
		ratings,
		`{"user":"1","item":"2","rating":3,"ts":1,"\ud800":1,"\ud800":2}`,
		DuplicateKey,
	},
	{"syntax goes before fields", ratings, `{"user":7.5,"rating":9]`, NotJSON},
	{"byte order mark", ratings, "\ufeff{}", NotJSON},
	{"latin-1", ratings, "{\"user\":\"\xfc\"}", NotUTF8},
	{"array", ratings, `[{"user":"1"}]`, NotObject},
	{"null", ratings, `null`, NotObject},
	{"text", ratings, `"user"`, NotObject},
	{"two objects", ratings, `{"user":"1","item":"2","rating":3,"ts":1}{}`, TrailingData},
	{"trailing garbage", ratings, `{"user":"1","item":"2","rating":3,"ts":1} x`, TrailingData},
	{"duplicate", ratings, `{"user":"1","item":"2","rating":3,"rating":3,"ts":1}`, DuplicateKey},
	{"duplicate by escape", ratings, `{"user":"1","us\u0065r":"1","item":"2","rating":3,"ts":1}`, DuplicateKey},
	{"duplicate inside", ratings, `{"x":{"a":1,"a":2},"user":"1","item":"2","rating":3,"ts":1}`, DuplicateKey},
	{"deep", ratings, `{"x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, TooDeep},
	{"deep array", ratings, strings.Repeat("[", 40), TooDeep},
	{
		"as deep as may be",
		ratings,
		`{"user":"1","item":"2","rating":3,"ts":1,"x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`,
		"",
	},
	{"large", ratings, `{"user":"` + strings.Repeat("x", 64<<10) + `"}`, TooLarge},
	{"long list", wide, wideWith(`"tags":[` + strings.Repeat(`"x",`, 1024) + `"x"]`), TooLarge},

	{"no user", ratings, `{"item":"2","rating":3,"ts":1}`, MissingField},
	{"null user", ratings, `{"user":null,"item":"2","rating":3,"ts":1}`, MissingField},
	{"no label", ratings, `{"user":"1","item":"2","ts":1}`, MissingField},
	{"no time", ratings, `{"user":"1","item":"2","rating":3}`, MissingField},
	{"no tags", wide, strings.Replace(wideWith(`"z":1`), `"tags":[],`, "", 1), MissingField},
	{"object as id", ratings, `{"user":{},"item":"2","rating":3,"ts":1}`, WrongType},
	{"list as id", ratings, `{"user":["1"],"item":"2","rating":3,"ts":1}`, WrongType},
	{"bool as id", ratings, `{"user":true,"item":"2","rating":3,"ts":1}`, WrongType},
	{"fraction as id", ratings, `{"user":1.0,"item":"2","rating":3,"ts":1}`, WrongType},
	{"text as label", ratings, `{"user":"1","item":"2","rating":"3","ts":1}`, WrongType},
	{"bool as ordinal label", ratings, `{"user":"1","item":"2","rating":true,"ts":1}`, WrongType},
	{"text as tags", wide, wideWith(`"tags":"x"`), WrongType},
	{"nested tags", wide, wideWith(`"tags":["x",["y"]]`), WrongType},
	{"null tag", wide, wideWith(`"tags":[null]`), WrongType},
	{"bool as time", wide, wideWith(`"ts":true`), WrongType},
	{"NaN as text", wide, wideWith(`"a":"NaN"`), NotFinite},
	{"infinity as text", wide, wideWith(`"y":"-Infinity"`), NotFinite},
	{"not a number at all", wide, wideWith(`"a":"nano"`), WrongType},
	{"1e999", wide, wideWith(`"a":1e999`), NumberRange},
	{"1e308", wide, wideWith(`"y":1e308`), NumberRange},
	{"subnormal", wide, wideWith(`"a":1e-310`), NumberRange},
	{"level 0", ratings, `{"user":"1","item":"2","rating":0,"ts":1}`, LabelRange},
	{"level 6", ratings, `{"user":"1","item":"2","rating":6,"ts":1}`, LabelRange},
	{"level 3.5", ratings, `{"user":"1","item":"2","rating":3.5,"ts":1}`, LabelRange},
	{"above label_max", wide, wideWith(`"y":10.5`), LabelRange},
	{"binary 2", Schema{Task: Binary, Label: "y", Numeric: []string{"a"}}, `{"y":2,"a":1}`, LabelRange},
	{"binary true", Schema{Task: Binary, Label: "y", Numeric: []string{"a"}}, `{"y":true,"a":1}`, ""},
	{
		"class",
		Schema{Task: Multiclass, Label: "y", Classes: []string{"1", "b"}, Numeric: []string{"a"}},
		`{"y":1,"a":1}`,
		"",
	},
	{
		"unknown class",
		Schema{Task: Multiclass, Label: "y", Classes: []string{"1", "b"}, Numeric: []string{"a"}},
		`{"y":"c","a":1}`,
		LabelUnknown,
	},
	{
		"unknown class in a list",
		Schema{Task: Multilabel, Label: "y", Classes: []string{"b"}, Numeric: []string{"a"}},
		`{"y":["b","c"],"a":1}`,
		LabelUnknown,
	},
	{
		"text as list of classes",
		Schema{Task: Multilabel, Label: "y", Numeric: []string{"a"}},
		`{"y":"b","a":1}`,
		WrongType,
	},
	{"negative time", ratings, `{"user":"1","item":"2","rating":3,"ts":-1}`, TimeInvalid},
	{"year 10000", ratings, `{"user":"1","item":"2","rating":3,"ts":253402300800000}`, TimeInvalid},
	{"time 1e999", ratings, `{"user":"1","item":"2","rating":3,"ts":1e999}`, TimeInvalid},
	{"time in words", ratings, `{"user":"1","item":"2","rating":3,"ts":"yesterday"}`, TimeInvalid},
	{"empty id", ratings, `{"user":"","item":"2","rating":3,"ts":1}`, IDEmpty},
	{"empty tag", wide, wideWith(`"tags":[""]`), IDEmpty},
	{"long id", ratings, `{"user":"` + strings.Repeat("x", 257) + `","item":"2","rating":3,"ts":1}`, IDTooLong},
	{"long identity", wide, wideWith(`"id":"` + strings.Repeat("x", 257) + `"`), IDTooLong},
	{"weight 0", wide, wideWith(`"w":0`), WeightInvalid},
	{"weight -1", wide, wideWith(`"w":-1`), WeightInvalid},
	{"weight 2e6", wide, wideWith(`"w":2e6`), WeightInvalid},
}

// wideWith is a good event of wide, but for one field.
func wideWith(field string) string {
	name, _, _ := strings.Cut(field, ":")
	fields := []string{`"user":"u"`, `"y":1`, `"ts":1`, `"id":"i"`, `"a":1`, `"b":2`, `"tags":[]`, `"z":0`}
	fields = slices.DeleteFunc(fields, func(f string) bool { return strings.HasPrefix(f, name+":") })
	return "{" + strings.Join(append(fields, field), ",") + "}"
}

func TestDecodeReasons(t *testing.T) {
	seen := map[Reason]bool{
		NullValue: reason(NewJSON(ratings, DefaultLimits()).Decode(new(Event), nil, now)) == NullValue,
	}
	for _, c := range decodeCases {
		t.Run(c.name, func(t *testing.T) {
			ev := Event{Categorical: []string{"left", "over"}, Multi: [][]string{{"left over"}}}
			got := reason(NewJSON(c.schema, DefaultLimits()).Decode(&ev, []byte(c.in), now))
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
		seen[c.want] = true
	}
	for _, r := range Reasons {
		if !seen[r] {
			t.Errorf("no case for %s", r)
		}
	}
	if len(Reasons) != 18 {
		t.Errorf("%d reasons, the contract has 18", len(Reasons))
	}
}

func TestDecodeTimes(t *testing.T) {
	tests := []struct {
		unit, in   string
		recordTime int64
		want       int64
	}{
		{"s", "1700000000", now, now},
		{"s", "1700000000.123", now + 1000, now + 123},
		{"us", "1700000000000999", now + 1000, now + 1},
		{"ms", "0", now, 0},
		{"ms", "1700000300000", now, now + 300_000},     // just not too far ahead
		{"ms", "1700000300001", now, now},               // clamped
		{"ms", "1700000300001", -1, now + 300_001},      // nothing to clamp to
		{"ms", `"2023-11-14T23:13:20+01:00"`, now, now}, // whatever the unit
	}
	for _, tt := range tests {
		s := ratings
		s.TimeUnit = tt.unit
		var ev Event
		r := NewJSON(s,
			DefaultLimits()).Decode(&ev, []byte(`{"user":"1","item":"2","rating":3,"ts":`+tt.in+`}`), tt.recordTime)
		if r != nil || ev.Time != tt.want {
			t.Errorf("%s %s: %d %v, want %d", tt.in, tt.unit, ev.Time, r, tt.want)
		}
	}
	s := ratings
	s.Time = ""
	for at, want := range map[int64]Reason{now: "", -1: TimeInvalid, math.MaxInt64: TimeInvalid} {
		var ev Event
		if r := reason(NewJSON(s, DefaultLimits()).Decode(&ev, []byte(`{"user":"1","item":"2","rating":3}`),
			at)); r != want ||
			r == "" && ev.Time != at {
			t.Errorf("record time %d: %q", at, r)
		}
	}
}

func TestDecodeWithoutLabel(t *testing.T) {
	d := NewJSON(ratings, DefaultLimits())
	d.RequireLabel = false
	for in, want := range map[string]Reason{`{"user":"196","item":"242"}`: "",
		`{"user":"196","item":"242","rating":9}`: LabelRange,
		`{"user":"196","rating":3,"ts":4}`:       MissingField, `{"user":"196","item":"242","rating":3,"ts":4}`: ""} {
		var ev Event
		if got := reason(d.Decode(&ev, []byte(in), 0)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// stdlib decodes an accepted event of wide with encoding/json.
func stdlib(value []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return m, nil
}

func stdID(v any) string {
	if n, ok := v.(json.Number); ok {
		return strings.Replace(n.String(), "-0", "0", btoi(n == "-0"))
	}
	return v.(string)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// FuzzDecode checks what is accepted against encoding/json, and that nothing else happens to what is not.
func FuzzDecode(f *testing.F) {
	for _, c := range decodeCases {
		f.Add([]byte(c.in))
	}
	f.Add([]byte(wideWith(`"z":1`)))
	d, narrow := NewJSON(wide, DefaultLimits()), NewJSON(ratings, DefaultLimits())
	var ev, other Event
	f.Fuzz(func(t *testing.T, value []byte) {
		narrow.Decode(&other, value, now)
		before := bytes.Clone(value)
		rejected := d.Decode(&ev, value, now)
		r := reason(rejected)
		if !bytes.Equal(before, value) {
			t.Fatal("the value was changed")
		}
		if r != "" {
			if !slices.Contains(Reasons, r) || !slices.Contains(wide.Causes(), rejected.Cause()) {
				t.Fatalf("unknown cause %q", rejected.Cause())
			}
			if (r == NotJSON || r == TrailingData) && json.Valid(value) && !bytes.ContainsAny(value, `\`) {
				t.Fatalf("%s, but encoding/json takes it", r) // which, by escapes, also takes lone surrogates
			}
			return
		}
		m, err := stdlib(value)
		if err != nil {
			t.Fatalf("encoding/json: %v", err)
		}
		y, _ := m["y"].(json.Number).Float64()
		a, _ := m["a"].(json.Number).Float64()
		b, _ := m["b"].(json.Number).Float64()
		if ev.Label != y || ev.Numeric[0] != a || ev.Numeric[1] != b || ev.Categorical[0] != stdID(m["user"]) ||
			ev.Identity != stdID(m["id"]) {
			t.Fatalf("%+v differs from %v", ev, m)
		}
		var tags []string
		for _, v := range m["tags"].([]any) {
			if id := stdID(v); !slices.Contains(tags, id) {
				tags = append(tags, id)
			}
		}
		if !slices.Equal(tags, ev.Multi[0]) {
			t.Fatalf("tags %q differ from %q", ev.Multi[0], tags)
		}
		if ev.Time < 0 || ev.Time > now+300_000 || !(ev.Weight > 0) || !utf8.ValidString(ev.Identity) {
			t.Fatalf("%+v", ev)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for name, n := range map[string]int{"same": 1, "diverse": 1 << 16} {
		b.Run(name, func(b *testing.B) {
			values := make([][]byte, n)
			for i := range values {
				values[i] = fmt.Appendf(nil, `{"user":"u%d","item":"i%d","rating":%d,"ts":%d}`, i*7919%100000,
					i*104729%20000, 1+i%5, now+i)
			}
			d := NewJSON(ratings, DefaultLimits())
			var ev Event
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if r := d.Decode(&ev, values[i&(n-1)], now); r != nil {
					b.Fatal(r)
				}
				i++
			}
		})
	}
}

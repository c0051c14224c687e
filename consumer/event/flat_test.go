package event

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// flatSchemas have events that flat can read.
var flatSchemas = []Schema{
	ratings,
	{
		Task:        Regression,
		Label:       "y",
		LabelMin:    -10,
		LabelMax:    10,
		Time:        "ts",
		TimeUnit:    "s",
		Weight:      "w",
		Identity:    "user",
		Categorical: []string{"user"},
		Numeric:     []string{"a", "y"},
	},
	{Task: Multiclass, Label: "y", Classes: []string{"x", "1"}, Categorical: []string{"user", "item"}},
	{Task: Binary, Label: "y", Numeric: []string{"a", "b"}},
}

// sameByTheBook compares Decode, after whatever a decoder has read before, with what reads any value.
func sameByTheBook(t *testing.T, d *JSON, value []byte, at int64) Reason {
	t.Helper()
	var got, want Event
	book := NewJSON(d.schema, DefaultLimits())
	rejected := d.Decode(&got, value, at)
	r := reason(rejected)
	if len(value) > book.limits.MaxEventBytes || r == NotUTF8 || r == NullValue {
		return r
	}
	var borrowed Event
	if again := d.Borrow(&borrowed, value, at); !reflect.DeepEqual(rejected, again) ||
		r == "" && !reflect.DeepEqual(got, borrowed) {
		t.Fatalf("%q\n%+v %v, with borrowed names\n%+v %v", value, got, rejected, borrowed, again)
	}
	if again := book.decode(&want, value, at); !reflect.DeepEqual(rejected, again) ||
		r == "" && !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\n%+v %v, by decode\n%+v %v", value, got, rejected, want, again)
	}
	return r
}

// TestFlatAgrees spoils good events at random places: what is read fast is what decode reads, or nothing.
func TestFlatAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	values := []string{
		`"u1"`,
		`"ü"`,
		`""`,
		`1`,
		`-0`,
		`0.5`,
		`1e3`,
		`01`,
		`1.`,
		`.5`,
		`-`,
		`1E+2`,
		`1e`,
		`2e-400`,
		`"x"`,
		`"NaN"`,
		`"a\n"`,
		`null`,
		`true`,
		`[1]`,
		`{"y":1}`,
		`5`,
		`3`,
		`1700000000`,
	}
	names := []string{"user", "item", "rating", "ts", "y", "w", "a", "b", "other", "more", "", `us\u0065r`}
	pieces := []string{"", " ", ",", ":", "\"", "\\", "{", "}", "\t", "\n", "x", "\x01", "\x7f", "0"}
	good, n := 0, tier.Size(4000, 20_000)
	var decoders []*JSON // they know the names of the events before
	for _, s := range flatSchemas {
		decoders = append(decoders, NewJSON(s, DefaultLimits()))
	}
	for range n {
		d := decoders[r.IntN(len(decoders))]
		s := d.schema
		var b strings.Builder
		b.WriteByte('{')
		fields := slices.Concat([]string{s.Label}, s.Categorical, s.Numeric)
		if s.Time != "" {
			fields = append(fields, s.Time)
		}
		for range r.IntN(3) {
			fields = append(fields, names[r.IntN(len(names))])
		}
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		if r.IntN(4) > 0 {
			slices.Sort(fields)
			fields = slices.Compact(fields)
		}
		for i, name := range fields {
			if i > 0 {
				b.WriteString([]string{",", ", ", " ,\n"}[r.IntN(3)])
			}
			value := values[r.IntN(len(values))]
			if r.IntN(5) > 0 {
				value = "1"
			}
			b.WriteString(`"` + name + `"` + []string{":", ": ", " : "}[r.IntN(3)] + value)
		}
		b.WriteByte('}')
		text := b.String()
		if r.IntN(3) == 0 {
			i := r.IntN(len(text) + 1)
			text = text[:i] + pieces[r.IntN(len(pieces))] + text[min(len(text), i+r.IntN(2)):]
		}
		if sameByTheBook(t, d, []byte(text), now) == "" {
			good++
		}
	}
	if good < n/10 {
		t.Errorf("only %d good events", good)
	}
}

// TestFlatIsUsed: the usual events are not left to the book.
func TestFlatIsUsed(t *testing.T) {
	for _, in := range []string{
		`{"user":"user-000017","item":"item-00042","rating":4,"ts":1700000000000}`,
		` { "ts": 1700000000000.0, "source": "web", "page": "start", "rating": 4, "item": 17, "user": "ü" } `,
	} {
		var ev Event
		d := NewJSON(ratings, DefaultLimits())
		d.prepare(&ev, now)
		if p := (parse{d: d, ev: &ev, recordTime: now}); !p.flat([]byte(in)) {
			t.Errorf("%s", in)
		}
	}
}

// TestBorrowedNames: an event of Borrow costs no memory, and one of Decode does not change with the value.
func TestBorrowedNames(t *testing.T) {
	var ev, borrowed Event
	d := NewJSON(ratings, DefaultLimits())
	n := 0
	value := func() []byte {
		n++
		return fmt.Appendf(nil, `{"user":"user-%06d","item":"item-%05d","rating":4,"ts":1700000000000}`, n, n)
	}
	first := value()
	if d.Decode(&ev, first, now) != nil || d.Borrow(&borrowed, first, now) != nil {
		t.Fatal("a good event is rejected")
	}
	clear(first)
	if ev.Categorical[0] != "user-000001" || borrowed.Categorical[0] == ev.Categorical[0] {
		t.Errorf("once its value is gone the event has %q, with borrowed names %q", ev.Categorical, borrowed.Categorical)
	}
	next := value()
	if allocated := testing.AllocsPerRun(100, func() { d.Borrow(&borrowed, next, now) }); allocated != 0 {
		t.Errorf("%g allocations", allocated)
	}
}

// FuzzFlat compares the fast reader with the one for any value.
func FuzzFlat(f *testing.F) {
	for _, c := range decodeCases {
		f.Add([]byte(c.in), uint8(0))
	}
	f.Add([]byte(`{"user":"a","y":1,"a":2,"ts":3,"w":0.5}`), uint8(1))
	f.Add([]byte(`{"user":"a","item":"b","y":"x"}`), uint8(2))
	f.Fuzz(func(t *testing.T, value []byte, schema uint8) {
		sameByTheBook(t, NewJSON(flatSchemas[int(schema)%len(flatSchemas)], DefaultLimits()), value, now)
	})
}

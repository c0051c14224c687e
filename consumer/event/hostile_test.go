package event

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostileJSON holds what a hostile producer sends, and the one meaning that it has (D6). Records that fit into
// max_event_bytes are as large as they may be.
func hostileJSON() map[string]struct {
	value string
	want  Reason
} {
	const room = 64 << 10
	many := func(head, each, tail string) string { // as often as there is room for
		return head + strings.Repeat(each, (room-len(head)-len(tail))/len(each)) + tail
	}
	var keys, nested strings.Builder
	for i := 0; keys.Len() < room-200; i++ {
		fmt.Fprintf(&keys, `"k%d":0,`, i)
	}
	for i := 0; nested.Len() < room-200; i++ {
		fmt.Fprintf(&nested, `{"k%d":0},`, i)
	}
	good := `"user":"u","item":"i","rating":3,"ts":1`
	return map[string]struct {
		value string
		want  Reason
	}{
		"10,000 arrays deep": {
			`{` + good + `,"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
			TooDeep,
		},
		"10,000 objects deep":           {strings.Repeat(`{"x":`, 10_000) + `0` + strings.Repeat(`}`, 10_000), TooDeep},
		"as deep as there is room":      {strings.Repeat("[", room), TooDeep},
		"deep and not closed":           {many(`{`+good+`,"x":`, `{"x":`, ``), TooDeep},
		"a million keys":                {`{` + strings.Repeat(`"k":0,`, 1_000_000) + good + `}`, TooLarge},
		"as many keys as there is room": {`{` + keys.String() + good + `}`, TooLarge},
		"as many keys in an object":     {`{` + good + `,"x":{` + keys.String() + `"k":0}}`, TooLarge},
		"as many objects":               {`{` + good + `,"x":[` + nested.String() + `0]}`, ""},
		"as many empty strings":         {many(`{`+good+`,"x":[`, `"",`, `0]}`), ""},
		"one long string":               {many(`{`+good+`,"x":"`, `x`, `"}`), ""},
		"a string of escapes":           {many(`{`+good+`,"x":"`, `\u0041`, `"}`), ""},
		"a long number":                 {many(`{`+good+`,"x":1`, `0`, `}`), ""},
		"a long fraction":               {many(`{"user":"u","item":"i","ts":1,"rating":3.`, `0`, `}`), ""},
		"a label of many digits":        {many(`{"user":"u","item":"i","ts":1,"rating":3`, `0`, `}`), NumberRange},
		"as many labels": {
			many(`{"user":"u","item":"i","ts":1,`, `"rating":3,`, `"rating":3}`),
			DuplicateKey,
		},
		"a key twice":            {`{` + good + `,"rating":4}`, DuplicateKey},
		"a key twice, escaped":   {`{` + good + `,"r\u0061ting":4}`, DuplicateKey},
		"a key twice, deep down": {`{` + good + `,"x":{"y":1,"y":2}}`, DuplicateKey},
		"a key in capitals":      {`{"user":"u","item":"i","RATING":3,"ts":1}`, MissingField},
		"a key in capitals in addition": {
			`{` + good + `,"RATING":5,"Rating":4}`,
			"",
		}, // unknown fields, which are ignored
		"white space around":         {many("\n\t {"+good+"}", " ", "\r\n"), ""},
		"trailing garbage":           {`{` + good + `}x`, TrailingData},
		"two events":                 {`{` + good + `}{` + good + `}`, TrailingData},
		"a NUL behind":               {`{` + good + "}\x00", TrailingData},
		"a byte order mark":          {"\ufeff{" + good + `}`, NotJSON},
		"invalid UTF-8":              {`{"user":"` + "\xc3\x28" + `","item":"i","rating":3,"ts":1}`, NotUTF8},
		"invalid UTF-8 in a comment": {`{` + good + `}//` + "\xff", NotUTF8},
		"half a surrogate pair":      {`{"user":"\ud800","item":"i","rating":3,"ts":1}`, ""},
		"UTF-16":                     {"\xff\xfe{\x00}\x00", NotUTF8},
		"1e999":                      {`{"user":"u","item":"i","rating":1e999,"ts":1}`, NumberRange},
		"-0":                         {`{"user":"u","item":"i","rating":-0,"ts":1}`, LabelRange},
		"NaN":                        {`{"user":"u","item":"i","rating":NaN,"ts":1}`, NotJSON},
		"Infinity":                   {`{"user":"u","item":"i","rating":-Infinity,"ts":1}`, NotJSON},
		"a hexadecimal number":       {`{"user":"u","item":"i","rating":0x3,"ts":1}`, NotJSON},
		"a leading zero":             {`{"user":"u","item":"i","rating":03,"ts":1}`, NotJSON},
		"a comment":                  {`{/**/` + good + `}`, NotJSON},
		"a trailing comma":           {`{` + good + `,}`, NotJSON},
		"single quotes":              {`{'user':'u'}`, NotJSON},
		"a cut event":                {`{` + good, NotJSON},
		"nothing":                    {"", NotJSON},
		"a gzip header":              {"\x1f\x8b\x08\x00", NotUTF8},
		"a schema registry frame":    {"\x00\x00\x00\x00\x07{" + good + "}", NotJSON},
	}
}

// TestHostileJSON (D6): each of them has one meaning, and takes at most a few times as long as so many bytes of
// harmless JSON.
func TestHostileJSON(t *testing.T) {
	d := NewJSON(ratings, DefaultLimits())
	decode := func(value []byte, want Reason) time.Duration {
		best := time.Duration(math.MaxInt64) // the machine may have other things to do
		for range 20 {
			var ev Event
			began := time.Now()
			got := reason(d.Decode(&ev, value, now))
			best = min(best, time.Since(began))
			if got != want {
				t.Errorf("%.40s: %q, want %q", value, got, want)
				break
			}
		}
		return best
	}
	harmless := `{"user":"u","item":"i","rating":4,"ts":1,"rest":[` + strings.Repeat(`"abc",`, 10_000) + `1]}`
	perByte := float64(decode([]byte(harmless), "")) / float64(len(harmless))
	for name, c := range hostileJSON() {
		value := []byte(c.value)
		if name != "a million keys" && len(value) > DefaultLimits().MaxEventBytes {
			t.Errorf("%s: the test's record has %d bytes", name, len(value))
		}
		ratio := float64(decode(value, c.want)) / (perByte * float64(len(value)+1000))
		t.Logf("%s: %.2f times as long", name, ratio)
		if ratio > 20 {
			t.Errorf("%s: %d bytes took %.1f times as long as harmless ones", name, len(value), ratio)
		}
	}
}

// TestHostileJSONAllocatesLittle: memory for one record is bounded by its size, whatever it holds.
func TestHostileJSONAllocatesLittle(t *testing.T) {
	d := NewJSON(ratings, DefaultLimits())
	for name, c := range hostileJSON() {
		value := []byte(c.value)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 5 {
			var ev Event
			d.Decode(&ev, value, now)
		}
		runtime.ReadMemStats(&after)
		if per := (after.TotalAlloc - before.TotalAlloc) / 5; per > 8*uint64(DefaultLimits().MaxEventBytes) {
			t.Errorf("%s: %d bytes allocated for a record of %d", name, per, len(value))
		}
	}
}

// TestHostileLabels (D7): no label that is not a number of the schema gets through.
func TestHostileLabels(t *testing.T) {
	regression := Schema{
		Task:        Regression,
		Label:       "rating",
		Time:        "ts",
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	binary, classes := regression, regression
	binary.Task, classes.Task = Binary, Multiclass
	for _, c := range []struct {
		schema Schema
		label  string
		want   Reason
	}{
		{regression, `"NaN"`, NotFinite}, {regression, `"nan"`, NotFinite}, {regression, `"-Infinity"`, NotFinite},
		{regression, `"+inf"`, NotFinite},
		{regression, `1e308`, NumberRange}, {regression, `-1e308`, NumberRange}, {regression, `1.1e15`, NumberRange},
		{regression, `1e15`, LabelRange},
		{regression, `1e9`, ""}, {regression, `-1e9`, ""}, {regression, `1000000001`, LabelRange}, {regression, `-1.000001e9`,
			LabelRange},
		{regression, `5e-324`, NumberRange}, {regression, `1e-400`, ""}, {regression, `2.2250738585072014e-308`, ""},
		{regression, `-0`, ""},
		{regression, `"3"`, WrongType}, {regression, `true`, WrongType}, {regression, `[3]`, WrongType}, {regression, `{}`,
			WrongType}, {regression, `null`,
			MissingField},
		{ratings, `0`, LabelRange}, {ratings, `6`, LabelRange}, {ratings, `2.5`, LabelRange}, {ratings, `-3`, LabelRange},
		{ratings, `3.0000000000000001`, ""},
		{binary, `2`, LabelRange}, {binary, `-1`, LabelRange}, {binary, `0.5`, LabelRange}, {binary, `true`, ""}, {binary,
			`"true"`, WrongType}, {binary, `1`, ""},
		{classes, `1.5`, WrongType}, {classes, `true`, WrongType}, {classes, `""`, IDEmpty}, {classes, `"` + strings.Repeat(
			"x", 257) + `"`,
			IDTooLong}, {classes, `7`, ""},
	} {
		var ev Event
		got := reason(
			NewJSON(c.schema,
				DefaultLimits()).Decode(&ev, []byte(`{"user":"u","item":"i","ts":1,"rating":`+c.label+`}`), now),
		)
		if got != c.want {
			t.Errorf("%s, label %s: %q, want %q", c.schema.Task, c.label, got, c.want)
		}
		if got == "" && (math.IsNaN(ev.Label) || math.IsInf(ev.Label, 0) || math.Signbit(ev.Label) && ev.Label == 0) {
			t.Errorf("%s, label %s became %g", c.schema.Task, c.label, ev.Label)
		}
	}
}

// TestHostileTimes (D8): a stamp is refused, or is at most max_future_skew ahead of the record's own.
func TestHostileTimes(t *testing.T) {
	skew := DefaultLimits().MaxFutureSkew.Milliseconds()
	tenYears := int64(10 * 365 * 24 * time.Hour / time.Millisecond)
	for stamp, want := range map[string]Reason{
		"0": "", "-1": TimeInvalid, "-0": "", "1e300": TimeInvalid, "9223372036854775807": TimeInvalid, "253402300799999": "",
		"253402300800000":          TimeInvalid,
		fmt.Sprint(now + tenYears): "", `"9999-12-31T23:59:59Z"`: "", `"10000-01-01T00:00:00Z"`: TimeInvalid,
		`"1969-12-31T23:59:59Z"`: TimeInvalid,
		`"0001-01-01T00:00:00Z"`: TimeInvalid, `"tomorrow"`: TimeInvalid, `""`: TimeInvalid, `"NaN"`: TimeInvalid,
		`true`: WrongType, `[1]`: WrongType, `null`: MissingField,
	} {
		var ev Event
		got := reason(
			NewJSON(ratings,
				DefaultLimits()).Decode(&ev, []byte(`{"user":"u","item":"i","rating":3,"ts":`+stamp+`}`), now),
		)
		if got != want {
			t.Errorf("%s: %q, want %q", stamp, got, want)
		}
		if got == "" && (ev.Time < 0 || ev.Time > now+skew) {
			t.Errorf("%s became %d, %d ms ahead of its record", stamp, ev.Time, ev.Time-now)
		}
	}
}

// TestHostileIDs (D10): an id is 1 to 256 bytes of UTF-8 and else any text, which comes out as it went in.
func TestHostileIDs(t *testing.T) {
	for id, want := range map[string]Reason{
		"": IDEmpty, strings.Repeat("x", 256): "", strings.Repeat("x", 257): IDTooLong, strings.Repeat("x",
			65_001): IDTooLong,
		strings.Repeat("ü", 128): "", strings.Repeat("ü", 129): IDTooLong, strings.Repeat("\x00", 256): "", strings.Repeat(
			"\x00", 257): IDTooLong,
		"\x00": "", "a\nb\r": "", "../../etc/passwd": "", "..": "", "/": "", "!badger!txn": "", "🙈": "", "\u202egnp.exe": "",
		"\x1b[31m": "",
		"{{.}}":    "", "<script>": "", "'; DROP TABLE": "", "%s%n": "", " ": "", "\ufeff": "", "\ufffd": "", "a,b": "",
		`"`: "", `\`: "",
	} {
		quoted := strings.Builder{}
		for _, r := range id {
			switch {
			case r < ' ':
				fmt.Fprintf(&quoted, `\u%04x`, r)
			case r == '"' || r == '\\':
				quoted.WriteRune('\\')
				quoted.WriteRune(r)
			default:
				quoted.WriteRune(r)
			}
		}
		var ev Event
		got := reason(
			NewJSON(ratings,
				Limits{MaxEventBytes: 1 << 20, MaxIDBytes: 256, MaxDepth: 32, MaxMulti: 10, MaxNumber: 1e15}).
				Decode(&ev, []byte(`{"user":"`+quoted.String()+`","item":"i","rating":3,"ts":1}`), now),
		)
		if got != want || got == "" && ev.Categorical[0] != id {
			t.Errorf("%.20q (%d bytes): %q, want %q; id %.20q", id, len(id), got, want, ev.Categorical)
		}
	}
}

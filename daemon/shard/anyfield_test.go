package shard_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/sketch"
)

// extremes are values that fields of records do not come to, as JSON.
var extremes = []string{`null`, `-1`, `2147483648`, `4294967295`, `9223372036854775807`, `-9223372036854775808`,
	`18446744073709551615`, `1e300`, `""`, `"AAAA"`, `"` + strings.Repeat("x", 10_000) + `"`, `[]`, `{}`, `[null]`,
	`{"-1":{"epoch":1}}`, `{"0":{"epoch":4294967295,"name":"x"}}`, `true`}

// eachExtreme calls f for each value of a JSON object, at any depth, with objects that have an extreme in its place.
func eachExtreme(t *testing.T, object map[string]any, f func(where string, changed [][]byte)) {
	var walk func(where string, at any, put func(any))
	walk = func(where string, at any, put func(any)) {
		var changed [][]byte
		for _, text := range extremes {
			put(json.RawMessage(text))
			b, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			changed = append(changed, b)
		}
		put(at)
		f(where, changed)
		switch of := at.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(of)) {
				walk(where+"."+key, of[key], func(v any) { of[key] = v })
			}
		case []any:
			for i := range of {
				walk(where+"[]", of[i], func(v any) { of[i] = v })
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		walk(key, object[key], func(v any) { object[key] = v })
	}
}

// TestAnyFieldOfARecord: whatever one field of a true head, or of what a trainer asks for, is replaced by, neither the
// trainer nor the shard ends, and what the shard sends next is merged.
func TestAnyFieldOfARecord(t *testing.T) {
	none := map[string]any{"epoch": 0, "name": ""}
	for kind, more := range map[byte]map[string]any{
		'h': {"after": map[string]any{"by": none, "sent": 0}, "heeds": none, "resent": none, "from": 0, "agreement": nil},
		't': {"forgotten": nil, "passed": nil, "resend": nil, "version": 0},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := rig{t, daemontest.New(t)}
			s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t,
				sketch.Options{Seed: 7, Merges: true})
			r.running(t, trainer)
			next := int64(0)
			goesOn := func(after string) {
				apply(t, s, 0, 20)
				next += 20
				daemontest.Within(t, daemontest.Patience, "what comes after "+after, func() bool {
					r.send(0, s, nil)
					at, _ := trainer.Position("a", 0)
					return at == next && rowsOf(t, trainer) == rowsOf(t, s)
				})
			}
			goesOn("the start")
			of := r.first(kind)
			var said map[string]any
			if err := json.Unmarshal(of.Value, &said); err != nil {
				t.Fatal(err)
			}
			maps.Copy(said, more)
			eachExtreme(t, said, func(where string, changed [][]byte) {
				for _, value := range changed {
					r.inject(&kgo.Record{Key: of.Key, Value: value})
				}
				goesOn(where)
			})
		})
	}
}

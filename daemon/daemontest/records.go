package daemontest

import (
	"maps"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// Malformed holds a record for every reason that a value can have under the schema of ratings.
var Malformed = map[event.Reason]string{
	event.NotUTF8:      "{\"user\":\"\xff\",\"item\":\"i\",\"rating\":1,\"ts\":1}",
	event.NotJSON:      `{"user":"u","item":"i","rating":NaN,"ts":1}`,
	event.NotObject:    `["u","i",3]`,
	event.TrailingData: `{"user":"u","item":"i","rating":1,"ts":1} x`,
	event.DuplicateKey: `{"user":"u","user":"v","item":"i","rating":1,"ts":1}`,
	event.TooDeep:      `{"user":"u","item":"i","rating":1,"ts":1,"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	event.TooLarge:     `{"user":"u","item":"i","rating":1,"ts":1,"x":"` + strings.Repeat("x", 70_000) + `"}`,
	event.MissingField: `{"user":"u","rating":1,"ts":1}`,
	event.WrongType:    `{"user":"u","item":{},"rating":1,"ts":1}`,
	event.NotFinite:    `{"user":"u","item":"i","rating":"NaN","ts":1}`,
	event.NumberRange:  `{"user":"u","item":"i","rating":1e999,"ts":1}`,
	event.LabelRange:   `{"user":"u","item":"i","rating":6,"ts":1}`,
	event.TimeInvalid:  `{"user":"u","item":"i","rating":1,"ts":-5}`,
	event.IDEmpty:      `{"user":"","item":"i","rating":1,"ts":1}`,
	event.IDTooLong:    `{"user":"` + strings.Repeat("u", 300) + `","item":"i","rating":1,"ts":1}`,
}

// Spoiled returns n values of which one in ten is malformed, every kind in turn, and the number of each reason.
func Spoiled(n int, valid func() []byte, malformed map[event.Reason]string) (values [][]byte, want map[string]int64) {
	reasons := slices.Sorted(maps.Keys(malformed))
	want = make(map[string]int64)
	for i := range n {
		if i%10 != 3 {
			values = append(values, valid())
			continue
		}
		reason := reasons[i/10%len(reasons)]
		values = append(values, []byte(malformed[reason]))
		want[string(reason)]++
	}
	return values, want
}

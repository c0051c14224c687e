package registrytest

import (
	"encoding/binary"
	"fmt"
)

// RatingSchema is the schema, in Avro, of what Ratings returns.
const RatingSchema = `{"type":"record","name":"R","fields":[{"name":"user","type":"string"},{"name":"item","type":"string"},
	{"name":"rating","type":"int"},{"name":"ts","type":{"type":"long","logicalType":"timestamp-micros"}}]}`

// Ratings returns the ratings from..to-1 in Avro, in Confluent's frame for the IDs that id gives.
func Ratings(from, to int, id func(k int) byte) (values [][]byte) {
	text := func(b []byte, s string) []byte { return append(binary.AppendVarint(b, int64(len(s))), s...) }
	for k := from; k < to; k++ {
		b := text(text([]byte{0, 0, 0, 0, id(k)}, fmt.Sprint("u", k%20)), fmt.Sprint("i", k%9))
		values = append(values, binary.AppendVarint(binary.AppendVarint(b, int64(1+k%5)), int64(1_700_000_000_000_000+k)))
	}
	return values
}

package formats

import (
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/sketch"
)

// What a schema takes for each of its bytes: its text, and a program for each decoder, which a test compares; and what
// compiling the largest one takes for a moment.
const (
	programBytes = 8
	parsingBytes = 64 * sketch.MaxSchemaBytes
)

// Footprint returns the bytes that the schemas of a model's records take, with programs for so many decoders at a
// time. It is 0 where these are JSON.
func Footprint(m *config.Model, decoders int64) int64 {
	if !m.IsFramed() {
		return 0
	}
	return maxSchemasBytes*(1+decoders*programBytes) + parsingBytes
}

package ingest

import (
	"maps"
	"testing"

	"github.com/refitd/refitd/sketch"
)

// TestCountFormats: what is applied counts by the format of that record, and nothing else counts.
func TestCountFormats(t *testing.T) {
	records := []sketch.Record{{Fate: sketch.Control}, {Fate: sketch.Applied}, {Fate: sketch.Applied, Replayed: true},
		{Fate: sketch.Rejected}, {Fate: sketch.Applied}, {Fate: sketch.Applied}}
	var c Counts
	c.countFormats([]string{"", "avro", "json", "json", "avro", "protobuf", "behind the part"}, records)
	if want := map[string]int64{"avro": 2, "protobuf": 1}; !maps.Equal(c.Formats, want) {
		t.Errorf("%v, want %v", c.Formats, want)
	}
}

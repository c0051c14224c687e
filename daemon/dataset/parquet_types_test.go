package dataset

import (
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// typesFile, like twice.parquet and empty.parquet, was written by testdata/write_cases.py.
const typesFile = "testdata/types.parquet"

// TestParquetTypes: decimal numbers, UUIDs, numbers of 16 bits and times of day are fields of records. Columns
// that no field can be are named.
func TestParquetTypes(t *testing.T) {
	records, skipped := scan(t, typesFile, Parquet, "user")
	want := []string{
		`{"user":"00000000-0000-0000-0000-000000000007","rating":4.5,"price":1234567.25,"big":12345678901234567890123.25,"item":12,"weight":0.5,"clock":"01:00:00"}`,
		`{"user":"123e4567-e89b-12d3-a456-426614174000","rating":3,"item":13,"weight":2,"clock":"00:00:00.000001"}`,
		`{"rating":-1,"price":-0.01,"item":14}`,
	}
	if got := values(records); !slices.Equal(got, want) {
		t.Errorf("records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	left := []string{"place: a structure", "grid: a structure", "about: a map", "hash: bytes of a fixed length"}
	if !slices.Equal(skipped.LeftOut, left) {
		t.Errorf("left out %q, want %q", skipped.LeftOut, left)
	}
	schema := event.Schema{Task: event.Regression, Label: "rating", Categorical: []string{"user", "item", "nothing"},
		Numeric:  []string{"price", "weight"},
		Optional: []string{"user", "nothing", "price", "weight"}}
	set, err := Read(typesFile, Options{Format: Parquet, Schema: schema, Decode: event.NewJSON(schema,
		event.DefaultLimits()).Decode})
	if err != nil || len(set.Examples) != 3 || set.Examples[2].Label != -1 || set.Examples[1].Categorical[1] != "13" ||
		set.Examples[0].Numeric[1] != 0.5 {
		t.Errorf("%+v, %v", set, err)
	}
	for field, what := range map[string]string{"place": "a structure", "grid": "a structure", "about": "a map",
		"hash": "bytes of a fixed length"} {
		schema.Categorical = []string{field}
		_, err := Read(typesFile, Options{Format: Parquet, Schema: schema, Decode: event.NewJSON(schema,
			event.DefaultLimits()).Decode})
		if err == nil || !strings.Contains(err.Error(), `"`+field+`": expected text or whole numbers, got `+what) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestOddParquet: two columns of one name are refused by it, by every reader; a file without rows has none.
func TestOddParquet(t *testing.T) {
	const twice, want = "testdata/twice.parquet",
		`there are two columns "rating", and an event has each field once: rename one of them`
	_, readErr := Read(twice, Options{Format: Parquet, Schema: pandasSchema(), Decode: decodeRating()})
	_, scanErr := ScanRecords(twice, Parquet, Fields{Key: "user"}, nil, func(Record) error { return nil })
	_, profileErr := ReadProfile(twice, "", 10)
	for verb, err := range map[string]error{"read": readErr, "scan": scanErr, "profile": profileErr} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if records, skipped := scan(t, "testdata/empty.parquet", Parquet, "user"); len(records) != 0 || skipped.Lines != 0 {
		t.Errorf("%d records, %d skipped", len(records), skipped.Lines)
	}
	if _, err := ReadProfile("testdata/empty.parquet", "", 10); err == nil || !strings.Contains(err.Error(),
		"has no rows") {
		t.Error(err)
	}
}

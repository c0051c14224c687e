package dataset

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// pandasFile was written by testdata/write_parquet.py.
const pandasFile = "testdata/pandas.parquet"

// pandasSchema takes the columns of pandasFile for what they are.
func pandasSchema() event.Schema {
	return event.Schema{
		Task:        event.Regression,
		Label:       "rating",
		Time:        "when",
		TimeUnit:    "ms",
		Categorical: []string{"user", "item", "shop"},
		Numeric:     []string{"price", "up"},
		Multi:       []string{"tags"},
		Optional:    []string{"price", "shop"},
	}
}

var pandasRows = []string{
	`{"rating":4.5,"user":"u1","item":"7","shop":"12","price":1.25,"up":1,"tags":["a","b|c"],"when":1704164645678}`,
	`{"rating":3,"user":"u2","item":"8","up":0,"tags":[],"when":1704164646000}`,
	`{"rating":1,"user":"ü|3","item":"9","shop":"14","price":3.5,"up":1,"tags":["a"],"when":1704153600000}`,
}

// TestParquet: a file of pandas is read as events of a schema, in memory and from the disk, and its columns become the
// fields of records.
func TestParquet(t *testing.T) { checkPandas(t, pandasFile) }

func checkPandas(t *testing.T, path string) {
	t.Helper()
	schema := pandasSchema()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table, err := ReadParquetTable(bytes.NewReader(content), &schema, Columns{}, true)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range pandasRows {
		value, line, bad, err := table.Next()
		if err != nil || bad != nil || string(value) != want || line != i+1 {
			t.Errorf("row %d: %s, %v, %v, want %s", line, value, bad, err, want)
		}
	}
	if _, _, _, err := table.Next(); err != io.EOF {
		t.Errorf("after the last row: %v", err)
	}
	decoder := event.NewJSON(schema, event.DefaultLimits())
	set, err := Read(
		path,
		Options{Format: Parquet, Schema: schema, Decode: func(ev *event.Event, value []byte, _ int64) *event.Rejection {
			return decoder.Decode(ev, value, -1)
		}},
	)
	if err != nil || len(set.Examples) != 3 || !set.HasTime || set.Examples[2].Categorical[0] != "ü|3" ||
		len(set.Examples[0].Multi[0]) != 2 {
		t.Errorf("%+v, %v", set, err)
	}
	records, skipped := scan(t, path, Parquet, "user")
	want := `{"user":"u2","item":8,"rating":3,"up":false,"tags":[],"when":1704164646000}`
	if len(records) != 3 || skipped.Lines != 0 || string(records[1].Value) != want || string(records[2].Key) != "ü|3" {
		t.Errorf("%d records, %s, %s", len(records), records[1].Value, skipped.String())
	}
	p, err := ReadProfile(path, "", 2)
	if err != nil || p.Format != Parquet || p.Rows != 2 || p.Total != 3 ||
		p.column("rating").Numbers != 2 || p.column("price").Present != 1 || p.column("when").Times != 2 ||
		p.column("tags").Lists != 2 || p.column("place").Nested != 2 || p.column("up").Booleans != 2 {
		t.Errorf("profile %+v, %v", p, err)
	}
}

// TestParquetRefusals: a file of another schema is refused with the column, what was expected and what it is; one that
// is damaged at all.
func TestParquetRefusals(t *testing.T) {
	read := func(schema event.Schema, columns Columns) error {
		_, err := Read(
			pandasFile,
			Options{
				Format:  Parquet,
				Schema:  schema,
				Columns: columns,
				Decode:  event.NewJSON(schema, event.DefaultLimits()).Decode,
			},
		)
		return err
	}
	for name, c := range map[string]struct {
		change func(*event.Schema)
		of     map[string]string
		want   []string
	}{
		"numbers": {func(s *event.Schema) { s.Categorical, s.Numeric = []string{"item"}, []string{"user", "tags", "when"} },
			nil, []string{
				`the column "user" for the field "user": expected numbers, got text`, `"tags": expected numbers, got lists of text`,
				`"when": expected numbers, got times`}},
		"names": {func(s *event.Schema) { s.Categorical = []string{"place", "when"} }, nil,
			[]string{`"place": expected text or whole numbers, got a structure`}},
		"lists": {func(s *event.Schema) { s.Categorical, s.Multi = []string{"user"}, []string{"item"} }, nil,
			[]string{`"item": expected lists of text or of whole numbers, got whole numbers`}},
		"no column": {func(s *event.Schema) { s.Label = "stars" }, nil,
			[]string{`no column "stars" for the field "stars": there are user, item`}},
		"mapped": {func(*event.Schema) {}, map[string]string{"label": "user"},
			[]string{`the column "user" for the field "rating": expected numbers, got text`}},
	} {
		schema := pandasSchema()
		c.change(&schema)
		err := read(schema, Columns{Of: c.of})
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	content, err := os.ReadFile(pandasFile)
	if err != nil {
		t.Fatal(err)
	}
	none := write(t, "csv.parquet", "user,item\na,b\n")
	if _, err := Read(none, Options{Format: Parquet, Schema: pandasSchema(), Decode: event.NewJSON(pandasSchema(),
		event.DefaultLimits()).Decode}); err == nil ||
		!strings.Contains(err.Error(), "damaged, or no Parquet file") {
		t.Errorf("CSV: %v", err)
	}
	var whole bytes.Buffer
	z := gzip.NewWriter(&whole)
	if _, err := z.Write(content); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	packed := write(t, "whole.parquet.gz", whole.String())
	if _, err := Read(packed, Options{Format: Parquet, Schema: pandasSchema(), Decode: event.NewJSON(pandasSchema(),
		event.DefaultLimits()).Decode}); err == nil ||
		!strings.Contains(err.Error(), "compressed as a whole, and Parquet is read from its end") {
		t.Errorf("gzip around it: %v", err)
	}
	for at := 0; at < len(content); at += 97 { // wherever a byte is another one, it is an error or a row, and no panic
		damaged := slices.Clone(content)
		damaged[at] ^= 0x55
		schema := pandasSchema()
		table, err := ReadParquetTable(bytes.NewReader(damaged), &schema, Columns{}, true)
		for rows := 0; err == nil && rows < 1000; rows++ {
			_, _, _, err = table.Next()
		}
	}
}

// TestParquetGroups: rows of several groups, more than are read at once, come in order, and cells that are not of the
// kind are rejected by name.
func TestParquetGroups(t *testing.T) {
	type row struct {
		User   float64 `parquet:"user"`
		Rating string  `parquet:"rating"`
		Genre  []int32 `parquet:"genres"`
		When   int32   `parquet:"ts,date"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.MaxRowsPerRowGroup(150))
	for i := range 400 {
		r := row{float64(i), fmt.Sprint(1 + i%5), []int32{int32(i)}, 19_000}
		if i == 399 {
			r.User = 0.5
		}
		if _, err := w.Write([]row{r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := write(t, "groups.parquet", b.String())
	records, _ := scan(t, path, Parquet, "user")
	if len(records) != 400 ||
		string(records[398].Value) != `{"user":398,"rating":"4","genres":["398"],"ts":"2022-01-08"}` {
		t.Errorf("%d records, %s", len(records), records[398].Value)
	}
	s := event.Schema{
		Task:        event.Multiclass,
		Label:       "rating",
		Time:        "ts",
		TimeUnit:    "s",
		Categorical: []string{"user"},
		Multi:       []string{"genres"},
	}
	decoder := event.NewJSON(s, event.DefaultLimits())
	set, err := Read(
		path,
		Options{Format: Parquet, Schema: s, Decode: func(ev *event.Event, value []byte, _ int64) *event.Rejection {
			return decoder.Decode(ev, value, -1)
		}},
	)
	if err != nil || len(set.Examples) != 399 || set.Examples[250].Categorical[0] != "250" ||
		set.Examples[250].Time != 19_000*86_400_000 ||
		set.Skipped.Causes[0].First[0] != 400 ||
		set.Skipped.Causes[0].String() !=
			`wrong_type: field "user": expected a string or a whole number, got a number with a point or an exponent` {
		t.Errorf("%d rows, %+v, %v", len(set.Examples), set.Skipped, err)
	}
}

// TestPandasParquet writes the file anew with the pandas that is installed, by every compression.
func TestPandasParquet(t *testing.T) {
	tier.Need(t, tier.Long)
	if out, err := exec.CommandContext(t.Context(), "python3", "-c",
		"import pandas, pyarrow").CombinedOutput(); err != nil {
		t.Skipf("not checked: python3 has no pandas with pyarrow: %s", out)
	}
	for _, compression := range []string{"none", "snappy", "gzip", "zstd", "lz4", "brotli"} {
		path := filepath.Join(t.TempDir(), compression+".parquet")
		if out, err := exec.CommandContext(t.Context(), "python3", "testdata/write_parquet.py", path,
			compression).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		checkPandas(t, path)
	}
}

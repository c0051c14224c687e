package offline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/dataset"
)

// TestFilesWithTimes: events get the value of their time from the rows of a file, in whatever order these are; the
// latest is what versions get; and a file without times is refused.
func TestFilesWithTimes(t *testing.T) {
	c, err := config.Parse("a.yaml", []byte(`
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
- name: m
  input: {topics: [t]}
  schema: {task: regression, label: y, time: ts, categorical: [user, item]}
  tables: [{name: prices, topics: [x], of: item, key: id, numeric: [price], as_of: event, time: at, time_unit: s}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	m, path := &c.Models[0], filepath.Join(t.TempDir(), "prices.csv")
	files := TableFiles{Table: map[string]string{"prices": path}}
	if err := os.WriteFile(path, []byte("id,at,price\n7,30,3\n7,10,1\n8,5,9\n7,20,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := new(dataset.Set)
	for _, at := range []int64{9_000, 19_000, 20_000, 31_000} {
		set.Examples = append(set.Examples, dataset.Example{Event: event.Event{Time: at,
			Categorical: []string{"u", "7"}, Numeric: []float64{0}}})
	}
	known, err := files.Join(m, set)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1, 1, 2, 3} {
		if got := set.Examples[i].Numeric[0]; got != want {
			t.Errorf("%g at %d, want %g", got, set.Examples[i].Time, want)
		}
	}
	if r := known.Find(tables.Entity{Table: 0, Name: "7"}); r == nil || r.Event.Numeric[0] != 3 {
		t.Errorf("the latest is %+v", r)
	}
	m.Tables[0].Time = ""
	if _, err := files.Join(m); err == nil || !strings.Contains(err.Error(), "tables[].time") {
		t.Errorf("a table without a column of times: %v", err)
	}
}

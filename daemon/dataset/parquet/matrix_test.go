package parquet

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// expected is what testdata/matrix.py says that a column holds.
type expected struct {
	Kind   string `json:"kind"`
	Values []any  `json:"values"`
}

// checkFile compares every value of a file with what its writer put in.
func checkFile(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(strings.TrimSuffix(path, ".parquet") + ".json")
	if errors.Is(err, os.ErrNotExist) { // all files of the writer hold the same
		writer, _, _ := strings.Cut(filepath.Base(path), "-")
		content, err = os.ReadFile(filepath.Join(filepath.Dir(path), writer+".json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]expected
	if err := json.Unmarshal(content, &want); err != nil {
		t.Fatal(err)
	}
	f, closeFile := open(t, path)
	defer closeFile()
	if len(f.Columns) != len(want) {
		t.Errorf("%s: %d columns, want %d", path, len(f.Columns), len(want))
	}
	rows := f.Rows(nil)
	n := 0
	for ; ; n++ {
		if err := rows.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Errorf("%s: row %d: %v", path, n, err)
			return
		}
		for i := range f.Columns {
			c := &f.Columns[i]
			of := want[c.Name]
			if n >= len(of.Values) || !same(of.Kind, cell(rows, c, i), of.Values[n]) {
				t.Errorf(
					"%s: row %d, column %s (%s): %v, want %v",
					path,
					n,
					c.Name,
					c.What,
					cell(rows, c, i),
					of.Values[min(n,
						len(of.Values)-1)],
				)
				return
			}
		}
	}
	for name, of := range want {
		if n != len(of.Values) {
			t.Errorf("%s: %d rows, want %d of %s", path, n, len(of.Values), name)
		}
	}
}

func open(t *testing.T, path string) (*File, func()) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(file, st.Size())
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f, func() { _ = file.Close() } // it was read
}

// cell returns what a row has in a column: a text, a list, or nil.
func cell(rows *Rows, c *Column, i int) any {
	if rows.Absent(i) {
		return nil
	}
	values := rows.Values(i)
	if !c.List {
		return c.Text(&values[0])
	}
	list := []any{}
	for j := range values {
		if values[j].Null {
			list = append(list, nil)
		} else {
			list = append(list, c.Text(&values[j]))
		}
	}
	return list
}

// same compares a value with what it should be, by the kind of the column.
func same(kind string, got, want any) bool {
	g, isText := got.(string)
	w, _ := want.(string)
	if !isText || want == nil {
		a, errA := json.Marshal(got)
		b, errB := json.Marshal(want)
		return errA == nil && errB == nil && string(a) == string(b)
	}
	switch kind {
	case "float", "float32":
		bits := 64
		if kind == "float32" {
			bits = 32
		}
		x, errX := strconv.ParseFloat(g, bits)
		y, errY := strconv.ParseFloat(w, bits)
		return errX == nil && errY == nil && x == y
	case "time":
		at, err := time.Parse(time.RFC3339Nano, g)
		nanos, errWant := strconv.ParseInt(w, 10, 64)
		return err == nil && errWant == nil && at.Equal(time.Unix(0, nanos))
	}
	return g == w
}

// TestWrittenFiles: the files in testdata hold what their writer put in: LZ4 in pages of version 2, true and false
// in runs, small pages of dictionaries and lists, and every other encoding.
func TestWrittenFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/small/*.parquet")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		checkFile(t, path)
	}
}

// TestPythonParquetMatrix: whatever pyarrow, fastparquet and DuckDB write, by every codec, encoding and version of
// pages, is read value by value.
func TestPythonParquetMatrix(t *testing.T) {
	tier.Need(t, tier.Long)
	for writer, packages := range map[string]string{"pyarrow": "pyarrow, numpy", "fastparquet": "fastparquet, pandas",
		"duckdb": "duckdb"} {
		t.Run(writer, func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import "+packages).CombinedOutput(); err != nil {
				t.Skipf("files of %s are not checked: python3 lacks %s: %s", writer, packages, out)
			}
			dir := t.TempDir()
			if out, err := exec.CommandContext(t.Context(), "python3", "testdata/matrix.py", writer,
				dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			paths, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
			if err != nil || len(paths) < 20 {
				t.Fatalf("%d files, %v", len(paths), err)
			}
			for _, path := range paths {
				checkFile(t, path)
			}
			t.Logf("%d files of %s are read value by value", len(paths), writer)
		})
	}
}

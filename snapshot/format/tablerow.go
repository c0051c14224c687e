package format

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// encode returns a row as deltas have it: ["items","i1",["drama"],[["a","b"]],[3.5]] with null for what it lacks, or
// ["items","i1"] of one that is gone.
func (r *TableRow) encode(tables []*Table) ([]byte, error) {
	line := []any{tables[r.Table].Name, r.Name}
	if !r.Removed {
		names := make([]*string, len(r.Categorical))
		for i := range r.Categorical {
			if r.Categorical[i] != "" {
				names[i] = &r.Categorical[i]
			}
		}
		lists := make([][]string, len(r.Multi))
		for i := range r.Multi {
			lists[i] = slices.Concat([]string{}, r.Multi[i])
		}
		numbers := make([]*float64, len(r.Numeric))
		for i := range r.Numeric {
			if !math.IsNaN(r.Numeric[i]) {
				numbers[i] = &r.Numeric[i]
			}
		}
		line = append(line, names, lists, numbers)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// compare orders rows by table and name.
func (r *TableRow) compare(o *TableRow) int {
	return cmp.Or(cmp.Compare(r.Table, o.Table), cmp.Compare(r.Name, o.Name))
}

// decode is the inverse of encode. What it returns is not validated yet.
func (r *TableRow) decode(line []byte, tables []*Table) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(line, &parts); err != nil || len(parts) != 2 && len(parts) != 5 {
		return fmt.Errorf("%.100q: want a table, a name, and what each kind of columns has", line)
	}
	var name string
	if err := json.Unmarshal(parts[0], &name); err != nil {
		return err
	}
	r.Table = slices.IndexFunc(tables, func(t *Table) bool { return t.Name == name })
	if err := json.Unmarshal(parts[1], &r.Name); err != nil {
		return err
	}
	if r.Removed = len(parts) == 2; r.Removed {
		return nil
	}
	var numbers []*float64
	for i, to := range []any{&r.Categorical, &r.Multi, &numbers} {
		if err := json.Unmarshal(parts[2+i], to); err != nil {
			return err
		}
	}
	for _, v := range numbers {
		if v == nil {
			r.Numeric = append(r.Numeric, math.NaN())
		} else {
			r.Numeric = append(r.Numeric, *v)
		}
	}
	return nil
}

// validate checks a row against the tables of a version.
func (r *TableRow) validate(tables []*Table) error {
	if r.Table < 0 || r.Table >= len(tables) {
		return fmt.Errorf("it is of none of the %d tables of the version", len(tables))
	}
	t := tables[r.Table]
	if r.Name == "" || !utf8.ValidString(r.Name) {
		return fmt.Errorf("name %q of table %s is empty or not UTF-8", r.Name, t.Name)
	}
	if r.Removed {
		return nil
	}
	if len(r.Categorical) != len(t.Categorical) || len(r.Multi) != len(t.Multi) || len(r.Numeric) != len(t.Numeric) {
		return fmt.Errorf("%q of table %s has other columns than the table", r.Name, t.Name)
	}
	bad := func(name string) bool { return !utf8.ValidString(name) }
	if slices.ContainsFunc(r.Categorical, bad) ||
		slices.ContainsFunc(r.Multi, func(list []string) bool {
			return slices.ContainsFunc(list, bad) || slices.Contains(list, "")
		}) ||
		slices.ContainsFunc(r.Numeric, func(v float64) bool { return math.IsInf(v, 0) }) {
		return fmt.Errorf("%q of table %s has a name that is not UTF-8, or a number that is infinite", r.Name, t.Name)
	}
	return nil
}

// decodeTableRows reads rows of tables and returns what follows them.
func (d *Delta) decodeTableRows(n int, payload []byte, tables []*Table) ([]byte, error) {
	for i := range n {
		line, rest, ok := bytes.Cut(payload, []byte{'\n'})
		if !ok {
			return nil, fmt.Errorf("%d rows of tables, want %d", i, n)
		}
		r := new(TableRow)
		if err := r.decode(line, tables); err != nil {
			return nil, fmt.Errorf("row %d of tables: %w", i, err)
		}
		d.TableRows, payload = append(d.TableRows, r), rest
	}
	return payload, nil
}

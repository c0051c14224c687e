package config

import (
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKeysTable: docs/keys.md says for every key, exactly once, what a change of it does, and what it calls reload a
// running daemon takes up.
func TestKeysTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "configs", "docs", "keys.md"))
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.*\\[\\]]+)` \\| ([a-z ]+) \\|").FindAllStringSubmatch(string(
		text), -1) {
		key, change := row[1], row[2]
		if _, ok := changes[key]; ok {
			t.Errorf("%s is listed twice", key)
		}
		if !slices.Contains([]string{"reload", "restart", "refit", "new lineage", "refused"}, change) {
			t.Errorf("%s: a change of it does %q, which the table does not explain", key, change)
		}
		changes[key] = change
	}
	used := map[string]bool{}
	var walk func(typ reflect.Type, path string)
	walk = func(typ reflect.Type, path string) {
		for i, name := range strictyaml.Keys(typ) {
			key := strictyaml.Join(path, name)
			switch f := typ.Field(i).Type; {
			case f.Kind() == reflect.Struct && f != reflect.TypeFor[Secret]():
				walk(f, key)
				continue
			case f.Kind() == reflect.Slice && f.Elem().Kind() == reflect.Struct:
				walk(f.Elem(), key+"[]")
				continue
			}
			var rows []string
			for row := range changes {
				if prefix, wild := strings.CutSuffix(row, "*"); row == key || wild && strings.HasPrefix(key, prefix) {
					rows = append(rows, row)
					used[row] = true
				}
			}
			if len(rows) != 1 {
				t.Errorf("%s is in the rows %q of configs/docs/keys.md, want one", key, rows)
				continue
			}
			if reload := changes[rows[0]] == "reload"; reload != reloadable.MatchString(
				strings.ReplaceAll(key, "[]", "[0]")) {
				t.Errorf("%s: the table says %q, a running daemon takes it up: %t", key, changes[rows[0]], !reload)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	for row := range changes {
		if !used[row] {
			t.Errorf("configs/docs/keys.md has %s, which is no key", row)
		}
	}
}

// Package where reads the conditions of a ranking as JSON has them. What a condition is says [format.Condition].
//
// Whether the tables of a version have its column, and which names fulfil it, package scorer finds out. It keeps
// nothing, and any number of goroutines may call it.
package where

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// FromMap reads conditions as JSON has them: by column a name, true or false, a list of them, or an object with
// min and max for a number. It returns ErrInput.
func FromMap(where map[string]any) ([]format.Condition, error) {
	var list []format.Condition
	for _, field := range slices.Sorted(maps.Keys(where)) {
		w := format.Condition{Field: field}
		bad := fmt.Errorf("snapshot: %w: where: %q takes a name, a list of names, or {\"min\": …, \"max\": …}",
			disk.ErrInput, field)
		switch v := where[field].(type) {
		case map[string]any:
			for key, bound := range v {
				x, err := format.NumberOf(bound)
				switch {
				case err != nil || bound == nil:
					return nil, bad
				case key == "min":
					w.Min = &x
				case key == "max":
					w.Max = &x
				default:
					return nil, bad
				}
			}
		case []any:
			w.Any = []string{}
			for _, one := range v {
				name, ok := flagOrName(one)
				if !ok {
					return nil, bad
				}
				w.Any = append(w.Any, name)
			}
		case []string:
			w.Any = slices.Concat([]string{}, v)
		default:
			name, ok := flagOrName(v)
			if !ok {
				return nil, bad
			}
			w.Any = []string{name}
		}
		if err := w.Validate(); err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
		list = append(list, w)
	}
	return list, nil
}

// flagOrName is format.NameOf that also takes true and false, as tables do.
func flagOrName(v any) (string, bool) {
	if flag, ok := v.(bool); ok {
		return strconv.FormatBool(flag), true
	}
	if v == nil {
		return "", false
	}
	return format.NameOf(v)
}

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// maxCrossed is how many fields a cross may have: the pairs of three names are rarely seen twice.
const maxCrossed = 4

// crosses checks that crosses are made of categorical fields and that no other field has the name of one.
func (v *validator) crosses(s *Schema, path string, claim func(key, field string)) {
	seen := make(map[string]int)
	for i, parts := range s.Cross {
		at := fmt.Sprintf("%s.cross[%d]", path, i)
		if len(parts) < 2 || len(parts) > maxCrossed {
			v.bad(
				at,
				parts,
				fmt.Sprintf("a list of 2 to %d categorical fields, such as [%s]", maxCrossed,
					strings.Join(example(s.Categorical), ", ")),
			)
			continue
		}
		known := true
		for k, field := range parts {
			entry := fmt.Sprintf("%s[%d]", at, k)
			switch {
			case !slices.Contains(s.Categorical, field):
				v.oneOfFields(entry, field, s.Categorical)
				known = false
			case slices.Index(parts, field) < k:
				v.bad(entry, field, "each field of a cross once")
				known = false
			}
		}
		if !known {
			continue
		}
		key := strings.Join(slices.Sorted(slices.Values(parts)), "\x00")
		if first, ok := seen[key]; ok {
			v.bad(at, parts, fmt.Sprintf("each cross once: cross[%d] has the same fields", first))
			continue
		}
		seen[key] = i
		claim(at, event.CrossName(parts...))
	}
}

// entity checks what a field is said to be a function of: a categorical field that is not, by others, a function of the
// field itself.
func (v *validator) entity(s *Schema, path, field string) {
	of, said := s.Of[field]
	if !said {
		return
	}
	if !slices.Contains(s.Categorical, of) {
		v.oneOfFields(path, of, s.Categorical)
		return
	}
	for n := 0; of != "" && n <= len(s.Of); n++ {
		if of == field {
			v.bad(path, s.Of[field], fmt.Sprintf("a field that is not itself of %s", field))
			return
		}
		of = s.Of[of]
	}
}

// oneOfFields reports a field that is no categorical one, with the one that is probably meant.
func (v *validator) oneOfFields(path, field string, categorical []string) {
	before := len(v.Problems)
	v.bad(path, field, fmt.Sprintf("one of the categorical fields %q", categorical))
	if len(v.Problems) > before {
		v.Problems[before].Suggestion = strictyaml.Nearest(field, categorical)
	}
}

// example returns two fields to show what a cross looks like.
func example(categorical []string) []string {
	if len(categorical) < 2 {
		return []string{"user", "item"}
	}
	return categorical[:2]
}

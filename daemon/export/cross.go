package export

import (
	"maps"
	"slices"
	"strings"

	"github.com/refitd/refitd/snapshot/format"
)

// crossed returns the columns of a cross, [n], which begin at first; unseen is that of a pair which the vocabulary
// does not have. ONNX joins strings from opset 20 on only, so each part numbers its names, and a pair of numbers
// identifies the name of the cross.
func (b *builder) crossed(parts []string, inputs map[string]string, names []string, first, unseen int64) string {
	numbers := make([]map[string]int64, len(parts)) // of what the names have in each part, from 1; 0 is anything else
	for p := range numbers {
		numbers[p] = make(map[string]int64)
	}
	var paths [][]int64
	var columns []int64
	for i, name := range names {
		for _, split := range splits(name, len(parts)) {
			path := make([]int64, len(parts))
			for p, text := range split {
				n, ok := numbers[p][text]
				if !ok {
					n = int64(len(numbers[p])) + 1
					numbers[p][text] = n
				}
				path[p] = n
			}
			paths, columns = append(paths, path), append(columns, first+int64(i))
		}
	}
	ids := b.partNumbers(inputs[parts[0]], numbers[0])
	for p := 1; p < len(parts); p++ {
		width := int64(len(numbers[p])) + 1
		pair := b.node("Add",
			[]string{b.node("Mul", []string{ids, b.whole(width)}), b.partNumbers(inputs[parts[p]], numbers[p])})
		ahead, missing := make(map[int64]int64), int64(0) // the number of each pair
		if p == len(parts)-1 {
			missing = unseen
		}
		for i, path := range paths {
			key := path[p-1]*width + path[p]
			if p == len(parts)-1 {
				ahead[key] = columns[i]
			} else if ahead[key] == 0 {
				ahead[key] = int64(len(ahead)) + 1
			}
			path[p] = ahead[key]
		}
		keys := slices.Sorted(maps.Keys(ahead))
		values := make([]int64, len(keys))
		for i, key := range keys {
			values[i] = ahead[key]
		}
		ids = b.fresh()
		b.add(mlDomain, "LabelEncoder", ids, []string{pair}, intsAttribute("keys_int64s", keys),
			intsAttribute("values_int64s", values), intAttribute("default_int64", missing))
	}
	return ids
}

// partNumbers returns the numbers of what events have in one part of a cross, [n].
func (b *builder) partNumbers(input string, numbers map[string]int64) string {
	keys := slices.Sorted(maps.Keys(numbers))
	values := make([]int64, len(keys))
	for i, key := range keys {
		values[i] = numbers[key]
	}
	ids := b.fresh()
	b.add(mlDomain, "LabelEncoder", ids, []string{input}, stringsAttribute("keys_strings", keys),
		intsAttribute("values_int64s", values), intAttribute("default_int64", 0))
	return ids
}

// splits returns every way to take the name of a cross apart into n names: several where these have the sign
// themselves.
func splits(name string, n int) [][]string {
	if n == 1 {
		return [][]string{{name}}
	}
	var out [][]string
	for at := 0; ; {
		i := strings.Index(name[at:], format.CrossSign)
		if i < 0 {
			return out
		}
		head := name[:at+i]
		at += i + len(format.CrossSign)
		if head == "" || name[at:] == "" {
			continue
		}
		for _, rest := range splits(name[at:], n-1) {
			out = append(out, append([]string{head}, rest...))
		}
	}
}

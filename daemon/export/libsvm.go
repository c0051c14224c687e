package export

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot/format"
)

// Columns numbers the features of a sample for LIBSVM rows, from 1: the names of each categorical field in order,
// crosses last, those of each multi field, then one column for each numeric field.
type Columns struct {
	schema  *config.Schema
	weights []string         // per multi field
	index   []map[string]int // per categorical, then per multi field
	total   int
}

// CollectColumns returns the columns of all rows that add is called with, in a fixed order, once done.
func CollectColumns(schema *config.Schema) (add func(*Row) error, done func() *Columns) {
	categorical := len(schema.Names())
	seen := make([]map[string]bool, categorical+len(schema.Multi))
	for f := range seen {
		seen[f] = make(map[string]bool)
	}
	add = func(r *Row) error {
		for f, name := range r.Event.Categorical {
			if name != "" { // absent
				seen[f][name] = true
			}
		}
		for f, names := range r.Event.Multi {
			for _, name := range names {
				seen[categorical+f][name] = true
			}
		}
		return nil
	}
	done = func() *Columns {
		c := &Columns{schema: schema, weights: schema.Event().MultiWeights}
		for _, names := range seen {
			index := make(map[string]int, len(names))
			for _, name := range slices.Sorted(maps.Keys(names)) {
				c.total++
				index[name] = c.total
			}
			c.index = append(c.index, index)
		}
		c.total += len(schema.Numeric)
		return c
	}
	return add, done
}

// NumColumns returns the largest column number.
func (c *Columns) NumColumns() int { return c.total }

// Each calls f for every column in order: its field, and its name in a categorical or multi field.
func (c *Columns) Each(f func(number int, field, name string) error) error {
	fields := slices.Concat(c.schema.Names(), c.schema.Multi)
	number := 0
	for i, index := range c.index {
		for _, name := range slices.SortedFunc(maps.Keys(index), func(a, b string) int { return index[a] - index[b] }) {
			number++
			if err := f(number, fields[i], name); err != nil {
				return err
			}
		}
	}
	for _, field := range c.schema.Numeric {
		number++
		if err := f(number, field, ""); err != nil {
			return err
		}
	}
	return nil
}

// AppendLIBSVM appends a row without a line end: the label, the columns that are not 0 with their values (1, 1/n or
// 1/√n in a list of n names, the number as it came), and behind # the role, the weight and the inclusion probability. A
// class is its place in classes, from 0, unless all of classes are whole numbers; several are joined by commas.
func (c *Columns) AppendLIBSVM(dst []byte, classes []string, r *Row) []byte {
	ev := &r.Event
	if event.Task(c.schema.Task).HasClasses() {
		for i, name := range ev.Classes {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, ClassNumber(classes, name)...)
		}
	} else {
		dst = appendNumber(dst, ev.Label)
	}
	add := func(number int, value float64) {
		dst = strconv.AppendInt(append(dst, ' '), int64(number), 10)
		dst = appendNumber(append(dst, ':'), value)
	}
	for f, name := range ev.Categorical {
		if name != "" {
			add(c.index[f][name], 1)
		}
	}
	for f, names := range ev.Multi {
		index := c.index[len(ev.Categorical)+f]
		var numbers []int
		for _, name := range names {
			numbers = append(numbers, index[name])
		}
		slices.Sort(numbers)
		for _, number := range slices.Compact(numbers) {
			add(number, format.MultiValue(c.weights, f, len(names)))
		}
	}
	first := c.total - len(ev.Numeric)
	for f, v := range ev.Numeric {
		if v != 0 && !math.IsNaN(v) {
			add(first+f+1, v)
		}
	}
	dst = fmt.Appendf(dst, " # role=%s weight=%s", r.Role, appendNumber(nil, r.Weight))
	if r.Inclusion > 0 {
		dst = appendNumber(append(dst, " inclusion_probability="...), r.Inclusion)
	}
	return dst
}

func appendNumber(dst []byte, v float64) []byte { return strconv.AppendFloat(dst, v, 'g', -1, 64) }

// ClassNumber returns a class name that is a whole number, if all of them are, and else its place among them.
func ClassNumber(classes []string, name string) string {
	for _, c := range classes {
		if _, err := strconv.Atoi(c); err != nil {
			return strconv.Itoa(slices.Index(classes, name))
		}
	}
	return name
}

package scorer

import (
	"fmt"

	"github.com/refitd/refitd/snapshot/format"
)

// nameLayer are names that deltas have added, with columns after those of the version. A model has a few layers,
// later names in later ones, each less than half as large as the one before: Apply adds a layer and merges those that
// have become too small, so that a name is copied as often as names have doubled in number. Layers are never changed.
type nameLayer struct {
	first   int32              // column of the first name
	names   []format.AddedName // in the order of their columns
	columns [][]int32          // per field of Schema.Named: of its names, ascending
	index   []map[string]int32 // per field: name to column; nil for none
}

// NumColumns returns how many columns the model has, those that deltas have added included.
func (m *Model) NumColumns() int {
	if n := len(m.layers); n > 0 {
		return int(m.layers[n-1].first) + len(m.layers[n-1].names)
	}
	return m.contents.NumFeatures
}

// Column returns the column of a name, given the position of its field in Schema.Named, and whether the model has it.
func (m *Model) Column(field int, name string) (int32, bool) { return m.column(field, name) }

func (m *Model) column(field int, name string) (int32, bool) {
	if j, ok := m.index[field][name]; ok {
		return j, true
	}
	for i := range m.layers {
		if j, ok := m.layers[i].index[field][name]; ok {
			return j, true
		}
	}
	return 0, false
}

// columnOfBytes is column for a name that is not worth a string.
func (m *Model) columnOfBytes(field int, name []byte) (int32, bool) {
	if j, ok := m.index[field][string(name)]; ok {
		return j, true
	}
	for i := range m.layers {
		if j, ok := m.layers[i].index[field][string(name)]; ok {
			return j, true
		}
	}
	return 0, false
}

// addedName returns the name of a column that a delta has added.
func (m *Model) addedName(j int32) *format.AddedName {
	i := 0
	for i+1 < len(m.layers) && m.layers[i+1].first <= j {
		i++
	}
	return &m.layers[i].names[j-m.layers[i].first]
}

// nameOf returns the name of a column of a field.
func (m *Model) nameOf(field int, j int32) string {
	if n := m.NumColumns(); int(j) >= n {
		return m.extras[field][int(j)-n]
	}
	if int(j) >= m.contents.NumFeatures {
		return m.addedName(j).Name
	}
	return m.contents.Vocabulary[field][j-m.first[field]]
}

// numNames returns how many names a field has.
func (m *Model) numNames(field int) int {
	n := len(m.contents.Vocabulary[field])
	for i := range m.layers {
		n += len(m.layers[i].columns[field])
	}
	return n
}

// newLayer returns a layer of names, of which the first has column first. It returns an error for a name that is
// there twice.
func newLayer(first int32, names []format.AddedName, schema *format.Schema) (nameLayer, error) {
	fields := schema.FirstMulti() + len(schema.Multi)
	l := nameLayer{
		first:   first,
		names:   names,
		columns: make([][]int32, fields),
		index:   make([]map[string]int32, fields),
	}
	sizes := make([]int, fields)
	for _, a := range names {
		sizes[a.Field]++
	}
	for f, n := range sizes {
		if n > 0 {
			l.columns[f], l.index[f] = make([]int32, 0, n), make(map[string]int32, n)
		}
	}
	for i, a := range names {
		j := first + int32(i)
		l.columns[a.Field] = append(l.columns[a.Field], j)
		if l.index[a.Field][a.Name] = j; len(l.index[a.Field]) != len(l.columns[a.Field]) {
			return l, fmt.Errorf("name %q of field %q is added twice", a.Name, schema.Named()[a.Field])
		}
	}
	return l, nil
}

// withNames returns the layers of a model to which names are added.
func (m *Model) withNames(added []format.AddedName) ([]nameLayer, error) {
	if len(added) == 0 {
		return m.layers, nil
	}
	schema := &m.contents.Schema
	for _, a := range added {
		if _, ok := m.column(a.Field, a.Name); ok {
			return nil, fmt.Errorf("name %q of field %q is added, and the model has it", a.Name,
				schema.Named()[a.Field])
		}
	}
	keep, first := len(m.layers), m.NumColumns()
	for merged := len(added); keep > 0 && len(m.layers[keep-1].names) <= 2*merged; keep-- {
		merged += len(m.layers[keep-1].names)
	}
	names := make([]format.AddedName, 0, len(added))
	for _, l := range m.layers[keep:] {
		names = append(names, l.names...)
	}
	first -= len(names)
	layer, err := newLayer(int32(first), append(names, added...), schema)
	if err != nil {
		return nil, err
	}
	return append(m.layers[:keep:keep], layer), nil
}

package config

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// DecodeEntry decodes the lists of fields, whose entries may be a Field in place of a name.
func (s *Schema) DecodeEntry(d *strictyaml.Decoder, key string, value ast.Node, path string) bool {
	lists := map[string]*[]string{"categorical": &s.Categorical, "numeric": &s.Numeric, "multi": &s.Multi}
	list, ok := value.(*ast.SequenceNode)
	if lists[key] == nil || !ok {
		return false
	}
	names := make([]string, len(list.Values))
	for i, entry := range list.Values {
		child := fmt.Sprintf("%s[%d]", path, i)
		d.Note(child, entry)
		if t := entry.Type(); t != ast.MappingType && t != ast.MappingValueType {
			d.Into(entry, &names[i], child)
			continue
		}
		var f Field
		d.Into(entry, &f, child)
		if names[i] = f.Name; f.Optional {
			s.Optional = append(s.Optional, f.Name)
			slices.Sort(s.Optional)
		}
		if d.Has(child + ".weight") {
			if s.ListWeights == nil {
				s.ListWeights = make(map[string]string)
			}
			s.ListWeights[f.Name] = f.Weight
		}
		if f.Of != "" {
			if s.Of == nil {
				s.Of = make(map[string]string)
			}
			s.Of[f.Name] = f.Of
		}
	}
	*lists[key] = names
	return true
}

// Decoded takes the derived fields out of the lists.
func (s *Schema) Decoded() { s.takeDerived() }

// DecodeEntry is of no entry of a model.
func (m *Model) DecodeEntry(*strictyaml.Decoder, string, ast.Node, string) bool { return false }

// Decoded adds the columns of the tables to the fields of the schema, in whatever order both were decoded, and gives
// events whose labels come later their identity.
func (m *Model) Decoded() {
	m.takeTables()
	m.takeOutcomes()
}

// SetDefaults makes m the DefaultModel.
func (m *Model) SetDefaults() { *m = DefaultModel() }

package diff

import (
	"slices"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// shownNames is how many names that came or went are listed for each field.
const shownNames = 10

// Features compares the vocabularies field by field; a field that one version does not have counts with all its names.
func Features(a, b *snapshot.Model) []report.FieldDiff {
	namesA, fieldsA := vocabulary(a)
	namesB, fieldsB := vocabulary(b)
	out := []report.FieldDiff{}
	for _, field := range append(fieldsA, slices.DeleteFunc(fieldsB, func(f string) bool {
		return slices.Contains(fieldsA,
			f)
	})...) {
		d := report.FieldDiff{Field: field, InNames: []string{}, OutNames: []string{}}
		for name := range namesA[field] {
			if namesB[field][name] {
				d.Common++
			} else {
				d.Out++
				d.OutNames = append(d.OutNames, name)
			}
		}
		for name := range namesB[field] {
			if !namesA[field][name] {
				d.In++
				d.InNames = append(d.InNames, name)
			}
		}
		for _, list := range []*[]string{&d.InNames, &d.OutNames} {
			slices.Sort(*list)
			*list = (*list)[:min(len(*list), shownNames)]
		}
		out = append(out, d)
	}
	return out
}

// vocabulary returns the names of each field; a numeric field has the empty name alone.
func vocabulary(m *snapshot.Model) (names map[string]map[string]bool, fields []string) {
	c := m.Contents()
	names = make(map[string]map[string]bool)
	fields = c.Schema.Named()
	for f, list := range c.Vocabulary {
		field := fields[f]
		names[field] = make(map[string]bool, len(list))
		for _, name := range list {
			names[field][name] = true
		}
	}
	for _, f := range c.Schema.Numeric {
		fields = append(fields, f.Name)
		names[f.Name] = map[string]bool{"": true}
	}
	return names, fields
}

package event

import (
	"slices"

	"github.com/refitd/refitd/consumer/event/framing"
)

// unfit says which fields of the model cannot be what a schema has for them, by its types: text in place of a number,
// say. A schema of the reader may change types: with one nothing is said.
func (d *Mapped) unfit(w *Writer, f *framing.Frame, root *Member, lost func(field string)) {
	outline := d.reading.Outliners[w.Format]
	if outline == nil || d.reading.Fixed != nil && d.reading.Writers != nil {
		return
	}
	leaves, err := outline(w, f, d.json.limits.MaxDepth)
	if err != nil { // what cannot be outlined is found out by its values
		return
	}
	for i := range d.fields {
		f := &d.fields[i]
		if !d.isIn(f, root) {
			continue
		}
		fits, isLeaf, isObject := true, false, false
		for k := range leaves {
			l := &leaves[k]
			if root.at(l.Path...) == f.slot {
				isLeaf, fits = true, fits && d.fits(f, l, w.Format)
			}
			isObject = isObject || root.crosses(f.slot, l.Path)
		}
		if !fits || isObject && !isLeaf && d.mapping.Envelope != Debezium { // objects may be numbers there
			lost(f.name)
		}
	}
}

// isIn reports whether a field is from the values, or the keys, that are read for a tree.
func (d *Mapped) isIn(f *mappedField, root *Member) bool {
	return f.constant == nil && f.slot >= 0 && (f.source.kind == fromKey) == (root == d.key)
}

// fits reports whether what a schema has may be what a field is. It is true where only a value can show it.
func (d *Mapped) fits(f *mappedField, l *Leaf, format string) bool {
	if l.Kind == LeafOther || d.mapping.Envelope == Debezium && l.Kind != LeafBool && l.Kind != LeafList {
		return true // text and objects may be numbers and times there
	}
	return !slices.ContainsFunc(f.to.targets, func(t target) bool { return !d.suits(f, t.role, l, format) })
}

// suits is fits for one role of a field.
func (d *Mapped) suits(f *mappedField, r role, l *Leaf, format string) bool {
	isName := l.Kind.IsName() || l.Kind == LeafBool && f.asNumber ||
		l.Kind == LeafReal && format == FormatJSONSchema // "number" is 7, too
	isNumber := l.Kind == LeafWhole || l.Kind == LeafReal || l.Kind == LeafDecimal ||
		f.asNumber && l.Kind != LeafList && l.Kind != LeafMap
	isList := l.Kind == LeafList &&
		(l.Item == LeafOther || l.Item.IsName() || l.Item == LeafReal && format == FormatJSONSchema)
	s := &d.json.schema
	switch {
	case r == roleTime:
		return l.Kind != LeafBool && l.Kind != LeafBytes && l.Kind != LeafList && l.Kind != LeafMap
	case r == roleIdentity || r == roleCategorical || r == roleLabel && (s.Choices || s.Task == Multiclass):
		return isName
	case r == roleVector:
		return l.Kind == LeafList || l.Kind == LeafText
	case r == roleMulti || r == roleLabel && s.Task == Multilabel:
		return isList
	case r == roleLabel && s.Task == Binary && s.Positive != "":
		return isName || l.Kind == LeafBool
	case r == roleLabel && s.Task == Binary:
		return isNumber || l.Kind == LeafBool
	}
	return isNumber
}

// unlisted says which fields of the model a schema lists nothing for, where values may have what it does not list.
func (d *Mapped) unlisted(leaves []Leaf, root *Member, lost func(field string)) {
	for i := range d.fields {
		f := &d.fields[i]
		if d.isIn(f, root) && !slices.ContainsFunc(leaves, func(l Leaf) bool {
			return root.at(l.Path...) == f.slot ||
				(l.Kind == LeafMap || l.Kind == LeafOther) && root.passes(f.slot, l.Path)
		}) {
			lost(f.name)
		}
	}
}

// passes reports whether a path leads towards a slot.
func (m *Member) passes(slot int, path []string) bool {
	for _, name := range path {
		if m = m.Member(name); m == nil {
			return false
		}
	}
	return m.has(slot)
}

// crosses reports whether a path leads through a slot, to what is within.
func (m *Member) crosses(slot int, path []string) bool {
	for i, name := range path {
		if m = m.Member(name); m == nil {
			return false
		}
		if m.slot == slot {
			return i < len(path)-1
		}
	}
	return false
}

// has reports whether a slot is that of a member or of one within.
func (m *Member) has(slot int) bool {
	if m.slot == slot {
		return true
	}
	for _, inner := range m.members {
		if inner.has(slot) {
			return true
		}
	}
	return false
}

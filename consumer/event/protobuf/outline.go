package protobuf

import (
	"errors"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
)

// Outline is an event.Outliner: of the message that the frame of a value names.
func Outline(w *event.Writer, f *framing.Frame, maxDepth int) ([]event.Leaf, error) {
	compiled, err := Compile(w, nil, nil, maxDepth)
	if err != nil {
		return nil, err
	}
	p := compiled.(*program)
	n, _, ok := p.head(f)
	if !ok {
		return nil, errors.New("the frame names no message of the schema")
	}
	file, err := describe(w, protocompile.SourceInfoStandard)
	if err != nil {
		return nil, err
	}
	o := outline{maxDepth: maxDepth}
	for of, made := range p.compiler.made {
		if m := named(file.Messages(), of.message); made == n && m != nil {
			o.walk(m, nil)
		}
	}
	return o.leaves, nil
}

// named returns the message of a name among some and those within, nil for none.
func named(list protoreflect.MessageDescriptors, name protoreflect.FullName) protoreflect.MessageDescriptor {
	for i := range list.Len() {
		m := list.Get(i)
		if m.FullName() == name {
			return m
		}
		if inner := named(m.Messages(), name); inner != nil {
			return inner
		}
	}
	return nil
}

// outline collects leaves.
type outline struct {
	within   []protoreflect.FullName // messages that lead to where it is: a message may be within itself
	leaves   []event.Leaf
	maxDepth int
	steps    int
}

// walk adds the leaves of a message.
func (o *outline) walk(m protoreflect.MessageDescriptor, path []string) {
	if slices.Contains(o.within, m.FullName()) || len(o.within) >= o.maxDepth {
		return
	}
	o.within = append(o.within, m.FullName())
	for i := range m.Fields().Len() {
		if o.steps++; len(o.leaves) >= event.MaxLeaves || o.steps > event.MaxOutlined {
			break
		}
		f := m.Fields().Get(i)
		at := append(slices.Clone(path), string(f.Name()))
		if isMessage(f) && !f.IsList() && !f.IsMap() && specials[f.Message().FullName()] == plain {
			o.walk(f.Message(), at)
			continue
		}
		leaf := leafOf(f)
		leaf.Path, leaf.Doc = at, docOf(f)
		o.leaves = append(o.leaves, leaf)
	}
	o.within = o.within[:len(o.within)-1]
}

func isMessage(f protoreflect.FieldDescriptor) bool {
	return f.Kind() == protoreflect.MessageKind || f.Kind() == protoreflect.GroupKind
}

// docOf returns the comment of a field: that before it, else that behind it.
func docOf(f protoreflect.FieldDescriptor) string {
	at := f.ParentFile().SourceLocations().ByDescriptor(f)
	doc := strings.TrimSpace(at.LeadingComments)
	if doc == "" {
		doc = strings.TrimSpace(at.TrailingComments)
	}
	return doc
}

// leafOf says what the values of a field are.
func leafOf(f protoreflect.FieldDescriptor) event.Leaf {
	switch {
	case f.IsMap():
		return event.Leaf{Kind: event.LeafMap}
	case f.IsList():
		return event.Leaf{Kind: event.LeafList, Item: single(f).Kind}
	}
	return single(f)
}

// single says what one value of a field is.
func single(f protoreflect.FieldDescriptor) (l event.Leaf) {
	switch f.Kind() {
	case protoreflect.BoolKind:
		l.Kind = event.LeafBool
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		l.Kind = event.LeafReal
	case protoreflect.StringKind:
		l.Kind = event.LeafText
	case protoreflect.BytesKind:
		l.Kind = event.LeafBytes
	case protoreflect.EnumKind:
		l.Kind = event.LeafEnum
		values := f.Enum().Values()
		for i := range values.Len() {
			l.Symbols = append(l.Symbols, string(values.Get(i).Name()))
		}
	case protoreflect.MessageKind, protoreflect.GroupKind:
		switch specials[f.Message().FullName()] {
		case timestamp:
			l = event.Leaf{Kind: event.LeafWhole, IsTime: true, Unit: event.Nanoseconds}
		case date:
			l = event.Leaf{Kind: event.LeafWhole, IsTime: true, Unit: event.Days}
		case decimal, digits:
			l.Kind = event.LeafDecimal
		case wrapper:
			l = single(f.Message().Fields().Get(0))
		}
	default:
		l.Kind = event.LeafWhole
	}
	return l
}

package typed

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoTypes are the types of Protobuf, by kind.
var protoTypes = map[kind]string{text: "string", number: "double", truth: "bool", moment: "google.protobuf.Timestamp",
	list: "repeated string"}

// protoSchema returns the schema of events. Fields have numbers in their order.
func protoSchema(root *field) string {
	var b strings.Builder
	b.WriteString("syntax = \"proto3\";\npackage refitd;\n")
	if hasMoment(root) {
		b.WriteString("import \"google/protobuf/timestamp.proto\";\n")
	}
	protoMessage(&b, root, rootName, "")
	return b.String()
}

func hasMoment(f *field) bool {
	for _, m := range f.members {
		if m.members == nil && m.kind == moment || hasMoment(m) {
			return true
		}
	}
	return false
}

func protoMessage(b *strings.Builder, f *field, name, indent string) {
	fmt.Fprintf(b, "%smessage %s {\n", indent, name)
	for i, m := range f.members {
		of, comment := protoTypes[m.kind], ""
		switch {
		case m.members != nil:
			of = fmt.Sprintf("%s_%d", typeName([]string{m.name}), i+1)
			protoMessage(b, m, of, indent+"  ")
		case m.isOptional && m.kind != list:
			of = "optional " + of
		}
		if m.doc != "" {
			comment = "  // " + m.doc
		}
		fmt.Fprintf(b, "%s  %s %s = %d;%s\n", indent, of, m.name, i+1, comment)
	}
	fmt.Fprintf(b, "%s}\n", indent)
}

// appendProto appends a message.
func (w *Writer) appendProto(dst []byte, f *field) []byte {
	for i, m := range f.members {
		n := protowire.Number(i + 1)
		if !w.has(m) {
			continue
		}
		v := w.values[m.of]
		switch {
		case m.members != nil:
			dst = appendBytes(dst, n, w.appendProto(nil, m))
		case m.kind == text:
			dst = appendBytes(dst, n, textOf(v))
		case m.kind == number:
			dst = protowire.AppendFixed64(protowire.AppendTag(dst, n, protowire.Fixed64Type), math.Float64bits(numberOf(v)))
		case m.kind == truth:
			dst = protowire.AppendVarint(protowire.AppendTag(dst, n, protowire.VarintType), protowire.EncodeBool(truthOf(v)))
		case m.kind == moment:
			dst = appendBytes(dst, n, timestamp(w.event.Time))
		case m.kind == list:
			for _, name := range namesOf(v) {
				dst = appendBytes(dst, n, name)
			}
		}
	}
	return dst
}

// timestamp returns a google.protobuf.Timestamp of milliseconds since 1970, which are not negative.
func timestamp(ms int64) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(ms/1000))
	if nanoseconds := ms % 1000 * 1_000_000; nanoseconds > 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(nanoseconds))
	}
	return b
}

func appendBytes(dst []byte, n protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), b)
}

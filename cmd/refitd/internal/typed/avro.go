package typed

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// avroTypes are the types of Avro, by kind.
var avroTypes = map[kind]string{text: `"string"`, number: `"double"`, truth: `"boolean"`,
	moment: `{"type":"long","logicalType":"timestamp-millis"}`, list: `{"type":"array","items":"string"}`}

// rootName is the name of the type of events.
const rootName = "Event"

// avroSchema returns the schema of events.
func avroSchema(root *field) string {
	return avroRecord(root, []string{rootName})
}

func avroRecord(f *field, path []string) string {
	var fields []string
	for _, m := range f.members {
		of := avroTypes[m.kind]
		if m.members != nil {
			of = avroRecord(m, append(slices.Clone(path), m.name))
		}
		doc := ""
		if m.doc != "" {
			quoted, _ := json.Marshal(m.doc) // text
			doc = `,"doc":` + string(quoted)
		}
		if m.isOptional {
			of = `["null",` + of + `],"default":null`
		}
		fields = append(fields, fmt.Sprintf(`{"name":%q%s,"type":%s}`, m.name, doc, of))
	}
	return fmt.Sprintf(`{"type":"record","name":%q,"namespace":"refitd","fields":[%s]}`, typeName(path),
		strings.Join(fields, ","))
}

// appendAvro appends a record.
func (w *Writer) appendAvro(dst []byte, f *field) []byte {
	for _, m := range f.members {
		if m.members != nil {
			dst = w.appendAvro(dst, m)
			continue
		}
		if m.isOptional {
			if !w.has(m) {
				dst = append(dst, 0) // the branch null
				continue
			}
			dst = binary.AppendVarint(dst, 1)
		}
		v := w.values[m.of]
		switch m.kind {
		case text:
			dst = appendSized(dst, textOf(v))
		case number:
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(numberOf(v)))
		case truth:
			if truthOf(v) {
				dst = append(dst, 1)
			} else {
				dst = append(dst, 0)
			}
		case moment:
			dst = binary.AppendVarint(dst, w.event.Time)
		case list:
			names := namesOf(v)
			if len(names) > 0 {
				dst = binary.AppendVarint(dst, int64(len(names)))
			}
			for _, name := range names {
				dst = appendSized(dst, name)
			}
			dst = append(dst, 0) // the end of the blocks
		}
	}
	return dst
}

// appendSized appends bytes behind their length.
func appendSized(dst, b []byte) []byte {
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

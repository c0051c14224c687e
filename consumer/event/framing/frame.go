package framing

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
)

// An ID names a schema by which values were written. The zero value is the one schema of a file.
type ID struct {
	Kind   IDKind
	Number uint64
	GUID   [16]byte
}

// IDKind says what gave the ID.
type IDKind uint8

// The kinds of IDs.
const (
	FileID    IDKind = iota
	NumberID         // of Confluent's registry, and of those that answer as it does
	GUIDID           // the same, as 16 bytes in a header
	GlobalID         // of Apicurio, of a version of an artifact
	ContentID        // of Apicurio, of the text
	GlueID           // of a version in AWS Glue
)

// String returns words such as "schema 7".
func (id ID) String() string {
	switch id.Kind {
	case FileID:
		return "input.schema_file"
	case NumberID:
		return fmt.Sprintf("schema %d", id.Number)
	case GlobalID:
		return fmt.Sprintf("schema globalId %d", id.Number)
	case ContentID:
		return fmt.Sprintf("schema contentId %d", id.Number)
	}
	g := id.GUID
	return fmt.Sprintf("schema %x-%x-%x-%x-%x", g[:4], g[4:6], g[6:8], g[8:10], g[10:])
}

// IsNone reports whether no registry has a schema of the ID: their numbers begin at 1.
func (id ID) IsNone() bool { return id.Number == 0 && id.Kind != GUIDID && id.Kind != GlueID }

// Style is how a frame is written.
type Style uint8

// The styles of frames.
const (
	NoFrame        Style = iota
	ConfluentFrame       // 0x00 and 4 bytes
	HeaderFrame          // in a header of either; of Confluent's, Head has what is behind the GUID
	ApicurioFrame        // 0x00 and 8 bytes
	GlueFrame            // 0x03, the compression, and 16 bytes
)

// A Frame is what is around a value that was written by a schema.
type Frame struct {
	ID      ID
	Style   Style
	Head    []byte // behind a GUID in a header
	Message []byte // the name of a Protobuf message, in a header of Apicurio
	Data    []byte
}

// The first bytes of frames. Of Confluent's IDs none is 0, so four zero bytes behind the first one begin the 8 bytes of
// an ID of Apicurio.
const (
	magicNumber = 0
	magicGUID   = 1
	magicGlue   = 3

	glueStored = 0
	glueZlib   = 5
)

// Cut returns a value without its frame, with the ID of its schema. ok is false for data that cannot be
// decompressed into at most limit bytes.
func Cut(value, headers []byte, isKey bool, limit int) (f Frame, ok bool) {
	ok = f.Cut(value, headers, isKey, limit)
	return f, ok
}

// Cut is [Cut] into a frame that is there.
func (f *Frame) Cut(value, headers []byte, isKey bool, limit int) (ok bool) {
	f.ID, f.Style, f.Head, f.Message, f.Data = ID{}, NoFrame, nil, nil, value
	if len(headers) > 0 && headers[0] != 0 && f.fromHeaders(headers, isKey) {
		return true
	}
	switch {
	case len(value) >= 9 && value[0] == magicNumber && binary.BigEndian.Uint32(value[1:]) == 0:
		f.Style, f.ID.Kind, f.ID.Number = ApicurioFrame, GlobalID, binary.BigEndian.Uint64(value[1:])
		f.Data = value[9:]
	case len(value) >= 5 && value[0] == magicNumber:
		f.Style, f.ID.Kind, f.ID.Number = ConfluentFrame, NumberID, uint64(binary.BigEndian.Uint32(value[1:]))
		f.Data = value[5:]
	case len(value) >= 18 && value[0] == magicGlue && (value[1] == glueStored || value[1] == glueZlib):
		f.Style, f.ID = GlueFrame, ID{Kind: GlueID, GUID: [16]byte(value[2:18])}
		if f.Data = value[18:]; value[1] == glueZlib {
			f.Data, ok = inflate(f.Data, limit)
			return ok
		}
	}
	return true
}

// fromHeaders finds the ID in the headers of a record.
func (f *Frame) fromHeaders(headers []byte, isKey bool) bool {
	names := &valueHeaders
	if isKey {
		names = &keyHeaders
	}
	if id := HeaderOf(headers, names.guid); len(id) >= 17 && id[0] == magicGUID {
		f.Style, f.ID, f.Head = HeaderFrame, ID{Kind: GUIDID, GUID: [16]byte(id[1:17])}, id[17:]
		return true
	} else if len(id) >= 5 && id[0] == magicNumber {
		f.Style, f.ID = HeaderFrame, ID{Kind: NumberID, Number: uint64(binary.BigEndian.Uint32(id[1:]))}
		f.Head = id[5:]
		return true
	}
	f.Message = HeaderOf(headers, names.message)
	if id := HeaderOf(headers, names.global); len(id) == 8 {
		f.Style, f.ID = HeaderFrame, ID{Kind: GlobalID, Number: binary.BigEndian.Uint64(id)}
		return true
	}
	if id := HeaderOf(headers, names.content); len(id) == 8 {
		f.Style, f.ID = HeaderFrame, ID{Kind: ContentID, Number: binary.BigEndian.Uint64(id)}
		return true
	}
	return false
}

// schemaHeaders are the names of headers that have IDs.
type schemaHeaders struct{ guid, global, content, message string }

var (
	valueHeaders = schemaHeaders{"__value_schema_id", "apicurio.value.globalId", "apicurio.value.contentId",
		"apicurio.value.protobuf.type"}
	keyHeaders = schemaHeaders{"__key_schema_id", "apicurio.key.globalId", "apicurio.key.contentId",
		"apicurio.key.protobuf.type"}
)

// inflate decompresses data into at most limit bytes.
func inflate(data []byte, limit int) ([]byte, bool) {
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, false
	}
	out, err := io.ReadAll(io.LimitReader(z, int64(limit)+1))
	return out, err == nil && len(out) <= limit
}

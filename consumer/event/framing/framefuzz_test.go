package framing

import (
	"testing"
)

// FuzzFrames: whatever bytes a value and its headers have, nothing panics, and what is in a frame is no longer than an
// event may be.
func FuzzFrames(f *testing.F) {
	const uuid = "\x0f\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
	f.Add([]byte("\x00\x00\x00\x00\x07data"), headersOf("__value_schema_id", "\x01"+uuid), false)
	f.Add([]byte("\x03\x05"+uuid+"\x78\x9c\x4b\x49\x2c\x49\x04\x00\x04\x00\x01\x9b"), []byte{}, true)
	f.Add([]byte("data"), headersOf("apicurio.value.globalId", "\x00\x00\x00\x00\x00\x00\x00\x09"), true)
	f.Fuzz(func(t *testing.T, value, headers []byte, isKey bool) {
		const limit = 1000
		frame, ok := Cut(value, headers, isKey, limit)
		most := max(limit, len(value))
		if ok && len(frame.Data) > most || len(frame.Data) > most+1 {
			t.Errorf("%d bytes of a frame of %d", len(frame.Data), len(value))
		}
		if frame.ID == (ID{}) != (frame.Style == NoFrame) {
			t.Errorf("%+v", frame)
		}
		_ = frame.ID.String()
		list, n := Headers(headers)
		kept, all := Headers(CutHeaders(headers, limit))
		if len(kept) > len(list) || len(list) > 0 && all != n && kept != nil {
			t.Errorf("%d headers of %d, and %d of %d after a cut", len(list), n, len(kept), all)
		}
	})
}

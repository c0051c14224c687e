package framing

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"
)

// TestCutHeaders: what is kept of headers are whole ones, and the number of all.
func TestCutHeaders(t *testing.T) {
	all := AppendHeaders(nil, Header{"a", []byte("x\x00")}, Header{"b", nil}, Header{"a", []byte{}})
	for limit, want := range map[int]int{len(all) + 9: 3, len(all): 3, len(all) - 1: 2, 9: 2, 8: 1, 6: 1, 5: 0, 1: 0} {
		list, n := Headers(CutHeaders(all, limit))
		if n != 3 || len(list) != want {
			t.Errorf("%d bytes: %d headers of %d, want %d of 3", limit, len(list), n, want)
			continue
		}
		whole, _ := Headers(all)
		if !reflect.DeepEqual(list, whole[:want:want]) && want > 0 {
			t.Errorf("%d bytes: %q", limit, list)
		}
	}
	for _, headers := range [][]byte{nil, {}, {0}, {1}, {0xff}} {
		if list, n := Headers(headers); list != nil || n != 0 || CutHeaders(headers, 100) != nil {
			t.Errorf("%x: %v of %d", headers, list, n)
		}
	}
	if CutHeaders(all, 0) != nil {
		t.Error("no room, and something is kept")
	}
}

// TestFrames: from fixed bytes and headers, which schema a value was written by, and what the value is.
func TestFrames(t *testing.T) {
	var packed, large bytes.Buffer
	for b, text := range map[*bytes.Buffer]string{&packed: "data", &large: strings.Repeat("x", 1001)} {
		w := zlib.NewWriter(b)
		if _, err := w.Write([]byte(text)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
	}
	const uuid = "\x0f\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
	const nine = "\x00\x00\x00\x00\x00\x00\x00\x09"
	const named = "schema 0f010203-0405-0607-0809-0a0b0c0d0e0f"
	for name, c := range map[string]struct {
		value   string
		headers []byte
		isKey   bool
		id      string // empty for none
		data    string
		style   Style
	}{
		"Confluent":        {"\x00\x00\x00\x01\x02data", nil, false, "schema 258", "data", ConfluentFrame},
		"Confluent, empty": {"\x00\x00\x00\x01\x02", nil, false, "schema 258", "", ConfluentFrame},
		"Apicurio":         {"\x00" + nine[:7] + "\x03data", nil, false, "schema globalId 3", "data", ApicurioFrame},
		"Glue":             {"\x03\x00" + uuid + "data", nil, false, named, "data", GlueFrame},
		"Glue, zlib":       {"\x03\x05" + uuid + packed.String(), nil, false, named, "data", GlueFrame},
		"Glue, another":    {"\x03\x06" + uuid + "data", nil, false, "", "\x03\x06" + uuid + "data", NoFrame},
		"Glue, cut off":    {"\x03\x00" + uuid[:15], nil, false, "", "\x03\x00" + uuid[:15], NoFrame},
		"none":             {`{"a":1}`, nil, false, "", `{"a":1}`, NoFrame},
		"short":            {"\x00\x00\x00\x01", nil, false, "", "\x00\x00\x00\x01", NoFrame},
		"a GUID":           {"data", headersOf("__value_schema_id", "\x01"+uuid), false, named, "data", HeaderFrame},
		"an ID in a header": {"data", headersOf("__value_schema_id", "\x00\x00\x00\x00\x05\x02\x00"), false,
			"schema 5", "data", HeaderFrame},
		"a GUID of the key": {"\x00\x00\x00\x00\x01data", headersOf("__key_schema_id", "\x01"+uuid), false,
			"schema 1", "data", ConfluentFrame},
		"the key's": {"data", headersOf("__key_schema_id", "\x01"+uuid), true, named, "data", HeaderFrame},
		"Apicurio, in headers": {"data", headersOf("apicurio.value.globalId", nine), false,
			"schema globalId 9", "data", HeaderFrame},
		"its contents": {"data", headersOf("apicurio.key.contentId", nine), true,
			"schema contentId 9", "data", HeaderFrame},
		"a header cut off": {"data", headersOf("__value_schema_id", "\x01"+uuid[:15]), false, "", "data", NoFrame},
	} {
		f, ok := Cut([]byte(c.value), c.headers, c.isKey, 1000)
		id := ""
		if f.ID != (ID{}) {
			id = f.ID.String()
		}
		if !ok || id != c.id || string(f.Data) != c.data || f.Style != c.style {
			t.Errorf("%s: %v, %q, %q, %d", name, ok, id, f.Data, f.Style)
		}
	}
	for name, value := range map[string]string{
		"more than there may be": "\x03\x05" + uuid + large.String(),
		"no zlib":                "\x03\x05" + uuid + "data",
		"zlib cut off":           "\x03\x05" + uuid + packed.String()[:8],
	} {
		if f, ok := Cut([]byte(value), nil, false, 1000); ok {
			t.Errorf("%s: %q", name, f.Data)
		}
	}
}

// headersOf writes names and values as a record has them.
func headersOf(pairs ...string) []byte {
	var all []Header
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, Header{pairs[i], []byte(pairs[i+1])})
	}
	return AppendHeaders(nil, all...)
}

package formats_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zlib"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
)

// headers returns the headers of a record as the consumer has them.
func headers(pairs ...string) []byte {
	b := binary.AppendVarint(nil, int64(len(pairs)/2))
	for _, text := range pairs {
		b = append(binary.AppendVarint(b, int64(len(text))), text...)
	}
	return b
}

// TestEveryFrame: records in the frame of each registry, in values and in headers, are the events that plain JSON is.
// One registry is a fake of franz-go with GUIDs and references, and another one answers as Apicurio does.
func TestEveryFrame(t *testing.T) {
	confluent := srfake.New()
	defer confluent.Close()
	if _, _, err := confluent.RegisterSchema("item", sr.Schema{Schema: protoItem, Type: sr.TypeProtobuf}); err != nil {
		t.Fatal(err)
	}
	register := func(subject string, s sr.Schema) (id int, guid [16]byte) {
		t.Helper()
		if _, _, err := confluent.RegisterSchema(subject, s); err != nil {
			t.Fatal(err)
		}
		known, _ := confluent.GetSchema(subject, 1)
		raw, err := hex.DecodeString(strings.ReplaceAll(known.GUID, "-", ""))
		if err != nil || len(raw) != 16 {
			t.Fatalf("GUID %q: %v", known.GUID, err)
		}
		return known.ID, [16]byte(raw)
	}
	avroID, avroGUID := register("ratings-value", sr.Schema{Schema: avroRating})
	protoID, protoGUID := register("ratings-proto", sr.Schema{Schema: protoRating, Type: sr.TypeProtobuf,
		References: []sr.SchemaReference{{Name: "shop/item.proto", Subject: "item", Version: 1}}})
	apicurio := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, text := "AVRO", avroRating
		switch path := strings.TrimPrefix(r.URL.Path, "/apis/registry/v2"); path {
		case "/ids/globalIds/300", "/ids/contentIds/301":
		case "/ids/globalIds/302":
			kind, text = "PROTOBUF", protoRating
		case "/ids/globalIds/302/references":
			text = `[{"name":"shop/item.proto","groupId":"shop","artifactId":"item","version":"2"}]`
		case "/groups/shop/artifacts/item/versions/2":
			text = protoItem
		default:
			if text = "[]"; !strings.HasSuffix(path, "/references") {
				w.WriteHeader(http.StatusNotFound)
			}
		}
		w.Header().Set("X-Registry-ArtifactType", kind)
		_, _ = w.Write([]byte(text))
	}))
	defer apicurio.Close()

	const uuid = "\x0f\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
	eight := func(id uint64) string { return string(binary.BigEndian.AppendUint64(nil, id)) }
	four := func(id int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(id))) }
	zipped := func(data string) string {
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		if _, err := z.Write([]byte(data)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	// The message that Apicurio's serializers write before Protobuf's, which has the name of the type.
	ref := string(protowire.AppendBytes(nil,
		protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "Rating")))
	ccompat := apicurio.URL + "/apis/ccompat/v7"
	var want string
	for _, c := range []struct {
		name, format, registry string
		file                   string // input.schema_file
		frame                  func(data string) string
		headers                []byte
	}{
		{name: "JSON", format: event.FormatJSON},
		{name: "Confluent, Avro", format: event.FormatAvro, registry: confluent.URL(),
			frame: func(data string) string { return "\x00" + four(avroID) + data }},
		{name: "Confluent, Protobuf with a reference", format: event.FormatProtobuf, registry: confluent.URL(),
			frame: func(data string) string { return "\x00" + four(protoID) + "\x02\x02" + data }},
		{name: "a GUID in a header, Avro", format: event.FormatAvro, registry: confluent.URL(),
			headers: headers("a", "b", "__value_schema_id", "\x01"+string(avroGUID[:]))},
		{name: "a GUID in a header, Protobuf", format: event.FormatProtobuf, registry: confluent.URL(),
			headers: headers("__value_schema_id", "\x01"+string(protoGUID[:])+"\x02\x02")},
		{name: "an ID in a header", format: event.FormatAuto, registry: confluent.URL(),
			headers: headers("__value_schema_id", "\x00"+four(avroID))},
		{name: "Apicurio", format: event.FormatAvro, registry: ccompat,
			frame: func(data string) string { return "\x00" + eight(300) + data }},
		{name: "Apicurio, Protobuf", format: event.FormatProtobuf, registry: ccompat,
			frame: func(data string) string { return "\x00" + eight(302) + ref + data }},
		{name: "Apicurio, globalId in a header", format: event.FormatAvro, registry: ccompat,
			headers: headers("apicurio.value.globalId", eight(300), "apicurio.value.encoding", "BINARY")},
		{name: "Apicurio, contentId in a header", format: event.FormatAuto, registry: ccompat,
			headers: headers("apicurio.value.contentId", eight(301))},
		{name: "Apicurio, Protobuf in headers", format: event.FormatProtobuf, registry: ccompat,
			headers: headers("apicurio.value.globalId", eight(302), "apicurio.value.protobuf.type", "Rating")},
		{name: "Glue", format: event.FormatAvro, file: avroRating,
			frame: func(data string) string { return "\x03\x00" + uuid + data }},
		{name: "Glue, zlib", format: event.FormatAvro, file: avroRating,
			frame: func(data string) string { return "\x03\x05" + uuid + zipped(data) }},
	} {
		m, k := ingesttest.Ratings(500), new(config.Kafka)
		m.Input.Format, m.Input.FromRegistry = c.format, c.registry != ""
		k.SchemaRegistry.URL, k.SchemaRegistry.Timeout = c.registry, config.Duration(5*time.Second)
		if c.file != "" {
			m.Input.Written = &event.Writer{Format: c.format, Text: c.file}
		}
		as := c.format
		if as == event.FormatAuto {
			as = event.FormatAvro
		}
		place := "item.id"
		if as == event.FormatAvro {
			place = "item"
		}
		m.Input.Mapping.Fields = []config.MappedField{{Name: "item", Path: place}}
		store := begun(t, m)
		defer store.Close()
		schemas, err := formats.OpenSchemas(k, m, store)
		if err != nil {
			t.Fatal(err)
		}
		var list []consumer.Record
		for _, r := range records(t, as, 40) {
			if c.format != event.FormatJSON {
				data := string(r.Value[5:])
				if as == event.FormatProtobuf {
					data = data[2:]
				}
				if r.Headers = c.headers; c.frame != nil {
					data = c.frame(data)
				}
				r.Value = []byte(data)
			}
			list = append(list, r)
		}
		offer(t, ingest.NewReading(m, store, nil, schemas), list, 0, func(string) bool { return false })
		schemas.Close()
		s, err := store.State()
		if err != nil {
			t.Fatal(err)
		}
		digest := fmt.Sprint(s.SampleDigest, s.Partitions[0].Digest, s.Partitions[0].Applied)
		if want == "" {
			want = digest
		}
		if digest != want {
			t.Errorf("%s: %s, want %s; %v", c.name, digest, want, s.RejectedByReason)
		}
	}
}

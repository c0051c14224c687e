package deadletter

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/sketch"
)

// opened is what a reader of the dead-letter topic gets out of an envelope.
func opened(t *testing.T, r *kgo.Record) (model string, l sketch.DeadLetter) {
	t.Helper()
	headers := map[string]string{}
	var key []byte
	var own []framing.Header // of the rejected record
	for _, h := range r.Headers {
		if name, ok := strings.CutPrefix(h.Key, HeaderPrefix); ok {
			own = append(own, framing.Header{Name: name, Value: h.Value})
			continue
		}
		if h.Key == HeaderKey {
			key = h.Value
		}
		if _, twice := headers[h.Key]; twice {
			t.Errorf("header %s twice", h.Key)
		}
		headers[h.Key] = string(h.Value)
	}
	number := func(key string, bits int) int64 {
		n, err := strconv.ParseInt(headers[key], 10, bits)
		if err != nil {
			t.Errorf("header %s: %v", key, err)
		}
		return n
	}
	l = sketch.DeadLetter{
		Topic:       headers[HeaderTopic],
		Partition:   int32(number(HeaderPartition, 32)),
		Incarnation: uint32(number(HeaderIncarnation, 64)),
		Offset:      number(HeaderOffset, 64),
		Reason:      headers[HeaderReason],
		Detail: sketch.Detail{
			Field:    headers[HeaderField],
			Expected: headers[HeaderExpected],
			Got:      headers[HeaderGot],
			Key:      key,
			KeySize:  int(number(HeaderKeySize, 64)),
		},
		Time:    number(HeaderTimestamp, 64),
		Size:    int(number(HeaderSize, 64)),
		Payload: r.Value,
	}
	if n := number(HeaderCount, 64); n > 0 {
		l.Headers = append(binary.AppendVarint(nil, n), framing.AppendHeaders(nil, own...)[1:]...) // fewer than 64
	}
	return headers[HeaderModel], l
}

// FuzzEnvelope: what goes into an envelope comes out of it, and its size is bounded by that of the letter.
func FuzzEnvelope(f *testing.F) {
	headers := framing.AppendHeaders(nil, framing.Header{Name: "trace", Value: []byte("\x00\xff")},
		framing.Header{Name: "topic"}, framing.Header{Name: "topic", Value: []byte{}})
	f.Add("m", "ratings", int32(3), uint32(0), int64(7), "not_json", "", int64(1000), 5, []byte("{]\n\x00\xff"),
		[]byte("k"), headers)
	f.Add("m", "ratings", int32(3), uint32(0), int64(7), "not_json", "", int64(1000), 5, []byte("{]"), []byte{},
		framing.CutHeaders(headers, len(headers)-1))
	f.Add("", "", int32(-1), uint32(1<<31), int64(-1), "", "price", int64(-1<<63), -1, []byte(nil), []byte(nil),
		[]byte(nil))
	f.Add("m", "a/b", int32(0), uint32(0), int64(0), "\r\nheader: x", "\r\nfield: y", int64(0), 0, []byte{}, []byte("\n"),
		[]byte("\x02\x00\x01"))
	f.Fuzz(
		func(t *testing.T, model, topic string, partition int32, incarnation uint32, offset int64, reason, field string,
			at int64, size int, payload, key, headers []byte) {
			if list, _ := framing.Headers(headers); len(list) > 63 {
				t.Skipf("%d headers: at most 63 are read back", len(list))
			} else if len(list) == 0 {
				headers = nil
			} else { // what is behind the last whole one is not kept
				headers = framing.CutHeaders(headers, len(headers))
			}
			want := sketch.DeadLetter{
				Topic:       topic,
				Partition:   partition,
				Incarnation: incarnation,
				Offset:      offset,
				Reason:      reason,
				Detail: sketch.Detail{Field: field, Expected: "a " + field, Got: "no " + field, Key: key, KeySize: size,
					Headers: headers},
				Time:    at,
				Size:    size,
				Payload: payload,
			}
			r := Envelope(model, &want)
			gotModel, got := opened(t, r)
			if size < 0 {
				want.Payload = nil
			}
			if gotModel != model || !bytes.Equal(got.Payload, want.Payload) ||
				(got.Payload == nil) != (want.Payload == nil) {
				t.Errorf("model %q, payload %q, want %q and %q", gotModel, got.Payload, model, want.Payload)
			}
			got.Payload, want.Payload = nil, nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("letter %+v, want %+v", got, want)
			}
			if parts := strings.Split(string(r.Key), "/"); parts[len(parts)-1] != strconv.FormatInt(offset, 10) {
				t.Errorf("key %s", r.Key)
			}
			bytes := len(r.Key) + len(r.Value)
			for _, h := range r.Headers {
				bytes += len(h.Key) + len(h.Value)
			}
			if most := len(payload) + 2*len(topic) + len(model) + len(reason) + 3*len(field) + 450 + len(key) +
				5*len(headers); bytes > most {
				t.Errorf("%d bytes, want at most %d", bytes, most)
			}
		},
	)
}

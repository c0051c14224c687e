package deadletter

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/sketch"
)

// Headers of a dead letter. Their values are text, but for HeaderKey and what is behind HeaderPrefix.
const (
	HeaderModel       = "model"
	HeaderTopic       = "topic"
	HeaderPartition   = "partition"
	HeaderOffset      = "offset"
	HeaderIncarnation = "incarnation" // of the topic: how often it was accepted after it had been made anew, from 0
	HeaderReason      = "reason"
	HeaderField       = "field"     // of the schema that the reason is about; empty where it is about the value as a whole
	HeaderExpected    = "expected"  // what may be there
	HeaderGot         = "got"       // the kind of what was there, never the value itself
	HeaderTimestamp   = "timestamp" // of the rejected record, milliseconds since 1970
	// bytes of its value, -1 if it had none; more than the dead letter's value has were cut off
	HeaderSize = "size"
	// The key of the rejected record, as it was, and its bytes, -1 if it had none; more than are there were cut off.
	HeaderKey     = "key"
	HeaderKeySize = "key_size"
	// How many headers the rejected record had. The first of them follow, as they were, each behind HeaderPrefix.
	HeaderCount  = "headers"
	HeaderPrefix = "header."
)

// Envelope returns the record for a dead letter: the beginning of the rejected value under the key
// topic/partition/offset, by which copies are recognised. The rejected record's key and headers are among its headers.
// Its own time stamp is that of sending: the rejected one may be hostile.
func Envelope(model string, l *sketch.DeadLetter) *kgo.Record {
	number := func(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
	headers, count := framing.Headers(l.Headers)
	r := &kgo.Record{Key: fmt.Appendf(nil, "%s/%d/%d", l.Topic, l.Partition, l.Offset), Headers: []kgo.RecordHeader{
		{Key: HeaderModel, Value: []byte(model)},
		{Key: HeaderTopic, Value: []byte(l.Topic)},
		{Key: HeaderPartition, Value: number(int64(l.Partition))},
		{Key: HeaderOffset, Value: number(l.Offset)},
		{Key: HeaderIncarnation, Value: number(int64(l.Incarnation))},
		{Key: HeaderReason, Value: []byte(l.Reason)},
		{Key: HeaderField, Value: []byte(l.Field)},
		{Key: HeaderExpected, Value: []byte(l.Expected)},
		{Key: HeaderGot, Value: []byte(l.Got)},
		{Key: HeaderTimestamp, Value: number(l.Time)},
		{Key: HeaderSize, Value: number(int64(l.Size))},
		{Key: HeaderKey, Value: l.Key},
		{Key: HeaderKeySize, Value: number(int64(l.KeySize))},
		{Key: HeaderCount, Value: number(count)},
	}}
	for _, h := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: HeaderPrefix + h.Name, Value: h.Value})
	}
	if l.Size >= 0 {
		r.Value = l.Payload
	}
	return r
}

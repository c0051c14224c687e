package deadletter

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/sketch"
)

// Headers of a dead letter. Their values are text.
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
)

// Envelope returns the record for a dead letter: the beginning of the rejected value under the key
// topic/partition/offset, by which copies are recognised. Its own time stamp is that of sending: the rejected one may
// be hostile.
func Envelope(model string, l *sketch.DeadLetter) *kgo.Record {
	number := func(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
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
	}}
	if l.Size >= 0 {
		r.Value = l.Payload
	}
	return r
}

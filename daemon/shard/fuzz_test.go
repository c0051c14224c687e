package shard

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// FuzzRecord: whatever the merge topic has, reading heads and wishes does not panic, and what is taken has epochs that
// another can follow.
func FuzzRecord(f *testing.F) {
	for _, epoch := range []string{"1", "4294967295", "4294967296", "9223372036854775807", "18446744073709551615",
		"18446744073709551616", "-1"} {
		f.Add(
			[]byte("h\x00\x00\x00\x01"),
			fmt.Appendf(nil, `{"format":1,"model":"m","shard":1,"count":2,"by":{"epoch":%s,"name":"a"},"sent":%[1]s}`,
				epoch),
		)
		f.Add([]byte("t"),
			fmt.Appendf(nil, `{"format":1,"model":"m","by":{"epoch":%s},"passed":{"0":{"epoch":%[1]s}}}`, epoch))
	}
	f.Add([]byte("p\xff\xff\xff\xff"), []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		kind, number, _, ok := parseKey(key)
		if !ok {
			return
		}
		if number < 0 {
			t.Errorf("shard %d", number)
		}
		rec := &kgo.Record{Key: key, Value: value}
		var by instance
		switch kind {
		case kindHead:
			var h head
			if decode(rec, "m", &h) != nil {
				return
			}
			if by = h.By; h.Sent < 0 {
				t.Errorf("sent %d", h.Sent)
			}
		case kindTrainer:
			var w wishes
			if decode(rec, "m", &w) != nil {
				return
			}
			by = w.By
		}
		if next := by.Epoch + 1; next > maxEpoch || epochOf(value) >= maxEpoch {
			t.Errorf("epoch %d", by.Epoch)
		}
	})
}

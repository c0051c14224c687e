package shard

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// word returns a record of the live topic with a header as it is given.
func word(header string, rows ...byte) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(header))), header...), rows...)
}

// FuzzTold: whatever the live topic has, reading it does not panic, and keeps no more than what was written.
func FuzzTold(f *testing.F) {
	f.Add(word(`{"format":1,"model":"m","count":2,"shard":0,"by":"a","number":1,"part":0,"parts":1,"head":{}}`, 1, 'x'))
	f.Add(word(`{"format":1,"model":"m","count":2,"shard":0,"by":"a","number":9223372036854775807,"part":0,"parts":9223372036854775807}`))
	f.Add(word(`{"format":1,"model":"m","count":2,"shard":-1,"by":"a","number":1,"part":-1,"parts":0}`))
	f.Add(word(`{"format":1,"model":"m","count":2,"shard":1,"by":"a","number":1,"part":0,"parts":1}`, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1))
	f.Add([]byte{255, 255, 255, 255, '{', '}'})
	f.Fuzz(func(t *testing.T, value []byte) {
		a := telling{model: "m", count: 2, open: map[int]*Told{}, next: map[int]int{}, last: map[string]int64{}}
		for range 2 {
			told, err := a.take(&kgo.Record{Value: value})
			if err != nil || told == nil {
				continue
			}
			n := 0
			for _, row := range told.Rows {
				n += len(row)
			}
			if told.Shard < 0 || told.Shard >= 2 || n > len(value) {
				t.Errorf("shard %d, %d bytes of rows of %d", told.Shard, n, len(value))
			}
		}
	})
}

// FuzzRecord: whatever the merge topic has, reading heads and wishes does not panic, and what is taken has epochs that another can follow.
func FuzzRecord(f *testing.F) {
	for _, epoch := range []string{"1", "4294967295", "4294967296", "9223372036854775807", "18446744073709551615", "18446744073709551616", "-1"} {
		f.Add([]byte("h\x00\x00\x00\x01"), fmt.Appendf(nil, `{"format":1,"model":"m","shard":1,"count":2,"by":{"epoch":%s,"name":"a"},"sent":%[1]s}`, epoch))
		f.Add([]byte("t"), fmt.Appendf(nil, `{"format":1,"model":"m","by":{"epoch":%s},"passed":{"0":{"epoch":%[1]s}}}`, epoch))
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

// TestPartsAreBounded: what a shard tells in more parts than there can be is refused, and runs that are over are forgotten in the end.
func TestPartsAreBounded(t *testing.T) {
	a := telling{model: "m", count: 2, open: map[int]*Told{}, next: map[int]int{}, last: map[string]int64{}}
	const text = `{"format":1,"model":"m","count":2,"shard":0,"by":%q,"number":1,"part":0,"parts":%d,"head":{}}`
	if _, err := a.take(&kgo.Record{Value: word(fmt.Sprintf(text, "a", maxToldParts+1))}); err == nil || len(a.open) > 0 {
		t.Errorf("%v, %d open", err, len(a.open))
	}
	for i := range 2*maxToldRuns + 10 {
		if told, err := a.take(&kgo.Record{Value: word(fmt.Sprintf(text, fmt.Sprint(i), 1))}); err != nil || told == nil || len(a.last) > maxToldRuns {
			t.Fatalf("run %d: %v, %v; %d are remembered", i, told, err, len(a.last))
		}
	}
}

package cycle

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/refitd/refitd/daemon/report"
)

// TestImplausibleStretch: words of offsets that one process cannot have read are refused when they come, and what comes next is learned.
func TestImplausibleStretch(t *testing.T) {
	cut := func(topic string, partition int32, next int64) []report.Cut {
		return []report.Cut{{Topic: topic, Partition: partition, Next: next}}
	}
	for name, h := range map[string]learnedHead{
		"the largest end":          {From: cut("t", 0, 100), To: cut("t", 0, math.MaxInt64)},
		"an end far above":         {From: cut("t", 0, 100), To: cut("t", 0, 101+maxStretch)},
		"a stretch that overflows": {From: cut("t", 0, math.MinInt64), To: cut("t", 0, math.MaxInt64)},
		"an end below its start":   {From: cut("t", 0, 100), To: cut("t", 0, 99)},
		"another partition":        {From: cut("t", 0, 100), To: cut("t", 1, 200)},
		"an end without a start":   {To: cut("t", 0, 100)},
		"a version below 0":        {Version: -1},
		"a time below 0":           {Watermark: math.MinInt64},
	} {
		text, err := json.Marshal(&h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeLearned(text, nil); !errors.Is(err, errStretch) {
			t.Errorf("%s: %v", name, err)
		}
	}

	events := stream(3, 2200)
	cycles, _ := sharers(t, 2, ratingsModel(nil), events[:2000])
	far := &Learned{Champion: "sha256:seven", Version: 7, From: cut("t", 0, 200+maxStretch), To: cut("t", 0, 201+maxStretch),
		Parts: make([]LearnedPart, len(cycles[1].sharing.parts))}
	if _, err := cycles[1].Apply(far); !errors.Is(err, errStretch) {
		t.Errorf("a start far above what is known: %v", err)
	}
	observeIn(cycles[0], 0, 100, events[2000:])
	if missed, err := cycles[1].Apply(toldBy(t, cycles[0])); missed != 0 || err != nil {
		t.Errorf("what comes next: %d missed, %v", missed, err)
	}
	if known, _ := cycles[1].Known(); known[0].Next != 300 {
		t.Errorf("known up to %v", known)
	}
}

// FuzzDecodeLearned: whatever a word holds, reading it does not panic and takes no more memory than a few times its bytes.
func FuzzDecodeLearned(f *testing.F) {
	head := []byte(`{"champion":"c","version":1,"from":[{"topic":"t","partition":0,"next":1}],"to":[{"topic":"t","partition":0,"next":9}],` +
		`"watermark":1,"rates":[[{"keep":1,"added":[0.5]}]]}`)
	f.Add(head, []byte{0, 1, 1, 'a', 0})
	f.Add(head, []byte{eventRow, 1, 'x', 0, 1, 0, 0, 128, 63})
	f.Add(head, []byte{firstKind})
	f.Add(head, []byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Add(head, []byte{eventRow, 255, 255, 255, 255, 255, 255, 255, 255, 127})
	f.Add([]byte(`{"from":[{"next":1}],"to":[{"next":9223372036854775807}],"rates":[]}`), []byte{})
	f.Fuzz(func(t *testing.T, head, row []byte) {
		l, err := DecodeLearned(head, [][]byte{row})
		if err != nil {
			return
		}
		for i, to := range l.To {
			if from := l.From[i]; from.Next < 0 || to.Next < from.Next || to.Next-from.Next > maxStretch {
				t.Errorf("from %v to %v", from, to)
			}
		}
		for _, p := range l.Parts {
			for _, r := range p.Rows {
				if n := len(r.Increment.Added) + len(r.Increment.Keep) + len(r.Increment.Loss) + len(r.Name); n > len(row) {
					t.Errorf("%d numbers of %d bytes", n, len(row))
				}
			}
		}
	})
}

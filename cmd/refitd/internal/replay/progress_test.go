package replay

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/dataset"
)

func TestProgressLine(t *testing.T) {
	p := progress{acknowledged: new(atomic.Int64), began: time.Unix(0, 0)}
	p.acknowledged.Store(500)
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{0, 0, "replay: 500 records, 250 a second"},
		{0, 100, "replay: [                              ]   0 %  500 records, 250 a second"},
		{50, 100, "replay: [==============>               ]  50 %  500 records, 250 a second, 2s left"},
		{100, 100, "replay: [==============================] 100 %  500 records, 250 a second, 0s left"},
		{200, 100, "replay: [==============================] 100 %  500 records, 250 a second, 0s left"},
	} {
		p.set(c.done, c.total)
		if got := p.line(time.Unix(2, 0)); got != c.want {
			t.Errorf("%d of %d:\n%s, want\n%s", c.done, c.total, got, c.want)
		}
	}
}

// TestCSVAndLIBSVM: files of both formats become events in the topic, with their keys, and what cannot is told by line.
func TestCSVAndLIBSVM(t *testing.T) {
	for format, c := range map[dataset.Format]struct{ text, want, key string }{
		dataset.CSV:    {"user,x,ts\n" + strings.Repeat("a,1,2\n1,2,3,4\n", 15), `{"user":"a","x":1,"ts":2}`, "a"},
		dataset.LIBSVM: {strings.Repeat("+1 1:0.5 2:1\n1 x\n", 15), `{"label":1,"1":0.5,"2":1}`, ""},
	} {
		cluster := startBroker(t)
		var log bytes.Buffer
		o := options(t, cluster, c.text)
		o.Format, o.Partitions, o.Log = format, 1, slog.New(slog.NewTextHandler(&log, nil))
		summary, err := Run(context.Background(), o)
		if err != nil || summary.Records != 15 || summary.Acknowledged != 15 || summary.SkippedLines != 15 {
			t.Fatalf("%s: %+v, %v", format, summary, err)
		}
		for _, r := range topic(t, cluster, 15)[0] {
			if string(r.Value) != c.want || string(r.Key) != c.key {
				t.Errorf("%s: record %s with key %q", format, r.Value, r.Key)
			}
		}
		if text := log.String(); !strings.Contains(text, "lines=15 first=\"[") || strings.Count(text, "\n") != 1 || strings.Count(text, " ") < 10 {
			t.Errorf("%s: log %s", format, text)
		}
	}
}

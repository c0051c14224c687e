package replay

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
)

// TestMappedColumns: columns of a file without a header become the fields that they are said to be.
func TestMappedColumns(t *testing.T) {
	cluster := startBroker(t)
	o := options(t, cluster, "a,1,2\nb,3,4\n")
	o.Format, o.Partitions, o.Columns, o.Map = "", 1, []string{"userId", "x", "at"}, map[string]string{"user": "userId", "ts": "at"}
	if summary, err := Run(context.Background(), o); err != nil || summary.Acknowledged != 2 {
		t.Fatalf("%+v, %v", summary, err)
	}
	if r := topic(t, cluster, 2)[0][1]; string(r.Value) != `{"user":"b","x":3,"ts":4}` || string(r.Key) != "b" {
		t.Errorf("record %s with key %q", r.Value, r.Key)
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

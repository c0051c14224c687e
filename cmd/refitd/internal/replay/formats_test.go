package replay

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
)

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

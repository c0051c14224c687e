package replay

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
)

// TestMappedColumns: columns of a file without a header become the fields that they are said to be.
func TestMappedColumns(t *testing.T) {
	cluster := startBroker(t)
	o := options(t, cluster, "a,1,2\nb,3,4\n")
	o.Format, o.Partitions, o.Columns, o.Map = "", 1, []string{
		"userId",
		"x",
		"at",
	}, map[string]string{
		"user": "userId",
		"ts":   "at",
	}
	if summary, err := Run(context.Background(), o); err != nil || summary.Acknowledged != 2 {
		t.Fatalf("%+v, %v", summary, err)
	}
	if r := topic(t, cluster, 2)[0][1]; string(r.Value) != `{"user":"b","x":3,"ts":4}` || string(r.Key) != "b" {
		t.Errorf("record %s with key %q", r.Value, r.Key)
	}
}

// TestCSVAndLIBSVM: files of both formats become events in the topic, with their keys, and what cannot is reported by
// line.
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
		if text := log.String(); !strings.Contains(text, "lines=15 first=\"[") || strings.Count(text, "\n") != 1 ||
			strings.Count(text, " ") < 10 {
			t.Errorf("%s: log %s", format, text)
		}
	}
}

// TestForAModel: cells go as the model reads them, with the fields of its schema alone, whatever they look like; the
// key may be another column. Without a model they go as init takes them.
func TestForAModel(t *testing.T) {
	text := "user,id,price,clicked,tags,day,zip\n" + strings.Repeat(
		" 7.0, 49018e16, +.5, True, a|b, 2024-01-02, 04\n 8.0, 00e1, 1., False, b, 2024-01-03, 05\n", 20)
	schema := config.Schema{Task: "binary", Label: "clicked", Time: "day", TimeUnit: "s", Categorical: []string{"id",
		"zip"}, Numeric: []string{"price"},
		Multi: []string{"tags"}}
	const want = `{"clicked":true,"id":"49018e16","zip":"04","price":0.5,"tags":["a","b"],"day":1704153600}`
	const loose = `{"user":"7.0","id":"49018e16","price":0.5,"clicked":true,"tags":["a","b"],` +
		`"day":"2024-01-02T00:00:00Z","zip":"04"}`
	for want, m := range map[string]*config.Model{want: {Name: "m", Schema: schema}, loose: nil} {
		cluster := startBroker(t)
		o := options(t, cluster, text)
		o.Format, o.Partitions, o.For, o.EventTime = dataset.CSV, 1, m, true
		if summary, err := Run(context.Background(), o); err != nil || summary.Acknowledged != 40 {
			t.Fatalf("%+v, %v", summary, err)
		}
		if r := topic(t, cluster, 40)[0][0]; string(r.Value) != want || string(r.Key) != "7.0" ||
			r.Timestamp.Unix() != 1_704_153_600 {
			t.Errorf("record %s with key %q of %v, want %s", r.Value, r.Key, r.Timestamp, want)
		}
	}
}

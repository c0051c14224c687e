package web

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot/format"
)

// calm is a daemon with one model that does well.
func calm(now time.Time) statuspage.Status {
	slices := &report.Slices{NewEntity: report.Scores{Published: metricsOf(1.1), Live: metricsOf(1.0)},
		KnownEntity: report.Scores{Published: metricsOf(0.9), Live: metricsOf(0.9)}}
	version := report.Version{
		Model:         "ratings",
		Version:       2,
		Kind:          "refit",
		Decision:      "promoted",
		Reason:        "gate loss 0.9, champion 1.0 on 400 rows",
		K:             8,
		Features:      1834,
		Outputs:       4,
		Rows:          50_000,
		Status:        "converged",
		Form:          "convex",
		PayloadDigest: "sha256:2",
	}
	return statuspage.Status{
		Now:     now,
		Started: now.Add(-time.Hour),
		Memory:  statuspage.MemoryStatus{ResidentBytes: 300 << 20, ComputedBytes: 1 << 30, BudgetBytes: 2 << 30},
		Disks:   []statuspage.DiskStatus{{Path: "/var/lib/refitd", FreeBytes: 80 << 30, MinFreeBytes: 512 << 20}},
		Models: []statuspage.ModelStatus{
			{
				Name:        "ratings",
				Champion:    &version,
				Published:   now.Add(-90 * time.Second),
				Judged:      &version,
				LastRefit:   now.Add(-time.Minute),
				Events:      720_000,
				Applied:     720_000,
				Lag:         41,
				SampleRows:  55_000,
				SampleBytes: 5 << 20,
				Ranking: &statuspage.RankingStatus{
					Published:  report.Metrics{N: 1000, Recall10: report.Some(0.19), NDCG10: report.Some(0.1)},
					Popularity: report.Metrics{N: 1000, Recall10: report.Some(0.09), NDCG10: report.Some(0.05)},
				},
				Sample: statuspage.SampleStatus{Train: 50_000, Holdout: 5000, Size: 50_000, Bytes: 5 << 20, MaxBytes: 64 << 20,
					Ages: &report.SampleAges{
						Rows: []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384},
					}},
				Progressive: report.Progressive{
					N:       720_000,
					WindowN: 20_000,
					Window:  report.Scores{Published: metricsOf(0.96), Live: metricsOf(0.93)},
					Slices:  slices,
					Baselines: report.Baselines{
						GlobalMean: metricsOf(1.12),
						ItemMean:   metricsOf(1.03),
					},
					Parts: []report.Part{{Name: "fold_in", Weight: 1}},
				},
				Partitions: []statuspage.PartitionStatus{
					{
						Topic:     "ratings",
						Partition: 0,
						Next:      360_000,
						End:       360_020,
						Lag:       20,
						Applied:   360_000,
						Rows:      27_000,
					},
					{
						Topic:     "ratings",
						Partition: 1,
						Next:      360_000,
						End:       360_021,
						Lag:       21,
						Applied:   360_000,
						Rows:      28_000,
					},
				},
			},
		},
	}
}

// example is a version with a golden event that has all fields.
func example(task string) *format.Contents {
	c := contents(task, 2)
	c.Golden[0].Input = *input("u1", "i1", 33, "a")
	return c
}

// TestPageInABrowser opens the pages in six states, in light and dark, on a desk and on a phone, goes through them by
// keyboard, asks, moves the champion, and has the daemon restarted.
func TestPageInABrowser(t *testing.T) {
	browser := os.Getenv("REFITD_BROWSER")
	if browser == "" {
		t.Skip(".ci/page asks for it: REFITD_BROWSER names no browser")
	}
	now := time.Now()
	served := func(state statuspage.Status, models int, versions int) string {
		b := newBench(t, func(o *Options) {
			store, dir := o.Models[0].Store, o.Models[0].Dir
			if models > 0 {
				o.Models = nil
			}
			for i := range models {
				name := fmt.Sprintf("model-%02d", i)
				o.Models = append(o.Models, Model{Name: name, Dir: dir, Store: store})
				state.Models = append(state.Models, calm(now).Models[0])
				state.Models[i].Name = name
			}
			o.Registry = prometheus.NewRegistry()
			ring := curvesOf(t, now)
			withLifecycle(o)
			for i := range o.Models {
				o.Models[i].Curves = ring
				o.Models[i].Rejected = func() []statuspage.RejectedRecord {
					return []statuspage.RejectedRecord{{Topic: "ratings", Partition: 3, Offset: 1204330, Time: now, Bytes: 31,
						Reason: "wrong_type", Field: "rating", Expected: "a number from 1 to 5", Got: "a string",
						Outline: `{"user": <string of 2>, "rating": <string of 4>}`}}
				}
				o.Models[i].Calibration = func() report.Calibration {
					bins := []report.CalibrationBin{
						{N: 100, Predicted: 2, Observed: 2.1},
						{N: 100, Predicted: 3.5, Observed: 3.4},
					}
					return report.Calibration{Published: bins, Live: bins}
				}
			}
		})
		name := "ratings"
		if models > 0 {
			name = "model-00"
		}
		one := int64(1)
		for range versions {
			next := example(format.Ordinal)
			next.Meta.Parent, next.Meta.Reason, next.Meta.Created = &one, "gate loss 0.9, champion 1.0 on 400 rows", now
			if models > 0 {
				next.Meta.Parent = nil
			}
			b.publish(t, name, next)
		}
		if len(state.Models) == len(tasks) {
			for name, task := range tasks {
				b.publish(t, name, example(task))
			}
		}
		b.fake.state = state
		addr, _ := b.listen(t)
		within(t, patience, "the champion", func() bool { return b.caches[name].champion() != nil || versions == 0 })
		return "http://" + addr + "/"
	}
	// A model of each task, for what is asked of them.
	tasked := calm(now)
	one := tasked.Models[0]
	tasked.Models = nil
	for name := range tasks {
		one.Name, one.Ranking = name, nil
		tasked.Models = append(tasked.Models, one)
	}
	young := calm(now)
	young.Models[0] = statuspage.ModelStatus{Name: "ratings", Waiting: "no version yet: no event was read"}
	dark := night(`<script>alert(1)</script>`)
	dark.Models[0].Champion.Version = 2 // that there is
	dark.Now, dark.Models[0].Published = now, now.Add(-9*time.Hour)
	dark.Models[0].RefitFailure = "the sample has rows of one class alone"
	dark.Models[0].Rejections = []statuspage.Rejections{{Reason: "bad_type", Field: "rating", Records: 5000},
		{Reason: "not_json", Records: 12}}
	dark.Models[0].Partitions = []statuspage.PartitionStatus{
		{Topic: "ratings", Partition: 3, Next: 1204331, End: 1300000, Lag: 95669, Halted: "the topic was made anew"},
	}
	heard := now.Add(-2 * time.Second)
	dark.Models[0].Shards = []statuspage.ShardStatus{
		{Host: "refitd-0", Merged: &heard, Learned: &heard},
		{Shard: 1, Host: "refitd-1", Merged: &heard, Lag: 88012},
		{Shard: 2, Host: "refitd-2", Merged: &heard, Refused: "sample.seed is 2 there and 1 here"},
		{Shard: 3},
	}
	silent := calm(now.Add(10 * time.Minute)) // the curves end now
	silent.Models[0].Lag = 0
	pages := []string{
		"well=" + served(calm(now), 0, 3),
		"night=" + served(dark, 0, 1),
		"silent=" + served(silent, 0, 1),
		"young=" + served(young, 0, 0),
		"empty=" + served(statuspage.Status{Now: now, Started: now}, 0, 0),
		"tasks=" + served(tasked, 0, 0),
		"many=" + served(statuspage.Status{Now: now, Started: now}, 50, 1000),
	}
	cmd := exec.CommandContext(
		t.Context(),
		"node",
		append([]string{filepath.Join("testdata", "browser.cjs")}, pages...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var found struct {
		Wrong []string
		Times struct{ Opened, Opening, Versions, Listing float64 } // milliseconds; those in -ing are of the page's own work
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, text := range found.Wrong {
		t.Error(text)
	}
	x := found.Times
	t.Logf(
		"50 models: shown after %.0f ms, of which the page works %.0f; 1,000 versions of one: %.0f ms, of which it "+
			"works %.0f",
		x.Opened,
		x.Opening,
		x.Versions,
		x.Listing,
	)
	if x.Opening > 1000 || x.Listing > 1000 || x.Opening == 0 || x.Listing == 0 {
		t.Errorf("the page works for %.0f and %.0f ms, a second is allowed for each", x.Opening, x.Listing)
	}
}

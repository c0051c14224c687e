package daemon

import (
	"reflect"
	"testing"

	"github.com/refitd/refitd/daemon/web/statuspage"
)

// TestAddShard: what the shards of a process say of a model is summed up, with the shard where it matters.
func TestAddShard(t *testing.T) {
	one := statuspage.ModelStatus{
		NotReady:   []statuspage.Reason{{Cause: "reading", Text: "connecting"}},
		Events:     1,
		Applied:    2,
		Lag:        3,
		Halted:     []statuspage.HaltedPartition{{Partition: 1}},
		Partitions: []statuspage.PartitionStatus{{Partition: 1}},
		Rejections: []statuspage.Rejections{
			{Reason: "not_json", Records: 5},
		},
		AbsentFields: []string{"price (a.price)"},
		SampleRows:   6,
		SampleBytes:  7,
		Sample:       statuspage.SampleStatus{Train: 4, Holdout: 2, Size: 100, Bytes: 7, MaxBytes: 1000},
	}
	other := one
	other.Rejections = []statuspage.Rejections{
		{Reason: "not_json", Records: 1},
		{Reason: "label_range", Field: "rating", Records: 9},
	}
	other.TimeUnit, other.TrueTimeUnit = "ms", "s"
	other.AbsentFields = []string{"price (a.price)", "kind (a.kind)"}
	got := statuspage.ModelStatus{Name: "m"}
	addShard(&got, one, 3)
	addShard(&got, other, 7)
	want := statuspage.ModelStatus{
		Name: "m",
		NotReady: []statuspage.Reason{
			{Cause: "reading", Text: "shard 3: connecting"},
			{Cause: "reading", Text: "shard 7: connecting"},
		},
		Events:     2,
		Applied:    4,
		Lag:        6,
		Halted:     []statuspage.HaltedPartition{{Partition: 1}, {Partition: 1}},
		Partitions: []statuspage.PartitionStatus{{Partition: 1}, {Partition: 1}},
		Rejections: []statuspage.Rejections{
			{Reason: "label_range", Field: "rating", Records: 9},
			{Reason: "not_json", Records: 6},
		},
		AbsentFields: []string{
			"price (a.price)",
			"kind (a.kind)",
		},
		TimeUnit:     "ms",
		TrueTimeUnit: "s",
		SampleRows:   12,
		SampleBytes:  14,
		Sample:       statuspage.SampleStatus{Train: 8, Holdout: 4, Size: 100, Bytes: 14, MaxBytes: 1000},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

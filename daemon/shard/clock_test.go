package shard

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestAhead: a clock is compared with that of the brokers where they stamp what they append, however long ago that was;
// else with this host's, and only of heads that were just written.
func TestAhead(t *testing.T) {
	written := time.Now().Add(-3 * time.Hour)
	byBroker := kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
	for _, test := range []struct {
		what    string
		attrs   kgo.RecordAttrs
		current bool
		clock   time.Time
		want    float64 // seconds, about
		known   bool
	}{
		{"stamped by brokers", byBroker, false, written.Add(90 * time.Second), 90, true},
		{"stamped by brokers, read live", byBroker, true, written.Add(-time.Minute), -60, true},
		{"stamped by the shard, an old head", kgo.RecordAttrs{}, false, written, 0, false},
		{"stamped by the shard, read live", kgo.RecordAttrs{}, true, time.Now().Add(time.Hour), 3600, true},
		{"of a build that does not say", byBroker, true, time.UnixMilli(0), 0, false},
	} {
		r := &Receiver{current: test.current}
		got := r.ahead(&kgo.Record{Attrs: test.attrs, Timestamp: written}, &head{Clock: test.clock.UnixMilli()})
		if (got != nil) != test.known || got != nil && (got.Seconds() < test.want-10 || got.Seconds() > test.want+10) {
			t.Errorf("%s: %v, want %v s", test.what, got, test.want)
		}
	}
}

package daemon_test

import (
	"context"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// TestReplicasOfOneGroup runs two daemons with the same group id and seed over the same topic at the same time, one of them stopped and
// started again twenty times: there are no members and no rebalances, both read everything, and in the end both hold the same sample.
func TestReplicasOfOneGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	steady := b.configure("steady", "group_id: g-steady", "group_id: shared")
	restless := b.configure("restless", "group_id: g-restless", "group_id: shared")
	_, stop := b.start(steady)
	for round := range 20 {
		b.produceRatings(uint64(100+round), 200)
		conf, err := config.Load(restless)
		if err != nil {
			t.Fatal(err)
		}
		d, err := daemon.New(t.Context(), daemon.Options{Config: conf, Out: report.NewEmitter(io.Discard, true), Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round*7)*time.Millisecond)
		err = d.Run(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	stop()
	one, other := b.run(steady), b.run(restless)
	if one.err != nil || other.err != nil {
		t.Fatal(one.err, other.err)
	}
	mine, theirs := one.state(t), other.state(t)
	applied := int64(0)
	for _, p := range mine.Partitions {
		applied += p.Applied
	}
	if applied != 4000 {
		t.Errorf("%d events applied, want 4000", applied)
	}
	if !reflect.DeepEqual(mine, theirs) {
		t.Errorf("the states differ:\n%+v\n%+v", mine, theirs)
	}
}

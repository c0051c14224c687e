package daemon_test

import (
	"context"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// TestReplicasOfOneGroup runs two daemons with the same group id and seed over the same topic at the same time, one of
// them stopped and started again twenty times: there are no members and no rebalances, both read everything, and in the
// end both hold the same sample.
func TestReplicasOfOneGroup(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	for _, name := range []string{"steady", "restless"} { // an empty state would be refused where the group has offsets
		if o := b.Run(b.Configure(name)); report.CodeOf(o.Err) != report.ExitNo { // there is nothing to read yet
			t.Fatal(o.Err)
		}
	}
	steady := b.Configure("steady", "group_id: g-steady", "group_id: shared")
	restless := b.Configure("restless", "group_id: g-restless", "group_id: shared")
	_, stop := b.Start(steady)
	for round := range 20 {
		b.ProduceRatings(uint64(100+round), 200)
		conf, err := config.Load(restless)
		if err != nil {
			t.Fatal(err)
		}
		d, err := daemon.New(t.Context(),
			daemon.Options{Config: conf, Out: report.NewEmitter(io.Discard, true), Log: daemontest.Quiet()})
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
	one, other := b.Run(steady), b.Run(restless)
	if one.Err != nil || other.Err != nil {
		t.Fatal(one.Err, other.Err)
	}
	mine, theirs := one.State(t), other.State(t)
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

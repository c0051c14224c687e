package daemon_test

import (
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
)

// TestRunThatCameToNothing: a run to the log ends that applied nothing, or made no refit, ends with exit code 1 and
// the reason. One that had nothing new to read and refits what it has is done.
func TestRunThatCameToNothing(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	path := b.Configure("nothing", daemontest.Simple...)
	comesTo := func(code int, says string) {
		t.Helper()
		o := b.Run(path)
		if len(o.Summary.Models) != 1 {
			t.Fatalf("no summary: %v", o.Err)
		}
		if got := report.CodeOf(o.Err); got != code || !strings.Contains(o.Summary.Models[0].Failure, says) ||
			(says == "") != (o.Summary.Models[0].Failure == "") {
			t.Errorf("exit code %d, %q; want %d, %q", got, o.Summary.Models[0].Failure, code, says)
		}
	}
	comesTo(report.ExitNo, "nothing was applied: no record was read")
	b.Produce([]byte(`{"user":"u1"}`), []byte(`{}`))
	comesTo(report.ExitNo, "nothing was applied: 2 records read and rejected")
	b.ProduceRatings(1, 1000)
	comesTo(report.ExitDone, "")
	comesTo(report.ExitDone, "")
}

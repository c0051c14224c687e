package versions

import (
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/evaluate"
	"github.com/refitd/refitd/daemon/offline/fit/fittest"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

func TestSnapshotNotThere(t *testing.T) {
	ref, _, _ := fittest.Published(t)
	for _, c := range []struct {
		ref  offline.SnapshotRef
		code int
	}{
		{offline.SnapshotRef{Versions: offline.Versions{Store: t.TempDir(), Model: "toy"}}, report.ExitModel},
		{offline.SnapshotRef{Versions: offline.Versions{Store: ref.Store, Model: "other"}}, report.ExitModel},
		{offline.SnapshotRef{Versions: offline.Versions{Store: ref.Store, Model: "toy"}, Alias: "canary"}, report.ExitModel},
		{offline.SnapshotRef{Versions: offline.Versions{Store: ref.Store, Model: "toy"}, Version: 9}, report.ExitModel},
		{offline.SnapshotRef{Versions: offline.Versions{Store: ref.Store, Model: "../toy"}}, report.ExitUsage},
	} {
		_, err := offlinetest.Collect(t, func(out *report.Emitter) error {
			return evaluate.Score(t.Context(), c.ref, evaluate.ScoreOptions{}, strings.NewReader(""), out)
		})
		offlinetest.WantExit(t, err, c.code)
		_, err = offlinetest.Collect(t, func(out *report.Emitter) error { return InspectSnapshot(c.ref, "", out) })
		offlinetest.WantExit(t, err, c.code)
	}
}

//go:build unix

package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
)

// J20: a daemon that is stopped while it publishes, and while the brokers that it announces to are away, has failed at
// nothing: no error is logged and no version is left behind.
func TestStopWhilePublishing(t *testing.T) {
	t.Parallel()
	r := startRefitting(t, "interrupt", "publish: {", "publish: {topic: champions, ")
	r.publish()
	lock, err := os.OpenFile(filepath.Join(r.dir, ".lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	metric := func(name string) float64 {
		_, metrics := daemontest.Get(t, r.web+"/metrics")
		return daemontest.Sum(t, metrics, name)
	}
	judged := func() float64 { return metric("refitd_gate_decisions_total") }
	daemontest.Within(t, daemontest.Patience, "the announcement of the first version", func() bool {
		return metric(`refitd_announcements_total{model="ratings",result="success"}`) > 0
	})
	before := judged()
	if err := r.refit(); err != nil {
		t.Fatal(err)
	}
	daemontest.Within(t, daemontest.Patience, "a version that waits for the store",
		func() bool { return judged() > before })
	r.b.Broker.Close()
	r.stop()
	if log := r.log.String(); strings.Contains(log, `"level":"ERROR"`) ||
		!strings.Contains(log, "publication called off") {
		t.Errorf("the log of a daemon that was stopped:\n%s", log)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if versions, err := r.store.Versions("ratings"); err != nil || len(versions) != 1 {
		t.Errorf("versions %v, %v", versions, err)
	}
}

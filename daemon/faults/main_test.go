package faults_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// The built command, and the same with failpoints.
var refitd, refitdFailing string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if !tier.Asked(tier.Broker, tier.Kills, tier.Load) {
		return m.Run() // nothing that wants the command
	}
	dir, err := os.MkdirTemp("", "refitd-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	refitd, refitdFailing = filepath.Join(dir, "refitd"), filepath.Join(dir, "refitd-failing")
	for _, args := range [][]string{{"-o", refitd}, {"-o", refitdFailing, "-tags", "failpoint"}} {
		build := exec.Command(
			"go",
			append(append([]string{"build"}, args...), "github.com/refitd/refitd/cmd/refitd")...)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build refitd:", err)
			return 1
		}
	}
	defer shared.stop()
	return m.Run()
}

var errLate = errors.New("too late")

// until calls f every 20 ms until it returns nil, and returns its last error if that does not happen in time.
func until(limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		if errors.Is(err, errEnded) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: not within %v: %w", errLate, limit, err)
		}
		<-tick.C
	}
}

// within is until, fatal to the test.
func within(t *testing.T, limit time.Duration, f func() error) {
	t.Helper()
	if err := until(limit, f); err != nil {
		t.Fatal(err)
	}
}

// pause lets a load run for a while: the one thing that a test here waits for without a condition.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

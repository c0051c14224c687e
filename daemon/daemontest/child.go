package daemontest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// ChildConfig names, in the environment of a test binary, the configuration that it runs to the log ends as a child
// process or, with ChildEndless, until it is killed.
const (
	ChildConfig  = "REFITD_TEST_CONFIG"
	ChildEndless = "REFITD_TEST_ENDLESS"
)

// Main is the TestMain of packages whose tests start children. It runs four of the parallel tests at a time: they wait
// rather than compute.
func Main(m *testing.M) {
	if path := os.Getenv(ChildConfig); path != "" {
		os.Exit(child(path))
	}
	CollectLate()
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// CollectLate has the collector of a process with several daemons run late. Each daemon would bound the memory of all
// to what it alone needs, over which a quarter of the processor time of their tests went.
func CollectLate() {
	const percent = 400
	debug.SetGCPercent(percent)
	os.Setenv("GOGC", strconv.Itoa(percent)) // a daemon leaves alone what the environment says
	os.Setenv("GOMEMLIMIT", "off")
}

// child is `refitd run [--until end] --json`.
func child(path string) int {
	conf, err := config.Load(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return report.ExitUsage
	}
	d, err := daemon.New(context.Background(), daemon.Options{Config: conf, UntilEnd: os.Getenv(ChildEndless) == "",
		Out: report.NewEmitter(os.Stdout, true), Log: Quiet()})
	if err == nil {
		err = d.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		fmt.Fprintf(os.Stderr, "%s\n", peakMemory.Find(status))
	}
	return report.CodeOf(err)
}

// peakMemory is the line with it in the status of a process. What a parent learns of its child when that has ended is
// no less than its own.
var peakMemory = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// PeakMemory returns the peak memory of a child that has ended, in kB, from what it wrote to standard error.
func PeakMemory(t *testing.T, stderr *bytes.Buffer) (kilobytes int64) {
	t.Helper()
	m := peakMemory.FindSubmatch(stderr.Bytes())
	if m == nil {
		t.Skip("the system does not say how much memory a process had at most")
	}
	kilobytes, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes
}

// ChildOf is this test binary as `refitd run --until end --json`.
func ChildOf(t *testing.T, path string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd, stderr = exec.CommandContext(t.Context(), os.Args[0]), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), ChildConfig+"="+path, "GOGC=", "GOMEMLIMIT=") // as a user's: see CollectLate
	cmd.Stderr = stderr
	return cmd, stderr
}

// Endless starts a child that runs until it is killed, which it is at the end of the test at the latest, and returns it
// with the address of its listener.
func Endless(t *testing.T, path string) (cmd *exec.Cmd, base string) {
	t.Helper()
	cmd, stderr := ChildOf(t, path)
	cmd.Env = append(cmd.Env, ChildEndless+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-drained
		_ = cmd.Wait()
	})
	var ready struct{ Type, Web string }
	err = json.NewDecoder(stdout).Decode(&ready)
	go func() { // so that it can write
		defer close(drained)
		_, _ = io.Copy(io.Discard, stdout)
	}()
	if err != nil || ready.Type != "ready" {
		t.Fatalf("first line of the child %+v, error %v\n%s", ready, err, stderr)
	}
	return cmd, "http://" + ready.Web
}

// KillAfter starts a child, kills it with SIGKILL once it has stored so many events, and reports whether that was
// before the log ends. A child that finds fewer events than that may end before it is killed.
func KillAfter(t *testing.T, path string, events int) (reading bool) {
	t.Helper()
	cmd, stderr := ChildOf(t, path)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ready struct{ Type, Web string }
	if err := json.NewDecoder(stdout).Decode(&ready); err != nil || ready.Type != "ready" {
		t.Fatalf("first line of the child %+v, error %v, %v\n%s", ready, err, cmd.Wait(), stderr)
	}
	Within(t, Patience, "events in the child", func() bool {
		_, metrics, err := TryGet("http://" + ready.Web + "/metrics")
		if err != nil {
			return true // it has ended
		}
		reading = Sum(t, metrics, "refitd_consumer_lag_records") > 0
		return Sum(t, metrics, "refitd_events_total") >= float64(events)
	})
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if err != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended before its kill: %v\n%s", err, stderr)
	}
	return reading && err != nil
}

// Sum adds up the series of a metric.
func Sum(t *testing.T, metrics, name string) (total float64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(metrics, -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		total += v
	}
	return total
}

// Get returns what a server answers, which it must.
func Get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	status, body, err := TryGet(url)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

// TryGet is Get of a server that may have ended.
func TryGet(url string) (status int, body string, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

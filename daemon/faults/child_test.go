package faults_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/report"
)

// child is `refitd run --json` as a process.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	began time.Time
	log   string // file of its standard error
	ended chan struct{}

	mu       sync.Mutex
	web      string
	halts    []report.Halt
	versions []report.Version
	summary  *report.RunSummary
	failure  *report.Error
	waitErr  error
}

// run starts a child with a configuration. It ends with the test at the latest.
func run(t *testing.T, binary, config string, environment []string, args ...string) *child {
	t.Helper()
	return runAfter(t, ":", binary, config, environment, args...)
}

// runAfter is run by a shell that does something to its own process first, such as setting a limit.
func runAfter(t *testing.T, first, binary, config string, environment []string, args ...string) *child {
	t.Helper()
	c := &child{t: t, ended: make(chan struct{}), log: config + ".log"}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.cmd = exec.Command(
		"sh",
		append(
			[]string{"-c", first + ` && exec "$0" "$@"`, binary, "run", "--config.file", config, "--json"},
			args...)...)
	c.cmd.Env = append(os.Environ(), environment...)
	c.cmd.Stderr = log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.began = time.Now()
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.read(stdout)
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("log of %s ends\n%s", filepath.Base(config), c.logTail())
		}
	})
	return c
}

// read takes the lines of the child until it ends.
func (c *child) read(stdout io.Reader) {
	defer close(c.ended)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		c.take(lines.Bytes())
	}
	err := c.cmd.Wait()
	c.mu.Lock()
	c.waitErr = errors.Join(lines.Err(), err)
	c.mu.Unlock()
}

func (c *child) take(line []byte) {
	var head struct{ Type, Web string }
	if err := json.Unmarshal(line, &head); err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch head.Type {
	case "ready":
		c.web = head.Web
	case "halt":
		c.halts = append(c.halts, parsed[report.Halt](line))
	case "version":
		c.versions = append(c.versions, parsed[report.Version](line))
	case "summary":
		s := parsed[report.RunSummary](line)
		c.summary = &s
	case "error":
		e := parsed[report.Error](line)
		c.failure = &e
	}
}

// parsed returns a line as the type its kind has; what does not fit stays zero and fails the test that looks at it.
func parsed[T any](line []byte) (out T) {
	_ = json.Unmarshal(line, &out)
	return out
}

func (c *child) logTail() string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-6000):])
}

var errEnded = errors.New("the child has ended")

// get asks the child's HTTP listener.
func (c *child) get(path string) (code int, body string, err error) {
	c.mu.Lock()
	web := c.web
	c.mu.Unlock()
	select {
	case <-c.ended:
		return 0, "", errEnded
	default:
	}
	if web == "" {
		return 0, "", errors.New("the child has not said that it is up")
	}
	res, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + web + path)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// ready waits until /-/ready says so and returns the time since the start.
func (c *child) ready(limit time.Duration) time.Duration {
	c.t.Helper()
	within(c.t, limit, func() error {
		code, body, err := c.get("/-/ready")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("/-/ready: %d %s", code, body)
		}
		return err
	})
	return time.Since(c.began)
}

// unready waits until /-/ready answers 503 with a text.
func (c *child) unready(limit time.Duration, text string) {
	c.t.Helper()
	within(c.t, limit, func() error {
		code, body, err := c.get("/-/ready")
		if err == nil &&
			(code != http.StatusServiceUnavailable || !strings.Contains(strings.ToLower(body), strings.ToLower(text))) {
			err = fmt.Errorf("/-/ready: %d %s, want %q", code, body, text)
		}
		return err
	})
}

// metric adds up the series of a name whose labels hold all of labels, such as partition="3".
func (c *child) metric(name string, labels ...string) (total float64, err error) {
	_, body, err := c.get("/metrics")
	if err != nil {
		return 0, err
	}
	return metricIn(body, name, labels...), nil
}

// metricIn adds up the series of a metric that have the labels. It looks at the metric's lines alone: load tests ask
// every few milliseconds.
func metricIn(body, name string, labels ...string) (total float64) {
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, name)
		at := strings.LastIndexByte(rest, ' ')
		if !ok || at < 0 || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest[:at], l) }) {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(rest[at:]), 64); err == nil {
			total += v
		}
	}
	return total
}

// position returns the next offset of a partition by the child's metrics.
func position(body, topic string, partition int32) int64 {
	labels := []string{fmt.Sprintf("partition=%q", fmt.Sprint(partition)), fmt.Sprintf("topic=%q", topic)}
	return int64(
		metricIn(
			body,
			"refitd_consumer_high_watermark",
			labels...) - metricIn(
			body,
			"refitd_consumer_lag_records",
			labels...),
	)
}

// caughtUp waits until the child has applied a topic up to ends.
func (c *child) caughtUp(limit time.Duration, topic string, ends map[int32]int64) {
	c.t.Helper()
	within(c.t, limit, func() error {
		_, body, err := c.get("/metrics")
		if err != nil {
			return err
		}
		for p, end := range ends {
			if at := position(body, topic, p); at < end {
				return fmt.Errorf("%s/%d is at %d of %d", topic, p, at, end)
			}
		}
		return nil
	})
}

// oneHalted wants one partition to wait for an operator by the metrics: the alert is about them, not about readiness.
func (c *child) oneHalted() {
	c.t.Helper()
	if n, err := c.metric("refitd_consumer_halted_partitions"); err != nil || n != 1 {
		c.t.Errorf("refitd_consumer_halted_partitions is %g, %v", n, err)
	}
}

// halted waits for a halt line and returns it.
func (c *child) halted(limit time.Duration) (h report.Halt) {
	c.t.Helper()
	within(c.t, limit, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.halts) == 0 {
			return errors.New("no partition halted")
		}
		h = c.halts[0]
		return nil
	})
	return h
}

// kill is SIGKILL; it waits for the end.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// wait waits for the end and returns the exit code.
func (c *child) wait(limit time.Duration) int {
	c.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.t.Fatalf("the child has not ended within %v", limit)
	}
	return c.cmd.ProcessState.ExitCode()
}

// stop is SIGTERM; it returns the exit code and the summary, if there was one.
func (c *child) stop() (int, *report.RunSummary) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	code := c.wait(20 * time.Second)
	return code, c.summary
}

// stopClean is stop with exit code 0, and returns the state.
func (c *child) stopClean() report.State {
	c.t.Helper()
	code, s := c.stop()
	if code != report.ExitDone || s == nil {
		c.t.Fatalf("exit code %d, summary %v, error %+v", code, s, c.failure)
	}
	return s.Models[0].State
}

// toTheEnd runs a configuration up to the log ends and returns its exit code and the child that has ended.
func toTheEnd(t *testing.T, config string, limit time.Duration) (int, *child) {
	t.Helper()
	c := run(t, refitd, config, nil, "--until", "end")
	return c.wait(limit), c
}

// proof is what refitd verify printed.
type proof struct {
	code       int
	partitions []report.VerifyPartition
	summary    report.VerifySummary
	failure    report.Error
}

// verify runs refitd verify --json.
func verify(t *testing.T, config string, args ...string) (p proof) {
	t.Helper()
	out, code := command(t, append([]string{"verify", "--config.file", config, "--json"}, args...)...)
	p.code = code
	for line := range bytes.Lines(out) {
		switch parsed[struct{ Type string }](line).Type {
		case "partition":
			p.partitions = append(p.partitions, parsed[report.VerifyPartition](line))
		case "summary":
			p.summary = parsed[report.VerifySummary](line)
		case "error":
			p.failure = parsed[report.Error](line)
		}
	}
	return p
}

// proved runs verify and wants a proof: nothing lost, nothing double.
func proved(t *testing.T, config string) proof {
	t.Helper()
	p := verify(t, config)
	if p.code != report.ExitDone || !p.summary.OK || p.summary.Lost != 0 || p.summary.Double != 0 {
		t.Fatalf("verify: exit code %d, %+v, %+v, %+v", p.code, p.summary, p.partitions, p.failure)
	}
	return p
}

// command runs refitd with args to its end.
func command(t *testing.T, args ...string) (stdout []byte, code int) {
	t.Helper()
	cmd := exec.Command(refitd, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		t.Logf("refitd %v: exit code %d\n%s%s", args, code, stdout, stderr.Bytes())
	}
	return stdout, code
}

// inspect returns the state of a stopped child.
func inspect(t *testing.T, config string) report.State {
	t.Helper()
	out, code := command(t, "inspect", "--storage.path", statePath(config), "--model", "ratings", "--json")
	if code != 0 {
		t.Fatalf("inspect: exit code %d", code)
	}
	for line := range bytes.Lines(out) {
		if parsed[struct{ Type string }](line).Type == "state" {
			return parsed[report.State](line)
		}
	}
	t.Fatalf("inspect printed no state: %s", out)
	return report.State{}
}

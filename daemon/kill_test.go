package daemon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestKilledRunsEndAlike: whenever it is killed while it reads, state and scored events are those of an undisturbed run over the same
// topic, also where it refits and publishes meanwhile. Without refits before the end the first payload is the same, too.
func TestKilledRunsEndAlike(t *testing.T) {
	t.Parallel()
	n, kills := 40_000, 5
	if testing.Short() {
		n, kills = 15_000, 2
	}
	b := New(t)
	b.ProduceRatings(3, n)
	quick := []string{"lambda: auto", "lambda: 3", "max_basis: 4", "max_basis: 2"} // the refits are not what is tested
	want := b.Run(b.Configure("calm", quick...))
	if want.Err != nil {
		t.Fatal(want.Err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("kill seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for name, edit := range map[string]string{"quiet": "every_events: 0", "refitting": "every_events: 3000"} {
		t.Run(name, func(t *testing.T) {
			// Small fetches make many transactions, between any two of which a kill may fall.
			path := b.Configure(name, append(quick, "every_events: 0", edit, "fetch_max_wait: 100ms", "fetch_max_wait: 100ms, max_partition_fetch_bytes: 16KiB")...)
			reading := 0
			for range kills {
				if b.killAfter(t, path, 1+r.IntN(n/(2*kills))) {
					reading++
				}
			}
			if t.Logf("%d of %d kills while there was more to read", reading, kills); reading == 0 {
				t.Error("no kill came in time: produce more events")
			}
			cmd, stderr := childOf(t, path)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr)
			}
			got := Parse(t, out, nil)
			if a, b := got.State(t), want.State(t); !reflect.DeepEqual(a, b) {
				t.Errorf("after kills\n%+v\nundisturbed\n%+v", a, b)
			}
			if got := balanced(t, got.State(t)); got != int64(n) {
				t.Errorf("%d events applied, want %d", got, n)
			}
			if p := got.Summary.Models[0].Progressive; p.N != int64(n) {
				t.Errorf("%d events scored, want %d", p.N, n)
			}
			if a, b := got.payloads(), want.payloads(); name == "quiet" && !reflect.DeepEqual(a, b) {
				t.Errorf("payloads %v, undisturbed %v", a, b)
			}
		})
	}
}

// childOf is this test binary as `refitd run --until end --json`.
func childOf(t *testing.T, path string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd, stderr = exec.CommandContext(t.Context(), os.Args[0]), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), childConfig+"="+path)
	cmd.Stderr = stderr
	return cmd, stderr
}

// killAfter starts a child, kills it with SIGKILL once it has stored so many events, and reports whether that was before the log ends. A child
// that finds fewer events than that may end by itself before.
func (b *Bench) killAfter(t *testing.T, path string, events int) (reading bool) {
	t.Helper()
	cmd, stderr := childOf(t, path)
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
	Within(t, 20*time.Second, "events in the child", func() bool {
		_, metrics, err := tryGet("http://" + ready.Web + "/metrics")
		if err != nil {
			return true // it has ended
		}
		reading = sum(t, metrics, "refitd_consumer_lag_records") > 0
		return sum(t, metrics, "refitd_events_total") >= float64(events)
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

// sum adds up the series of a metric.
func sum(t *testing.T, metrics, name string) (total float64) {
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

// payloads returns the payload digests of the versions in order.
func (o *Outcome) payloads() (digests []any) {
	for _, l := range o.Lines {
		if l["type"] == "version" {
			digests = append(digests, l["payload_digest"])
		}
	}
	return digests
}

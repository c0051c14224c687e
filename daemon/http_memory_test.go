package daemon_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/memory"
)

// peakOf returns the peak memory in bytes of a process that runs.
func peakOf(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("the system does not say how much memory a process had at most")
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatal("the daemon is gone")
	}
	kilobytes, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// attacks are bodies of a size for each endpoint that takes one, of what a body of that size can be made of at most.
func attacks(size int) map[string][]byte {
	fill := func(head, element, tail string) []byte {
		n := (size - len(head) - len(tail)) / (len(element) + 1)
		return []byte(head + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + tail)
	}
	names := func(head, value, tail string) []byte { // each of them once
		b := []byte(head)
		for i := 0; len(b) < size-len(tail)-20; i++ {
			b = strconv.AppendInt(append(b, '"'), int64(i), 36)
			b = append(append(append(b, '"'), value...), ',')
		}
		return append(bytes.TrimSuffix(b, []byte(",")), tail...)
	}
	name := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	return map[string][]byte{
		"v1/models/ratings/score":   fill(`{"events":[`, `0`, `]}`),
		"v1/models/ratings/score?a": fill(`{"events":[`, `{"user":"u1","item":"i1","x":`+name(14000)+`}`, `]}`),
		"v1/models/ratings/score?b": fill(`{"events":[`, `[]`, `]}`),
		"v1/models/ratings/topk":    fill(`{"over":"item","event":{"user":"u1"},"exclude":[`, `""`, `]}`),
		"v1/models/ratings/topk?a":  fill(`{"over":"item","exclude":[],"event":{"user":"u1","x":[`, `1`, `]}}`),
		"v1/models/ratings/explain": fill(`{"event":{"user":"u1","item":"i1","x":[`, `[]`, `]}}`),
		"v1/models/ratings/score?c": names(`{"events":[{`, `:0`, `}]}`),
		"v1/models/ratings/topk?b":  names(`{"over":"item","event":{`, `:0`, `}}`),
		"v2/models/ratings/infer": fill(`{"inputs":[{"name":"user","datatype":"BYTES","shape":[1000],"data":[`, `""`,
			`]},{"name":"item","datatype":"BYTES","shape":[1000],"data":[]}]}`),
		"v2/models/ratings/infer?a": fill(`{"inputs":[`, `{}`, `]}`),
		"v2/models/ratings/infer?b": fill(`{"inputs":[{"name":"user","datatype":"BYTES","data":[],"shape":[`, `1`,
			`]}]}`),
		"v2/models/ratings/infer?c": fill(`{"inputs":[{"name":"user","datatype":"BYTES","shape":[1000],"data":[`,
			`["",""]`, `]}]}`),
		"v2/models/ratings/infer?d": fill(`{"inputs":[],"outputs":[`, `{}`, `]}`),
	}
}

// TestLargeBodies: 24 requests of 15 MiB at a time to each endpoint, and 64 of 1 MiB, as dense as JSON can be, leave
// the daemon within the memory that was computed for the configuration. Some are answered, the others are refused
// before they are read.
func TestLargeBodies(t *testing.T) {
	tier.OfProcesses(t)
	b := daemontest.New(t)
	b.ProduceRatings(71, 1500)
	path := b.Configure("m", append(daemontest.Simple, "every_events: 0", "every_events: 1000")...)
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	computed := memory.Of(conf)
	child, base := daemontest.Endless(t, path)
	pid := child.Process.Pid
	daemontest.Within(t, daemontest.Patience, "a champion", func() bool {
		status, _ := daemontest.Get(t, base+"/v2/health/ready")
		return status == http.StatusOK
	})
	before := peakOf(t, pid)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	flood := func(clients int, target string, body []byte) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		codes := map[int]int{}
		for range clients {
			wg.Go(func() {
				code := 0 // the connection was closed before the body was taken
				res, err := client.Post(base+"/"+target, "application/json", bytes.NewReader(body))
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					code = res.StatusCode
				}
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		wg.Wait()
		t.Logf("%d times %4d KiB to %-28s answers %v, peak %d MiB", clients, len(body)>>10, target, codes,
			peakOf(t, pid)>>20)
		if codes[http.StatusInternalServerError] > 0 ||
			codes[http.StatusOK]+codes[http.StatusBadRequest]+codes[http.StatusRequestEntityTooLarge] == 0 {
			t.Errorf("%s: answers %v", target, codes)
		}
	}
	for target, body := range attacks(15 << 20) {
		flood(24, target, body)
	}
	for target, body := range attacks(1 << 20) { // their values fit
		flood(64, target, body)
	}
	if status, body := daemontest.Get(t, base+"/-/ready"); status != http.StatusOK {
		t.Errorf("afterwards: %d %s", status, body)
	}
	peak, most := peakOf(t, pid), computed.Parts["web.bodies"]+computed.Parts["web.connections"]
	t.Logf("peak %d MiB before, %d MiB after: %d MiB for HTTP, computed %d MiB of %d MiB in all", before>>20, peak>>20,
		(peak-before)>>20, most>>20, computed.TotalBytes>>20)
	if tier.UnderRace() {
		most, computed.TotalBytes = 10*most, 10*computed.TotalBytes // the most that the detector multiplies memory by
	}
	if peak > computed.TotalBytes || peak-before > most {
		t.Errorf("peak memory %d bytes before and %d after, computed %+v", before, peak, computed)
	}
}

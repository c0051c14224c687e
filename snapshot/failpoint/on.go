//go:build failpoint

package failpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// point is one site of FAIL.
type point struct {
	act         func() error
	record      string // "partition/offset", or empty for any
	probability float64
	random      *rand.Rand
}

var (
	mu     sync.Mutex // guards the random sources
	points = map[string]*point{}
)

func init() {
	for rule := range strings.SplitSeq(os.Getenv("FAIL"), ";") {
		if rule == "" {
			continue
		}
		site, p, err := parse(rule)
		if err != nil {
			fmt.Fprintf(os.Stderr, "FAIL: %q: %v\n", rule, err)
			os.Exit(2)
		}
		points[site] = p
	}
}

func parse(rule string) (site string, p *point, err error) {
	site, rest, _ := strings.Cut(rule, "=")
	if !slices.Contains(Sites, site) {
		return "", nil, fmt.Errorf("no such site; there are %v", Sites)
	}
	fields := strings.Split(rest, ",")
	p = &point{probability: 1}
	var seed uint64
	if len(fields) > 1 {
		if p.probability, err = strconv.ParseFloat(fields[1], 64); err != nil {
			return "", nil, err
		}
	}
	if len(fields) > 2 {
		if seed, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
			return "", nil, err
		}
	}
	p.random = rand.New(rand.NewPCG(seed, 0))
	fields[0], p.record, _ = strings.Cut(fields[0], "@")
	action, argument, _ := strings.Cut(fields[0], ":")
	switch action {
	case "kill":
		p.act = func() error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				return err
			}
			select {} // the signal is on its way
		}
	case "fault":
		p.act = func() error {
			new(sync.Mutex).Unlock() // which the runtime takes for fatal, and no recover sees
			return nil
		}
	case "fill":
		mib, err := strconv.Atoi(argument)
		if err != nil {
			return "", nil, err
		}
		p.act = func() error {
			taken := make([]byte, mib<<20)
			for i := 0; i < len(taken); i += os.Getpagesize() {
				taken[i] = 1 // or the system would not have to find it
			}
			return fmt.Errorf("failpoint %s: %d bytes taken", site, len(taken))
		}
	case "error":
		p.act = func() error { return fmt.Errorf("failpoint %s", site) }
	case "panic":
		p.act = func() error { panic("failpoint " + site) }
	case "sleep":
		ms, err := strconv.Atoi(argument)
		if err != nil {
			return "", nil, err
		}
		p.act = func() error {
			time.Sleep(time.Duration(ms) * time.Millisecond)
			return nil
		}
	default:
		return "", nil, fmt.Errorf(
			"no such action; there are kill, fault, error, panic, sleep:MILLISECONDS and fill:MEBIBYTES")
	}
	return site, p, nil
}

// At does what FAIL says about a site.
func At(site string) error {
	if hook != nil {
		if err := hook(site); err != nil {
			return err
		}
	}
	p := points[site]
	if p == nil {
		return nil
	}
	mu.Lock()
	fires := p.random.Float64() < p.probability
	mu.Unlock()
	if !fires {
		return nil
	}
	return p.act()
}

// AtRecord is At for a site that sees records and cannot return an error.
func AtRecord(site string, partition int32, offset int64) {
	if p := points[site]; p != nil && (p.record == "" || p.record == fmt.Sprintf("%d/%d", partition, offset)) {
		_ = At(site)
	}
}

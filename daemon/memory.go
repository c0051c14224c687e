package daemon

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/refitd/refitd/daemon/config"
)

// memoryShare is the part of a control group's memory that the Go runtime may take: the rest is for what it does not
// count, such as mapped tables and the kernel's buffers.
const memoryShare = 0.8

// gcPercent is how much garbage may come on top of what is in use, in percent of it, before the collector runs. The
// runtime's own 100 suits programs that hold little. Chosen by hand: one run of 2,000,000 events took 521 MiB in place
// of 684, and no more processor time.
const gcPercent = 50

// collectEarlier has the collector run at gcPercent. A value in the environment (GOGC), which the runtime has read
// already, stays.
func collectEarlier() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// limitMemory makes the collector work harder rather than let garbage pass what was computed, the budget of the
// configuration, or what the control group of the process allows before the kernel kills it; without a budget and a
// group, half of the machine's memory. A limit in the environment (GOMEMLIMIT), which the runtime has read already,
// stays.
func limitMemory(memory config.Memory, log *slog.Logger) {
	limit, from := memory.BudgetBytes, "memory_budget"
	root := os.DirFS("/")
	if allowed := groupMemory(root); allowed > 0 {
		if share := int64(memoryShare * float64(allowed)); limit == 0 || share < limit {
			limit, from = share, "control group"
		}
	}
	if limit == 0 {
		limit, from = machineMemory(root)/2, "half of the machine"
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		limit, from = debug.SetMemoryLimit(-1), "GOMEMLIMIT"
	} else {
		heap := memory.HeapBytes() // what was computed is a bound: garbage does not take the process past it
		if limit > 0 {
			heap = min(heap, limit)
		}
		debug.SetMemoryLimit(heap)
	}
	log.Info("memory computed", "total_bytes", memory.TotalBytes, "budget_bytes", memory.BudgetBytes, "limit_bytes",
		limit)
	if limit > 0 && memory.TotalBytes > limit {
		log.Warn("memory may not suffice", "note", "what the configuration may use is more than the limit", "total_bytes",
			memory.TotalBytes, "limit_bytes", limit, "limit_from", from)
	}
}

// machineMemory returns the bytes of memory of the machine, 0 where the system does not say.
func machineMemory(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64) // 0 for nonsense
			return kilobytes << 10
		}
	}
	return 0
}

// groupMemory returns the bytes that the control group of this process, or one around it, allows; 0 where there is no
// limit. root is the file system of the machine.
func groupMemory(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		mount, name := "sys/fs/cgroup", "memory.max" // version 2
		if fields[0] != "0" {
			if fields[1] != "memory" {
				continue
			}
			mount, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) { // inside a container only the root may be there
			b, err := fs.ReadFile(root, path.Join(mount, dir, name))
			if n, numErr := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && numErr == nil &&
				n > 0 { // not "max"
				least = min(least, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	if least > math.MaxInt64/2 { // what version 1 says for none
		return 0
	}
	return least
}

package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// What one thing takes in memory, measured or counted from the types that hold it, in bytes.
const (
	indexRowBytes       = 64       // priority, identity hash and position of a sample row
	cappedRowBytes      = 160      // two more map entries and the rank among the rows of the entity
	vocabularyNameBytes = 96       // map entry, string header, and a name of 24 bytes
	rowFixedBytes       = 250      // of a decoded row while a refit encodes it: label, weight, time, slice headers, and its stored bytes
	nameBytes           = 32       // string header and a name of 16 bytes
	multiNames          = 8        // names in a multi field
	badgerFixedBytes    = 96 << 20 // three 16 MiB memtables, block and index caches of 16 MiB each, a table being built
	decompressedBytes   = 16 << 20 // largest batch once decompressed
	assumedPartitions   = 16       // partitions fetched at a time; more of them share the same buffers by waiting
	foldInRates         = 3        // rates of forgetting that run side by side
	storedRowBytes      = 96       // key, ledger position and check sum of a stored row
	letterBytes         = 1280     // of a rejected record that waits to be sent: 1 KiB of its value, its place and reason
	posteriors          = 4        // the champion's, the one in training, its best so far, and what partners see of it
)

// Memory is the memory a configuration may use, by named part.
type Memory struct {
	BudgetBytes int64            `json:"budget_bytes"` // memory_budget; 0 if there is none
	TotalBytes  int64            `json:"total_bytes"`  // sum of the parts
	Parts       map[string]int64 `json:"parts"`        // keys are <model>.<part>
}

// Memory returns the memory that the configuration may use.
func (c *Config) Memory() Memory {
	out := Memory{BudgetBytes: int64(c.MemoryBudget), Parts: make(map[string]int64)}
	for i := range c.Models {
		for part, bytes := range c.Models[i].Memory(int64(c.Kafka.MaxPartitionFetchBytes)) {
			out.Parts[c.Models[i].Name+"."+part] = bytes
			out.TotalBytes += bytes
		}
	}
	return out
}

// Memory returns the upper bound in bytes of each part of a resolved model: n rows of e entries, d features, k basis vectors and m
// outputs, with names of ordinary length. maxPartitionFetch is kafka.max_partition_fetch_bytes.
func (m *Model) Memory(maxPartitionFetch int64) map[string]int64 {
	n, h := int64(m.Sample.Size), int64(m.Sample.Holdout.Size)
	names := int64(len(m.Schema.Categorical) + multiNames*len(m.Schema.Multi))
	numbers := int64(len(m.Schema.Numeric))
	entries := names + numbers
	if m.Train.Augment.On() {
		entries++
	}
	d := min(int64(m.Train.MaxFeatures), n*names) + numbers + 1
	k, outputs := int64(m.Train.MaxBasis), int64(max(1, m.Schema.Outputs()))
	row := rowFixedBytes + names*nameBytes + numbers*8
	csr := 8 + entries*(4+8) + 8*outputs + 8 // start, column and value of each entry, targets, weight
	parameters := 8 * (d*k + k*outputs + outputs)
	if m.Train.Linear > 0 {
		parameters += 8 * d * outputs
	}
	index := int64(indexRowBytes)
	if m.Sample.Cap.By != "" {
		index += cappedRowBytes
	}
	parts := map[string]int64{
		"sample_index":  index * (n + h),
		"training_rows": n * (row + csr),
		"held_out_rows": h * (row + csr),
		"vocabulary":    vocabularyNameBytes * d,
		"models":        4 * parameters, // champion, live, the one in training, and its gradient or best so far
		"refit":         8 * (n*k + 4*n*outputs),
		"fetch":         2*assumedPartitions*maxPartitionFetch + decompressedBytes,
		"badger":        badgerFixedBytes + 2*(storedRowBytes+names*nameBytes+numbers*8)*(n+h), // tables are mapped; compaction holds old and new
	}
	if m.Input.DeadLetter.Topic != "" {
		parts["dead_letters"] = letterBytes * int64(m.Input.DeadLetter.MaxRows)
	}
	if m.Train.FoldIn.Enabled && names > 0 {
		// A posterior row: evidence of the size of a covariance, its right side and its mean.
		row, covariance := m.posteriorRow(k)
		parts["fold_in"] = int64(m.Train.FoldIn.MaxRows) * foldInRates * 8 * (covariance + 2*row)
	}
	if m.Train.Refit == "variational" {
		row, covariance := m.posteriorRow(int64(VariationalBasis(int(n), int(k))))
		parts["variational"] = 8 * (posteriors*d*(row+covariance) + 6*n*outputs) // and the moments and pseudo-observations of a sweep
	}
	if m.Publish.KeepSample { // the rows and the start of a refit, compressed, until they are written
		parts["kept_sample"] = (storedRowBytes+names*nameBytes+numbers*8)*(n+h)/2 + parts["variational"]/posteriors + parameters
	}
	// The collector lets the heap grow to twice what is live before it runs; Badger's tables and the fetch buffers are not heap garbage.
	for _, part := range []string{"training_rows", "held_out_rows", "refit", "variational"} {
		parts["garbage"] += parts[part] / 2
	}
	return parts
}

// posteriorRow returns the numbers in a feature's mean and in its covariance under k basis vectors. Classes have linear weights of their
// own, of whose covariance only the part that the posterior asks for is kept; other outputs share theirs.
func (m *Model) posteriorRow(k int64) (mean, covariance int64) {
	linear := int64(1)
	if event.Task(m.Schema.Task).HasClasses() {
		linear = max(1, int64(m.Schema.Outputs()))
	}
	return linear + k, linear + linear*k + k*(k+1)/2
}

// VariationalBasis returns how many basis vectors the variational refit may use on n rows, at most most. It sets its own regularisation,
// so a few too many do no harm but cost time: 6 at 4,500 rows, 10 at 70,000, 13 at 600,000.
func VariationalBasis(n, most int) int {
	return min(most, max(2, 4+int(math.Log2(max(1, float64(n)/1000)))))
}

// memoryKeys names the keys that make a part smaller.
var memoryKeys = map[string]string{
	"sample_index":  "sample.size",
	"training_rows": "sample.size",
	"held_out_rows": "sample.holdout.size",
	"vocabulary":    "train.max_features",
	"models":        "train.max_features and train.max_basis",
	"refit":         "sample.size and train.max_basis",
	"fetch":         "kafka.max_partition_fetch_bytes",
	"badger":        "sample.size",
	"fold_in":       "train.fold_in.max_rows",
	"garbage":       "sample.size",
	"dead_letters":  "input.dead_letter.max_rows",
	"kept_sample":   "publish.keep_sample",
	"variational":   "train.max_features and train.max_basis",
}

// memory reports a total over the budget, with the three largest parts and the keys they follow from.
func (v *validator) memory(c *Config) {
	m := c.Memory()
	if m.BudgetBytes == 0 || m.TotalBytes <= m.BudgetBytes {
		return
	}
	largest := slices.SortedFunc(maps.Keys(m.Parts), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.Parts[b], m.Parts[a]), cmp.Compare(a, b))
	})
	var text []string
	for _, part := range largest[:min(3, len(largest))] {
		key := memoryKeys[part[strings.LastIndexByte(part, '.')+1:]]
		text = append(text, fmt.Sprintf("%s %s (%s)", part, mebibytes(m.Parts[part]), key))
	}
	v.bad("memory_budget", c.MemoryBudget, fmt.Sprintf("at least %s, or make the largest parts smaller: %s",
		mebibytes(m.TotalBytes), strings.Join(text, ", ")))
}

// mebibytes rounds up to a whole number of MiB, which memory_budget accepts as it stands.
func mebibytes(bytes int64) string { return fmt.Sprintf("%dMiB", (bytes+1<<20-1)>>20) }

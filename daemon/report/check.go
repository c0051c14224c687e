package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/config"
)

// CheckSummary ends check config.
type CheckSummary struct {
	OK         bool             `json:"ok"`                    // the file has no mistake
	Models     []string         `json:"models"`                // names, in the order of the file
	ConfigHash string           `json:"config_hash,omitempty"` // absent if the file has mistakes
	Memory     *config.Memory   `json:"memory"`                // that the configuration may use; null if the file has mistakes
	Errors     []config.Problem `json:"errors"`                // in the order of the file
}

// WriteText prints the hash, the models and the memory by part. The mistakes of a bad file are its error text, not part of this.
func (s CheckSummary) WriteText(w io.Writer) error {
	if !s.OK {
		return nil
	}
	fmt.Fprintf(w, "ok: models %s, %s\n", strings.Join(s.Models, ", "), s.ConfigHash)
	rows := make([][]string, 0, len(s.Memory.Parts)+1)
	for _, part := range slices.Sorted(maps.Keys(s.Memory.Parts)) {
		rows = append(rows, []string{part, mebibytes(s.Memory.Parts[part])})
	}
	budget := "no memory_budget"
	if s.Memory.BudgetBytes > 0 {
		budget = "memory_budget " + mebibytes(s.Memory.BudgetBytes)
	}
	return table(w, append(rows, []string{"memory at most", mebibytes(s.Memory.TotalBytes), "(" + budget + ")"}))
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

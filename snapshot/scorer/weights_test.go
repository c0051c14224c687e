package scorer

import (
	"errors"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

func TestInvalidListWeights(t *testing.T) {
	for _, weights := range [][]string{{"one"}, {""}, {format.WeightSqrt, format.WeightSqrt}} {
		c := snapshottest.TestContents(snapshottest.Small)
		c.Schema.MultiWeights = weights
		if _, err := NewModel(c); !errors.Is(err, disk.ErrContents) {
			t.Errorf("weights %q: %v", weights, err)
		}
	}
}

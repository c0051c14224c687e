package format

import (
	"errors"
	"testing"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

func TestTooLarge(t *testing.T) {
	c := &Contents{NumFeatures: 40_000_000, NumOutputs: 1, NumBasis: 1, Link: Identity}
	if _, err := EncodeTensors(c); err == nil {
		t.Error("encodeTensors takes 40,000,000 features")
	}
	if err := DecodeTensors(c, nil); !errors.Is(err, disk.ErrFormat) {
		t.Errorf("decodeTensors: %v, want ErrFormat", err)
	}
}

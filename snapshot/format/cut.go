package format

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// CutFile has the cut of a version whose manifest has no room for it.
const CutFile = "cut.json"

// A cut of more than maxInlineCut bytes of JSON, some 200 partitions, is stored in a separate file: a manifest is
// read often, and whole. MaxCutBytes has room for 100,000 partitions of topics with the longest names.
const (
	maxInlineCut = 16 << 10
	MaxCutBytes  = 32 << 20
)

// MoveCut takes a large cut out of the manifest and returns the file that it goes to, nil for a small one, which stays.
func (m *Manifest) MoveCut() (*disk.StagedFile, error) {
	b, err := json.Marshal(m.Cut)
	if err != nil || len(b) <= maxInlineCut {
		return nil, err
	}
	b = append(b, '\n')
	if len(b) > MaxCutBytes {
		return nil, fmt.Errorf("cut of %d bytes, the limit is %d: fewer partitions", len(b), MaxCutBytes)
	}
	m.Cut, m.CutFile = []Cut{}, &File{CutFile, int64(len(b)), disk.HexSum(b)}
	return &disk.StagedFile{Name: CutFile, Content: b}, nil
}

// MovedCut returns a cut in which some partitions have moved on or are new.
func MovedCut(cut, moved []Cut) []Cut {
	if len(moved) == 0 {
		return cut
	}
	cut = slices.Clone(cut)
	type partition struct {
		topic string
		n     int32
	}
	at := make(map[partition]int, len(cut))
	for i, p := range cut {
		at[partition{p.Topic, p.Partition}] = i
	}
	for _, p := range moved {
		if i, ok := at[partition{p.Topic, p.Partition}]; ok {
			cut[i] = p
		} else {
			cut = append(cut, p)
		}
	}
	slices.SortFunc(cut, func(a, b Cut) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return cut
}

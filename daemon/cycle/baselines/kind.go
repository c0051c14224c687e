package baselines

import (
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
)

// Kinds are the predictors of the mixture that need no model, in the order of their parts. To add one, write its
// value in a file of this package and its row here.
var Kinds = []Kind{
	meanKind,
	recentMeanKind,
	sgdBiasKind,
	firstMeanKind,
	secondMeanKind,
	lastLabelKind,
	entityLastLabelKind,
}

// Kind is what there is to say of a baseline. A mixture makes its baselines, names their parts and adds up its
// part of memory.parts by Kinds alone.
type Kind struct {
	// Name is that of its part of the mixture: in reports, manifests and metrics. It is not to be changed.
	Name string
	// Doc says what it predicts from, for configs/docs/components.md.
	Doc string
	// Applies reports whether a model has such a baseline.
	Applies func(s *Setting) bool
	// New returns it. Its Name is Name.
	New func(s *Setting) Baseline
	// Footprint returns the bytes that it takes at most, with names of at most maxName bytes.
	Footprint func(s *Setting, maxName int) int64
}

// Setting is what baselines are made for. It does not change.
type Setting struct {
	Target *encode.Target
	Fields int // categorical fields
	By     int // the one whose entities have a last label, or -1
	Limit  int // names that a baseline keeps of a field
	// Without are the parts of the mixture that are left out.
	Without []string
}

// Width is how many numbers a baseline predicts.
func (s *Setting) Width() int {
	if s.Target.IsNumeric() {
		return 1
	}
	return s.Target.Outputs()
}

// contexts returns how many contexts a baseline may keep: fewer where each has the frequencies of many classes.
func (s *Setting) contexts() int {
	if s.Target.IsNumeric() {
		return s.Limit
	}
	return min(s.Limit, max(16, baselineNumbers/s.Width()))
}

// has reports whether a model has a baseline, which is not left out.
func (s *Setting) has(k *Kind) bool {
	return k.Applies(s) && !slices.Contains(s.Without, k.Name)
}

// New returns the baselines of a model.
func (s *Setting) New() (all []Baseline) {
	for i := range Kinds {
		if s.has(&Kinds[i]) {
			all = append(all, Kinds[i].New(s))
		}
	}
	return all
}

// Footprint returns how many baselines a model has, and their bytes with names of at most maxName bytes.
func (s *Setting) Footprint(maxName int) (n int, bytes int64) {
	for i := range Kinds {
		if k := &Kinds[i]; s.has(k) {
			n, bytes = n+1, bytes+k.Footprint(s, maxName)
		}
	}
	return n, bytes
}

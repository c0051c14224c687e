package experts

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/snapshot/format"
)

// Kinds are the experts that a model may have, in the order of their parts in the mixture. To add one, write its value
// in a file of this package and its row here.
var Kinds = []Kind{
	gaussianKind,
	beforeKind,
	adaGradKind,
	recentKind,
	newtonKind,
	neighboursKind,
	boostedKind,
	pairwiseKind,
	naiveBayesKind,
}

// Kind is what there is to say of an expert. A cycle makes its experts, names the parts of its mixture and adds up
// memory.parts by Kinds alone.
type Kind struct {
	// Name is that of its part of the mixture: in reports, manifests and metrics. It is not to be changed.
	Name string
	// Doc says what it predicts from, for configs/docs/components.md.
	Doc string
	// Memory is the part of memory.parts that Footprint is counted in.
	Memory string
	// Lasting says that it is made once for a cycle. Others are made for each champion.
	Lasting bool
	// Applies reports whether a model has such an expert, now or later.
	Applies func(s *Setting) bool
	// New returns the expert on a champion, nil before the first refit, given the one that it replaces, nil for none. It
	// returns nil where that champion has no such expert. The function is nil for one that the cycle makes (carryOver).
	New func(s *Setting, ch *fitted.Fitted, last *Expert) *Expert
	// Footprint returns the bytes that it takes at most.
	Footprint func(s *Setting) int64
}

// Setting is what experts and baselines are made for. It does not change.
type Setting struct {
	Model  *config.Model
	Schema *event.Schema
	Target *encode.Target // of the model
}

// SettingOf returns the setting of a model.
func SettingOf(m *config.Model) (*Setting, error) {
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		return nil, err
	}
	schema := m.Schema.Event()
	return &Setting{Model: m, Schema: &schema, Target: target}, nil
}

// numberTarget is the target of experts that learn every number, levels too, with a Gaussian error.
func (s *Setting) numberTarget() *encode.Target {
	if s.Target.IsNumeric() {
		return GaussianTarget(s.Target)
	}
	return s.Target
}

// learnsNumbers reports whether a model has experts on numeric fields.
func (s *Setting) learnsNumbers() bool {
	return len(s.Schema.Numeric) > 0 && s.Model.Train.FoldIn.Enabled && HasProbabilities(s.Target)
}

// maxRows is the most names that an expert keeps, and maxName the most bytes of one.
func (s *Setting) maxRows() int { return s.Model.Train.FoldIn.MaxRows }

func (s *Setting) maxName() int { return int(s.Model.Input.MaxIDBytes) }

// HasProbabilities reports whether outputs say a number or probabilities: hinge losses of classes do not.
func HasProbabilities(t *encode.Target) bool { return t.IsNumeric() || t.Link != format.Identity }

// has reports whether a model has an expert, now or later, which is not left out.
func (s *Setting) has(k *Kind) bool { return k.Applies(s) && !s.Model.LeavesOut(k.Name) }

// Names returns the names of the experts that a model has, whether or not they predict yet.
func (s *Setting) Names() (names []string) {
	for i := range Kinds {
		if s.has(&Kinds[i]) {
			names = append(names, Kinds[i].Name)
		}
	}
	return names
}

// NewLasting returns the experts that a cycle has from its start to its end.
func (s *Setting) NewLasting() []*Expert { return s.make(true, nil, nil) }

// NewOn returns the experts that are made for a champion, nil before the first refit, given the experts before it.
func (s *Setting) NewOn(ch *fitted.Fitted, last []*Expert) []*Expert { return s.make(false, ch, last) }

func (s *Setting) make(lasting bool, ch *fitted.Fitted, last []*Expert) (all []*Expert) {
	for i := range Kinds {
		k := &Kinds[i]
		if k.New == nil || k.Lasting != lasting || !s.has(k) {
			continue
		}
		if b := k.New(s, ch, ExpertOf(last, k.Name)); b != nil {
			b.Lasting = lasting
			all = append(all, b)
		}
	}
	return all
}

// AddFootprints adds the bytes of each expert that a model has to its part of memory.parts.
func (s *Setting) AddFootprints(parts map[string]int64) {
	for i := range Kinds {
		if k := &Kinds[i]; s.has(k) {
			parts[k.Memory] += k.Footprint(s)
		}
	}
}

// KindOf returns the kind of a name, nil for none.
func KindOf(name string) *Kind {
	if i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return &Kinds[i]
	}
	return nil
}

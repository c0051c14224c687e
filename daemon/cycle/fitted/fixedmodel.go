package fitted

import (
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// FixedModel is a model that learns nothing any more, as consumers have it.
type FixedModel struct {
	Model   *solver.Model
	Vocab   *encode.Vocabulary
	After   *snapshot.Model // the model with the deltas since, nil without
	Popular *PopularWeights // that versions of it, and of After, add to what was learned; nil for none
}

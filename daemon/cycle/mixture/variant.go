package mixture

import "github.com/refitd/refitd/daemon/cycle/experts"

// Variant is what an update can be made of: its place in the table of variants of package cycle. Of equals the first
// counts. Nothing stores or sends it.
type Variant int

// The variants that an update may be built from.
const (
	FormFoldIn  Variant = iota // the fold-in on the last refit
	FormNumbers                // the fold-in of GaussianTarget
	FormNewton                 // online Newton, current weights
	FormGoing                  // online Newton, weights extrapolated
	FormNames                  // the learner on names
	FormAdaGrad                // the learner by AdaGrad on numbers and names
	FormBayes                  // naive Bayes on names
	FormTrees                  // boosted trees
	FormMixed                  // the fold-in as mixed for the next event; of GaussianTarget where the model has that
	FormBlend                  // a sum of fold-ins and of baselines
	FormPool                   // a sum of other variants
	NumForms
)

// The fold-ins of a blend. A missing fold-in takes the value of the previous one in the list. So does one that versions
// cannot hold in addition to the first.
var BlendFoldIns = [...]string{PartFoldIn, experts.PartGaussian, experts.PartBefore}

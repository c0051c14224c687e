package mixture

import "github.com/refitd/refitd/daemon/cycle/experts"

// Variant is what an update can be made of. Of equals the first counts.
type Variant int

// The variants that an update may be built from. In the first two only names of entities (a user, an item) forget.
// Another name, such as an occupation, has hundreds of events until the next update. It would follow the newest of
// them and forget what it was published for.
const (
	FormFoldIn  Variant = iota // the fold-in on the last refit
	FormNumbers                // the fold-in of GaussianTarget
	FormBefore                 // the fold-in kept from before the last change of names
	FormNewton                 // online Newton, current weights
	FormGoing                  // online Newton, weights extrapolated
	FormNames                  // the learner on names
	FormMixed                  // the fold-in as mixed for the next event; of GaussianTarget where the model has that
	FormBlend                  // a sum of the first three and of baselines
	NumForms
)

// VariantNames are the names by which a backtest leaves variants out. The first one is always made.
var VariantNames = [NumForms]string{
	FormNumbers: "update_gaussian",
	FormBefore:  "update_before",
	FormNewton:  "update_newton",
	FormGoing:   "update_newton_extrapolated",
	FormNames:   "update_name_pairs",
	FormMixed:   "update_forgetting",
	FormBlend:   "update_blend",
}

// FormParts are the parts of the mixture that forms are of, and FormReasons what a version says where it is not of the
// first.
var (
	FormParts = [NumForms]string{
		PartFoldIn,
		experts.PartGaussian,
		experts.PartBefore,
		experts.PartNewton,
		experts.PartNewton,
		experts.PartNames,
		experts.PartGaussian,
		experts.PartBlend,
	}
	FormReasons = [NumForms]string{FormNumbers: "; that of levels as numbers, which has predicted better",
		FormBefore: "; that from before the last change, which has predicted better",
		FormNewton: "; Newton's on Fourier features, which has predicted better",
		FormGoing:  "; Newton's on Fourier features, where its weights are going, which has predicted better",
		FormNames:  "; that of names and pairs of names without interactions, which has predicted better",
		FormMixed:  "; that in which names of all fields forget, which has predicted better",
		FormBlend:  "; a sum of fold-ins and baselines, which has predicted better than each"}
)

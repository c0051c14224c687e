package mixture

import "github.com/refitd/refitd/daemon/cycle/experts"

// Variant is what an update can be made of. Of equals the first counts.
type Variant int

// The forms of updates: the fold-in that stands on the last refit, that of GaussianTarget, the one from before the last
// change of names, Newton's learner, as it is and where its weights are going, the learner on names, the fold-in as it
// is mixed for the next event, in all fields, and a sum of the first three and of baselines (blend). In the first two
// only names of entities (a user, an item) forget: another, such as an occupation, has hundreds of events until the
// next update, follows whoever is at hand and has forgotten by then what it was published for.
const (
	FormFoldIn Variant = iota
	FormNumbers
	FormBefore
	FormNewton
	FormGoing // the same, where its weights are going
	FormNames
	FormMixed // of GaussianTarget where there is such a fold-in
	FormBlend
	NumForms
)

// FormParts are the parts of the mixture that forms are of, and FormReasons what a version says where it is not of the
// first.
var (
	FormParts = [NumForms]string{
		"fold_in",
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

package fitted

// PrecisionStart says where the precisions of a variational stage that continues the last one begin; empty for a stage
// that starts from nothing.
type PrecisionStart string

// PrecisionChoice is what a refit chose.
type PrecisionChoice struct {
	Stage, Gaussian PrecisionStart // of the variational stage and of that of GaussianTarget
	Refits          int            // since both ways were compared
}

package task

import "github.com/refitd/refitd/snapshot/format"

// LastScales returns the scales of the version that the refit starts from, nil without one.
func (j *Task) LastScales() []format.NumericField {
	switch {
	case j.Repeats != nil:
		return j.Repeats.Scales
	case j.Champion == nil || j.Cold.Begins:
		return nil
	}
	return j.Champion.Vocabulary.Numeric
}

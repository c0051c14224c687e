// Package drift has tests that raise an alarm when the stream has changed, each with a bound on false alarms.
//
// It does not start a refit and publishes nothing. An alarm widens the posterior rows of one field; the cycle records
// the alarm, and Schedule.Alarmed makes a refit due. Models with a posterior are tested by the gradients of names,
// field by field; other models by the losses of what is live and of the last refit.
//
// Goroutines: Watch and its detectors have no lock and belong to the goroutine that learns; in a cycle Cycle.mu is
// held. The fold-in's goroutine calls Watch.Learned where the fold-in runs ahead. O(1) a value, no allocation.
//
// Files:
//
//	watch.go      the table of detectors (Detectors), those of a model (Watch), Alarm, what an alarm does
//	gradients.go  names of models with a posterior (Gradients), by a Shiryaev-Roberts e-detector (GradientTest)
//	losses.go     losses of other models (Losses)
//	conformal.go  the test of rising losses, by ranks of block means
//	excess.go     the test that the last refit loses more than what is live
package drift

// Package train refits a model on schedule and publishes what comes of it ([Trainer]): refits that pass the gate,
// updates and deltas in between, renewals. It does not fit, which the cycle does, nor write versions, which package
// versions does.
//
// What a trainer decides it decides on the goroutine of Run. A refit runs on another goroutine, and so does the writing
// of an update; each sends its result to Run. Configure, Refit, Wake and what the status asks are safe for concurrent
// use.
//
//	trainer.go   the loop, refits and their publication
//	updates.go   updates, made and written in parallel
//	deltas.go    deltas of an update
//	standby.go   the trainer's part where several take turns
//	pause.go     no refits after deaths in refits
//	throttle.go  refits give way to reading
//	held.go      why events were not learned in full, logged once
//	ages.go      how old the rows of a sample are
package train

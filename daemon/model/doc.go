// Package model is one model of the daemon: it reads the model's topics into its state, learns from them, refits on
// schedule and publishes versions. Package daemon runs several of them and serves what they say of themselves. This
// package makes the parts of a model, runs them together, and shows their status; what the parts do is in its rooms.
//
// Reading runs on one goroutine, the trainer on another; Run ends when both have. There is no lock of a whole model:
// each part guards what it has.
//
//	metrics   what is counted
//	part      options, causes for not being ready, panics contained
//	state     what is on disk
//	role      whole, shard or trainer
//	versions  what was published
//	read      topics into the state
//	train     refits, updates, deltas
//
//	model.go      New, Run, Close
//	status.go     what the status page and requests ask
//	collector.go  what a scrape shows
//	outcome.go    why a run came to nothing
//	ready.go      why the model does not do its work
//	record.go     curves of losses
package model

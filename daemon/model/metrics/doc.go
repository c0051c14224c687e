// Package metrics has what the models count: [Metrics], one registration for all models of a daemon, with the name of
// the model as the first label. It does not know how the models work, and it reads no state: what a model is at the
// moment of a scrape is the collector's, in package model. All of it is safe for concurrent use.
package metrics

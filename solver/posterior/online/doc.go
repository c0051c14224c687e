// Package online learns single events on top of a frozen posterior: the fold-in, its mixtures by rate, and its
// increments.
// It never sweeps over a sample. A FoldIn is not safe for concurrent use.
package online

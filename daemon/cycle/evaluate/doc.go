// Package evaluate adds up losses of predictions that were made before the event was learned: for each predictor, over
// all events, over a window, and by what the version knew of the event's names.
//
// It does not predict: outputs come from its callers. It does not decide anything by losses; that is up to gate,
// guard, drift and updates. Rankings and classes over whole data sets are accumulated by package quality, which
// Quality uses.
//
// Goroutines: Outcome and the other functions are pure. Progressive, Quality and Tally have no lock. In a cycle the
// goroutine that learns holds Cycle.mu and Cycle.reportMu while it adds to Progressive; a reader holds reportMu alone.
// Sums are compensated and taken in the order of events, so that they do not depend on the number of goroutines.
//
// Files:
//
//	progressive.go   totals, window and tail of each predictor (Progressive, the roles), their state across restarts
//	tally.go         one event's error (EventOutcome), its sums (Tally)
//	reference.go     what the event is compared with: the last label, the spread of labels (Compared)
//	quality.go       the METRICS object of a predictor (Quality, Metrics)
//	calibration.go   predicted against observed, in bins of equal mass
//	probability.go   softmax
//	curve.go         losses of an interval (PredictorLoss)
//	report.go        counts of names that a version does not know (NameCounts)
//	fading.go        a mean whose terms fade
//	weightedmean.go  weighted sums over rows (Loss)
package evaluate

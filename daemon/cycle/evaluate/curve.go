package evaluate

// PredictorLoss is what one predictor made of a stretch of events, each predicted before it was learned from.
type PredictorLoss struct {
	Name     string // live, published, a part of what is live, or a baseline
	Baseline bool   // it needs no model
	N        int64  // events that it had a prediction for
	// mean squared error of numbers, else mean loss; NaN without events, and where a class alone is predicted
	Loss     float64
	Accuracy float64 // share of the classes that were right; NaN of numbers and where it is not known
}

// Package answer holds what a model answers: predictions with their names and probabilities, and their JSON.
//
// It applies the link of a version to outputs and ranks what is predicted. It does not compute outputs (snapshot/scorer
// does) and knows no models, only [format.Contents]. A [Prediction] belongs to its caller; nothing here is shared.
package answer

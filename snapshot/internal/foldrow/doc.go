// Package foldrow learns one row of a model from the events of an entity: the posterior of its numbers by several rates
// at once, solved with few events by their number and with many by that of the row's numbers. It knows neither schema
// nor
// model. A row belongs to one goroutine at a time.
package foldrow

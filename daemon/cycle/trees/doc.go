// Package trees fits boosted symmetric trees to a window of the newest events: rules of if and else on numbers and
// names.
//
// It does not know what is learned live with them (experts), nor what outputs mean: a Judge says how wrong they are. A
// fit is a function of the rows alone, and does no I/O.
//
// Goroutines: a Window and a Fitter belong to one goroutine at a time. An Ensemble does not change once it is fitted.
//
// Files:
//
//	window.go    the newest events, with codes of the frequent names (Window)
//	ensemble.go  what is predicted (Ensemble, Tree, Split)
//	fit.go       how trees are fitted (Fitter)
//	search.go    the best question of a level, from histograms
package trees

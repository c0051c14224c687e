// Package full refits basis vectors and output weights together, which is not convex: FISTA, stochastic epochs, SVRG.
// It does not decide whether a refit is kept. A fit belongs to one solve and uses the workers of that.
package full

// Package convexfm refits the symmetric matrix of a convex factorization machine: corrective, by descents, by Newton
// steps, and of few rows by a barrier method in the dual, which bounds the optimum as well (Interior).
// The algorithm, solver.ConvexFM, and its choice of vectors are in the root. Values belong to one solve.
package convexfm

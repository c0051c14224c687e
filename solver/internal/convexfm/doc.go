// Package convexfm refits the symmetric matrix of a convex factorization machine: corrective, by descents and by Newton
// steps.
// The algorithm, solver.ConvexFM, and its choice of vectors are in the root. Values belong to one solve.
package convexfm

// Package convex is the convex stage of a refit: a path over λ by Algorithm 1 or by another solver.Algorithm, judged
// on the select rows.
//
// It does not implement an algorithm: package solver and the packages below it do. It does not sweep a posterior
// (variational) and does not judge against the champion (gate).
//
// Goroutines: it runs on the goroutine of the refit and takes a task.Task, whose budget it asks between solves. The
// solver starts workers below it; results do not depend on their number. The cycle's lock is not held.
//
// Files:
//
//	path.go        the path over λ, cold and warm, the polish, models mapped to another vocabulary (MapModel)
//	algorithm.go   the other algorithms of train.algorithm (FitBy, PathBy), their dual variables by row
//	basis.go       an algorithm over basis vectors (train.features)
//	products.go    the polynomial of all products of few numbers
//	optimality.go  gap and status in a version
package convex

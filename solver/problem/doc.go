// Package problem holds what is solved and what comes out: sparse rows, the weighted problem, kernels and the model.
// It does not solve. Rows, problems and models are safe for concurrent reading once built.
package problem

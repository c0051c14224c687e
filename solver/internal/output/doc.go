// Package output refits the output weights with the basis fixed: FISTA, proximal Newton, stochastic epochs.
// It moves no basis vector and no linear weight. A fit belongs to one solve and uses the workers of that.
package output

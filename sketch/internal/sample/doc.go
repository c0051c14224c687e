// Package sample is a private copy of the rows of a state at one commit, for training and evaluation: the rows by role,
// the probability that each was kept, and what each counts for that.
//
// It does not follow the state: a copy stays as it is. It decodes no payload and chooses no rows; which rows there are
// is package policy's, and that they are whole is package audit's, which reads them.
//
// It starts no goroutine and holds no lock. A Sample may be read concurrently, but for LimitWeights, which changes it.
package sample

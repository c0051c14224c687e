// Package loss holds the losses of the solvers: values, gradients and second derivatives, by rows and by tiles of rows.
// It knows no model and no penalty. Losses are stateless and safe for concurrent use; a LossTile belongs to one
// goroutine.
package loss

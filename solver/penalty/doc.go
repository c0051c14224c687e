// Package penalty holds the norms of the output weights: values, dual norms, proximal points and projections.
// It knows no loss and no solver. It keeps no state; callers own the slices that it changes.
package penalty

// Package gamma searches for basis vectors: products with the gradients Γ of all outputs, eigenvectors, and bounds of
// the dual norm. It changes no model. A Gamma belongs to one solve; passes over the rows use its workers, and results
// do not depend on their number.
package gamma

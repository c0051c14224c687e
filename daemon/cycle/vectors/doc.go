// Package vectors says by the vectors of names, such as embeddings of texts, where their rows in a posterior begin: a
// name without events has the row that names with similar vectors have.
//
// A refit projects the vectors of its tables to a few whitened coordinates, and regresses the rows that it has learned
// on them. That is the mean of a prior: rows that little is known of move towards it, those without events are it.
// Events have no coordinates, so a refit costs next to nothing more, and versions have ordinary rows.
//
// Files:
//
//	projection.go  Projection: principal coordinates of vectors
//	prior.go       Coordinates of the names of a field; Regression, Prior
package vectors

// Package kdtree finds the rows of a matrix that are near a point. Package experts searches recent events with it.
//
// It does not search: what counts as near, and which rows count at all, is the caller's, who walks the nodes
// (experts.Neighbours.descend). A tree does not change after Build, does not drop rows and knows no names.
//
// Goroutines: a Tree belongs to one goroutine at a time. It holds no lock.
//
// Files:
//
//	tree.go  the tree, how it is built, and the distance of a point from a part of it (Tree)
package kdtree

// Package pages stores rows that deltas have changed: by pages, so that a delta costs what it changes. It knows no
// delta
// and no model. Nothing is changed once a model has it, so readers need no lock; one writer at a time makes the next
// one.
package pages

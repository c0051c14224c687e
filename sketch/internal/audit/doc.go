// Package audit reads all of a consistent cut of a state and checks it on the way: that each row belongs to an account
// and was applied, that there are as many rows as the accounts say and as the samples must hold, and, in Check, that
// whatever else there is can be read and is of a record that was counted. State describes what it read.
//
// It changes nothing and keeps nothing: opening, copying and erasing are its callers', who get each row once. What one
// key or value has to look like is codec's.
//
// It starts no goroutine and holds no lock. Any number of goroutines may scan cuts of one store at a time, also while
// the store commits; sizes and rules of the samples must not change then.
package audit

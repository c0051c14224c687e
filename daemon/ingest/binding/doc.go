// Package binding says which configurations fit a stored state, and what does not, in the words of the operator.
//
// It opens no state and changes none: package sketch finds what differs of its options, this one what differs of the
// schema, by which rows are stored without the names of their fields.
//
//   - schema.go: [CheckSchema], and [Rules], the digest of what decides whether an event is valid
//   - agreement.go: [Agreement], what all processes of a model have to have the same
//   - translate.go: [Translate], which adds to an error its key and what can be done
//
// Everything is a function of its arguments and safe for concurrent use.
package binding

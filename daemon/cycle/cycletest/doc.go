// Package cycletest has configurations and event streams for the tests of the cycle and of its rooms. No product code
// imports it, and it imports no room of the cycle. Its functions are pure: a stream is a function of its seed.
// Each file has the models and streams of one kind of label or field.
package cycletest

// Package fittest fits and publishes small models for the tests of packages that use them. The tests of package fit
// cannot import it, since it imports fit.
package fittest

// Package part has what all parts of a model share: the [Options] of a model, the causes for which one is not ready
// ([Causes]), and how a panic of one step is contained ([Recovered]). It does nothing with them.
package part

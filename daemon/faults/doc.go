// Package faults holds only tests: of the built refitd as a child process, against brokers that are processes too, under kills, damage
// and load. Each ends with the proof of refitd verify and, where records are produced meanwhile, with the producer's own list of what
// was acknowledged. configs/faults.md says which row of the fault catalogue each test stands for.
//
// A plain go test runs a form of a few minutes, -short one of the smallest, REFITD_FULL=1 the whole: 300 kills, 20 broker restarts, ten
// million records. Tests with a real Apache Kafka need Java 17 and Maven, and are skipped with the reason without.
// The cache of test results knows neither the command that they build nor the form: -count=1 runs them.
package faults

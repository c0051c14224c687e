// Package faults holds only tests: of the built refitd as a child process, against brokers that are processes too,
// under kills, damage and load. Each ends with the proof of refitd verify and, where records are produced at the same
// time, with the producer's own list of what was acknowledged. docs/faults.md names the row of the fault catalogue
// that each test belongs to.
//
// All of them are asked for by name (package tier): REFITD_TESTS=broker for those with a real Apache Kafka, which are
// skipped with the reason without Java 17 and Maven, kills for what is done to the process and its machine, load for
// rates and backlogs. That is a form of a few minutes; with long added come 300 kills, 20 broker restarts, ten million
// records. The cache of test results does not know the command that they build: -count=1 runs them.
package faults

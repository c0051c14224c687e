// Package read reads the topics of a model into its state ([Reader]) and counts what came of it. It sends rejected
// records to their topic, looks at lists of choices as they come ([Ranking]), and makes what writes scores. It does not
// decode events, which package ingest does, nor decide which partitions are read, which the role does.
//
// Callbacks of the consumer run on its goroutine, in Run. Counters are safe to read from any goroutine.
//
//	reader.go       start of partitions, batches that were stored, halts, lag
//	ready.go        why nothing is read
//	rejections.go   records that are no events, by cause
//	deadletters.go  the topic for them
//	ranking.go      lists that consumers would have got
//	scorer.go       the topic of scores
package read

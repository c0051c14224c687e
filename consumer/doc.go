// Package consumer reads Kafka topics. Package event, below it, decodes what it reads.
//
// [Consumer] fetches every partition of its topics, without a consumer group, and gives a [Sink] contiguous batches of
// offsets: each offset is a record, a transaction marker, a record of an aborted transaction, or a hole that compaction
// left. The place to start is the caller's: offsets committed to the group are a display for lag tools and are never
// read back. What cannot be read safely (a log that starts above the next offset or ends below it, a damaged batch)
// halts that partition with a text and leaves the others running.
//
// The package knows nothing of models, samples or storage.
//
// Importing it changes kafka-go for the whole process: Fetch responses arrive as raw bytes (see fetch.go), so that
// kafka.Client.Fetch must not be called. kafka.Reader, kafka.Conn and kafka.Writer are unaffected.
package consumer

// Package formats reads the records of a model in whichever format they are: it makes their decoders, and knows the
// schemas by which their writers wrote them.
//
// It does not take batches, which package ingest does, nor say what a format is, which packages avro, protobuf and
// jsonschema below consumer/event do. What a record waits for it says, and nobody waits here but in [Schemas.Fetch].
//
//   - decoders.go: a decoder of each kind of record, and the tables of the formats
//   - schemas.go: [Schemas], those of the state and those of a registry
//   - compare.go: whether a registry still has the schemas that the state has
//   - file.go: a copy of the schemas next to the state
//   - outline.go, subject.go: what a schema has, for those who ask
//
// [Schemas] is safe for concurrent use: each method takes its lock, which nobody holds while a registry is asked. It
// starts no goroutine; its client of a registry does, until [Schemas.Close]. A decoder belongs to one goroutine.
package formats

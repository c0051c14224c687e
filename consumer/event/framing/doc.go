// Package framing finds the schema that a value was written by: a frame before the bytes, or a header of the record.
//
// It knows the frames of Confluent's registry, of Apicurio and of AWS Glue, and reads headers as Kafka stores them. It
// does not know schemas or events, and asks no registry: [Frame.ID] is what writers of consumer/event and
// consumer/registry look up. All functions are pure; damaged bytes are no frame, and never a panic.
package framing

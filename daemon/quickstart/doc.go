// Package quickstart holds the parts of `refitd quickstart` that are not the daemon: an embedded Kafka-protocol broker, a generated
// rating stream with a change of taste, a producer that writes it at a steady rate, and the live table.
//
// The broker is franz-go's kfake: good for a demonstration and for tests, not for data that must be kept. Nothing here decides what
// is learned; the daemon reads the topic as it would read any other.
package quickstart

package ingest

import "github.com/refitd/refitd/consumer"

// assumedPartitions are fetched at a time; more of them share the same buffers by waiting.
const assumedPartitions = 16

// decodedBytes is what parts take between the consumer and the store, which are of half a MiB of records and one more each: three that are decoded, where
// a name of one letter is twelve times as long as in its record, and what of them waits to be stored.
const decodedBytes = 48 << 20

// FetchFootprint returns the bytes of records on their way from the broker, in hand and fetched ahead, with the largest batch decompressed, and of
// what they are decoded into.
func FetchFootprint(maxPartitionBytes int) int64 {
	return 2*assumedPartitions*int64(maxPartitionBytes) + int64(consumer.DefaultOptions().MaxDecompressedBytes) + decodedBytes
}

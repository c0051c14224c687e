package ingest

import "github.com/refitd/refitd/consumer"

// assumedPartitions are fetched at a time; more of them share the same buffers by waiting.
const assumedPartitions = 16

// FetchFootprint returns the bytes of records on their way from the broker, in hand and fetched ahead, with the largest batch decompressed.
func FetchFootprint(maxPartitionBytes int) int64 {
	return 2*assumedPartitions*int64(maxPartitionBytes) + int64(consumer.DefaultOptions().MaxDecompressedBytes)
}

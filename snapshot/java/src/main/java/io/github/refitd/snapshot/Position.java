package io.github.refitd.snapshot;

import java.time.Instant;

/**
 * Where a model is in the chain of deltas of its version. sequence and digest are of the last delta, 0 and the
 * manifest's of the version as it was published; payloadDigest is empty where the publisher has not said it; created
 * is when the last delta was made, watermark the newest event that the model knows, both null where not known.
 */
public record Position(long version, long sequence, String digest, String payloadDigest, Instant created,
        Instant watermark) {
}

package io.github.refitd.snapshot;

import java.time.Instant;

/**
 * The state of a watcher. version 0 is none loaded. Times are null where not known: expires is the later of manifest
 * and renewal, renewed when the publisher last confirmed the alias, checked when the source last answered. loads,
 * refused and the counts of deltas are since the start. error says why the newest version is not loaded, or why the
 * source does not answer; deltaError why no deltas come; null if all is well.
 */
public record Status(long version, String manifestDigest, String payloadDigest, String signedBy, Instant created,
        Instant watermark, Instant expires, Instant renewed, boolean expired, Instant loadedAt, Instant checked,
        long loads, long refused, Exception error, Position position, long deltasApplied, long deltasRefused,
        Exception deltaError) {
}

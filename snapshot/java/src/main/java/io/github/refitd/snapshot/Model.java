package io.github.refitd.snapshot;

import java.time.Instant;
import java.util.List;
import java.util.Map;

/** A published version, verified and tested on its golden events. */
public final class Model extends Scorer {
    final String signedBy;
    final Instant expires;
    private final Position position;

    Model(Manifest m, Contents c, String signedBy, Instant expires, CoChoices coChoices) {
        super(m, c, new Columns(m.schema, c, m.numFeatures, null), coChoices);
        this.signedBy = signedBy;
        this.expires = expires;
        position = new Position(m.version, 0, m.digest, m.payloadDigest, m.created, m.watermark);
    }

    /** Makes the model that deltas make of another one. */
    Model(Model before, Manifest m, Contents c, Position position) {
        super(m, c, new Columns(m.schema, c, m.numFeatures, before.columns), before.coChoices);
        signedBy = before.signedBy;
        expires = before.expires;
        this.position = position;
    }

    public String name() {
        return manifest.model;
    }

    public long version() {
        return manifest.version;
    }

    /** Returns where the model is in the chain of its version. */
    public Position position() {
        return position;
    }

    /** Returns the digest of all that scores depend on, "" after deltas of which none said it: see payloadDigest. */
    public String digest() {
        return position.payloadDigest();
    }

    /** Computes the digest of all that scores depend on. It takes time and memory as writing the version would. */
    public String payloadDigest() {
        return Payload.digest(this);
    }

    /** Returns the members of manifest.json but its own digest and a gap of a model that was not published. */
    public Map<String, Object> manifest() {
        return manifest.fields;
    }

    public String manifestDigest() {
        return manifest.digest;
    }

    /** Returns the id of the trusted key that signed the version, "" if the reader had no keys. */
    public String signedBy() {
        return signedBy;
    }

    /** Returns until when the version may be used, as far as it was known when it was loaded; null is for ever. */
    public Instant expires() {
        return expires;
    }

    /** Is fold by the first field that the version can fold in, with weights of 1, of which none are held. */
    public Overlay fold(List<? extends Map<String, ?>> history) {
        return fold(history, "", null, 0);
    }

    /**
     * Returns the model with the rows that the entities of labelled events get from these, oldest first, at most 1,000.
     * Entities are the names in the field, "" for the first that the version can fold in. The version has learned from
     * the first held events. weights may be null for 1. Throws NoFoldInException, or InputException with the place.
     */
    public Overlay fold(List<? extends Map<String, ?>> history, String field, double[] weights, int held) {
        return Overlay.fold(this, history, field, weights, held);
    }
}

package io.github.refitd.snapshot;

import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Pattern;

/**
 * What an alias says: a version, the digest of its manifest, and the number of the move that set it, with its newest
 * renewal. Version 0 is none. Times may be null.
 */
public record Pointer(long version, String manifestDigest, long sequence, Instant moved, String event, String keyId,
        String signature, String digest, Renewal renewal) {
    static final Pointer NONE = of(0);
    static final int MAX_BYTES = 1024;
    private static final long MAX_VERSION = (1L << 53) - 1;
    private static final long MAX_PLAUSIBLE = 1L << 40; // a number of a version that counting can come to
    private static final long MOVES_PER_VERSION = 16;
    private static final long MOVES_BESIDE = 1L << 24;
    private static final Pattern NAME = Pattern.compile("[a-z0-9][a-z0-9._-]{0,63}");

    /** A publisher's statement that an alias, as it was set by one move, is still valid. */
    public record Renewal(Instant renewed, Instant expires, String keyId, String signature, String digest) {
        static final Renewal NONE = new Renewal(null, null, "", "", "");

        static Renewal read(Fields f) {
            return new Renewal(f.time("renewed"), f.time("expires"), f.text("key_id"), f.text("signature"),
                    f.text("renewal_digest"));
        }
    }

    /** Returns one that names a version by its number alone. */
    static Pointer of(long version) {
        return new Pointer(version, "", 0, null, "", "", "", "", Renewal.NONE);
    }

    /** Throws BadNameException unless it is the name of a model or an alias. */
    static void checkName(String what, String name) {
        if (name == null || !NAME.matcher(name).matches()) {
            throw new BadNameException(what + " '" + name + "' is not of the form " + NAME.pattern());
        }
    }

    private byte[] text(String model, String alias) {
        return lines("refitd alias", model, alias, version, manifestDigest, sequence, Json.writeTime(moved), event,
                keyId);
    }

    private static byte[] lines(Object... lines) {
        StringBuilder out = new StringBuilder();
        for (Object line : lines) {
            out.append(line).append('\n');
        }
        return Json.bytes(out.toString());
    }

    /**
     * Throws FormatException or DigestException unless it is what an alias of a model was set to, and
     * SignatureException unless one of the keys signed it. Keys null asks for no signature; then the number of the
     * move has to be one that counting can have come to.
     */
    void verify(String model, String alias, Keys keys) {
        check(model, alias);
        if (keys != null) {
            keys.verify("alias " + alias, keyId, text(model, alias), signature);
        } else if (version > MAX_PLAUSIBLE || sequence > MOVES_PER_VERSION * version + MOVES_BESIDE) {
            throw new FormatException("alias " + alias + ": move " + sequence + " of an alias that names version "
                    + version + ": nobody can have counted to that");
        }
    }

    /** Is verify without looking at who signed it. */
    void check(String model, String alias) {
        if (version < 1 || version > MAX_VERSION || sequence < 0 || manifestDigest.isEmpty()) {
            throw new FormatException(
                    "alias " + alias + ": version " + version + ", sequence " + sequence + ": set it again");
        }
        boolean first = sequence == 0 && moved == null && (event + keyId + signature + digest).isEmpty();
        if (!first && !digest.equals("sha256:" + Json.sha256(text(model, alias)))) {
            throw new DigestException(
                    "alias " + alias + ": it is not the one that was written for model " + model + ": set it again");
        }
    }

    /** Returns the renewal, or none if it is of another move, damaged, or not signed by one of the keys. */
    Renewal verifiedRenewal(String model, String alias, Keys keys) {
        Renewal r = renewal;
        byte[] text = lines("refitd renewal", model, alias, version, manifestDigest, sequence,
                Json.writeTime(r.renewed), Json.writeTime(r.expires), r.keyId);
        if (r.renewed == null || !r.digest.equals("sha256:" + Json.sha256(text))) {
            return Renewal.NONE;
        }
        if (keys != null) {
            try {
                keys.verify("renewal", r.keyId, text, r.signature);
            } catch (SignatureException error) {
                return Renewal.NONE;
            }
        }
        return r;
    }

    Pointer with(Renewal other) {
        return new Pointer(version, manifestDigest, sequence, moved, event, keyId, signature, digest, other);
    }

    /** Reports whether both name the same version with the same manifest by the same move. */
    boolean same(Pointer other) {
        return version == other.version && manifestDigest.equals(other.manifestDigest) && sequence == other.sequence;
    }

    /** Reports whether both are the same, with the same renewal. */
    boolean unchanged(Pointer other) {
        return same(other) && Objects.equals(renewal.renewed, other.renewal.renewed);
    }

    /** Throws OlderException unless it is the pointer accepted last, or a later one. */
    void follow(Pointer last) {
        boolean later = sequence == 0 && last.sequence == 0 && version > last.version;
        if (!same(last) && sequence <= last.sequence && !later) {
            throw new OlderException("version " + version + " by move " + sequence
                    + " of the alias, accepted was version " + last.version + " by move " + last.sequence + ": an old copy is being offered; to use it"
                    + " nevertheless, pin the version or delete the state file");
        }
    }

    /** Returns when the publisher last confirmed the alias; null is not known. */
    Instant renewedAt() {
        boolean later = renewal.renewed != null && (moved == null || renewal.renewed.isAfter(moved));
        return later ? renewal.renewed : moved;
    }

    /** Returns until when the version may be used: the later of its manifest's time and the renewal's; null is ever. */
    Instant expiry(Instant expires) {
        Instant renewed = renewal.expires;
        return expires != null && renewed != null && renewed.isAfter(expires) ? renewed : expires;
    }

    /** Returns the members of its JSON object, in order. */
    Map<String, Object> members() {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("version", version);
        out.put("manifest_digest", manifestDigest);
        if (sequence != 0) {
            out.put("sequence", sequence);
        }
        if (moved != null) {
            out.put("moved", Json.writeTime(moved));
        }
        put(out, "event", event, "key_id", keyId, "signature", signature, "pointer_digest", digest);
        if (!renewal.equals(Renewal.NONE)) {
            Map<String, Object> r = new LinkedHashMap<>();
            r.put("renewed", Json.writeTime(renewal.renewed));
            if (renewal.expires != null) {
                r.put("expires", Json.writeTime(renewal.expires));
            }
            put(r, "key_id", renewal.keyId, "signature", renewal.signature);
            r.put("renewal_digest", renewal.digest);
            out.put("renewal", r);
        }
        return out;
    }

    private static void put(Map<String, Object> out, String... pairs) {
        for (int i = 0; i < pairs.length; i += 2) {
            if (!pairs[i + 1].isEmpty()) {
                out.put(pairs[i], pairs[i + 1]);
            }
        }
    }

    /** Reads a pointer, with its renewal if it has one; verify says whether it is one. */
    static Pointer read(String what, Fields f) {
        Renewal renewal = f.has("renewal") ? Renewal.read(new Fields(what + ": renewal", f.value.get("renewal")))
                : Renewal.NONE;
        return new Pointer(f.whole("version"), f.text("manifest_digest"), f.whole("sequence"), f.time("moved"),
                f.text("event"), f.text("key_id"), f.text("signature"), f.text("pointer_digest"), renewal);
    }

    /** Reads an alias file, which has one form only. */
    static Pointer decode(String alias, byte[] content) {
        String what = "alias " + alias;
        Pointer found = read(what, new Fields(what, Json.parse(what, content)));
        if (!found.renewal.equals(Renewal.NONE)
                || !Arrays.equals(Json.bytes(Json.write(found.members()) + "\n"), content)) {
            throw new FormatException(what + ": it is not in the form of an alias: set it again");
        }
        return found;
    }

    /** Adds the renewal in a file, null if the file is missing, unverified. */
    Pointer withRenewal(byte[] content) {
        if (content == null) {
            return this;
        }
        try {
            return with(Renewal.read(new Fields("renewal", Json.parse("renewal", content))));
        } catch (FormatException error) {
            return this;
        }
    }
}

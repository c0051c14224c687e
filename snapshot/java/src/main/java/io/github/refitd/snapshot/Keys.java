package io.github.refitd.snapshot;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Trusted Ed25519 public keys by id, which is the first eight bytes of their SHA-256 in hex. They never change. */
public final class Keys {
    private static final int MAX_KEYS_BYTES = 64 << 10;
    private static final Pattern PEM =
            Pattern.compile("-----BEGIN ([A-Z0-9 ]+)-----\\s+([A-Za-z0-9+/=\\s]+?)-----END \\1-----");
    private static final byte[] ED25519 = HexFormat.of().parseHex("302a300506032b6570032100"); // RFC 8410

    private final Map<String, PublicKey> keys = new LinkedHashMap<>();

    private Keys() {
    }

    /** Returns the public keys of PEM files; a file may hold several. Throws BadKeyException. */
    public static Keys load(Path... paths) {
        Keys found = new Keys();
        for (Path path : paths) {
            String text;
            try (InputStream in = Files.newInputStream(path)) {
                text = new String(in.readNBytes(MAX_KEYS_BYTES), StandardCharsets.ISO_8859_1);
            } catch (IOException error) {
                throw new BadKeyException("public key: " + error);
            }
            found.add("public key " + path, text);
        }
        return found;
    }

    private void add(String what, String text) {
        Matcher blocks = PEM.matcher(text);
        int count = 0;
        for (; blocks.find(); count++) {
            byte[] der = unbase64(blocks.group(2).replaceAll("\\s", ""));
            boolean is = der != null && der.length == ED25519.length + 32
                    && Arrays.equals(ED25519, 0, ED25519.length, der, 0, ED25519.length);
            if (!blocks.group(1).equals("PUBLIC KEY") || !is) {
                throw new BadKeyException(
                        what + ": a PEM block " + blocks.group(1) + " that is not an Ed25519 PUBLIC KEY");
            }
            try {
                String id = Json.sha256(der, ED25519.length, der.length).substring(0, 16);
                keys.put(id, KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(der)));
            } catch (GeneralSecurityException error) {
                throw new BadKeyException(what + ": " + error.getMessage());
            }
        }
        if (count == 0) {
            throw new BadKeyException(what + ": no PEM block PUBLIC KEY");
        }
    }

    /** Throws SignatureException unless the key of that id is trusted and signed the text. */
    void verify(String what, String keyId, byte[] text, byte[] signature) {
        if (keys.isEmpty()) {
            throw new SignatureException(
                    what + ": the list of trusted keys is empty: add the publisher's public key");
        }
        if (keyId.isEmpty() || signature.length == 0) {
            throw new SignatureException(what + ": it is unsigned: set publish.signing_key_file of the publisher");
        }
        PublicKey key = keys.get(keyId);
        if (key == null) {
            throw new SignatureException(
                    what + ": key " + keyId + " is not trusted: add its public key, if it should be");
        }
        boolean valid;
        try {
            Signature verifier = Signature.getInstance("Ed25519");
            verifier.initVerify(key);
            verifier.update(text);
            valid = verifier.verify(signature);
        } catch (java.security.SignatureException error) { // not even the form of one
            valid = false;
        } catch (GeneralSecurityException error) {
            throw new BadKeyException(what + ": key " + keyId + ": " + error.getMessage());
        }
        if (!valid) {
            throw new SignatureException(what + ": the signature is not one of key " + keyId
                    + ": it was altered, take it from the publisher again");
        }
    }

    /** Is verify of a signature in base64. */
    void verify(String what, String keyId, byte[] text, String signature) {
        byte[] found = unbase64(signature);
        if (found == null) {
            throw new SignatureException(what + ": the signature is not base64");
        }
        verify(what, keyId, text, found);
    }

    /** Throws SignatureException unless file is a manifest.sig over the manifest; null is a missing file. */
    String verifyManifest(byte[] manifest, byte[] file) {
        String keyId = "";
        String signature = "";
        if (file != null && file.length > 0) {
            try {
                Fields f = new Fields("manifest.sig", Json.parse("manifest.sig", file));
                keyId = f.text("key_id");
                signature = f.text("signature");
            } catch (FormatException error) {
                throw new SignatureException(error.getMessage());
            }
            Map<String, Object> again = new LinkedHashMap<>();
            again.put("key_id", keyId);
            again.put("algorithm", "ed25519");
            again.put("signature", signature);
            if (!Arrays.equals(Json.bytes(Json.write(again) + "\n"), file)) {
                throw new SignatureException("manifest.sig: not a signature of this format");
            }
        }
        verify("manifest.json", keyId, manifest, signature);
        return keyId;
    }

    /** Reads standard base64 with its padding, null for what is none. */
    private static byte[] unbase64(String text) {
        try {
            byte[] found = Base64.getDecoder().decode(text);
            return Base64.getEncoder().encodeToString(found).equals(text) ? found : null;
        } catch (IllegalArgumentException error) {
            return null;
        }
    }
}

"""Manifests of the Go library have the same digest here. The Go test TestPythonDigestsEveryField writes them and runs this."""

from __future__ import annotations

import base64
import json
import os
import unittest

from refitd_snapshot._manifest import decode_manifest

_PATH = os.environ.get("REFITD_MANIFESTS")


@unittest.skipUnless(_PATH, "REFITD_MANIFESTS names no file: go test ./snapshot -run Python")
class ManifestTest(unittest.TestCase):
    def test_every_field(self) -> None:
        with open(str(_PATH), encoding="utf-8") as f:
            manifests = json.load(f)
        self.assertGreater(len(manifests), 150)
        for want in manifests:
            with self.subTest(want["field"]):
                manifest = decode_manifest(base64.b64decode(want["manifest"]))
                found = manifest.payload_digest_of(manifest.files[0].sha256, manifest.files[1].sha256)
                self.assertEqual(found, want["payload_digest"])


if __name__ == "__main__":
    unittest.main()

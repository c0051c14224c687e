"""The lines of README.md in Python run, on the golden version."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import unittest

from .test_tables import pandas

_STORE = os.environ.get("REFITD_STORE")
_README = os.path.join(os.path.dirname(__file__), os.pardir, "README.md")


@unittest.skipUnless(_STORE and pandas, "REFITD_STORE names no store with the golden version, or pandas is not installed")
class ReadmeTest(unittest.TestCase):
    def test_lines(self) -> None:
        with open(_README, encoding="utf-8") as f:
            blocks = re.findall(r"```python\n(.*?)```", f.read(), re.DOTALL)
        self.assertEqual(len(blocks), 1)
        said, before = io.StringIO(), os.getcwd()
        with tempfile.TemporaryDirectory() as directory:
            os.symlink(str(_STORE), os.path.join(directory, "snapshots"))
            os.chdir(directory)
            try:
                with contextlib.redirect_stdout(said):
                    exec(compile(blocks[0], "README.md", "exec"), {})
            finally:
                os.chdir(before)
        for text in ("Prediction(value=", "rating", "p1", "p3", "Item(name="):
            self.assertIn(text, said.getvalue())


if __name__ == "__main__":
    unittest.main()

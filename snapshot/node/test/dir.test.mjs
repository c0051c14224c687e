// Where a directory is read from at the next look.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { DirSource } from "../lib/dir.js";

const segment = (number) => `${String(number).padStart(12, "0")}.seg`;

/** A store of frames of one byte, of which each is the number of its delta. */
const storeOf = (t, models) => {
  const store = mkdtempSync(join(tmpdir(), "refitd-"));
  t.after(() => rmSync(store, { recursive: true }));
  for (const model of models) mkdirSync(join(store, model, "1", "deltas"), { recursive: true });
  const write = (model, first, numbers) => writeFileSync(join(store, model, "1", "deltas", segment(first)), new Uint8Array(numbers));
  return { source: new DirSource(store), write };
};

// Reads what follows a delta, and takes all of it.
const look = async (source, model, after) => {
  const { frames, first, took } = await source.deltas(model, 1, after, undefined, false);
  took?.(frames.length, first + frames.length);
  return [...frames];
};

test("a look begins where the last one ended, in each model", async (t) => {
  const { source, write } = storeOf(t, ["a", "b"]);
  write("a", 1, [1, 2, 3]);
  write("b", 1, [1]);
  assert.deepEqual(await look(source, "a", 0), [1, 2, 3]);
  assert.deepEqual(await look(source, "b", 0), [1]);
  write("a", 1, [1, 2, 3, 4]);
  write("b", 1, [1, 2]);
  assert.deepEqual(await look(source, "a", 3), [4]);
  assert.deepEqual(await look(source, "b", 1), [2]);
});

test("frames that are not taken are read again, from the first of the segment", async (t) => {
  const { source, write } = storeOf(t, ["a"]);
  write("a", 1, [1, 2]);
  assert.deepEqual(await look(source, "a", 0), [1, 2]);
  write("a", 1, [1, 2, 3]);
  assert.deepEqual([...(await source.deltas("a", 1, 2, undefined, false)).frames], [3]); // and refused
  assert.deepEqual([...(await source.deltas("a", 1, 2, undefined, false)).frames], [1, 2, 3]);
});

test("what is not there is an error of the chain", async (t) => {
  const { source, write } = storeOf(t, ["a"]);
  write("a", 1, [1, 2, 3]);
  await look(source, "a", 0);
  write("a", 1, [1, 2]); // cut off
  await assert.rejects(look(source, "a", 3), { name: "ChainError", message: /delta 4 .* the newest before it is 2/ });
  write("a", 1, [1, 2, 3]);
  assert.deepEqual(await look(source, "a", 2), [3]);
  assert.deepEqual(await look(source, "a", 3), []);
  write("a", 6, [6]); // a gap
  await assert.rejects(look(source, "a", 3), { name: "ChainError", message: /delta 4 / });
});

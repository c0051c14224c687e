// What a watcher asks of its source, with a module that verifies nothing.
import assert from "node:assert/strict";
import { test } from "node:test";

import { GoldenError } from "../lib/errors.js";
import { Watcher } from "../lib/watch.js";

const bytes = (value) => new TextEncoder().encode(JSON.stringify(value));
const value = (content) => JSON.parse(new TextDecoder().decode(content));
const pointerOf = (version) => ({ version, sequence: version, manifest_digest: `sha256:${version}`, renewal: {} });
const isSame = (a, b) => a.version === b?.version;

/** A module that takes what it is given: a frame of deltas is the list of their numbers. */
class FakeModule {
  loads = [];
  refused = new Set();

  call(op, ask, parts) {
    if (op === "alias") return { pointer: value(parts[0]), same: isSame(value(parts[0]), ask.last) };
    if (op === "files") return [];
    if (op === "load") {
      this.loads.push(ask.pointer.version);
      if (this.refused.has(ask.pointer.version)) throw new GoldenError("other outputs");
      return this.#described(ask.pointer.version, 0);
    }
    if (op === "apply") {
      const last = value(parts[0]).at(-1);
      return { ...this.#described(ask.handle.version, last), whole: parts[0].length, next: last + 1 };
    }
  }

  #described(version, sequence) {
    const manifest = { version, kind: "update", schema: {} };
    return { handle: { version }, manifest, position: { version, sequence }, signed_by: "", expires: "0001-01-01T00:00:00Z" };
  }
}

/** A daemon: it holds an ask for an alias until it is another than the last. */
class FakeSource {
  asked = 0;
  #named = null;
  #news = [];
  #every;

  /** With every it looks again after so many milliseconds, and answers whether there are news or not, as a directory does. */
  constructor(every = 0) {
    this.#every = every;
  }

  set(version) {
    this.#named = pointerOf(version);
    this.#news.splice(0).forEach((tell) => tell());
  }

  async alias(_model, _alias, last, signal) {
    this.asked++;
    if (this.#every && last) await new Promise((resolve) => setTimeout(resolve, this.#every));
    else while (last && isSame(this.#named, last) && !signal.aborted) await new Promise((resolve) => {
      this.#news.push(resolve);
      signal.addEventListener("abort", resolve, { once: true });
    });
    return { fromFile: false, parts: [bytes(this.#named)] };
  }

  async read(_model, version, name) {
    return name === "manifest.json" ? bytes(version) : null;
  }
}

const until = async (reached) => {
  for (const end = Date.now() + 20_000; !reached(); await new Promise((resolve) => setTimeout(resolve, 1))) assert.ok(Date.now() < end);
};

for (const [place, every] of [["a daemon", 0], ["a directory", 1]])
  for (const by of ["golden events", "onLoad"])
    test(`${place} is not asked again for a version that ${by} refuse`, async (t) => {
      const module = new FakeModule(), source = new FakeSource(every), loaded = [];
      const onLoad = (model) => {
        loaded.push(model.version);
        if (by === "onLoad" && model.version % 2) throw new Error("not this one");
      };
      if (by !== "onLoad") [1, 3].forEach((version) => module.refused.add(version));
      source.set(1);
      const watcher = new Watcher(module, source, { model: "m", keys: null }, "champion", { onLoad });
      t.after(() => watcher.close());
      const asked = async (more) => { // an answer for each ask of a directory, none of a daemon
        const before = source.asked;
        await until(() => !every || source.asked >= before + more);
        await new Promise((resolve) => setTimeout(resolve));
      };
      await until(() => watcher.status.refused === 1);
      await asked(5);
      assert.deepEqual([module.loads, watcher.status.version], [[1], 0]);
      source.set(2);
      await until(() => watcher.status.version === 2);
      source.set(3);
      await until(() => watcher.status.refused === 2);
      await asked(5);
      assert.match(watcher.status.error.message, by === "onLoad" ? /not this one/ : /other outputs/);
      source.set(2); // back to what is served
      await until(() => watcher.status.error === null);
      assert.deepEqual([module.loads, watcher.status.version, watcher.status.loads], [[1, 2, 3], 2, 1]);
      assert.ok(every || source.asked <= 6, `asked ${source.asked} times`);
    });

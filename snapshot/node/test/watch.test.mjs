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

/** A daemon: it holds an ask for an alias until it is another than the last, and one for deltas until there are some. */
class FakeSource {
  asked = 0;
  written = new Map(); // the last delta, by version
  held = []; // versions whose next delta is waited for
  #named = null;
  #news = [];
  #every;

  /** With every it looks again after so many milliseconds, and answers whether there are news or not, as a directory does. */
  constructor(every = 0) {
    this.#every = every;
  }

  set(version) {
    this.#named = pointerOf(version);
    this.#tell();
  }

  write(version, last) {
    this.written.set(version, last);
    this.#tell();
  }

  #tell() {
    this.#news.splice(0).forEach((tell) => tell());
  }

  #hold(signal) {
    return new Promise((resolve) => {
      this.#news.push(resolve);
      signal.addEventListener("abort", resolve, { once: true });
    });
  }

  async alias(_model, _alias, last, signal) {
    this.asked++;
    if (this.#every && last) await new Promise((resolve) => setTimeout(resolve, this.#every));
    else while (last && isSame(this.#named, last) && !signal.aborted) await this.#hold(signal);
    return { fromFile: false, parts: [bytes(this.#named)] };
  }

  async read(_model, version, name) {
    return name === "manifest.json" ? bytes(version) : null;
  }

  async deltas(_model, version, after, signal, wait = true) {
    const last = () => this.written.get(version) ?? 0;
    if (wait) this.held.push(version);
    while (wait && last() <= after && !signal.aborted) await this.#hold(signal);
    if (wait) this.held.splice(this.held.indexOf(version), 1);
    const numbers = Array.from({ length: Math.max(0, last() - after) }, (_, i) => after + 1 + i);
    return { frames: numbers.length ? bytes(numbers) : new Uint8Array(), first: after + 1 };
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

test("an update is served with the deltas that there are of it", async (t) => {
  const source = new FakeSource(), served = [];
  source.set(1);
  source.write(1, 3);
  const onChange = (model) => served.push(`${model.version}.${model.position.sequence}`);
  const watcher = new Watcher(new FakeModule(), source, { model: "m", keys: null }, "champion", { onChange });
  t.after(() => watcher.close());
  await until(() => served.includes("1.3") && source.held.includes(1));
  source.written.set(2, 5);
  source.set(2);
  await until(() => source.held.includes(2));
  assert.deepEqual(source.held, [2], "deltas of the version before are waited for");
  source.write(2, 6);
  await until(() => served.includes("2.6"));
  source.set(1); // a rollback is served at once
  await until(() => served.at(-1) === "1.3");
  assert.deepEqual(served, ["1.0", "1.3", "2.5", "2.6", "1.0", "1.3"]);
  assert.deepEqual([watcher.status.deltasApplied, watcher.status.deltaError], [3 + 6 + 3, null]);
});

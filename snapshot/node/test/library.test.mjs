// The package says what the Go library says, to the bit. The Go tests of package snapshot write the expectations and run this.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import * as refitd from "../index.js";

const wanted = (name) => process.env[name] && JSON.parse(readFileSync(process.env[name], "utf8"));
const expectations = wanted("REFITD_EXPECTATIONS"), chains = wanted("REFITD_CHAINS"), url = process.env.REFITD_URL;
const keysOf = (files) => files && files.map((file) => readFileSync(file, "utf8"));
const or = (list) => list ?? [];

// Outputs are sums and products, and equal to the bit. Probabilities have the exponential function of the machine.
const near = (got, want, where, tolerance = 1e-14) => {
  assert.equal(got === null, want === null, where);
  or(want).forEach((w, i) => assert.ok(Math.abs(got[i] - w) <= tolerance * (1 + Math.abs(w)), `${where}: ${got}, want ${want}`));
};

const scores = (model, list, where, tolerance) => {
  for (const want of or(list)) {
    if (want.error) {
      assert.throws(() => model.predict(want.event), (error) => error.name === want.error && error instanceof refitd.SnapshotError, where);
      continue;
    }
    const p = model.prediction(want.event);
    if (tolerance) near(p.outputs, want.Outputs, where, tolerance);
    else assert.deepEqual(p.outputs, want.Outputs, where);
    near(p.probabilities, want.Probabilities, where, tolerance);
    if (typeof want.label === "number") near([p.prediction], [want.label], where, tolerance);
    else assert.deepEqual(p.prediction, want.label, where);
    assert.deepEqual(p.ranked ?? null, want.ranked, where);
    assert.deepEqual([p.unseen, p.absent], [or(want.Unseen), or(want.Absent)], where);
  }
  const good = or(list).filter((want) => !want.error);
  model.predictProba(good.map((want) => want.event)).forEach((p, i) => near(p, good[i].Probabilities, where, tolerance));
};

const tops = (model, list, where, tolerance) => {
  for (const want of or(list)) {
    const ask = () => model.topk(want.event, "item", { k: want.k, exclude: or(want.exclude), className: want.class, where: want.where });
    if (want.items === null) assert.throws(ask, { name: "InputError" }, where);
    else {
      const items = ask();
      assert.deepEqual(items.map((item) => item.name), want.items.map((item) => item.Name), where);
      near(items.map((item) => item.prediction), want.items.map((item) => item.Value), where, tolerance);
    }
  }
};

const folds = (model, list, where) => {
  for (const want of or(list)) {
    const over = model.fold(want.history, { field: want.field, weights: want.weights, held: want.held });
    scores(over, want.events, where, 1e-12); // rows of a history have the exponential function, too
    tops(over, want.tops, where, 1e-12);
    over.close();
  }
};

test("versions of every kind", { skip: !expectations }, async () => {
  assert.ok(expectations.models.length > 40);
  for (const want of expectations.models) {
    const model = await refitd.open(want.store, want.model, { version: 1 });
    scores(model, want.events, want.model);
    tops(model, want.tops, want.model);
    folds(model, want.folds, want.model);
    for (const { event, terms } of or(want.explained))
      assert.deepEqual(model.explain(event).terms, terms.map((t) => ({ features: or(t.Features), contribution: t.Contribution })), want.model);
    if (want.unfolded) assert.throws(() => model.fold(want.example), { name: want.unfolded });
    model.close();
    assert.throws(() => model.predict({}), { name: "InputError" });
  }
});

test("what is refused", { skip: !expectations }, async () => {
  const names = new Set();
  for (const want of expectations.refusals) {
    if (want.name.startsWith("a cut file")) continue; // where events behind a version end is not read here
    const options = { alias: want.alias, version: want.version, keys: keysOf(want.keys), now: new Date(want.now) };
    if (!want.error) {
      (await refitd.open(want.store, want.model, options)).close();
      continue;
    }
    names.add(want.error);
    const said = await refitd.open(want.store, want.model, options).then(() => "nothing", (error) => error);
    assert.equal(said.name, want.error, `${want.name}: ${said.message ?? said}`);
  }
  assert.ok(names.size >= 7, [...names].join());
});

test("deltas", { skip: !chains }, async () => {
  const names = new Set();
  for (const want of chains) {
    let model;
    try {
      model = await refitd.open(want.store, want.model, { version: 1, keys: keysOf(want.keys), deltas: true });
    } catch (error) {
      assert.equal(error.name, want.error, `${want.name}: ${error.message}`);
      names.add(want.error);
      continue;
    }
    assert.equal("", want.error, want.name);
    assert.deepEqual([model.position.sequence, model.payloadDigest()], [want.sequence, want.payload], want.name);
    scores(model, want.events, want.name);
    tops(model, want.tops, want.name);
    folds(model, want.folds, want.name);
    model.close();
  }
  assert.ok(names.size >= 4, [...names].join());
});

const until = async (watcher, reached) => {
  for (const end = Date.now() + 20_000; !reached(); await new Promise((resolve) => setTimeout(resolve, 2)))
    assert.ok(Date.now() < end, JSON.stringify({ ...watcher.status, error: String(watcher.status.error), deltaError: String(watcher.status.deltaError) }));
};

test("a chain is followed while it is written", { skip: !chains }, async (t) => {
  const want = chains.find((chain) => chain.name === "whole" && chain.keys);
  const segment = join(want.store, "m", "1", "deltas", "000000000001.seg"), whole = readFileSync(segment);
  const write = async (content) => {
    await writeFile(`${segment}.tmp`, content);
    await rename(`${segment}.tmp`, segment);
  };
  await write(Buffer.alloc(0));
  const watcher = await refitd.watch(want.store, "m", { alias: "latest", keys: keysOf(want.keys), every: 2 });
  t.after(() => watcher.close());
  await watcher.wait(20_000);
  let last = 0;
  for (let end = 0; end < whole.length; end += 37) { // a writer that is seen in the middle of a delta
    await write(whole.subarray(0, end));
    const at = watcher.model.position.sequence;
    assert.ok(at >= last);
    last = at;
  }
  const broken = Buffer.from(whole);
  broken[broken.length - 100] ^= 1;
  await write(broken);
  await until(watcher, () => watcher.status.deltaError?.name === "DigestError" && watcher.model.position.sequence === 8);
  await write(whole);
  await until(watcher, () => watcher.model.position.sequence === 9 && watcher.status.deltaError === null);
  assert.equal(watcher.model.payloadDigest(), want.payload);
});

test("an alias that moves", { skip: !expectations }, async (t) => {
  const { store, keys, now, stages } = expectations.watch;
  const model = join(store, "m");
  let watcher;
  t.after(() => watcher?.close());
  const put = async (folder, content) => {
    const path = join(model, folder, "champion");
    if (content === null) return rm(path, { force: true });
    await writeFile(`${path}.tmp`, Buffer.from(content, "base64"));
    await rename(`${path}.tmp`, path);
  };
  for (const stage of stages) {
    await put("renewals", stage.renewal);
    await put("aliases", stage.alias);
    watcher ??= await refitd.watch(store, "m", { keys: keysOf(keys), now: new Date(now), every: 2 });
    const expires = stage.expires ? Date.parse(stage.expires) : undefined;
    await until(watcher, () => {
      const { version, error, expires: at } = watcher.status;
      return version === stage.version && (error?.name ?? "") === stage.error && at?.getTime() === expires;
    });
  }
});

test("a daemon", { skip: !url }, async (t) => {
  const headers = { Authorization: "Bearer secret" }, keys = readFileSync(process.env.REFITD_KEY, "utf8");
  const model = await refitd.open(url, "m", { keys, headers }), changed = await refitd.open(url, "m", { keys, headers, deltas: true });
  assert.deepEqual([model.version, model.position.sequence, changed.position.sequence], [1, 0, 9]);
  await assert.rejects(refitd.open(url, "m", { keys }), /status 401/);
  await assert.rejects(refitd.open(url, "m", { alias: "none", headers }), { name: "NotFoundError" });
  await assert.rejects(refitd.open(url, "m", { version: 7, headers }), { name: "NotFoundError" });
  const watcher = await refitd.watch(url, "m", { keys, headers });
  t.after(() => watcher.close());
  await until(watcher, () => watcher.model?.position.sequence === 9);
  assert.deepEqual([watcher.status.loads, watcher.status.refused, watcher.status.error], [1, 0, null]);
});

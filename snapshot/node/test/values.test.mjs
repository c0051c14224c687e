// Values of JavaScript that JSON would say as others.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Model } from "../lib/model.js";
import { Module } from "../lib/module.js";

/** A module that answers with what it was asked. */
class Echo extends Module {
  #at = 8; // of an answer, behind its request
  memory = { buffer: new ArrayBuffer(1 << 16) };
  exports = {
    refitd_alloc: () => 0,
    refitd_call: () => {
      const size = new DataView(this.memory.buffer).getUint32(0, true);
      const said = JSON.parse(new TextDecoder().decode(new Uint8Array(this.memory.buffer, 4, size)));
      this.asked = said.ask;
      const answer = new TextEncoder().encode(JSON.stringify({ answer: [] }));
      new Uint8Array(this.memory.buffer).set(answer, 4 + size + this.#at);
      return (BigInt(4 + size + this.#at) << 32n) | BigInt(answer.length);
    },
  };
}

test("names and numbers are those that were meant", () => {
  const module = new Echo(), schema = { categorical: ["user"], multi: ["tags"] };
  const model = new Model(module, { handle: 1, manifest: { schema }, position: {}, expires: "0001-01-01T00:00:00Z" });
  const large = 9007199254740993n, rounded = Number(large);
  model.prediction([{ user: large, tags: [5n], price: 1e300 }]);
  assert.deepEqual(module.asked.events, [{ user: "9007199254740993", tags: ["5"], price: 1e300 }]);
  model.topk({ price: NaN }, "user", { exclude: [large, 7], where: { tags: [large], price: { min: -1e300 } } });
  assert.deepEqual(module.asked, { handle: 1, event: { price: null }, over: "user", k: 10, exclude: ["9007199254740993", 7],
    where: { tags: ["9007199254740993"], price: { min: -1e300 } }, class: "" });
  const refused = [
    () => model.prediction({ user: rounded }),
    () => model.explain({ tags: [1, rounded] }),
    () => model.fold([{ user: 1 }, { user: rounded }]),
    () => model.topk({}, "user", { exclude: [-rounded] }),
    () => model.topk({}, "user", { where: { tags: rounded } }),
    () => model.prediction({ user: 1, price: Infinity }),
    () => model.topk({ price: -Infinity }, "user"),
  ];
  for (const ask of refused) assert.throws(ask, { name: "InputError" }, String(ask));
  for (const exclude of ["1006", Buffer.from("1006"), { 1006: 1 }, 1006])
    assert.throws(() => model.topk({}, "user", { exclude }), { name: "TypeError" }, String(exclude));
});

// How a daemon is asked.
import assert from "node:assert/strict";
import { test } from "node:test";

import { HTTPSource } from "../lib/source.js";

test("a download may take as long as it goes on", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let body, asked;
  t.mock.method(globalThis, "fetch", async (_url, { signal }) => {
    asked = signal;
    const stream = new ReadableStream({ start: (controller) => { body = controller; } });
    signal.addEventListener("abort", () => body.error(signal.reason), { once: true });
    return new Response(stream);
  });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const source = new HTTPSource("http://daemon"), reads = source.read("m", 1, "tensors", 100);
  for (let part = 0; part < 4; part++) {
    await turn();
    t.mock.timers.tick(39_000);
    assert.equal(asked.aborted, false, `after ${part} parts`);
    body.enqueue(new Uint8Array([part]));
  }
  await turn();
  body.close();
  assert.deepEqual([...(await reads)], [0, 1, 2, 3]);
  t.mock.timers.tick(50_000);
  assert.equal(asked.aborted, false, "after the end");
  const silent = assert.rejects(source.read("m", 1, "tensors", 100), /no byte for 40 seconds/);
  await turn();
  body.enqueue(new Uint8Array([1]));
  await turn();
  t.mock.timers.tick(40_001);
  assert.ok(asked.aborted, "a silent daemon is waited for");
  await silent;
});

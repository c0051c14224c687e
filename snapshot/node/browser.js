// refitd-snapshot for browsers: daemons.
import { reader } from "./lib/reader.js";
import { HTTPSource } from "./lib/source.js";

export { HTTPSource };
export * from "./lib/errors.js";

const module = async () => {
  const answer = await fetch(new URL("./refitd_snapshot.wasm", import.meta.url));
  if (!answer.ok) throw new Error(`refitd_snapshot.wasm: status ${answer.status}: serve it next to browser.js`);
  return answer.arrayBuffer();
};

const sourceOf = (store, options) =>
  typeof store === "object" && store !== null && typeof store.alias === "function" ? store : new HTTPSource(String(store), options);

export const { open, watch } = reader(module, sourceOf);

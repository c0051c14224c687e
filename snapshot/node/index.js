// refitd-snapshot for Node: directories and daemons.
import { readFile } from "node:fs/promises";

import { DirSource } from "./lib/dir.js";
import { reader } from "./lib/reader.js";
import { HTTPSource } from "./lib/source.js";

export { DirSource, HTTPSource };
export * from "./lib/errors.js";

const sourceOf = (store, options) => {
  if (typeof store === "object" && store !== null && typeof store.alias === "function") return store;
  return /^https?:\/\//.test(String(store)) ? new HTTPSource(String(store), options) : new DirSource(String(store), options);
};

export const { open, watch } = reader(() => readFile(new URL("./refitd_snapshot.wasm", import.meta.url)), sourceOf);

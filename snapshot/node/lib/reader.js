// open and watch, for any source.
import { GoldenError, NotFoundError, OlderError, errorOf } from "./errors.js";
import { Model } from "./model.js";
import { Module } from "./module.js";
import { Watcher } from "./watch.js";

const maxManifest = 64 << 10;
const maxSignature = 512;

/** Reads what an alias names, verified against what was accepted last: null if that is still what was seen. */
export const follow = async (module, source, trust, alias, seen, last, signal) => {
  const said = await source.alias(trust.model, alias, seen, signal);
  return said && module.call("alias", { ...trust, alias, from_file: said.fromFile, last: last ?? {} }, said.parts);
};

/** Reads, verifies and tests the version that a pointer names. */
export const load = async (module, source, trust, pointer, signal) => {
  const read = (name, most) => source.read(trust.model, pointer.version, name, most, signal);
  const manifest = await read("manifest.json", maxManifest);
  if (manifest === null) throw new NotFoundError(`no version ${pointer.version} of model ${trust.model}: it was pruned or never published`);
  const signature = trust.keys ? await read("manifest.sig", maxSignature) : null;
  const found = [["manifest.json", manifest], ["manifest.sig", signature]];
  const wanted = module.call("files", trust, signature ? [manifest, signature] : [manifest]);
  found.push(...(await Promise.all(wanted.map(async ({ name, bytes }) => [name, await read(name, bytes)]))));
  const there = found.filter(([, content]) => content !== null);
  const ask = { ...trust, pointer, names: there.map(([name]) => name) };
  return new Model(module, module.call("load", ask, there.map(([, content]) => content)));
};

/** Applies the deltas that there are of a version. */
const withDeltas = async (source, trust, model) => {
  for (let at = model; ; ) {
    const { frames, first, took } = await source.deltas(trust.model, at.version, at.position.sequence, undefined, false);
    if (frames.length === 0) return at;
    const { model: next, refused, whole, next: follows } = at.applied({ ...trust, first }, frames);
    if (refused) throw errorOf(refused);
    took?.(whole, follows);
    if (next === at) return at;
    at = next;
  }
};

/** Reports whether a version is refused for what it is: reading it again would change nothing. */
export const isFinal = (error) => error instanceof OlderError || error instanceof GoldenError;

/** Makes open and watch of what loads the module and of what makes a source of a store. */
export const reader = (bytes, sourceOf) => {
  let loaded;
  const module = () => (loaded ??= bytes().then((b) => Module.load(b), (error) => { loaded = undefined; throw error; }));
  const trustOf = (model, { keys = null, allowExpired = false, now = null }) =>
    ({ model, keys: keys === null || Array.isArray(keys) ? keys : [keys], allow_expired: allowExpired, ...(now && { now: now.toISOString() }) });

  const open = async (store, model, options = {}) => {
    const source = sourceOf(store, options), trust = trustOf(model, options), into = await module();
    const opened = await version(into, source, trust, options);
    return options.deltas ? withDeltas(source, trust, opened) : opened;
  };

  const version = async (into, source, trust, options) => {
    if (options.version) return load(into, source, trust, { version: options.version });
    let last;
    for (let look = 0; ; look++) {
      const { pointer } = await follow(into, source, trust, options.alias ?? "champion", null, null);
      try {
        return await load(into, source, trust, pointer);
      } catch (error) { // it may have been pruned since: see whether the alias has moved on
        if (!(error instanceof NotFoundError) || look >= 100 || last === pointer.version) throw error;
        last = pointer.version;
      }
    }
  };

  const watch = async (store, model, options = {}) =>
    new Watcher(await module(), sourceOf(store, options), trustOf(model, options), options.alias ?? "champion", options);

  return { open, watch };
};

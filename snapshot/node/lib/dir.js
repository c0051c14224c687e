// A directory as the source of versions, in Node. Nothing that it has is trusted: the module verifies.
import { constants, lstatSync, realpathSync } from "node:fs";
import { open as openFile, readdir } from "node:fs/promises";
import { join, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { BadNameError, ChainError, DigestError, FormatError, NotFoundError } from "./errors.js";

const validName = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const maxAlias = 1024;
const maxSegment = 128 << 20;

/** A store, or a synchronised copy of one. Paths do not leave the directory of the model, by ".." or by links. */
export class DirSource {
  #store;
  #every;
  #places = new Map(); // by model: where the next delta of the version begins in its segment

  /** every is the mean pause between two looks, in milliseconds. */
  constructor(store, { every = 250 } = {}) {
    this.#store = store;
    this.#every = every;
  }

  /** What an alias says, as the parts of an `alias` call: null if that is still last. With last, it waits a moment. */
  async alias(model, alias, last, signal) {
    if (last) await sleep(this.#every * (0.8 + 0.4 * Math.random()), undefined, { signal });
    named("alias", alias);
    const content = await this.#read(model, `aliases/${alias}`, maxAlias);
    if (content === null) throw new NotFoundError(`no alias ${alias} of model ${model}: promote a version, or choose one by its number`);
    const renewal = await this.#read(model, `renewals/${alias}`, maxAlias).catch(() => null); // what is none takes nothing from the alias
    return { fromFile: true, parts: renewal ? [content, renewal] : [content] };
  }

  /** A file of a version, null if it is missing. */
  async read(model, version, name, most) {
    if (!isDirectory(join(this.#root(model), String(version)))) throw new NotFoundError(`no version ${version}: it was pruned or never published`);
    return this.#read(model, `${version}/${name}`, most);
  }

  /** Frames of one segment that follow a delta: bytes, and the number of the first. */
  async deltas(model, version, after, signal, wait = true) {
    if (wait) await sleep(this.#every * (0.8 + 0.4 * Math.random()), undefined, { signal });
    const root = this.#root(model);
    if (!isDirectory(join(root, String(version)))) throw new NotFoundError(`no version ${version}: it was pruned or never published`);
    const folder = join(root, String(version), "deltas");
    const names = isDirectory(folder) ? await readdir(folder) : [];
    const segments = names.filter((name) => /^[0-9]{12}\.seg$/.test(name)).map((name) => Number(name.slice(0, -4))).sort((a, b) => a - b);
    const before = segments.filter((first) => first <= after + 1);
    if (before.length === 0) {
      if (after || segments.length) throw new ChainError(`delta ${after + 1} of version ${version} is not there, and none before it`);
      return { frames: new Uint8Array(), first: 1 };
    }
    const segment = before[before.length - 1];
    const name = `${version}/deltas/${String(segment).padStart(12, "0")}.seg`;
    let place = this.#places.get(model);
    const holds = place?.version === version && place.segment === segment && place.next <= after + 1;
    if (!holds || place.offset > sizeOf(join(root, name))) place = { version, segment, next: segment, offset: 0 };
    const frames = await this.#read(model, name, maxSegment, place.offset);
    if (frames === null) return { frames: new Uint8Array(), first: after + 1 };
    const took = (whole, next) => {
      this.#places.set(model, { ...place, next, offset: place.offset + whole });
      if (next <= after + 1 && (next < after + 1 || segments.length > before.length))
        throw new ChainError(`delta ${after + 1} of version ${version} is not there, the newest before it is ${next - 1}`);
    };
    if (frames.length === 0) took(0, place.next);
    else this.#places.delete(model); // unless they are taken, a later look begins with the segment
    return { frames, first: place.next, took };
  }

  #root(model) {
    named("model", model);
    if (!isDirectory(this.#store, true)) throw new NotFoundError(`no store at ${this.#store}: check the path`);
    const root = join(this.#store, model);
    if (!isDirectory(root)) throw new NotFoundError(`no model ${model} in ${this.#store}: check the name, or publish a first version`);
    return root;
  }

  async #read(model, name, most, offset = 0) {
    const root = this.#root(model), path = join(root, name);
    let file;
    try {
      if (!lstatSync(path).isFile()) throw new FormatError(`${name}: not a regular file`);
      if (!(realpathSync(path) + sep).startsWith(realpathSync(root) + sep)) throw new FormatError(`${name}: its path leaves the directory of the model`);
      file = await openFile(path, constants.O_RDONLY | constants.O_NOFOLLOW);
      const { size } = await file.stat();
      if (size - offset > most) throw new DigestError(`${name}: ${size} bytes, at most ${most} expected`);
      const content = new Uint8Array(Math.max(0, size - offset));
      const { bytesRead } = await file.read(content, 0, content.length, offset);
      return content.subarray(0, bytesRead);
    } catch (error) {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return null;
      throw error;
    } finally {
      await file?.close();
    }
  }
}

const isDirectory = (path, follow = false) => {
  try {
    return lstatSync(follow ? realpathSync(path) : path).isDirectory();
  } catch {
    return false;
  }
};

const sizeOf = (path) => lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;

const named = (what, name) => {
  if (!validName.test(name)) throw new BadNameError(`${what} ${JSON.stringify(name)} is not of the form ${validName.source}`);
};

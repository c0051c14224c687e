// A daemon as the source of versions. Nothing that it says is trusted: the module verifies.
import { ChainError, DigestError, NotFoundError, SnapshotError } from "./errors.js";

const longPoll = 10; // seconds that a daemon is asked to hold a request that has no news
const patience = 30_000; // milliseconds without a byte that an answer may take beyond that

/** A daemon, by its URL. */
export class HTTPSource {
  #url;
  #headers;

  constructor(url, { headers = {} } = {}) {
    this.#url = url.replace(/\/+$/, "") + "/v1/models/";
    this.#headers = headers;
  }

  /** What an alias says, as the parts of an `alias` call: null if that is still last. With last, it waits for news. */
  async alias(model, alias, last, signal) {
    let query = "";
    const headers = {};
    if (last) {
      query = `?after=${last.version}&wait=${longPoll}s&renewed=${encodeURIComponent(last.renewal?.renewed ?? "0001-01-01T00:00:00Z")}`;
      headers["If-None-Match"] = `"${last.sequence ?? 0}-${last.version}-${last.manifest_digest.replace("sha256:", "")}"`;
    }
    const content = await this.#get(`${model}/aliases/${alias}${query}`, 64 << 10, signal, headers);
    if (content === null) throw new NotFoundError(`no alias ${alias} of model ${model} at ${this.#url}`);
    return content.length ? { fromFile: false, parts: [content] } : null;
  }

  /** A file of a version, null if it is missing. */
  read(model, version, name, most, signal) {
    return this.#get(`${model}/versions/${version}/files/${name}`, most, signal);
  }

  /** Frames that follow a delta: bytes, and the number of the first. It waits for the next one, unless wait is false. */
  async deltas(model, version, after, signal, wait = true) {
    const hold = wait ? longPoll : 0;
    const content = await this.#get(`${model}/deltas?base=${version}&after=${after}&wait=${hold}s`, 512 << 20, signal);
    if (content === null) throw new NotFoundError(`no version ${version} of model ${model} at ${this.#url}`);
    return { frames: content, first: after + 1 };
  }

  async #get(path, most, signal, headers = {}) {
    const silent = new AbortController();
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(new SnapshotError(`GET ${path}: no byte for ${longPoll + patience / 1000} seconds`)), longPoll * 1000 + patience);
    };
    heard();
    try {
      const until = signal ? AbortSignal.any([signal, silent.signal]) : silent.signal;
      const answer = await fetch(this.#url + path, { headers: { ...this.#headers, ...headers }, signal: until, cache: "no-store" });
      if (answer.status === 304) return new Uint8Array();
      if (answer.status === 404) return null;
      if (answer.status === 409 || answer.status === 410) throw new ChainError(`GET ${path}: status ${answer.status}`);
      if (!answer.ok) throw new SnapshotError(`GET ${this.#url}${path}: status ${answer.status}`);
      return await bounded(answer.body, most, path, heard);
    } finally {
      clearTimeout(timer);
    }
  }
}

// bounded reads a stream of at most so many bytes, and calls heard with each part.
const bounded = async (stream, most, name, heard) => {
  const chunks = [];
  let size = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    heard();
    chunks.push(value);
    if ((size += value.length) > most) {
      await reader.cancel();
      throw new DigestError(`${name}: more than the ${most} bytes expected`);
    }
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
};

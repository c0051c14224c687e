// The WebAssembly module: its memory, its calls, and what it asks of its host.
import { errorOf, InputError, SnapshotError } from "./errors.js";

const ABI = 1;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

// What the module asks of a system (WASI preview 1), as far as it needs it: time, random numbers, output of a crash. It has no files.
const system = (memory) => {
  const view = () => new DataView(memory().buffer);
  const none = () => 0;
  const refused = () => 8; // EBADF: no such file
  return {
    args_get: none,
    args_sizes_get: (count, size) => (view().setUint32(count, 0, true), view().setUint32(size, 0, true), 0),
    environ_get: none,
    environ_sizes_get: (count, size) => (view().setUint32(count, 0, true), view().setUint32(size, 0, true), 0),
    clock_time_get: (clock, _precision, at) => {
      const ms = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(at, BigInt(Math.round(ms * 1e6)), true);
      return 0;
    },
    random_get: (at, length) => {
      for (let done = 0; done < length; done += 65536) // what getRandomValues gives at a time
        crypto.getRandomValues(new Uint8Array(memory().buffer, at + done, Math.min(65536, length - done)));
      return 0;
    },
    fd_write: (fd, parts, count, written) => {
      let text = "", all = 0;
      for (let i = 0; i < count; i++) {
        const at = view().getUint32(parts + 8 * i, true), length = view().getUint32(parts + 8 * i + 4, true);
        text += decoder.decode(new Uint8Array(memory().buffer, at, length));
        all += length;
      }
      if (text) console.error(text.trimEnd());
      view().setUint32(written, all, true);
      return 0;
    },
    poll_oneoff: (_in, _out, count, events) => (view().setUint32(events, count, true), 0), // the time has passed: nothing waits here
    proc_exit: (code) => { throw new SnapshotError(`the module ended with ${code}`); },
    sched_yield: none,
    fd_close: none, fd_fdstat_get: refused, fd_fdstat_set_flags: refused, fd_prestat_get: refused, fd_prestat_dir_name: refused, fd_read: refused,
    path_filestat_get: refused, path_open: refused,
  };
};

// plain returns what JSON has a form of: a BigInt is a name. An infinity would be null, which is missing.
const plain = (key, value) => {
  if (value === Infinity || value === -Infinity) throw new InputError(`${key}: ${value} cannot be scored`);
  return typeof value === "bigint" ? String(value) : value;
};

/** An instance of the module. It answers one call at a time, at once. */
export class Module {
  static async load(bytes) {
    const found = new Module();
    const imports = system(() => found.memory);
    const { instance } = await WebAssembly.instantiate(bytes, { wasi_snapshot_preview1: imports });
    found.exports = instance.exports;
    found.memory = instance.exports.memory;
    instance.exports._initialize();
    const abi = instance.exports.refitd_abi();
    if (abi !== ABI) throw new SnapshotError(`refitd_snapshot.wasm speaks version ${abi}, these files ${ABI}: take both from one package`);
    return found;
  }

  /** Asks for an operation. Parts are Uint8Arrays. Throws a SnapshotError. */
  call(op, ask, parts = []) {
    const header = encoder.encode(JSON.stringify({ op, ask, parts: parts.map((part) => part.length) }, plain));
    const size = parts.reduce((sum, part) => sum + part.length, 4 + header.length);
    const at = this.exports.refitd_alloc(size) >>> 0;
    const memory = new Uint8Array(this.memory.buffer, at, size);
    new DataView(this.memory.buffer).setUint32(at, header.length, true);
    memory.set(header, 4);
    let end = 4 + header.length;
    for (const part of parts) {
      memory.set(part, end);
      end += part.length;
    }
    const answered = BigInt.asUintN(64, this.exports.refitd_call());
    const text = new Uint8Array(this.memory.buffer, Number(answered >> 32n), Number(answered & 0xffffffffn));
    const { answer, error } = JSON.parse(decoder.decode(text));
    if (error) throw errorOf(error);
    return answer;
  }
}

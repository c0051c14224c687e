// The newest acceptable model of an alias.
import { ChainError, NotFoundError, SnapshotError, errorOf } from "./errors.js";
import { follow, isFinal, load } from "./reader.js";

const retryMin = 250, retryMax = 5000, retryAbsent = 500; // milliseconds after a failure, doubling; and while there is no alias yet

/** A refusal by onLoad. */
class RefusedError extends SnapshotError {}

/** Keeps the newest acceptable model of an alias. A version that is refused changes nothing: the last good one is served. */
export class Watcher {
  #module;
  #source;
  #trust;
  #alias;
  #options;
  #stop = new AbortController();
  #model = null;
  #base = null; // the same without deltas
  #following = null; // ends the deltas of it
  #accepted = null;
  #expires = null;
  #waiting = [];
  #status = { version: 0, loads: 0, refused: 0, deltasApplied: 0, deltasRefused: 0, error: null, deltaError: null };

  constructor(module, source, trust, alias, { deltas = true, pin = 0, onLoad = null, onChange = null } = {}) {
    [this.#module, this.#source, this.#trust, this.#alias] = [module, source, trust, alias];
    this.#options = { deltas: deltas && typeof source.deltas === "function", pin, onLoad, onChange };
    this.#run();
  }

  /** The model to answer with, null before the first one is loaded, and once it has expired unless that is allowed. */
  get model() {
    return this.#expires && !this.#trust.allow_expired && Date.now() >= this.#expires ? null : this.#model;
  }

  /** The state of the watcher. */
  get status() {
    return { ...this.#status, expires: this.#expires, position: this.#model?.position ?? null };
  }

  /** Returns the first model as soon as there is one. Rejects after so many milliseconds, with the reason. */
  wait(timeout = 0) {
    if (this.#model) return Promise.resolve(this.#model);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      if (timeout) setTimeout(() => reject(new SnapshotError(`no model yet: ${this.#status.error ?? "the source has not answered"}`)), timeout);
    });
  }

  /** Stops watching. The last model can still answer. */
  close() {
    this.#stop.abort();
    this.#following?.abort();
    for (const { reject } of this.#waiting.splice(0)) reject(new SnapshotError("closed"));
  }

  async #run() {
    let failures = 0, seen = null; // seen is what the source is asked for a change of: accepted in this run, or refused for good
    while (!this.#stop.signal.aborted) {
      let most = retryMax, found = null;
      try {
        found = await this.#next(seen);
        if (found && (found.same || !isOf(found.pointer, seen))) await this.#take(found);
        [seen, failures] = [found?.pointer ?? seen, 0];
        continue;
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#status.error = error;
        if (found && (isFinal(error) || error instanceof RefusedError)) { // the same bytes say the same
          [seen, failures] = [found.pointer, 0];
          continue;
        }
        if (error instanceof NotFoundError) most = retryAbsent;
      }
      await this.#pause(failures++, most);
    }
  }

  async #next(seen) {
    const { pin } = this.#options;
    if (!pin) return follow(this.#module, this.#source, this.#trust, this.#alias, seen, this.#accepted, this.#stop.signal);
    if (seen?.version === pin) await new Promise((resolve) => this.#stop.signal.addEventListener("abort", resolve, { once: true }));
    return { pointer: { version: pin }, same: false };
  }

  async #take({ pointer, same }) {
    if (same && this.#base) { // renewed
      this.#accepted = pointer;
      const [last, renewed] = [this.#base.manifest.expires, pointer.renewal?.expires].map((time) => (time ? new Date(time) : null));
      this.#expires = last && renewed > last ? renewed : last; // a renewal extends what the manifest lets expire
      this.#status.error = null;
      return;
    }
    let model;
    try {
      model = await load(this.#module, this.#source, this.#trust, pointer, this.#stop.signal);
      await this.#ask(model);
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#status.refused++;
      throw error;
    }
    const state = await this.#caughtUp(model);
    if (this.#stop.signal.aborted) return;
    if (!this.#options.pin) this.#accepted = pointer;
    [this.#base, this.#model, this.#expires] = [model, state, model.expires];
    Object.assign(this.#status, { version: model.version, loads: this.#status.loads + 1, error: null, deltaError: null });
    this.#status.deltasApplied += state.position.sequence;
    this.#following?.abort();
    this.#following = new AbortController();
    if (this.#options.deltas) this.#runDeltas(model, state, this.#following.signal);
    for (const { resolve } of this.#waiting.splice(0)) resolve(state);
    this.#options.onChange?.(state);
  }

  // Returns an update that is about to be served with the deltas that there are of it: readers do not go back in time for a moment.
  // A refit or an earlier version, as by a rollback, is served as it is.
  async #caughtUp(model) {
    if (!this.#options.deltas || model.manifest.kind !== "update" || !(this.#base?.version < model.version)) return model;
    for (let at = model; ; ) {
      try {
        const { next, refused, took } = await this.#after(at, this.#stop.signal, false);
        if (refused || next === at) return next;
        at = next;
        took?.();
      } catch { // #runDeltas finds and reports again what is wrong with the next delta
        return at;
      }
    }
  }

  // Asks for deltas after a state: the state after those that were taken, and why the next was refused.
  async #after(state, signal, wait) {
    const { frames, first, took } = await this.#source.deltas(this.#trust.model, state.version, state.position.sequence, signal, wait);
    if (frames.length === 0) return { next: state };
    const { model, refused, whole, next } = state.applied({ ...this.#trust, first }, frames);
    return { next: model, refused: refused && errorOf(refused), took: () => took?.(whole, next) };
  }

  // Lets the program refuse a version.
  async #ask(model) {
    try {
      await this.#options.onLoad?.(model);
    } catch (cause) {
      throw Object.assign(new RefusedError(`version ${model.version}: refused by the program: ${cause?.message ?? cause}`), { cause });
    }
  }

  // Applies the deltas of a version while it is served. After a break in the chain all of them are asked for again.
  async #runDeltas(base, state, signal) {
    for (let failures = 0; !signal.aborted; ) {
      try {
        const { next, refused, took } = await this.#after(state, signal, true);
        if (signal.aborted) return;
        this.#serve(state, next);
        state = next;
        if (refused) throw refused;
        took?.();
        failures = 0;
        this.#status.deltaError = null;
        continue;
      } catch (error) {
        if (signal.aborted) return;
        this.#status.deltaError = error;
        if (error instanceof SnapshotError) this.#status.deltasRefused++;
        if (error instanceof ChainError) state = base;
      }
      await this.#pause(failures++, retryMax, signal);
    }
  }

  #serve(before, next) {
    if (next === before) return;
    const gained = next.position.sequence - this.#model.position.sequence;
    if (gained <= 0) return;
    this.#model = next;
    this.#status.deltasApplied += gained;
    this.#options.onChange?.(next);
  }

  #pause(failures, most, signal = this.#stop.signal) {
    const time = Math.min(retryMin * 2 ** Math.min(failures, 10), most) * (0.8 + 0.4 * Math.random());
    return new Promise((resolve) => {
      const done = () => (clearTimeout(timer), resolve());
      const timer = setTimeout(() => (signal.removeEventListener("abort", done), resolve()), time);
      signal.addEventListener("abort", done, { once: true });
    });
  }
}

// isOf reports whether two pointers are of one move of the alias, perhaps renewed.
const isOf = (a, b) => a.version === b?.version && a.sequence === b.sequence && a.manifest_digest === b.manifest_digest;

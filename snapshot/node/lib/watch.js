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
  #accepted = null;
  #expires = null;
  #waiting = [];
  #status = { version: 0, loads: 0, refused: 0, deltasApplied: 0, deltasRefused: 0, error: null, deltaError: null };

  constructor(module, source, trust, alias, { deltas = true, pin = 0, onLoad = null, onChange = null } = {}) {
    [this.#module, this.#source, this.#trust, this.#alias] = [module, source, trust, alias];
    this.#options = { pin, onLoad, onChange };
    this.#run();
    if (deltas && typeof source.deltas === "function") this.#runDeltas();
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
    if (!this.#options.pin) this.#accepted = pointer;
    [this.#base, this.#model, this.#expires] = [model, model, model.expires];
    Object.assign(this.#status, { version: model.version, loads: this.#status.loads + 1, error: null, deltaError: null });
    for (const { resolve } of this.#waiting.splice(0)) resolve(model);
    this.#options.onChange?.(model);
  }

  // Lets the program refuse a version.
  async #ask(model) {
    try {
      await this.#options.onLoad?.(model);
    } catch (cause) {
      throw Object.assign(new RefusedError(`version ${model.version}: refused by the program: ${cause?.message ?? cause}`), { cause });
    }
  }

  // Applies the deltas of the version that is served. After a break in the chain all of them are asked for again.
  async #runDeltas() {
    let base = null, state = null, failures = 0;
    while (!this.#stop.signal.aborted) {
      if (!this.#base) {
        await this.#pause(0, retryMin / 10);
        continue;
      }
      if (this.#base !== base) [base, state, failures] = [this.#base, this.#base, 0];
      try {
        const { frames, first, took } = await this.#source.deltas(this.#trust.model, base.version, state.position.sequence, this.#stop.signal);
        if (frames.length) {
          const applied = state.applied({ ...this.#trust, first }, frames);
          this.#serve(base, state, applied.model);
          state = applied.model;
          if (applied.refused) throw errorOf(applied.refused);
          took?.(applied.whole, applied.next);
        }
        failures = 0;
        this.#status.deltaError = null;
        continue;
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#status.deltaError = error;
        if (error instanceof SnapshotError) this.#status.deltasRefused++;
        if (error instanceof ChainError) state = base;
      }
      await this.#pause(failures++, retryMax);
    }
  }

  #serve(base, before, next) {
    if (this.#base !== base || next === before) return;
    const gained = next.position.sequence - this.#model.position.sequence;
    if (gained <= 0) return;
    this.#model = next;
    this.#status.deltasApplied += gained;
    this.#options.onChange?.(next);
  }

  #pause(failures, most) {
    const time = Math.min(retryMin * 2 ** Math.min(failures, 10), most) * (0.8 + 0.4 * Math.random());
    return new Promise((resolve) => {
      const done = () => (clearTimeout(timer), resolve());
      const timer = setTimeout(() => (this.#stop.signal.removeEventListener("abort", done), resolve()), time);
      this.#stop.signal.addEventListener("abort", done, { once: true });
    });
  }
}

// isOf reports whether two pointers are of one move of the alias, perhaps renewed.
const isOf = (a, b) => a.version === b?.version && a.sequence === b.sequence && a.manifest_digest === b.manifest_digest;

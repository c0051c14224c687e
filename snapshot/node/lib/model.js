// A version in memory.
import { InputError } from "./errors.js";

const forgotten = new FinalizationRegistry(({ module, handle }) => {
  try {
    module.call("close", { handle });
  } catch {
    // the module has ended: its memory is gone, too
  }
});

/** A version, perhaps with deltas or a history. It never changes. */
export class Model {
  #module;
  #handle;
  #classes;
  #named; // fields of names

  constructor(module, described) {
    this.#module = module;
    this.#handle = described.handle;
    this.manifest = described.manifest;
    this.position = described.position;
    this.signedBy = described.signed_by;
    this.expires = described.expires.startsWith("0001-") ? null : new Date(described.expires);
    this.historyField = described.history_field || null;
    const schema = described.manifest.schema;
    this.#classes = schema.classes ?? null;
    this.#named = [...(schema.categorical ?? []), ...(schema.multi ?? [])];
    forgotten.register(this, { module, handle: described.handle }, this);
  }

  get version() {
    return this.manifest.version;
  }

  /** The names that probabilities of a multiclass or multilabel label are in the order of; null for others. */
  get classes() {
    return this.#classes;
  }

  /** The label of an event, or of each of a list. */
  predict(events) {
    return each(this.prediction(events), (p) => p.prediction);
  }

  /** The probabilities of an event, or of each of a list; null where the model has none. */
  predictProba(events) {
    return each(this.prediction(events), (p) => p.probabilities);
  }

  /** All that the model says of an event, or of each of a list. */
  prediction(events) {
    const many = Array.isArray(events);
    const answer = this.#module.call("predict", { handle: this.#handle, events: this.#said(many ? events : [events]) });
    return many ? answer : answer[0];
  }

  /** The names of a field that are predicted best with the rest of an event, best first. */
  topk(event, over, { k = 10, exclude = [], where = null, className = "" } = {}) {
    const names = namesOf(exclude);
    exactly("exclude", names);
    this.#said([event, where]);
    return this.#module.call("topk", { handle: this.#handle, event, over, k, exclude: names, where, class: className });
  }

  /** A prediction with what each feature and pair of features adds to its outputs. */
  explain(event) {
    return this.#module.call("explain", { handle: this.#handle, event: this.#said([event])[0] });
  }

  /** The model with a history: labelled events, oldest first. The first `held` of them are ones that the version has learned from. */
  fold(history, { held = 0, field = "", weights = null } = {}) {
    return new Model(this.#module, this.#module.call("fold", { handle: this.#handle, history: this.#said(history), held, field, weights }));
  }

  /** The digest of all that the model says, without a history: two machines that agree have the same. */
  payloadDigest() {
    return this.#module.call("digest", { handle: this.#handle });
  }

  /** Gives the memory back. The model is not to be used any more. */
  close() {
    forgotten.unregister(this);
    this.#module.call("close", { handle: this.#handle });
  }

  // Returns events unless a name is a number beyond 2^53, which was rounded before it came here.
  #said(events) {
    if (Array.isArray(events)) for (const event of events) for (const field of this.#named) exactly(field, event?.[field]);
    return events;
  }

  /** For the reader: the model after deltas, and what was read of them. */
  applied(ask, frames) {
    const answer = this.#module.call("apply", { ...ask, handle: this.#handle }, [frames]);
    return { ...answer, model: answer.handle ? new Model(this.#module, answer) : this };
  }
}

const exactly = (field, names) => {
  for (const name of Array.isArray(names) ? names : [names])
    if (Number.isInteger(name) && !Number.isSafeInteger(name))
      throw new InputError(`${field}: ${name} is beyond 2^53 and may be another name: write it as a string or a BigInt`);
};

const each = (answers, part) => (Array.isArray(answers) ? answers.map(part) : part(answers));

const namesOf = (names) => {
  const text = typeof names === "string" || names instanceof Uint8Array; // the bytes of a text are no names
  if (text || typeof names?.[Symbol.iterator] !== "function") throw new TypeError("exclude takes a list or a set of names");
  return [...names];
};

// Types of refitd-snapshot.

/** A name: 5, 5n and "5" are one. A number beyond 2^53 is refused. */
export type Name = string | number | bigint;
/** An event: names, numbers, lists of names. null and undefined are missing. */
export type Event = Record<string, Name | boolean | readonly Name[] | null | undefined>;
/** A condition of a top list on what tables know: a name, names, true or false, or bounds of a number. */
export type Where = Record<string, Name | boolean | readonly Name[] | { min?: number; max?: number }>;

export interface Prediction {
  prediction: number | string | string[];
  /** The names of a binary label, in the order of probabilities. */
  classes?: string[];
  outputs: (number | null)[];
  /** Of the classes or levels; null where the model has none. */
  probabilities: (number | null)[] | null;
  /** The classes of a multiclass label, best first. */
  ranked?: string[];
  /** Names such as user=u9 that the model does not know: they count nothing. */
  unseen: string[];
  /** Optional fields that the event lacks. */
  absent: string[];
}

export interface Explanation extends Prediction {
  /** They add up to the outputs; the strongest first. */
  terms: { features: string[]; contribution: (number | null)[] }[];
}

export interface Item {
  name: string;
  prediction: number | null;
}

export interface TopKOptions {
  k?: number;
  exclude?: Iterable<Name>;
  where?: Where | null;
  /** Of multiclass and multilabel models: the class to rank by. */
  className?: string;
}

export interface FoldOptions {
  /** How many events, the first, the version has learned from. */
  held?: number;
  /** The field whose names have the history. */
  field?: string;
  weights?: number[] | null;
}

/** A version, perhaps with deltas or a history. It never changes. */
export declare class Model {
  readonly version: number;
  readonly manifest: any;
  readonly position: { version: number; sequence: number; digest?: string };
  readonly signedBy: string;
  readonly expires: Date | null;
  readonly historyField: string | null;
  readonly classes: string[] | null;
  predict(event: Event): Prediction["prediction"];
  predict(events: readonly Event[]): Prediction["prediction"][];
  predictProba(event: Event): Prediction["probabilities"];
  predictProba(events: readonly Event[]): Prediction["probabilities"][];
  prediction(event: Event): Prediction;
  prediction(events: readonly Event[]): Prediction[];
  topk(event: Event, over: string, options?: TopKOptions): Item[];
  explain(event: Event): Explanation;
  fold(history: readonly Event[], options?: FoldOptions): Model;
  payloadDigest(): string;
  close(): void;
}

export interface Source {
  alias(model: string, alias: string, last: any, signal?: AbortSignal): Promise<{ fromFile: boolean; parts: Uint8Array[] } | null>;
  read(model: string, version: number, name: string, most: number, signal?: AbortSignal): Promise<Uint8Array | null>;
  deltas?(model: string, version: number, after: number, signal?: AbortSignal, wait?: boolean):
    Promise<{ frames: Uint8Array; first: number; took?(whole: number, next: number): void }>;
}

export interface Options {
  alias?: string;
  /** Public keys in PEM. With them, versions and aliases have to be signed by one of them. */
  keys?: string | string[] | null;
  allowExpired?: boolean;
  /** Headers of requests to a daemon. */
  headers?: Record<string, string>;
  /** Milliseconds between two looks at a directory, 250 unless said otherwise. */
  every?: number;
  /** The time that expiries are compared with, for tests. */
  now?: Date;
}

export interface OpenOptions extends Options {
  version?: number;
  /** With what changed since the version was published. */
  deltas?: boolean;
}

export interface WatchOptions extends Options {
  deltas?: boolean;
  /** A version to serve whatever the alias says. */
  pin?: number;
  /** Called with each version before it is served; an error refuses it. */
  onLoad?: (model: Model) => void | Promise<void>;
  /** Called with each model that is served, also after deltas. */
  onChange?: (model: Model) => void;
}

export interface Status {
  version: number;
  loads: number;
  refused: number;
  deltasApplied: number;
  deltasRefused: number;
  error: Error | null;
  deltaError: Error | null;
  /** Until when the model may be used, by its manifest or a later renewal; null is for ever. */
  expires: Date | null;
  position: Model["position"] | null;
}

export declare class Watcher {
  readonly model: Model | null;
  readonly status: Status;
  wait(timeout?: number): Promise<Model>;
  close(): void;
}

/** Reads a version, verified and tested. store is a directory (Node), a URL of a daemon, or a Source. */
export declare function open(store: string | Source, model: string, options?: OpenOptions): Promise<Model>;
/** Follows an alias. It does not wait for the first model. */
export declare function watch(store: string | Source, model: string, options?: WatchOptions): Promise<Watcher>;

export declare class HTTPSource implements Source {
  constructor(url: string, options?: { headers?: Record<string, string> });
  alias: Source["alias"];
  read: Source["read"];
  deltas: NonNullable<Source["deltas"]>;
}

/** Node only. */
export declare class DirSource implements Source {
  constructor(store: string, options?: { every?: number });
  alias: Source["alias"];
  read: Source["read"];
  deltas: NonNullable<Source["deltas"]>;
}

export declare class SnapshotError extends Error {}
export declare class NotFoundError extends SnapshotError {}
export declare class DigestError extends SnapshotError {}
export declare class FormatError extends SnapshotError {}
export declare class GoldenError extends SnapshotError {}
export declare class SignatureError extends SnapshotError {}
export declare class ChainError extends SnapshotError {}
export declare class ContentsError extends SnapshotError {}
export declare class ExpiredError extends SnapshotError {}
export declare class OlderError extends SnapshotError {}
export declare class BadKeyError extends SnapshotError {}
export declare class BadNameError extends SnapshotError {}
export declare class InputError extends SnapshotError {}
export declare class NoFoldInError extends SnapshotError {}

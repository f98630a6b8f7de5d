/** A person's device in a study: see docs/guides/javascript.md. */

/** What can be sent and received in place of HTTP, for tests and other networks. */
export interface Asks {
  /** Whether nobody on the way can read what is sent. */
  private: boolean;
  ask(method: string, path: string, body?: string, token?: string | null): Promise<{ status: number; body: Uint8Array }>;
}

/** Keeps the state of devices. `change` runs `edit` on the state; when it resolves, the new state is durable. */
export interface Box {
  change<T>(edit: (state: { [study: string]: Kept }) => T): Promise<T>;
}

/** What a device keeps of one study. Never a record. */
export interface Kept {
  reports: { id: string; due: number; body: string | null; state: string }[];
  head: string | null;
  evidence: [string, string][];
  visit: number | null;
}

/** A box that lasts as long as the program. */
export class MemoryBox implements Box {
  change<T>(edit: (state: { [study: string]: Kept }) => T): Promise<T>;
}

/** Whether an Ed25519 signature is that of this key. */
export type Verify = (key: Uint8Array, signature: Uint8Array, signed: Uint8Array) => boolean | Promise<boolean>;

export interface Options {
  /** What the person agreed to: "sha256:" and 64 hexadecimal digits. */
  studyHash: string;
  /** A folder (Node), the name of a database (browsers), ":memory:", or a box. Usually "discreet-device". */
  store?: string | Box;
  /** An invitation, where the study has them. */
  token?: string | null;
  /** false trusts the connection instead of signatures. */
  signatures?: boolean;
  /** Checks signatures where the platform has no Ed25519. */
  verify?: Verify;
  /** The second party of a shuffled study, where the declaration names none. */
  shuffler?: string | Asks;
  /** Seals the messages of shuffled studies, where @hpke/core cannot be loaded: HPKE, one-time key and ciphertext. */
  seal?: (key: Uint8Array, info: Uint8Array, contents: Uint8Array[]) => Promise<Uint8Array[]>;
  /** For rehearsals: reports leave when the episode is finished, so their time tells how long it took. */
  atOnce?: boolean;
  /** Seconds since 1970; for tests. */
  clock?: () => number;
  /** Random bytes; for tests. */
  entropy?: (count: number) => Uint8Array;
}

/** What a device knows of the declaration that was agreed to. */
export interface Study {
  readonly hash: string;
  readonly title: string;
  readonly states: number;
  readonly actions: number;
  readonly horizon: number;
  readonly stateLabels: string[] | null;
  readonly actionLabels: string[] | null;
  readonly start: number | null;
  readonly rewards: [number, number];
  readonly earlyEnd: boolean;
  readonly model: string;
  readonly epsilon: number;
  readonly delta: number;
  readonly cap: number;
  readonly window: number;
  readonly key: string;
  readonly sealing: string;
  readonly shuffler: string;
  /** Shuffled studies: the local epsilon that is left if both parties act together, or "none". */
  readonly alone: unknown;
  readonly kind: {
    readonly name: string;
    readonly steps: number;
    readonly response: string;
    readonly masked: boolean;
    readonly layout: string;
    readonly groups: number;
    readonly firstVisits: boolean;
    readonly stated: string;
  };
}

/** A report that has not been answered yet: when it leaves, and exactly what. */
export interface Waiting {
  id: string;
  due: number;
  state: string;
  body: { study: string; round: number; id: string; [name: string]: unknown };
}

export class Device {
  constructor(url: string | Asks, options: Options);
  /** How many steps an episode has; known after begin() or study(). */
  readonly horizon: number;
  /** The study, fetched and checked at the first use. */
  study(): Promise<Study>;
  /** How many reports this device has begun. */
  reports(): Promise<number>;
  /** Pairs of signed heads for one round: proof of different views. */
  evidence(): Promise<{ [name: string]: unknown }[][]>;
  /** What has not been answered yet. */
  waiting(): Promise<Waiting[]>;
  /** Draw the time of the next visit, at most "2h", "1d", ... from now. */
  plan(within: string): Promise<number>;
  /** Take the policy of the round; resolves to the time when the report leaves, in seconds since 1970. */
  begin(): Promise<number>;
  /** The action of the policy; the label of a state gives the label of an action. */
  act(step: number, state: number): number;
  act(step: number, state: string): number | string;
  /** Note what happened at a step. It stays in memory. */
  record(step: number, state: number | string, action: number | string, reward: number): void;
  /** Make the report, durable; resolves to the time when it leaves. */
  finish(): Promise<number>;
  /** Give the episode up: the empty record leaves at its time, which is returned. */
  abandon(): number;
  /** Send what is due; resolves to how many reports still wait for their time. */
  send(): Promise<number>;
  /** finish(), then send(). */
  report(): Promise<number>;
}

/** Root of all errors that the client throws on purpose. */
export class ClientError extends Error {}
/** The device refuses; nothing was sent. */
export class Refused extends ClientError {}
/** The service did not answer, or asks to come back later: send() again. */
export class Unreachable extends ClientError {}
/** The service refused for good; the report is used up. */
export class Rejected extends ClientError {
  code: string;
  reason: string;
}
/** Two different signed heads of one round, as canonical texts. */
export class SplitView extends Refused {
  evidence: [string, string];
}

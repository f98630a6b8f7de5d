/** What can go wrong on a device. No message ever quotes what a person did: errors may end up in logs. */

/** Root of all errors that the client throws on purpose. */
export class ClientError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** The device refuses: the study, the policy or what it was told is not what was agreed to. Nothing was sent. */
export class Refused extends ClientError {}

/** The service did not answer, or asks to come back later. What was to be sent is kept; send it again. */
export class Unreachable extends ClientError {}

/** The service refused for good; `code` is its word for it. A report that it refused is used up. */
export class Rejected extends ClientError {
  /** @param {string} code @param {string} reason */
  constructor(code, reason) {
    super(`the service refused (${code}): ${reason}`);
    this.code = code;
    this.reason = reason;
  }
}

/** Two different heads of one round, both signed: `evidence` holds them. */
export class SplitView extends Refused {
  /** @param {number} round @param {[string, string]} evidence canonical texts of both heads */
  constructor(round, evidence) {
    super(
      `the service has signed two different heads for round ${round}: it shows different things to different people; ` +
        "both are kept in the store as evidence, and nothing is sent",
    );
    this.evidence = evidence;
  }
}

// Requests to the service that this page came from, with the operator's token in a header.

const SILENCE = 15_000; // milliseconds without a word after which a stream counts as dead

/** What the service answered when it refused. */
export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

async function answerTo(path, token, signal) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, typeof said.reason === "string" ? said.reason : `status ${answer.status}`);
}

/** A JSON answer. */
export const ask = async (path, token) => (await answerTo(path, token, AbortSignal.timeout(SILENCE))).json();

/** The data of server-sent events, one after the other, until the stream ends or nothing is heard for long. */
export async function* events(path, token, leaving) {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE);
  try {
    const answer = await answerTo(path, token, AbortSignal.any([silent.signal, leaving]));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE);
      const pieces = (text + value).split("\n\n");
      text = pieces.pop();
      for (const piece of pieces) if (piece.startsWith("data: ")) yield JSON.parse(piece.slice(6));
    }
  } finally {
    clearTimeout(timer);
    silent.abort(); // and with it the request, if somebody stopped listening
  }
}

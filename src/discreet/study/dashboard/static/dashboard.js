// The operator's page: signs in, listens, and keeps numbers and tables up to date.
//
// A stream of events says where the study stands. What grows round by round (rounds, heads, entries of the ledger, the
// policy) is fetched when an event says that there is more of it, from where this page stopped. When the connection is
// lost, the page says so, tries again, and goes on from there.

import { Refused, ask, events } from "./connection.js";
import { byId, clock, say } from "./elements.js";
import { Arrivals, showHealth, showNow } from "./now.js";
import { Study } from "./study.js";

const [KEPT, WHY] = ["discreet operator's token", "why the operator was signed out"];
const AGAIN = [500, 1000, 2000, 4000]; // milliseconds before trying again

let token = sessionStorage.getItem(KEPT);
const leaving = new AbortController();

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

function connection(state, text) {
  byId("connection").dataset.state = state;
  say("connection", text);
}

function signedIn(yes) {
  byId("sign-in").hidden = yes;
  byId("signed-in").hidden = !yes;
  byId("bar").hidden = !yes;
}

/** Forget the token and load the page anew: nothing of what was shown stays in it for whoever sits down next. */
function leave(why) {
  leaving.abort();
  token = null;
  sessionStorage.removeItem(KEPT);
  if (why) sessionStorage.setItem(WHY, why);
  location.reload();
}

/** The form, and why it is shown again. */
function askToken() {
  signedIn(false);
  say("token-wrong", sessionStorage.getItem(WHY) ?? "");
  sessionStorage.removeItem(WHY);
  if (byId("token-wrong").textContent) byId("token").focus();
}

async function enter(given) {
  const button = byId("form").querySelector("button");
  button.disabled = true;
  try {
    await ask("v1/status", given);
  } catch (error) {
    const wrong = error instanceof Refused && error.status === 403;
    say("token-wrong", wrong ? "This is not the operator's token." : "The coordinator cannot be reached now. Try again.");
    byId("token").focus();
    return;
  } finally {
    button.disabled = false;
  }
  token = given;
  sessionStorage.setItem(KEPT, given);
  byId("form").reset();
  say("token-wrong", "");
  watch();
  byId("title").tabIndex = -1;
  byId("title").focus();
}

/** Listen until the operator leaves; after every loss of the connection, again. */
async function watch() {
  const [mine, signal] = [token, leaving.signal];
  const [study, arrivals] = [new Study(mine), new Arrivals()];
  signedIn(true);
  connection("waiting", "connecting");
  let [tries, lastTime] = [0, ""];
  let why = "";
  while (!signal.aborted) {
    try {
      for await (const { time, now } of events("v1/operator/events", mine, signal)) {
        [tries, lastTime, why] = [0, time, ""];
        connection("live", now.ended === null ? "live" : "live, study ended");
        say("last-event", `last event ${clock(time)}`);
        showNow(now);
        showHealth(now);
        arrivals.take(now);
        study.take(now);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status === 403) return leave("The token is not accepted any more. Sign in again.");
      why = error instanceof Refused ? ` (${error.message})` : "";
    }
    if (signal.aborted) return;
    const since = lastTime ? ` since ${clock(lastTime)}` : "";
    connection("lost", `no connection${since}${why}, trying again`);
    showHealth(null);
    await pause(AGAIN[Math.min(tries++, AGAIN.length - 1)]);
  }
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = byId("token").value.trim();
  if (given) enter(given);
});
byId("leave").addEventListener("click", () => leave(""));

if (token) watch();
else askToken();

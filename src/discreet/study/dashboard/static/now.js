// What changes from second to second: the open round, reports that wait, refusals, the budget, the coordinator.

import { Chart, bars } from "./charts.js";
import { byId, clock, moment, say, whole } from "./elements.js";

const SECONDS = 60;

function fill(id, value, most) {
  const bar = byId(`${id}-bar`);
  [bar.max, bar.value] = [most || 1, Math.min(value, most || 1)];
}

const sum = (counts) => Object.values(counts).reduce((total, each) => total + each, 0);

/** Write the cards. */
export function showNow(now) {
  const ended = now.ended !== null;
  say("round", whole(now.round));
  say("round-note", ended ? `the study has ended: ${now.ended}` : `open since ${moment(now.opened)}`);
  say("here", ended ? "–" : `${whole(now.waiting)} of ${whole(now.wanted)}`);
  const shuffled = now.shuffler !== null;
  const gather = shuffled ? "gather at the shuffler, which hands on whole batches" : "wait to be counted; the round closes when it has them";
  say("here-note", ended ? "nothing is taken any more" : gather);
  fill("here", now.waiting, now.wanted);
  say("all", `${whole(now.counted + now.waiting)} of ${whole(now.total)}`);
  say("all-note", `${whole(now.counted)} counted in earlier rounds`);
  fill("all", now.counted + now.waiting, now.total);
  const [loss, delta] = now.budget.spent.split(" and ");
  say("spent", loss);
  const all = now.budget.share > 1 - 1e-9;
  const left = all ? "all that was declared; releases cost nothing more" : `of ${now.budget.limit}; left: ${now.budget.left}`;
  say("spent-note", `${delta ? `and ${delta}, ` : ""}${left}`);
  fill("spent", now.budget.share, 1);
  const refused = sum(now.refused);
  say("refused", whole(refused));
  byId("shuffler-card").hidden = !shuffled;
  if (shuffled) showShuffler(now.shuffler);
  const kinds = Object.keys(now.refused).length;
  say("refused-note", refused ? `for ${kinds} ${kinds === 1 ? "reason" : "reasons"}, listed below` : "nothing yet");
}

const STATES = {
  answers: ["well", "answers", "since"],
  troubled: ["doubtful", "in trouble", "it says so since"],
  silent: ["lost", "not reached", "nothing was heard of it since"],
  unasked: ["", "…", "asked since"],
  unknown: ["", "not watched", "the study names no address of it; looked since"],
};

/** Write the card of the shuffler. */
function showShuffler({ state, since }) {
  const [kind, word, note] = STATES[state];
  byId("shuffler").dataset.state = kind;
  say("shuffler", word);
  say("shuffler-note", `${note} ${clock(since)}`);
}

/** Write the card of the coordinator; null when it cannot be reached. */
export function showHealth(now) {
  if (now === null) {
    byId("health").dataset.state = "lost";
    say("health", "not reached");
    say("health-note", "numbers on this page are the last ones that came");
    return;
  }
  const { failures, closed, closing_seconds: seconds, started } = now.process;
  byId("health").dataset.state = failures ? "doubtful" : "well";
  say("health", failures ? `${whole(failures)} ${failures === 1 ? "error" : "errors"}` : "well");
  const pace = closed ? `; a round closes in ${((1000 * seconds) / closed).toFixed(0)} ms` : "";
  say("health-note", `running since ${clock(started)}${pace}${failures ? "; see its log" : ""}`);
}

/** Reports stored in each of the last seconds, as this page has seen them come; those of a batch come at once. */
export class Arrivals {
  constructor() {
    this.chart = new Chart(byId("arrivals"), bars);
    [this.counts, this.second, this.last] = [Array(SECONDS).fill(0), Math.floor(Date.now() / 1000), null];
  }

  take(now) {
    const stored = now.counted + now.waiting;
    const come = this.last === null ? 0 : Math.max(0, stored - this.last);
    this.last = stored;
    const second = Math.floor(Date.now() / 1000);
    const passed = Math.min(SECONDS, Math.max(0, second - this.second));
    this.counts = [...this.counts.slice(passed), ...Array(passed).fill(0)];
    this.counts[SECONDS - 1] += come;
    this.second = second;
    const total = this.counts.reduce((one, two) => one + two, 0);
    this.chart.show({
      values: this.counts,
      labels: ["a minute ago", "now"],
      says: `${whole(total)} reports in the last minute, at most ${whole(Math.max(...this.counts))} in one second`,
    });
  }
}

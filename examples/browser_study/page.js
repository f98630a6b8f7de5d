/** A person's day with the app: the policy suggests, the person answers, and sees what stays and what is sent. */
import { Device, Rejected, Unreachable } from "./client/index.js";
import { readRound } from "./client/reports.js";
import { readStudy } from "./client/study.js";
import { Connection } from "./client/transport.js";
import { read } from "./client/words.js";
import { bars, button, curve, make, percent, table } from "./parts.js";

const MOMENTS = ["08:00", "10:00", "12:00", "15:00", "18:00", "21:00"];
const HASH = document.querySelector('meta[name="study"]').content;
const stage = document.getElementById("stage");
const said = document.getElementById("said");
const storeName = "day-example";

/** The service, remembering what it said about study and policy, so that the page can explain a report. */
class Watched extends Connection {
  async ask(method, path, body, token) {
    const answer = await super.ask(method, path, body, token);
    if (answer.status === 200 && path === "/v1/study") this.study = read(answer.body);
    if (answer.status === 200 && path === "/v1/policy") this.policy = read(answer.body);
    return answer;
  }
}

let habits = null; // of simulated people, for "play the rest for me"
let day = null; // the running day

/** Show a new part of the game, and take keyboard and screen reader there. */
function show(title, ...content) {
  const heading = make("h3", { tabindex: "-1" }, title);
  stage.replaceChildren(heading, ...content);
  heading.focus({ preventScroll: true });
  if (stage.getBoundingClientRect().top < 0) stage.scrollIntoView();
}

function problem(error) {
  const again = error instanceof Unreachable;
  show("That did not work", make("p", { class: "wrong" }, error.message), make("p", {}, button(again ? "Try again" : "Back", again && day?.finished ? send : welcome, "main")));
}

const guarded = (work) => (...all) => Promise.resolve().then(() => work(...all)).catch(problem);

/** Another person is another device, with a store of its own. */
function newPerson() {
  const number = Number(localStorage.getItem("person") ?? 0) + 1;
  localStorage.setItem("person", String(number));
}

function device(connection) {
  return new Device(connection, { studyHash: HASH, store: `${storeName}-${localStorage.getItem("person") ?? 0}`, atOnce: true });
}

const welcome = guarded(async () => {
  const connection = new Watched(location.origin);
  const mine = device(connection);
  const study = await mine.study();
  const [waits] = await mine.waiting();
  if (waits) return unsent(mine, study, waits);
  const left = study.cap - (await mine.reports());
  if (left <= 0) {
    return show(
      "This person has taken part",
      make("p", {}, "Each person reports once in this study, and this device keeps count of it."),
      make("p", {}, button("Play as somebody else", () => (newPerson(), welcome()), "main")),
    );
  }
  return show(
    "Before you begin",
    make("ul", {},
      make("li", {}, "You play one day: six moments, two clicks each."),
      make("li", {}, "One of the six moments, drawn beforehand, is reported. The report is randomised here, on your device."),
      make("li", {}, "You see it before it leaves. Nothing else is sent."),
    ),
    make("p", {}, button("Begin the day", () => begin(connection, mine, study), "main")),
  );
});

/** A report that a closed page has left behind: the app sends what is due whenever it starts. */
function unsent(mine, study, { body, state }) {
  day = { mine, study, round: body.round, finished: true };
  const words = state === "open" ? "The day was not finished, so it is the report of an empty day, randomised like any other: staying away tells nothing." : "It was randomised when the day was over, and has not changed since.";
  show(
    "A report of this person waits",
    make("p", {}, words),
    make("details", {}, make("summary", {}, "The message, to the letter"), make("pre", {}, JSON.stringify(body, null, 1))),
    make("div", { class: "choices" }, button("Send it", send, "main"), button("Play as somebody else", () => (newPerson(), welcome()))),
  );
}

const begin = guarded(async (connection, mine, study) => {
  await mine.begin();
  const start = study.stateLabels[study.start];
  day = { connection, mine, study, step: 0, state: start, lived: [], finished: false };
  suggest();
});

const progress = () =>
  make("ol", { class: "moments", "aria-label": "Moments of the day" }, ...MOMENTS.map((time, h) => {
    const which = h < day.step ? "past" : h === day.step ? "now" : "";
    return make("li", { class: which, ...(which === "now" ? { "aria-current": "step" } : {}) }, time);
  }));

function suggest() {
  const { mine, step, state } = day;
  day.action = mine.act(step, state);
  show(
    `${MOMENTS[step]}, moment ${step + 1} of ${MOMENTS.length}`,
    progress(),
    make("p", { class: "big" }, `You are ${state}. The app suggests `, make("strong", {}, day.action), "."),
    make("div", { class: "choices" }, button("I did it", () => answered(1), "main"), button("Not now", () => answered(0))),
    rest(),
  );
}

const rest = () => button("Play the rest of the day for me", guarded(playOn), "quiet");

function answered(followed) {
  day.followed = followed;
  if (day.step === MOMENTS.length - 1) return guarded(move)(null);
  const places = day.study.stateLabels.map((place) => button(place, guarded(() => move(place))));
  return show(
    "Where are you next?",
    progress(),
    make("p", {}, followed ? `You took ${day.action}.` : "You went on without it.", " Where does the day take you?"),
    make("div", { class: "choices" }, ...places),
    rest(),
  );
}

async function move(next) {
  const { mine, step, state, action, followed } = day;
  mine.record(step, state, action, followed);
  day.lived.push({ state, action, followed, next });
  day.step++;
  if (day.step < MOMENTS.length) {
    day.state = next;
    return suggest();
  }
  await mine.finish();
  day.finished = true;
  return explain();
}

/** The rest of the day as simulated people live it. This is their life, not a randomiser: Math.random will do. */
async function playOn() {
  habits ??= (await (await fetch("crowd.json")).json()).habits; // clicked before the first look at the crowd
  const { stateLabels, actionLabels } = day.study;
  const drawn = (chances) => {
    let left = Math.random();
    const found = chances.findIndex((chance) => (left -= chance) < 0);
    return found < 0 ? chances.length - 1 : found;
  };
  while (day && !day.finished) {
    const place = stateLabels.indexOf(day.state);
    const action = actionLabels.indexOf((day.action = day.mine.act(day.step, day.state)));
    day.followed = Number(Math.random() < habits.followed[place][action]);
    const next = day.step < MOMENTS.length - 1 ? stateLabels[drawn(habits.next[place][action])] : null;
    await move(next);
  }
}

/** All answers about a moment, in the order of their numbers, in words. */
function answersAt(study, { rows }) {
  const found = [];
  for (const [row, [, from, to]] of rows) {
    const [state, action] = [study.stateLabels[Math.floor(row / study.actions)], study.actionLabels[row % study.actions]];
    for (let next = from; next < to; next++) {
      const then = study.stateLabels[next];
      for (const followed of [0, 1]) found.push({ state, action, followed, next: then ?? null });
    }
  }
  return found;
}

const inWords = ({ state, action, followed, next }) =>
  `${state}, ${action}: ${followed ? "did it" : "not now"}${next ? `, then ${next}` : ""}`;

async function explain() {
  const { connection, mine, study, lived } = day;
  const [{ body }] = (await mine.waiting()).slice(-1);
  const round = await readRound(connection.policy, await readStudy(connection.study, HASH));
  day.round = body.round;
  const [step] = body.report.steps;
  const [sent] = body.report.items;
  const { items, threshold } = round.laws[step];
  const lie = Number(threshold) / 2 ** 62;
  const truth = 1 - (items - 1) * lie;
  const happened = inWords(lived[step]);
  const answers = answersAt(study, round.questions[step]).map((each, number) => {
    const words = inWords(each);
    return { words, isTrue: words === happened, isSent: number === sent, chance: words === happened ? truth : lie };
  });
  const same = answers[sent].isTrue;
  show(
    "Your day is over",
    make("div", { class: "stays" }, make("h4", {}, "This is what you lived"),
      make("p", {}, "It stays here, in the memory of this page. The shaded moment was drawn before the day began: the report is about it alone."),
      make("div", { class: "wide" }, table("Your day", ["time", "you were", "suggested", "you", "then"], lived.map(({ state, action, followed, next }, h) => [MOMENTS[h], state, action, followed ? "did it" : "not now", next ?? "–"]), (h) => (h === step ? "asked" : "")))),
    make("div", { class: "leaves" }, make("h4", {}, "This is what is sent"),
      make("p", { class: "big" }, `“At ${MOMENTS[step]}: ${answers[sent].words}.”`),
      make("p", {}, same ? "Chance let the truth through this time. " : "That is not what happened. ",
        `The true answer is sent with a chance of ${percent(truth)}, each of the ${items - 1} others with ${percent(lie)}. Whoever sees this report cannot be sure which it is.`),
      make("details", {}, make("summary", {}, `How likely was each of the ${items} answers?`), bars(answers, truth)),
      make("details", {}, make("summary", {}, "The message, to the letter"), make("pre", {}, JSON.stringify(body, null, 1)))),
    make("p", { class: "small" }, `Whatever you had lived, this answer would have come with a chance that differs at most by the factor ${Math.exp(study.epsilon).toFixed(1)} (epsilon ${study.epsilon}). It was drawn once, is stored, and is never drawn again. In a real study it would leave at a time that was drawn before the day began.`),
    make("div", { class: "choices" }, button("Send it", send, "main"), button("Keep it here", keep)),
  );
}

const send = guarded(async () => {
  try {
    await day.mine.send();
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    return show("The service did not take it", make("p", {}, error.message), after());
  }
  const { study, round } = day;
  return show(
    "Sent",
    make("p", {}, `The report was accepted and counts in round ${round}, among those of everybody else. `,
      `The table of your day is forgotten now; the device keeps only that it has used its ${study.cap === 1 ? "one report" : "report"}.`),
    after(),
  );
});

const keep = () => show("Nothing was sent", make("p", {}, "The report stays in the store of this page, unsent. This person's one report is used all the same."), after());

function after() {
  day = null;
  return make("p", {}, button("Play as somebody else", () => (newPerson(), welcome()), "main"));
}

let before = null; // the plan that is shown

function showPlan(policy, study) {
  const short = (action) => action.replace(/^a (short |glass of |deep )?/, "");
  const rows = policy.policy.actions.map((row, h) => [MOMENTS[h], ...row.map((action) => short(study.actionLabels[action]))]);
  const old = before;
  const changed = (i, j) => (old && old[i][j] !== rows[i][j] ? "new" : "");
  const columns = ["time", ...study.stateLabels];
  document.getElementById("plan").replaceChildren(table(`What the app suggests, in round ${policy.round}`, columns, rows, undefined, changed));
  before = rows;
}

let spoken = 0;

async function watch() {
  const connection = new Watched(location.origin);
  const study = await new Device(connection, { studyHash: HASH, store: ":memory:" }).study();
  for (;;) {
    try {
      const crowd = await (await fetch("crowd.json")).json();
      habits = crowd.habits;
      const lost = crowd.people ? crowd.regret / crowd.people : 0;
      const words =
        `${crowd.people.toLocaleString("en")} simulated people have taken part. With the plan now, people follow ` +
        `${crowd.value.toFixed(1)} of 6 suggestions a day; the best plan for them reaches ${crowd.best.toFixed(1)}. ` +
        `Learning has cost ${crowd.regret.toFixed(0)} suggestions so far (regret), ${lost.toFixed(2)} a person.`;
      document.getElementById("crowd-words").textContent = words + (crowd.over ? " The study has ended." : "");
      document.getElementById("curve").replaceChildren(curve(crowd));
      if (crowd.people >= 2 * spoken + 50) {
        said.textContent = words; // for screen readers, ever more rarely
        spoken = crowd.people;
      }
      const answer = await connection.ask("GET", "/v1/policy");
      if (answer.status === 200) showPlan(connection.policy, study);
    } catch {
      document.getElementById("crowd-words").textContent = "The service cannot be reached: is the example still running?";
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

welcome();
guarded(watch)();

// The policy as a table with the labels of the study, and as a heat map of how settled each decision is.

import { Table, byId, make, say, whole, words } from "./elements.js";

const [MOST_STATES, MOST_STEPS, ACTIONS] = [200, 60, 8]; // ACTIONS: colours of the style sheet
const percent = (share) => `${Math.round(100 * share)}%`;

export class PolicyView {
  constructor() {
    this.table = new Table(byId("policy-table"), "The policy", [], "policy");
    this.settled = new Table(byId("settled-table"), "How settled it is", [], "heat");
    byId("legend").replaceChildren(
      "changed just now ",
      ...[0, 2, 4, 6, 8, 10].map((k) => make("span", { class: `heat-${k}` }, `${10 * k}%`)),
      " always the same",
    );
  }

  show({ round, table, settled, over }, row, ended) {
    const [states, cells] = [table.states.slice(0, MOST_STATES), table.cells.slice(0, MOST_STEPS)];
    const columns = ["Situation", ...cells.map((_, step) => `Step ${step + 1}`)];
    this.table.setColumns(columns);
    this.settled.setColumns(columns);
    this.table.name(`The policy of round ${whole(round)}: what is done in each situation, at each step`);
    this.settled.name(`Share of the last ${over === 1 ? "round" : `${whole(over)} rounds`} that decide the same`);
    this.table.fill(states.map((state, s) => [words(state), ...cells.map((step) => this.action(step[s], table.certain))]));
    this.settled.fill(states.map((state, s) => [words(state), ...cells.map((_, h) => this.share(settled[h][s]))]));
    const part = states.length < table.states.length || cells.length < table.cells.length;
    say("policy-note", `${ended === null ? "What devices do now" : "What is recommended in the end"}.${part ? " Only a part is shown." : ""}`);
    const few = "There is one policy so far: this begins with the second.";
    say("settled-note", over === 1 ? few : `In how many of the last ${whole(over)} released policies the same was decided.`);
  }

  action({ action, label, share }, certain) {
    const note = certain ? [] : [" ", make("small", {}, percent(share))];
    return make("td", { class: `action action-${action % ACTIONS}` }, words(label), ...note);
  }

  share(share) {
    return make("td", { class: `heat-${Math.floor(10 * share + 1e-9)}` }, percent(share));
  }
}

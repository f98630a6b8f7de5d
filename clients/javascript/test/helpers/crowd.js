/**
 * People of a study over HTTP, each a device of its own: node crowd.js URL HASH NUMBER CHANCES [SHUFFLER], where CHANCES are those
 * of a reward of one, [state][action]; people stay in their state. Prints what each of them earned, without those whose
 * round had closed before they reported (central studies refuse them).
 */
import { Device, Rejected, Unreachable } from "../../src/index.js";

const [url, studyHash, number, chances, shuffler] = process.argv.slice(2);
const rewards = JSON.parse(chances);
const earned = [];

async function patiently(request) {
  for (let tries = 0; ; tries++) {
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof Unreachable) || tries > 20) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

while (earned.length < Number(number)) {
  const device = new Device(url, { studyHash, store: ":memory:", atOnce: true, shuffler });
  await patiently(() => device.begin());
  let sum = 0;
  for (let step = 0; step < device.horizon; step++) {
    const action = device.act(step, 0);
    const reward = Number(Math.random() < rewards[0][action]);
    device.record(step, 0, action, reward);
    sum += reward;
  }
  await device.finish();
  try {
    await patiently(() => device.send());
    earned.push(sum);
  } catch (error) {
    if (!(error instanceof Rejected && error.code === "closed")) throw error;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
console.log(JSON.stringify(earned));

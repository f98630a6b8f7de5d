/** A program that uses the declared types, and assignments that must fit: the declarations against the sources. */
import * as declared from "../../types/index.js";
import * as actual from "../../src/index.js";

const sameDevice: new (url: string | declared.Asks, options: declared.Options) => Omit<declared.Device, "act" | "waiting"> = actual.Device;
const sameBox: new () => declared.Box = actual.MemoryBox;
const names: Record<keyof typeof declared, unknown> = actual;
const otherNames: Record<keyof typeof actual, unknown> = declared;
const study: Promise<declared.Study> = new actual.Device("https://a", { studyHash: "" }).study();

export async function takePart(device: declared.Device): Promise<number> {
  await device.begin();
  for (let step = 0; step < device.horizon; step++) {
    const action: number = device.act(step, 0);
    device.record(step, 0, action, 1);
  }
  try {
    return await device.report();
  } catch (error) {
    if (error instanceof declared.Rejected) return error.code.length;
    // @ts-expect-error a report is made of the record, and takes no argument
    return device.report(1);
  }
}

void [sameDevice, sameBox, names, otherNames, study];

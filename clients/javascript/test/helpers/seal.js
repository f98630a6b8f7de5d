/** Seals whole numbers as a device does: node seal.js KEY STUDY ROUND NUMBERS prints the list of what would be sent. */
import { sealed } from "../../src/sealing.js";

const [key, study, round, numbers] = process.argv.slice(2);
console.log(JSON.stringify(await sealed(JSON.parse(numbers), key, study, Number(round))));

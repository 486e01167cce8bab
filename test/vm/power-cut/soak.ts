// `make soak`: power cuts under the newer kernel for as long as is wanted: of mounted filesystems that shrink, thick and thin beside each
// other; with UNMOUNTED=1, of those that shrink unmounted. COUNT cuts, 1,000 where none is given; SEED repeats a run's plan.
import { KERNELS } from "../kernels.ts";
import { livePowerCuts } from "./power-cycles.ts";
import { SHRINKS } from "./shrink-plan.ts";
import { UNMOUNTED_SHRINKS } from "./unmounted-shrink-plan.ts";

const DEFAULT_CUTS = 1000;
const story = process.env["UNMOUNTED"] ? UNMOUNTED_SHRINKS : SHRINKS;
const cuts = Math.ceil(Number(process.env["COUNT"] || DEFAULT_CUTS) / story.lives.length);
const seed = Number(process.env["SEED"] || Date.now() % 2 ** 32);
const environment = KERNELS.at(-1)?.environment ?? {};
// The machines end by it too; what they leave is taken away before this ends.
process.once("SIGINT", () => console.log("ending"));
console.log(`${cuts} cuts of each of ${story.lives.length} volumes, SEED=${seed}`);
const hits = await livePowerCuts({ story, cuts, seed, environment, onCut: console.log });
console.log(Object.fromEntries(hits));

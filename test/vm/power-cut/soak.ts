// `make soak`: power cuts under the newer kernel for as long as is wanted, thick and thin beside each other. COUNT cuts, 1,000 where none is
// given; SEED repeats a run's plan.
import { KERNELS } from "../kernels.ts";
import { livePowerCuts } from "./power-cycles.ts";

const DEFAULT_CUTS = 1000;
const cuts = Math.ceil(Number(process.env["COUNT"] || DEFAULT_CUTS) / 2);
const seed = Number(process.env["SEED"] || Date.now() % 2 ** 32);
const environment = KERNELS.at(-1)?.environment ?? {};
// The machines end by it too; what they leave is taken away before this ends.
process.once("SIGINT", () => console.log("ending"));
console.log(`${cuts} cuts of a thick volume and as many of a thin one, SEED=${seed}`);
const hits = await livePowerCuts({ cuts, seed, environment, onCut: console.log });
console.log(Object.fromEntries(hits));

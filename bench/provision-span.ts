// From a claim to its pod's Running: with a span of one member, and with the member driver's own class, in turns on the same
// cluster. SAMPLES=5 shortens it.
import type { ClusterUnderTest } from "../test/e2e/cluster-under-test.ts";
import { MEMBER_CLASS } from "../test/member-driver/config.ts";
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import { SPAN_CLASS, withSpanCluster } from "./cluster/span-cluster.ts";
import { type Provisioned, provision } from "./provision-span/provision.ts";
import { followProvisioning, MILESTONES } from "./provision-span/provisioning-marks.ts";

const SAMPLES = 50;
const CLASSES = { span: SPAN_CLASS, base: MEMBER_CLASS } as const;

type Samples = Readonly<Record<keyof typeof CLASSES, readonly Provisioned[]>>;

export const provisionSpanBenchmark: Benchmark = async (say) => {
  const count = settingFromEnvironment("SAMPLES", SAMPLES);
  const samples = await withSpanCluster(say, (tested) => measure(tested, count, say));
  sayMilestones(samples, say);
  const figure = (kind: keyof Samples, ratio: number): number => round(quantile(runningMsOf(samples[kind]), ratio), 0);
  return {
    n: samples.span.length,
    ...{ p50Ms: figure("span", 0.5), p99Ms: figure("span", 0.99) },
    ...{ baseP50Ms: figure("base", 0.5), baseP99Ms: figure("base", 0.99) },
  };
};

/** Which of the two comes first changes from pair to pair. The first pair is not counted: nodes load programs for it. */
async function measure(tested: ClusterUnderTest, count: number, say: Say): Promise<Samples> {
  const samples: Record<keyof Samples, Provisioned[]> = { span: [], base: [] };
  const sightings = await followProvisioning(tested);
  try {
    for (let pair = 0; pair <= count; pair += 1) {
      const pairOf: Provisioned[] = [];
      for (const kind of pair % 2 === 0 ? (["span", "base"] as const) : (["base", "span"] as const)) {
        const provisioned = await provision(tested, sightings, `${kind}-${pair}`, CLASSES[kind]);
        pairOf.push(provisioned);
        if (pair > 0) samples[kind].push(provisioned);
        say(`${pair === 0 ? "not counted" : `${pair}/${count}`}, ${kind}: ${round(provisioned.runningMs, 0)} ms`);
      }
      await Promise.all(pairOf.map(({ remove }) => remove()));
    }
  } finally {
    await sightings.stop();
  }
  return samples;
}

/** Where the time goes: in most samples, and in the slowest. */
function sayMilestones(samples: Samples, say: Say): void {
  for (const kind of ["span", "base"] as const) {
    const [slowest] = samples[kind].toSorted((a, b) => b.runningMs - a.runningMs);
    say(`${kind}, p50 of ms since the claim: ${milestonesOf(samples[kind])}`);
    say(`${kind}, the slowest: ${milestonesOf(slowest === undefined ? [] : [slowest])}`);
  }
}

function milestonesOf(samples: readonly Provisioned[]): string {
  const seen = MILESTONES.flatMap((milestone) => {
    const seenMs = samples.flatMap(({ milestones }) => milestones[milestone] ?? []);
    return seenMs.length === 0 ? [] : `${milestone} ${round(quantile(seenMs, 0.5), 0)}`;
  });
  return [...seen, `running ${round(quantile(runningMsOf(samples), 0.5), 0)}`].join(", ");
}

function runningMsOf(samples: readonly Provisioned[]): number[] {
  return samples.map(({ runningMs }) => runningMs);
}

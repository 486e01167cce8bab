import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { collectKillPoints, type KillPoint, liveWithKill } from "../harness/kill-points.ts";
import { INITIAL_SIZE, type Phase, PLAIN_PHASES } from "../harness/lifecycle.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { createStack, STACK_PROCESSES, type Stack } from "../harness/stack.ts";

const MATRIX_LIMIT_MS = 1_200_000;
const ATTEMPTS_LIMIT = 5;

/** Of the crowded life, those in which a shrink does what it does not in the plain one. */
const REPACKING_PHASES: readonly Phase[] = ["repack", "interrupt"];

/** Why no life on btrfs passes a point. A point that is neither passed nor named here fails the test. */
const NOT_PASSED: readonly (readonly [pattern: RegExp, why: string])[] = [
  [/^(bootstrap|provisioner|kubelet|resizer|demo)\//, "belongs to what stands in for the cluster, or to the demo"],
  [/^extend\/resize-(ext4|xfs)$/, "another filesystem type"],
  [
    /^shrink\/cancel-(balance|resize)$/,
    "of the two, an interrupted shrink passes the one that ran when it was interrupted",
  ],
  [/^stage\/(refresh-loop|unmount-stranger)$/, "only after a crash, or with a copy of the member attached"],
  [/^publish\/(link|read-only)$/, "the simulated disk, or a read-only pod"],
  [/^unpublish\/remove-link$/, "the simulated disk"],
  [/^remove\/data$/, "the simulated disk"],
  [/^lease\/(create|release)$/, "the first leadership ever, or a gentle end"],
  [/^(lease|event|agent-samples)\//, "in the background, at its own times"],
  [
    /^trim\//,
    "in the background after a shrink, on a busy machine not over when the next phase begins; or where a policy asks for it",
  ],
  [/^agent-admission\//, "only where the stream of samples is open to a network"],
  [
    /^(certificates|pod-webhook)\//,
    "only where the stream of samples is open to a network, or with the pod webhook; test/real/pod-webhook-crash.test.ts dies at each of them",
  ],
  [
    /^(member|member-guard|remove-member|detach|span|publish-volume|unpublish-volume)\/|^create-volume\/member$/,
    "the backend span",
  ],
  [/^lvmd-/, "the process lvmd; test/vm/lvmd/kill.vm.ts dies at each of them"],
  [/^claim\//, "claims of other drivers; test/real/ordinary-claim-crash.test.ts dies at each of them"],
  [/^node-storage\//, "when an agent starts, and then at its own times"],
  [/^(capacity|node-loss)\//, "in the background, at the nodes' own times"],
  [
    /\/(layout-of-)?logical-volume$|^create-volume\/take-back$|^delete-snapshot\//,
    "the backend lvm; test/real/lvm-operator-crash.test.ts dies at each of them",
  ],
  [
    /^stage\/(check-copy|keep-checksums|rename-(btrfs|ext4|xfs)|replay-xfs|untag-volume)$/,
    "the first stage of a copy; test/integration/storage/copy.test.ts dies at each of them",
  ],
  [
    /^(stage\/(tag|activate)-volume|extend\/grow-volume|remove\/(volume|reduction-(record|beside-lvmd))|shrink\/((record|forget)-(reduction|beside-lvmd)|reduce-volume|cancel-reduce))$/,
    "the backend lvm; test/real/lvm-crash.test.ts dies at each of them",
  ],
  [
    /^logical-volume\//,
    "the backend lvm's volumes as the agent has lvmd make them; test/real/agent-lvm-crash.test.ts dies at each of them",
  ],
  [
    /^unmounted-shrink\//,
    "an ext4 in a thin pool; test/real/lvm-crash.test.ts dies at each of them, and ext4-offline.test.ts on real LVM",
  ],
  [/^thin-pool\//, "the backend lvm's pools, at which test/vm/thin-pool.vm.ts dies"],
  [
    /^(stage\/(bind-device|make-device-(directory|file))|unstage\/(unbind-device|remove-device-file)|publish\/make-file|unpublish\/remove-file)$/,
    "a raw block volume; test/real/agent-lvm-crash.test.ts dies at each of them",
  ],
  [/^rebuild\//, "only after an object was deleted"],
  [/^new-layout\/drop$/, "only where a crash has left a layout's name alone and its claim is gone by then"],
  [/^expand-volume\//, "only where a claim's request is raised"],
  [/^write-filesystem\/delete-former$/, "only where a claim of the same name was deleted before"],
  [
    /^delete-volume\/(filesystem|layout-from-record)$/,
    "only where the claim's Filesystem or the layout outlives the claim",
  ],
];

/** A clean run may come by such a point, and the runs with a kill may not. */
function mayBeMissed(pointOrPassage: string): boolean {
  const point = pointOrPassage.replace(/\/(before|after)$/, "");
  return NOT_PASSED.some(([pattern]) => pattern.test(point));
}

const listed = JSON.parse(readFileSync("test/effect-points.json", "utf8")) as string[];

describeReal("a process that dies by SIGKILL, at every point of a volume's life", STACK_PARTS, () => {
  let stack: Stack;
  let points: readonly KillPoint[] = [];

  beforeAll(async () => {
    stack = await createStack({ initialSize: INITIAL_SIZE });
    points = await collectKillPoints(stack, "plain");
    const plain = new Set(points.map(({ passage }) => passage));
    const crowded = await collectKillPoints(stack, "crowded");
    points = [...points, ...crowded.filter(({ passage }) => passage.startsWith("shrink/") && !plain.has(passage))];
  }, MATRIX_LIMIT_MS);

  afterAll(() => stack.close(), MATRIX_LIMIT_MS);

  it("passes every effect point that there is, or it is known why not", () => {
    const passed = new Set(points.map(({ passage }) => passage.slice(0, passage.lastIndexOf("/"))));
    expect(listed.filter((point) => !passed.has(point) && !mayBeMissed(point))).toEqual([]);
  });

  it("passes no point that the generated list lacks", () => {
    const passed = points.map(({ passage }) => passage.slice(0, passage.lastIndexOf("/")));
    expect([...new Set(passed)].filter((point) => !listed.includes(point))).toEqual([]);
  });

  const diedAt = new Set<string>();

  describe.each([...PLAIN_PHASES, ...REPACKING_PHASES])("during %s", (phase: Phase) => {
    it(
      "comes back, finishes what was begun, and keeps every file",
      async () => {
        const failures: string[] = [];
        const ofPhase = points.filter((point) => point.phase === phase);
        expect(ofPhase.length).toBeGreaterThan(0);
        for (const [index, point] of ofPhase.entries()) {
          let outcome = "not passed";
          // What only an interrupted or repacking shrink passes depends on who is quicker, and comes another time.
          for (let attempt = 1; attempt <= ATTEMPTS_LIMIT && outcome === "not passed"; attempt += 1)
            outcome = await liveWithKill(stack, point, `${phase}-${index}-${attempt}`).catch(String);
          if (outcome === "died") diedAt.add(point.passage);
          if (outcome === "died" || outcome === "not passed") continue;
          failures.push(`${point.owner} at ${point.passage}: ${outcome}`);
          stack = await replaceStack(stack);
        }
        expect(failures).toEqual([]);
      },
      MATRIX_LIMIT_MS,
    );
  });

  it("has died at every point, in one phase or another", () => {
    const passages = new Set(points.map(({ passage }) => passage));
    expect([...passages].filter((passage) => !diedAt.has(passage) && !mayBeMissed(passage))).toEqual([]);
  });
});

/** After a failure nothing is known about the old one. */
async function replaceStack(old: Stack): Promise<Stack> {
  await old.close();
  const stack = await createStack({ initialSize: INITIAL_SIZE });
  for (const name of STACK_PROCESSES) await stack.start(name);
  return stack;
}

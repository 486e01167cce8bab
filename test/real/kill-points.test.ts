import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { type KillPoint, liveWithKills } from "../harness/kill-points.ts";
import { INITIAL_SIZE } from "../harness/lifecycle.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { type Stack, startStack } from "../harness/stack.ts";

/** Ten where a crash would do the most harm; test/real has all of them. */
const POINTS: readonly KillPoint[] = [
  { life: "plain", phase: "create", owner: "agent", passage: "stage/format/after" },
  { life: "plain", phase: "create", owner: "operator", passage: "create-volume/layout/after" },
  { life: "plain", phase: "extend", owner: "policy-engine", passage: "target/apply-filesystem/after" },
  { life: "plain", phase: "extend", owner: "operator", passage: "carry-target/layout/before" },
  { life: "plain", phase: "extend", owner: "agent", passage: "extend/grow-file/after" },
  { life: "plain", phase: "extend", owner: "agent", passage: "extend/resize-filesystem/before" },
  { life: "plain", phase: "shrink", owner: "agent", passage: "shrink/resize-filesystem/after" },
  { life: "plain", phase: "shrink", owner: "agent", passage: "shrink/truncate-file/after" },
  { life: "plain", phase: "shrink", owner: "agent", passage: "agent-record/write/after" },
  { life: "plain", phase: "delete", owner: "agent", passage: "remove/member/after" },
];

describeReal("a process that dies by SIGKILL", STACK_PARTS, () => {
  let stack: Stack;

  beforeAll(async () => {
    stack = await startStack({ initialSize: INITIAL_SIZE });
  });

  afterAll(() => stack.close());

  it.each(POINTS.map((point, index) => ({ ...point, index })))(
    "$owner at $passage during $phase: finishes after its restart, with every file intact",
    async ({ index, ...point }) => {
      expect(await liveWithKills(stack, [point], `case-${index}`)).toEqual([point]);
    },
  );
});

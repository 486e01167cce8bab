import { expect, it } from "@jest/globals";
import { type SeenLayout, type WhenToReport, whenToReport } from "../../../../src/agent/report/when-to-report.ts";
import type {
  FilesystemLayout,
  FilesystemLayoutSpec,
  FilesystemLayoutStatus,
} from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type { Condition } from "../../../../src/contracts/schema/schema.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";

const MEMBER = { name: "m0", devid: 1, size: "1Gi", state: "Present", allocated: "256Mi" } as const;
const FULLER = { ...MEMBER, allocated: "900Mi" } as const;
const READY: Condition = {
  type: "Ready",
  status: "True",
  reason: "Ready",
  message: "1Gi, mounted",
  lastTransitionTime: "",
};
const QUIET: Condition = { ...READY, type: "Reconciling", status: "False" };
const WAITING: Condition = { ...QUIET, status: "True", reason: "WaitingForMember", message: "waiting for m1" };
const WAITING_STILL: Condition = { ...WAITING, message: "waiting for m1 (its claim is bound)" };
const STALLED: Condition = { ...READY, type: "Stalled", reason: "ResizeFailed", message: "no" };
const RUNNING: FilesystemLayoutStatus = {
  operation: { kind: "Extend", from: "1Gi", to: "2Gi", epoch: 1, startedAt: "2030-01-01T00:00:00Z", step: "extending" },
};

const status = (reconciling: Condition, more: FilesystemLayoutStatus = {}): FilesystemLayoutStatus => ({
  observedGeneration: 1,
  mounted: true,
  members: [MEMBER],
  conditions: [READY, reconciling].map((one) => ({ ...one, observedGeneration: 1 })),
  ...more,
});
const SAID = status(QUIET);
const grant = (size: string, epoch = 1) => ({ size, minAvailable: "64Mi", expiry: "2030-01-01T00:00:00Z", epoch });

const layout = (generation: number, spec: Partial<FilesystemLayoutSpec>, said?: FilesystemLayoutStatus) => {
  const built = buildSpanLayout(spec, said);
  return { ...built, metadata: { ...built.metadata, generation } } satisfies FilesystemLayout;
};
const seen = (generation: number): FilesystemLayoutStatus => ({
  ...SAID,
  observedGeneration: generation,
  conditions: SAID.conditions?.map((one) => ({ ...one, observedGeneration: generation })),
});

it.each<[string, FilesystemLayoutStatus | undefined, FilesystemLayoutStatus, WhenToReport]>([
  ["the first that is said of a layout", undefined, SAID, "Now"],
  ["a member that is waited for", SAID, status(WAITING), "Later"],
  ["what that one waits for by now", status(WAITING), status(WAITING_STILL), "Later"],
  ["how much a member has allocated", SAID, status(QUIET, { members: [FULLER] }), "Later"],
  ["both of these", SAID, status(WAITING, { members: [FULLER] }), "Later"],
  ["a member that has nothing any more", SAID, status(QUIET, { members: [{ ...MEMBER, allocated: "0" }] }), "Now"],
  [
    "a member that is in the filesystem",
    SAID,
    status(WAITING, { members: [MEMBER, { ...MEMBER, name: "m1" }] }),
    "Now",
  ],
  ["a member of another size", SAID, status(WAITING, { members: [{ ...MEMBER, size: "2Gi" }] }), "Now"],
  ["an operation that begins", SAID, status(QUIET, RUNNING), "Now"],
  ["an operation that begins once its member is there", status(WAITING), status(QUIET, RUNNING), "Now"],
  ["an operation that has ended, and a member that is waited for", status(QUIET, RUNNING), status(WAITING), "Now"],
  ["a member that is waited for no more", status(WAITING), SAID, "Now"],
  ["what is wrong", SAID, status(WAITING, { conditions: [READY, WAITING, STALLED] }), "Now"],
  ["that it is not mounted any more", SAID, status(WAITING, { mounted: false }), "Now"],
])("%s", (_what, said, wanted, when) => {
  expect(whenToReport(undefined, layout(1, {}, said), wanted)).toBe(when);
});

const MORE = { emergency: grant("3Gi") };
const sawLast = (generation: number, spec: Partial<FilesystemLayoutSpec>, reportedGeneration = 1): SeenLayout => ({
  reportedGeneration,
  generation,
  spec: layout(generation, spec).spec,
});
it.each<[string, SeenLayout | undefined, Partial<FilesystemLayoutSpec>, WhenToReport]>([
  ["a first grant", sawLast(1, {}), MORE, "WithNext"],
  ["a larger grant", sawLast(1, { emergency: grant("2Gi") }), MORE, "WithNext"],
  [
    "a grant that is renewed",
    sawLast(1, MORE),
    { emergency: { ...grant("3Gi"), expiry: "2030-01-02T00:00:00Z" } },
    "WithNext",
  ],
  ["a larger grant that was seen before, and not reported", sawLast(2, MORE), MORE, "WithNext"],
  ["a smaller grant, whose promise ends once it is seen", sawLast(1, { emergency: grant("4Gi") }), MORE, "Later"],
  ["a grant that is taken back", sawLast(1, MORE), {}, "Later"],
  ["a grant of a deposed leader", sawLast(1, { emergency: grant("3Gi", 2) }), MORE, "Later"],
  [
    "a grant with another member",
    sawLast(1, {}),
    { ...MORE, members: [buildSpanMember("m0"), buildSpanMember("m1")] },
    "Later",
  ],
  ["a grant after one that was not seen, and may have been larger", sawLast(0, {}), MORE, "Later"],
  ["a grant, where another process has reported last", sawLast(1, {}, 0), MORE, "Later"],
  ["a grant, where this process has reported nothing yet", undefined, MORE, "Later"],
])("a layout that was seen and changes nothing: %s", (_what, saw, spec, when) => {
  expect(whenToReport(saw, layout(2, spec, SAID), seen(2))).toBe(when);
});

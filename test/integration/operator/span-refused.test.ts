// A driver gives out a disk with old data, as the parts of a span see it: another member comes at once, and the disk stays as it is.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutStatus,
} from "../../../src/contracts/kinds/filesystem-layout.ts";
import { EVENTS, PERSISTENT_VOLUMES } from "../../../src/contracts/kubernetes/resources.ts";
import { REFUSED_ANNOTATION } from "../../../src/contracts/names.ts";
import { memberStates } from "../../harness/member-states.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { provisionedSpan } from "./provisioned-span.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import { isAttached, type SpanUnderTest } from "./span-under-test.ts";

let tested: SpanCluster;
let span: SpanUnderTest;

beforeAll(async () => {
  tested = await startSpanCluster();
  ({ span } = tested);
});
afterAll(() => tested.stop());

const members = ({ spec }: FilesystemLayout): string => memberStates(spec.members).join(", ");

it("a member whose device carries something is named and stays, and another one is made, one more, and no third", async () => {
  const { handle, claim } = await span.created({ strategy: "AddMember" });
  const refused: { name: string; message: string }[] = [];
  const report = (layout?: FilesystemLayout): Promise<void> => {
    const { size = "", from = "", epoch = 1, decidedAt = "" } = layout?.spec.target ?? {};
    const failed = { kind: "Extend", outcome: "Failed", reason: "SignatureFound", reached: "2Gi" } as const;
    const status: FilesystemLayoutStatus = {
      nodeName: "node-a",
      mounted: true,
      members: [{ name: "m0", size: "2Gi", state: "Present" }],
      ...(refused.length === 0 ? {} : { refused }),
      ...(layout && {
        lastOperation: { ...failed, from, to: size, epoch, decidedAt, startedAt: decidedAt, endedAt: decidedAt },
      }),
    };
    return span.report(handle, status);
  };
  await span.publish(handle, "node-a");
  await span.untilLayout("m0 is attached", handle, isAttached("m0"));
  await report();
  await span.target(claim, "3Gi", "2Gi");
  const first = await span.untilLayout("m1 is attached", handle, isAttached("m1"));
  refused.push({ name: "m1", message: "its device carries a ext4 signature" });
  await report(first);
  const second = await span.untilLayout("m2 is attached", handle, isAttached("m2"));
  expect(members(second)).toBe("m0 2Gi Present, m1 1Gi Spare, m2 1Gi Present");
  expect(Date.parse(second.spec.target?.decidedAt ?? "")).toBe(Date.parse(first.spec.target?.decidedAt ?? "") + 1);
  const said = await span.untilCondition(
    "m1 is named",
    claim,
    "Reconciling",
    ({ reason }) => reason === "SignatureFound",
  );
  expect(said.message).toContain("whose data member m1 has: wipe it on its node");
  const { items } = await tested.cluster.client.list(EVENTS, { namespace: "shop" });
  expect(items.filter(({ reason }) => reason === "SignatureFound").map(({ type }) => type)).toEqual(["Warning"]);

  refused.push({ name: "m2", message: "its device carries a ext4 signature" });
  await report(second);
  const held = await span.untilCondition(
    "no third is made",
    claim,
    "Stalled",
    ({ reason }) => reason === "MemberLimitReached",
  );
  expect(held.message).toContain("none is added while the devices of m1 and m2 carry something");
  // Nothing of theirs goes by itself.
  expect(await span.claims(handle)).toEqual(["m0", "m1", "m2"].map((name) => `${handle}-${name}`));
});

it("a refused member is known as such where the layout was lost, and no node waits for it", async () => {
  const { client } = tested.cluster;
  const { handle } = await provisionedSpan(tested.cluster, span, "refused-and-lost");
  const mounted: FilesystemLayoutStatus = {
    nodeName: "node-a",
    mounted: true,
    members: [{ name: "m0", size: "2Gi", state: "Present" }],
  };
  await span.report(handle, mounted);
  await span.target("refused-and-lost", "3Gi", "2Gi");
  await span.untilLayout("m1 is attached", handle, isAttached("m1"));
  const refused = [{ name: "m1", message: "its device carries a ext4 signature" }];
  await span.report(handle, { ...mounted, refused });
  const before = await span.untilLayout("m2 is attached", handle, isAttached("m2"));
  const name = before.spec.members?.find((one) => one.name === "m1")?.source.claim?.volumeName ?? "";
  await untilRead(
    "its PersistentVolume to say so",
    () => client.get(PERSISTENT_VOLUMES, { name }),
    (volume) => volume?.metadata.annotations?.[REFUSED_ANNOTATION] === refused[0]?.message,
  );
  await client.delete("test/delete-layout", FILESYSTEM_LAYOUTS, { name: handle });
  const after = await span.untilLayout(
    "a new layout",
    handle,
    ({ metadata, spec }) => metadata.uid !== before.metadata.uid && spec.members !== undefined,
  );
  const states = after.spec.members?.map((one) => [one.name, one.state, one.refused]);
  expect(states).toEqual([
    ["m0", "Present", undefined],
    ["m1", "Spare", refused[0]?.message],
    ["m2", "Present", undefined],
  ]);
});
